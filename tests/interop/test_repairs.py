"""After each repair Kafka opens the log, and finds every record, producer and epoch that it found before, and hides
the same records as aborted.

It need not find the same transaction index: that of a compacted segment names transactions of which no record is left,
which Kafka's own recovery forgets, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.means import Means
from cleaner.engine.repair.repairing import RepairRequest, Repairs, repair_log_dirs
from cleaner.engine.verify.checked import CheckRequest
from cleaner.engine.verify.checking import check_log_dirs
from policies.findings.findings import Finding
from policies.findings.repairs import DERIVED, RepairCode, RepairKind
from storage.log_dir import LogDir
from storage.names import LEADER_EPOCH_CHECKPOINT
from tests.conftest import Samples
from tests.flips import staged
from tests.interop.referee import Referee
from tests.interop.verdicts import KafkaRefused, Log
from tests.partition_dirs import a_cleaner, configured

pytestmark = pytest.mark.kafka

PARTITIONS: Final = ("orders-0", "payments-0", "ledger-0")
SUFFIXES: Final = (".index", ".timeindex", ".txnindex", ".snapshot")
DAMAGES: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    "missing": lambda _: None,
    "every byte turned": lambda data: bytes(byte ^ 0x55 for byte in data),
    "cut in half": lambda data: data[: len(data) // 2],
    "padded with zeros": lambda data: data + bytes(1200),
    "only zeros": lambda data: bytes(len(data)),
}


def repair(log_dir: Path, kinds: frozenset[RepairKind]) -> Repairs:
    """Lock, look, mend."""
    with a_cleaner(log_dir, configured()).locked() as opened:
        return repair_log_dirs(opened, RepairRequest(CheckRequest(), kinds), check_log_dirs)


def wrong(log_dir: Path) -> list[Finding]:
    """What verify finds."""
    return list(check_log_dirs([LogDir(log_dir)], CheckRequest(), Means()).findings)


def read(referee: Referee, log_dir: Path, now_ms: int) -> list[Log]:
    """As a broker has the logs after it started on a copy."""
    copied = shutil.copytree(log_dir, log_dir.with_name("read"))
    logs = referee.read([copied / name for name in PARTITIONS], checkpoints=True, now_ms=now_ms)
    shutil.rmtree(copied)
    return logs


def derived_files(log_dir: Path) -> list[Path]:
    files = [path for name in PARTITIONS for path in (log_dir / name).iterdir()]
    return [path for path in files if path.suffix in SUFFIXES or path.name == LEADER_EPOCH_CHECKPOINT]


def aborted(log: Log) -> set[int]:
    """The offsets of records that a reader of committed records does not get."""
    transactions = [txn for segment in log.segments for txn in segment.aborted_txns]
    return {
        record.offset
        for batch in log.batches()
        for txn in transactions
        if batch.transactional and not batch.control and batch.producer_id == txn.producer_id
        for record in batch.records
        if txn.first_offset <= record.offset <= txn.last_offset
    }


def epochs(log: Log) -> list[int]:
    """The epoch of each batch by the leader epoch cache; of a compacted log it may begin at the first batch left."""
    starts = [(entry.start_offset, entry.epoch) for entry in log.leader_epochs]
    return [max(epoch for start, epoch in starts if start <= batch.base_offset) for batch in log.batches()]


@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_kafka_finds_after_a_repair_what_it_found_before_the_damage(
    samples: Samples, referee: Referee, tmp_path: Path, stage: str, damage: str
) -> None:
    log_dir, now_ms = staged(samples, tmp_path / "data", stage, PARTITIONS), samples.cleaned_at_ms("after")
    healthy, files = read(referee, log_dir, now_ms), derived_files(log_dir)
    for path in files:
        damaged = DAMAGES[damage](path.read_bytes())
        if damaged is not None:
            path.write_bytes(damaged)
        else:
            path.unlink()
    repairs = repair(log_dir, DERIVED)
    assert repairs.results
    assert {r.planned.repair.code for r in repairs.results} <= {RepairCode.REPAIRABLE, RepairCode.NOTHING_TO_DO}
    assert not repairs.has_failed
    assert wrong(log_dir) == []
    for before, after in zip(healthy, read(referee, log_dir, now_ms), strict=True):
        assert [*after.batches()] == [*before.batches()]
        assert [s.largest_timestamp for s in after.segments] == [s.largest_timestamp for s in before.segments]
        assert aborted(after) == aborted(before)
        assert after.producers == before.producers
        assert epochs(after) == epochs(before)
        assert (after.log_start_offset, after.log_end_offset) == (before.log_start_offset, before.log_end_offset)
        assert after.last_stable_offset == before.last_stable_offset


def test_kafka_reads_a_log_again_whose_zero_tail_was_cut(samples: Samples, referee: Referee, tmp_path: Path) -> None:
    log_dir, now_ms = staged(samples, tmp_path / "data", "after", PARTITIONS), samples.cleaned_at_ms("after")
    healthy = read(referee, log_dir, now_ms)
    logs = [sorted((log_dir / name).glob("*.log"))[-1] for name in PARTITIONS]
    for path in logs:
        with path.open("ab") as file:
            file.truncate(path.stat().st_size + 1_000_000)
    with pytest.raises(KafkaRefused):
        read(referee, log_dir, now_ms)
    shutil.rmtree(tmp_path / "read")
    repairs = repair(log_dir, frozenset({RepairKind.ZERO_TAIL}))
    assert wrong(log_dir) == []
    assert [result.is_done for result in repairs.results] == [True] * len(logs)
    assert read(referee, log_dir, now_ms) == healthy
