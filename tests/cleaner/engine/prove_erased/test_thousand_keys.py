"""A thousand keys in every kind of file, in each format and codec: all are found, with their offsets, and no other."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from storage.names import FileKind, segment_file_name
from storage.records import Record
from tests.legacy_logs import FORMATS, Format
from tests.partition_dirs import NOW_MS, PartitionDir, committed

KEYS: Final = 1000
Found = dict[tuple[str, int], list[tuple[int, bool]]]
"""By path and key: offsets, and whether each record is a tombstone."""

DIRECTORIES: Final = (
    *(
        "orders-0",
        "orders-0.1111111111111111111111111111111a-delete",
        "clicks-3.1111111111111111111111111111111b-stray",
    ),
    *("orders-1.1111111111111111111111111111111c-future", "backup/orders-0", "lost"),
)
SUFFIXES: Final = ("", ".deleted", ".cleaned", ".swap", ".bak", ".deleted.logcleaner")


def decoys(random: Random, key: bytes) -> list[bytes]:
    """Keys that are nearly a wanted one: longer, shorter, with another byte in the middle, at the end or in front."""
    middle = len(key) // 2
    others = [key + b"0", key[:-1], b"0" + key, key[::-1], key[:middle] + b"#" + key[middle + 1 :], b"", key.upper()]
    return random.sample(others, 3)


def batch_of(random: Random, keys: list[bytes], offset: int, form: Format) -> tuple[bytes, list[Record]]:
    """One batch with the keys and their decoys, some of them twice, some as tombstones; values hold other keys."""
    drawn = [*keys, *(decoy for key in keys for decoy in decoys(random, key)), random.choice(keys)]
    random.shuffle(drawn)
    records: list[Record] = []
    for key in drawn:
        value = None if random.random() < 0.3 else b"about " + random.choice(keys)
        headers = ((b"key", random.choice(keys)),) if form.magic == 2 else ()
        records.append(
            Record(offset, NOW_MS, None if random.random() < 0.02 and key not in keys else key, value, headers)
        )
        offset += 1
    return form.encode(records), records


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], Found]:
    """A log dir, the keys, and where each of them is."""
    random, log_dir = Random(24), tmp_path_factory.mktemp("seeded") / "data"
    keys = [f"user-{place:04d}-{random.randrange(10**12):012d}" for place in range(KEYS)]
    places = {key.encode(): place for place, key in enumerate(keys)}
    slots = [(directory, suffix, form) for directory in DIRECTORIES for suffix in SUFFIXES for form in FORMATS]
    random.shuffle(slots)
    shares = defaultdict(list)
    for place, key in enumerate(keys):
        shares[slots[place % len(slots)]].append(key.encode())
    found: Found = defaultdict(list)
    bases: dict[str, int] = defaultdict(int)
    for (directory, suffix, form), share in shares.items():
        base = bases[directory]
        data, records = batch_of(random, share, base, form)
        bases[directory] = records[-1].offset + 1
        path = log_dir / directory / (segment_file_name(base, FileKind.LOG) + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        for record in records:
            if record.key in places:
                found[str(path), places[record.key]].append((record.offset, record.value is None))
    committed(log_dir, PartitionDir(log_dir, "empty-0").segment(0))
    return log_dir, keys, found


def asked(log_dir: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["prove-erased", *arguments, "--log-dir", str(log_dir), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_all_are_found_and_none_falsely(
    seeded: tuple[Path, list[str], Found], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir, keys, expected = seeded
    file = tmp_path / "keys"
    file.write_text("\n".join(keys) + "\n")
    status, document = asked(log_dir, capsys, "--keys", str(file))
    assert status == 10
    found: Found = {
        (one["path"], hits["key"]): [(r["offset"], r["value_bytes"] is None) for r in hits["records"]]
        for one in document["files"]
        for hits in one["found"]
    }
    assert found == expected
    assert {key for _, key in found} == set(range(KEYS))
    assert len({Path(path).parent.name for path, _ in found}) == len({Path(name).name for name in DIRECTORIES})
    assert document["is_complete"]
    assert not document["is_erased"]


def test_evidence_of_each_file_is_its_hash(
    seeded: tuple[Path, list[str], Found], capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir, keys, _ = seeded
    _, document = asked(log_dir, capsys, keys[0])
    files = {one["path"]: one for one in document["files"]}
    assert set(files) == {str(path) for path in log_dir.rglob("*") if path.is_file()}
    for path, one in files.items():
        data = Path(path).read_bytes()
        assert one["bytes"] == len(data)
        if one["content"] == "records":
            assert one["sha256"] == hashlib.sha256(data).hexdigest()
            assert one["ranges"] == [[0, len(data)]]


def test_keys_that_are_nowhere_are_proven_so(
    seeded: tuple[Path, list[str], Found], capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir, keys, _ = seeded
    status, document = asked(log_dir, capsys, *(key.replace("user", "uzer") for key in keys[:50]))
    assert status == 0
    assert document["is_erased"]
    assert document["is_complete"]
    assert document["totals"]["found"] == 0
    assert document["gone_by_ms"] is None


def test_each_file_that_holds_a_key_has_a_date_or_says_what_it_takes(
    seeded: tuple[Path, list[str], Found], capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir, keys, _ = seeded
    _, document = asked(log_dir, capsys, *keys, "--set", "cleanup.policy=compact")
    for one in document["files"]:
        for hits in one["found"]:
            assert hits["gone_by_ms"] is not None or hits["needs"], (one["path"], hits)
            assert hits["text"].endswith(".")
    codes = {hits["code"] for one in document["files"] for hits in one["found"]}
    assert codes >= {"STRAY", "FUTURE", "COPY", "TOPIC_DELETED"}
