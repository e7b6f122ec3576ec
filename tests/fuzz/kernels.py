"""The kernels fed with damaged bytes between guard pages, and held against their readable twins."""

from __future__ import annotations

from dataclasses import asdict
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.codecs import batches
from storage.codecs.compression import Compression, decompress
from storage.codecs.encode_batches import encode_batches
from storage.codecs.messages import read_messages, read_messages_again
from storage.codecs.rewrite_batches import rewrite_batches
from storage.codecs.rewrite_messages import rewrite_messages
from storage.errors import CorruptCompressedData
from storage.kernels import crc, decide, keys, map_walk, offset_map, scan
from storage.kernels.bitmap import new_bitmap
from storage.kernels.layout import BATCH, CODEC_MASK, NEW_HEADER, NEW_RECORD, WRITTEN
from storage.kernels.status import BatchAction, Status
from storage.records import Record, encode_batch
from tests import legacy_twins
from tests.fuzz.damage import Damage, Kind
from tests.fuzz.guarded import Guarded
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import SECRET

ROOM_BYTES: Final = 1 << 16
_BYTES_MAX: Final = 1 << 18


class Bench:
    """Guarded memory for input and outputs, and the codecs' functions."""

    def __init__(self) -> None:
        self._source, self._arena, self._plain, self._out = (Guarded(_BYTES_MAX) for _ in range(4))
        self._calls = batches.open_codecs()

    def scan(self, data: bytes, random: Random) -> None:
        """Headers, checksums and key hashes."""
        buf, table = self._scanned(data, random)
        status, rows, _ = twin.scan(data)
        assert [{name: int(got[name]) for name in asdict(row)} for got, row in zip(table, rows, strict=True)] == [
            asdict(row) for row in rows
        ], status
        crc.first_bad_crc(buf, table, 0, table.size)
        start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
        found = keys.sip_hash(buf, start, end, *map(np.uint64, SECRET))
        assert tuple(map(int, found)) == twin.sip_hash(data[start:end], SECRET)

    def records(self, data: bytes, random: Random) -> None:
        """The walk over the records, the map and its survivors."""
        buf, table = self._scanned(data, random)
        words, counters = offset_map.new_map(12, 0.9)
        limits = (np.uint64(0), np.uint64(offset_map.TAG_MAX), *map(np.uint64, SECRET), 0)
        status, row = map_walk.map_records(buf, table, 0, table.size, words, counters, *limits, False, False)
        rows = twin.scan(data)[1]
        try:
            expected, keyless = twin.survivors(data, rows, 0)
        except twin.BadBytesError as bad:
            expected_status = bad.status
        else:
            expected_status = Status.OK
        assert status == expected_status, row
        if status != Status.OK:
            return
        bits = new_bitmap(max((row.first_ordinal + row.record_count for row in rows), default=0))
        assert (status, int(counters[offset_map.KEYLESS])) == (Status.OK, keyless)
        assert offset_map.collect_survivors(words, bits) == -1
        found = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
        assert set(found.tolist()) == expected

    def rewrite(self, data: bytes, random: Random) -> None:
        """Batches rebuilt from some of their records, in little room."""
        buf, table = self._scanned(data, random)
        rows = twin.scan(data)[1]
        records = sum(row.record_count for row in rows)
        if records > ROOM_BYTES:
            return
        kept = {ordinal for ordinal in range(records) if random.random() < 0.5}
        bits = _bits(kept, records)
        status, _ = decide.decide_batches(buf, table, 0, table.size, bits, 0)
        if status != Status.OK:
            return
        room = random.choice((ROOM_BYTES, random.randrange(len(data) + 99)))
        out = self._out.room(room, at_end=random.random() < 0.5)
        written = np.zeros(table.size + 1, WRITTEN)
        arena, plain = (memory.room(ROOM_BYTES, at_end=True) for memory in (self._arena, self._plain))
        status, _, end, _ = rewrite_batches(
            buf, table, 0, table.size, bits, 0, 0, arena, plain, out, 0, written, 0,
            self._calls.words, self._calls.last_seen,
        )  # fmt: skip
        assert end <= room
        if status == Status.OK and not any(row.attributes & CODEC_MASK for row in rows):
            try:
                expected = twin.rewrite(data, rows, kept, 0, 0)
            except twin.BadBytesError:  # pass 1 would have refused it: here it is dropped unread
                assert BatchAction.DROP in table["outcome"]
            else:
                assert out[:end].tobytes() == expected

    def recompress(self, data: bytes, random: Random) -> None:
        """Compressed batches decompressed, cut down and compressed again."""
        buf, table = self._scanned(data, random)
        records = int(table["record_count"].sum())
        if records > ROOM_BYTES:
            return
        kept = {ordinal for ordinal in range(records) if random.random() < 0.5}
        table["outcome"] = BatchAction.REBUILD
        arena, plain, out = (
            memory.room(random.choice((ROOM_BYTES, random.randrange(2000))), at_end=random.random() < 0.5)
            for memory in (self._arena, self._plain, self._out)
        )
        written, calls = np.zeros(table.size + 1, WRITTEN), self._calls
        row = 0
        while row < table.size:
            _, stopped, end, _ = rewrite_batches(
                buf, table, row, table.size, _bits(kept, records), 0, 0, arena, plain, out, 0, written, 0,
                calls.words, calls.last_seen,
            )  # fmt: skip
            assert end <= out.size
            row = stopped + 1

    def codecs(self, data: bytes, random: Random) -> None:
        """Bodies decompressed: to what the readable codec makes of them, or not at all."""
        buf, table = self._scanned(data, random)
        table["record_count"] = np.minimum(table["record_count"], 1)
        arena = self._arena.room(ROOM_BYTES, at_end=random.random() < 0.5)
        for row in range(table.size):
            status, _, end = batches.decompress_batches(buf, table, row, row + 1, arena, 0, self._calls.words, False)
            if status == Status.OK and table["record_count"][row]:
                body = data[table["position"][row] + 61 : table["position"][row] + table["size"][row]]
                assert arena[:end].tobytes() == _by_twin(int(table["attributes"][row]) & 7, body)

    def messages(self, _data: bytes, random: Random) -> None:
        """Messages of v0 and v1 read, decided and written, kept and upgraded."""
        data = legacy_twins.a_log(random)
        if random.random() < 0.8:
            data = legacy_twins.damaged(data, random)
        buf, at_end = self._source.of(data, at_end=random.random() < 0.7), random.random() < 0.5
        table = np.zeros(len(data) // 26 + 1, BATCH)
        arena, plain, out = (
            memory.room(random.choice((ROOM_BYTES, random.randrange(2000))), at_end=at_end)
            for memory in (self._arena, self._plain, self._out)
        )
        verify, calls, upgrades = random.random() < 0.5, self._calls, random.random() < 0.5
        shares = (0, 0) if upgrades else (random.randrange(3000), random.choice((0, 300, 1 << 62)))
        _, rows, stopped, _, records, filled = read_messages(
            buf, 0, len(data), 0, 0, table, 0, table.size, out, 0, arena, calls.words, verify, *shares
        )
        table, expected = table[:rows], legacy_twins.read(data, verify=verify)
        assert stopped <= expected.stopped
        ends = expected.table["position"] + expected.table["size"]
        shared, keys = legacy_twins.shared(data, expected.table[ends <= stopped], *shares)
        assert table.tolist() == shared.tolist()
        assert keys == out[:filled].tobytes()
        again = np.zeros(rows, BATCH)
        again["record_count"] = table["record_count"]
        status, _ = read_messages_again(buf, 0, stopped, 0, again)
        assert status == Status.OK
        assert again["position"].tolist() == table["position"].tolist()
        kept = {ordinal for ordinal in range(records) if random.random() < 0.5}
        table["outcome"] = random.choice((BatchAction.COPY, BatchAction.REBUILD))
        written, row = np.zeros(records + 1, WRITTEN), 0
        while row < rows:
            _, stopped, end, _ = rewrite_messages(
                buf, table, row, rows, _bits(kept, records), upgrades, -1, arena, plain, out, 0,
                written, 0, calls.words, calls.last_seen,
            )  # fmt: skip
            assert end <= out.size
            row = stopped + 1

    def encode(self, data: bytes, random: Random) -> None:
        """New records of columns, some of whose places are outside, in little room."""
        columns, count = self._source.of(data, at_end=random.random() < 0.7), random.randrange(40)
        records, headers = np.zeros(count, NEW_RECORD), np.zeros(random.randrange(9), NEW_HEADER)
        for table in (records, headers):
            for name in table.dtype.names or ():
                limit = headers.size + 1 if "header" in name else len(data) + 1
                table[name] = [_place(random, limit // random.choice((1, 9)) + 1) for _ in table]
        plain, out = (
            memory.room(random.randrange(9000), at_end=random.random() < 0.5) for memory in (self._plain, self._out)
        )
        order = np.array([_place(random, count + 1) for _ in range(random.randrange(40))], np.int64)
        batch, first, position = np.zeros(1, BATCH), 0, 0
        batch["attributes"], batch["records_end"] = random.choice(tuple(Compression)), _place(random, plain.size + 1)
        while first < order.size:
            status, first, position, _ = encode_batches(
                records, headers, columns, columns, columns, columns, order, first, 0, random.randrange(1, 5000),
                batch, plain, out, position, self._calls.words, self._calls.last_seen,
            )  # fmt: skip
            assert position <= out.size
            if status != Status.OK:
                first, position, batch["records_end"], batch["record_count"] = first + 1, 0, 0, 0

    def _scanned(self, data: bytes, random: Random) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.void]]:
        buf = self._source.of(data, at_end=random.random() < 0.7)
        table = np.zeros(len(data) // 61 + 1, BATCH)
        _, rows, *_ = scan.scan_batches(buf, 0, len(data), 0, 0, table)
        return buf, table[:rows]


TARGETS: Final = ("scan", "records", "rewrite", "recompress", "codecs", "messages", "encode")


def a_log(random: Random) -> bytes:
    """A few batches, plain and compressed, damaged behind their checksums' back."""
    batches, offset = [], 0
    for _ in range(random.randint(1, 5)):
        batch = [_record(random, offset + place) for place in range(random.randint(1, 9))]
        codec = random.choice((Compression.NONE, Compression.NONE, *Compression))
        batches.append(encode_batch(batch, compression=codec))
        offset += len(batch)
    data = bytearray(b"".join(batches))
    for _ in range(random.randint(0, 3)):
        kind = random.choice([kind for kind in Kind if kind is not Kind.EXTEND])
        data = bytearray(Damage("", kind, random.randrange(1 << 20), random.randrange(1 << 20)).done_to(data))
    return bytes(data)


def _record(random: Random, offset: int) -> Record:
    key = None if random.random() < 0.1 else bytes(random.choices(b"ab", k=random.choice((0, 1, 7, 8, 9, 40))))
    value = None if random.random() < 0.2 else random.randbytes(random.randrange(5)) * random.randrange(50)
    return Record(offset, random.randrange(1 << 41), key, value, ((b"h", None),) * random.randrange(3))


def _place(random: Random, limit: int) -> int:
    """Return mostly a number from 0 to below the limit."""
    wild = (-1, limit, 1 << 31, 1 << 62, -(1 << 63), (1 << 63) - 1)
    return random.randrange(limit) if random.random() < 0.97 else random.choice(wild)


def _bits(kept: set[int], records: int) -> npt.NDArray[np.uint64]:
    bits = new_bitmap(records)
    for ordinal in kept:
        bits[ordinal >> 6] |= np.uint64(1) << np.uint64(ordinal & 63)
    return bits


def _by_twin(codec: int, body: bytes) -> bytes | None:
    try:
        return decompress(Compression(codec), body, ROOM_BYTES)
    except (CorruptCompressedData, ValueError):
        return None
