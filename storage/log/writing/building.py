"""Batches of records that come in columns, as a producer makes them of records that come one by one.

The kernel ``encode_batches`` does the work. ``build_batch`` of ``validation`` is the readable twin of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import body_bytes_max, open_codecs
from storage.codecs.compression import Compression, compress
from storage.codecs.encode_batches import encode_batches
from storage.errors import InvalidRecord
from storage.kernels.layout import BATCH, HEADER_BYTES, NEW_HEADER, NEW_RECORD
from storage.kernels.rebuild import write_header
from storage.kernels.status import Status
from storage.records import DECOMPRESSED_BYTES_MAX
from storage.records.v2 import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_OUT_BYTES: Final = 256 << 10
_PLAIN_BYTES_SPARE: Final = 1 << 10
_NONE: Final = np.zeros(0, np.uint8)
_NO_RECORDS: Final = np.zeros(0, NEW_RECORD)
_NO_ROWS: Final = np.zeros(0, np.int64)
NO_HEADERS: Final = np.zeros(0, NEW_HEADER)


class RecordColumns(NamedTuple):
    """Records to be written, in columns."""

    records: Table
    """Of ``NEW_RECORD``. A negative timestamp stands for none."""
    keys: Bytes = _NONE
    values: Bytes = _NONE
    headers: Table = NO_HEADERS
    """Of ``NEW_HEADER``."""
    header_keys: Bytes = _NONE
    header_values: Bytes = _NONE


_NOTHING: Final = RecordColumns(_NO_RECORDS)


class Encoder:
    """The room and the codecs in which one thread makes batches. Builders share it."""

    def __init__(self) -> None:
        self.out = np.empty(_OUT_BYTES, np.uint8)
        self.calls = open_codecs()

    def have_room(self, size_bytes: int) -> None:
        """Have room for a batch of this size; what was written is gone."""
        if self.out.size < size_bytes:
            self.out = np.empty(size_bytes, np.uint8)


class BatchBuilder:
    """Makes the batches of one partition: each is closed once its records take ``batch_bytes``, before compression.

    The batches depend on the records and their order alone, not on how many of them come at a time. All of them are
    numbered from 0.
    """

    def __init__(self, encoder: Encoder, compression: Compression, batch_bytes: int, now_ms: int) -> None:
        """Begin without a record. A record without a timestamp gets ``now_ms``."""
        self._encoder, self._compression, self._batch_bytes, self._now_ms = encoder, compression, batch_bytes, now_ms
        self._plain = np.empty(batch_bytes + _PLAIN_BYTES_SPARE, np.uint8)
        self._open = np.zeros(1, BATCH)
        self._open["attributes"] = compression
        self._open["producer_id"], self._open["producer_epoch"] = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._open["base_sequence"], self._open["leader_epoch"] = NO_SEQUENCE, NO_LEADER_EPOCH

    def add(self, columns: RecordColumns, rows: Integers) -> Iterator[memoryview]:
        """Take rows of the columns, in this order. Yield the batches that are full, one behind the other.

        What is yielded can be written to, and lasts until the next batches of this encoder.

        Raises: InvalidRecord: no batch can hold a record.
        """
        return self._batches(columns, rows, self._batch_bytes)

    def finish(self) -> Iterator[memoryview]:
        """Yield the last batch if it has a record. Raises: as ``add``."""
        return self._batches(_NOTHING, _NO_ROWS, 1)

    def _batches(self, columns: RecordColumns, rows: Integers, batch_bytes: int) -> Iterator[memoryview]:
        encoder, first, position, status = self._encoder, 0, 0, int(Status.OUTPUT_FULL)
        records, keys, values, headers, header_keys, header_values = columns
        while status != Status.OK:
            status, first, position, wanted_bytes = encode_batches(
                records, headers, keys, values, header_keys, header_values, rows, first, self._now_ms, batch_bytes,
                self._open, self._plain, encoder.out, position, encoder.calls.words, encoder.calls.last_seen,
            )  # fmt: skip
            if status == Status.OUTPUT_FULL and wanted_bytes:
                self._grow(wanted_bytes)
                continue
            if position:
                yield encoder.out[:position].data
                position = 0
            elif status == Status.OUTPUT_FULL:
                encoder.have_room(HEADER_BYTES + body_bytes_max(self._filled_bytes))
            if status == Status.NEEDS_PYTHON:
                yield self._compressed_by_twin()
            elif status == Status.BAD_LENGTH:
                raise InvalidRecord(f"a record takes more than {(1 << 31) - 1} bytes")
            assert status in {Status.OK, Status.OUTPUT_FULL, Status.NEEDS_PYTHON}, f"columns that cannot be: {status}"

    @property
    def _filled_bytes(self) -> int:
        return int(self._open["records_end"][0])

    def _grow(self, wanted_bytes: int) -> None:
        """Have room for the open batch with one more record."""
        if self._compression and wanted_bytes > DECOMPRESSED_BYTES_MAX:
            raise InvalidRecord(f"a record takes a compressed batch beyond {DECOMPRESSED_BYTES_MAX} bytes")
        grown = np.empty(wanted_bytes, np.uint8)
        grown[: self._filled_bytes] = self._plain[: self._filled_bytes]
        self._plain = grown

    def _compressed_by_twin(self) -> memoryview:
        """Return the open batch if the codec's functions were not found. Open the next."""
        payload = compress(self._compression, self._plain[: self._filled_bytes].tobytes())
        size_bytes, batch = HEADER_BYTES + len(payload), self._open[0]
        self._encoder.have_room(size_bytes)
        out = self._encoder.out
        out[HEADER_BYTES:size_bytes] = np.frombuffer(payload, np.uint8)
        count, base_ms, newest_ms = (int(batch[name]) for name in ("record_count", "base_timestamp", "max_timestamp"))
        status = write_header(out, 0, size_bytes, self._open, 0, count, base_ms, newest_ms)
        assert status == Status.OK, f"a batch of {size_bytes} bytes: {status}"
        batch["records_end"] = batch["record_count"] = 0
        return out[:size_bytes].data
