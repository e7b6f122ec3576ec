"""Whatever an index file says, a lookup gives what a scan of the batches gives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from storage.log import Log, LogConfig, SpecialTimestamp
from storage.names import FileKind
from storage.records import Record
from tests.sampled import some
from tests.storage.log.logs import FS, NOW_MS, a_log, looked_up

LOGS = 60
INDEXES = (FileKind.INDEX, FileKind.TIME_INDEX)


class Truth(NamedTuple):
    """What a scan finds: each record with its segment, its batch's place, and its timestamp."""

    timestamp_ms: int
    offset: int
    segment_base_offset: int
    position: int


@pytest.mark.parametrize("seed", some(range(LOGS), 15, always=(0, 1)))
def test_lookups_agree_with_a_scan(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sound = made(tmp_path, random)
    truth = list(scanned(sound))
    for number in range(6):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(sound.directory, copy)
        told = [damage(path, random) for path in sorted(copy.glob("*index")) if random.random() < 0.7]
        if seed % 3 == 0:
            with max(copy.glob("*.log")).open("ab") as file:
                file.write(random.randbytes(40))
        compare(Log.open(copy, LogConfig(), FS), truth, random, told)


def test_an_index_that_comes_to_an_end_while_the_log_is_open_is_no_matter(tmp_path: Path) -> None:
    """Single entries are read; no part of it is mapped."""
    log = Log.open(made(tmp_path, Random(1)).directory, LogConfig(), FS)
    truth = list(scanned(log))
    compare(log, truth, Random(1), [])
    for path in log.directory.glob("*index"):
        with path.open("r+b") as file:
            file.truncate(3)
    compare(log, truth, Random(1), [])


def test_a_log_that_was_cut_meanwhile_is_looked_up_as_it_is(tmp_path: Path) -> None:
    log = Log.open(made(tmp_path, Random(1)).directory, LogConfig(), FS)
    with max(log.directory.glob("*.log")).open("r+b") as file:
        file.truncate(70)
    newest = max(scanned(log), key=lambda one: (one.timestamp_ms, -one.offset))
    assert looked_up(log, SpecialTimestamp.MAX_TIMESTAMP) == newest[:2]


def made(parent: Path, random: Random) -> Log:
    """Batches of which no two have the same largest timestamp, in some segments, closed."""
    size = random.choice((400, 2000, 9000))
    log = a_log(parent, LogConfig(segment_bytes=size, index_interval_bytes=random.choice((1, 150, 1000))))
    count = random.randrange(5, 60)
    times = [NOW_MS + 100 * n for n in range(count)]
    if random.random() < 0.7:
        random.shuffle(times)
    with log:
        for at in times:
            newest_first = [Record(0, at - 7 * n, b"k", b"v") for n in range(random.choice((1, 2, 7)))]
            log.append_records(newest_first[:: random.choice((1, -1))], now_ms=NOW_MS)
            if random.random() < 0.05:
                log.roll(NOW_MS)
    return Log.open(log.directory, LogConfig(), FS)


def scanned(log: Log) -> Iterator[Truth]:
    bases = [segment.base_offset for segment in log.segments]
    for batch in log.read():
        base = max(base for base in bases if base <= batch.base_offset)
        yield from (Truth(one.timestamp_ms, one.offset, base, batch.position) for one in batch.records())


def damage(path: Path, random: Random) -> str:
    """Do something to an index file, and tell what."""
    data, size = path.read_bytes(), 8 if path.suffix == ".index" else 12
    kinds = ["absent", "empty", "short", "zeros behind", "garbage", "another's", "a bit", "an entry", "backwards"]
    kind = random.choice(kinds)
    entries = [data[at : at + size] for at in range(0, len(data), size)]
    match kind:
        case "absent":
            path.unlink()
            return f"{path.name}: {kind}"
        case "empty":
            data = b""
        case "short":
            data = data[: random.randrange(len(data) + 1)]
        case "zeros behind":
            data = data[: random.randrange(len(data) + 1)] + b"\0" * random.randrange(5000)
        case "garbage":
            data = random.randbytes(random.randrange(1, 400))
        case "another's":
            data = random.choice(sorted(path.parent.glob(f"*{path.suffix}"))).read_bytes()
        case "a bit" if data:
            place = random.randrange(len(data))
            data = data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]
        case "an entry" if entries:
            entries[random.randrange(len(entries))] = random.randbytes(size)
            data = b"".join(entries)
        case "backwards":
            data = b"".join(reversed(entries))
    path.write_bytes(data)
    return f"{path.name}: {kind}"


def compare(log: Log, truth: list[Truth], random: Random, told: list[str]) -> None:
    for one in random.sample(truth, min(len(truth), 25)):
        found = next(log.read(one.offset))
        assert (int(found.path.stem), found.position) == (one.segment_base_offset, one.position), told
        for target in (one.timestamp_ms, one.timestamp_ms + 1):
            assert looked_up(log, target) == as_late(truth, target), (told, target)
    newest = max(truth, key=lambda one: (one.timestamp_ms, -one.offset))
    assert looked_up(log, SpecialTimestamp.MAX_TIMESTAMP) == newest[:2], told
    assert looked_up(log, newest.timestamp_ms + 1) is None, told


def as_late(truth: list[Truth], target: int) -> tuple[int, int] | None:
    """The first record that is as late: it lies in the first segment that has one."""
    return next(((one.timestamp_ms, one.offset) for one in truth if one.timestamp_ms >= target), None)
