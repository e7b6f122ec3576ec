"""Batches that somebody made up, their CRC right: refused with path, position and cause, in bounded memory."""

from __future__ import annotations

import gzip
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cramjam
import crc32c
import lz4.frame
import pytest
import zstandard

from storage.codecs.compression import Compression, compress
from storage.names import TopicPartition
from storage.records import Record, encode_batch
from storage.records.v2 import CRC_START, DECOMPRESSED_BYTES_MAX, V2_HEADER_BYTES
from tests.partition_dirs import COMPACT, PartitionDir, a_cleaner, committed, configured, keyed, records_in, request

MIB = 1 << 20
INT_MAX = (1 << 31) - 1
LAST_OFFSET_DELTA, BASE_TIMESTAMP, COUNT, LENGTH, ATTRIBUTES = 23, 27, 57, 8, 21
CONTROL = 0x20
BUDGET_BYTES = 128 * MIB
"""``log.cleaner.dedupe.buffer.size``, by default."""
SLACK_BYTES = 256 * MIB


def sealed(batch: bytes | bytearray) -> bytes:
    """With the CRC of what it holds now."""
    batch = bytearray(batch)
    struct.pack_into(">I", batch, CRC_START - 4, crc32c.crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)


def changed(batch: bytes, position: int, layout: str, value: int) -> bytes:
    edited = bytearray(batch)
    struct.pack_into(layout, edited, position, value)
    return sealed(edited)


def with_payload(payload: bytes, codec: Compression = Compression.NONE, count: int = 1, last_delta: int = 0) -> bytes:
    """A batch at offset 10 around bytes of one's own making."""
    batch = bytearray(keyed(10, "a=1")[:V2_HEADER_BYTES] + payload)
    struct.pack_into(">i", batch, LENGTH, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES, codec)
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA, last_delta)
    struct.pack_into(">i", batch, COUNT, count)
    return sealed(batch)


def record(delta: int, *, length: int | None = None, key_length: int = 1, rest: bytes = b"\0\0") -> bytes:
    """One v2 record with key ``a`` and an empty value; every length below 64."""
    body = bytes((0, 0, delta << 1, key_length << 1)) + b"a" + rest
    return bytes(((len(body) if length is None else length) << 1,)) + body


TWO = keyed(10, "a=1", "b=1")
UNENDING = b"\xff" * 12
CRAFTED = {
    "count one more": (changed(TWO, COUNT, ">i", 3), "count"),
    "count one less": (changed(TWO, COUNT, ">i", 1), "end where it says"),
    "count negative": (changed(TWO, COUNT, ">i", -1), "count"),
    "count 2^31-1": (changed(changed(TWO, LAST_OFFSET_DELTA, ">i", INT_MAX), COUNT, ">i", INT_MAX), ""),
    "last offset delta too small": (changed(TWO, LAST_OFFSET_DELTA, ">i", 0), "count"),
    "last offset delta negative": (changed(TWO, LAST_OFFSET_DELTA, ">i", -1), "offsets"),
    "record longer than the batch": (with_payload(record(0, length=60)), "end where it says"),
    "record of length 0": (with_payload(record(0, length=0)), "end where it says"),
    "record shorter than its fields": (with_payload(record(0, length=4)), ""),
    "key past the end": (with_payload(record(0, key_length=40)), ""),
    "varint that does not end": (with_payload(UNENDING), "varint"),
    "varint cut by the end": (with_payload(record(0)[:-1] + b"\x80"), ""),
    "headers past the end": (with_payload(record(0, rest=b"\0\x7e")), "headers"),
    "offsets that go back": (with_payload(record(1) + record(0), count=2, last_delta=1), "offsets"),
    "offsets twice": (with_payload(record(0) + record(0), count=2, last_delta=1), "offsets"),
    "offset beyond the batch's last": (with_payload(record(5)), "offsets"),
    "length beyond the file": (changed(TWO, LENGTH, ">i", len(TWO)), ""),
    "length less than a header": (changed(TWO, LENGTH, ">i", 20), "header"),
    "control batch without a key": (
        changed(encode_batch([Record(10, 0, None, b"v")]), ATTRIBUTES, ">h", CONTROL),
        "control record",
    ),
    "control batch with a short key": (changed(keyed(10, "a=1"), ATTRIBUTES, ">h", CONTROL), "control record"),
    "unknown codec": (changed(TWO, ATTRIBUTES, ">h", 5), "codec 5"),
}
COMPRESSED = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path


