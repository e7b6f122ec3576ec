"""Real brokers on repacked logs: an idempotent producer goes on behind one; a replica among others may not be one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from shutil import copytree, rmtree
from typing import Final

import pytest
from confluent_kafka import KafkaError, Producer

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.names import RECOVERY_POINT_CHECKPOINT
from storage.records import BatchHeader
from tests.batches import iter_batches
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import SECONDS_MAX, STEP_MS, consumed, create_topic
from tests.interop.clusters import in_sync, wait_for
from tests.interop.sides import files_of
from tests.interop.test_replicas import marks, three_brokers

pytestmark = pytest.mark.kafka

TOPIC: Final = "orders"
CONFIG: Final = {"retention.ms": "-1", "segment.ms": str(100 * STEP_MS)}
"""A segment takes a hundred records, each in a batch of its own."""
QUICK: Final = {
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
}
BEHIND, CUT = "behind", "cut"
"""The leader of the first is repacked, and a follower behind it; the follower of the second, which must truncate."""
CONFIGS: Final = {
    BEHIND: {**CONFIG, "min.insync.replicas": "1"},
    CUT: {**CONFIG, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}
COMMON_END: Final = 150
"""Behind it the third node lacks what the second one has: in the middle of what is merged to a batch."""


@dataclass(slots=True)
class Numbering:
    """Sends numbers, each in a batch of its own.

    Their times begin now: a broker that starts forgets a producer whose newest record is older than
    ``producer.id.expiration.ms``, and takes what that producer sends once more for new.
    """

    producer: Producer
    first_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    sent: int = 0
    failures: list[KafkaError] = field(default_factory=list)

    @classmethod
    def to(cls, bootstrap: str, **settings: object) -> Numbering:
        own = {"bootstrap.servers": bootstrap, "batch.num.messages": 1, "linger.ms": 0, "log_level": 0}
        return cls(Producer(own | {key.replace("_", "."): value for key, value in settings.items()}))

    def send(self, topic: str, count: int = 1) -> None:
        for number in range(self.sent, self.sent + count):
            self.producer.produce(
                topic,
                key="key",
                value=str(number),
                timestamp=self.first_ms + number * STEP_MS,
                on_delivery=lambda error, _message: self.failures.append(error) if error else None,
            )
            self.producer.poll(0)
        self.sent += count

    def flush(self) -> None:
        assert self.producer.flush(SECONDS_MAX) == 0
        assert not self.failures, self.failures


@contextmanager
def numbering(producing: Numbering) -> Iterator[None]:
    """Send all the while, begun before the body runs."""
    begin, ends = producing.sent, threading.Event()

    def send() -> None:
        while not ends.wait(0.01):
            producing.send(TOPIC)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        wait_for(lambda: producing.sent > begin + 20)
        yield
    finally:
        ends.set()
        thread.join()


def headers_of(partition: Path) -> list[BatchHeader]:
    """The headers of the batches of a partition, in order."""
    batches = [batch for path in sorted(partition.glob("*.log")) for batch in iter_batches(path.read_bytes(), path)]
    assert all(isinstance(batch.header, BatchHeader) for batch in batches)
    return [batch.header for batch in batches if isinstance(batch.header, BatchHeader)]


def test_an_idempotent_producer_goes_on_behind_a_repacked_log(kafka: str, tmp_path: Path) -> None:
    broker = Broker(kafka, tmp_path / "data", QUIET | QUICK)
    partition = broker.log_dir / f"{TOPIC}-0"
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.launch()
        broker.wait_until_it_serves()
        create_topic(broker.bootstrap, TOPIC, CONFIG, [[1]])
        producing = Numbering.to(broker.bootstrap, enable_idempotence=True)
        for is_killed in (False, True):
            producing.send(TOPIC, 450)
            producing.flush()
            wait_for(lambda: marks(broker.log_dir, TOPIC) == producing.sent)
            with numbering(producing):
                broker.kill() if is_killed else broker.stop()
                before = headers_of(partition)
                assert (
                    main(["clean", "--repack", "--topic", TOPIC, "--log-dir", str(broker.log_dir)]) == ExitStatus.DONE
                )
                assert len(headers_of(partition)) < len(before) - 300
                if is_killed:  # nothing but the batches tells of the producer
                    for path in (*partition.glob("*.snapshot"), broker.log_dir / RECOVERY_POINT_CHECKPOINT):
                        path.unlink()
                broker.launch()
                broker.wait_until_it_serves()
            producing.flush()
        read = consumed(broker.bootstrap, TOPIC, 0, "read_committed")
        broker.stop()
    assert [record.value for record in read] == numbers(producing.sent)
    assert [record.offset for record in read] == [*range(producing.sent)]
    headers = headers_of(partition)
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]
    assert headers[0].producer_id >= 0


def numbers(end: int) -> list[str]:
    """What a consumer shows of the values of the first numbers."""
    return [sha256(str(number).encode()).hexdigest() for number in range(end)]


def test_a_repacked_replica_stops_a_follower_or_leaves_a_hole(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = three_brokers(kafka, tmp_path)
    one, two, three = brokers.values()
    with ExitStack() as stack:
        for broker in brokers.values():
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers.values():
            broker.wait_until_it_serves()
        diverge(one.bootstrap, two, three)
        for topic in CONFIGS:
            refused_in_place(two.log_dir, topic, capsys)
        repacked_put_in_place(two.log_dir, tmp_path / "copy")
        for topic in CONFIGS:
            assert any(h.base_offset < COMMON_END <= h.last_offset for h in headers_of(two.log_dir / f"{topic}-0"))

        three.launch()  # leads what the second one may have more of
        three.wait_until_it_serves()
        shorter = Numbering.to(one.bootstrap, acks="1")
        shorter.send(CUT, 20)
        shorter.flush()
        two.launch()
        two.wait_until_it_serves()
        wait_for(lambda: in_sync(one.bootstrap)[f"{CUT}-0"] == [2, 3])
        wait_for(lambda: "UnexpectedAppendOffsetException" in three.output.read_text(errors="replace"))
        assert in_sync(one.bootstrap)[f"{BEHIND}-0"] == [2]
        for broker in (three, two, one):
            broker.stop()
    assert f"partition {BEHIND}-0" in three.output.read_text(errors="replace")
    assert headers_of(three.log_dir / f"{BEHIND}-0")[-1].next_offset == COMMON_END
    led, truncated = (offsets(broker.log_dir / f"{CUT}-0") for broker in (three, two))
    assert led == [*range(COMMON_END + 20)]
    lost = sorted({*led} - {*truncated})
    assert lost == [*range(lost[0], COMMON_END)], "records of which the leader has each"


def diverge(bootstrap: str, two: Broker, three: Broker) -> None:
    """Have the second node alone with the ends of the logs of two topics, and stop it, too."""
    producing = Numbering.to(bootstrap, acks="all")
    for topic, config in CONFIGS.items():
        create_topic(bootstrap, topic, config, [[2, 3]])
        producing.sent = 0
        producing.send(topic, COMMON_END)
    producing.flush()
    three.stop()
    for topic in CONFIGS:
        producing.sent = COMMON_END
        producing.send(topic, 100)
    producing.flush()
    two.stop()
    assert [marks(two.log_dir, topic) for topic in CONFIGS] == [COMMON_END + 100] * len(CONFIGS)


def refused_in_place(log_dir: Path, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the real cluster metadata the partition has two replicas: nothing of it is changed."""
    before = files_of(log_dir / f"{topic}-0")
    capsys.readouterr()
    assert main(["clean", "--repack", "--topic", topic, "--log-dir", str(log_dir)]) == ExitStatus.REFUSED
    assert f"SEVERAL_REPLICAS: {topic}-0" in capsys.readouterr().err
    assert files_of(log_dir / f"{topic}-0") == before


def repacked_put_in_place(log_dir: Path, copy: Path) -> None:
    """Do what is refused: replace the partitions by repacked copies."""
    command = ["clean", "--repack", *(word for topic in CONFIGS for word in ("--topic", topic))]
    assert main([*command, "--log-dir", str(log_dir), "--output", str(copy)]) == ExitStatus.DONE
    for topic in CONFIGS:
        rmtree(log_dir / f"{topic}-0")
        copytree(copy / f"{topic}-0", log_dir / f"{topic}-0")


def offsets(partition: Path) -> list[int]:
    """The offsets that have a record."""
    headers: Sequence[BatchHeader] = headers_of(partition)
    return [offset for header in headers for offset in range(header.base_offset, header.next_offset)]
