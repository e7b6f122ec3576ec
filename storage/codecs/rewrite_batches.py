"""The loop that writes batches as ``decide_batches`` decided: copied, emptied or rebuilt from their kept records.

A batch that is copied, emptied or dropped stays compressed. A rebuilt batch is decompressed first, and then compressed
with the same codec.
"""

from __future__ import annotations

from storage.arrays import Bytes, Integers, Table, Words
from storage.codecs.batches import compress_records, decompress_batches
from storage.codecs.snappy_compress import LAST_SEEN, LastSeen
from storage.kernels.layout import BATCHES, CODEC_MASK, HEADER_BYTES, NOT_HERE, WRITTEN_BATCHES
from storage.kernels.rebuild import encode_records, has_room, note_written, write_batch, write_header
from storage.kernels.status import BatchAction, Status
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, INTEGERS, OUTPUT, WORDS_READ, integers


@kernel()
def _is_recompressed(table: Table, row: int) -> bool:
    is_rebuilt = table[row].outcome in (BatchAction.REBUILD, BatchAction.STAMP)
    return bool(is_rebuilt and table[row].attributes & CODEC_MASK != 0)


@kernel()
def _recompress(
    buf: Bytes,
    table: Table,
    row: int,
    bitmap: Words,
    now_ms: int,
    horizon_ms: int,
    arena: Bytes,
    plain: Bytes,
    out: Bytes,
    position: int,
    calls: Integers,
    last_seen: LastSeen,
) -> tuple[int, int, int, int]:
    """Rebuild one compressed batch. Return its status, size, records and max timestamp."""
    status, _, _ = decompress_batches(buf, table, row, row + 1, arena, 0, calls, False)
    if status != Status.OK:
        return Status.NEEDS_PYTHON, 0, 0, 0
    status, plain_bytes, kept, base, latest = encode_records(arena, table, row, bitmap, now_ms, horizon_ms, plain, 0)
    table[row].records_start = NOT_HERE
    if status != Status.OK:
        return Status.NEEDS_PYTHON if status == Status.OUTPUT_FULL else status, 0, 0, 0
    if not has_room(out, position, HEADER_BYTES):
        return Status.OUTPUT_FULL, 0, 0, 0
    codec = table[row].attributes & CODEC_MASK
    status, end = compress_records(codec, plain, 0, plain_bytes, out, position + HEADER_BYTES, calls, last_seen)
    if status == Status.OK:
        status = write_header(out, position, end - position, table, row, kept, base, latest)
    return status, end - position, kept, latest


@kernel(
    integers(4)(
        BYTES, BATCHES, I64, I64, WORDS_READ, I64, I64, OUTPUT, OUTPUT, OUTPUT, I64, WRITTEN_BATCHES, I64, INTEGERS,
        LAST_SEEN,
    )
)  # fmt: skip
def rewrite_batches(  # noqa: PLR0917  (a kernel takes no structures)
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    bitmap: Words,
    now_ms: int,
    horizon_ms: int,
    arena: Bytes,
    plain: Bytes,
    out: Bytes,
    position: int,
    written: Table,
    written_rows: int,
    calls: Integers,
    last_seen: LastSeen,
) -> tuple[int, int, int, int]:
    """Write the decided batches ``table[first:last]`` to ``out``, and a row to ``written`` for each batch there.

    Args:
        buf: the window that the table was scanned from.
        table: with ``outcome``.
        first: row to begin with.
        last: row to end before.
        bitmap: the survivors.
        now_ms: epoch ms, one value a round.
        horizon_ms: as for ``encode_records``.
        arena: for the records of one batch, decompressed.
        plain: for those that stay. Neither overlaps another array.
        out: never overlaps ``buf``.
        position: where in ``out`` to begin.
        written: ``layout.WRITTEN``.
        written_rows: rows of it already in use.
        calls: ``CodecCalls.words`` of this thread.
        last_seen: ``CodecCalls.last_seen`` of this thread.

    Returns:
        ``(status, row, position, written_rows)``; ``row`` is the first not written, ``out`` is valid up to
        ``position``. OUTPUT_FULL, TABLE_FULL: make room, go on with ``row``. NEEDS_PYTHON: ``row`` decompresses to more
        than ``arena`` or ``plain`` holds, or is nothing for the codec kernels: write it by ``encode_records``, the
        readable codec and ``write_header``. NEEDS_RECORDS: ``row`` is not decided.
    """
    for row in range(max(first, 0), min(last, table.size)):
        if written_rows < 0 or written_rows >= written.size:
            return Status.TABLE_FULL, row, position, written_rows
        if _is_recompressed(table, row):
            status, size, records, latest = _recompress(
                buf, table, row, bitmap, now_ms, horizon_ms, arena, plain, out, position, calls, last_seen
            )
        else:
            status, size, records, latest = write_batch(buf, table, row, bitmap, now_ms, horizon_ms, out, position)
        if status != Status.OK:
            return status, row, position, written_rows
        if size:
            written_rows = note_written(table, row, position, size, records, latest, written, written_rows)
            position += size
    return Status.OK, last, position, written_rows
