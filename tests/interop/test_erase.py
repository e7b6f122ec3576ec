"""Random logs, from which keys are erased: Kafka reads exactly the other records, and knows the same producers.

The day draws some of 500 logs. ``LOGCLEANER_RANDOM_LOGS=500`` tries all; a failing one comes back by its number.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cleaner import Cleaner
from cleaner.engine.erase.copying import erase_into_copy
from cleaner.engine.erase.erasing import Erasure, ErasureRequest, erase, plan_erasure
from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
from policies import Request
from policies.config.config_layers import ConfigLayers, Configured
from policies.config.config_sources import ConfigSources, Said
from storage.scan import segments
from tests.interop.referee import Config, Referee
from tests.interop.scenarios import scenario
from tests.interop.sides import PARTITION, File, copy, files_of, partition_dir
from tests.interop.test_random_logs import prepare
from tests.interop.verdicts import Batch, Log, Record
from tests.legacy_logs import legacy_log_dir
from tests.partition_dirs import NOW_MS
from tests.sampled import some

pytestmark = pytest.mark.kafka

LOGS_IN_CI: Final = 12
LEGACY_LOGS: Final = 6
ASKED: Final = os.environ.get("LOGCLEANER_RANDOM_LOGS")
SEEDS: Final = range(int(ASKED)) if ASKED else some(range(500), LOGS_IN_CI)
SHAPES: Final[Counter[str]] = Counter()
"""How many erasures had what makes an erasure worth comparing."""


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_reads_exactly_the_others(
    referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    if seed % 2:  # each batch a slice of its own: these logs are smaller than a window
        monkeypatch.setattr(segments, "WINDOW_BYTES", 1)
    drawn = scenario(seed)
    log_dir, now_ms = tmp_path / "log", 0
    log_dir.mkdir()
    for number in range(len(drawn.steps)):
        now_ms = prepare(referee, log_dir, drawn, number, now_ms)
        erased_and_compared(referee, log_dir, random.Random(seed * 10 + number), drawn.cleaning, now_ms)


@pytest.mark.parametrize("seed", range(LEGACY_LOGS))
def test_kafka_reads_exactly_the_others_of_old_formats(referee: Referee, tmp_path: Path, seed: int) -> None:
    log_dir = tmp_path / "log"
    made = legacy_log_dir(log_dir, seed)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n0\n")
    (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n1\nrandom 0 {made.end_offset}\n")
    referee.read([made.path], now_ms=NOW_MS, checkpoints=True, batches_only=True)
    erased_and_compared(referee, log_dir, random.Random(seed), {"cleanup.policy": "compact"}, NOW_MS)


def erased_and_compared(referee: Referee, log_dir: Path, dice: random.Random, config: Config, now_ms: int) -> None:
    """Erase some keys in the log dir, and compare what Kafka reads before and afterwards."""
    before = read(referee, log_dir, config, now_ms)
    known = sorted({record.key for record in before.records() if record.key and not record.key.startswith("sha256")})
    keys = frozenset(dice.sample(known, dice.randint(1, max(len(known) // 3, 1)))) if known else frozenset({"00"})
    with_tombstones = dice.random() < 0.5
    files = files_of(partition_dir(log_dir))
    copied = into_copy(log_dir, keys, config, now_ms, with_tombstones=with_tombstones)
    done = erased(log_dir, keys, config, now_ms, with_tombstones=with_tombstones)
    assert not done.errors
    (partition,) = done.partitions
    assert partition.error is None
    left = files_of(partition_dir(log_dir))
    assert_same_files(left, files_of(partition_dir(copied)))
    changed = {f"{segment.base_offset:020}" for segment in partition.segments}
    for name, file in files.items():
        if name.partition(".")[0] not in changed or name.endswith(".snapshot"):
            assert left[name] == file, name
        elif name.endswith(".log"):
            assert left[name].mtime_ms == file.mtime_ms, name
    after = read(referee, log_dir, config, now_ms)
    assert replace(read(referee, copied, config, now_ms), dir="") == replace(after, dir="")
    gone = [
        one for one in before.batches() for record in one.records if goes(one, record, before, keys, with_tombstones)
    ]
    assert partition.records == len(gone)
    assert_only_lost(before, after, keys, with_tombstones=with_tombstones)
    stays = sum(one.records for one in partition.stays)
    assert partition.records + stays == sum(r.key in keys for b in before.batches() if not b.control for r in b.records)
    SHAPES.update(shapes(before, after, partition.records, stays, with_tombstones=with_tombstones))
    recovered(referee, log_dir, after, config, now_ms)


def cleaner_of(log_dir: Path, config: Config) -> Cleaner:
    overrides = {key: Said(str(value), "the test") for key, value in config.items()}
    return Cleaner(Configured((log_dir,), ConfigLayers.read(ConfigSources(overrides=overrides))))


def asking(keys: frozenset[str], now_ms: int, *, with_tombstones: bool) -> ErasureRequest:
    request = Request(now_ms, confirmed=True, in_place=True, topics=(PARTITION.topic,), delete_delay_ms=0)
    return ErasureRequest(request, wanted_keys(sorted(keys), KeyEncoding.HEX), with_tombstones)


def assert_same_files(left: Mapping[str, File], copied: Mapping[str, File]) -> None:
    """A copy has the files that an erasure in place leaves, and of the logs their times."""
    assert left.keys() == copied.keys()
    for name, file in left.items():
        assert copied[name].content == file.content, name
        assert not name.endswith(".log") or copied[name].mtime_ms == file.mtime_ms, name


def into_copy(log_dir: Path, keys: frozenset[str], config: Config, now_ms: int, *, with_tombstones: bool) -> Path:
    """Erase in a copy, while the log dir stays as it is."""
    files, output = files_of(partition_dir(log_dir)), log_dir.with_name(f"{log_dir.name}-{now_ms}-erased")
    asked = asking(keys, now_ms, with_tombstones=with_tombstones)._replace(output=output)
    done = erase_into_copy(cleaner_of(log_dir, config), asked, tool_version="test")
    assert [partition.error for partition in done.partitions] == [None]
    assert files_of(partition_dir(log_dir)) == files
    return output


def erased(log_dir: Path, keys: frozenset[str], config: Config, now_ms: int, *, with_tombstones: bool) -> Erasure:
    """Plan, erase, and find the same."""
    cleaner, asked = cleaner_of(log_dir, config), asking(keys, now_ms, with_tombstones=with_tombstones)
    planned = plan_erasure(cleaner, asked, measured=True)
    done = erase(cleaner, asked, planned)
    assert [p.segments for p in planned.partitions] == [p.segments for p in done.partitions]
    assert [p.stays for p in planned.partitions] == [p.stays for p in done.partitions]
    return done


def read(referee: Referee, log_dir: Path, config: Config, now_ms: int) -> Log:
    """What Kafka reads of a copy, as behind a clean stop."""
    opened = copy(log_dir, f"{log_dir.name}-opened")
    (log,) = referee.read([partition_dir(opened)], now_ms=now_ms, checkpoints=True, config=config)
    return log


def recovered(referee: Referee, log_dir: Path, after: Log, config: Config, now_ms: int) -> None:
    """Kafka recovers every segment, from the first byte on, and finds the same."""
    crashed = copy(log_dir, f"{log_dir.name}-crashed")
    (crashed / "recovery-point-offset-checkpoint").unlink()
    (crashed / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (log,) = referee.read([partition_dir(crashed)], now_ms=now_ms, shutdown="unclean", checkpoints=True, config=config)
    assert list(log.records()) == list(after.records())
    assert (log.log_start_offset, log.log_end_offset) == (after.log_start_offset, after.log_end_offset)


def goes(batch: Batch, record: Record, log: Log, keys: frozenset[str], with_tombstones: bool) -> bool:
    """The rule of the erasure, told once more."""
    is_wanted = not batch.control and record.key in keys and (with_tombstones or record.value is not None)
    is_last_message = batch.magic < 2 and record.offset + 1 in waited_for(log)
    return is_wanted and batch.last_offset < stable_offset(log) and not is_last_message


def stable_offset(log: Log) -> int:
    """The last stable offset, of dead records, too: Kafka's own never lies below the log start."""
    open_since = [p.current_txn_first_offset for p in log.producers if p.current_txn_first_offset is not None]
    return min([log.last_stable_offset, *open_since])


