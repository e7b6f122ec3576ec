"""The check of configuration files. It finds all problems of all files at once, and touches no log dir."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from cleaner.config.inputs import CommandFiles
from cleaner.config.layers import Settings, build_layers
from cleaner.config.server_properties import misspelt, read_server_properties
from cleaner.config.settings import examine_settings
from policies.config.config_layers import ConfigLayers
from storage.errors import InvalidConfig, InvalidConfigs, UnreadableFile
from storage.properties import Property

_MOSTLY_DAYS: Final = frozenset({"retention.ms", "segment.ms"})
_MS_OF_A_SLIP: Final = 1000


def check_files(
    config: Path | None, overridden: Callable[[Settings], Settings], set_options: Sequence[str], inputs: CommandFiles
) -> tuple[Settings, ConfigLayers]:
    """Check a configuration file, the ``server.properties`` that it names, and the values of the command line.

    Args:
        config: the configuration file; None if there is none.
        overridden: replaces the settings that the command line overrides.
        set_options: ``KEY=VALUE`` of each ``--set``.
        inputs: the files of the command.

    Returns:
        The settings, and the layers without the cluster metadata, if nothing is wrong.

    Raises:
        InvalidConfigs: everything that is wrong, each problem once.
    """
    problems: list[InvalidConfig] = []
    settings = overridden(_examined(config, inputs, problems) if config else Settings())
    properties = _properties_of(settings, inputs, problems)
    layers = None
    try:
        layers = build_layers(settings, server_properties=properties, set_options=set_options)
    except InvalidConfigs as found:
        problems += found.problems
    if problems or layers is None:
        raise InvalidConfigs(tuple({str(problem): problem for problem in problems}.values()))
    return settings, layers


def slips(layers: ConfigLayers) -> Iterator[str]:
    """Yield a warning for each time limit of so few milliseconds that a unit was probably forgotten."""
    for table in (*layers.broad.values(), *(table for _, table in layers.topics_file)):
        for stated in table.values():
            value = stated.value
            if stated.key in _MOSTLY_DAYS and isinstance(value, int) and 0 < value < _MS_OF_A_SLIP:
                yield f"{stated.sentence}: {value} milliseconds; if days were meant, say {value}d"


def misspelt_of(settings: Settings, inputs: CommandFiles) -> tuple[str, ...]:
    """Return a sentence for each key of ``server.properties`` that a broker ignores, and that looks misspelt.

    A broker starts with such a file, so these keys are no problems. Raises: as ``read_server_properties``.
    """
    path = settings.server_properties
    return misspelt(path, read_server_properties(path, inputs)) if path else ()


def _examined(path: Path, inputs: CommandFiles, problems: list[InvalidConfig]) -> Settings:
    try:
        settings, found = examine_settings(path, inputs)
    except InvalidConfigs as error:
        problems += error.problems
    except InvalidConfig as error:
        problems.append(error)
    except UnreadableFile as error:
        problems.append(InvalidConfig("--config", str(path), f"cannot be read: {error.cause}"))
    else:
        problems += found
        return settings
    return Settings()


def _properties_of(
    settings: Settings, inputs: CommandFiles, problems: list[InvalidConfig]
) -> dict[str, Property] | None:
    if settings.server_properties is None:
        return None
    try:
        return read_server_properties(settings.server_properties, inputs)
    except InvalidConfig as error:
        problems.append(error)
    except UnreadableFile as error:
        where = str(settings.path or "")
        problems.append(InvalidConfig("server.properties", str(error.path), f"cannot be read: {error.cause}", where))
    return None
