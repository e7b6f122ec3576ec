"""Plan a read: which extents each task reads, as few as the options and one query's conditions allow.

Conditions on topics, partitions, offsets and times narrow a read before any file is opened. They only narrow it: Spark
applies each condition to every row, so a row too many never reaches an answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from cleaner.engine.clock import SystemClock
from cleaner.engine.inventory import ensure_whole_copy
from cleaner.spark.table.bounds import check_chosen, check_named, range_of
from cleaner.spark.table.options import Mode, Options
from storage.directory import despite_vanishing, is_stored
from storage.errors import LogCleanerError
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.records.v2 import OFFSET_MAX
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import FoundPartition, OffsetRange, find_partitions, log_dirs_in
from storage.uploads import FILES_AT_ONCE

_T = TypeVar("_T")
_Subject = TypeVar("_Subject")

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "In": lambda value, values: value in values,
    "StartsWith": str.startswith,
    "EndsWith": str.endswith,
    "Contains": operator.contains,
}
"""The comparisons that may narrow a read, by the name of Spark's expression."""
_AT_LEAST: Final = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual")
_US_PER_MS: Final = 1000
_ASKED_TOGETHER: Final = 64
"""The questions about this machine that a thread asks in a row."""


class Comparison(NamedTuple):
    """A condition that every row of an answer passes: a column beside a constant."""

    name: str
    """A key of ``COMPARISONS``."""
    column: str
    value: Any
    """The constant; of ``timestamp`` in epoch microseconds; of ``In`` a sequence."""

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Return whether the name of a partition passes the comparison."""
        return COMPARISONS[self.name](getattr(topic_partition, self.column), self.value)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The part of the log dirs that is left to read."""

    names: tuple[Comparison, ...] = ()
    """Comparisons that the name of a partition must pass."""
    start_offset: int = 0
    end_offset: int = OFFSET_MAX
    """The end of the offsets, exclusive."""
    since_ms: int | None = None
    """The time before which no record is wanted, epoch ms; None if time does not matter."""

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Return whether the query may want records of the partition."""
        return all(comparison.holds(topic_partition) for comparison in self.names)


EVERYTHING: Final = Narrowing()


def narrowing_of(comparisons: Iterable[Comparison], mode: Mode = Mode.FAILFAST) -> Narrowing:
    """Return the part that is left to read for a query whose rows pass all these comparisons.

    Unless a damaged batch ends the query, only comparisons of topics and partitions count. The row for a damaged batch
    has no time, and the batches found behind the damage depend on the offset at which the read begins.
    """
    narrowing = EVERYTHING
    for one in comparisons:
        if one.value is None or one.name not in COMPARISONS:
            continue
        match one.column:
            case "topic" | "partition":
                narrowing = replace(narrowing, names=(*narrowing.names, one))
            case "offset" if mode is Mode.FAILFAST:
                narrowing = _within_offsets(narrowing, one)
            case "timestamp" if mode is Mode.FAILFAST and one.name in _AT_LEAST:
                since_ms = one.value // _US_PER_MS
                earlier_ms = since_ms if narrowing.since_ms is None else narrowing.since_ms
                narrowing = replace(narrowing, since_ms=max(since_ms, earlier_ms))
    return narrowing


def _within_offsets(narrowing: Narrowing, one: Comparison) -> Narrowing:
    match one.name:
        case "EqualTo" | "EqualNullSafe":
            start, end = one.value, one.value + 1
        case "LessThan":
            start, end = 0, one.value
        case "LessThanOrEqual":
            start, end = 0, one.value + 1
        case "GreaterThan":
            start, end = one.value + 1, OFFSET_MAX
        case "GreaterThanOrEqual":
            start, end = one.value, OFFSET_MAX
        case _:
            return narrowing
    return replace(
        narrowing, start_offset=max(narrowing.start_offset, start), end_offset=min(narrowing.end_offset, end)
    )


def plan_read(options: Options, narrowing: Narrowing = EVERYTHING) -> list[tuple[Extent, ...]]:
    """Return the extents of each task. Files and their lengths are those of now.

    Raises: LogCleanerError: a path, offset or file is not there, or cannot be read.
    """
    options.open_stores()
    found = find_partitions(options.paths, options.choice, options.replica)
    check_chosen(options, found)
    check_named((options.starting, options.ending), found)
    wanted = [partition for partition in found if narrowing.wants(partition.topic_partition)]
    check_whole(options, wanted, narrowing.wants)
    found_extents = for_each(wanted, lambda place: despite_vanishing(partial(_extents, place, options, narrowing)))
    check_tier(options, found)
    return list(packed([one for extents in found_extents.values() for one in extents], options.partition_bytes_max))


class TierLacksSegments(LogCleanerError):
    """Segments of a tier that cannot be read."""

    problems: tuple[str, ...]

    def __str__(self) -> str:
        more = f", and {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
        return f"{self.problems[0]}{more}; set failOnDataLoss to false to do without"


def check_tier(options: Options, found: Sequence[FoundPartition]) -> None:
    """Check that no segment of a tier was left out. Raises: TierLacksSegments."""
    if options.has_tier and options.fail_on_data_loss and found:
        from storage.tiers.view import view_at  # noqa: PLC0415 - with a tier alone

        view = view_at(found[0].directory)
        if view is not None and view.problems:
            raise TierLacksSegments(tuple(view.problems))


def for_each(places: Sequence[FoundPartition], ask: Callable[[FoundPartition], _T]) -> dict[TopicPartition, _T]:
    """Return an answer for each partition, in their order. Several threads ask.

    Raises: the first error of ``ask``.
    """
    answers = asked(places, ask, in_store=any(is_stored(place.directory) for place in places))
    return dict(zip((place.topic_partition for place in places), answers, strict=True))


def asked(subjects: Iterable[_Subject], ask: Callable[[_Subject], _T], *, in_store: bool) -> list[_T]:
    """Return an answer for each subject, in their order. Several threads ask.

    In a store each question is a request to wait for. On this machine a thread asks many in a row: to hand over a
    question takes time, too.

    Raises: the first error of ``ask``.
    """
    whole, together = list(subjects), 1 if in_store else _ASKED_TOGETHER
    groups = [whole[start : start + together] for start in range(0, len(whole), together)]

    def ask_all(group: Sequence[_Subject]) -> list[_T]:
        return [ask(subject) for subject in group]

    with ThreadPoolExecutor(FILES_AT_ONCE, "plan") as threads:
        answers = threads.map(ask_all, groups) if len(groups) > 1 else map(ask_all, groups)
        return [answer for group in answers for answer in group]


def check_whole(
    options: Options, found: Sequence[FoundPartition], wants: Callable[[TopicPartition], bool] = lambda _: True
) -> None:
    """Check that the copies among the paths have all that is read of them, as their manifests say.

    Args:
        options: the paths and the choice; with ``failOnDataLoss`` false nothing is checked.
        found: the partitions that are read.
        wants: whether a partition is read that the options choose, be it there or not.

    Raises: CopyLacksFiles, CorruptManifest, UnreadableFile.
    """
    if not options.fail_on_data_loss:
        return
    whole, names = set(log_dirs_in(options.paths)), {one.topic_partition for one in found}
    parents = {one.directory.parent for one in found}
    for root in sorted(whole):
        ensure_whole_copy(LogDir(root), lambda name: options.choice.wants(name) and wants(name))
    for root in sorted(parents - whole):
        ensure_whole_copy(LogDir(root), names.__contains__)


def _extents(partition: FoundPartition, options: Options, narrowing: Narrowing) -> list[Extent]:
    log = partition.open()
    asked = range_of(log, partition.topic_partition, options, SystemClock().now_ms())
    offsets = OffsetRange(max(asked.start, narrowing.start_offset), min(asked.end, narrowing.end_offset))
    ends_log = offsets.end == log.log_end_offset
    wanted = Wanted(offsets, narrowing.since_ms, options.partition_bytes_max, options.read_committed, ends_log)
    return list(cut_partition(partition.topic_partition, log.segments, wanted))
