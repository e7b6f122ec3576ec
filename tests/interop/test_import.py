"""What was exported and imported again, as Kafka's classes read it, and as a broker serves it."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from cleaner.cli.main import main
from cleaner.importing.building import private_name
from storage.names import TopicPartition
from tests.conftest import Samples
from tests.interop import clients
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import CODECS, Writer, visible
from tests.interop.referee import Referee

pytestmark = pytest.mark.kafka

FORMATS: Final = ("jsonl", "parquet")
TOPIC: Final = "moved"


def moved(partition: Path, log_dir: Path, to: str, *options: str) -> Path:
    """Export a partition, and import it into a log dir."""
    file = log_dir.with_name(f"{log_dir.name}.{to}")
    name = partition.name
    exported = ["export", name, "--to", to, str(file), "--log-dir", str(partition.parent), *options]
    assert main(exported) == 0
    assert main(["import", str(file), name, "--to-dir", str(log_dir)]) == 0
    return log_dir / name


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("partition", ["before/orders-0", "after/orders-0", "before/single-0", "after2/ledger-0"])
def test_kafka_reads_the_same_records(
    samples: Samples, referee: Referee, tmp_path: Path, partition: str, to: str
) -> None:
    original = shutil.copytree(samples.root / partition, tmp_path / "original" / Path(partition).name)
    log_dir = tmp_path / "imported"
    log_dir.mkdir()
    (log_dir / "meta.properties").touch()
    imported = moved(original, log_dir, to)
    theirs, own = referee.read([original, imported])
    assert visible(own, "read_uncommitted") == visible(theirs, "read_uncommitted") != []
    assert own.log_end_offset == visible(theirs, "read_uncommitted")[-1].offset + 1
    assert [(epoch.epoch, epoch.start_offset) for epoch in own.leader_epochs] == [(0, own.log_start_offset)]


@pytest.mark.parametrize("to", FORMATS)
def test_broker_serves_what_was_imported_and_goes_on_with_it(
    kafka: str, tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = tmp_path / "data"
    broker = Broker(kafka, log_dir, QUIET)
    writer = Writer(broker.bootstrap, random.Random(7))
    with broker:
        clients.create_topics(broker.bootstrap, {TOPIC: {"retention.ms": "-1"}})
        for codec in CODECS:
            writer.send(writer.producer(compression_type=codec), TOPIC, 12)
        clients.delete_records(broker.bootstrap, TOPIC, 7)
        before = clients.consumed(broker.bootstrap, TOPIC, 0, "read_uncommitted")
    file, name = tmp_path / f"out.{to}", f"{TOPIC}-0"
    assert main(["export", name, "--to", to, str(file), "--log-dir", str(log_dir)]) == 0
    shutil.rmtree(log_dir / name)
    capsys.readouterr()
    assert main(["import", str(file), name, "--to-dir", str(log_dir)]) == 0
    assert capsys.readouterr().err == ""
    with broker:
        assert clients.consumed(broker.bootstrap, TOPIC, 0, "read_committed") == before
        writer.send(writer.producer(enable_idempotence=True), TOPIC, 5)
        after = clients.consumed(broker.bootstrap, TOPIC, 0, "read_uncommitted")
    assert after[:-5] == before
    assert [record.offset for record in after[-5:]] == [before[-1].offset + 1 + place for place in range(5)]
    assert not [path for path in log_dir.iterdir() if path.name.endswith(("-stray", "-delete"))]


def test_broker_removes_what_a_killed_import_left(kafka: str, tmp_path: Path) -> None:
    log_dir = tmp_path / "data"
    broker = Broker(kafka, log_dir, {**QUIET, "log.segment.delete.delay.ms": "300", "log.initial.task.delay.ms": "300"})
    with broker:
        clients.create_topics(broker.bootstrap, {TOPIC: {}})
    left = log_dir / private_name(TopicPartition("killed", 0))
    (left / "killed-0").mkdir(parents=True)
    (left / "killed-0" / f"{7:020d}.log").write_bytes(bytes(5000))  # zeros, as a power loss may leave them
    with broker:
        until = time.monotonic() + 240
        while left.exists():
            assert time.monotonic() < until
            time.sleep(0.2)
        assert clients.watermarks(broker.bootstrap, TOPIC) == (0, 0)