def two_partitions(log_dir: Path, *crafted: bytes) -> PartitionDir:
    """``orders-0`` with the crafted batches behind a good one, and ``other-0`` without."""
    bad = PartitionDir(log_dir, "orders-0").segment(0, keyed(0, "a=1", "b=1")).segment(100, keyed(100, "a=3"))
    bad.log(0).write_bytes(bad.log(0).read_bytes() + b"".join(crafted))
    good = PartitionDir(log_dir, "other-0").segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    good.segment(20, keyed(20, "c=1"))
    committed(log_dir, bad, good)
    return bad


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refusal(log_dir: Path, bad: PartitionDir, **topic: str) -> str:
    """Why it was refused; it is as it was, and the other partition is clean."""
    before = contents(bad.path)
    layers = configured(orders={**COMPACT, **topic}, other=COMPACT)
    planned, outcome = a_cleaner(log_dir, layers).clean(request())
    errors = {key[1]: result.error for key, result in outcome.results.items()}
    errors |= {failure.topic_partition: failure.error for failure in planned.failures}
    assert contents(bad.path) == before
    assert [found.offset for found in records_in(log_dir / "other-0")] == [1, 10, 20]
    assert errors[TopicPartition("other", 0)] is None
    return str(errors[TopicPartition("orders", 0)])


@pytest.mark.parametrize(("batch", "cause"), CRAFTED.values(), ids=CRAFTED)
def test_crafted_batch_is_refused_where_it_lies(log_dir: Path, batch: bytes, cause: str, rounds: str) -> None:
    bad = two_partitions(log_dir, batch)
    told = refusal(log_dir, bad)
    assert told.startswith(f"{bad.log(0)} at byte {len(keyed(0, 'a=1', 'b=1'))}: ")
    assert cause in told or rounds == "kafka"  # whose reader words it otherwise
    assert "\n" not in told


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize(
    ("payload", "count"),
    [(record(0), INT_MAX), (record(0), 2), (record(0) * 2, 1), (UNENDING, 1), (b"", 1)],
    ids=["count 2^31-1", "count one more", "bytes left over", "varint that does not end", "nothing in it"],
)
def test_crafted_records_are_refused_within_a_compressed_batch_too(log_dir, codec, payload, count):
    batch = with_payload(compress(codec, payload), codec, count, INT_MAX - 1)
    bad = PartitionDir(log_dir, "orders-0").segment(0, keyed(0, "a=1", "b=1")).segment(1 << 33, keyed(1 << 33, "a=3"))
    bad.log(0).write_bytes(bad.log(0).read_bytes() + batch)
    good = PartitionDir(log_dir, "other-0").segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    committed(log_dir, bad, good.segment(20, keyed(20, "c=1")))
    assert f"{bad.log(0)} at byte {len(keyed(0, 'a=1', 'b=1'))}: " in refusal(log_dir, bad)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: b"", lambda data: b"\xff" * 40])
def test_compressed_bytes_that_do_not_decompress_are_refused(log_dir, codec, damage):
    bad = two_partitions(log_dir, with_payload(damage(compress(codec, record(0))), codec))
    assert f"{bad.log(0)} at byte " in refusal(log_dir, bad)


@pytest.mark.parametrize(
    ("base_offset", "position"),
    [(0, "second"), (1, "second"), (99, None), (100, "second"), (5_000, "second")],
    ids=["back to the start", "the offset before", "the last one allowed", "the next base", "far beyond it"],
)
def test_batch_whose_offsets_go_back_or_reach_the_next_segment_is_refused(log_dir, base_offset, position):
    bad = two_partitions(log_dir, keyed(base_offset, "z=1"))
    if position is None:
        a_cleaner(log_dir, configured(orders=COMPACT, other=COMPACT)).clean(request())
        assert [found.offset for found in records_in(bad.path)] == [0, 1, 99, 100]
    else:
        assert f"{bad.log(0)} at byte {len(keyed(0, 'a=1', 'b=1'))}: offsets" in refusal(log_dir, bad)


def test_segment_that_begins_below_its_name_is_refused(log_dir: Path) -> None:
    bad = PartitionDir(log_dir, "orders-0").segment(0, keyed(0, "a=1")).segment(10, keyed(10, "a=2"))
    good = PartitionDir(log_dir, "other-0").segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    committed(log_dir, bad.segment(20, keyed(20, "a=3")), good.segment(20, keyed(20, "c=1")))
    bad.log(10).write_bytes(keyed(9, "a=2"))
    assert f"{bad.log(10)} at byte 0: offsets" in refusal(log_dir, bad)


def _zstd_runs(blocks: int) -> bytes:
    """A frame of blocks that each repeat one byte 128 KiB long: 4 bytes each."""
    header = struct.pack("<IBB", zstandard.MAGIC_NUMBER, 0, 7 << 3 | 0)  # window of 128 KiB, no content size
    block = lambda last: struct.pack("<I", (128 << 10) << 3 | 1 << 1 | last)[:3] + b"\0"  # noqa: E731
    return header + block(0) * (blocks - 1) + block(1)


