"""Kafka's own loader between any two steps of a restore: a log without a gap, and at the end the one from before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.outcome import Silent
from cleaner.engine.restore import Restorer
from cleaner.service.layers import Settings, load_layers
from policies import Request
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.conftest import Samples
from tests.faults import crashes
from tests.interop.referee import Referee
from tests.interop.verdicts import Log
from tests.partition_dirs import FakeClock

pytestmark = pytest.mark.kafka

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("partition", ["payments-0", "orders-0"])
@pytest.mark.parametrize("limit", ["retention.bytes=1", "retention.ms=1"], ids=["some go", "all go"])
def test_broker_that_starts_within_a_restore_has_a_log_without_a_gap(
    samples: Samples, referee: Referee, tmp_path: Path, partition: str, limit: str
) -> None:
    before = samples.copy("before", tmp_path / "before", [partition])
    cleaned = shutil.copytree(before, tmp_path / "cleaned")
    loaded = load_layers(Settings(), [cleaned], ["cleanup.policy=delete", "retention.ms=-1", limit])
    Cleaner(loaded.log_dirs, loaded.layers).clean(Request(NOW_MS))
    whole = read(referee, before, partition)
    work, logs = tmp_path / "work", []

    def run(disk: FileSystem) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(cleaned, work)
        Restorer([LogDir.open(work)], disk, FakeClock(), Silent()).restore(lambda _: True)

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


def read(referee: Referee, log_dir: Path, partition: str) -> Log:
    """As a broker has it after it started on a copy: starting changes the directory."""
    copied = shutil.copytree(log_dir, log_dir.with_name("read"))
    (log,) = referee.read([copied / partition], checkpoints=True)
    shutil.rmtree(copied)
    return log
