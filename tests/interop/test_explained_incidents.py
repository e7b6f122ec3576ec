"""Incidents made by a real broker and real clients: ``explain`` names each with its owner and a remedy that works."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from storage.log.leader_epochs import read_leader_epochs
from storage.log_dir import LogDir
from storage.names import TopicPartition
from tests.interop.broker import BUSY, QUIET, Broker
from tests.interop.clients import FIRST_MS, SECONDS_MAX, Writer, commit_as_group, create_topics
from tests.interop.sides import copy

pytestmark = pytest.mark.kafka

DAY_MS: Final = 86_400_000
ANY_TIME: Final = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
NEVER_ROLLS: Final = {**COMPACTED, "segment.ms": str(7 * DAY_MS)}
TOPICS: Final = {
    "future": {"cleanup.policy": "delete", "retention.ms": "1000", **ANY_TIME},
    "hanging": COMPACTED,
    "never-rolls": NEVER_ROLLS,
    "sized": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "6000"},
}
AHEAD_MS: Final = 400 * DAY_MS
HANGS_MS: Final = 20 * 60_000
COMMIT_SECONDS: Final = 9
"""The offsets topic rolls every half second here, by the clock of the broker."""
COMMITS_MIN: Final = 150
"""A slow machine makes fewer in that time, and the topic is no large one then."""
WAIT_SECONDS_MAX: Final = 240
SOON: Final = "+1h"


class Incidents:
    """Two log dirs as real brokers left them: one without a cleaner, and one whose broker was killed."""

    def __init__(self, without_cleaner: Path, killed: Path) -> None:
        self.without_cleaner, self.killed = without_cleaner, killed


@pytest.fixture(scope="module")
def incidents(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Incidents:
    root = tmp_path_factory.mktemp("incidents")
    return Incidents(left_without_cleaner(kafka, root / "quiet"), left_killed(kafka, root / "busy"))


def left_without_cleaner(kafka: str, log_dir: Path) -> Path:
    broker = Broker(kafka, log_dir, QUIET)
    with broker:
        create_topics(broker.bootstrap, TOPICS)
        writer = Writer(broker.bootstrap, random.Random(22))
        for topic in ("never-rolls", "sized"):
            writer.send(writer.producer(), topic, 60)
        send_one_ahead(writer)
        client = leave_hanging(writer)
        until, commits = time.monotonic() + COMMIT_SECONDS, 0
        while time.monotonic() < until or commits < COMMITS_MIN:
            commit_as_group(broker.bootstrap, "group", "sized")
            commits += 1
    del client  # not before the broker has stopped: its end would abort the transaction
    return log_dir


def send_one_ahead(writer: Writer) -> None:
    """Send ten records, one whose time lies far ahead, and more; all others are old."""
    producer = writer.producer()
    writer.send(producer, "future", 10)
    producer.produce("future", key="ahead", value=b"x", timestamp=int(time.time() * 1000) + AHEAD_MS)
    producer.flush()
    writer.send(producer, "future", 30)


def leave_hanging(writer: Writer) -> Any:
    """A transaction that nobody ends, while others go on writing for twenty minutes by the records' time."""
    writer.now_ms = int(time.time() * 1000) - HANGS_MS
    client = writer.transactions("hanging", "hangs", [True])
    client.begin_transaction()
    writer.send(client, "hanging", 6)
    writer.now_ms = int(time.time() * 1000)
    writer.send(writer.producer(), "hanging", 30)
    return client


def left_killed(kafka: str, log_dir: Path) -> Path:
    """A broker that compacted tombstones and began to delete, and was killed before it removed the files."""
    settings = {"log.segment.delete.delay.ms": "600000", "replica.high.watermark.checkpoint.interval.ms": "500"}
    broker = Broker(kafka, log_dir, {**BUSY, **settings})
    tombstones = {**COMPACTED, "delete.retention.ms": "1"}
    with broker:
        create_topics(
            broker.bootstrap,
            {"tombstones": tombstones, "expired": {"cleanup.policy": "delete", "retention.ms": "1000"}},
        )
        writer = Writer(broker.bootstrap, random.Random(23))
        for topic in ("tombstones", "expired"):
            writer.send(writer.producer(), topic, 60)
        close_with_a_tombstone(writer)
        # A deletion moves the begin of the leader epochs last; a kill before leaves what may be the only copy.
        wait_for(lambda: begins_at(log_dir / "expired-0") == 60)
        assert any((log_dir / "expired-0").glob("*.log.deleted"))
        wait_for(lambda: offset_in(log_dir, "cleaner-offset-checkpoint") == active_base(log_dir) > 0)
        wait_for(lambda: offset_in(log_dir, "replication-offset-checkpoint") == 62)
        broker.kill()
    return log_dir


def close_with_a_tombstone(writer: Writer) -> None:
    """The last closed segment holds a tombstone, however many rounds the cleaner of the broker made before."""
    producer = writer.producer()
    for later_ms, key, value in ((1000, "gone", None), (2000, "last", b"x")):
        producer.produce("tombstones", key=key, value=value, timestamp=writer.now_ms + later_ms)
    assert producer.flush(SECONDS_MAX) == 0


