"""What clients do to a broker: topics, every kind of produce, and reading a partition to its end."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from storage.records import Record as StoredRecord
from tests.interop.verdicts import Batch, Log, Record

SECONDS_MAX: Final = 240
_POLL_SECONDS: Final = 0.1
_AT_ONCE: Final = {"fetch.wait.max.ms": 10}
"""A broker answers at the end of a log at once, and not after half a second in which a record might come."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS: Final = 1_700_000_000_000
STEP_MS: Final = 150
"""Between two records: a segment of half a second takes a few."""
BIG_BYTES: Final = 700_000
COMMITTED_LAST: Final = 5
TRANSACTION_MS_MAX: Final = 900_000
"""The most that a broker allows: it must not end itself what was left open."""


@dataclass(slots=True)
class Writer:
    """Records with keys drawn from few; its clock is its own, so that segments roll without waiting.

    Attributes:
        repeats: how often a value says the same. A client sends a batch as it is if no codec makes it smaller.
        prefix: what every key begins with.
    """

    bootstrap: str
    dice: random.Random
    now_ms: int = FIRST_MS
    repeats: int = 1
    prefix: str = "k"

    def producer(self, **settings: object) -> Producer:
        """A client that delivers in small batches."""
        common = {"bootstrap.servers": self.bootstrap, "batch.num.messages": 5, "linger.ms": 5, "log_level": 0}
        return Producer(common | {key.replace("_", "."): value for key, value in settings.items()})

    def send(self, producer: Producer, topic: str, count: int, value_bytes: int = 200) -> None:
        """Records, one in eight of them a tombstone, one in four with headers; delivered when it returns."""
        failures: list[KafkaError] = []
        for _ in range(count):
            self.now_ms += STEP_MS
            producer.produce(
                topic,
                key=f"{self.prefix}{self.dice.randrange(12)}",
                value=None if self.dice.random() < 0.125 else self._value(value_bytes),
                timestamp=self.now_ms,
                headers=[("trace", b"\x01\x02"), ("none", None)] if self.dice.random() < 0.25 else None,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
        assert producer.flush(SECONDS_MAX) == 0
        assert not failures, failures

    def _value(self, bytes_max: int) -> bytes:
        return self.dice.randbytes(self.dice.randrange(bytes_max)) * self.repeats

    def send_big(self, topic: str) -> None:
        """One record nearly as large as a segment may be."""
        producer = self.producer(message_max_bytes=1_000_000)
        producer.produce(topic, key="big", value=self.dice.randbytes(BIG_BYTES), timestamp=self.now_ms)
        assert producer.flush(SECONDS_MAX) == 0

    def transactions(self, topic: str, name: str, ends: Sequence[bool], count: int = 6) -> Producer:
        """One transaction an entry: committed where it is true, else aborted."""
        producer = self.producer(transactional_id=name, transaction_timeout_ms=TRANSACTION_MS_MAX)
        patiently(producer.init_transactions)
        for is_committed in ends:
            producer.begin_transaction()
            self.send(producer, topic, count)
            patiently(producer.commit_transaction if is_committed else producer.abort_transaction)
        return producer


def patiently(step: Callable[[float], object]) -> None:
    """Take a step of a transaction. Repeat it where the client says so: a coordinator moves when its broker stops."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            step(SECONDS_MAX)
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


def admin_of(bootstrap: str) -> AdminClient:
    """A client that waits as long as anything here, and writes nothing into the output of a test beside it."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": SECONDS_MAX * 1_000})


