"""Take leftovers that a person named one by one.

Order, each step safe to crash behind, and the next sweep of the same name goes on where one ended:
    1. the journal's line;
    2. a ``.deleted`` file: unlink; fsync of its directory;
       a ``-stray`` directory: one rename, to the name of a deleted partition; fsync of the log dir. Nothing in it is
       touched, so that it can be renamed back within the delay;
       a ``-delete`` directory: every ``.log``, fsync, the other files, fsync, the directory, fsync of the log dir. A
       broker that starts in between removes the rest.
Nothing else is taken: a verdict of ``policies.findings.sweeping`` stands before each step.

Assumes:    the lock of the log dir, so that no broker deletes or renames the same things.
Not chosen: to unlink a stray directory at once. It may be the last replica of a partition that somebody misses.

Source: Kafka LogManager.asyncDelete, LocalLog.logDeleteDirName.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from cleaner.engine.inventory import survey_clock
from cleaner.engine.journal import Journal, read_entries
from cleaner.engine.locks import Locks, OwnLocks, guarded
from cleaner.engine.means import Means
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.repair.kept import is_kept_other
from cleaner.engine.space import account_of
from cleaner.engine.undo_notes import due_ms
from cleaner.engine.verify.set_aside import sole_copies_in
from cleaner.errors import told
from policies.config.config_layers import ConfigLayers
from policies.findings.sweeping import LeftoverFacts, LeftoverKind, SweepAct, SweepVerdict, sweep_verdict
from policies.guards import clock_guard
from storage.directory import opened
from storage.errors import LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import (
    DirState,
    FileKind,
    FileState,
    PartitionDirName,
    parse_partition_dir_name,
    parse_segment_file_name,
)
from storage.segment import listed

SWEEP: Final = "sweep"
"""The kind of the journal's line."""
_NAME_BYTES_MAX: Final = 255
_UNFINISHED: Final = (FileState.SWAP, FileState.CLEANED)


def leftover_facts(log_dir: LogDir, name: str, layers: ConfigLayers, log_dirs: Sequence[LogDir] = ()) -> LeftoverFacts:
    """Look at one thing in a log dir.

    Args:
        log_dir: the log dir.
        name: its path from the log dir: a directory, or a file in one.
        layers: state the delay.
        log_dirs: all of the broker that are known: one may hold the partition whose directory is a leftover here.

    Raises: UnreadableFile, CorruptHolds, CorruptHoldIds.
    """
    parts = PurePath(name).parts
    parsed = parse_partition_dir_name(parts[0]) if parts and ".." not in parts else None
    if parsed is None or len(parts) > 2:
        return LeftoverFacts(name, LeftoverKind.OTHER)
    status = _status(log_dir.path / name)
    if status is None:
        return LeftoverFacts(name, LeftoverKind.MISSING)
    delay_ms = layers.policy_for(parsed.topic_partition.topic).file_delete_delay_ms
    if len(parts) == 2:
        return _file(log_dir, name, parsed, status, delay_ms)
    facts = _directory(log_dir, name, parsed, status, delay_ms)
    if facts.kind is LeftoverKind.OTHER:
        return facts
    found = sole_copies_in(log_dir, log_dirs or (log_dir,), layers.broker_policy().metadata_log_dir)
    return facts._replace(sole_copy=found.get(name))


def _status(path: Path) -> os.stat_result | None:
    """Return the status of an entry; None if it is not there, or the directory that holds it is a symlink."""
    try:
        with opened(path.parent) as parent:
            return os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _file(log_dir: LogDir, name: str, parsed: PartitionDirName, status: os.stat_result, delay_ms: int) -> LeftoverFacts:
    path = log_dir.path / name
    segment_file = parse_segment_file_name(path.name)
    if is_kept_other(path.name) and parsed.state is DirState.LIVE and stat.S_ISREG(status.st_mode):
        is_held, due = parsed.topic_partition in log_dir.holds(), status.st_ctime_ns // 1_000_000 + delay_ms
        return LeftoverFacts(name, LeftoverKind.DELETED_FILE, status.st_size, 1, due, is_held)
    if segment_file is None or parsed.state is not DirState.LIVE or not stat.S_ISREG(status.st_mode):
        return LeftoverFacts(name, LeftoverKind.OTHER)
    if segment_file.state in _UNFINISHED:
        return LeftoverFacts(name, LeftoverKind.UNFINISHED_FILE, status.st_size, 1)
    if segment_file.state is not FileState.DELETED:
        return LeftoverFacts(name, LeftoverKind.OTHER)
    topic_partition = parsed.topic_partition
    rule = OnlyCopies(log_dir)
    file = listed(path.parent, path.name, segment_file, status)
    due, is_held = due_ms(file, delay_ms, rule.renamed_ms(topic_partition)), topic_partition in log_dir.holds()
    facts = LeftoverFacts(name, LeftoverKind.DELETED_FILE, status.st_size, 1, due, is_held)
    kept = rule.of(topic_partition, list_partition(path.parent))
    copy = kept.copies.get(segment_file.base_offset)
    if kept.unknown_because is not None and copy is not None:
        return facts._replace(unknown_because=kept.unknown_because)
    return facts._replace(only_copy=copy)


