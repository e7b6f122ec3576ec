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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from cleaner.engine.doctor.leftover_facts import SWEEP, leftover_facts
from cleaner.engine.inventory import survey_clock
from cleaner.engine.journal import Journal
from cleaner.engine.locks import Locks, OwnLocks, guarded
from cleaner.engine.means import Means
from cleaner.errors import told
from policies.config.config_layers import ConfigLayers
from policies.findings.sweeping import LeftoverFacts, SweepAct, SweepVerdict, sweep_verdict
from policies.guards import clock_guard
from storage.directory import opened
from storage.errors import LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from storage.names import FileKind, parse_partition_dir_name, parse_segment_file_name


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
        """Sweep what is named. A failure stops nobody else.

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
