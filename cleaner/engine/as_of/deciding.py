"""Decide where every log is cut, and which committed offsets are clamped. Nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cleaner.engine.as_of.reading import OFFSETS, CommittedOffset, LogToCut, committed_offsets, cuts_of, hung_since_ms
from cleaner.errors import told
from policies.as_of import Cut, Cuts, OpenPart, SpoilCode, cuts_given, spoiled
from policies.facts import PartitionFacts, UnreadablePartition
from policies.plan import Plan
from storage.errors import ErrorKind, InvalidConfig, LogCleanerError
from storage.log.listing import Listing
from storage.names import TopicPartition
from storage.records import iter_headers
from storage.records.v2 import OFFSET_MAX
from storage.segment import Segment, reading


class NotAsItWas(LogCleanerError):
    """Partitions that cannot be what they were at the moment. Nothing was written."""

    kind = ErrorKind.REFUSED
    names: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return (
            f"{self.names[0]}{more} cannot be as of that moment, and nothing was written: look with --dry-run; choose "
            "a later time or other topics, or add --incomplete"
        )


class CutPlace(NamedTuple):
    """The place of a cut in the files of a log."""

    kept: tuple[Segment, ...]
    """The segments that stay, the last one maybe in part."""
    last_bytes: int | None
    """How much of the last one stays; None if the log is not cut."""
    end_offset: int
    """The log end offset then."""


@dataclass(frozen=True, slots=True)
class PartitionAsOf:
    """One partition as of the moment, or the error for which it could not be read."""

    topic_partition: TopicPartition
    log_dir: str
    error: str | None = None
    log_start_offset: int = 0
    end_before: int = 0
    cut: Cut | None = None
    place: CutPlace | None = None
    older_batches: int = 0
    spoiled: SpoilCode | None = None
    clamped: tuple[CommittedOffset, ...] = ()
    """Committed offsets in this partition of ``__consumer_offsets`` that lie above the end of their partition."""
    given: int | None = None
    """The offset that a file gives."""

    @property
    def end_offset(self) -> int:
        """The log end offset of the copy, without what is appended for clamped offsets."""
        return self.place.end_offset if self.place else self.end_before


@dataclass(frozen=True, slots=True)
class AsOf:
    """All partitions as of the moment."""

    until_ms: int | None
    partitions: tuple[PartitionAsOf, ...]
    open_parts: tuple[OpenPart, ...]
    ends: Mapping[TopicPartition, int]
    """The log end offsets, with those that a file gives for partitions that are not here."""

    @property
    def spoiled(self) -> tuple[str, ...]:
        """The names of the partitions that cannot be what they were, or that could not be read."""
        return tuple(str(one.topic_partition) for one in self.partitions if one.spoiled or one.error)


_Listed = Callable[[PartitionFacts], Listing]


def decide(
    planned: Plan, listed: _Listed, until_ms: int | None, offsets: Mapping[TopicPartition, int] | None = None
) -> AsOf:
    """Read all logs of a plan, and decide.

    Args:
        planned: its partitions.
        listed: returns the files of a partition, after recovery.
        until_ms: the moment, epoch ms; None if offsets are given.
        offsets: where to cut.

    Raises: InvalidConfig if a partition has no offset.
    """
    failed, logs = list[PartitionAsOf](), dict[TopicPartition, LogToCut]()
    read = dict[TopicPartition, tuple[PartitionFacts, Listing]]()

    def fail(name: TopicPartition, error: Exception) -> None:
        failed.append(PartitionAsOf(name, read[name][0].log_dir, told(error)))

    for one in (partition for log_dir in planned.log_dirs for partition in log_dir.partitions):
        if isinstance(one, UnreadablePartition):
            failed.append(PartitionAsOf(one.topic_partition, one.log_dir, one.error))
            continue
        facts, name = one.facts, one.facts.topic_partition
        if offsets is not None and name not in offsets:
            cause = f"has no offset of {name}; write it where that partition is, or choose --topic"
            raise InvalidConfig("--until-offsets", None, cause)
        try:
            read[name] = facts, listed(facts)
            logs[name] = LogToCut(name, read[name][1], until_ms, (facts.log_start_offset, facts.log_end_offset))
        except (LogCleanerError, OSError) as error:
            failed.append(PartitionAsOf(name, facts.log_dir, told(error)))
    if offsets is not None:
        cuts = cuts_given([log.seen for log in logs.values()], offsets)
    else:
        cuts = cuts_of(logs, hung_since_ms(until_ms), fail)
    partitions = list[PartitionAsOf]()
    for name, log in logs.items():
        try:
            partitions.append(_partition(*read[name], log, cuts[name], (offsets or {}).get(name)))
        except (LogCleanerError, OSError) as error:
            fail(name, error)
    ends = {**(offsets or {}), **{one.topic_partition: one.end_offset for one in partitions}}
    clamped = [replace(one, clamped=_clamped(one, cuts, ends)) for one in partitions]
    return AsOf(until_ms, (*clamped, *failed), cuts.open_parts, ends)


def _partition(facts: PartitionFacts, listing: Listing, log: LogToCut, cut: Cut, given: int | None) -> PartitionAsOf:
    place = place_of(listing.segments, cut.offset, facts.log_start_offset, facts.log_end_offset)
    spoil = spoiled(log.seen, cut, facts.cleaner_checkpoint, log.last_hole, given)
    return PartitionAsOf(
        log.name, facts.log_dir, None, facts.log_start_offset, facts.log_end_offset, cut, place, log.older_batches,
        spoil, (), given,
    )  # fmt: skip


def place_of(segments: Sequence[Segment], cut: int, start: int, end: int) -> CutPlace:
    """Find a cut in the files. A batch that reaches over the cut is left out. Raises: CorruptBatch, UnreadableFile.

    Args:
        segments: of the log.
        cut: the offset.
        start: the log start offset; a log that is cut there or below is empty.
        end: the log end offset.
    """
    if cut >= end:
        return CutPlace(tuple(segments), None, end)
    kept = tuple(segment for segment in segments if segment.base_offset < cut) if cut > start else ()
    if not kept:
        return CutPlace((), 0, max(start, cut))
    last = kept[-1]
    position, end_offset, path = 0, last.base_offset, last.log.path
    with reading(path) as file:
        for found in iter_headers(file, path):
            if found.header.next_offset > cut:
                break
            position, end_offset = found.position + found.header.size_bytes, found.header.next_offset
    return CutPlace(kept, position, end_offset) if end_offset > start else CutPlace((), 0, start)


def _clamped(one: PartitionAsOf, cuts: Cuts, ends: Mapping[TopicPartition, int]) -> tuple[CommittedOffset, ...]:
    if one.topic_partition.topic != OFFSETS or one.place is None or one.end_offset <= one.log_start_offset:
        return ()
    span = one.log_start_offset, one.end_offset
    found = committed_offsets(one.topic_partition, one.place.kept, span, cuts.open_parts)
    return tuple(offset for offset in found if offset.offset > ends.get(offset.topic_partition, OFFSET_MAX))


def offsets_document(found: AsOf) -> bytes:
    """Return the offsets of all cuts, as a file for ``kafka-delete-records.sh`` has them."""
    entries = [
        {"topic": name.topic, "partition": name.partition, "offset": one.cut.offset}
        for one in found.partitions
        if one.cut and (name := one.topic_partition)
    ]
    return json.dumps({"partitions": entries, "version": 1}, indent=1).encode() + b"\n"


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read the file of ``offsets_document``. Raises: InvalidConfig."""

    def refused(cause: str) -> InvalidConfig:
        return InvalidConfig("--until-offsets", str(path), f"{cause}; name a file that --write-offsets wrote")

    found: dict[TopicPartition, int] = {}
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise refused(error.strerror or str(error)) from error
    except ValueError as error:
        raise refused(f"is no JSON: {error}") from error
    match document:
        case {"version": 1, "partitions": [*entries]}:
            pass
        case _:
            raise refused("has no partitions, or is not of version 1")
    for entry in entries:
        match entry:
            case {"topic": str(topic), "partition": int(number), "offset": int(offset)} if (
                type(number) is type(offset) is int and min(number, offset) >= 0
            ):
                name = TopicPartition(topic, number)
            case _:
                raise refused(f"has the entry {json.dumps(entry)}, which is no topic, partition and offset from 0")
        if name in found:
            raise refused(f"has {name} twice")
        found[name] = offset
    return found
