"""Compaction of logs in formats v0 and v1, kept as they are or rewritten as v2."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from cleaner.engine.compaction import rewrite
from cleaner.engine.outcome import PartitionResult
from storage.codecs.compression import Compression, compress
from storage.records import Record, encode_message, encode_wrapper
from storage.scan import segments, slices
from tests.batches import iter_batches
from tests.legacy_logs import FORMATS, LEGACY_CODECS, Format, legacy_log_dir, mixed_versions, segment
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    records_in,
    request,
)

LEGACY_FORMATS = [form for form in FORMATS if form.magic < 2]
UPGRADE = {"compaction.upgrade.format": "true"}
RETENTION = {"delete.retention.ms": str(DAY_MS)}


def named(form):
    return f"v{form.magic}-{form.codec.name.lower()}{'-append-time' * form.is_log_append_time}"


each_format = pytest.mark.parametrize("form", LEGACY_FORMATS, ids=named)
each_magic = pytest.mark.parametrize("magic", [0, 1])


def drawn(base_offset, /, *pairs, timestamp_ms=NOW_MS):
    """Records of ``"key=value"``; ``"key"`` alone is a tombstone, ``"=value"`` has no key, ``""`` skips an offset."""
    for place, pair in enumerate(pairs):
        key, has_value, value = pair.partition("=")
        if pair:
            value_bytes = value.encode() if has_value else None
            yield Record(base_offset + place, timestamp_ms + place, key.encode() or None, value_bytes)


def batch(form, base_offset, /, *pairs, **record):
    return form.encode(list(drawn(base_offset, *pairs, **record)))


def finished(log_dir, made):
    """With an active segment, which is never compacted."""
    segment(made, made.end_offset)
    committed(log_dir, made)


def compact(log_dir: Path, **keys: str) -> PartitionResult:
    layers = configured(orders={**COMPACT, **keys})
    _, outcome = a_cleaner(log_dir, layers).clean(request(delete_delay_ms=0))
    (result,) = outcome.results.values()
    assert result.error is None
    return result


def checkpoint(log_dir, offset):
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")


def headers(directory):
    return [batch.header for path in sorted(directory.glob("*.log")) for batch in iter_batches(path.read_bytes(), path)]


def pairs(directory):
    return [(record.offset, record.key, record.value) for record in records_in(directory)]


def inode(path):
    return path.stat().st_ino


@each_format
def test_superseded_records_go_and_the_format_stays(tmp_path, form):
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(form, 0, "a=1", "b=2", "a=3", "c=4", "b"), batch(form, 5, "a=5"), batch(form, 6, "d=6"))
    finished(tmp_path, made)
    before = {record.offset: record for record in records_in(made.path)}
    result = compact(tmp_path)
    assert records_in(made.path) == [before[offset] for offset in (3, 4, 5, 6)]
    assert (result.records_read, result.records_kept) == (7, 4)
    kept = headers(made.path)
    assert {(header.magic, header.compression, header.is_log_append_time) for header in kept} == {
        (form.magic, form.codec, form.is_log_append_time)
    }
    assert [header.last_offset for header in kept] == ([3, 4, 5, 6] if form.codec is Compression.NONE else [4, 5, 6])


@each_format
def test_every_batch_is_upgraded_even_if_it_loses_nothing(tmp_path, form):
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(form, 0, "a=1", "", "b=2"), batch(form, 4, "c=3"))
    finished(tmp_path, made)
    before = records_in(made.path)
    compact(tmp_path, **UPGRADE)
    assert records_in(made.path) == before
    for header in headers(made.path):
        assert (header.magic, header.compression) == (2, form.codec)
        assert (header.partition_leader_epoch, header.producer_id, header.delete_horizon_ms) == (-1, -1, None)
        assert header.is_log_append_time == form.is_log_append_time


@pytest.mark.parametrize("codec", LEGACY_CODECS[1:])
@each_magic
def test_upgraded_batch_reaches_from_its_first_kept_record_to_the_last(tmp_path, magic, codec):
    made = PartitionDir(tmp_path)
    form = Format(magic, codec)
    segment(made, 0, batch(form, 0, "a=1", "b=2", "", "c=3", "d=4"), batch(form, 5, "a=5", "d=6"))
    finished(tmp_path, made)
    compact(tmp_path, **UPGRADE)
    first, second = headers(made.path)
    assert (first.base_offset, first.last_offset, first.record_count) == (1, 3, 2)
    assert (second.base_offset, second.last_offset, second.record_count) == (5, 6, 2)
    assert first.max_timestamp_ms == (NOW_MS + 3 if magic else -1)


@pytest.mark.parametrize("keys", [{}, UPGRADE], ids=["kept", "upgraded"])
def test_indexes_speak_of_what_is_left_of_a_wrapper(tmp_path, keys):
    made = PartitionDir(tmp_path)
    form = Format(1, Compression.GZIP)
    segment(made, 0, batch(form, 0, "a=1", "b=2", "z=3"), batch(form, 3, "c=1", "z=2", timestamp_ms=NOW_MS - DAY_MS))
    segment(made, 5, batch(form, 5, "z=1", timestamp_ms=NOW_MS - DAY_MS))
    finished(tmp_path, made)
    compact(tmp_path, **keys, **{"index.interval.bytes": "1"})
    first, *_ = (len(batch.data) for batch in iter_batches(made.log(0).read_bytes(), made.log(0)))
    index, time_index = (made.log(0).with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex"))
    assert struct.unpack_from(">ii", index) == (3, first)
    assert list(struct.iter_unpack(">qi", time_index)) == [(NOW_MS + 1, 1)]


@each_format
def test_upgraded_tombstone_gets_a_delete_horizon(tmp_path, form):
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(form, 0, "a"), batch(form, 1, "b=1"))
    finished(tmp_path, made)
    before = records_in(made.path)
    compact(tmp_path, **UPGRADE, **RETENTION)
    assert [header.delete_horizon_ms for header in headers(made.path)] == [NOW_MS + DAY_MS, None]
    assert records_in(made.path) == before


@each_format
def test_single_segment_that_loses_nothing_is_left_alone(tmp_path, form):
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(form, 0, "a=1", "b"), batch(form, 2, "c=3"))
    finished(tmp_path, made)
    found = inode(made.log(0))
    compact(tmp_path)
    assert inode(made.log(0)) == found


def test_unkeyed_records_go(tmp_path):
    made = PartitionDir(tmp_path)
    for offset, form in enumerate(LEGACY_FORMATS):
        segment(made, offset * 2, batch(form, offset * 2, f"{offset}=1", "=2"))
    finished(tmp_path, made)
    compact(tmp_path)
    assert [record.offset for record in records_in(made.path)] == [offset * 2 for offset in range(len(LEGACY_FORMATS))]


@pytest.mark.parametrize(("age_ms", "stays"), [(DAY_MS, False), (DAY_MS - 1, True), (DAY_MS + 1, False), (0, True)])
@each_magic
def test_tombstone_stays_as_long_as_its_segment_is_young(tmp_path, magic, age_ms, stays):
    """Counted back from the last clean segment's time of modification."""
    made = PartitionDir(tmp_path)
    form = Format(magic, Compression.GZIP)
    segment(made, 0, batch(form, 0, "a", "b=1"), mtime_ms=NOW_MS - age_ms)
    segment(made, 2, batch(form, 2, "c=1"), mtime_ms=NOW_MS)
    segment(made, 3, batch(form, 3, "d=1"), mtime_ms=NOW_MS - DAY_MS * 30)
    finished(tmp_path, made)
    checkpoint(tmp_path, 3)
    compact(tmp_path, **RETENTION, **{"segment.bytes": "14"})
    assert (b"a" in {record.key for record in records_in(made.path)}) == stays
    assert [record.key for record in records_in(made.path)][-3:] == [b"b", b"c", b"d"]


