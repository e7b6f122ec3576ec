"""Holds the transaction index against markers behind a walk: those of transactions that it left unresolved.

Until its marker is met, whether a transaction was aborted is the index's word, which no checksum covers. Where the
marker lies behind the round it is looked for before anything is written: by the headers of control batches, and no
further than the last one missing. It may lie above the last stable offset, behind the start of another transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from cleaner.engine.compaction.fates import Fates, facts_of, fed, wrong_txn_index
from cleaner.engine.compaction.sources import Slice, Source
from policies.retain import TransactionFates
from storage.kernels.layout import CONTROL
from storage.log.read import floor_place
from storage.records.header import OFFSET_MAX
from storage.segment import Segment


def resolve(
    walks: Iterable[Fates],
    segments: Sequence[Segment],
    log_end_offset: int,
    spend: Callable[[int], None],
    *,
    is_locked: bool,
) -> None:
    """Check what every walk took for aborted or committed at its end.

    Args:
        walks: after them; each went over whole segments.
        segments: of the log, ascending.
        log_end_offset: what lies behind it is not looked at.
        spend: told the bytes of every slice read; they are beyond what the progress counts.
        is_locked: whether we hold the lock of the log dir.

    Raises: CorruptIndex where a marker contradicts the index; CorruptBatch, PlanOutOfDate, UnreadableFile.
    """
    for walk in {fates.walked_to: fates for fates in walks}.values():
        unresolved = walk.unresolved()
        if unresolved.open_ids:
            behind = [one for one in segments if walk.walked_to <= one.base_offset < log_end_offset]
            _feed_markers(unresolved, _slices(behind, log_end_offset, is_locked=is_locked), spend)
        for transaction in unresolved.aborted_open:
            log = segments[floor_place(segments, transaction.last_offset)].log.path
            cause = f"producer {transaction.producer_id} has no abort marker at offset {transaction.last_offset}"
            raise wrong_txn_index(log, cause)


def _feed_markers(unresolved: TransactionFates, slices: Iterator[Slice], spend: Callable[[int], None]) -> None:
    """Until all transactions have theirs."""
    for slice_ in slices:
        table = slice_.table
        is_marker = (table["attributes"] & CONTROL != 0) & np.isin(table["producer_id"], list(unresolved.open_ids))
        for row in np.flatnonzero(is_marker):
            facts = facts_of(slice_, int(row))
            if facts.producer_id in unresolved.open_ids:  # else a later transaction's
                fed(unresolved, facts, slice_.path)
        spend(slice_.size_bytes)
        if not unresolved.open_ids:
            return


def _slices(segments: Sequence[Segment], log_end_offset: int, *, is_locked: bool) -> Iterator[Slice]:
    upper_offsets = [*(segment.base_offset for segment in segments[1:]), OFFSET_MAX]
    for segment, upper_offset in zip(segments, upper_offsets, strict=False):  # there may be none
        with Source(segment, upper_offset, is_locked=is_locked) as source:
            try:
                for slice_ in source.slices(verify=True):
                    yield slice_
                    if slice_.table["last_offset"][-1] + 1 >= log_end_offset:
                        return  # what follows the log's end is no batch: a torn tail, preallocated zeros
            finally:
                source.let_go()
