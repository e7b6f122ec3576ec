"""Key filters spare a round some reading, and the round leaves the same log without them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Final

import pytest

from cleaner.engine.compaction import filters, key_map
from storage.records import ControlType
from storage.scan import segments
from tests.batches import encode_control_batch
from tests.faults import PowerCut, SteppingFileSystem
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    records_in,
    request,
)

A_GROUP_EACH: Final = configured(orders={**COMPACT, "segment.bytes": "14"})
ONE_GROUP: Final = configured(orders=COMPACT)
LOGS: Final = int(os.environ.get("LOGCLEANER_FILTERED_LOGS", "30"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Where the filters are; the segments of these tests are tiny."""
    monkeypatch.setattr(filters, "SEGMENT_BYTES_MIN", 1)
    monkeypatch.setattr(filters, "cache_root", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "keys"


@pytest.fixture
def read(monkeypatch):
    """Base offsets of the segments that rounds begin to read, in that order."""
    begun, slices = [], segments.SegmentReader.slices
    monkeypatch.setattr(
        segments.SegmentReader,
        "slices",
        lambda self, **named: (begun.append(self.start.next_offset), slices(self, **named))[1],
    )
    return begun


def clean(directory, layers=A_GROUP_EACH, now_ms=NOW_MS, fs=None, threads=1):
    committed(directory.path.parent, directory)
    _, outcome = a_cleaner(directory.path.parent, layers, fs, threads=threads).clean(request(now_ms, delete_delay_ms=0))
    assert not [result.error for result in outcome.results.values() if result.error]
    return next(iter(outcome.results.values()), None)


def drawn(log_dir, *first):
    """Segments of one key each, and what ``first`` puts into the first one; a clean log once a round is over."""
    directory = PartitionDir(log_dir).segment(0, *(first or [keyed(0, "a=1", "b=1")]))
    return directory.segment(10, keyed(10, "c=1", "d=1")).segment(20, keyed(20, "e=1"))


def grown(directory, *pairs):
    """With records behind it, which the next round cleans."""
    base = directory.end_offset
    return directory.segment(base, keyed(base, *pairs)).segment(base + 10, keyed(base + 10, f"active{base}=1"))


def offsets(directory):
    return [record.offset for record in records_in(directory.path)]


def names(cache):
    return {path.name for path in cache.glob("*/*")}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_round_reads_only_clean_segments_that_have_a_new_key(tmp_path, read, threads):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory, threads=threads)
    grown(directory, "d=2", "g=1")
    read.clear()
    result = clean(directory, threads=threads)
    assert 0 not in read
    assert 20 not in read
    assert 10 in read
    assert 11 not in offsets(directory)
    assert (result.records_read, result.records_kept) == (9, 8)


def test_what_a_round_tells_is_the_same_without_filters(tmp_path, cache):
    results = []
    for place in ("with", "without"):
        directory = grown(drawn(tmp_path / place), "f=1")
        clean(directory)
        if place == "without":
            shutil.rmtree(cache)
        results.append(clean(grown(directory, "d=2", "g=1")))
    assert results[0] == results[1]


def test_a_log_of_the_same_name_elsewhere_is_not_taken_for_it(tmp_path, read):
    clean(grown(drawn(tmp_path / "here"), "f=1"))
    read.clear()
    clean(grown(drawn(tmp_path / "there"), "f=1"))
    assert {0, 10, 20} <= set(read)


@pytest.mark.parametrize("touch", [lambda path: path.chmod(0o600), lambda path: os.utime(path, ns=(1, 1))])
def test_a_file_that_changed_since_is_read(tmp_path, read, touch):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    touch(directory.log(0))
    grown(directory, "g=1")
    read.clear()
    clean(directory)
    assert 0 in read
    assert 10 not in read
    grown(directory, "h=1")
    read.clear()
    clean(directory)
    assert 0 not in read