def _snappy_chunk(claimed_bytes: int) -> bytes:
    """A chunk of a few bytes that claims to hold more."""
    length, rest = bytearray(), claimed_bytes
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    raw = bytes((*length, rest)) + b"\0a"
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(raw)) + raw


def _snappy_stream(size_bytes: int) -> bytes:
    raw = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(raw)) + raw) * (size_bytes // MIB)


def _zstd_frame(size_bytes: int, *, sized: bool) -> bytes:
    stream = zstandard.ZstdCompressor(level=1, write_content_size=sized).compressobj(size=size_bytes if sized else -1)
    return b"".join(stream.compress(bytes(16 * MIB)) for _ in range(size_bytes // (16 * MIB))) + stream.flush()


BOMBS: dict[str, tuple[Compression, Callable[[], bytes]]] = {
    "gzip member": (Compression.GZIP, lambda: gzip.compress(bytes(512 * MIB), 1)),
    "gzip members": (Compression.GZIP, lambda: gzip.compress(bytes(16 * MIB), 9) * 128),
    "snappy stream": (Compression.SNAPPY, lambda: _snappy_stream(2048 * MIB)),
    "snappy chunk that claims 100 MiB": (Compression.SNAPPY, lambda: _snappy_chunk(100 * MIB)),
    "snappy chunk that claims 4 GiB": (Compression.SNAPPY, lambda: _snappy_chunk((1 << 32) - 1)),
    "snappy block without a stream": (Compression.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(512 * MIB)))),
    "lz4 frame": (
        Compression.LZ4,
        lambda: lz4.frame.compress(bytes(1024 * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False),
    ),
    "zstd frame": (Compression.ZSTD, lambda: _zstd_frame(2048 * MIB, sized=False)),
    "zstd frame of a declared size": (Compression.ZSTD, lambda: _zstd_frame(2048 * MIB, sized=True)),
    "zstd frames": (Compression.ZSTD, lambda: _zstd_frame(16 * MIB, sized=True) * 128),
    "zstd runs, under 1 KiB a frame": (Compression.ZSTD, lambda: _zstd_runs(200) * 80),
    "zstd single segment that claims 2 GiB": (
        Compression.ZSTD,
        lambda: struct.pack("<IBQ", zstandard.MAGIC_NUMBER, 0xE0, 2048 * MIB) + b"\x02\0\0\0"[:3] + b"\0" * 4,
    ),
}


def clean_in_a_process(log_dir: Path, memory_bytes: int | None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, its private writable memory bounded."""

    def bound() -> None:
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))

    policy = [word for key, value in COMPACT.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "cleaner", "clean", "--log-dir", str(log_dir), "--delete-delay", "0", *policy]
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=bound, env={**os.environ, **one_thread}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts private memory only on Linux")
@pytest.mark.parametrize(("codec", "bomb"), BOMBS.values(), ids=BOMBS)
def test_bomb_is_refused_in_bounded_memory_and_the_other_partition_is_cleaned(log_dir, codec, bomb):
    payload = bomb()
    bad = two_partitions(log_dir, with_payload(payload, codec, count=20, last_delta=19))
    before = contents(bad.path)
    ran = clean_in_a_process(log_dir, BUDGET_BYTES + SLACK_BYTES)
    assert ran.returncode == 1, ran.stderr
    told = [line for line in ran.stderr.splitlines() if str(bad.log(0)) in line]
    assert len(told) == 1, ran.stderr
    assert f"at byte {len(keyed(0, 'a=1', 'b=1'))}: {codec.name.lower()}: " in told[0]
    assert "Traceback" not in ran.stderr
    assert contents(bad.path) == before
    assert [found.offset for found in records_in(log_dir / "other-0")] == [1, 10, 20]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_batch_of_a_hundred_megabytes_is_compacted_in_bounded_memory(log_dir: Path, codec: Compression) -> None:
    values = [bytes(25 * MIB)] * 4
    big = [Record(10 + n, 0, b"%d" % n, value) for n, value in enumerate(values)]
    assert sum(map(len, values)) < DECOMPRESSED_BYTES_MAX
    made = PartitionDir(log_dir, "orders-0").segment(0, encode_batch(big, compression=codec), keyed(20, "1=new"))
    committed(log_dir, made.segment(100, keyed(100, "z=1")))
    ran = clean_in_a_process(log_dir, BUDGET_BYTES + SLACK_BYTES)
    assert ran.returncode == 0, ran.stderr
    assert [found.offset for found in records_in(made.path)] == [10, 12, 13, 20, 100]
