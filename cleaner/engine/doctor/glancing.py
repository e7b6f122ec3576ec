"""Tell what the ends of a segment's files are: the edges of the ``.log``, and one small read of the ``.timeindex``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from cleaner.engine.explain.contents import located_in
from cleaner.engine.explain.explaining import Glanced
from policies.facts import NO_TIMESTAMP
from policies.findings.shapes.of_files import TIME_ENTRY_BYTES
from policies.findings.shapes.symptoms import NO_EPOCH, OverflowingSegment, SegmentGlance, ZeroTail
from storage.directory import OpenFile, opened_as_parent, pread
from storage.errors import LogCleanerError, as_unreadable
from storage.holes import data_extents
from storage.indexes import RELATIVE_OFFSET_MAX
from storage.kernels.layout import KEY_BYTES
from storage.log.end import find_end
from storage.log.file_records import counted_end_of
from storage.names import FileKind
from storage.records import BatchHeader, LegacyHeader
from storage.segment import Segment, SegmentFile, reading

_CHUNK_BYTES: Final = 1 << 20


def glance_at(glanced: Glanced, *, with_keys: bool) -> tuple[SegmentGlance, ...]:
    """Return what the ends of all segments of a partition tell.

    Args:
        glanced: the segments, and their edges.
        with_keys: whether the records of the first batches are asked for their keys.

    Raises: UnreadableFile.
    """
    segments, directory = glanced.listing.segments, glanced.listing.directory
    with as_unreadable(directory), opened_as_parent(directory) as parent:
        pairs = zip(segments, glanced.edges, strict=True)
        return tuple([_glance(segment, edges.first, parent, with_keys=with_keys) for segment, edges in pairs])


def _glance(
    segment: Segment, first: BatchHeader | LegacyHeader | None, parent: int | None, *, with_keys: bool
) -> SegmentGlance:
    directory, base_offset, files = segment
    log, index = files[FileKind.LOG], files.get(FileKind.TIME_INDEX)
    first_offset, first_epoch = None if first is None else base_offset, NO_EPOCH
    if isinstance(first, BatchHeader):
        first_offset, first_epoch = first.base_offset, first.partition_leader_epoch
    return SegmentGlance(
        f"{directory}/{log.file_name}",
        base_offset,
        log.identity.size_bytes,
        first_offset,
        first_epoch,
        first.max_timestamp_ms if first else NO_TIMESTAMP,
        index.identity.size_bytes if index else None,
        _ends_with_a_zero_entry(index, parent) if index else False,
        with_keys and first is not None and _is_first_unkeyed(segment, first.size_bytes),
    )


def _ends_with_a_zero_entry(index: SegmentFile, parent: int | None) -> bool:
    size_bytes = index.identity.size_bytes
    last = size_bytes - size_bytes % TIME_ENTRY_BYTES - TIME_ENTRY_BYTES
    if last < 0:
        return False
    with reading(index.location, parent) as descriptor:
        entry = pread(descriptor, TIME_ENTRY_BYTES, last)
    return len(entry) == TIME_ENTRY_BYTES and not any(entry)


def _is_first_unkeyed(segment: Segment, batch_bytes: int) -> bool:
    """Return whether the first batch, of so many bytes, holds a record without a key; damage and a marker hold none."""
    with suppress(LogCleanerError):
        return any(
            (located[KEY_BYTES] < 0).any() for located in located_in(segment, 0, batch_bytes, with_control=False)
        )
    return False


def tails_of(glanced: Glanced, torn_bytes: int) -> Iterator[ZeroTail]:
    """Yield the bytes behind the last batch of each segment.

    Args:
        glanced: the segments, and their edges.
        torn_bytes: of the active segment, as the facts have it.

    Raises: UnreadableFile.
    """
    segments = glanced.listing.segments
    torn = [*(edges.end.torn_bytes for edges in glanced.edges[:-1]), torn_bytes]
    for segment, size_bytes in zip(segments, torn, strict=False):
        if size_bytes:
            yield tail_of(segment, size_bytes, is_active=segment is segments[-1])


def counted_end_at(segments: Sequence[Segment]) -> int | None:
    """Return the offset that a start behind a clean stop takes for the end of a log; None if it fails, or has none.

    Raises: UnreadableFile.
    """
    end = counted_end_of(segments[-1]) if segments else None
    return end.next_offset if end else None


def tail_of(segment: Segment, size_bytes: int, *, is_active: bool) -> ZeroTail:
    """Return what the last bytes of a segment are, which are no batch. Raises: UnreadableFile."""
    position = segment.size_bytes - size_bytes
    with reading(segment.log.path) as descriptor:
        is_zero = all(
            _is_zero(descriptor, max(start, position), end)
            for start, end in data_extents(descriptor, segment.size_bytes)
            if end > position
        )
    return ZeroTail(str(segment.log.path), position, size_bytes, is_zero, is_active)


def _is_zero(descriptor: OpenFile, start: int, end: int) -> bool:
    """Return whether a range of a file holds zeros alone. A hole needs no look: nobody asks for one."""
    for at in range(start, end, _CHUNK_BYTES):
        found = pread(descriptor, min(_CHUNK_BYTES, end - at), at)
        if found.count(0) < len(found):
            return False
    return True


def overflowing(segments: Sequence[Segment], log_end_offset: int) -> Iterator[OverflowingSegment]:
    """Yield the segments whose last offset no index can hold. Only where the next one begins that far is it read.

    Raises: UnreadableFile.
    """
    if not segments:  # all were lost, and the log may end anywhere
        return
    uppers = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, upper in zip(segments, uppers, strict=True):
        if upper - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
            last = find_end(segment, trust_index=False).next_offset - 1
            if last - segment.base_offset > RELATIVE_OFFSET_MAX:
                yield OverflowingSegment(str(segment.log.path), last)