def waited_for(log: Log) -> tuple[int, ...]:
    """Where consumers wait for the end of some batch."""
    return stable_offset(log), log.high_watermark, log.log_end_offset


def assert_only_lost(before: Log, after: Log, keys: frozenset[str], *, with_tombstones: bool) -> None:
    """Every batch is as it was, but for the records that go; a batch without a record is there if it must be."""
    assert replace(before, dir="", segments=[]) == replace(after, dir="", segments=[])
    assert [s.base_offset for s in before.segments] == [s.base_offset for s in after.segments]
    assert [s.aborted_txns for s in before.segments] == [s.aborted_txns for s in after.segments]
    expected: list[Record] = []
    for batch in before.batches():
        kept = [record for record in batch.records if not goes(batch, record, before, keys, with_tombstones)]
        # v0 has no timestamps: a wrapper of v0 that is written anew keeps none of its messages of v1 (KAFKA-4298)
        expected += [replace(r, timestamp=-1) for r in kept] if batch.magic == 0 and kept != batch.records else kept
    assert list(after.records()) == expected
    left = {batch.last_offset: batch for batch in after.batches()}
    ends = {producer.last_offset for producer in before.producers} | {end - 1 for end in waited_for(before)}
    for batch in before.batches():
        kept = [record for record in batch.records if not goes(batch, record, before, keys, with_tombstones)]
        if batch.magic < 2:
            continue
        found = left.get(batch.last_offset)
        if kept == batch.records:
            assert found is not None
            assert replace(found, position=0) == replace(batch, position=0)
        elif kept:
            assert found is not None
            assert headers(found) == headers(batch)
            assert found.delete_horizon_ms == batch.delete_horizon_ms
        elif batch.last_offset in ends:
            assert found is not None
            assert headers(replace(found, codec=batch.codec)) == headers(batch)


def headers(batch: Batch) -> Batch:
    """What a batch keeps if it loses records."""
    return replace(batch, position=0, size_bytes=0, crc=0, count=0, max_timestamp=0, records=[], delete_horizon_ms=None)


def shapes(before: Log, after: Log, records: int, stays: int, *, with_tombstones: bool) -> list[str]:
    """What the erasure had of all that can make a difference."""
    aborted = any(segment.aborted_txns for segment in before.segments)
    had = {
        "records gone": records > 0,
        "records stay": stays > 0,
        "tombstones": with_tombstones,
        "aborted transactions": aborted and records > 0,
        "active producers": bool(before.producers) and records > 0,
        "new empty batch": sum(b.count == 0 for b in after.batches()) > sum(b.count == 0 for b in before.batches()),
        "open transaction": before.last_stable_offset < before.high_watermark,
        "high watermark below the end": before.high_watermark < before.log_end_offset,
    }
    return [shape for shape, is_there in had.items() if is_there]


def test_every_shape_occurred() -> None:
    if sum(SHAPES.values()) < LOGS_IN_CI * 4:
        pytest.skip("only some of the random logs were compared")
    assert len(SHAPES) == 8, SHAPES