def test_a_file_in_the_place_of_another_is_read(tmp_path):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    path = directory.log(0)
    before, other = path.stat(), keyed(0, "a=1", "g=1")
    assert len(other) == before.st_size
    path.write_bytes(other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    clean(grown(directory, "g=2"))
    assert 1 not in offsets(directory)


def test_a_tombstone_is_read_again_once_it_is_due(tmp_path, read):
    directory = grown(drawn(tmp_path, keyed(0, "z=1", "a")), "f=1")
    clean(directory)
    for hours, is_read in ((1, False), (23, False), (25, True), (26, False)):
        grown(directory, f"k{hours}=1")
        read.clear()
        clean(directory, now_ms=NOW_MS + hours * DAY_MS // 24)
        assert (0 in read) == is_read, hours
    assert offsets(directory)[:2] == [0, 10]


@pytest.mark.parametrize("retention_ms", [0, 1, DAY_MS, (1 << 63) - 1])
def test_tombstones_go_in_the_round_in_which_they_go_without_filters(tmp_path, monkeypatch, retention_ms):
    layers = configured(orders={**COMPACT, "segment.bytes": "14", "delete.retention.ms": str(retention_ms)})
    left = []
    for place, size_bytes in (("with", 1), ("without", 1 << 30)):
        monkeypatch.setattr(filters, "SEGMENT_BYTES_MIN", size_bytes)
        directory = drawn(tmp_path / place, keyed(0, "z=1", "a"))
        for number, now_ms in enumerate((NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS + DAY_MS, NOW_MS + DAY_MS)):
            clean(grown(directory, f"k{number}=1"), layers, now_ms)
            left.append((place, now_ms, 1 in offsets(directory)))
    assert [found[1:] for found in left if found[0] == "with"] == [found[1:] for found in left if found[0] == "without"]


def test_a_shorter_retention_reaches_tombstones_that_were_to_stay_for_ever(tmp_path):
    for_ever, at_once = (
        configured(orders={**COMPACT, "segment.bytes": "14", "delete.retention.ms": str(retention_ms)})
        for retention_ms in ((1 << 63) - 1, 0)
    )
    directory = drawn(tmp_path, keyed(0, "z=1", "a"))
    for number, layers in enumerate((for_ever, for_ever, at_once)):
        clean(grown(directory, f"k{number}=1"), layers)
        assert offsets(directory)[:2] == [0, 1]
    clean(grown(directory, "last=1"), at_once)
    assert offsets(directory)[:2] == [0, 10]


def test_a_key_that_was_not_noted_is_not_made_up_for_by_one_that_expired(tmp_path, monkeypatch):
    directory = grown(drawn(tmp_path, keyed(0, "z=1", "y=1", "a")), "f=1")
    clean(directory)
    collect = filters.Filters.add

    def forgetful(self, walk, low_words):
        collect(self, walk, low_words[1:] if walk.span.base_offset == 0 else low_words)

    with monkeypatch.context() as patched:
        patched.setattr(filters.Filters, "add", forgetful)
        clean(grown(directory, "g=1"), now_ms=NOW_MS + 2 * DAY_MS)
    assert offsets(directory)[:2] == [0, 1]
    for pair in ("z=2", "y=2"):
        clean(grown(directory, pair), now_ms=NOW_MS + 2 * DAY_MS)
    assert offsets(directory)[0] == 10


def test_markers_and_transactions_are_read_every_time(tmp_path, read):
    producer = {"producer_id": 7, "producer_epoch": 0}
    data = keyed(0, "a=1", base_sequence=0, is_transactional=True, **producer)
    marker = encode_control_batch(ControlType.COMMIT, offset=1, timestamp_ms=NOW_MS, coordinator_epoch=0, **producer)
    directory = grown(drawn(tmp_path, data, marker), "f=1")
    clean(directory)
    grown(directory, "g=1")
    read.clear()
    clean(directory)
    assert 0 in read
    assert 10 not in read


def test_an_empty_batch_is_read_until_it_is_gone(tmp_path, read):
    batch = keyed(0, "a=1", producer_id=7, producer_epoch=0, base_sequence=0)
    directory = grown(drawn(tmp_path, batch), "a=2")
    clean(directory)
    assert offsets(directory)[0] == 10
    grown(directory, "g=1")
    read.clear()
    clean(directory)
    assert 0 in read


def test_segments_that_are_to_be_merged_are_read(tmp_path, read):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    read.clear()
    clean(grown(directory, "g=1"), ONE_GROUP)
    assert {0, 10, 20} <= set(read)
    assert not directory.log(10).exists()
    read.clear()
    clean(grown(directory, "h=1"))
    assert 0 not in read, "the merged segment has a filter of its own"


def test_keys_that_outgrow_the_map_are_noted_range_by_range(tmp_path, read, monkeypatch):
    monkeypatch.setattr(key_map, "log2_slots_max", lambda _budget: 10)
    directory = PartitionDir(tmp_path)
    for base in range(0, 3000, 500):
        directory.segment(base, keyed(base, *(f"k{base + n}=1" for n in range(500))))
    directory.segment(3000, keyed(3000, "x=1"))
    clean(directory)
    assert read.count(0) > 1
    grown(directory, "k1234=2")
    read.clear()
    clean(directory)
    assert {base for base in read if base < 3000} == {1000}
    assert 1234 not in offsets(directory)
    assert len(offsets(directory)) == 3000 + 2


def test_filters_go_with_their_segments(tmp_path, cache):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    assert names(cache) == {f"{base:020d}.keys" for base in (0, 10, 20, 21)}
    next(cache.iterdir()).joinpath("tmp.unfinished").touch()
    clean(grown(directory, "a=2", "b=2", "e=2"))
    assert names(cache) == {f"{base:020d}.keys" for base in (10, 21, 31, 32)}
    assert all(path.stat().st_mode & 0o077 == 0 for path in cache.rglob("*.keys"))
    assert not [name for name in file_names(directory.path) | file_names(tmp_path) if "keys" in name]


def test_a_partition_that_was_not_cleaned_for_long_loses_its_filters(tmp_path, cache):
    clean(grown(drawn(tmp_path / "a"), "f=1"))
    (old,) = cache.iterdir()
    os.utime(old, (1, 1))
    clean(grown(drawn(tmp_path / "b"), "f=1"))
    assert not old.exists()
    assert len(list(cache.iterdir())) == 1


def states(directory):
    """Which entries there are, and when each last changed."""
    return {path: path.stat().st_ctime_ns for path in (directory, *directory.rglob("*"))}


@pytest.mark.parametrize("level", ["keys", "keys/partition"])
def test_what_a_planted_symlink_leads_to_is_left_alone(tmp_path, cache, level):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    planted = cache if level == "keys" else next(cache.iterdir())
    target = tmp_path / "precious"
    planted.rename(target)  # it looks like ours, filters and all
    target.joinpath("letter").write_text("dear")
    planted.symlink_to(target)
    before = states(target)
    clean(grown(directory, "d=2"))
    assert states(target) == before
    assert 11 not in offsets(directory)


def test_files_of_other_names_in_the_cache_are_left_alone(tmp_path, cache):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    (of_it,) = cache.iterdir()
    of_it.joinpath("letter").write_text("dear")
    of_it.joinpath("directory.keys").mkdir()
    clean(grown(directory, "d=2"))
    assert of_it.joinpath("letter").read_text() == "dear"
    assert of_it.joinpath("directory.keys").is_dir()


def test_what_is_swept_are_filters_that_were_not_used_for_long(tmp_path, cache):
    clean(grown(drawn(tmp_path / "a"), "f=1"))
    (with_letter,) = cache.iterdir()
    with_letter.joinpath("letter").write_text("dear")
    other, link = cache / "photographs", cache / ("0" * 32)
    target = tmp_path / "target"
    for path in (other, target):
        path.mkdir(mode=0o700)
        path.joinpath(f"{0:020d}.keys").touch()
    link.symlink_to(target)
    for path in (with_letter, other, target):
        os.utime(path, (1, 1))
    clean(grown(drawn(tmp_path / "b"), "f=1"))
    assert [path.name for path in with_letter.iterdir()] == ["letter"]
    assert names(other.parent) >= {f"{0:020d}.keys"}
    assert link.is_symlink()
    assert [path.name for path in (*other.iterdir(), *target.iterdir())] == [f"{0:020d}.keys"] * 2


def spoilt_bytes(cache):
    for path in cache.glob("*/*.keys"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")


def spoilt_length(cache):
    for path in cache.glob("*/*.keys"):
        path.write_bytes(path.read_bytes()[:1000])


def shared_with_others(cache):
    for path in cache.iterdir():
        path.chmod(0o777)


def a_file_in_its_place(cache):
    shutil.rmtree(cache)
    cache.write_bytes(b"")


@pytest.mark.parametrize("spoil", [spoilt_bytes, spoilt_length, shared_with_others, a_file_in_its_place, shutil.rmtree])
def test_without_a_trustworthy_filter_all_is_read(tmp_path, cache, read, spoil):
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    spoil(cache)
    read.clear()
    clean(grown(directory, "d=2"))
    assert {0, 10, 20} <= set(read)
    assert 11 not in offsets(directory)


@pytest.mark.parametrize(
    ("name", "value"), [("_PART_OF_FREE_SPACE", 0), ("KEYS_MAX", 0), ("SEGMENT_BYTES_MIN", 1 << 20)]
)
def test_a_filter_that_is_too_large_or_not_worth_it_is_not_made(tmp_path, cache, monkeypatch, name, value):
    monkeypatch.setattr(filters, name, value)
    directory = grown(drawn(tmp_path), "f=1")
    clean(directory)
    assert not names(cache)
    clean(grown(directory, "d=2"))
    assert 11 not in offsets(directory)


def test_a_segment_with_too_many_keys_has_none_whatever_else_was_collected(tmp_path, cache, monkeypatch, read):
    monkeypatch.setattr(segments, "WINDOW_BYTES", 1)
    monkeypatch.setattr(filters, "KEYS_MAX", 3)
    many = [keyed(n, f"k{n}=1") for n in range(5)]
    directory = grown(drawn(tmp_path, *many), "f=1")
    clean(directory)
    for expected in (0, 10):
        assert (f"{expected:020d}.keys" in names(cache)) == (expected == 10)
    read.clear()
    clean(grown(directory, "k4=2"))
    assert 0 in read
    assert 4 not in offsets(directory)


def test_a_home_that_is_nowhere_does_no_harm(tmp_path, monkeypatch):
    def nowhere():
        raise RuntimeError("no home directory")

    monkeypatch.setattr(filters, "cache_root", nowhere)
    directory = grown(drawn(tmp_path), "d=2")
    clean(directory)
    assert 11 not in offsets(directory)


def test_a_full_disk_under_the_cache_does_no_harm(tmp_path, cache, monkeypatch):
    def full(_self, _name, _parts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(filters.PrivateDirectory, "write", full)
    directory = grown(drawn(tmp_path), "d=2")
    clean(directory)
    assert 11 not in offsets(directory)
    assert not names(cache)


@pytest.mark.parametrize(("missing_bytes", "are_made"), [(0, True), (1, False)])
def test_hashes_take_a_quarter_of_the_free_space_at_most(tmp_path, cache, monkeypatch, missing_bytes, are_made):
    collected, add = [], filters.Filters.add
    monkeypatch.setattr(
        filters.Filters, "add", lambda self, walk, words: (collected.append(words.nbytes), add(self, walk, words))[1]
    )
    clean(grown(drawn(tmp_path / "measured"), "d=2"))
    shutil.rmtree(cache)
    free = SimpleNamespace(f_bavail=4 * (sum(collected) - missing_bytes), f_frsize=1)
    statvfs = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda where: free if isinstance(where, int) else statvfs(where))
    clean(grown(drawn(tmp_path / "limited"), "d=2"))
    assert bool(names(cache)) is are_made


class _Cut(SteppingFileSystem):
    """A power cut before a step."""

    def __init__(self, steps):
        super().__init__()
        self._steps = steps

    def step(self, purpose):
        self._steps -= 1
        if self._steps < 0:
            raise PowerCut


@pytest.mark.parametrize("seed", range(LOGS))
def test_random_rounds_leave_what_they_leave_without_filters(tmp_path, monkeypatch, seed):
    """Both logs get the same records; rounds of the one with filters are cut at times, and done again."""
    random = Random(seed)
    monkeypatch.setattr(segments, "WINDOW_BYTES", random.choice([1, 1 << 20]))
    ours, plain = PartitionDir(tmp_path / "ours"), PartitionDir(tmp_path / "plain")
    layers = configured(orders={**COMPACT, "segment.bytes": random.choice(["14", "600", "2000"])})
    now_ms, threads, is_grouped_alike = NOW_MS, random.choice([1, 2]), True
    for _ in range(6):
        for _ in range(random.randint(1, 4)):
            batches = _batches(random, ours.end_offset, now_ms)
            for directory in (ours, plain):
                directory.segment(directory.end_offset, *batches, mtime_ms=now_ms)
        with monkeypatch.context() as patched:
            patched.setattr(filters, "SEGMENT_BYTES_MIN", 1 << 30)
            clean(plain, layers, now_ms)
        was_cut = random.random() < 0.2
        if was_cut:
            with suppress(PowerCut):
                clean(ours, layers, now_ms, _Cut(random.randint(0, 40)), threads)
        clean(ours, layers, now_ms, threads=threads)
        assert records_in(ours.path) == records_in(plain.path)
        is_grouped_alike &= not was_cut  # what was swapped in before the cut is a segment from then on
        assert not is_grouped_alike or _contents(ours) == _contents(plain)
        now_ms += random.choice([1000, DAY_MS // 2, 2 * DAY_MS])


def _batches(random, base, now_ms):
    batches = []
    hot = random.randrange(40)  # most records of a segment have keys near each other: other segments stay as they are
    for _ in range(random.randint(1, 5)):
        pairs = []
        for _ in range(random.randint(1, 6)):
            key = f"k{(hot + random.randrange(4)) % 40 if random.random() < 0.9 else random.randrange(40)}"
            pairs.append(key if random.random() < 0.1 else f"{key}={random.randrange(10)}")
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": base} if random.random() < 0.2 else {}
        batches.append(keyed(base, *pairs, timestamp_ms=now_ms, **producer))
        base += len(pairs) + random.randrange(3)
    return batches


def _contents(directory):
    return {path.name: path.read_bytes() for path in directory.path.iterdir() if not path.name.startswith(".")}