def _directory(
    log_dir: LogDir, name: str, parsed: PartitionDirName, status: os.stat_result, delay_ms: int
) -> LeftoverFacts:
    if not stat.S_ISDIR(status.st_mode) or parsed.state not in (DirState.STRAY, DirState.DELETE):
        return LeftoverFacts(name, LeftoverKind.OTHER)
    size_bytes, files, nested = _contents(log_dir.path / name)
    if parsed.state is DirState.STRAY:
        kind = LeftoverKind.STRAY_DIRECTORY
        return LeftoverFacts(name, kind, size_bytes, files, new_name=_as_deleted(log_dir, name, parsed), nested=nested)
    due = _directory_due_ms(log_dir, name, status, delay_ms)
    return LeftoverFacts(name, LeftoverKind.DELETE_DIRECTORY, size_bytes, files, due, nested=nested)


def _contents(directory: Path) -> tuple[int, int, str | None]:
    """Return what a directory takes, the number of its files, and the first directory in it."""
    files = 0
    nested: str | None = None
    with as_unreadable(directory), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                nested = min(nested or entry.name, entry.name)
            else:
                files += 1
    return account_of(directory).total.disk_bytes, files, nested


def _as_deleted(log_dir: LogDir, name: str, parsed: PartitionDirName) -> str | None:
    """Return the name that Kafka gives the directory of a deleted partition, with the same unique id; None if it does
    not fit, or is taken. Source: Kafka LocalLog.logDeleteDirName."""
    unique = name.rpartition(".")[2].removesuffix(DirState.STRAY.value)
    new_name = f"{parsed.topic_partition}.{unique}{DirState.DELETE.value}"
    is_kafkas = parse_partition_dir_name(new_name) == PartitionDirName(parsed.topic_partition, DirState.DELETE)
    fits = len(new_name.encode()) <= _NAME_BYTES_MAX and _status(log_dir.path / new_name) is None
    return new_name if is_kafkas and fits else None


def _directory_due_ms(log_dir: LogDir, name: str, status: os.stat_result, delay_ms: int) -> int:
    """Return when the delay of a ``-delete`` directory is over, epoch ms.

    It counts from the journal's line of the sweep that renamed it; else from its change time, which a rename sets. Once
    a sweep began to unlink it, it is over: a crash in between changes nothing of that.
    """
    renamed_ms = status.st_ctime_ns // 1_000_000
    for entry in read_entries(log_dir.path, SWEEP):
        if _tells(entry, SweepAct.RENAME, "renamed_to", name):
            renamed_ms = entry["time_ms"]
        elif _tells(entry, SweepAct.UNLINK, "name", name):
            return int(entry["time_ms"])
    return int(renamed_ms) + delay_ms


def _tells(entry: Mapping[str, Any], act: SweepAct, key: str, name: str) -> bool:
    return entry.get("act") == act.value and entry.get(key) == name


class Named(NamedTuple):
    """A leftover as a person named it: a log dir, and the path from there."""

    log_dir: LogDir
    name: str


class SweepResult(NamedTuple):
    """The fate of a named leftover, or the fate that it would have."""

    log_dir: str
    facts: LeftoverFacts
    verdict: SweepVerdict
    is_done: bool = False
    error: str | None = None
    """Why the act failed; None if it did not."""


