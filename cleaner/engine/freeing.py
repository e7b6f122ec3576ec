"""``free``: bring every file system of the log dirs to a target, within what policy allows, and stop there.

Steps:  1. files that earlier runs renamed to ``.deleted``, partition by partition;
        2. deletions, as ``policies.rescue`` chooses them by the blocks of their files, the oldest MiB of each partition
           first. The gain of each is measured. A partition whose gain is much less than its blocks (a snapshot may keep
           them) loses nothing more, and a new plan chooses more of the others;
        3. if the plan holds compactions and the deletions do not suffice: compactions one by one, the best that fits
           into the free space.
The first two work with 0 bytes free. The lock is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cleaner.engine.compactor import KernelCheck
from cleaner.engine.executor import Executor
from cleaner.engine.inventory import volumes_of
from cleaner.engine.leftovers import Swept, gaining, kept_files, leftovers_of, sweep_partition
from cleaner.engine.means import Means
from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.engine.rehearsal import Rehearsal
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan
from policies.planning import deletion_steps, held_back, with_oldest_apart
from policies.rescue import (
    Gain,
    SpaceTarget,
    Volume,
    expected_bytes,
    narrowed,
    next_compaction,
    restricted,
    worth_compacting,
    worth_deleting,
)
from storage.log_dir import LogDir
from storage.names import JOURNAL_FILE, ROTATED_JOURNAL_FILE
from storage.segment import BLOCK_BYTES, SegmentFile

_NO_DELAY_MS: Final = 0
WAIT_SECONDS_MAX: Final = 10.0
_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Rescued:
    """The result of a rescue: the chosen part of the plan, its outcome, and the file systems before and after."""

    plan: Plan
    outcome: Outcome
    target: SpaceTarget
    before: tuple[Volume, ...]
    after: tuple[Volume, ...]
    """The same file systems afterwards. In a dry run without the gain of compactions, which is not known."""
    deleted_disk_bytes: Mapping[str, int] = field(default_factory=dict)
    """Log dir -> the bytes in blocks of the files that deletions unlinked; compactions do not count."""
    lacking: Mapping[PartitionKey, Gain] = field(default_factory=dict)
    """Partitions whose deleted files gave back much less than they took, as measured, and that lost nothing more."""

    @property
    def is_met(self) -> bool:
        """Return whether every file system has reached the target."""
        return not any(self.target.short_bytes(volume) for volume in self.after)


class Rescue:
    """One run of ``free``, or its rehearsal."""

    def __init__(
        self, log_dirs: Sequence[LogDir], means: Means, target: SpaceTarget, make_plan: Callable[[], Plan]
    ) -> None:
        """Prepare the run.

        Args:
            log_dirs: locked and recovered, for a ``run``.
            means: of the run.
            target: the space that must be free on each file system.
            make_plan: reads the facts and plans what policy allows now; its request unlinks at once.
        """
        self._log_dirs = {str(log_dir.path): log_dir for log_dir in log_dirs}
        self._means = means
        self._target = target
        self._make_plan = make_plan
        self._kernels = KernelCheck(means.listener)
        self._executors: dict[str, Executor] = {}
        self._lacking: dict[PartitionKey, Gain] = {}
        self._deleted_disk_bytes = dict.fromkeys(self._log_dirs, 0)
        self._unsettled: list[PartitionPlan] = []
        """Deletions that ``settle`` carries out."""

    def run(self, errors: list[str]) -> Rescued:
        """Free the space. ``errors`` has the earlier failures; failures beside those of partitions are added."""
        start_seconds, before = self._means.clock.seconds(), self._volumes()
        planned = self._make_plan()
        self._kernels.doable(planned)  # the line, or the error, comes before the first step
        kept = kept_files(planned)
        with ExitStack() as journals:
            for path, log_dir in self._log_dirs.items():
                executor = Executor(log_dir, self._means, planned.request)
                self._executors[path] = journals.enter_context(closing(executor))
            swept = Swept.total([self._sweep(log_dir_plan, errors) for log_dir_plan in planned.log_dirs])
            self._compact(self._delete(planned))
            if self._has_changed():
                self._compact(self._retry())
        errors += self._kernels.errors
        errors += [error for executor in self._executors.values() for error in executor.errors]
        seconds = self._means.clock.seconds() - start_seconds
        outcome = Outcome(
            False,
            self._results(),
            swept.size_bytes,
            seconds,
            self._means.stopping(),
            tuple(errors),
            no_kernels=self._kernels.error,
            swept_disk_bytes=swept.disk_bytes,
            kept=kept,
        )
        spent, after = self._spent(planned), self._volumes()
        return Rescued(spent, outcome, self._target, before, after, self._deleted_disk_bytes, self._lacking)

    def rehearse(self) -> Rescued:
        """Return what ``run`` would do, and change nothing; needs no lock."""
        start_seconds, before = self._means.clock.seconds(), self._volumes()
        planned = self._make_plan()
        self._kernels.doable(planned)  # in the order of ``run``
        swept, would_sweep = list(before), list[SegmentFile]()
        for place, volume in enumerate(before):
            for files in self._due(planned, volume):
                if self._target.short_bytes(swept[place]):
                    swept[place] = swept[place].with_freed(sum(file.disk_bytes for file in files))
                    would_sweep += files
        chosen = narrowed(planned, swept, self._target)
        rehearsal = Rehearsal(self._means, planned.request)
        doable = self._kernels.doable(chosen)
        results = {p.key: rehearsal.result(p, exact=False) for p in doable.partitions if p.has_work}
        after = tuple(volume.with_freed(expected_bytes(chosen, volume)) for volume in swept)
        total, kernels = Swept.of(would_sweep), self._kernels
        outcome = Outcome(
            True,
            results,
            total.size_bytes,
            self._means.clock.seconds() - start_seconds,
            errors=kernels.errors,
            no_kernels=kernels.error,
            swept_disk_bytes=total.disk_bytes,
            kept=kept_files(planned),
        )
        return Rescued(chosen, outcome, self._target, before, after)

    def _due(self, plan: Plan, volume: Volume) -> Iterator[list[SegmentFile]]:
        """Yield the leftovers that would go, partition by partition."""
        for log_dir_plan in plan.log_dirs:
            if log_dir_plan.facts.path in volume.log_dirs:
                for left in leftovers_of(log_dir_plan, _NO_DELAY_MS):
                    yield gaining(left.due(self._means.clock.now_ms()))

    def _sweep(self, plan: LogDirPlan, errors: list[str]) -> Swept:
        found, path = list[Swept](), plan.facts.path
        for left in leftovers_of(plan, _NO_DELAY_MS):
            if not self._is_short(path):
                break
            gauge = Gauge(self._log_dirs[path], self._means)
            swept = sweep_partition(left, self._means, errors, for_space=True)
            self._note(left.partition.key, gauge, swept.disk_bytes)
            found.append(swept)
        return Swept.total(found)

    def _delete(self, planned: Plan) -> Plan:
        """Delete in rounds, until no volume is short or nothing more may go. Return the plan of what is left.

        A round either deletes something or finds a partition that fails. Later rounds pass over that partition; if its
        files changed, only after its second failure.
        """
        while True:
            chosen = narrowed(self._sound(planned), self._volumes(), self._target, self._lacking)
            before = self._progress()
            for log_dir_plan in chosen.log_dirs:
                self._delete_in(log_dir_plan)
            self._settle()
            if self._progress() == before and not self._has_changed():
                return planned
            planned = self._retry()

    def _delete_in(self, plan: LogDirPlan) -> None:
        """Delete in one log dir, and measure each step.

        The next step of a partition that gave too little is left out.
        """
        executor = self._executors[plan.facts.path]
        for whole in deletion_steps(plan, at_once=True):
            for step in with_oldest_apart(whole):
                if step.key in self._lacking:
                    continue
                gauge, before = Gauge(executor.log_dir, self._means), self._deleted_of(step)
                executor.delete(replace(plan, partitions=(step,)))
                if self._deleted_of(step) > before:
                    self._note(step.key, gauge, _disk_bytes(step))
                else:
                    self._unsettled.append(step)

    def _settle(self) -> None:
        """Write the files that follow from the deletions, and delete segments that need an empty one in their place."""
        before = [self._deleted_of(step) for step in self._unsettled]
        for executor in self._executors.values():
            executor.settle()
        for step, count in zip(self._unsettled, before, strict=True):
            if self._deleted_of(step) > count:
                self._deleted_disk_bytes[step.facts.log_dir] += _disk_bytes(step)
        self._unsettled.clear()

    def _note(self, key: PartitionKey, gauge: Gauge, disk_bytes: int) -> None:
        """Measure the gain of deleted files of a partition."""
        self._deleted_disk_bytes[key[0]] += disk_bytes
        gain = gauge.gain(disk_bytes)
        if gain.is_lacking:
            self._lacking[key] = gain

    def _deleted_of(self, step: PartitionPlan) -> int:
        result = self._executors[step.facts.log_dir].results.get(step.key)
        return result.deleted_segments if result else 0

    def _compact(self, planned: Plan) -> None:
        planned = self._kernels.doable(planned)
        for volume in self._volumes():
            chosen = narrowed(self._sound(planned), [volume], self._target, self._lacking)
            left = {p.key: p for p in chosen.partitions if p.compaction and p.facts.log_dir in volume.log_dirs}
            while self._is_short(volume.log_dirs[0]) and not self._means.stopping():
                step = next_compaction(left.values(), self._volume_of(volume.log_dirs[0]).free_bytes)
                if step is None:
                    break
                del left[step.key]
                assert step.compaction is not None
                self._means.listener.expect(step.compaction.size_bytes)
                self._executors[step.facts.log_dir].compact_partition(step)

    def _has_changed(self) -> bool:
        return any(executor.changed for executor in self._executors.values())

    def _retry(self) -> Plan:
        """Make a new plan. Partitions whose files had changed since the last plan are tried once more."""
        planned = self._make_plan()
        for executor in self._executors.values():
            executor.retry(planned)
        return planned

    def _sound(self, planned: Plan) -> Plan:
        """Return the plan without the partitions that failed in this run."""
        sound = [p for p in planned.partitions if p.key not in self._failed()]
        counts = {p.key: len(p.deletion.segments) for p in sound if p.deletion}
        return restricted(planned, counts, {p.key for p in sound})

    def _spent(self, planned: Plan) -> Plan:
        """Return the first plan with the actions that were done, that failed, or that did not fit."""
        results, compacted = self._results(), {key for key, r in self._results().items() if r.compacted_from_bytes}
        guards = {key: result.guard for key, result in results.items() if result.guard}
        unmet = {path for v in self._volumes() if self._target.short_bytes(v) for path in v.log_dirs}
        counts: dict[PartitionKey, int] = {}
        for partition in planned.partitions:
            key, most = partition.key, len(partition.deletion.segments) if partition.deletion else 0
            done = min(results[key].deleted_segments, most) if key in results else 0
            is_wanted = key not in self._lacking and (key in self._failed() or partition.facts.log_dir in unmet)
            counts[key] = max(done, worth_deleting(partition)) if is_wanted else done
        compacted |= worth_compacting(planned, unmet, self._lacking)
        return held_back(restricted(planned, counts, compacted | guards.keys(), self._lacking), guards)

    def _results(self) -> dict[PartitionKey, PartitionResult]:
        return {key: result for executor in self._executors.values() for key, result in executor.results.items()}

    def _failed(self) -> set[PartitionKey]:
        return {key for key, result in self._results().items() if result.error}

    def _progress(self) -> tuple[int, int]:
        """Return the figures that change if a round achieved something."""
        return sum(result.deleted_segments for result in self._results().values()), len(self._failed())

    def _volumes(self) -> tuple[Volume, ...]:
        return volumes_of(tuple(self._log_dirs.values()))

    def _is_short(self, log_dir: str) -> bool:
        return self._target.short_bytes(self._volume_of(log_dir)) > 0

    def _volume_of(self, log_dir: str) -> Volume:
        return next(volume for volume in self._volumes() if log_dir in volume.log_dirs)


def _disk_bytes(step: PartitionPlan) -> int:
    return sum(segment.disk_bytes for segment in step.deletion.segments) if step.deletion else 0


class Gauge:
    """Measures the gain of a deletion: the free space of the file system before it and behind it.

    Blocks can outlive the file: a snapshot or a copy shares them, or a process has the file open. And they can come
    late: ZFS and btrfs free them in the background, XFS and others a moment after the unlink. So if less is free than
    expected, the gauge syncs the file system and looks again for some seconds.
    """

    def __init__(self, log_dir: LogDir, means: Means) -> None:
        self._log_dir = log_dir
        self._means = means
        self._before_bytes = self._taken_by_others()

    def gain(self, expected_bytes: int) -> Gain:
        """Return the gain, once it is enough, or after 10 seconds."""
        gain = self._seen(expected_bytes)
        if not gain.is_lacking:
            return gain
        with suppress(OSError):  # then only wait for it
            self._log_dir.sync_file_system()
        clock = self._means.clock
        until_seconds = clock.seconds() + WAIT_SECONDS_MAX
        while (gain := self._seen(expected_bytes)).is_lacking:
            if clock.seconds() >= until_seconds or self._means.stopping():
                break
            clock.sleep(_LOOK_SECONDS)
        return gain

    def _seen(self, expected_bytes: int) -> Gain:
        return Gain(expected_bytes, self._before_bytes - self._taken_by_others())

    def _taken_by_others(self) -> int:
        """Return the bytes that all files of the file system take but our journal, which grows with each deletion."""
        journals = (self._log_dir.path / name for name in (JOURNAL_FILE, ROTATED_JOURNAL_FILE))
        return self._log_dir.space().used_bytes - sum(_blocks_bytes(path) for path in journals)


def _blocks_bytes(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_blocks * BLOCK_BYTES
    return 0
