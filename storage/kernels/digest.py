"""Records as fixed rows: offset, time, and keyed hashes in place of the bytes.

With them records of two logs are compared, or the keys of a log are gathered from many machines. Equal records have
equal rows under the same secret. Without the secret nobody can make unequal records agree.
"""

from __future__ import annotations

import numpy as np

from storage.arrays import Bytes, Table
from storage.kernels.keys import hash_bytes
from storage.kernels.layout import BATCHES, DIGESTS, LOG_APPEND_TIME
from storage.kernels.records import check_payload, parse_record
from storage.kernels.status import BatchFate, Status
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, BYTES, I64, U64, integers


@kernel()
def _digest_batch(
    buf: Bytes, table: Table, row: int, secret: tuple[np.uint64, np.uint64], with_body: bool, digests: Table, at: int
) -> int:
    """Fill the rows of one batch from ``at`` on, and count its tombstones."""
    batch = table[row]
    is_append_time = (batch.attributes & LOG_APPEND_TIME) != 0
    position, delta, delta_max = batch.records_start, -1, batch.last_offset - batch.base_offset
    tombstones = 0
    for place in range(batch.record_count):
        status, after, timestamp_delta, _, delta, key, key_bytes, value_bytes = parse_record(
            buf, position, batch.records_end, delta, delta_max
        )
        if status != Status.OK:
            return status
        digest = digests[at + place]
        digest.offset = batch.base_offset + delta
        digest.ordinal = batch.first_ordinal + place
        digest.timestamp = batch.max_timestamp if is_append_time else batch.base_timestamp + timestamp_delta
        digest.key_bytes, digest.value_bytes = key_bytes, value_bytes
        digest.key_low, digest.key_high = hash_bytes(buf, key, max(key_bytes, 0), secret[0], secret[1])
        if with_body:
            digest.body_low, digest.body_high = hash_bytes(buf, key, after - key, secret[0], secret[1])
        tombstones += value_bytes < 0
        position = after
    batch.tombstones = tombstones
    return Status.OK if position == batch.records_end else Status.BAD_LENGTH


@kernel(integers(3)(BYTES, BATCHES, I64, I64, U64, U64, BOOLEAN, BOOLEAN, DIGESTS, I64))
def digest_records(
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    secret0: np.uint64,
    secret1: np.uint64,
    data_only: bool,
    with_body: bool,
    digests: Table,
    at: int,
) -> tuple[int, int, int]:
    """Digest the records of ``table[first:last]``, and count each batch's tombstones into its row.

    Args:
        buf: holds the plain records of the rows.
        table: ``records_start`` and ``records_end`` index ``buf``.
        first: row to begin with.
        last: row to end before.
        secret0: for the hashes.
        secret1: for the hashes.
        data_only: leave out the batches that a fate discards or keeps as a whole.
        with_body: hash more than the key.
        digests: ``layout.DIGEST``.
        at: place of the first record in it.

    Returns:
        ``(status, row, place)``: ``digests`` holds the rows before ``row`` up to ``place``. TABLE_FULL: its records do
        not fit. Others: what is wrong with it.
    """
    secret, at = (secret0, secret1), max(at, 0)
    for row in range(max(first, 0), min(last, table.size)):
        if data_only and table[row].fate > BatchFate.RETAIN_EMPTY:
            continue
        status = check_payload(buf, table, row)
        if status == Status.OK and table[row].record_count > digests.size - at:
            status = Status.TABLE_FULL
        if status == Status.OK:
            status = _digest_batch(buf, table, row, secret, with_body, digests, at)
        if status != Status.OK:
            return status, row, at
        at += table[row].record_count
    return Status.OK, last, at
