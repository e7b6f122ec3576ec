"""Bulk compaction: a Spark cluster carries out the rounds of a run, under the lock that this process holds.

A run goes in waves, each as large as the cluster's slots and the free space of the log dir allow. A wave takes all
steps before the next one begins: a driver that dies loses one wave, and the disk holds the outputs of one wave.

Steps:      1. survey: for each span a task walks over the headers, for record counts and facts about transactions. For
               each round that has such facts a task follows its transactions, without reading the log again;
            2. keys: for each span a task yields (round, keyed 128-bit hash, place) of its records. Spark finds each
               key's last place in the dirty section, and drops these keys from the clean section. It never shuffles
               values. A round that a guard rail holds back, because of its records without a key, ends here;
            3. the survivors' places become a bitmap for each unit, in scratch files;
            4. rewrite: for each unit a task writes the segment as the local engine does, fsynced, under a name of its
               own; in a store under its plain name, where every attempt leaves the same bytes;
            5. here, round by round, as with the local engine: preconditions, journal, swap, checkpoint
               (``engine.executor``).
Invariant:  until step 5 no file has a name that a broker looks at. Spark hands over the result of one attempt of a
            task. The next wave, the end of the run, or any later run's recovery removes the files of the others.
Same bytes: the local engine's code makes every decision, over the same batches in the same order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, count, islice
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark.sql import SparkSession

from cleaner.engine.compaction import Compacted, IntoCopy, Round
from cleaner.engine.compaction.passes import Span
from cleaner.engine.compaction.round import fates_maker, horizons_of, spans_of
from cleaner.engine.compaction.targets import InPlace
from cleaner.engine.means import PASSES, Listener, Means, Silent
from cleaner.engine.uncleanable import HeldBack
from cleaner.spark.bulk import tasks
from cleaner.spark.bulk.scratch import sweep
from cleaner.spark.bulk.shuffle import Answers, counted, survivor_bitmaps
from cleaner.spark.bulk.tasks import (
    GroupWork,
    KeysFound,
    RewriteTask,
    Rewritten,
    Scanned,
    ScanTask,
    Setting,
    SpanWork,
    Surveyed,
    SurveyTask,
)
from cleaner.spark.errors import SparkJobFailed, TooLargeForCluster, UnseenLogDir
from cleaner.spark.session import ERRORS, cause_of
from policies.facts import KeyCount
from policies.plan import PartitionPlan
from storage.errors import LogCleanerError, PlanOutOfDate, Stopped
from storage.filesystem import FileSystem
from storage.lock import LockLost
from storage.log_dir import LogDir
from storage.names import FileIdentity, FileKind

_PROBES_A_SLOT: Final = 4
_FILES_PROBED_MAX: Final = 100
_WAIT_SECONDS: Final = 0.2
_SCANS_A_SLOT: Final = 32
"""As many as pass 1 has."""
_WALKS: Final = 3
"""How often the tasks walk over each byte: survey, keys, rewrite."""
BYTES_A_SLOT: Final = 4 << 30
"""The most bytes of sources in a wave, for each slot: some segments for each, so that a wave keeps all slots busy."""
PARTITIONS_A_SLOT: Final = 64

Result = TypeVar("Result")


@dataclass(slots=True)
class _Prepared:
    """A round that the cluster works on, with the results so far."""

    setting: Setting
    round: Round
    units: list[GroupWork] = field(default_factory=list)
    count: KeyCount = field(default_factory=lambda: KeyCount(0, 0))
    rewritten: list[Rewritten] = field(default_factory=list)
    error: LogCleanerError | None = None


class Bulk:
    """Carries out the compactions of one run on a cluster."""

    name = "spark"

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        """Prepare; ``start`` starts a session, once there is something to compact."""
        self._start = start
        self._run = secrets.token_hex(4)
        self._prepared: dict[Path, _Prepared] = {}
        self._directories: set[Path] = set()
        self._stopping: Callable[[], bool] = lambda: False
        self._fs = FileSystem()
        self._slots_seen = 1
        self._listener: Listener = Silent()
        self._told_bytes = 0

    def begin(self, log_dirs: Sequence[Path]) -> None:
        """Check that the executors see the log dirs. Raises: UnseenLogDir, SparkJobFailed."""
        files = [seen for path in log_dirs for seen in files_seen_of(path)]
        count = _PROBES_A_SLOT * self._slots
        for error in self._map(range(count), lambda _: tasks.check_seen(files)):
            if error is not None:
                raise error

    def waves(self, steps: Sequence[PartitionPlan]) -> Iterator[Sequence[PartitionPlan]]:
        """Divide compactions in place. Output counts as large as its input; a partition alone is always tried."""
        wave: list[PartitionPlan] = []
        size_bytes = room_bytes = 0
        for step in steps:
            if step.compaction is None:
                continue
            size_bytes += step.compaction.size_bytes
            if wave and (size_bytes > room_bytes or len(wave) >= PARTITIONS_A_SLOT * self._slots):
                yield wave
                wave, size_bytes = [], step.compaction.size_bytes
            if not wave:
                free_bytes = LogDir(Path(step.facts.log_dir)).space().free_bytes
                room_bytes = min(free_bytes, BYTES_A_SLOT * self._slots)
            wave.append(step)
        if wave:
            yield wave

    def prepare(self, rounds: Iterable[tuple[Round, Path]], means: Means) -> None:
        """Carry out steps 1 to 4. ``compact`` raises the error of a failed round.

        Raises: SparkJobFailed, Stopped, UnseenLogDir.
        """
        self._stopping, self._fs, self._listener = means.stopping, means.fs, means.listener
        self.close()
        self._prepared.clear()
        batch: list[_Prepared] = []
        for round_, directory in rounds:
            prepared = _Prepared(_setting(round_, len(batch), directory), round_)
            self._prepared[round_.listing.directory] = prepared
            self._directories.add(directory)
            batch.append(prepared)
        if batch:
            self._survey(batch)
        if _units(batch) and not means.stopping():
            self._rewrite(batch)

    def compact(self, round_: Round, means: Means) -> Compacted:
        """Carry out step 5 in place."""
        target = InPlace(round_.listing, round_.policy.index_interval_bytes, means.fs, at_once=round_.is_at_once)
        return self._adopt(round_, target)

    def copy_compacted(self, round_: Round, means: Means, into: IntoCopy) -> Compacted:  # noqa: ARG002 - of a Compactor
        """Carry out step 5 in a copy."""
        return self._adopt(round_, into)

    def close(self) -> None:
        """Remove the scratch files that no result names. Who holds the lock now, if we lost it, removes them."""
        with suppress(LockLost):
            sweep(self._directories, self._fs)
        self._directories.clear()

    @cached_property
    def _spark(self) -> SparkSession:
        return self._start()

    @cached_property
    def _walked_bytes(self) -> Any:
        """The bytes that tasks have walked over: an accumulator."""
        return self._spark.sparkContext.accumulator(0)

    @property
    def _slots(self) -> int:
        """The tasks that the cluster runs at a time. If Spark is gone, as many as before: the next job tells it."""
        with suppress(*ERRORS):
            self._slots_seen = int(self._spark.sparkContext.defaultParallelism)
        return self._slots_seen

    def _adopt(self, round_: Round, target: InPlace | IntoCopy) -> Compacted:
        prepared = self._prepared.pop(round_.listing.directory, None)
        if prepared is None or _identities(prepared.round) != _identities(round_):
            raise PlanOutOfDate(round_.listing.directory, "the cluster compacted other files")
        if prepared.error:
            raise prepared.error
        if len(prepared.rewritten) < len(prepared.units):
            raise Stopped
        for unit, rewritten in zip(prepared.units, prepared.rewritten, strict=True):
            segments = [work.span.segment for work in unit.spans]
            if rewritten.segment is None:
                target.keep(segments[0])
            else:
                target.adopt(segments, rewritten.segment, rewritten.sent)
        return Compacted(
            sum(rewritten.size_bytes for rewritten in prepared.rewritten),
            sum(unit.records for unit in prepared.units),
            sum(rewritten.records for rewritten in prepared.rewritten),
            prepared.count.unkeyed,
            round_.compaction.round.end_offset,
            target.freed_bytes if isinstance(target, InPlace) else 0,
            target.space,
        )

    def _survey(self, batch: Sequence[_Prepared]) -> None:
        surveys = self._scan(batch)
        distant = [task for task in surveys.values() if not task.is_trivial]
        found = dict(zip((task.setting.round for task in distant), self._map(distant, tasks.survey), strict=True))
        units = spans = 0
        for number, task in surveys.items():
            prepared, answer = batch[number], found.get(number) or tasks.survey(task)
            if isinstance(answer, LogCleanerError):
                prepared.error = answer
                continue
            made, surveyed = [], iter(answer)
            for group in _groups_of(prepared.round):
                made.append(_unit(prepared.setting, (units, spans), group, [*islice(surveyed, len(group))]))
                units, spans = units + 1, spans + len(group)
            try:
                for unit in made:
                    unit.ensure_countable()
                prepared.units = made
            except TooLargeForCluster as error:
                prepared.error = error

    def _scan(self, batch: Sequence[_Prepared]) -> dict[int, SurveyTask]:
        """Walk over the headers of all spans. Return what is to be surveyed, by the number of the round."""
        run, walked_bytes, ordinal = self._run, self._walked_bytes, count()
        todo = [
            [ScanTask(prepared.setting, next(ordinal), span) for group in _groups_of(prepared.round) for span in group]
            for prepared in batch
        ]
        answers = iter(
            self._map(
                [*chain.from_iterable(todo)],
                lambda task: counted(tasks.scan(task, run), walked_bytes, task.span.size_bytes),
                _SCANS_A_SLOT * self._slots,
            )
        )
        surveys = {}
        for prepared, scans in zip(batch, todo, strict=True):
            scanned = [*islice(answers, len(scans))]
            for error in scanned:
                if isinstance(error, UnseenLogDir):
                    raise error
            prepared.error = next((each for each in scanned if isinstance(each, LogCleanerError)), None)
            if prepared.error is None:
                surveys[prepared.setting.round] = _survey_task(prepared, [task.span for task in scans], scanned)
        return surveys

    def _rewrite(self, batch: Sequence[_Prepared]) -> None:
        secret, run, walked_bytes = (secrets.randbits(64), secrets.randbits(64)), self._run, self._walked_bytes
        bitmaps, walked = self._job(lambda: survivor_bitmaps(self._spark, _units(batch), secret, run, walked_bytes))
        for prepared in batch:
            _note(prepared, walked)
        todo = [_rewrite_task(unit, bitmaps, walked) for unit in _units(batch)]
        answers = self._map(todo, lambda task: counted(tasks.rewrite(task, run), walked_bytes, task.unit.size_bytes))
        for task, answer in zip(todo, answers, strict=True):
            prepared = batch[task.unit.setting.round]
            if isinstance(answer, LogCleanerError):
                prepared.error = prepared.error or answer
            else:
                prepared.rewritten.append(answer)

    def _tell_progress(self) -> None:
        """Tell what tasks have walked over since the last call, as if each byte were read as often as it is here."""
        if "_walked_bytes" in vars(self):
            done_bytes = self._walked_bytes.value * PASSES // _WALKS
            self._listener.progress(done_bytes - self._told_bytes)
            self._told_bytes = done_bytes

    def _map(self, items: Sequence[Any], function: Callable[[Any], Any], tasks_max: int | None = None) -> list[Any]:
        """Apply a function to each item, each in a task of its own, and return the results. Raises: as ``_job``.

        With more items than ``tasks_max``, a task takes several.
        """
        if not len(items):
            return []
        context, slices = self._spark.sparkContext, min(len(items), tasks_max or len(items))
        return self._job(lambda: list(context.parallelize(items, slices).map(function).collect()))

    def _job(self, job: Callable[[], Result]) -> Result:
        """Wait for a job of Spark, and cancel the job if the run is to stop. Raises: SparkJobFailed, Stopped."""
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(job)
            while wait([begun], _WAIT_SECONDS).not_done:
                self._tell_progress()
                if self._stopping():
                    with suppress(*ERRORS):
                        self._spark.sparkContext.cancelAllJobs()
            self._tell_progress()
            try:
                return begun.result()
            except ERRORS as error:
                if self._stopping():
                    raise Stopped from error
                raise SparkJobFailed(cause_of(error)) from error


def files_seen_of(log_dir: Path) -> list[tasks.FileSeen]:
    """Return some files of a log dir as the driver sees them."""
    seen = []
    for _, directory in LogDir(log_dir).partitions():
        for path in sorted(path for path in directory.iterdir() if path.suffix == FileKind.LOG.value)[:1]:
            status = path.stat()
            seen.append((path, status.st_size, tasks.mark_of(path, status.st_ino, status.st_mtime_ns)))
    return seen[:_FILES_PROBED_MAX]


def _survey_task(prepared: _Prepared, spans: Sequence[Span], scanned: Sequence[Scanned]) -> SurveyTask:
    listing, log_end_offset = prepared.round.listing, prepared.round.log_end_offset
    return SurveyTask(prepared.setting, tuple(spans), tuple(scanned), listing.segments, log_end_offset)


def _setting(round_: Round, number: int, directory: Path) -> Setting:
    return Setting(
        number,
        fates_maker(round_),
        round_.compaction.round.first_dirty_offset,
        horizons_of(round_),
        round_.policy.index_interval_bytes,
        round_.policy.compaction_upgrade_format,
        directory,
    )


def _identities(round_: Round) -> list[FileIdentity]:
    return [segment.log.identity for segment in round_.segments]


def _groups_of(round_: Round) -> tuple[tuple[Span, ...], ...]:
    """Return the spans of each group."""
    by_base = {span.base_offset: span for span in spans_of(round_)}
    return tuple(tuple(by_base[base] for base in group) for group in round_.compaction.round.groups)


def _units(batch: Sequence[_Prepared]) -> list[GroupWork]:
    return [unit for prepared in batch if prepared.error is None for unit in prepared.units]


def _note(prepared: _Prepared, walked: Answers) -> None:
    """Note in a round what the walks over its spans found: errors, and counts. A guard rail may hold the round back."""
    answers = [walked[span.number] for unit in prepared.units for span in unit.spans]
    found = [answer.count for answer in answers if isinstance(answer, KeysFound)]
    prepared.count = KeyCount(sum(count.records for count in found), sum(count.unkeyed for count in found))
    prepared.error = prepared.error or next((a for a in answers if isinstance(a, LogCleanerError)), None)
    if prepared.error is None:
        try:
            prepared.round.check(prepared.count)
        except HeldBack as held:
            prepared.error = held


def _unit(setting: Setting, numbers: tuple[int, int], group: Sequence[Span], surveyed: Sequence[Surveyed]) -> GroupWork:
    """Make a unit. ``numbers`` are its own number and the number of its first span."""
    ordinals = [0, *accumulate(each.records for each in surveyed)]
    spans = [
        SpanWork(numbers[1] + place, span, ordinals[place], each.records, each.transactions)
        for place, (span, each) in enumerate(zip(group, surveyed, strict=True))
    ]
    return GroupWork(numbers[0], setting, tuple(spans))


def _rewrite_task(unit: GroupWork, bitmaps: dict[int, Path], walked: Answers) -> RewriteTask:
    answers = [walked[span.number] for span in unit.spans]
    found = tuple(answer.walk for answer in answers if isinstance(answer, KeysFound))
    assert len(found) == len(answers)  # rounds with an error were left out
    return RewriteTask(unit, bitmaps.get(unit.number), found)
