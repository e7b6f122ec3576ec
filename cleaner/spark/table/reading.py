"""Read slices in a worker: the rows of each as Arrow record batches. Only these functions load the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from cleaner.arrow.schema import arrow_schema
from cleaner.spark.table.options import Mode, Options
from storage.directory import despite_vanishing
from storage.scan.extents import Extent, Wanted, cut_partition
from storage.scan.files import SegmentGone
from storage.scan.partitions import FoundPartition

if TYPE_CHECKING:
    import pyarrow as pa

_PLANS_MAX: Final = 8
"""The number of times that a compaction may replace a slice's file before its reader opens the file."""


def read_slice(slice_: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a slice's records. ``mode`` decides about damaged batches.

    Raises: CorruptBatch (FAILFAST), SegmentGone (before the first row), UnreadableFile.
    """
    from cleaner.arrow.columns import damage_batch, record_batches  # noqa: PLC0415
    from storage.scan.chunks import chunks  # noqa: PLC0415  (planning does without the kernels)
    from storage.scan.segments import open_extent  # noqa: PLC0415
    from storage.scan.slices import Damage  # noqa: PLC0415

    schema = arrow_schema(columns)
    with open_extent(slice_) as reader:
        for found in chunks(reader, slice_, with_control="control" in columns):
            if not isinstance(found, Damage):
                yield from record_batches(found, slice_, schema)
            elif options.mode is Mode.FAILFAST:
                raise found.error
            elif options.mode is Mode.PERMISSIVE:
                yield damage_batch(found, slice_, schema)


def read_planned(slice_: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """Read a slice from the planned file and no other: a batch read is a snapshot.

    Raises: as ``read_slice``; SegmentGone only with ``failOnDataLoss``.
    """
    try:
        yield from read_slice(slice_, columns, options)
    except SegmentGone:
        if options.fail_on_data_loss:
            raise


def read_offsets(slice_: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """Read a slice's offsets from whichever files hold them now, as a consumer would get them.

    Raises: as ``read_slice``; SegmentGone with ``failOnDataLoss`` if retention deleted some of the offsets, and always
        if files were replaced too often.
    """
    slices = [slice_]
    for _ in range(_PLANS_MAX):
        gone = []
        for one in slices:
            try:
                yield from read_slice(one, columns, options)
            except SegmentGone:
                gone.append(one)
        slices = [again for one in gone for again in despite_vanishing(partial(_plan_again, one, options))]
        if not slices:
            return
    raise SegmentGone(slices[0].path)


def _plan_again(slice_: Extent, options: Options) -> list[Extent]:
    log = FoundPartition(slice_.topic_partition, slice_.path.parent, 0).open()
    if log.log_start_offset > slice_.offsets.start and options.fail_on_data_loss:
        raise SegmentGone(slice_.path)
    wanted = Wanted(slice_.offsets, slice_.since_ms, options.partition_bytes_max, options.read_committed)
    return list(cut_partition(slice_.topic_partition, log.segments, wanted))