def wait_for(condition: Any) -> None:
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, condition
        time.sleep(0.2)


def offset_in(log_dir: Path, checkpoint: str) -> int | None:
    """The offset of ``tombstones-0`` in a checkpoint."""
    path = log_dir / checkpoint
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[-1]) for line in lines if line.startswith("tombstones 0 ")), None)


def begins_at(partition: Path) -> int | None:
    """The offset at which the leader epochs of a partition begin."""
    return next((entry.start_offset for entry in read_leader_epochs(partition)), None)


def active_base(log_dir: Path) -> int:
    return max(int(path.stem) for path in (log_dir / "tombstones-0").glob("*.log"))


def explained(capsys: pytest.CaptureFixture[str], log_dir: Path, name: str, *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["explain", name, "--log-dir", str(log_dir), "--json", *options]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert partition["problems"] == []
    found: dict[str, Any] = partition
    return found


def blocker(partition: dict[str, Any], code: str) -> dict[str, Any]:
    (found,) = [one for one in partition["blockers"] if one["code"] == code]
    return found


def test_a_future_timestamp(capsys, incidents: Incidents, tmp_path: Path) -> None:
    partition = explained(capsys, incidents.without_cleaner, "future-0")
    found = blocker(partition, "FUTURE_TIMESTAMP")
    assert found["owner"] == "the producer that wrote offset 10"
    assert found["text"].startswith("The record at offset 10 has the timestamp ")
    assert "400d ahead of the clock" in found["text"] or "399d 23h ahead" in found["text"]
    kept = [one["bytes"] for one in partition["segments"] if one["action"] == "keep"]
    assert found["bytes"] == sum(kept)
    log_dir = copy(incidents.without_cleaner, "future-remedied")
    time.sleep(1.2)  # its file time is older than retention.ms then
    options = ("--set", "retention.future.timestamps=mtime")
    assert {one["action"] for one in explained(capsys, log_dir, "future-0", *options)["segments"]} == {"delete"}


def test_a_hanging_transaction_with_its_producer(capsys, incidents: Incidents) -> None:
    partition = explained(capsys, incidents.without_cleaner, "hanging-0")
    found = blocker(partition, "OPEN_TRANSACTION")
    (open_,) = partition["open_transactions"]
    producer = f"producer {open_['producer_id']}, epoch {open_['producer_epoch']}"
    assert found["owner"] == f"transactional id {open_['transactional_id']}, {producer}"
    assert open_["transactional_id"] == "hangs"
    assert open_["first_offset"] == partition["last_stable_offset"]
    assert found["since_ms"] == open_["since_ms"] > FIRST_MS
    assert found["remedy"].startswith("It hangs: no coordinator will end it. End it with kafka-transactions.sh")
    assert f"--start-offset {open_['first_offset']}" in found["remedy"]
    pinned = [s for s in partition["segments"][:-1] if s["rules"] and s["reason"]["code"] == "OPEN_TRANSACTION"]
    assert found["bytes"] == sum(segment["bytes"] for segment in pinned) > 0


def test_a_compacted_topic_that_never_rolls(capsys, incidents: Incidents) -> None:
    partition = explained(capsys, incidents.without_cleaner, "never-rolls-0")
    (segment,) = partition["segments"]
    assert segment["is_active"]
    found = blocker(partition, "ACTIVE_SEGMENT")
    assert found["owner"] == "segment.ms=7d (cluster metadata, topic never-rolls)"
    assert "is over since" in found["text"]
    assert found["remedy"].startswith("Append one record to the topic")


def test_the_record_that_the_remedy_asks_for_closes_the_active_segment(capsys, kafka, incidents: Incidents) -> None:
    log_dir = copy(incidents.without_cleaner, "rolled")
    with Broker(kafka, log_dir, QUIET) as broker:
        writer = Writer(broker.bootstrap, random.Random(24), now_ms=int(time.time() * 1000))
        writer.send(writer.producer(), "never-rolls", 1)
    partition = explained(capsys, log_dir, "never-rolls-0")
    assert [one["is_active"] for one in partition["segments"]] == [False, True]
    assert partition["segments"][0]["action"] == "compact"


def test_a_dead_cleaner_with_a_large_offsets_topic(capsys, incidents: Incidents) -> None:
    name = largest(incidents.without_cleaner, "__consumer_offsets")
    partition = explained(capsys, incidents.without_cleaner, name, "--set", "log.cleaner.enable=true")
    found = blocker(partition, "CLEANER_BEHIND")
    assert found["owner"] == "the log cleaner of the broker"
    assert "It was never compacted" in found["text"]
    assert "the cleaner is dead, or off" in found["text"]
    assert "Restart the broker" in found["remedy"]
    log_dir = copy(incidents.without_cleaner, "cleaned")
    assert main(["clean", "--log-dir", str(log_dir), "--topic", name, "--delete-delay", "0"]) == 0
    after = explained(capsys, log_dir, name)
    assert after["bytes"] < partition["bytes"] / 2
    assert "CLEANER_BEHIND" not in {one["code"] for one in after["blockers"]}


def test_a_dead_cleaner_is_why_the_offsets_topic_is_large(capsys, incidents: Incidents) -> None:
    capsys.readouterr()
    options = ("--json", "--set", "log.cleaner.enable=true", "--log-dir", str(incidents.without_cleaner))
    assert main(["owners", "__consumer_offsets", *options]) == 0
    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    # Beside it may stand FREQUENT_WRITES with a little more, the active segment's: a fast broker takes enough commits.
    (cause,) = [one for one in topic["causes"] if one["code"] == "CLEANER_BEHIND"]
    assert cause["bytes"] > 0.9 * topic["causes"][0]["bytes"]
    assert "Restart the broker" in cause["remedy"]
    assert cause["bytes"] > 0.9 * topic["superseded_bytes"] > 0.5 * topic["bytes"]


def largest(log_dir: Path, topic: str) -> str:
    sizes = {
        name: sum(path.stat().st_size for path in directory.glob("*.log"))
        for name, directory in LogDir(log_dir).partitions()
        if name.topic == topic
    }
    return str(max(sizes, key=lambda name: sizes[name]))


def test_a_cleaner_that_is_off_is_named(capsys, incidents: Incidents) -> None:
    name = str(TopicPartition("hanging", 0))
    properties = incidents.without_cleaner.with_name("quiet.properties")
    found = blocker(
        explained(capsys, incidents.without_cleaner, name, "--server-properties", str(properties)), "CLEANER_DISABLED"
    )
    assert found["owner"].startswith("log.cleaner.enable=false (")
    assert "quiet.properties line " in found["owner"]


def test_retention_bytes_of_a_partition(capsys, incidents: Incidents) -> None:
    partition = explained(capsys, incidents.without_cleaner, "sized-0")
    found = blocker(partition, "WITHIN_SIZE")
    assert found["owner"] == "retention.bytes=6000B (cluster metadata, topic sized)"
    oldest = partition["segments"][0]
    assert oldest["action"] == "keep" or oldest["reason"]["code"] == "RETENTION_SIZE"
    kept = [one["bytes"] for one in partition["segments"] if one["action"] == "keep"]
    assert found["bytes"] == sum(kept)
    assert sum(kept) - kept[0] < 6000


def test_a_clock_that_jumped(capsys, monkeypatch: pytest.MonkeyPatch, incidents: Incidents) -> None:
    jumped_ms = int(time.time() * 1000) + 90 * DAY_MS
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: jumped_ms)
    found = blocker(explained(capsys, incidents.without_cleaner, "sized-0"), "CLOCK_JUMPED")
    assert found["owner"] == "the clock of this machine"
    assert "more than clock.jump.max=30d" in found["text"]


