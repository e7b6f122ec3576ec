"""The files that state a configuration: their bytes, read once, their states, and a broker's ``server.properties``.

A run reads its configuration twice, the second time under the locks. A pipe, ``/dev/stdin``, a FIFO or ``<(...)`` of a
shell can be read only once. A second reading would find nothing, and so lose the limits that protect. So this module
keeps the bytes of the first reading for every later one.

The state of a file or directory shows cheaply, without opening it, whether anything changed. A state means nothing by
itself: callers compare it with another state of the same file.

A ``server.properties`` of no broker must not switch on Kafka's default limits.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from policies.config.config_sources import misspelt_in
from storage.errors import InvalidConfig, as_unreadable
from storage.names import LOCK_FILE
from storage.properties import Property, parse_properties
from storage.stores.paths import StoredPath

STDIN: Final = Path("-")
_State = tuple[int, ...]

_OF_A_BROKER: Final = frozenset(
    {"node.id", "broker.id", "process.roles", "log.dirs", "log.dir", "zookeeper.connect", "listeners"}
)
_QUORUM_PREFIX: Final = "controller.quorum."
_OF_META_PROPERTIES: Final = frozenset({"version", "cluster.id", "node.id", "broker.id", "directory.id"})
_TOML_VALUE_STARTS: Final = ("[", '"', "'")
_NAME_THE_BROKERS: Final = "name the server.properties that the broker is started with"

State = tuple[object, ...]


class CommandFiles:
    """The files that one command reads.

    Every reading of the command asks this object, which remembers the bytes of the last reading.
    """

    def __init__(self) -> None:
        """Read nothing yet."""
        self._read: dict[Path, _Read] = {}

    def read(self, path: Path, option: str) -> bytes:
        """Return the bytes of a file: read anew, or kept from the first reading if the file can be read only once.

        Args:
            path: the file; ``-`` is stdin.
            option: the option or key that names the file; two options cannot share a file that can be read only once.

        Raises:
            UnreadableFile: it is missing, or may not be read.
            InvalidConfig: another option has read from the same pipe.
        """
        before = self._read.get(path)
        if before and not before.is_regular and before.option == option:
            return before.data
        with as_unreadable(path):
            if path == STDIN:
                return self._read_stdin(option)
            self._check_unread(path, option, path.stat())
            with path.open("rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                found = _Read(option, file.readall(), _state(status), stat.S_ISREG(status.st_mode))
        self._read[path] = found
        return found.data

    def has_changed(self, path: Path) -> bool:
        """Return whether a file that was read may have been replaced or changed by now."""
        read = self._read.get(path)
        if read is None or not read.is_regular:
            return False
        try:
            return _state(path.stat()) != read.state
        except OSError:
            return True

    def data_of(self, path: Path) -> bytes | None:
        """Return the bytes of a file, as they were read last; None if it was not read."""
        return self._read[path].data if path in self._read else None

    def _read_stdin(self, option: str) -> bytes:
        try:
            status = os.fstat(sys.stdin.fileno())
        except OSError:  # no file of the system stands behind it
            state: _State = ()
        else:
            self._check_unread(STDIN, option, status)
            state = _state(status)
        data = sys.stdin.buffer.read()
        self._read[STDIN] = _Read(option, data, state, is_regular=False)
        return data

    def _check_unread(self, path: Path, option: str, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode):
            return
        for read in self._read.values():
            if not read.is_regular and read.state[:2] == _state(status)[:2]:
                reason = f"can be read only once, and {read.option} has read it; put one of the two into a file"
                raise InvalidConfig(option, str(path), reason)


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
    """Return a sentence for each key that a broker ignores and that is probably a misspelt key of Kafka's."""
    return tuple(
        f"{path} line {found[written].line}: a broker has no key {written}, and ignores it; did you mean {meant}?"
        for written, meant in misspelt_in(found)
    )


def state_of_file(path: Path | str) -> tuple[int, ...]:
    """Return the state of a single file, or of an entry of a directory; an absent file has a state, too."""
    try:
        found = path.stat() if isinstance(path, StoredPath) else os.stat(path)  # noqa: PTH116 - it may be an entry's
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def state_of_directory(path: Path) -> State:
    """Return the state of all entries of a directory except the lock; the empty state if it cannot be read.

    The state of a log dir changes with a checkpoint, and with the names in a partition (a roll, a deletion, a
    compaction). It does not change with an append.
    """
    if isinstance(path, StoredPath):  # the first listing of a store holds for the whole command
        return (str(path),)
    try:
        with os.scandir(path) as entries:
            return tuple(
                sorted((entry.name, *state_of_file(entry.path)) for entry in entries if entry.name != LOCK_FILE)
            )
    except OSError:
        return ()


def state_of_entries(path: Path, names: Iterable[str]) -> State:
    """Return the state of some entries of a directory, in the form of ``state_of_directory``."""
    return tuple((name, *state_of_file(path / name)) for name in names)


def with_entries(state: State, before: State, after: State) -> State:
    """Return the state of a directory after a change of some entries alone.

    Args:
        state: the earlier state of the directory.
        before: the state of the entries just before the change; if ``state`` does not have it, ``state`` is returned.
        after: the state of the same entries after the change, in the same order.
    """
    if not set(before) <= set(state):
        return state
    changes = dict(zip(before, after, strict=True))
    return tuple(changes.get(entry, entry) for entry in state)


class _Read(NamedTuple):
    """A file that was read: its option, its bytes, and its state just before the reading."""

    option: str
    data: bytes
    state: _State
    is_regular: bool


def _state(status: os.stat_result) -> _State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _why_not_of_a_broker(found: Mapping[str, Property]) -> str | None:
    if _is_toml(found):
        return f"is a TOML file, which --config takes; {_NAME_THE_BROKERS}"
    if found.keys() <= _OF_META_PROPERTIES and not found.keys().isdisjoint({"version", "cluster.id", "directory.id"}):
        return f"is the meta.properties of a log dir; {_NAME_THE_BROKERS}"
    if not any(key in _OF_A_BROKER or key.startswith(_QUORUM_PREFIX) for key in found):
        return f"has no key that tells a broker's file, such as node.id or log.dirs; {_NAME_THE_BROKERS}"
    return None


def _is_toml(found: Mapping[str, Property]) -> bool:
    """Return whether a text is TOML: a table begins in it, or a broker's key has an array or a quoted text."""
    return any(key.startswith("[") for key in found) or any(
        found[key].value.startswith(_TOML_VALUE_STARTS) for key in _OF_A_BROKER & found.keys()
    )
