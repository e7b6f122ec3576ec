"""The codec kernels against their readable twin, ``storage.codecs.compression``: what is valid, framed in every way."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import struct

import cramjam
import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs import batches
from storage.codecs.compression import Compression, compress, decompress
from storage.codecs.symbols import CodecCalls, find_libraries
from storage.kernels.crc import crc32c
from storage.kernels.status import Status
from tests.storage.codecs.codec_calls import ROOM, compressed, decompressed, log
from tests.storage.kernels.strategies import compiled

CALLS = batches.open_codecs()
CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"".join(b"key-%d: some words, and %d more; " % (n % 17, n * n) for n in range(3000))
NOISE = random.Random(6).randbytes(70_000)
PLAIN = {"one record": b"7 bytes", "text": TEXT, "noise": NOISE, "zeros": bytes(100_000), "all": TEXT + NOISE + TEXT}

_pieces = st.binary(max_size=40) | st.sampled_from([b"a", b"abc", b"the same words again, "]).flatmap(
    lambda words: st.integers(1, 3000).map(lambda count: words * count)
)
plains = st.lists(_pieces, min_size=1, max_size=8).map(b"".join).filter(lambda plain: 7 <= len(plain) <= ROOM)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("plain", PLAIN.values(), ids=PLAIN.keys())
def test_what_either_compresses_both_decompress(codec: Compression, plain: bytes) -> None:
    ours = compressed(codec, plain, CALLS)
    assert ours.status == Status.OK
    assert decompress(codec, ours.content, len(plain)) == plain
    for body in (ours.content, compress(codec, plain)):
        answer = decompressed(codec, body, CALLS)
        assert (answer.status, answer.content) == (Status.OK, plain)


@compiled
@given(st.sampled_from(CODECS), plains)
def test_any_bytes_come_back_through_both(codec: Compression, plain: bytes) -> None:
    ours = compressed(codec, plain, CALLS)
    assert decompress(codec, ours.content, len(plain)) == plain
    assert decompressed(codec, ours.content, CALLS).content == plain
    assert decompressed(codec, compress(codec, plain), CALLS).content == plain


def test_libz_writes_gzip_as_the_twin_writes_it() -> None:
    by_libz = CodecCalls(find_libraries()._replace(isal=None, zlib_ng=None))
    assert compressed(Compression.GZIP, TEXT + NOISE, by_libz).content == compress(Compression.GZIP, TEXT + NOISE)


def records_in_json(random: random.Random) -> bytes:
    words = TEXT.decode().split()
    return b"".join(
        json.dumps({"id": random.randrange(10**9), "text": " ".join(random.choices(words, k=8))}).encode()
        for _ in range(150)
    )


def records_of_few_words(random: random.Random) -> bytes:
    """Records with so many matches that a quick search takes short ones."""
    words = [random.randbytes(random.randrange(2, 5)).hex() for _ in range(25)]
    return b"".join(
        f"key-{random.randrange(10**6)}".encode() + " ".join(random.choices(words, k=14)).encode() for _ in range(600)
    )


@pytest.mark.parametrize(
    "plain",
    [
        TEXT[:16_384],
        NOISE,
        records_in_json(random.Random(7)),
        NOISE.hex().encode(),
        records_of_few_words(random.Random(8)),
    ],
    ids=["text", "noise", "json", "hexadecimal", "few words"],
)
def test_gzip_is_at_most_two_percent_larger_than_zlibs_at_kafkas_default_level(plain: bytes) -> None:
    body = compressed(Compression.GZIP, plain, CALLS).content
    assert len(body) <= 1.02 * len(compress(Compression.GZIP, plain))
    assert gzip.decompress(body) == plain


def test_gzip_is_written_with_the_same_bytes_on_every_processor() -> None:
    """x86-64 (from SSE2 to AVX2) and ARM wrote these bytes. Another version of zlib-ng may write other bytes."""
    plains = [*PLAIN.values(), records_in_json(random.Random(7)), records_of_few_words(random.Random(8))]
    written = b"".join(compressed(Compression.GZIP, plain, CALLS).content for plain in plains)
    assert hashlib.sha256(written).hexdigest() == "c00e2e7b50b64f5c84bbbc203f42722b183009cbe749a9da7b9bbf0b4b10e61c"


def test_gzip_with_a_name_in_its_header_is_read() -> None:
    named = b"\x1f\x8b\x08\x08" + bytes(6) + b"a name\0" + compress(Compression.GZIP, TEXT)[10:]
    assert decompressed(Compression.GZIP, named, CALLS).content == TEXT


@pytest.mark.parametrize("plain", [TEXT, NOISE, TEXT + NOISE], ids=["text", "noise", "both"])
def test_lz4_frames_written_are_taken_by_other_readers(plain: bytes) -> None:
    body = compressed(Compression.LZ4, plain, CALLS).content
    assert body[:7] == compress(Compression.LZ4, plain)[:7]
    assert lz4.frame.decompress(body) == plain


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_the_body_written_is_no_larger_than_the_twins_by_much(codec: Compression) -> None:
    assert len(compressed(codec, TEXT, CALLS).content) < 1.03 * len(compress(codec, TEXT))


def test_snappy_is_written_as_a_xerial_stream_of_32_kib_blocks() -> None:
    body = compressed(Compression.SNAPPY, b"a" * 40_000, CALLS).content
    (length,) = struct.unpack_from(">i", body, 16)
    assert body[:16] == compress(Compression.SNAPPY, b"")
    assert cramjam.snappy.decompress_raw_len(body[20 : 20 + length]) == 32 * 1024
    assert cramjam.snappy.decompress_raw_len(body[24 + length :]) == 40_000 - 32 * 1024


def test_zstd_is_written_without_content_size_or_checksum() -> None:
    body = compressed(Compression.ZSTD, TEXT, CALLS).content
    frame = zstandard.get_frame_parameters(body)
    assert (frame.content_size, frame.has_checksum) == (zstandard.CONTENTSIZE_UNKNOWN, False)


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("options", [{"store_size": True}, {"content_checksum": True}, {"block_checksum": True}])
def test_lz4_frames_of_other_writers_are_read(block_size: int, options: dict[str, bool]) -> None:
    body = lz4.frame.compress(TEXT + NOISE, block_size=block_size, block_linked=False, **options)
    assert decompressed(Compression.LZ4, body, CALLS).content == TEXT + NOISE


def test_lz4_block_checksum_is_verified_and_content_checksum_is_not() -> None:
    options = {"block_linked": False, "store_size": False}
    blocks = bytearray(lz4.frame.compress(TEXT, block_checksum=True, **options))
    blocks[-5] ^= 1
    content = bytearray(lz4.frame.compress(TEXT, content_checksum=True, **options))
    content[-1] ^= 1
    assert decompressed(Compression.LZ4, bytes(blocks), CALLS).status == Status.BAD_COMPRESSED
    assert decompressed(Compression.LZ4, bytes(content), CALLS).content == TEXT
    assert decompressed(Compression.LZ4, bytes(content[:-1]), CALLS).status == Status.BAD_COMPRESSED


def test_lz4_reading_stops_at_the_first_end_mark() -> None:
    body = compress(Compression.LZ4, TEXT) + b"anything"
    assert decompressed(Compression.LZ4, body, CALLS).content == TEXT


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [False, True])
@pytest.mark.parametrize("plain", [TEXT[:100], TEXT[:1000], TEXT + TEXT], ids=["1-byte size", "2-byte", "4-byte"])
def test_zstd_frames_of_other_writers_are_read(checksum: bool, size: bool, plain: bytes) -> None:
    body = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size).compress(plain)
    assert decompressed(Compression.ZSTD, body, CALLS).content == plain


def test_snappy_without_a_header_is_one_raw_block() -> None:
    body = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompressed(Compression.SNAPPY, body, CALLS).content == TEXT


def test_snappy_streams_one_behind_another_are_read_and_a_cut_length_ends_them() -> None:
    body = compress(Compression.SNAPPY, b"one of them") + compress(Compression.SNAPPY, b"two of them") + b"\0\0\0"
    assert decompressed(Compression.SNAPPY, body, CALLS).content == b"one of themtwo of them"


@pytest.mark.parametrize(
    ("elements", "plain"),
    [
        (b"\x14abcdef\x05\x06\x00\x00", None),
        (b"\x18abcdefg\x01\x07", b"abcdefgabcd"),
        (b"\x18abcdefg\x1a\x07\x00", b"abcdefgabcdefg"),
        (b"\x18abcdefg\x1b\x07\x00\x00\x00", b"abcdefgabcdefg"),
        (b"\x18abcdefg\x3a\x01\x00", b"abcdefg" + b"g" * 15),
        (b"\xf0\x06abcdefg", b"abcdefg"),
        (b"\xf4\x06\x00abcdefg", b"abcdefg"),
        (b"\xf8\x06\x00\x00abcdefg", b"abcdefg"),
        (b"\xfc\x06\x00\x00\x00abcdefg", b"abcdefg"),
        (b"\x18abcdefg\x1a\x08\x00", None),
        (b"\x18abcdefg\x1a\x00\x00", None),
    ],
)
def test_every_kind_of_snappy_element_is_read_and_copies_from_nowhere_are_not(
    elements: bytes, plain: bytes | None
) -> None:
    body = bytes([len(plain or b"14 bytes, say.")]) + elements
    answer = decompressed(Compression.SNAPPY, body, CALLS)
    if plain is None:
        assert answer.status == Status.BAD_COMPRESSED
    else:
        assert answer.content == plain == bytes(cramjam.snappy.decompress_raw(body))


def test_gzip_ignores_what_follows_and_starts_no_member() -> None:
    assert decompressed(Compression.GZIP, gzip.compress(TEXT) + b"garbage behind", CALLS).content == TEXT


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        (Compression.GZIP, gzip.compress(TEXT) + gzip.compress(TEXT)),
        (Compression.ZSTD, compress(Compression.ZSTD, TEXT) * 2),
        (Compression.ZSTD, struct.pack("<II", 0x184D2A53, 3) + b"any" + compress(Compression.ZSTD, TEXT)),
        (Compression.ZSTD, bytes.fromhex("28b52ffd0058080000780500 00")),  # an empty block that says it is compressed
        (Compression.ZSTD, bytes.fromhex("28b52ffd0090010000")),  # a window of more than 128 MiB
        (Compression.ZSTD, bytes.fromhex("28b52ffda001000010010000")),  # the same, by its content size
        (Compression.ZSTD, bytes.fromhex("28b52ffd000003800078")),  # a block of more than the window of 1 KiB
        (5, b"no such codec"),
    ],
)
def test_what_kafkas_clients_do_not_write_is_left_to_python(codec: int, body: bytes) -> None:
    assert decompressed(codec, body, CALLS).status == Status.NEEDS_PYTHON


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_body_is_bad(codec: Compression) -> None:
    body = compress(codec, TEXT + NOISE)
    assert decompressed(codec, body[: len(body) // 2], CALLS).status == Status.BAD_COMPRESSED


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_larger_than_the_arena_is_left_to_python(codec: Compression) -> None:
    body = compress(codec, TEXT)
    assert decompressed(codec, body, CALLS, room=len(TEXT)).status == Status.OK
    assert decompressed(codec, body, CALLS, room=len(TEXT) - 1).status == Status.NEEDS_PYTHON
    assert decompressed(codec, body, CALLS, room=0).status == Status.NEEDS_PYTHON


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_ends_at_the_arenas_end(codec: Compression) -> None:
    assert decompressed(codec, compress(codec, bytes(64 << 20)), CALLS).status == Status.NEEDS_PYTHON


@pytest.mark.parametrize("codec", list(Compression))
def test_no_room_to_compress_into_is_told_and_never_overrun(codec: Compression) -> None:
    needed = len(compressed(codec, NOISE, CALLS).content)
    for room in [*range(40), needed // 2, needed - 1]:
        assert compressed(codec, NOISE, CALLS, room).status == Status.OUTPUT_FULL


def test_rows_of_any_codec_lie_one_behind_another() -> None:
    plains_of = {codec: TEXT[codec : 50 * (codec + 1)] for codec in Compression}
    buf, table = log(*((codec, compress(codec, plain)) for codec, plain in plains_of.items()))
    arena = np.zeros(ROOM, np.uint8)
    status, row, position = batches.decompress_batches(buf, table, 0, 5, arena, 11, CALLS.words, False)
    assert (status, row) == (Status.OK, 5)
    assert table["records_start"].tolist() == [11, *table["records_end"][:-1].tolist()]
    assert table["records_end"][-1] == position
    for plain, start, end in zip(plains_of.values(), table["records_start"], table["records_end"], strict=True):
        assert arena[start:end].tobytes() == plain


@pytest.mark.parametrize("codec", list(Compression))
def test_a_full_arena_stops_before_the_row_and_an_empty_one_goes_on_with_it(codec: Compression) -> None:
    buf, table = log(*[(codec, compress(codec, TEXT))] * 3)
    arena = np.zeros(2 * len(TEXT) + 100, np.uint8)
    assert batches.decompress_batches(buf, table, 0, 3, arena, 0, CALLS.words, False) == (
        Status.OUTPUT_FULL, 2, 2 * len(TEXT),
    )  # fmt: skip
    assert batches.decompress_batches(buf, table, 2, 3, arena, 0, CALLS.words, False) == (Status.OK, 3, len(TEXT))
    assert arena[: len(TEXT)].tobytes() == TEXT


def test_what_lies_behind_the_header_of_an_empty_batch_is_not_looked_at() -> None:
    buf, table = log((Compression.ZSTD, b"nonsense"))
    table["record_count"] = 0
    assert batches.decompress_batches(buf, table, 0, 1, np.zeros(9, np.uint8), 4, CALLS.words, False) == (
        Status.OK,
        1,
        4,
    )
    assert table[["records_start", "records_end"]].tolist() == [(4, 4)]


def test_an_unverified_row_whose_crc_differs_is_not_decompressed() -> None:
    buf, table = log(*[(Compression.LZ4, compress(Compression.LZ4, TEXT))] * 3)
    arena = np.zeros(ROOM, np.uint8)
    table["crc"] = [crc32c(buf, at + 21, at + size) for at, size in table[["position", "size"]].tolist()]
    assert batches.decompress_batches(buf, table, 0, 3, arena, 0, CALLS.words, True) == (Status.OK, 3, 3 * len(TEXT))
    table["crc"][2] ^= 1
    assert batches.decompress_batches(buf, table, 0, 3, arena, 0, CALLS.words, True) == (
        Status.BAD_CRC, 2, 2 * len(TEXT),
    )  # fmt: skip
    assert batches.decompress_batches(buf, table, 0, 3, arena, 0, CALLS.words, False)[0] == Status.OK


def test_more_records_than_bytes_for_them_is_a_bad_count() -> None:
    buf, table = log((Compression.LZ4, compress(Compression.LZ4, bytes(20))))
    table["record_count"] = 3
    assert (
        batches.decompress_batches(buf, table, 0, 1, np.zeros(99, np.uint8), 0, CALLS.words, False)[0]
        == Status.BAD_COUNT
    )


@pytest.mark.parametrize(("field", "value"), [("position", -1), ("size", 60), ("size", 2**62), ("position", 2**62)])
def test_a_row_that_is_not_in_the_buffer_is_bad(field: str, value: int) -> None:
    buf, table = log((Compression.LZ4, compress(Compression.LZ4, TEXT)))
    table[field] = value
    answer = batches.decompress_batches(buf, table, 0, 1, np.zeros(ROOM, np.uint8), 0, CALLS.words, False)
    assert answer == (Status.BAD_SIZE, 0, 0)


def test_positions_outside_are_refused_or_cut() -> None:
    buf, table = log((Compression.NONE, b"seven b"))
    arena = np.zeros(10, np.uint8)
    assert batches.decompress_batches(buf, table, 0, 1, arena, 11, CALLS.words, False) == (Status.OUTPUT_FULL, 0, 11)
    assert batches.decompress_batches(buf, table, -3, 9, arena, -5, CALLS.words, False) == (Status.OK, 9, 7)
    for start, end, position in ((3, 2, 0), (0, 7, -1), (0, 7, 11)):
        arguments = (arena, position, CALLS.words, CALLS.last_seen)
        assert batches.compress_records(Compression.NONE, buf, start, end, *arguments)[0] == Status.BAD_SIZE