def create_topics(bootstrap: str, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Topics of one partition."""
    admin = admin_of(bootstrap)
    _await_controller(admin)
    wanted = [NewTopic(name, 1, 1, config=dict(config)) for name, config in configs.items()]
    for created in admin.create_topics(wanted).values():
        created.result(SECONDS_MAX)


def create_topic(bootstrap: str, name: str, config: Mapping[str, str], replicas: Sequence[Sequence[int]]) -> None:
    """Create a topic whose partitions lie on the nodes that ``replicas`` names for each."""
    admin = admin_of(bootstrap)
    wanted = NewTopic(
        name, num_partitions=len(replicas), replica_assignment=[list(nodes) for nodes in replicas], config=dict(config)
    )
    for created in admin.create_topics([wanted]).values():
        created.result(SECONDS_MAX)


def _await_controller(admin: AdminClient) -> None:
    """Wait until the broker names the controller: 2.8 starts before it has one, and the client asks only once."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            if admin.list_topics(timeout=1).controller_id >= 0:
                return
        time.sleep(_POLL_SECONDS)
    raise AssertionError("the broker names no controller")


def delete_records(bootstrap: str, topic: str, before_offset: int) -> None:
    """DeleteRecords: the log start moves there."""
    admin = admin_of(bootstrap)
    for deleted in admin.delete_records([TopicPartition(topic, 0, before_offset)]).values():
        deleted.result(SECONDS_MAX)


def commit_as_group(
    bootstrap: str, group: str, topic: str, offsets: Iterable[int] = range(1, COMMITTED_LAST + 1)
) -> None:
    """A consumer group that commits, more than once unless ``offsets`` says otherwise."""
    consumer = _consumer(bootstrap, "read_committed", group)
    for offset in offsets:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Return the offset that a group committed last."""
    consumer = _consumer(bootstrap, "read_committed", group)
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)
    consumer.close()
    return int(found.offset)


def watermarks(bootstrap: str, topic: str) -> tuple[int, int]:
    """Log start and high watermark as the broker tells them."""
    consumer = _consumer(bootstrap, "read_uncommitted")
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)
    consumer.close()
    return low, high


def consumed(bootstrap: str, topic: str, partition: int, isolation: str) -> list[Record]:
    """All records of a partition, from its start to its end, as a consumer sees them."""
    consumer = _consumer(bootstrap, isolation)
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        return [_record(message) for message in _to_the_end(consumer)]
    finally:
        consumer.close()


def resumed(bootstrap: str, topic: str, isolation: str, group: str) -> list[Record]:
    """What a group reads of a topic of one partition, from where it stands to the end."""
    consumer = _consumer(bootstrap, isolation, group)
    consumer.subscribe([topic])
    try:
        return [_record(message) for message in _to_the_end(consumer)]
    finally:
        consumer.close()


def visible(log: Log, isolation: str) -> list[Record]:
    """What a consumer must see of a log that Kafka's storage classes have read; sequences are not shown to it."""
    batches = (batch for batch in log.batches() if not batch.control)
    if isolation == "read_committed":
        batches = (b for b in batches if b.base_offset < log.last_stable_offset and not _is_aborted(b, log))
    found = (record for batch in batches for record in batch.records)
    return [_without_sequence(record) for record in found if record.offset >= log.log_start_offset]


def _is_aborted(batch: Batch, log: Log) -> bool:
    return batch.transactional and any(
        txn.producer_id == batch.producer_id and txn.first_offset <= batch.base_offset <= txn.last_offset
        for segment in log.segments
        for txn in segment.aborted_txns
    )


def _consumer(bootstrap: str, isolation: str, group: str = "reader") -> Consumer:
    settings: dict[str, object] = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation}
    own: dict[str, object] = {"enable.auto.commit": False, "enable.partition.eof": True}
    return Consumer({**settings, **own, "auto.offset.reset": "earliest", "log_level": 0, **_AT_ONCE})


def _to_the_end(consumer: Consumer) -> Iterator[Message]:
    while (message := consumer.poll(SECONDS_MAX)) is not None:
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
    raise TimeoutError(f"nothing came for {SECONDS_MAX} s")


def _without_sequence(record: Record) -> Record:
    return Record(record.offset, record.timestamp, -1, record.key, record.value, record.value_bytes, record.headers)


def record_of(row: Mapping[str, Any]) -> Record:
    """A row of the Spark source, as a consumer's message."""
    time_ms = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return _shown_record(row["offset"], time_ms, row["key"], row["value"], headers)


def shown(record: StoredRecord) -> Record:
    """Return a record of a batch as a consumer's message."""
    headers = [(key.decode(), value) for key, value in record.headers]
    return _shown_record(record.offset, record.timestamp_ms, record.key, record.value, headers)


def _record(message: Message) -> Record:
    offset = message.offset()
    assert offset is not None
    return _shown_record(offset, message.timestamp()[1], message.key(), message.value(), _headers(message))


def _shown_record(
    offset: int, time_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> Record:
    return Record(
        offset,
        time_ms,
        -1,
        _shown(key),
        None if value is None else hashlib.sha256(value).hexdigest(),
        -1 if value is None else len(value),
        tuple((name, None if content is None else content.hex()) for name, content in headers),
    )


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    found: Any = message.headers()
    return found or []


def _shown(key: bytes | None) -> str | None:
    if key is None or len(key) <= 64:
        return None if key is None else key.hex()
    return f"sha256:{hashlib.sha256(key).hexdigest()}"
