"""Codecs: round trips, Kafka's framing, what Kafka's readers take and refuse, and bounds."""

import gzip
import os
import struct
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard

from storage.codecs.compression import Compression, compress, decompress
from storage.codecs.lz4_frame import xxh32
from storage.errors import CorruptCompressedData

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"the same words again and again, " * 8000
NOISE = os.urandom(100_000)
LIMIT = 1 << 20


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"x", TEXT, NOISE, TEXT + NOISE], ids=["byte", "text", "noise", "both"])
def test_compressed_data_comes_back(codec, data):
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", list(Compression))
def test_data_one_byte_beyond_the_limit_is_refused(codec):
    with pytest.raises(CorruptCompressedData, match="more than"):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_memory_stays_near_the_limit_when_the_data_is_a_bomb(codec):
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCompressedData, match="more than"):
            decompress(codec, bomb, LIMIT)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * LIMIT


def test_no_codec_is_loaded_before_it_is_needed():
    program = "import sys, storage.records, storage.log.producer_state; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"lz4", "cramjam", "zstandard", "crc32c", "numba", "numpy"} & set(loaded)


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_stream_is_refused(codec):
    whole = compress(codec, TEXT + NOISE)
    with pytest.raises(CorruptCompressedData):
        decompress(codec, whole[: len(whole) // 2], LIMIT)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_stream_without_its_last_byte_is_refused(codec):
    with pytest.raises(CorruptCompressedData, match="cut short"):
        decompress(codec, compress(codec, TEXT)[:-1], LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_at_any_byte_never_raises_anything_untyped(codec):
    whole = compress(codec, TEXT[:500])
    for at in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            try:
                assert len(decompress(codec, bytes(damaged), LIMIT)) <= LIMIT
            except CorruptCompressedData:
                continue


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD])
def test_concatenated_streams_are_read_one_after_another(codec):
    assert decompress(codec, compress(codec, b"one") + compress(codec, b"two"), LIMIT) == b"onetwo"


def test_lz4_reading_stops_at_the_first_end_mark():
    both = compress(Compression.LZ4, b"one") + compress(Compression.LZ4, b"two")
    assert decompress(Compression.LZ4, both, LIMIT) == b"one"


def test_gzip_ignores_what_follows_and_starts_no_member():
    assert decompress(Compression.GZIP, gzip.compress(TEXT) + b"garbage behind", LIMIT) == TEXT


def test_gzip_header_is_the_one_java_writes():
    assert compress(Compression.GZIP, b"x")[:10] == bytes.fromhex("1f8b08000000000000ff")


def test_gzip_with_a_wrong_checksum_is_refused():
    whole = bytearray(compress(Compression.GZIP, TEXT))
    whole[-8] ^= 1
    with pytest.raises(CorruptCompressedData):
        decompress(Compression.GZIP, bytes(whole), LIMIT)


def test_snappy_is_written_as_a_xerial_stream_of_32_kib_blocks():
    whole = compress(Compression.SNAPPY, b"a" * 40_000)
    (length,) = struct.unpack_from(">i", whole, 16)
    assert whole[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    assert cramjam.snappy.decompress_raw_len(whole[20 : 20 + length]) == 32 * 1024


def test_snappy_without_a_header_is_one_raw_block():
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw, LIMIT) == TEXT


def test_snappy_ends_at_a_cut_length():
    assert decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"one") + b"\0\0\0", LIMIT) == b"one"


@pytest.mark.parametrize("length", [-1, 1000, 2**31 - 1])
def test_snappy_block_length_that_cannot_be_is_refused(length):
    whole = compress(Compression.SNAPPY, b"one")[:16] + struct.pack(">i", length) + b"abc"
    with pytest.raises(CorruptCompressedData, match="left"):
        decompress(Compression.SNAPPY, whole, LIMIT)


def test_snappy_block_that_claims_4_gib_is_refused_before_memory_is_taken():
    with pytest.raises(CorruptCompressedData, match="more than"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 20, LIMIT)


def test_lz4_frame_has_kafkas_header_and_other_readers_take_it():
    whole = compress(Compression.LZ4, TEXT + NOISE)
    assert whole[:6] == bytes.fromhex("04224d186040")
    assert lz4.frame.decompress(whole) == TEXT + NOISE


def test_lz4_header_checksum_of_version_0_differs_and_only_version_0_takes_it():
    version_0 = compress(Compression.LZ4, TEXT, message_version=0)
    assert version_0[6] != compress(Compression.LZ4, TEXT)[6]
    assert decompress(Compression.LZ4, version_0, LIMIT, message_version=0) == TEXT
    with pytest.raises(CorruptCompressedData, match="header checksum"):
        decompress(Compression.LZ4, version_0, LIMIT, message_version=1)


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("options", [{"store_size": True}, {"content_checksum": True}, {"block_checksum": True}])
def test_lz4_frames_of_other_writers_are_read(block_size, options):
    whole = lz4.frame.compress(TEXT + NOISE, block_size=block_size, block_linked=False, **options)
    assert decompress(Compression.LZ4, whole, LIMIT) == TEXT + NOISE


def test_lz4_block_checksum_is_verified_and_content_checksum_is_not():
    options = {"block_linked": False, "store_size": False}
    blocks = bytearray(lz4.frame.compress(TEXT, block_checksum=True, **options))
    blocks[-5] ^= 1
    content = bytearray(lz4.frame.compress(TEXT, content_checksum=True, **options))
    content[-1] ^= 1
    with pytest.raises(CorruptCompressedData, match="block checksum"):
        decompress(Compression.LZ4, bytes(blocks), LIMIT)
    assert decompress(Compression.LZ4, bytes(content), LIMIT) == TEXT


def test_lz4_linked_blocks_are_refused():
    with pytest.raises(CorruptCompressedData, match="flags"):
        decompress(Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True), LIMIT)


def test_zstd_frame_that_states_a_huge_size_is_stopped_at_the_limit():
    bomb = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(64 << 20))
    with pytest.raises(CorruptCompressedData, match="more than"):
        decompress(Compression.ZSTD, bomb, LIMIT)


def test_zstd_checksum_is_verified():
    whole = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    assert decompress(Compression.ZSTD, bytes(whole), LIMIT) == TEXT
    whole[-1] ^= 1
    with pytest.raises(CorruptCompressedData):
        decompress(Compression.ZSTD, bytes(whole), LIMIT)


def test_zstd_skippable_frames_are_skipped():
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"any"
    whole = skippable + compress(Compression.ZSTD, b"one") + skippable
    assert decompress(Compression.ZSTD, whole, LIMIT) == b"one"


def test_zstd_is_not_for_old_message_formats():
    with pytest.raises(ValueError, match="version 2"):
        compress(Compression.ZSTD, b"x", message_version=1)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_matches_published_digests(data, digest):
    assert xxh32(data) == digest