class Sweeper:
    """Sweeps named leftovers."""

    def __init__(
        self,
        means: Means,
        layers: Callable[[], ConfigLayers],
        locks: Locks | None = None,
        log_dirs: Sequence[LogDir] = (),
    ) -> None:
        """Open nothing yet.

        Args:
            means: disk, clock and listener.
            layers: reads the configuration; called under the locks.
            locks: of the log dirs; without it, the sweeper takes them itself.
            log_dirs: all of the broker that are known; without them, each is taken for the only one.
        """
        self._means = means
        self._layers = layers
        self._locks = locks or OwnLocks()
        self._log_dirs = tuple(log_dirs)

    def plan(self, named: Sequence[Named]) -> tuple[SweepResult, ...]:
        """Return what a sweep would do. Takes no lock, and changes nothing. Raises: as ``leftover_facts``."""
        layers = self._layers()
        return tuple(self._planned(one, layers) for one in named)

    def sweep(self, named: Sequence[Named]) -> tuple[SweepResult, ...]:
        """Sweep the named leftovers. A failure of one stops no other.

        Raises: LogDirLocked, UnreliableLock, UnsafeOwner; as ``leftover_facts``.
        """
        log_dirs = list(dict.fromkeys(one.log_dir for one in named))
        with ExitStack() as stack:
            taken = {d.path: stack.enter_context(self._locks.lock(d, self._means.fs)) for d in log_dirs}
            fs = guarded(self._means.fs, taken)
            layers = self._layers()
            journals = {
                d: stack.enter_context(closing(Journal(d.path, fs, self._means.clock.boot(), may_wait=True)))
                for d in log_dirs
            }
            return tuple(self._swept(one, layers, fs, journals[one.log_dir]) for one in named)

    def _planned(self, one: Named, layers: ConfigLayers) -> SweepResult:
        facts = leftover_facts(one.log_dir, one.name, layers, self._log_dirs)
        verdict = sweep_verdict(facts, self._means.clock.now_ms())
        broker = layers.broker_policy()
        guard = clock_guard(survey_clock(one.log_dir, self._means.clock, broker.clock_jump_max_ms), broker)
        if guard is not None and verdict.act is not SweepAct.LEAVE:
            verdict = SweepVerdict(SweepAct.LEAVE, f"by this clock no delay counts: {guard.text}")
        return SweepResult(str(one.log_dir.path), facts, verdict)

    def _swept(self, one: Named, layers: ConfigLayers, fs: FileSystem, journal: Journal) -> SweepResult:
        planned = self._planned(one, layers)
        facts, act = planned.facts, planned.verdict.act
        if act is SweepAct.LEAVE:
            return planned
        new_name = facts.new_name if act is SweepAct.RENAME else None
        parsed = parse_partition_dir_name(Path(one.name).parts[0])
        assert parsed is not None
        line = {
            "partition": str(parsed.topic_partition),
            "name": one.name,
            "act": act.value,
            "renamed_to": new_name,
            "bytes": facts.size_bytes,
        }
        try:
            journal.record(SWEEP, self._means.clock.now_ms(), **line)
            _carry_out(fs, one.log_dir.path, one.name, new_name)
        except (LogCleanerError, OSError) as error:
            return planned._replace(error=told(error))
        event = {"leftover": one.name, "renamed_to": new_name, "bytes": facts.size_bytes}
        self._means.listener.event("leftover_swept", log_dir=str(one.log_dir.path), **event)
        return planned._replace(is_done=True)


def _carry_out(fs: FileSystem, log_dir: Path, name: str, new_name: str | None) -> None:
    path = log_dir / name
    if new_name is not None:
        fs.rename(path, log_dir / new_name, Purpose.SWEEP)
        fs.fsync_dir(log_dir, Purpose.SWEEP)
    elif path.parent == log_dir:
        _remove_directory(fs, path)
    else:
        fs.unlink(path, Purpose.SWEEP)
        fs.fsync_dir(path.parent, Purpose.SWEEP)


def _remove_directory(fs: FileSystem, directory: Path) -> None:
    for names in _in_order(directory):
        for name in names:
            fs.unlink(directory / name, Purpose.SWEEP)
        if names:
            fs.fsync_dir(directory, Purpose.SWEEP)
    fs.remove_dir(directory, Purpose.SWEEP)
    fs.fsync_dir(directory.parent, Purpose.SWEEP)


def _in_order(directory: Path) -> Iterator[list[str]]:
    """Yield the names of the ``.log`` files, then all others: an index without its ``.log`` is nothing to a broker."""
    with as_unreadable(directory), opened(directory) as descriptor:
        names = sorted(os.listdir(descriptor))  # noqa: PTH208 - a path would be followed
    logs = [name for name in names if (found := parse_segment_file_name(name)) and found.kind is FileKind.LOG]
    yield logs
    yield [name for name in names if name not in set(logs)]
