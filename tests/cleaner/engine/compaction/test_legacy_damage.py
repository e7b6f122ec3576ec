"""Damaged v0 and v1 messages: a typed error, and the partition stays as it was."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.codecs.compression import Compression
from storage.records import Record, encode_message, encode_wrapper
from storage.records.legacy import PREFIX
from storage.records.v2 import LOG_OVERHEAD_BYTES
from storage.scan import legacy_rows
from tests.legacy_logs import FORMATS, Format, sealed, segment, with_attributes
from tests.partition_dirs import COMPACT, NOW_MS, PartitionDir, a_cleaner, committed, configured, records_in, request
from tests.sampled import day, is_whole

LEGACY_FORMATS = [form for form in FORMATS if form.magic < 2]
OFFSET_BYTES = 8
EXAMPLES_MAX, BITS = (60, 40) if is_whole() else (20, 14)


def record(offset, key, timestamp_ms=NOW_MS):
    return Record(offset, timestamp_ms, key, b"value")


def wrapper(magic, offset, inner, key=None, codec=Compression.GZIP):
    """A wrapper message of one's own making around these bytes."""
    return with_attributes(encode_message(Record(offset, NOW_MS, key, inner), magic), codec)


def zipped(*messages):
    return gzip.compress(b"".join(messages))


def at_offset(offset, message):
    return offset.to_bytes(OFFSET_BYTES, "big") + message[OFFSET_BYTES:]


def with_length(message, length):
    return message[:OFFSET_BYTES] + length.to_bytes(4, "big", signed=True) + message[LOG_OVERHEAD_BYTES:]


def error_of(log_dir: Path, *messages: bytes) -> str | None:
    """Clean a log of a sound segment, one of these messages, and one more; what the partition then says."""
    made = PartitionDir(log_dir)
    segment(made, 0, encode_message(record(0, b"a"), 0), encode_message(record(1, b"a"), 0))
    segment(made, 10, encode_message(record(10, b"b"), 1))
    segment(made, 20, encode_message(record(20, b"a"), 0))
    segment(made, 21)
    made.log(10).write_bytes(b"".join(messages))
    committed(log_dir, made)
    before = {path.name: path.read_bytes() for path in made.path.iterdir()}
    plan, outcome = a_cleaner(log_dir, configured(orders=COMPACT)).clean(request())
    (found,) = plan.failures or outcome.results.values()  # the inventory reads the first header of every segment
    if found.error:
        assert {path.name: path.read_bytes() for path in made.path.iterdir()} == before
        assert str(made.log(10)) in found.error
    else:
        offsets = [record.offset for record in records_in(made.path)]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == 20, "the last record of the log stays"
    return found.error


INNER = encode_message(record(0, b"b"), 1)
CASES = {
    "offset goes back": ([encode_message(record(12, b"b"), 0), encode_message(record(11, b"b"), 0)], "offset 11"),
    "offset below the segment's base": ([encode_message(record(9, b"b"), 1)], "offset 9 behind offset 9"),
    "offset of the next segment": ([encode_message(record(20, b"b"), 1)], "beyond the next segment's base"),
    "inner offsets go back": ([wrapper(0, 12, zipped(*(at_offset(n, INNER) for n in (12, 11, 12))))], "behind offset"),
    "inner offsets repeat": ([wrapper(1, 12, zipped(INNER, INNER))], "behind offset"),
    "v0 wrapper of another offset": ([wrapper(0, 13, zipped(at_offset(12, INNER)))], "offset 12 in a wrapper of 13"),
    "inner offset above the wrapper's": ([wrapper(1, 10, zipped(at_offset(11, INNER)))], "inner offset 11"),
    "offsets too far apart": (
        [wrapper(0, 1 << 40, zipped(at_offset(12, INNER), at_offset(1 << 40, INNER)))],
        "in one wrapper",
    ),
    "timestamp before time": ([encode_message(record(10, b"b", -2), 1)], "timestamp -2"),
    "wrapper with a key": ([wrapper(1, 10, zipped(INNER), key=b"k")], "no key"),
    "wrapper without a value": ([wrapper(1, 10, None)], "has a value"),
    "wrapper without a message": ([wrapper(1, 10, zipped())], "no message"),
    "wrapper in a wrapper": ([wrapper(1, 10, zipped(wrapper(1, 0, zipped(INNER))))], "in a wrapper"),
    "inner message cut short": ([wrapper(1, 10, zipped(INNER[:-1]))], "left"),
    "value that does not decompress": ([wrapper(1, 10, b"no gzip")], "gzip"),
    "zstd": ([with_attributes(encode_message(record(10, b"b"), 1), 4)], "codec 4"),
    "length below the least": ([with_length(INNER, 13)], "length"),
    "v1 length of v0": ([with_length(at_offset(10, INNER), 20)], "length 20"),
    "negative length": ([with_length(INNER, -1)], "length"),
    "length beyond the file": ([with_length(at_offset(10, INNER), 1 << 30)], "ends within"),
    "unknown version behind a message": ([encode_message(record(10, b"b"), 0), b"\0" * 16 + b"\7" * 60], "length"),
    "half a message behind one": ([encode_message(record(10, b"b"), 0), INNER[:20]], "ends within"),
    "field longer than its message": (
        [sealed(at_offset(10, INNER[:26] + (99).to_bytes(4, "big") + INNER[30:]))],
        "field of 99 bytes",
    ),
    "bytes behind the value": ([sealed(with_length(at_offset(10, INNER) + b"?", len(INNER) - 11))], "behind the value"),
}


