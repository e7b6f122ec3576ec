"""Read extents in a worker: the rows of each as Arrow record batches. Only these functions load the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from cleaner.arrow.schema import arrow_schema
from cleaner.spark.table.options import Mode, Options
from storage.directory import despite_vanishing
from storage.scan.extents import Extent, Wanted, cut_partition
from storage.scan.files import SegmentGone, read_in_turn
from storage.scan.partitions import FoundPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from storage.scan.files import FileBytes

_PLANS_MAX: Final = 8
"""The number of times that a compaction may replace an extent's file before its reader opens the file."""


def read_extent(
    extent: Extent, columns: tuple[str, ...], options: Options, file: FileBytes | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of an extent's records. ``mode`` decides about damaged batches.

    Arguments: ``file`` as of ``open_extent``.

    Raises: CorruptBatch (FAILFAST), SegmentGone (before the first row), UnreadableFile.
    """
    from cleaner.arrow.columns import damage_batch, record_batches  # noqa: PLC0415
    from storage.scan.chunks import chunks  # noqa: PLC0415  (planning does without the kernels)
    from storage.scan.segments import open_extent  # noqa: PLC0415
    from storage.scan.slices import Damage  # noqa: PLC0415

    options.open_stores()
    schema = arrow_schema(columns)
    with open_extent(extent, file) as reader:
        for found in chunks(reader, extent, with_control="control" in columns):
            if not isinstance(found, Damage):
                yield from record_batches(found, extent, schema)
            elif options.mode is Mode.FAILFAST:
                raise found.error
            elif options.mode is Mode.PERMISSIVE:
                yield damage_batch(found, extent, schema)


def read_planned(extents: Iterable[Extent], columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """Read the extents of a task from the planned files and no others: a batch read is a snapshot.

    Raises: as ``read_extent``; SegmentGone only with ``failOnDataLoss``.
    """
    options.open_stores()
    for extent, file in read_in_turn(extents):
        try:
            yield from read_extent(extent, columns, options, file)
        except SegmentGone:
            if options.fail_on_data_loss:
                raise


def read_offsets(extent: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """Read an extent's offsets from whichever files hold them now, as a consumer would get them.

    Raises: as ``read_extent``; SegmentGone with ``failOnDataLoss`` if retention deleted some of the offsets, and always
        if files were replaced too often.
    """
    extents = [extent]
    for _ in range(_PLANS_MAX):
        gone = []
        for one in extents:
            try:
                yield from read_extent(one, columns, options)
            except SegmentGone:
                gone.append(one)
        extents = [again for one in gone for again in despite_vanishing(partial(_plan_again, one, options))]
        if not extents:
            return
    raise SegmentGone(extents[0].path)


def _plan_again(extent: Extent, options: Options) -> list[Extent]:
    log = FoundPartition(extent.topic_partition, extent.path.parent, 0).open()
    if log.log_start_offset > extent.offsets.start and options.fail_on_data_loss:
        raise SegmentGone(extent.path)
    wanted = Wanted(extent.offsets, extent.since_ms, options.partition_bytes_max, options.read_committed)
    return list(cut_partition(extent.topic_partition, log.segments, wanted))
