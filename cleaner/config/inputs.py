"""The files that a command is told to read: the configuration file, server.properties, a list of keys.

A run reads its configuration twice, the second time under the locks. A pipe, ``/dev/stdin``, a FIFO or ``<(...)`` of a
shell can be read only once. A second reading would find nothing, and so lose the limits that protect. So this module
keeps the bytes of the first reading for every later one.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import InvalidConfig, as_unreadable

STDIN: Final = Path("-")
_State = tuple[int, ...]


class _Read(NamedTuple):
    """A file that was read: for which option, the bytes, and its state just before the reading."""

    option: str
    data: bytes
    state: _State
    is_regular: bool


class CommandFiles:
    """The files that one command reads. The object is asked for their content at each reading, and remembers the last
    one.
    """

    def __init__(self) -> None:
        """Read nothing yet."""
        self._read: dict[Path, _Read] = {}

    def read(self, path: Path, option: str) -> bytes:
        """Return the bytes of a file: read anew, or kept from the first reading if the file can be read only once.

        Args:
            path: the file; ``-`` is stdin.
            option: the option or key that names the file; two of them cannot share what can be read only once.

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


def _state(status: os.stat_result) -> _State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
