"""A broker on what we cleaned: groups, share groups and transactions go on; its clean stop is healthy."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, ShareConsumer

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from tests.interop import clients
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import SECONDS_MAX, Writer

pytestmark = pytest.mark.kafka

COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
TOPICS: Final = {
    "orders": COMPACTED,
    "payments": COMPACTED,
    "jobs": KEPT,
    "sized": {**KEPT, "retention.bytes": "3000"},
}
NODE: Final = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
JOBS: Final = 12
DONE: Final = 9
"""Of the jobs; a member of the share group gives the others back."""
PROBE: Final = b"probe"
READ: Final = 20
"""Of the orders, by the group."""


def test_a_broker_goes_on_with_what_we_cleaned_and_leaves_a_healthy_log_dir(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = tmp_path / "data"
    with Broker(kafka, log_dir, {**NODE, **QUIET}) as broker:
        clients.create_topics(broker.bootstrap, TOPICS)
        writer = Writer(broker.bootstrap, random.Random(44))
        writer.send(writer.producer(compression_type="zstd"), "orders", 40)
        writer.send(writer.producer(), "sized", 40)
        writer.transactions("payments", "payer", [True, False, True])
        read_as_group(broker.bootstrap, READ)
        work_off(broker, writer, JOBS, DONE)
    assert findings(capsys, "verify", log_dir) == []
    before = sizes(log_dir)

    said = told(capsys, "clean", log_dir, "--delete-delay", "0", "--yes")
    changed = {partition["topic"] for partition in said["partitions"] if partition["result"]}
    assert changed >= {"orders", "payments", "sized", "__consumer_offsets"}
    assert sizes(log_dir) < before
    assert [findings(capsys, command, log_dir) for command in ("verify", "doctor")] == [[], []]

    with Broker(kafka, log_dir, {**NODE, "log.cleaner.backoff.ms": "300"}) as broker:
        writer = Writer(broker.bootstrap, random.Random(45), clients.FIRST_MS + 10_000_000)
        went_on = read_as_group(broker.bootstrap, 1)
        assert went_on[0].offset() >= READ
        assert worked_off(broker.bootstrap, jobs(JOBS)[DONE:]) == set(jobs(JOBS)[DONE:])
        committed = clients.consumed(broker.bootstrap, "payments", 0, "read_committed")
        writer.transactions("payments", "payer", [False, True])
        grown = clients.consumed(broker.bootstrap, "payments", 0, "read_committed")
        assert len(grown) == len(committed) + 6
        assert grown[: len(committed)] == committed
    assert broker.errors() == []
    assert (log_dir / ".kafka_cleanshutdown").exists()
    assert [findings(capsys, command, log_dir) for command in ("verify", "doctor")] == [[], []]


def read_as_group(bootstrap: str, count: int) -> list[Message]:
    """Records that the group has not read; it commits behind the last of them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.subscribe(["orders"])
        found = consumer.consume(count, SECONDS_MAX)
        assert [message.error() for message in found] == [None] * count
        consumer.commit(message=found[-1], asynchronous=False)
    return found


def jobs(count: int) -> list[bytes]:
    return [b"job %d" % number for number in range(count)]


def work_off(broker: Broker, writer: Writer, count: int, done: int) -> None:
    """Let a share group begin, give it jobs, and let it do the first of them."""
    with ShareConsumer(sharing(broker.bootstrap)) as member:
        member.subscribe(["jobs"])
        producer = writer.producer()
        begins = time.monotonic() + SECONDS_MAX
        while not acknowledged(member, lambda _: True):  # the group begins at what is written once it is there
            assert time.monotonic() < begins, "no share group began"
            producer.produce("jobs", value=PROBE)
            producer.flush(SECONDS_MAX)
        for job in jobs(count):
            producer.produce("jobs", value=job)
        assert producer.flush(SECONDS_MAX) == 0
        is_done = set(jobs(done)).__contains__
        assert acknowledged_all(member, is_done, jobs(count)) == set(jobs(count))


def worked_off(bootstrap: str, wanted: list[bytes]) -> set[bytes]:
    """Return the jobs that nobody did, once those wanted are among them."""
    with ShareConsumer(sharing(bootstrap)) as member:
        member.subscribe(["jobs"])
        return acknowledged_all(member, lambda _: True, wanted)


def acknowledged_all(member: ShareConsumer, is_done: Callable[[bytes], bool], wanted: list[bytes]) -> set[bytes]:
    """Return the jobs that came until all of those wanted have come."""
    found: set[bytes] = set()
    ends = time.monotonic() + SECONDS_MAX
    while not found.issuperset(wanted):
        assert time.monotonic() < ends, f"of the jobs only {sorted(found)} came"
        found |= acknowledged(member, is_done)
    return found - {PROBE}


def acknowledged(member: ShareConsumer, is_done: Callable[[bytes], bool]) -> set[bytes]:
    """Return the jobs of one poll, each accepted if it is done, else given back."""
    found = set()
    for message in member.poll(1):
        assert message.error() is None
        job = message.value() or b""
        member.acknowledge(message, AcknowledgeType.ACCEPT if is_done(job) or job == PROBE else AcknowledgeType.RELEASE)
        found.add(job)
    member.commit_sync(SECONDS_MAX)
    return found


def sharing(bootstrap: str) -> dict[str, object]:
    """The settings of a member of the share group."""
    return {"bootstrap.servers": bootstrap, "group.id": "workers", "share.acknowledgement.mode": "explicit"}


def told(capsys: pytest.CaptureFixture[str], command: str, log_dir: Path, *options: str) -> dict[str, Any]:
    """What a command says."""
    status = main([command, "--log-dir", str(log_dir), "--json", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == ExitStatus.DONE, document
    return document


def findings(capsys: pytest.CaptureFixture[str], command: str, log_dir: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(capsys, command, log_dir)["findings"]
    return found


def sizes(log_dir: Path) -> int:
    """Of all segments."""
    return sum(path.stat().st_size for path in log_dir.glob("*-[0-9]/*.log"))
