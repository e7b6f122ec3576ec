"""Copies of a real broker's log dir as of many moments of its life: transactions are whole, groups resume.

``LOGCLEANER_MOMENTS=20`` tries so many moments; a plain run tries two. The broker was stopped: behind a kill, Kafka
4.4.0 itself completes transactions without their markers if its partitions lose their leader meanwhile.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from cleaner.cli.main import main
from storage.records import Batch
from tests.batches import iter_batches
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import SECONDS_MAX, consumed, create_topic, patiently

pytestmark = pytest.mark.kafka
TOPIC: Final = "orders"
PARTITIONS: Final = 6
GROUPS: Final = ("one", "two", "three")
MOMENTS: Final = int(os.environ.get("LOGCLEANER_MOMENTS", "2"))
RUN_SECONDS: Final = 12
QUICK_ENDS: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.max.timeout.ms": "900000",
}


def produce(bootstrap: str, number: int, until: float) -> None:
    """Run transactions over all partitions; each has the same number of records in each of its partitions."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "transactional.id": f"t{number}", "linger.ms": 2, "log_level": 0,
        "transaction.timeout.ms": 10_000,
    })  # fmt: skip
    patiently(producer.init_transactions)
    count = 0
    while time.monotonic() < until:
        producer.begin_transaction()
        for round_ in range(3):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, key=f"{number}-{count}-{round_}".encode(), partition=partition)
            producer.flush(SECONDS_MAX)
        count += 1
        if count % 5:
            patiently(producer.commit_transaction)
        else:
            patiently(producer.abort_transaction)


def consume(bootstrap: str, group: str, until: float) -> None:
    """Read, and commit now and then."""
    consumer = a_consumer(bootstrap, group)
    consumer.subscribe([TOPIC])
    while time.monotonic() < until:
        if consumer.consume(20, 0.2):
            consumer.commit(asynchronous=False)
    consumer.close()


def a_consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0,
        "auto.offset.reset": "earliest", "isolation.level": "read_committed", "enable.partition.eof": False,
        "session.timeout.ms": 6_000,
    })  # fmt: skip


