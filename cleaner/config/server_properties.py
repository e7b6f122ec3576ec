"""A broker's ``server.properties``: a file that is no broker's must not switch Kafka's default limits on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cleaner.config.inputs import CommandFiles
from policies.config.config_sources import misspelt_in
from storage.errors import InvalidConfig
from storage.properties import Property, parse_properties

_OF_A_BROKER: Final = frozenset(
    {"node.id", "broker.id", "process.roles", "log.dirs", "log.dir", "zookeeper.connect", "listeners"}
)
_QUORUM_PREFIX: Final = "controller.quorum."
_OF_META_PROPERTIES: Final = frozenset({"version", "cluster.id", "node.id", "broker.id", "directory.id"})
_TOML_VALUE_STARTS: Final = ("[", '"', "'")
_NAME_THE_BROKERS: Final = "name the server.properties that the broker is started with"


def read_server_properties(path: Path, inputs: CommandFiles | None = None) -> dict[str, Property]:
    """Read the file that a broker is started with.

    Args:
        path: the file.
        inputs: the files of the command; without it, the file is read once.

    Raises:
        UnreadableFile: it is missing, or may not be read.
        InvalidConfig: it is another file; or a malformed ``\\uXXXX``; or a pipe that another option has read.
    """
    found = parse_properties((inputs or CommandFiles()).read(path, "--server-properties"), str(path))
    if (reason := _why_not_of_a_broker(found)) is not None:
        raise InvalidConfig("server.properties", str(path), reason)
    return found


def misspelt(path: Path, found: Mapping[str, Property]) -> tuple[str, ...]:
    """Return a sentence for each key that a broker ignores, and that probably was to be one of its keys."""
    return tuple(
        f"{path} line {found[written].line}: a broker has no key {written}, and ignores it; did you mean {meant}?"
        for written, meant in misspelt_in(found)
    )


def _why_not_of_a_broker(found: Mapping[str, Property]) -> str | None:
    if _is_toml(found):
        return f"is a TOML file, which --config takes; {_NAME_THE_BROKERS}"
    if found.keys() <= _OF_META_PROPERTIES and not found.keys().isdisjoint({"version", "cluster.id", "directory.id"}):
        return f"is the meta.properties of a log dir; {_NAME_THE_BROKERS}"
    if not any(key in _OF_A_BROKER or key.startswith(_QUORUM_PREFIX) for key in found):
        return f"has no key that tells a broker's file, such as node.id or log.dirs; {_NAME_THE_BROKERS}"
    return None


def _is_toml(found: Mapping[str, Property]) -> bool:
    """Return whether a table begins somewhere, or a broker's key has an array or a quoted text: TOML has both."""
    return any(key.startswith("[") for key in found) or any(
        found[key].value.startswith(_TOML_VALUE_STARTS) for key in _OF_A_BROKER & found.keys()
    )
