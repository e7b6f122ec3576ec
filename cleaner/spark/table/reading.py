"""What a worker does with slices: the rows of each, as Arrow record batches. The kernels are loaded here only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from cleaner.arrow.schema import arrow_schema
from cleaner.spark.table.options import Mode, Options
from storage.scan.extents import Extent, SegmentGone, Wanted, cut_partition
from storage.scan.partitions import FoundPartition, while_files_move

if TYPE_CHECKING:
    import pyarrow as pa

_PLANS_MAX: Final = 8
"""How often a compaction may replace the file of a slice before its reader could open it."""


def read_slice(slice_: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """The columns of a slice's records; of damaged batches what ``mode`` says.

    Raises: CorruptBatch (FAILFAST), SegmentGone (before the first row), UnreadableFile.
    """
    from cleaner.arrow.columns import damage_batch, record_batches  # noqa: PLC0415
    from storage.scan.chunks import Damage, SliceReader  # noqa: PLC0415  (planning does without the kernels)
    from storage.scan.windows import open_window  # noqa: PLC0415

    schema = arrow_schema(columns)
    with open_window(slice_) as window:
        for found in SliceReader(slice_, window, with_control="control" in columns).chunks():
            if not isinstance(found, Damage):
                yield from record_batches(found, slice_, schema)
            elif options.mode is Mode.FAILFAST:
                raise found.error
            elif options.mode is Mode.PERMISSIVE:
                yield damage_batch(found, slice_, schema)


def read_planned(slice_: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """As ``read_slice``, of no other file than the one that was planned: a batch read is a snapshot.

    Raises: as ``read_slice``; SegmentGone only with ``failOnDataLoss``.
    """
    try:
        yield from read_slice(slice_, columns, options)
    except SegmentGone:
        if options.fail_on_data_loss:
            raise


def read_offsets(slice_: Extent, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """As ``read_slice``, of whichever files hold the slice's offsets by now: what a consumer would be given.

    Raises: as ``read_slice``; SegmentGone only with ``failOnDataLoss``, where retention took some of the offsets.
    """
    slices = [slice_]
    for _ in range(_PLANS_MAX):
        gone = []
        for one in slices:
            try:
                yield from read_slice(one, columns, options)
            except SegmentGone:
                gone.append(one)
        slices = [again for one in gone for again in while_files_move(partial(_plan_again, one, options))]
        if not slices:
            return
    raise SegmentGone(slices[0].path)


def _plan_again(slice_: Extent, options: Options) -> list[Extent]:
    log = FoundPartition(slice_.topic_partition, slice_.path.parent, 0).open()
    if log.log_start_offset > slice_.offsets.start and options.fail_on_data_loss:
        raise SegmentGone(slice_.path)
    wanted = Wanted(slice_.offsets, slice_.since_ms, options.partition_bytes_max, options.read_committed)
    return list(cut_partition(slice_.topic_partition, log.segments, wanted))
