"""Damaged bodies: the codec kernels refuse them, leave them to Python, or read what their readable twin reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs import batches
from storage.codecs.compression import Compression, compress, decompress
from storage.codecs.symbols import CodecCalls, find_libraries
from storage.errors import CorruptCompressedData
from storage.kernels.status import Status
from tests.storage.codecs.codec_calls import ROOM, Answer, decompressed
from tests.storage.kernels.strategies import compiled

CALLS = batches.open_codecs()
BY_LIBZ = CodecCalls(find_libraries()._replace(isal=None, zlib_ng=None))
CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"".join(b"key-%d: some words, and %d more; " % (n % 17, n * n) for n in range(60))


def by_twin(codec: Compression, body: bytes, limit_bytes: int) -> bytes | None:
    try:
        return decompress(codec, body, limit_bytes)
    except CorruptCompressedData:
        return None


def assert_agrees(codec: Compression, body: bytes, room: int = ROOM) -> None:
    expected = by_twin(codec, body, ROOM)
    assert_answers(decompressed(codec, body, CALLS, room), expected)
    if codec is Compression.GZIP:
        assert_answers(decompressed(codec, body, BY_LIBZ, room), expected)


def assert_answers(answer: Answer, expected: bytes | None) -> None:
    match answer.status:
        case Status.OK:
            assert answer.content == expected
        case Status.BAD_COUNT:
            assert expected is not None
            assert len(expected) < 7
        case _:
            assert answer.status == Status.NEEDS_PYTHON or (answer.status == Status.BAD_COMPRESSED and expected is None)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_at_any_byte_agrees_with_the_twin(codec: Compression) -> None:
    whole = compress(codec, TEXT[:500] + bytes(90))
    for at in range(len(whole)):
        for flip in (0x01, 0x04, 0x80, 0xFF):
            assert_agrees(codec, whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])


@pytest.mark.parametrize("codec", CODECS)
def test_a_body_cut_anywhere_agrees_with_the_twin(codec: Compression) -> None:
    whole = compress(codec, TEXT)
    for end in range(len(whole)):
        assert_agrees(codec, whole[:end])


@compiled
@given(st.sampled_from(CODECS), st.data(), st.sampled_from([ROOM, 2000, 100, 0]))
def test_any_damage_in_any_room_agrees_with_the_twin(codec: Compression, data: st.DataObject, room: int) -> None:
    body = bytearray(compress(codec, TEXT))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)) | st.integers(0, 24))
        removed = data.draw(st.integers(0, 4))
        body[at : at + removed] = data.draw(st.binary(max_size=4))
    assert_agrees(codec, bytes(body), room)


@compiled
@given(st.sampled_from(CODECS), st.binary(max_size=80))
def test_noise_agrees_with_the_twin(codec: Compression, body: bytes) -> None:
    assert_agrees(codec, body)
