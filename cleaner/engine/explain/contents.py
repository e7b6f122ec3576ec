"""Read one segment: its files, its batches by their headers, and the record at an offset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.explain.observations import NO_HORIZONS, DeleteHorizons
from storage.codecs.compression import Compression
from storage.errors import LogCleanerError
from storage.log.read import read_segment
from storage.names import SEGMENT_KINDS, parse_topic_partition
from storage.records import Record
from storage.records.v2 import (
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL,
    OFFSET_MAX,
)
from storage.segment import Segment, SegmentFile

if TYPE_CHECKING:
    from storage.arrays import Integers, Table


class RecordFound(NamedTuple):
    """A record, and the batch that holds it. Sizes are in bytes, times in epoch ms."""

    offset: int
    timestamp_ms: int
    key_bytes: int | None
    """None if the record has no key."""
    value_bytes: int | None
    """None if the record is a tombstone."""
    batch_base_offset: int
    batch_last_offset: int
    position: int
    """Where the batch begins in the ``.log``."""
    compression: str
    producer_id: int
    """The producer id; -1 if the batch names none."""
    is_transactional: bool
    is_control: bool


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """The contents of one segment, by the headers of its batches."""

    files: tuple[SegmentFile, ...]
    batches: int = 0
    records: int = 0
    codecs: Mapping[str, int] = field(default_factory=dict)
    """Compression -> the number of batches."""
    transactional_batches: int = 0
    control_batches: int = 0
    producers: int = 0
    stamped: DeleteHorizons = NO_HORIZONS
    problem: str | None = None
    """Why reading ended before the end of the segment; None if it did not."""


def contents_of(segment: Segment, upper_offset: int) -> SegmentContents:
    """Read the headers of a segment up to the first damage, and report the damage.

    Args:
        segment: with a ``.log``.
        upper_offset: the base offset of the next segment, or the log end offset.
    """
    files = tuple(segment.files[kind] for kind in SEGMENT_KINDS if kind in segment.files)
    batches = records = transactional = control = 0
    codecs: Counter[str] = Counter()
    producers: set[int] = set()
    stamped, problem = NO_HORIZONS, None
    try:
        for table in _tables(segment, upper_offset):
            attributes = table["attributes"]
            batches += len(table)
            records += int(table["record_count"].sum())
            codecs.update(Compression(int(a)).name.lower() for a in attributes & ATTRIBUTE_COMPRESSION)
            transactional += int(((attributes & ATTRIBUTE_TRANSACTIONAL) != 0).sum())
            control += int(((attributes & ATTRIBUTE_CONTROL) != 0).sum())
            producers.update(int(one) for one in set(table["producer_id"].tolist()) if one >= 0)
            stamped = _joined(stamped, _stamped(table))
    except LogCleanerError as error:
        problem = str(error)
    return SegmentContents(
        files, batches, records, dict(codecs), transactional, control, len(producers), stamped, problem
    )


def stamped_batches(segments: Iterable[Segment]) -> DeleteHorizons:
    """Return the batches that carry a delete horizon. Raises: CorruptBatch, PlanOutOfDate, UnreadableFile."""
    found = NO_HORIZONS
    for segment in segments:
        for table in _tables(segment, None):
            found = _joined(found, _stamped(table))
    return found


def record_at(segment: Segment, offset: int) -> RecordFound | None:
    """Return the record at an offset; None if compaction took it, or if no batch of the segment reaches there.

    Raises: CorruptBatch, UnreadableFile.
    """
    for batch in read_segment(segment, offset, offset + 1):
        for record in batch.records():
            if record.offset == offset:
                header = batch.header
                return RecordFound(
                    offset,
                    record.timestamp_ms,
                    *_sizes(record),
                    batch.base_offset,
                    header.last_offset,
                    batch.position,
                    header.compression.name.lower(),
                    header.producer_id,
                    header.is_transactional,
                    header.is_control,
                )
    return None


def located_in(segment: Segment, start: int, end: int, *, with_control: bool) -> Iterator[Integers]:
    """Yield the places of the records of some batches, as ``layout.LOCATED_FIELDS``.

    Args:
        segment: that has them.
        start: byte of the ``.log`` at which the first one begins.
        end: byte behind the last one.
        with_control: whether markers are records, too.

    Raises: CorruptBatch, UnreadableFile.
    """
    from storage.scan.chunks import chunks  # noqa: PLC0415 - with the next four it loads the kernels
    from storage.scan.extents import Extent  # noqa: PLC0415
    from storage.scan.partitions import OffsetRange  # noqa: PLC0415
    from storage.scan.segments import open_extent  # noqa: PLC0415
    from storage.scan.slices import Damage  # noqa: PLC0415

    name = parse_topic_partition(segment.directory.name)
    assert name is not None
    log, all_offsets = segment.log, OffsetRange(0, OFFSET_MAX)
    extent = Extent(
        name, log.directory, log.file_name, log.identity.inode, segment.base_offset, start, end, all_offsets, None, ()
    )
    with open_extent(extent) as reader:
        for found in chunks(reader, extent, with_control=with_control):
            if isinstance(found, Damage):
                raise found.error
            yield found.located


def _sizes(record: Record) -> tuple[int | None, int | None]:
    return None if record.key is None else len(record.key), None if record.value is None else len(record.value)


def _tables(segment: Segment, upper_offset: int | None) -> Iterator[Table]:
    """Yield the headers of a segment's batches, as tables of ``layout.BATCH``."""
    from storage.kernels import check_usable  # noqa: PLC0415 - with the next ones: they load numpy and the kernels

    check_usable()
    from storage.scan.segments import open_segment  # noqa: PLC0415
    from storage.scan.slices import Checksums  # noqa: PLC0415

    upper = OFFSET_MAX if upper_offset is None else upper_offset
    with open_segment(segment, upper, is_locked=False) as reader:
        for found in reader.slices(checksums=Checksums.DONE):
            yield found.table


def _stamped(table: Table) -> DeleteHorizons:
    rows = table[(table["attributes"] & ATTRIBUTE_DELETE_HORIZON) != 0]
    if not len(rows):
        return NO_HORIZONS
    horizons_ms = rows["base_timestamp"]
    return DeleteHorizons(len(rows), int(rows["size"].sum()), int(horizons_ms.min()), int(horizons_ms.max()))


def _joined(one: DeleteHorizons, other: DeleteHorizons) -> DeleteHorizons:
    if not one.batches or not other.batches:
        return one if one.batches else other
    return DeleteHorizons(
        one.batches + other.batches,
        one.size_bytes + other.size_bytes,
        min(one.earliest_ms or 0, other.earliest_ms or 0),
        max(one.latest_ms or 0, other.latest_ms or 0),
    )
