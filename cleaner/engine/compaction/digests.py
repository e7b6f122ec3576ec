"""The records of slices as rows of digests, run by run. ``diff`` compares them, and a cluster gathers them by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cleaner.engine.compaction.key_map import Secret
from storage.arrays import Integers, Table
from storage.kernels.digest import digest_records
from storage.kernels.keys import sip_hash
from storage.kernels.layout import DIGEST
from storage.kernels.status import BatchFate, Status
from storage.records import Record
from storage.records.v2 import write_varint
from storage.scan.arena import Arena
from storage.scan.legacy_rows import MESSAGES_BYTES_MAX
from storage.scan.slices import Slice


@dataclass(frozen=True, slots=True)
class Digests:
    """Some records of a slice."""

    slice_: Slice
    digests: Table
    """``layout.DIGEST``."""
    rows: Integers
    """The batch of each record, as a row of the slice's table."""


class Digester:
    """Makes digests under one secret, in one thread."""

    def __init__(self, secret: Secret, *, data_only: bool, with_body: bool) -> None:
        """Prepare.

        Args:
            secret: two words that no writer of records knows.
            data_only: leave out batches that their fate discards, or keeps as a whole.
            with_body: hash value and headers too.
        """
        self._secret = secret
        self._data_only = data_only
        self._with_body = with_body
        self._arena = Arena()

    def runs(self, slice_: Slice) -> Iterator[Digests]:
        """Digest every record of a slice whose checksums were verified, and count the tombstones of its batches.

        Raises: CorruptBatch.
        """
        if slice_.is_legacy and self._with_body:
            yield self._legacy(slice_)
            return
        for run in self._arena.runs(slice_, 0, slice_.table.size):
            counts = self._counts(slice_, run.first, run.last)
            digests = np.zeros(int(counts.sum()), DIGEST)
            status, row, _ = digest_records(
                run.buf, slice_.table, run.first, run.last, *self._secret, self._data_only, self._with_body, digests, 0
            )
            if status != Status.OK:
                raise slice_.fail(status, row)
            yield Digests(slice_, digests, np.repeat(np.arange(run.first, run.last), counts))

    def _counts(self, slice_: Slice, first: int, last: int) -> Integers:
        table = slice_.table[first:last]
        counts = table["record_count"].astype(np.int64)
        if self._data_only:
            counts[table["fate"] > BatchFate.RETAIN_EMPTY] = 0
        return np.maximum(counts, 0)

    def _legacy(self, slice_: Slice) -> Digests:
        """Digest messages of v0 and v1 as if they had been written as v2."""
        digests: list[tuple[int, ...]] = []
        rows: list[int] = []
        for row in range(slice_.table.size):
            first_ordinal = int(slice_.table["first_ordinal"][row])
            for ordinal, record in enumerate(slice_.legacy_batch(row).records(MESSAGES_BYTES_MAX), first_ordinal):
                digests.append(self._digest(record, ordinal))
                rows.append(row)
        return Digests(slice_, np.array(digests, DIGEST), np.array(rows, np.int64))

    def _digest(self, record: Record, ordinal: int) -> tuple[int, ...]:
        key, body = record.key or b"", _body(record)
        key_bytes = -1 if record.key is None else len(record.key)
        value_bytes = -1 if record.value is None else len(record.value)
        hashes = (*self._hash(key), *self._hash(body))
        return record.offset, ordinal, record.timestamp_ms, *hashes, key_bytes, value_bytes

    def _hash(self, data: bytes) -> tuple[int, int]:
        buf = np.frombuffer(data, np.uint8)
        low, high = sip_hash(buf, 0, buf.size, *self._secret)
        return int(low), int(high)


def _body(record: Record) -> bytes:
    """Return a v2 record from the first byte of its key on."""
    body = bytearray(record.key or b"")
    write_varint(body, -1 if record.value is None else len(record.value))
    body += record.value or b""
    body.append(0)  # v0 and v1 have no headers
    return bytes(body)
