"""The entries that a segment's ``.index`` and ``.timeindex`` get for the batches written to it."""

from __future__ import annotations

from typing import Final

from storage.arrays import Integers, Table
from storage.kernels.layout import INDEX, WRITTEN_BATCHES
from storage.kernels.status import Status
from storage.machine.kernel import kernel
from storage.machine.signatures import I64, INTEGERS, integers

_INT32_MAX: Final = 2**31 - 1


@kernel(integers(4)(WRITTEN_BATCHES, I64, I64, I64, I64, INDEX, INTEGERS, INTEGERS, INTEGERS, INTEGERS))
def index_batches(
    written: Table,
    rows: int,
    position: int,
    base_offset: int,
    interval_bytes: int,
    state: Table,
    offset_keys: Integers,
    offset_positions: Integers,
    time_keys: Integers,
    time_offsets: Integers,
) -> tuple[int, int, int, int]:
    """Make the index entries of ``written[:rows]`` by Kafka's rule: one entry once more than ``interval_bytes`` have
    none.

    Args:
        written: as ``rewrite_batches`` left it.
        rows: of it.
        position: in the segment, of position 0 in the rewriter's output buffer.
        base_offset: of the segment.
        interval_bytes: ``index.interval.bytes``.
        state: one row of ``layout.INDEX_STATE``, carried from call to call; the final time entry, which sealing
            forces, is ``(max_timestamp, max_timestamp_offset)`` if above ``last_time_entry``.
        offset_keys: receives relative last offsets; ``rows`` long suffices, as for the other three.
        offset_positions: receives positions in the segment.
        time_keys: receives timestamps, epoch ms.
        time_offsets: receives relative offsets.

    Returns:
        ``(status, row, offset entries, time entries)``. TABLE_FULL: too short a receiver or state;
        BAD_OFFSETS, BAD_SIZE: ``row`` is beyond what 31 bits can address.

    Source: Kafka LogSegment#append, TimeIndex#maybeAppend.
    """
    offsets, times = 0, 0
    room = min(offset_keys.size, offset_positions.size, time_keys.size, time_offsets.size)
    if state.size < 1 or rows > min(room, written.size):
        return Status.TABLE_FULL, 0, 0, 0
    now = state[0]
    for row in range(rows):
        batch = written[row]
        if batch.last_offset < base_offset or batch.last_offset - base_offset > _INT32_MAX:
            return Status.BAD_OFFSETS, row, offsets, times
        if position + batch.position > _INT32_MAX:
            return Status.BAD_SIZE, row, offsets, times
        if batch.max_timestamp > now.max_timestamp:
            now.max_timestamp, now.max_timestamp_offset = batch.max_timestamp, batch.last_offset
        if now.unindexed_bytes > interval_bytes:
            offset_keys[offsets] = batch.last_offset - base_offset
            offset_positions[offsets] = position + batch.position
            offsets += 1
            if now.max_timestamp > now.last_time_entry:
                time_keys[times] = now.max_timestamp
                time_offsets[times] = now.max_timestamp_offset - base_offset
                now.last_time_entry = now.max_timestamp
                times += 1
            now.unindexed_bytes = 0
        now.unindexed_bytes += batch.size
    return Status.OK, rows, offsets, times
