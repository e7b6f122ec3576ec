"""The doctor and a real broker: it names what the broker made, nothing else, and what it says comes true.

By hand, because no client can make a broker do it, are the bytes of a ``.timeindex`` that was not trimmed, a mark of a
clean stop beside a log that was not trimmed, and the removal of ``partition.metadata``. What the broker does then is
its own. All other shapes are made by hand in ``tests/cleaner/engine/doctor/test_shapes.py``: they need an old Kafka
with the fault, a cluster of several brokers, remote storage, or the loss of a file.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from storage.names import HIGH_WATERMARK_CHECKPOINT
from tests.interop import clients
from tests.interop.broker import QUIET, Broker, BrokerEnded
from tests.interop.clients import SECONDS_MAX, Writer, admin_of

pytestmark = pytest.mark.kafka

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
KEEPING: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
ANY_TIME: Final = {"message.timestamp.after.max.ms": str(1 << 60)}
TOPICS: Final = {
    "plain": KEEPING,
    "compacted": {"cleanup.policy": "compact"},
    "ended": KEEPING,
    "aged": {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS), "segment.bytes": "1048576"},
    "hanging": KEEPING,
    "future": {"cleanup.policy": "delete", "retention.ms": str(DAY_MS), **ANY_TIME},
    "keyless": KEEPING,
    "preallocated": {**KEEPING, "preallocate": "true", "segment.bytes": "1048576", "segment.ms": str(DAY_MS)},
    "torn": {**KEEPING, "segment.ms": str(DAY_MS)},
    "doomed": KEEPING,
}
ALWAYS: Final = {
    ("TRANSACTION_HANGING", "hanging-0"),
    ("FUTURE_TIMESTAMP", "future-0"),
    ("UNKEYED_RECORDS", "keyless-0"),
}
RETAINING: Final = {**QUIET, "log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "200"}


@dataclass(slots=True)
class Lives:
    """What the doctor found in each part of a broker's lives."""

    log_dir: Path
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    said: str = ""
    """What a broker said that met the zeros behind a log."""
    names: dict[str, set[str]] = field(default_factory=dict)
    acknowledged: int = 0
    """The high watermark of the log with a torn tail, once a producer wrote to it."""
    readable: bool = True
    """Whether a consumer comes to its end."""
    aged: list[str] = field(default_factory=list)
    """The segments that retention left of the topic with the padded index."""

    def look(self, when: str, log_dir: Path | None = None) -> None:
        command = [sys.executable, "-m", "cleaner", "doctor", "--json", "--log-dir", str(log_dir or self.log_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout, done.stderr
        self.found[when], self.status[when] = json.loads(done.stdout)["findings"], done.returncode
        self.names[when] = {path.name for path in self.log_dir.iterdir()}

    def shapes(self, when: str) -> set[tuple[str, str]]:
        """Codes, with the directories that they are about."""
        directories = [str(Path(one["path"]).relative_to(self.log_dir).parts[0]) for one in self.found[when]]
        return {(one["code"], directory) for one, directory in zip(self.found[when], directories, strict=True)}


@pytest.fixture(scope="module")
def lives(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """A broker that runs, is killed, starts again, stops cleanly, and starts on what was damaged then."""
    seen = Lives(tmp_path_factory.mktemp("doctor") / "data")
    broker = Broker(kafka, seen.log_dir, QUIET)
    writer = Writer(broker.bootstrap, random.Random(3), int(time.time() * 1000) - HOUR_MS)
    with broker:
        write_healthy(writer)
        seen.look("running")
        client = make_ill(writer)
        wait_until(lambda: "future 0 10" in (seen.log_dir / HIGH_WATERMARK_CHECKPOINT).read_text())
        seen.look("running and ill")
        admin = admin_of(broker.bootstrap)
        admin.delete_topics(["doomed"])["doomed"].result(SECONDS_MAX)
        wait_for(seen.log_dir, "doomed-0.*-delete")
        broker.kill()
    seen.look("killed")
    said_clean(kafka, seen)
    with broker:
        pass
    del client
    seen.look("stopped")
    damage(seen.log_dir)
    seen.look("damaged")
    with Broker(kafka, seen.log_dir, RETAINING, broker.ports):
        wait_for(seen.log_dir, "aged-0/*.deleted")
        seen.aged = sorted(path.name for path in (seen.log_dir / "aged-0").glob("*.log"))
        write_behind_the_tear(seen, writer)
    seen.look("after the damage")
    yield seen
    shutil.rmtree(seen.log_dir)


def write_healthy(writer: Writer) -> None:
    clients.create_topics(writer.bootstrap, TOPICS)
    for topic in ("plain", "compacted", "aged", "doomed", "torn", "preallocated"):
        writer.send(writer.producer(), topic, 20)
    writer.transactions("ended", "ended", [True, False, True])
    writer.send(writer.producer(enable_idempotence=True), "plain", 20)
    clients.commit_as_group(writer.bootstrap, "group", "plain")


def make_ill(writer: Writer) -> object:
    """Leave a transaction open, write into the future, and write without keys; gives the client that must live on."""
    client = writer.transactions("hanging", "hanging", [True])
    client.begin_transaction()
    writer.send(client, "hanging", 3)
    producer = writer.producer()
    for place in range(10):
        ahead_ms = 400 * DAY_MS if place == 2 else -2 * DAY_MS + place * 1000
        producer.produce("future", key="k", value="v", timestamp=int(time.time() * 1000) + ahead_ms)
        producer.produce("keyless", value="v", timestamp=writer.now_ms + place * 1000)
        assert producer.flush(SECONDS_MAX) == 0
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "keyless", incremental_configs=[entry])
    admin = admin_of(writer.bootstrap)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(SECONDS_MAX)
    return client


def said_clean(kafka: str, seen: Lives) -> None:
    """Have a broker start on a copy that says it stopped cleanly, although the log was not trimmed."""
    copy = seen.log_dir.with_name("said-clean")
    shutil.copytree(seen.log_dir, copy)
    (copy / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    there = Lives(copy)
    there.look("said clean")
    seen.found["said clean"], seen.status["said clean"] = there.found["said clean"], there.status["said clean"]
    broker = Broker(kafka, copy, QUIET)
    try:
        broker.launch()
        broker.wait_until_it_serves()
    except BrokerEnded:
        pass
    finally:
        seen.said = broker.output.read_text(errors="replace")
        broker.kill()
        shutil.rmtree(copy)


def damage(log_dir: Path) -> None:
    (log_dir / "plain-0" / "partition.metadata").unlink()
    index = min((log_dir / "aged-0").glob("*.timeindex"))
    index.write_bytes(index.read_bytes() + bytes(1200))
    log = max((log_dir / "torn-0").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data + data[:40])


def write_behind_the_tear(seen: Lives, writer: Writer) -> None:
    writer.send(writer.producer(), "torn", 20)
    _, seen.acknowledged = clients.watermarks(writer.bootstrap, "torn")
    with patch.object(clients, "SECONDS_MAX", 5):
        try:
            clients.consumed(writer.bootstrap, "torn", 0, "read_uncommitted")
        except (TimeoutError, KafkaException):
            seen.readable = False


def wait_for(log_dir: Path, pattern: str) -> None:
    wait_until(lambda: any(log_dir.glob(pattern)))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_running_broker_has_no_finding(lives: Lives) -> None:
    assert (lives.status["running"], lives.found["running"]) == (0, [])


def test_shapes_that_clients_make_are_named_beside_the_running_broker(lives: Lives) -> None:
    assert (lives.status["running and ill"], lives.shapes("running and ill")) == (0, ALWAYS)


def test_killed_broker_leaves_what_its_next_start_mends(lives: Lives) -> None:
    assert len(waiting(lives)) == 1
    left = {("ZERO_TAIL", "preallocated-0"), *waiting(lives)}
    assert (lives.status["killed"], lives.shapes("killed")) == (0, ALWAYS | left)


def test_broker_fails_at_the_zeros_if_its_stop_counts_as_clean(lives: Lives) -> None:
    assert lives.status["said clean"] == 4
    (zeros,) = (one for one in lives.found["said clean"] if one["code"] == "ZERO_TAIL")
    assert (zeros["harm"], zeros["repair"]) == ("no_start", "zero-tail")
    assert "preallocated-0" in lives.said
    assert "CorruptRecordException" in lives.said


def test_clean_stop_leaves_what_clients_made_and_what_waits(lives: Lives) -> None:
    assert (lives.status["stopped"], lives.shapes("stopped")) == (0, ALWAYS | waiting(lives))


def waiting(lives: Lives) -> set[tuple[str, str]]:
    """The directory of the deleted topic: no broker ran for longer than its delay."""
    return {("DELETE_DIRECTORY", name) for name in lives.names["killed"] if name.endswith("-delete")}


def test_damage_is_named(lives: Lives) -> None:
    named = {("TOPIC_ID_MISSING", "plain-0"), ("TIME_INDEX_PADDED", "aged-0"), ("TORN_TAIL", "torn-0")}
    assert (lives.status["damaged"], lives.shapes("damaged")) == (4, ALWAYS | named | waiting(lives))
    assert lives.found["damaged"][0]["code"] == "TIME_INDEX_PADDED"


def test_broker_deletes_what_the_padded_index_makes_look_old(lives: Lives) -> None:
    assert lives.aged
    assert f"{0:020d}.log" not in lives.aged


def test_broker_acknowledges_records_behind_a_torn_tail_that_no_consumer_gets(lives: Lives) -> None:
    assert (lives.acknowledged, lives.readable) == (40, False)


def test_broker_sets_the_partition_without_an_id_aside_and_the_doctor_names_that(lives: Lives) -> None:
    (stray,) = (name for name in lives.names["after the damage"] if name.endswith("-stray"))
    assert stray.startswith("plain-0.")
    assert ("PARTITION_LOST", stray) in lives.shapes("after the damage")  # it has the records, the new one has none