@pytest.mark.parametrize(("messages", "cause"), CASES.values(), ids=CASES)
def test_damaged_message_is_reported_and_nothing_is_touched(tmp_path, messages, cause):
    error = error_of(tmp_path, *messages)
    assert error
    assert cause in error


@pytest.mark.parametrize(("offset", "cause"), [(11, "offset 11 behind offset 12"), (20, "beyond the next segment's")])
def test_damage_behind_sound_messages_is_told_at_its_own_byte(tmp_path, offset, cause):
    sound = [encode_message(record(10, b"b"), 1), encode_message(record(12, b"c"), 0)]
    error = error_of(tmp_path, *sound, encode_message(record(offset, b"d"), 1))
    assert error
    assert cause in error
    assert f"at byte {len(b''.join(sound))}" in error


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.SNAPPY])
def test_bomb_is_reported(tmp_path, monkeypatch, magic, codec):
    monkeypatch.setattr(legacy_rows, "MESSAGES_BYTES_MAX", 1 << 20)
    bomb = encode_wrapper([Record(10, NOW_MS, b"b", bytes(5 << 20))], magic, codec)
    assert len(bomb) < 1 << 18
    assert "decompresses to more than 1048576 bytes" in (error_of(tmp_path, bomb) or "")


@pytest.mark.parametrize("form", LEGACY_FORMATS, ids=str)
def test_every_flipped_bit_behind_the_offset_is_found(tmp_path, form):
    """The CRC covers all but offset, length and itself."""
    whole = form.encode([record(10, b"b"), record(11, b"c")])
    for at in Random(day()).sample(range(OFFSET_BYTES * 8, len(whole) * 8), BITS):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        log_dir = tmp_path / str(at)
        if form.codec is Compression.NONE and is_of_second(at, whole):
            continue
        assert error_of(log_dir, bytes(damaged)), f"bit {at}"


def is_of_second(bit, whole):
    """Whether a bit lies in the offset of the second of two plain messages of equal length."""
    return 0 <= bit // 8 - len(whole) // 2 < OFFSET_BYTES


@settings(max_examples=EXAMPLES_MAX)
@given(data=st.binary(max_size=200))
def test_any_bytes_give_an_error_or_a_log(data):
    with tempfile.TemporaryDirectory() as scratch:
        error_of(Path(scratch), data)


@settings(max_examples=EXAMPLES_MAX)
@given(
    inner=st.binary(max_size=120) | st.binary(max_size=60).map(lambda data: INNER + data),
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from([Compression.GZIP, Compression.SNAPPY, Compression.LZ4]),
    is_compressed=st.booleans(),
)
def test_any_wrapped_bytes_give_an_error_or_a_log(inner, magic, codec, is_compressed):
    from storage.codecs.compression import compress

    value = compress(codec, inner, magic) if is_compressed else inner
    with tempfile.TemporaryDirectory() as scratch:
        error_of(Path(scratch), wrapper(magic, 10, value, codec=codec))


@settings(max_examples=EXAMPLES_MAX)
@given(
    form=st.sampled_from(LEGACY_FORMATS),
    body=st.binary(min_size=PREFIX.size, max_size=80),
    attributes=st.integers(0, 255),
)
def test_any_sealed_message_gives_an_error_or_a_log(form: Format, body, attributes):
    message = body[:16] + bytes([form.magic, attributes]) + body[18:]
    message = sealed(with_length(at_offset(10, message), len(message) - LOG_OVERHEAD_BYTES))
    with tempfile.TemporaryDirectory() as scratch:
        error_of(Path(scratch), message)