def lived(kafka: str, place: Path) -> tuple[Broker, int, int]:
    """Run a broker with producers and groups. Return it, stopped, and the span of its life, epoch ms."""
    broker = Broker(kafka, place / "data", {**QUIET, **QUICK_ENDS, "log.roll.ms": "3000"})
    with broker:
        create_topic(broker.bootstrap, TOPIC, {"segment.bytes": "1048576"}, [[1]] * PARTITIONS)
        first_ms, until = time.time_ns() // 1_000_000, time.monotonic() + RUN_SECONDS
        threads = [threading.Thread(target=produce, args=(broker.bootstrap, n, until)) for n in range(2)]
        threads += [threading.Thread(target=consume, args=(broker.bootstrap, g, until)) for g in GROUPS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        last_ms = time.time_ns() // 1_000_000
    return broker, first_ms, last_ms


def batches_until(log_dir: Path, topic: str, partition: int, until_ms: int) -> Iterator[Batch]:
    """Yield the batches of a log before its first one that is newer."""
    for log in sorted((log_dir / f"{topic}-{partition}").glob("*.log")):
        for batch in iter_batches(log.read_bytes(), log):
            assert isinstance(batch, Batch)
            if batch.header.max_timestamp_ms > until_ms:
                return
            yield batch


def committed_until(log_dir: Path, until_ms: int) -> set[str]:
    """Return the transactions that were committed in all partitions by a moment."""
    found = []
    for partition in range(PARTITIONS):
        begun: defaultdict[int, set[str]] = defaultdict(set)
        found.append(set[str]())
        for batch in batches_until(log_dir, TOPIC, partition, until_ms):
            if batch.header.is_control:
                marker, names = batch.first_txn_marker(), begun.pop(batch.header.producer_id, set())
                found[-1] |= names if marker and not marker.is_abort else set()
            else:
                begun[batch.header.producer_id] |= {name_of(record.key or b"") for record in batch.records()}
    return set.intersection(*found)


def name_of(key: bytes) -> str:
    number, count, _ = key.decode().split("-")
    return f"{number}-{count}"


def group_offsets_until(log_dir: Path, until_ms: int) -> Mapping[tuple[str, int], int]:
    """Return what the groups had committed by a moment: the offset by group and partition."""
    found: dict[tuple[str, int], int] = {}
    for directory in log_dir.glob("__consumer_offsets-*"):
        for batch in batches_until(log_dir, "__consumer_offsets", int(directory.name.rpartition("-")[2]), until_ms):
            for record in batch.records():
                key, value = record.key or b"", record.value
                if struct.unpack_from(">h", key)[0] > 1 or value is None:
                    continue
                (length,) = struct.unpack_from(">h", key, 2)
                group, topic = key[4 : 4 + length].decode(), key[6 + length : -4].decode()
                assert topic == TOPIC
                found[group, int.from_bytes(key[-4:], "big")] = struct.unpack_from(">q", value, 2)[0]
    return found


def serves_whole_transactions(broker: Broker, due: set[str], offsets: Mapping[tuple[str, int], int]) -> None:
    """Start a broker on a copy, and read it: each transaction is whole, and each group goes on where it was.

    Args:
        broker: for the copy.
        due: the transactions that were committed by the moment.
        offsets: the offsets of the groups at the moment.
    """
    with broker:
        seen: defaultdict[str, int] = defaultdict(int)
        for partition in range(PARTITIONS):
            wait_for_stable(broker.bootstrap, partition)
            for record in consumed(broker.bootstrap, TOPIC, partition, "read_committed"):
                assert record.key
                seen[name_of(bytes.fromhex(record.key))] += 1
        assert due <= seen.keys()
        assert set(seen.values()) <= {3 * PARTITIONS}, seen
        assert all(int(name.split("-")[1]) % 5 != 4 for name in seen), "an aborted transaction is seen"
        for group in GROUPS:
            resumes(broker.bootstrap, group, {p: offset for (one, p), offset in offsets.items() if one == group})


def wait_for_stable(bootstrap: str, partition: int) -> None:
    """Wait until no transaction is open in a partition: the coordinator ends what was open at the cut."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ends = []
        for isolation in ("read_committed", "read_uncommitted"):
            consumer = Consumer({
                "bootstrap.servers": bootstrap, "group.id": "looks", "isolation.level": isolation, "log_level": 0,
            })  # fmt: skip
            with suppress(KafkaException):  # a broker that has just begun may not lead yet
                ends.append(consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=SECONDS_MAX))
            consumer.close()
        if len(ends) == 2 and ends[0] == ends[1]:
            return
        time.sleep(0.3)
    raise AssertionError(f"a transaction hangs in partition {partition}")


def resumes(bootstrap: str, group: str, offsets: Mapping[int, int]) -> None:
    """The group stands where it stood, within the log, and reads every committed record from there on, once."""
    consumer = a_consumer(bootstrap, group)
    wanted = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    found = consumer.committed(wanted, timeout=SECONDS_MAX)
    assert all(one.error is None for one in found)
    expected: set[tuple[int, int]] = set()
    for one in found:
        start = max(one.offset, 0)
        _, high = consumer.get_watermark_offsets(one, timeout=SECONDS_MAX)
        assert start == min(offsets.get(one.partition, 0), high)
        expected |= {
            (one.partition, record.offset)
            for record in consumed(bootstrap, TOPIC, one.partition, "read_committed")
            if record.offset >= start
        }
    consumer.subscribe([TOPIC])
    seen: list[tuple[int, int]] = []
    deadline = time.monotonic() + 60
    while len(seen) < len(expected) and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            seen.append((partition, offset))
    consumer.close()
    assert sorted(seen) == sorted(expected)


def test_each_moment_has_whole_transactions_and_groups_that_resume(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, first_ms, last_ms = lived(kafka, tmp_path)
    whole = 0
    for number in range(MOMENTS):
        until_ms = first_ms + (last_ms - first_ms) * (number + 1) // (MOMENTS + 1)
        copy = tmp_path / f"copy-{number}"
        capsys.readouterr()
        command = ["clean", str(broker.log_dir), "--until", str(until_ms), "--output", str(copy), "--json"]
        status = main(command)
        said = capsys.readouterr()
        assert status == 0, said
        document = json.loads(said.out)
        ends = {p["partition"]: p["log_end_offset"] for p in document["partitions"] if p["topic"] == TOPIC}
        assert len(ends) == PARTITIONS
        assert all(p["log_end_offset"] <= p["log_end_before"] for p in document["partitions"])
        due = committed_until(broker.log_dir, until_ms)
        began = Broker(kafka, copy, {**QUIET, **QUICK_ENDS})
        serves_whole_transactions(began, due, group_offsets_until(broker.log_dir, until_ms))
        whole += len(due)
        rmtree(copy)
    assert whole
