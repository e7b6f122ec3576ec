"""Files of real brokers, and damaged ones: what the readable code finds batch by batch is found, and no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from cleaner.engine.prove_erased.places import FileContent, FilePlace, places_in
from cleaner.engine.prove_erased.searching import FileEvidence, KeyMatcher, search
from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
from storage.codecs.compression import Compression
from storage.errors import LogCleanerError
from storage.records import Record, encode_batch, encode_message
from tests.batches import iter_batches
from tests.conftest import Samples
from tests.partition_dirs import NOW_MS, PartitionDir

FUZZED: Final = 5_000
Found = dict[tuple[Path, bytes], list[int]]


def readable(path: Path) -> Iterator[Record]:
    """The data records of a file, by the readable code."""
    for batch in iter_batches(path.read_bytes(), path):
        if not batch.header.is_control:
            yield from batch.records()


def of_log_dir(log_dir: Path, random: Random) -> tuple[list[bytes], Found]:
    """Some keys of a log dir, and where they are."""
    found: defaultdict[bytes, list[tuple[Path, int]]] = defaultdict(list)
    for path in sorted(log_dir.rglob("*.log*")):
        for record in readable(path):
            if record.key is not None:
                found[record.key].append((path, record.offset))
    keys = random.sample(sorted(found), min(60, len(found)))
    wanted: defaultdict[tuple[Path, bytes], list[int]] = defaultdict(list)
    for key in keys:
        for path, offset in found[key]:
            wanted[path, key].append(offset)
    return keys, wanted


def searched(log_dir: Path, keys: list[bytes]) -> tuple[Found, list[FileEvidence]]:
    matcher = KeyMatcher(wanted_keys([key.hex() for key in keys], KeyEncoding.HEX))
    evidences = [one for place in places_in(log_dir, None) if (one := search(place, matcher)) is not None]
    found: Found = {}
    for evidence in evidences:
        for hits in evidence.hits:
            offsets = [hit.offset for hit in hits.told]
            found[evidence.place.path, keys[hits.key]] = offsets
            assert hits.values + hits.tombstones >= len(offsets)
    return found, evidences


@pytest.mark.parametrize("stage", ["before2", "after2"])
def test_keys_of_a_real_log_dir(samples: Samples, stage: str) -> None:
    check(samples.root / stage)


@pytest.mark.parametrize("stage", ["before", "after"])
def test_keys_of_an_old_log_dir_with_deleted_files(old_samples: Samples, stage: str) -> None:
    check(old_samples.root / stage)


def check(log_dir: Path) -> None:
    keys, expected = of_log_dir(log_dir, Random(str(log_dir.name)))
    found, evidences = searched(log_dir, keys)
    assert found == {place: offsets[:100] for place, offsets in expected.items()}
    assert [one.place.path for one in evidences if one.undecoded or one.error] == []
    assert [one.place.path for one in evidences if one.place.content is FileContent.UNKNOWN] == []


def test_damage_hides_no_key_that_it_does_not_hit(tmp_path: Path) -> None:
    """A file is damaged in one place: it is told as such, or every key is found; and no other key ever."""
    random = Random(24)
    batches: list[bytes] = []
    for number in range(12):
        records = [Record(3 * number + k, NOW_MS, b"key-%d-%d" % (number, k), b"value" * k) for k in range(3)]
        codec = list(Compression)[number % 5]
        batches.append(encode_message(records[0], 1) if number < 3 else encode_batch(records, compression=codec))
    made = PartitionDir(tmp_path).segment(0, *batches)
    whole, path = made.log(0).read_bytes(), made.log(0)
    keys = [record.key for record in readable(path) if record.key is not None]
    place = next(one for one in places_in(tmp_path, None) if one.path == path)
    matcher = KeyMatcher(wanted_keys([key.hex() for key in keys], KeyEncoding.HEX))
    told = 0
    for _ in range(FUZZED):
        data = bytearray(whole)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data[: random.randrange(len(data))] if random.random() < 0.2 else data)
        evidence = examined(place, matcher)
        told += bool(evidence.undecoded)
        is_cut = path.stat().st_size < len(whole)
        assert evidence.undecoded or is_cut or len(evidence.hits) >= len(keys) - 1
        assert len({hits.key for hits in evidence.hits}) == len(evidence.hits) <= len(keys)
    assert told > FUZZED // 2


@pytest.mark.parametrize("suffix", ["", ".deleted", ".swap"])
def test_the_search_goes_on_behind_damage_by_the_index_of_the_same_state(tmp_path: Path, suffix: str) -> None:
    batches = [encode_batch([Record(offset, NOW_MS, b"key-%d" % offset, b"value")]) for offset in range(3)]
    made, second = PartitionDir(tmp_path).segment(0, *batches), len(batches[0])
    data = bytearray(made.log(0).read_bytes())
    data[second + 8 : second + 12] = (2**31 - 1).to_bytes(4, "big")
    log, index = made.log(0), made.log(0).with_suffix(".index")
    log.write_bytes(data)
    index.write_bytes((2).to_bytes(4, "big") + (2 * len(batches[0])).to_bytes(4, "big"))
    for path in (log, index):
        path.rename(f"{path}{suffix}")
    found, evidences = searched(tmp_path, [b"key-0", b"key-1", b"key-2"])
    assert [key for _, key in found] == [b"key-0", b"key-2"]
    assert [one.place.path.name for one in evidences if one.undecoded] == [f"{log.name}{suffix}"]


def examined(place: FilePlace, matcher: KeyMatcher) -> FileEvidence:
    try:
        found = search(place, matcher)
    except LogCleanerError as error:
        pytest.fail(str(error))
    assert found is not None
    assert found.sha256
    return found


def test_a_damaged_transaction_index_is_told_since_aborted_records_may_count(tmp_path: Path) -> None:
    PartitionDir(tmp_path).segment(0, encode_batch([Record(0, NOW_MS, b"k", b"v")]), aborted=b"\xff" * 34)
    evidences = searched(tmp_path, [b"other"])[1]
    (told,) = (evidence for evidence in evidences if evidence.undecoded)
    assert told.place.path.suffix == ".txnindex"
    assert "aborted transaction" in told.undecoded[0].cause
