"""Kafka's own loader between any two steps of a restore: a log without a gap, and at the end the one from before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer
from policies import Request
from policies.config.config_layers import Configured
from policies.plan import Only
from policies.restore import RestoreCode
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from tests.conftest import Samples
from tests.faults import crashes
from tests.interop.referee import Referee
from tests.interop.verdicts import Log
from tests.partition_dirs import (
    DAY_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    deleted_from_by_name,
    keyed,
    request,
)

pytestmark = pytest.mark.kafka

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("partition", ["payments-0", "orders-0"])
@pytest.mark.parametrize("limit", ["retention.bytes=1", "retention.ms=1"], ids=["some go", "all go"])
def test_broker_that_starts_within_a_restore_has_a_log_without_a_gap(
    samples: Samples, referee: Referee, tmp_path: Path, partition: str, limit: str
) -> None:
    before = samples.copy("before", tmp_path / "before", [partition])
    cleaned = shutil.copytree(before, tmp_path / "cleaned")
    loaded = load_layers(deleted_from_by_name(cleaned), [cleaned], ["retention.ms=-1", limit])
    Cleaner(Configured(loaded.log_dirs, loaded.layers)).clean(Request(NOW_MS))
    whole = read(referee, before, partition)
    work, logs = tmp_path / "work", []

    def run(disk: FileSystem) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(cleaned, work)
        Restorer([LogDir.open(work)], Means(disk, FakeClock(), Silent())).restore(lambda _: True)

    offsets = [record.offset for record in whole.records()]
    for _ in crashes(run):
        logs.append(read(referee, shutil.copytree(work, tmp_path / "started"), partition))
        shutil.rmtree(tmp_path / "started")
        found = [record.offset for record in logs[-1].records()]
        assert found == offsets[len(offsets) - len(found) :]
        assert logs[-1].log_end_offset == whole.log_end_offset
        assert logs[-1].log_start_offset >= whole.log_start_offset
    assert len(logs) > 10
    assert list(logs[-1].records()) == list(whole.records())
    assert (logs[-1].log_start_offset, logs[-1].leader_epochs) == (whole.log_start_offset, whole.leader_epochs)
    assert logs[-1].producers == whole.producers


CLICKS = TopicPartition("clicks", 0)
EXPIRING_TOO = {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)}


@pytest.mark.parametrize(
    ("story", "noted", "dirty_ratio", "now", "code"),
    [
        ("never compacted, and its retention writes no first dirty offset", None, "1", None, RestoreCode.RESTORABLE),
        ("its retention moves the first dirty offset up to the log start", 1, "1", 6, RestoreCode.RESTORABLE),
        ("its cleaner compacts for the first time", None, "0", 10, RestoreCode.COMPACTED_SINCE),
        ("its cleaner compacts", 1, "0", 10, RestoreCode.COMPACTED_SINCE),
    ],
)
def test_first_dirty_offset_tells_what_kafka_did_since_the_deletion(
    referee: Referee,
    tmp_path: Path,
    story: str,
    noted: int | None,
    dirty_ratio: str,
    now: int | None,
    code: RestoreCode,
) -> None:
    """Kafka takes ``.deleted`` files away when it opens a log: they are put aside for it."""
    partition = PartitionDir(tmp_path / "data", "clicks-0")
    for base in range(0, 12, 2):
        batch = keyed(base, "a=1", f"b={base}", timestamp_ms=NOW_MS - (2 * DAY_MS if base < 6 else 0))
        partition.segment(base, batch, mtime_ms=NOW_MS)
    log_dir, aside = committed(tmp_path / "data", partition), tmp_path / "aside"
    if noted is not None:
        LogDir(log_dir).write_offsets(CLEANER_OFFSET_CHECKPOINT, {CLICKS: noted}, FileSystem())
    a_cleaner(log_dir, configured(clicks=EXPIRING_TOO)).clean(request(only=Only.RETENTION))
    aside.mkdir()
    for path in [*partition.path.glob("*.deleted")]:
        path.rename(aside / path.name)
    config = {**EXPIRING_TOO, "min.cleanable.dirty.ratio": dirty_ratio}
    referee.clean([partition.path], config=config, now_ms=NOW_MS, checkpoints=True, expires=True)
    assert LogDir(log_dir).offsets(CLEANER_OFFSET_CHECKPOINT).get(CLICKS) == now, story
    for path in aside.iterdir():
        path.rename(partition.path / path.name)
    (result,) = Restorer([LogDir.open(log_dir)], Means(FileSystem(), FakeClock(), Silent())).plan(lambda _: True)
    assert result.restoration is not None
    assert {verdict.code for verdict in result.restoration.verdicts} == {code}, story


def read(referee: Referee, log_dir: Path, partition: str) -> Log:
    """As a broker has it after it started on a copy: starting changes the directory."""
    copied = shutil.copytree(log_dir, log_dir.with_name("read"))
    (log,) = referee.read([copied / partition], checkpoints=True)
    shutil.rmtree(copied)
    return log