def test_tombstones_stay_because_the_log_is_quiet(capsys, incidents: Incidents) -> None:
    partition = explained(capsys, incidents.killed, "tombstones-0", "--now", SOON)
    found = blocker(partition, "TOMBSTONES_WAIT")
    assert found["owner"] == "a quiet log"
    assert partition["delete_horizons"]["batches"] > 0
    assert found["bytes"] == partition["delete_horizons"]["bytes"]
    assert "no segment was closed since the last one" in found["text"]


def test_deleted_files_that_a_killed_broker_left(capsys, incidents: Incidents) -> None:
    partition = explained(capsys, incidents.killed, "expired-0", "--now", SOON)
    found = blocker(partition, "DELETED_FILES")
    left = list((incidents.killed / "expired-0").glob("*.deleted"))
    assert found["owner"] == "a crash of the broker"
    assert found["bytes"] == sum(path.stat().st_size for path in left)
    assert partition["deleted_files"]["unknown_files"] == len(left)
    assert "ended before it could remove them" in found["text"]
    log_dir = copy(incidents.killed, "swept")
    assert main(["clean", "--log-dir", str(log_dir), "--topic", "expired", "--delete-delay", "0"]) == 0
    assert not list((log_dir / "expired-0").glob("*.deleted"))


def test_a_broker_at_work_is_in_the_head_and_the_next_roll_is_a_change(capsys, kafka, incidents: Incidents) -> None:
    log_dir = copy(incidents.without_cleaner, "served")
    with Broker(kafka, log_dir, QUIET) as broker:
        writer = Writer(broker.bootstrap, random.Random(25), now_ms=int(time.time() * 1000) - 3_600_000)
        writer.send(writer.producer(), "never-rolls", 1)
        time.sleep(1)
        partition = explained(capsys, log_dir, "never-rolls-0")
        assert str(broker.pid) in partition["locked_by"]
        (roll,) = [one for one in partition["changes"] if one["code"] == "ROLL"]
        assert roll["at_ms"] == writer.now_ms + 7 * DAY_MS + 1
