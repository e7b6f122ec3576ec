"""A real broker on what was restored as of a moment, cleaned out of a tier, or given the groups of old."""

from __future__ import annotations

import shutil
import struct
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.as_of.commits import partition_for, write_commits
from storage.filesystem import FileSystem
from storage.log.end import next_offset_of
from storage.log.listing import list_partition
from tests.coordinator_records import offset_key, text
from tests.interop import clients, tiering
from tests.interop.broker import QUIET, Broker
from tests.interop.conftest import classpath_or_skip
from tests.interop.kafka_jars import judging_version, tiering_classpath
from tests.interop.test_restored_tier import goes_on, served
from tests.interop.tiering import PARTITIONS, Tiered

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
BEGUN = 5
"""The offset of a group whose leader epoch no new cluster has."""
STALLING = "with-an-epoch-of-old"
WAIT_SECONDS = 60


def settings(tmp_path: Path) -> dict[str, str]:
    """An empty tier, and no retention: what is served can but come from the files."""
    return tiering.settings(tiering.local_storage(tmp_path / "empty")) | {"log.retention.check.interval.ms": "86400000"}


def commit_with_an_epoch(log_dir: Path) -> None:
    """Have a group commit an offset with a late leader epoch, as its coordinator would write it."""
    count = len(list(log_dir.glob("__consumer_offsets-*")))
    directory = log_dir / f"__consumer_offsets-{partition_for(STALLING, count)}"
    now_ms = int(time.time() * 1000)
    committed = struct.pack(">hqi", 3, BEGUN, 1000) + text("") + struct.pack(">q", now_ms)
    end = next_offset_of(list_partition(directory).segments[-1])
    write_commits(FileSystem(), directory, end, [(offset_key(STALLING, "codecs"), committed)], now_ms, 0, 4096)


def read_on(bootstrap: str, group: str, topic: str, due: int) -> list[int]:
    """Return the offsets that a member of a group gets, until as many came as are due."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "error",
                         "enable.auto.commit": False, "isolation.level": "read_committed"})  # fmt: skip
    consumer.subscribe([topic])
    offsets, deadline = list[int](), time.monotonic() + WAIT_SECONDS
    while len(offsets) < due and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            offsets.append(int(message.offset() or 0))
    consumer.close()
    return offsets


def test_groups_of_old_read_on_in_a_new_cluster(
    tiered: Tiered, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh, restored, old = tmp_path / "fresh", tmp_path / "restored", tmp_path / "old"
    shutil.copytree(tiered.log_dir, old)
    commit_with_an_epoch(old)
    with Broker(kafka, fresh, QUIET) as broker:
        topics = [name.rpartition("-")[0] for name in PARTITIONS]
        clients.create_topics(broker.bootstrap, {topic: {"retention.ms": "-1"} for topic in topics})
        clients.commit_as_group(broker.bootstrap, "of-the-new-cluster", "codecs")
    command = ["restore-tier", str(tiered.tier), "--log-dir", str(old), "--topic-ids-from", str(fresh)]
    assert main([*command, "--output", str(restored)]) == ExitStatus.DONE
    assert "the groups of old take the place of its" in capsys.readouterr().err
    with Broker(kafka, restored, QUIET) as broker:
        assert served(broker, PARTITIONS) == tiered.read
        assert clients.committed(broker.bootstrap, tiering.GROUP, "codecs") == clients.COMMITTED_LAST
        assert clients.committed(broker.bootstrap, STALLING, "codecs") == BEGUN
        due = len(tiered.read["codecs-0", "read_committed"]) - BEGUN
        assert len(read_on(broker.bootstrap, STALLING, "codecs", due)) == due
        goes_on(broker, "codecs", tiered.read["codecs-0", "read_committed"])
        assert broker.errors() == []


def test_broker_serves_the_logs_as_of_a_moment(tiered: Tiered, tmp_path: Path) -> None:
    restored, until_ms = tmp_path / "restored", int(time.time() * 1000) - DAY_MS
    command = ["restore-tier", str(tiered.tier), "--log-dir", str(tiered.log_dir), "--until", str(until_ms)]
    assert main([*command, "--output", str(restored)]) == ExitStatus.DONE
    with Broker(classpath_or_skip(judging_version(), tiering_classpath), restored, settings(tmp_path)) as broker:
        for key, records in served(broker, PARTITIONS).items():
            assert len(records) < len(tiered.read[key])
            assert records == tiered.read[key][: len(records)]
            assert records or key[0] == "transactions-0"  # the broker dated all markers today
        assert broker.errors() == []


def test_broker_serves_a_tier_that_was_cleaned_into_a_copy(tiered: Tiered, tmp_path: Path) -> None:
    cleaned = tmp_path / "cleaned"
    command = ["clean", "--tier", str(tiered.tier), "--log-dir", str(tiered.log_dir), "--output", str(cleaned)]
    assert main(command) == ExitStatus.DONE
    with Broker(classpath_or_skip(judging_version(), tiering_classpath), cleaned, settings(tmp_path)) as broker:
        assert served(broker, PARTITIONS) == tiered.read
        goes_on(broker, "codecs", tiered.read["codecs-0", "read_committed"])
        assert broker.errors() == []