@each_format
def test_first_round_keeps_tombstones_of_any_age(tmp_path, form):
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(form, 0, "a", "b=1"), batch(form, 2, "b=2"), mtime_ms=1)
    finished(tmp_path, made)
    compact(tmp_path, **{"delete.retention.ms": "0"})
    assert [record.key for record in records_in(made.path)] == [b"a", b"b"]


@pytest.mark.parametrize("keys", [{}, UPGRADE], ids=["kept", "upgraded"])
@each_format
def test_expired_tombstone_goes_even_if_it_ends_the_round(tmp_path, form, keys):
    """Kafka throws here, and never cleans the partition again: there is no empty batch of v0 and v1 to leave."""
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(form, 0, "b=1"), mtime_ms=NOW_MS)
    segment(made, 1, batch(form, 1, "c=2"), batch(form, 2, "a"), mtime_ms=NOW_MS - 2 * DAY_MS)
    finished(tmp_path, made)
    checkpoint(tmp_path, 1)
    compact(tmp_path, **RETENTION, **keys)
    assert pairs(made.path) == [(0, b"b", b"1"), (1, b"c", b"2")]


def test_log_that_changed_format_midway_keeps_all_of_them(tmp_path):
    made = PartitionDir(tmp_path)
    batches = [batch(form, place * 3, f"{place}=1", "x=2", f"{place}=3") for place, form in enumerate(FORMATS)]
    segment(made, 0, *batches)
    finished(tmp_path, made)
    compact(tmp_path)
    last = len(FORMATS) - 1
    expected = [(place * 3 + 2, b"%d" % place, b"3") for place in range(last + 1)]
    assert pairs(made.path) == [*expected[:-1], (last * 3 + 1, b"x", b"2"), expected[-1]]
    assert [(header.magic, header.compression) for header in headers(made.path)] == [
        (form.magic, form.codec) for form in FORMATS
    ]


