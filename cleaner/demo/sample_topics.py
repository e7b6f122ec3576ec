"""The topics of the demo: the purpose of each topic, its configs, and its records.

Records are random, but the same for the same seed. Times are relative to ``now_ms``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from random import Random
from typing import Final, NamedTuple

from storage.codecs.compression import Compression
from storage.records import Record

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_SEGMENT_BYTES: Final = str(1 << 20)
"""The least that Kafka 4 allows, to get many segments from little data."""
_RECORDS_PER_BATCH: Final = 100
_TOMBSTONE_PERCENT: Final = 6
_WRONG_CLOCK_BATCH: Final = 10
_PAGES: Final = ("/", "/search", "/cart", "/checkout", "/account", "/help")
_STATES: Final = ("created", "paid", "packed", "shipped", "delivered", "returned")


class DemoBatch(NamedTuple):
    """Records that a producer sent together. Their offsets are not set."""

    records: list[Record]
    compression: Compression


class Scene(NamedTuple):
    """The sources from which the records of one partition are made."""

    random: Random
    partition: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """A topic of the demo. ``configs`` go into the cluster metadata; ``shows`` tells people what the topic shows."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    shows: str
    batches: Callable[[Scene], Iterator[DemoBatch]]

    @property
    def segment_bytes(self) -> int:
        """The value of ``segment.bytes``."""
        return int(self.configs["segment.bytes"])


def _plain(_: int) -> Compression:
    return Compression.NONE


def _stream(
    scene: Scene,
    records: int,
    days: int,
    record_at: Callable[[int], Record],
    codec_of: Callable[[int], Compression] = _plain,
) -> Iterator[DemoBatch]:
    """Yield records in batches, with times in equal steps from some days ago up to the last minute.

    Args:
        scene: of the partition.
        records: how many.
        days: so far back lies the first.
        record_at: makes the record of a time.
        codec_of: gives the codec of a batch by the batch's place.
    """
    span_ms = days * _DAY_MS
    first_ms, step_ms = scene.now_ms - span_ms, (span_ms - 60_000) / records
    made = (record_at(first_ms + int(place * step_ms)) for place in range(records))
    for place in count():
        batch = list(islice(made, _RECORDS_PER_BATCH))
        if not batch:
            return
        yield DemoBatch(batch, codec_of(place))


def _payload(random: Random, random_bytes: int, **fields: object) -> bytes:
    """Return a JSON document that compresses to about half."""
    named = ",".join(f'"{key}":"{value}"' for key, value in fields.items())
    return f'{{{named},"trace":"{random.randbytes(random_bytes).hex()}"}}'.encode()


def _clicks(scene: Scene) -> Iterator[DemoBatch]:
    random = scene.random

    def click(time_ms: int) -> Record:
        return Record(0, time_ms, None, _payload(random, 180, page=random.choice(_PAGES), user=random.randrange(5000)))

    return _stream(scene, 20_000, 8, click)


def _order(scene: Scene, time_ms: int) -> Record:
    """Return an update of one of 1,500 orders. Early orders are updated more often; a few updates are tombstones."""
    random = scene.random
    key = f"order-{scene.partition}-{int(1500 * random.random() ** 2):04d}".encode()
    headers = ((b"source", random.choice((b"web", b"shop", b"app"))), (b"retry", None))
    if random.randrange(100) < _TOMBSTONE_PERCENT:
        return Record(0, time_ms, key, None, headers)
    return Record(0, time_ms, key, _payload(random, 200, state=random.choice(_STATES)), headers)


def _orders(scene: Scene) -> Iterator[DemoBatch]:
    codecs = tuple(Compression)
    return _stream(
        scene, 12_000, 5, partial(_order, scene), lambda place: codecs[(place + scene.partition) % len(codecs)]
    )


def _sessions(scene: Scene) -> Iterator[DemoBatch]:
    random = scene.random

    def session(time_ms: int) -> Record:
        key = f"session-{random.randrange(800)}".encode()
        return Record(0, time_ms, key, _payload(random, 220, page=random.choice(_PAGES)))

    return _stream(scene, 14_000, 6, session, lambda _: Compression.LZ4)


def _audit(scene: Scene) -> Iterator[DemoBatch]:
    def login(time_ms: int) -> Record:
        key = f"user-{scene.random.randrange(300)}".encode()
        return Record(0, time_ms, key, _payload(scene.random, 300, action="login"))

    return _stream(scene, 14_000, 20, login)


def _future(scene: Scene) -> Iterator[DemoBatch]:
    """Yield six days of readings. In one early record, the sensor's clock is wrong by 400 days."""

    def reading(time_ms: int) -> Record:
        key = f"sensor-{scene.random.randrange(40)}".encode()
        return Record(0, time_ms, key, _payload(scene.random, 180, unit="C"))

    for place, batch in enumerate(_stream(scene, 9_000, 6, reading)):
        if place == _WRONG_CLOCK_BATCH:
            batch.records[-1] = replace(batch.records[-1], timestamp_ms=scene.now_ms + 400 * _DAY_MS)
        yield batch


def _configs(policy: str, **others: object) -> dict[str, str]:
    """Return a topic's configs. The names of arguments are Kafka's keys, with underscores for dots."""
    named = {key.replace("_", "."): str(value) for key, value in others.items()}
    return {"cleanup.policy": policy, "segment.bytes": _SEGMENT_BYTES, **named}


TOPICS: Final = (
    DemoTopic(
        "clicks",
        1,
        _configs("delete", retention_ms=3 * _DAY_MS),
        "8 days of unkeyed records, kept for 3: the oldest segments go by time",
        _clicks,
    ),
    DemoTopic(
        "orders",
        3,
        _configs("compact", delete_retention_ms=_DAY_MS),
        "updates, tombstones and headers in all five codecs: compaction keeps the latest per key",
        _orders,
    ),
    DemoTopic(
        "sessions",
        1,
        _configs("compact,delete", retention_ms=2 * _DAY_MS),
        "6 days, kept for 2 and compacted: both policies at once",
        _sessions,
    ),
    DemoTopic(
        "audit",
        1,
        _configs("delete", retention_bytes=4 << 20, retention_ms=-1),
        "limited to 4 MiB, whatever its age: the oldest segments go by size",
        _audit,
    ),
    DemoTopic(
        "future",
        1,
        _configs("delete", retention_ms=3 * _DAY_MS),
        "one record lies 400 days ahead: it pins its segment and all behind it",
        _future,
    ),
    DemoTopic("empty", 1, _configs("delete"), "no record: nothing to do", lambda _: iter(())),
)
