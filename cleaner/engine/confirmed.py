"""The limits that were confirmed last, kept in each log dir: ``.logcleaner-limits``, which a broker ignores.

One line, as those of the journal: a CRC-32 in hexadecimal, a blank, a JSON object. It has an entry for each
configuration file that was used on the log dir, the one used last at the end. The file lies in the log dir since
whoever may delete there can write there, and since a restart, another machine or a new container find it there.

Steps:      the file is replaced as a whole, under the lock of the log dir, before anything goes by the new limits.
Invariant:  the limits of an entry never let more go than those that a person confirmed, or that a plan of everything
            let through. While something waits, what is saved is added, and nothing is taken away.
Not there:  nothing was ever confirmed: what is stated at the first start counts as confirmed. A configuration file that
            is new to a log dir is compared with the one used last there.
Damaged:    nobody knows what was confirmed, so nothing of the log dir goes until ``config apply``.
"""

from __future__ import annotations

import json
import zlib
from typing import Final, NamedTuple

from cleaner.engine.journal import encode_entry
from policies.config.configured import Configured
from policies.config.file_layers import FileLayers
from policies.reload import Confirmed
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir, read_file
from storage.names import LIMITS_FILE

_VERSION: Final = 1
_CONFIGURATIONS_MAX: Final = 16
"""A configuration file that was not used for as many others is as good as new."""


class DamagedLimits(LogCleanerError):
    """The file of the limits confirmed last cannot be read."""

    path: str
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path} is {self.cause}, so nobody knows which limits were confirmed last; look at the "
            "configuration, and confirm it with logcleaner config apply"
        )


class _Noted(NamedTuple):
    """An entry.

    Attributes:
        name: the configuration file.
        time_ms: when the entry was written, epoch ms.
        states: what was confirmed last; then what was saved since, while something waited.
    """

    name: str
    time_ms: int
    states: tuple[FileLayers, ...]


def confirmed_in(log_dir: LogDir, configured: Configured) -> Confirmed | None:
    """Return what the configuration of a run is compared with; None if it has no file that anybody could edit."""
    if configured.name is None:
        return None
    try:
        states = _states_of(configured.name, _read(log_dir))
    except LogCleanerError as error:
        return Confirmed(unreadable=str(error))
    values = FileLayers.of(configured.layers).values
    earlier = tuple(state.within(configured.layers) for state in states if state.values != values)
    had_metadata = any(state.has_metadata for state in states)
    last = states[0].within(configured.layers) if states else None
    return Confirmed(earlier, last, lost_metadata=had_metadata and configured.layers.topic_ids is None)


def note_limits(log_dir: LogDir, configured: Configured, fs: FileSystem, now_ms: int, *, waits: bool) -> bool:
    """Write down which limits hold in a log dir, if the file says otherwise.

    Args:
        log_dir: locked.
        configured: with the limits as they are saved.
        fs: the disk.
        now_ms: epoch ms.
        waits: some of the saved limits wait, or not all topics were looked at: the earlier ones stay, too.

    Returns: whether it was written. A damaged file stays as long as something waits. Raises: OutOfSpace, OSError.
    """
    if configured.name is None:
        return False
    try:
        noted = _read(log_dir)
    except LogCleanerError:
        if waits:
            return False
        noted = ()
    saved = FileLayers.of(configured.layers)
    states = _states_of(configured.name, noted) if waits else ()
    states = states if saved.values in [state.values for state in states] else (*states, saved)
    others, own = [], list[FileLayers]()
    for one in noted:
        if one.name == configured.name:
            own += one.states
        else:
            others.append(one)
    if own and [state.values for state in own] == [state.values for state in states]:
        return False
    entries = [*others, _Noted(configured.name, now_ms, states)][-_CONFIGURATIONS_MAX:]
    said = [{**one._asdict(), "states": [state.as_json() for state in one.states]} for one in entries]
    data = encode_entry({"version": _VERSION, "configurations": said})
    fs.replace_file(log_dir.path / LIMITS_FILE, data, Purpose.CHECKPOINT)
    return True


def _states_of(name: str, noted: tuple[_Noted, ...]) -> tuple[FileLayers, ...]:
    """Return the states of a configuration file; for a file that is new here, the states of the file used last."""
    own = [one for one in noted if one.name == name] or noted[-1:]
    return own[-1].states if own else ()


def _read(log_dir: LogDir) -> tuple[_Noted, ...]:
    """Return all entries; none if there is no file. Raises: DamagedLimits, UnreadableFile."""
    path = log_dir.path / LIMITS_FILE
    data = read_file(path)
    if data is None:
        return ()
    checksum, _, body = data.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        raise DamagedLimits(str(path), "damaged")
    said = json.loads(body)
    if said.get("version") != _VERSION:
        raise DamagedLimits(str(path), f"of version {said.get('version')}, which this logcleaner does not read")
    try:
        return tuple(
            _Noted(one["name"], one["time_ms"], tuple(map(FileLayers.from_json, one["states"])))
            for one in said["configurations"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedLimits(str(path), f"no list of limits ({error})") from error