@pytest.mark.parametrize("pairs_kept", [("a=1", "b=2"), ("a=1", "z=2")], ids=["all", "some"])
@each_magic
def test_wrapper_around_another_version_is_written_in_its_own(tmp_path, magic, pairs_kept):
    made = PartitionDir(tmp_path)
    records = list(drawn(25, *pairs_kept))
    segment(made, 25, mixed_versions(records, magic, 1 - magic), batch(Format(magic), 27, "z=3"))
    finished(tmp_path, made)
    compact(tmp_path)
    kept = [record for record in records if record.key != b"z"]
    whole = [Record(record.offset, -1, record.key, record.value) for record in kept]
    assert made.log(25).read_bytes().startswith(encode_wrapper(whole, magic, Compression.GZIP))
    assert [record.offset for record in records_in(made.path)] == [*(record.offset for record in kept), 27]


def test_long_run_of_messages_that_stay_is_copied(tmp_path, monkeypatch):
    copied = []
    original = rewrite.CleanedSegment.append_copied
    monkeypatch.setattr(
        rewrite.CleanedSegment,
        "append_copied",
        lambda self, *arguments: (copied.append(arguments[1].written.size), original(self, *arguments)),
    )
    made = PartitionDir(tmp_path)
    value = "v" * 60_000
    segment(made, 0, *(batch(Format(0), n, f"{n}={value}") for n in range(8)), batch(Format(0), 8, "x=1", "x=2"))
    finished(tmp_path, made)
    before = made.log(0).read_bytes()
    compact(tmp_path)
    assert copied == [8]
    assert made.log(0).read_bytes() == before[: -2 * len(encode_message(Record(0, 0, b"x", b"1"), 0))] + encode_message(
        Record(9, 0, b"x", b"2"), 0
    )


def test_messages_are_not_looked_at_once_their_pages_were_left(tmp_path, monkeypatch):
    """The pages are populated anew for nobody: a disk that does not give them would be a SIGBUS."""
    left, looked_at = [], []
    leave, listed = segments.SegmentReader.leave, slices.listed

    def leaving(reader, start, end):
        left.append((start, end))
        leave(reader, start, end)

    def looking(window, table):
        looked_at.extend(table["position"].tolist())
        assert not any(start <= position < end for start, end in left for position in table["position"].tolist())
        return listed(window, table)

    monkeypatch.setattr(segments.SegmentReader, "leave", leaving)
    monkeypatch.setattr(slices, "listed", looking)
    made = PartitionDir(tmp_path)
    stay = (batch(Format(1), n, f"{n}={'v' * 60_000}") for n in range(8))
    segment(made, 0, *stay, batch(Format(1), 8, "x=1", "x=2"))
    finished(tmp_path, made)
    compact(tmp_path)
    assert left
    assert len(looked_at) == 8


@pytest.mark.parametrize("keys", [{}, UPGRADE], ids=["kept", "upgraded"])
@pytest.mark.parametrize("seed", range(8))
def test_size_of_windows_and_tables_changes_nothing(tmp_path, monkeypatch, seed, keys):
    wide, narrow = (legacy_log_dir(tmp_path / name, seed, "orders-0") for name in ("wide", "narrow"))
    compact(tmp_path / "wide", **keys)
    monkeypatch.setattr(segments, "WINDOW_BYTES", 100)
    monkeypatch.setattr(segments, "ROWS_MAX", 3)
    compact(tmp_path / "narrow", **keys)
    left = [sorted((path.name, path.read_bytes()) for path in made.path.glob("*.log")) for made in (wide, narrow)]
    assert left[0] == left[1]


