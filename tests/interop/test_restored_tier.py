"""A real broker on what ``restore-tier`` made: it serves what the broker that tiered had served, and goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.checkpoints import parse_leader_epochs
from tests.interop import clients, tiering
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import Writer
from tests.interop.conftest import classpath_or_skip
from tests.interop.kafka_jars import judging_version, tiering_classpath
from tests.interop.tiering import ISOLATIONS, PARTITIONS, TIERED_PARTITIONS, Tiered
from tests.interop.verdicts import Record

pytestmark = pytest.mark.kafka

ADDED = 5
TAIL_MAX = 12
"""Records that may have been in the active segment alone."""


def served(broker: Broker, names: tuple[str, ...]) -> dict[tuple[str, str], list[Record]]:
    return {
        (name, isolation): clients.consumed(broker.bootstrap, name.rpartition("-")[0], 0, isolation)
        for name in names
        for isolation in ISOLATIONS
    }


def goes_on(broker: Broker, topic: str, before: list[Record]) -> None:
    writer = Writer(broker.bootstrap, random.Random(1))
    writer.send(writer.producer(enable_idempotence=True), topic, ADDED)
    after = clients.consumed(broker.bootstrap, topic, 0, "read_committed")
    assert after[: len(before)] == before
    assert len(after) == len(before) + ADDED


def test_broker_on_the_restored_log_dir_serves_what_was_served_and_goes_on(tiered: Tiered, tmp_path: Path) -> None:
    restored, empty = tmp_path / "restored", tmp_path / "empty"
    command = ["restore-tier", str(tiered.tier), "--log-dir", str(tiered.log_dir), "--output", str(restored)]
    assert main(command) == ExitStatus.DONE
    # An empty tier, and no retention: what is served can but come from the restored files.
    settings = tiering.settings(tiering.local_storage(empty)) | {"log.retention.check.interval.ms": "86400000"}
    classpath = classpath_or_skip(judging_version(), tiering_classpath)
    with Broker(classpath, restored, settings) as broker:
        assert served(broker, PARTITIONS) == tiered.read
        assert clients.committed(broker.bootstrap, tiering.GROUP, "codecs") == clients.COMMITTED_LAST
        for topic in ("codecs", "transactions", "remote-only"):
            goes_on(broker, topic, tiered.read[f"{topic}-0", "read_committed"])
        assert broker.errors() == []


def test_broker_with_topics_that_were_created_anew_serves_what_the_tier_has(
    tiered: Tiered, kafka: str, tmp_path: Path
) -> None:
    fresh, restored = tmp_path / "fresh", tmp_path / "restored"
    topics = [name.rpartition("-")[0] for name in TIERED_PARTITIONS]
    with Broker(kafka, fresh, QUIET) as broker:
        clients.create_topics(broker.bootstrap, {topic: {"retention.ms": "-1"} for topic in topics})
    command = ["restore-tier", str(tiered.tier), "--topic-ids-from", str(fresh), "--output", str(restored)]
    assert main(command) == ExitStatus.DONE
    broker = Broker(kafka, restored, QUIET)
    read = {(name, isolation): tiered.read[name, isolation] for name in TIERED_PARTITIONS for isolation in ISOLATIONS}
    with broker:
        found = served(broker, TIERED_PARTITIONS)
        for key, records in found.items():
            assert records == read[key][: len(records)]
            assert len(records) >= len(read[key]) - TAIL_MAX
        goes_on(broker, "transactions", found["transactions-0", "read_committed"])
        broker.kill()
    with broker:
        again = served(broker, TIERED_PARTITIONS)
        assert {key: records[: len(found[key])] for key, records in again.items()} == found
        path = restored / "transactions-0" / "leader-epoch-checkpoint"
        epochs = parse_leader_epochs(path.read_bytes(), path)
        assert epochs[0].start_offset == 0
        assert len(epochs) > 1, "the broker wiped the epochs that were set anew"
        assert broker.errors() == []
