"""A real broker alters a topic and stops, beside a daemon that serves the log dir: the daemon obeys."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.daemons import running
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import SECONDS_MAX, Writer, admin_of, consumed, create_topics
from tests.partition_dirs import latest

pytestmark = pytest.mark.kafka

COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
EXPIRED: Final = {"cleanup.policy": "delete", "retention.ms": "1000"}
KEEPS_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
RECORDS: Final = 60
CONFIGURATION: Final = """
log.dirs = ["{log_dir}"]
log.retention.check.interval.ms = 300000
log.initial.task.delay.ms = 300000
log.cleaner.backoff.ms = 500
clock.jump.max = "3650d"
"""


def alter(broker: Broker, topic: str, configs: dict[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_of(broker.bootstrap)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(SECONDS_MAX)


def write(broker: Broker, *topics: str) -> None:
    writer = Writer(broker.bootstrap, random.Random(18))
    for topic in topics:
        writer.send(writer.producer(), topic, RECORDS)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("*.log")}


def test_a_broker_that_alters_topics_and_stops_finds_its_records_as_it_left_them(kafka: str, tmp_path: Path) -> None:
    """``canary`` keeps its policy, and shows when the daemon has been at work."""
    log_dir, config = tmp_path / "data", tmp_path / "logcleaner.toml"
    config.write_text(CONFIGURATION.format(log_dir=log_dir))
    broker = Broker(kafka, log_dir, QUIET)
    with broker:
        create_topics(broker.bootstrap, {"canary": COMPACTED, "kept": COMPACTED, "expired": EXPIRED})
        with running(tmp_path, "--config", str(config)) as daemon:
            daemon.wait_for_ready()
            daemon.wait_until(lambda: daemon.events("log_dir_held"))
            write(broker, "canary", "kept", "expired")
            alter(broker, "kept", KEEPS_ALL)
            alter(broker, "expired", KEEPS_ALL)
            left = {topic: consumed(broker.bootstrap, topic, 0, "read_uncommitted") for topic in ("kept", "expired")}
            broker.stop()
            before = {topic: names(log_dir / f"{topic}-0") for topic in ("canary", "kept", "expired")}
            daemon.wait_until(lambda: daemon.events("segments_compacted"))
            compacted = {event["topic"] for event in daemon.events("segments_compacted")}
            rounds = len(daemon.events("job_begun"))
            daemon.wait_until(lambda: len(daemon.events("job_begun")) > rounds + 3)
            daemon.stop()
    assert compacted == {"canary"}
    assert not daemon.events("segment_deleted")
    assert names(log_dir / "canary-0") != before["canary"]
    assert {topic: names(log_dir / f"{topic}-0") for topic in left} == {topic: before[topic] for topic in left}
    with broker:
        for topic, records in left.items():
            assert len(records) == RECORDS
            assert consumed(broker.bootstrap, topic, 0, "read_uncommitted") == records
    assert latest(log_dir / "canary-0")
