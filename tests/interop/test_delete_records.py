"""``delete-records`` beside a broker's DeleteRecords on the same files: the same files after it, the same refusals."""

from __future__ import annotations

import json
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cleaner.cli.main import main
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.delete_records import delete_records, plan_deletion
from cleaner.engine.means import Means, Silent
from policies.config.config_layers import Configured
from policies.record_deletion import Before
from storage.filesystem import FileSystem
from storage.names import LOG_START_OFFSET_CHECKPOINT
from storage.names import TopicPartition as Name
from tests.conftest import Samples
from tests.faults import crashes
from tests.interop import clients
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import Writer
from tests.interop.referee import Referee
from tests.interop.sides import copy
from tests.interop.test_restore import read
from tests.partition_dirs import FakeClock, configured, request

pytestmark = pytest.mark.kafka

DELETED: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
TOPICS: Final = {
    "first": DELETED,
    "within": DELETED,
    "boundary": DELETED,
    "end": DELETED,
    "again": DELETED,
    "transactions": DELETED,
    "both": {**DELETED, "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "1.0"},
    "compacted": {"cleanup.policy": "compact"},
}
RETAINING: Final = {
    **QUIET,
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "500",
}
"""Its retention at once and all the time; its cleaner, which sees to ``both``, too."""
CLEANING: Final = {**RETAINING, "log.cleaner.enable": "true", "log.cleaner.backoff.ms": "300"}
SECONDS_MAX: Final = 120
NAMES: Final = {"INVALID_TOPIC": "TOPIC_EXCEPTION"}
"""What the client calls a refusal, where that is not Kafka's word."""


@pytest.fixture(scope="module")
def written(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written in two lives of a broker, so that leader epochs change, and stopped cleanly."""
    log_dir = tmp_path_factory.mktemp("broker") / "written"
    broker = Broker(kafka, log_dir, QUIET)
    writer = Writer(broker.bootstrap, random.Random(5))
    for life in ("first", "second"):
        with broker:
            if life == "first":
                clients.create_topics(broker.bootstrap, TOPICS)
            for topic in TOPICS:
                writer.send(writer.producer(enable_idempotence=True), topic, 30)
            writer.transactions("transactions", f"ends-{life}", [True, False])
            clients.commit_as_group(writer.bootstrap, "group", "first")
    return log_dir


def bases(log_dir: Path, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (log_dir / f"{topic}-0").glob("*.log"))


def wanted(log_dir: Path) -> dict[str, list[int]]:
    """Before which offsets the records of each topic are deleted, one after the other."""
    assert all(len(bases(log_dir, topic)) > 4 for topic in TOPICS)
    third = {topic: bases(log_dir, topic)[2] for topic in TOPICS}
    return {
        "first": [1],
        "within": [third["within"] + 1],
        "boundary": [third["boundary"]],
        "end": [-1],
        "again": [third["again"] + 1, 2, third["again"] + 2],
        "transactions": [third["transactions"] + 1],
        "both": [third["both"] + 1],
    }


def ours(log_dir: Path, topic: str, *options: str) -> dict[str, Any]:
    """What the command says of a partition; it may act."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout.write", said.append)
        main(["delete-records", f"{topic}-0", *options, "--json", "--log-dir", str(log_dir)])
    document: dict[str, Any] = json.loads("".join(said))
    return document


def delete_by_broker(broker: Broker, topic: str, offset: int) -> None:
    """Have a broker delete records; it may not lead the partition yet, just after its start."""
    until = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return clients.delete_records(broker.bootstrap, topic, offset)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > until:
                raise
        time.sleep(0.2)


def state(log_dir: Path, topic: str) -> dict[str, object]:
    """The files of a partition that are part of it, and its lines of the checkpoints."""
    directory = log_dir / f"{topic}-0"
    lines = {
        path.name: [line for line in path.read_text().splitlines() if line.startswith(f"{topic} 0 ")]
        for path in log_dir.glob("*-checkpoint")
    }
    files = {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.endswith(".deleted")}
    return {**files, **{name: found for name, found in lines.items() if found}}


def wait_until_retained(log_dir: Path, topic: str, log_start_offset: int) -> None:
    """Wait for the broker's retention: no segment lies wholly below the log start, and none is being deleted."""
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until:
        left = bases(log_dir, topic)
        if (len(left) == 1 or left[1] > log_start_offset) and not [*(log_dir / f"{topic}-0").glob("*.deleted")]:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{topic}: {left}")


def test_partition_is_as_a_brokers_delete_records_leaves_it(kafka: str, written: Path) -> None:
    theirs, own = copy(written, "theirs"), copy(written, "ours")
    with Broker(kafka, theirs, CLEANING) as broker:
        for topic, offsets in wanted(written).items():
            for offset in offsets:
                delete_by_broker(broker, topic, offset)
            wait_until_retained(theirs, topic, clients.watermarks(broker.bootstrap, topic)[0])
    with Broker(kafka, own, QUIET):
        pass  # a life, and so a leader epoch, as theirs had it
    for topic, offsets in wanted(written).items():
        for offset in offsets:
            said = ours(own, topic, "--before-offset", str(offset), "--yes")
            assert said["refused"] is None, said
    for log_dir in (theirs, own):  # a start takes the snapshots below the log start
        with Broker(kafka, log_dir, QUIET):
            pass
    for topic in wanted(written):
        kafkas, found = state(theirs, topic), state(own, topic)
        assert sorted(kafkas) == sorted(found), topic
        assert [name for name in kafkas if kafkas[name] != found[name]] == [], topic


def test_refused_where_a_broker_refuses_and_in_its_words(kafka: str, written: Path) -> None:
    log_dir = copy(written, "refusing")
    ends = {"first": 0, "compacted": 0, "__consumer_offsets": 0}
    cases = [("compacted", 1), ("first", 10_000), ("__consumer_offsets", 0)]
    refused = {}
    with Broker(kafka, copy(written, "refusing-theirs"), QUIET) as broker:
        for topic, offset in cases:
            with pytest.raises(KafkaException) as caught:
                delete_by_broker(broker, topic, offset)
            refused[topic] = caught.value.args[0].name()
    assert refused.keys() == ends.keys()
    before = {topic: state(log_dir, topic) for topic in ends}
    for topic, offset in cases:
        code = ours(log_dir, topic, "--before-offset", str(offset), "--yes")["refused"]["code"]
        assert NAMES.get(code, code) == refused[topic]
    assert {topic: state(log_dir, topic) for topic in ends} == before


def test_time_leads_to_the_offset_that_a_broker_finds(kafka: str, written: Path) -> None:
    first, last = clients.FIRST_MS, clients.FIRST_MS + 30 * clients.STEP_MS * len(TOPICS) * 2
    times = [first, *range(first + 37, last, 997), last + 10**9]
    found = {}
    with Broker(kafka, copy(written, "asked"), QUIET) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
        for time_ms in times:
            (answer,) = consumer.offsets_for_times([TopicPartition("within", 0, time_ms)], timeout=SECONDS_MAX)
            found[time_ms] = answer.offset
        consumer.close()
    for time_ms, offset in found.items():
        said = ours(written, "within", "--before", str(time_ms), "--dry-run")
        if said["refused"]:
            assert said["refused"]["code"] == "NO_RECORD_AT_TIME"
            assert offset < 0 or offset == clients_end(written)
        else:
            assert said["log_start_offset"] == offset
    assert {bool(ours(written, "within", "--before", str(t), "-n")["refused"]) for t in times} == {True, False}


def clients_end(log_dir: Path) -> int:
    """The end that librdkafka puts in place of no offset."""
    end: int = ours(log_dir, "within", "--before-offset", "-1", "--dry-run")["log_end_offset"]
    return end


@pytest.mark.parametrize("place", [0, 1], ids=["no segment goes", "one goes"])
def test_broker_that_starts_within_it_has_a_log_that_starts_before_or_after(
    samples: Samples, referee: Referee, tmp_path: Path, place: int
) -> None:
    before = samples.copy("before", tmp_path / "before", ["orders-0"])
    (before / LOG_START_OFFSET_CHECKPOINT).unlink(missing_ok=True)
    whole = read(referee, before, "orders-0")
    found = sorted(int(path.stem) for path in (before / "orders-0").glob("*.log"))
    offset, work = found[place] + 1, tmp_path / "work"
    layers = configured(orders={"cleanup.policy": "delete"})

    def run(disk: FileSystem) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(before, work)
        cleaner = Cleaner(Configured((work,), layers), Means(disk, FakeClock(), Silent()))
        asked = replace(request(), topics=("orders-0",), confirmed=True)
        name, until = Name("orders", 0), Before(offset)
        delete_records(cleaner, name, until, asked, plan_deletion(cleaner, name, until, asked))

    starts, kept = [], [record.offset for record in whole.records()]
    for _ in crashes(run):
        log = read(referee, shutil.copytree(work, tmp_path / "started"), "orders-0")
        shutil.rmtree(tmp_path / "started")
        offsets = [record.offset for record in log.records() if record.offset >= log.log_start_offset]
        assert offsets == [one for one in kept if one >= log.log_start_offset]
        assert log.log_end_offset == whole.log_end_offset
        starts.append(log.log_start_offset)
    assert set(starts) == {whole.log_start_offset, offset}
    assert starts == sorted(starts)
