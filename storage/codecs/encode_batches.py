"""The loop that makes v2 batches of new records, which lie in columns.

A batch is closed by its size alone. One that is not full stays open from call to call: its records in ``plain``, all
else in a row of ``layout.BATCH``. So the batches do not depend on how many records a call is handed.
"""

from __future__ import annotations

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import body_bytes_max, compress_records
from storage.codecs.snappy_compress import LAST_SEEN, LastSeen
from storage.kernels.encode import encode_record
from storage.kernels.layout import BATCHES, CODEC_MASK, HEADER_BYTES, NEW_HEADERS, NEW_RECORDS
from storage.kernels.rebuild import has_room, write_header
from storage.kernels.status import Status
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, INTEGERS, OUTPUT, integers

_body_bytes_max = kernel()(body_bytes_max)


@kernel()
def _close(
    batch: Table, plain: Bytes, out: Bytes, position: int, calls: Integers, last_seen: LastSeen
) -> tuple[int, int]:
    """Write the open batch to ``out``, and open the next. Return the status and the next position.

    The room is asked for before a codec runs: how it compresses may depend on the room that it has.
    """
    open_batch = batch[0]
    end = open_batch.records_end
    if not has_room(out, position, HEADER_BYTES + _body_bytes_max(end)):
        return Status.OUTPUT_FULL, position
    codec = open_batch.attributes & CODEC_MASK
    status, after = compress_records(codec, plain, 0, end, out, position + HEADER_BYTES, calls, last_seen)
    if status == Status.OK:
        status = write_header(
            out, position, after - position, batch, 0, open_batch.record_count, open_batch.base_timestamp,
            open_batch.max_timestamp,
        )  # fmt: skip
    if status != Status.OK:
        return status, position
    open_batch.records_end, open_batch.record_count = 0, 0
    return Status.OK, after


@kernel(
    integers(4)(
        NEW_RECORDS, NEW_HEADERS, BYTES, BYTES, BYTES, BYTES, INTEGERS, I64, I64, I64, BATCHES, OUTPUT, OUTPUT, I64,
        INTEGERS, LAST_SEEN,
    )
)  # fmt: skip
def encode_batches(  # noqa: PLR0917  (a kernel takes no structures)
    records: Table,
    headers: Table,
    keys: Bytes,
    values: Bytes,
    header_keys: Bytes,
    header_values: Bytes,
    order: Integers,
    first: int,
    now_ms: int,
    batch_bytes: int,
    batch: Table,
    plain: Bytes,
    out: Bytes,
    position: int,
    calls: Integers,
    last_seen: LastSeen,
) -> tuple[int, int, int, int]:
    """Put the rows ``order[first:]`` of ``records`` into the open batch, and write each batch that is full to ``out``.

    Args:
        records: ``layout.NEW_RECORD``.
        headers: ``layout.NEW_HEADER``.
        keys: the bytes of all keys.
        values: the bytes of all values.
        header_keys: the bytes of the headers' keys.
        header_values: the bytes of the headers' values.
        order: rows of ``records``.
        first: where in ``order`` to begin.
        now_ms: the timestamp of rows with a negative one, epoch ms.
        batch_bytes: a batch is full once its records take so many bytes.
        batch: a row: the open batch, numbered from 0. ``record_count`` and ``records_end`` are 0 before its first
            record.
        plain: the records of the open batch, up to ``records_end``. It overlaps no other array.
        out: receives the batches. It overlaps no other array.
        position: where in ``out`` to begin.
        calls: ``CodecCalls.words`` of this thread.
        last_seen: ``CodecCalls.last_seen`` of this thread.

    Returns:
        ``(status, next, position, wanted)``: ``order[next]`` is the first row not taken, and ``out`` is valid up to
        ``position``. OUTPUT_FULL: ``plain`` must have ``wanted`` bytes, or, if that is 0, ``out`` has no room for the
        open batch. NEEDS_PYTHON: compress the open batch by ``compression``. Then go on with ``next``. BAD_LENGTH: no
        batch can hold the row. BAD_SIZE: a row or a field is not where it should be.
    """
    if batch.size < 1 or batch[0].records_end < 0 or batch[0].records_end > plain.size or first < 0 or position < 0:
        return Status.BAD_SIZE, first, position, 0
    open_batch = batch[0]
    while True:
        if open_batch.records_end >= max(batch_bytes, 1):
            status, position = _close(batch, plain, out, position, calls, last_seen)
            if status != Status.OK:
                return status, first, position, 0
        if first >= order.size:
            return Status.OK, first, position, 0
        row = order[first]
        if row < 0 or row >= records.size:
            return Status.BAD_SIZE, first, position, 0
        timestamp = records[row].timestamp if records[row].timestamp >= 0 else now_ms
        count = open_batch.record_count
        base = timestamp if count == 0 else open_batch.base_timestamp
        status, end = encode_record(
            records, row, headers, keys, values, header_keys, header_values, timestamp - base, count, plain,
            open_batch.records_end,
        )  # fmt: skip
        if status != Status.OK:
            return status, first, position, end
        open_batch.base_timestamp = base
        open_batch.max_timestamp = timestamp if count == 0 else max(open_batch.max_timestamp, timestamp)
        open_batch.records_end, open_batch.record_count = end, count + 1
        open_batch.last_offset = open_batch.base_offset + count
        first += 1