@pytest.mark.parametrize("keys", [{}, UPGRADE], ids=["kept", "upgraded"])
@pytest.mark.parametrize("seed", range(8))
def test_cleaned_log_holds_the_last_record_of_each_key(tmp_path, seed, keys):
    made = legacy_log_dir(tmp_path / "log", seed, "orders-0")
    latest = {record.key: (record.offset, record.key, record.value) for record in records_in(made.path)}
    compact(tmp_path / "log", **keys)
    assert pairs(made.path) == sorted(found for key, found in latest.items() if key is not None)


@pytest.mark.parametrize("keys", [{}, UPGRADE], ids=["kept", "upgraded"])
@pytest.mark.parametrize("seed", range(8))
def test_cleaning_again_changes_nothing(tmp_path, seed, keys):
    log_dir = tmp_path / "log"
    made = legacy_log_dir(log_dir, seed, "orders-0")
    compact(log_dir, **keys)
    left = {path.name: (path.read_bytes(), inode(path)) for path in made.path.iterdir()}
    (log_dir / "cleaner-offset-checkpoint").unlink()
    compact(log_dir, **keys)
    assert {path.name: (path.read_bytes(), inode(path)) for path in made.path.iterdir()} == left


@pytest.mark.parametrize("keys", [{}, UPGRADE], ids=["kept", "upgraded"])
@pytest.mark.parametrize("seed", range(4))
def test_exact_dry_run_tells_what_the_run_then_writes(tmp_path, seed, keys):
    log_dir = tmp_path / "log"
    legacy_log_dir(log_dir, seed, "orders-0")
    cleaner = a_cleaner(log_dir, configured(orders={**COMPACT, **keys}))
    plan = cleaner.plan(request())
    (told,) = cleaner.would_do(plan, exact=True).results.values()
    done = compact(log_dir, **keys)
    assert (told.compacted_to_bytes, told.records_kept) == (done.compacted_to_bytes, done.records_kept)


def test_segment_that_would_outgrow_2_gib_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(rewrite, "SEGMENT_BYTES_MAX", 150)
    made = PartitionDir(tmp_path)
    segment(made, 0, batch(Format(0), 0, "a=1", "b=2", "c=3"))
    finished(tmp_path, made)
    before = made.log(0).read_bytes()
    layers = configured(orders={**COMPACT, **UPGRADE})
    _, outcome = a_cleaner(tmp_path, layers).clean(request())
    (result,) = outcome.results.values()
    assert "outgrows 2 GiB" in (result.error or "")
    assert made.log(0).read_bytes() == before
    assert not list(made.path.glob("*.cleaned"))


def with_attribute_bits(message: bytes, bits: int) -> bytes:
    """The message with these bits set beside its codec, and a checksum that fits."""
    body = message[16:17] + bytes([message[17] | bits]) + message[18:]
    return message[:12] + struct.pack(">I", zlib.crc32(body)) + body


@pytest.mark.parametrize("upgrade", [True, False])
@pytest.mark.parametrize("inner", [None, 0, 1])
def test_bit_of_the_timestamp_type_means_nothing_in_version_0(tmp_path: Path, inner: int | None, upgrade: bool) -> None:
    """Kafka asks for that bit in version 1 alone: a v0 wrapper leaves v1 messages their own times."""
    made = PartitionDir(tmp_path, "orders-0")
    kept = list(drawn(0, "a=1", "b=2"))
    if inner is None:
        data = b"".join(with_attribute_bits(encode_message(record, 0), 8) for record in kept)
    else:
        plain = b"".join(encode_message(record, inner) for record in kept)
        wrapper = Record(1, -1, None, compress(Compression.GZIP, plain, 0))
        data = with_attribute_bits(encode_message(wrapper, 0), 8 | Compression.GZIP)
    data += encode_message(Record(2, -1, b"c", b"old"), 0)
    segment(made, 0, data)
    segment(made, 3, encode_message(Record(3, -1, b"c", b"new"), 0))
    finished(tmp_path, made)
    compact(tmp_path, **(UPGRADE if upgrade else {}))
    stays = records_in(made.path)
    assert [record.key for record in stays] == [b"a", b"b", b"c"]
    own_times = inner == 1 and upgrade
    assert [record.timestamp_ms for record in stays[:2]] == [NOW_MS + n if own_times else -1 for n in range(2)]
    assert not any(header.is_log_append_time for header in headers(made.path) if header.magic == 2)
