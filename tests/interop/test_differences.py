"""Where we differ from Kafka and mean it: both results, and what the difference is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from storage.txn_index import parse_txn_index
from tests.interop.referee import Config, Referee
from tests.interop.sides import PARTITION, clean_with_ours, copy, partition_dir
from tests.interop.verdicts import Log

pytestmark = pytest.mark.kafka

LOGS: Final = 8
FURTHER: Final = 10
"""Offsets: the reader begins at an index entry, and must not meet the marker."""
COMPACTED: Final[Config] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0, "segment.bytes": 20_000}
SIZES: Final[Config] = {"segment.bytes": 20_000, "index.interval.bytes": 0}


def behind_aborts(directory: Path) -> Iterator[int]:
    """Offsets some batches behind the marker of an aborted transaction, in the same segment."""
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    for base, next_base in pairwise(bases):
        path = directory / f"{base:020}.txnindex"
        for entry in parse_txn_index(path.read_bytes(), path) if path.exists() else []:
            if entry.last_offset + FURTHER < next_base:
                yield entry.last_offset + FURTHER


def keeps_twice(log: Log, start: int, end: int) -> bool:
    """Whether a key occurs more than once among the data records of a section."""
    data = (record for batch in log.batches() if not batch.control for record in batch.records)
    return max(Counter(record.key for record in data if start <= record.offset < end).values(), default=0) > 1


def test_committed_records_supersede_although_their_producer_aborted_just_before_the_dirty_section(
    referee: Referee, tmp_path: Path
) -> None:
    """Kafka takes a transaction that was aborted in the first dirty segment, below the first dirty offset, as still
    going on: it leaves the committed records of that producer out of its map, and keeps what they supersede.
    """
    for seed in range(LOGS):
        log_dir = tmp_path / f"log-{seed}"
        (made,) = referee.workload([partition_dir(log_dir)], seed, codecs=["none"], config=SIZES)
        for first_dirty in behind_aborts(partition_dir(log_dir)):
            kafka, own, end = cleaned_by_both(referee, log_dir, first_dirty, made.now_ms)
            assert set(own.records()) <= set(kafka.records())
            assert not keeps_twice(own, first_dirty, end)
            if keeps_twice(kafka, first_dirty, end):
                return
    pytest.fail("no log in which Kafka keeps a superseded record")


def cleaned_by_both(referee: Referee, log_dir: Path, first_dirty: int, now_ms: int) -> tuple[Log, Log, int]:
    """Kafka's result, ours, and where the round ended."""
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\n{PARTITION.topic} {PARTITION.partition} {first_dirty}\n")
    theirs, ours = (partition_dir(copy(log_dir, name)) for name in ("theirs", "ours"))
    (found,) = referee.clean([theirs], config=COMPACTED, now_ms=now_ms, checkpoints=True)
    clean_with_ours(ours.parent, COMPACTED, now_ms)
    kafka, own = referee.read([theirs, ours], now_ms=now_ms, checkpoints=True)
    return kafka, own, found.end_offset or first_dirty
