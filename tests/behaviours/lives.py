"""The life of a small log: written, rolled and cleaned as Kafka's own tests do, round by round.

``Life(tmp_path).put(1, 2, by=P1).commit(P1).roll()`` draws one; ``round`` cleans it with a given dirty section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from cleaner.engine.compaction import Compacted, Round, compact
from cleaner.engine.inventory import Survey, survey_log_dir
from cleaner.engine.means import Means, Silent
from policies.compaction import CompactionRound, grouped
from policies.facts import PartitionFacts
from policies.plan import Compaction
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.config import NO_LIMIT_MS
from storage.log.listing import list_partition
from storage.log.log_files import create_partition
from storage.log.producer_state import BatchMetadata, ProducerState, load_producer_state
from storage.log.read import AnyBatch
from storage.log.writing.validation import Producer
from storage.log_dir import LogDir
from storage.records import ControlType, Record, encode_batch
from storage.txn_index import AbortedTxn, parse_txn_index
from tests.batches import encode_control_batch
from tests.kafka_rounds import as_kafka
from tests.partition_dirs import COMPACT, DAY_MS, NOW_MS, FakeClock, configured

FS: Final = FileSystem()
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAZQ"
MAP_BYTES: Final = (1 << 20) + 24
"""Kafka's configuration takes no smaller offset map."""
AMPLE: Final = {"segment.bytes": "1048576"}


ANY_TIME = LogConfig(timestamp_after_max_ms=NO_LIMIT_MS)
"""A log that takes records from the future, too."""


@dataclass
class Writer:
    """A producer with its next sequence number."""

    id: int
    is_transactional: bool = True
    next_sequence: int = 0


def small_map(keys_max: int) -> tuple[str, ...]:
    """``--set`` options by which Kafka's rounds end where an offset map of so many keys is full."""
    return (
        f"log.cleaner.dedupe.buffer.size={MAP_BYTES}",
        f"log.cleaner.io.buffer.load.factor={(keys_max + 0.5) / (MAP_BYTES // 24)}",
    )


@dataclass
class Life:
    """One partition, ``orders-0``, made if it is missing.

    The value of every record is the offset that the record got.
    """

    log_dir: Path
    set_options: tuple[str, ...] = ()
    config: dict[str, str] = field(default_factory=lambda: dict(AMPLE))

    def __post_init__(self) -> None:
        self.path = self.log_dir / "orders-0"
        if not self.path.exists():
            create_partition(FS, self.path, TOPIC_ID, leader_epoch=0)
        self.log = Log.open(self.path, ANY_TIME, FS)
        self.layers = configured(*self.set_options, orders={**COMPACT, **self.config})

    def put(
        self,
        *keys: object,
        by: Writer | None = None,
        at_ms: int = NOW_MS,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Self:
        """One batch, a record a key."""
        start = self.log.log_end_offset
        return self._append([(key, str(start + place)) for place, key in enumerate(keys)], by, at_ms, origin)

    def delete(self, *keys: object, at_ms: int = NOW_MS) -> Self:
        """One batch, a tombstone a key."""
        return self._append([(key, None) for key in keys], None, at_ms)

    def put_unkeyed(self) -> Self:
        """One batch of a record without a key."""
        return self._append([(None, "unkeyed")], None, NOW_MS)

    def commit(self, writer: Writer) -> Self:
        """The marker that commits."""
        return self._mark(ControlType.COMMIT, writer)

    def abort(self, writer: Writer) -> Self:
        """The marker that aborts."""
        return self._mark(ControlType.ABORT, writer)

    def roll(self, at_offset: int | None = None) -> Self:
        """Begin a new segment."""
        self.log.roll(NOW_MS, at_offset)
        return self

    def round(
        self, dirty: int = 0, until: int | None = None, now_ms: int = NOW_MS, high_watermark: int | None = None
    ) -> Compacted:
        """One round over all segments below ``until``, by default the active one's base, dirty from an offset on.

        The high watermark is the log end unless it is given. Active producers are those of the last append: a test's
        clock makes them no older.
        """
        self.log.close()
        facts, policy = self._facts(), self.layers.policy_for("orders", compacted_before=True)
        end = facts.active.base_offset if until is None else until
        groups = grouped(facts.segments, policy, end, end)
        planned = Compaction(
            CompactionRound(dirty, end, groups), tuple(s for s in facts.segments if s.base_offset < end)
        )
        listing = list_partition(self.path)
        segments = tuple(segment for segment in listing.segments if segment.base_offset < end)
        start, log_end, producers = facts.log_start_offset, facts.log_end_offset, self.log.producer_state(NOW_MS)
        kept_end = log_end if high_watermark is None else high_watermark
        round_ = Round(listing, segments, planned, policy, start, producers, now_ms, now_ms, log_end, kept_end)
        with as_kafka() if self.set_options else nullcontext():
            done = compact(round_, self._means())
        self.reopen()
        return done

    def reopen(self) -> Self:
        """Read the log anew, as it lies on disk."""
        self.log.close()
        self.log = Log.open(self.path, ANY_TIME, FS)
        return self

    def without_snapshots(self) -> ProducerState:
        """The producers as the batches alone tell them."""
        self.log.close()
        segments = list_partition(self.path).segments
        return load_producer_state((), segments, 0, self.log.log_end_offset, NOW_MS, DAY_MS)

    def last_batches(self) -> dict[int, BatchMetadata | None]:
        """Of every producer, as the batches alone tell: what a repeated batch is recognised by."""
        return {id_: one.last_batch for id_, one in self.without_snapshots().producers.items()}

    def batches(self) -> list[AnyBatch]:
        """Of the whole log, each with its CRC checked."""
        found = list(self.log.read())
        for batch in found:
            batch.ensure_valid()
        return found

    def batch_ends(self) -> list[int]:
        """Last offset of every batch."""
        return [batch.last_offset for batch in self.batches()]

    def offsets(self) -> list[int]:
        """Of all records with key and value, markers among them."""
        return [record.offset for record in self._records(lambda _: True) if record.key and record.value is not None]

    def keys(self) -> list[str]:
        """Of all data records with key and value, in offset order."""
        found = self._records(lambda batch: not batch.header.is_control)
        return [record.key.decode() for record in found if record.key is not None and record.value is not None]

    def aborted(self) -> list[AbortedTxn]:
        """All that the transaction indexes hold."""
        paths = sorted(self.path.glob("*.txnindex"))
        return [entry for path in paths for entry in parse_txn_index(path.read_bytes(), path)]

    def bases(self) -> list[int]:
        """Of the segments."""
        return [segment.base_offset for segment in self.log.segments]

    def _append(
        self,
        pairs: list[tuple[object, str | None]],
        by: Writer | None,
        at_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Self:
        records = [
            Record(0, at_ms, None if key is None else _bytes(key), None if value is None else value.encode())
            for key, value in pairs
        ]
        base_offset = self.log.segments[-1].base_offset
        if base_offset > self.log.log_end_offset:  # rolled ahead of the end: there only a follower appends
            numbered = [replace(record, offset=base_offset + place) for place, record in enumerate(records)]
            self.log.append_as_is(encode_batch(numbered, partition_leader_epoch=0), now_ms=NOW_MS)
            return self
        producer = Producer(by.id, 0, by.next_sequence, by.is_transactional) if by else None
        self.log.append_records(records, now_ms=NOW_MS, producer=producer, origin=origin)
        if by:
            by.next_sequence += len(records)
        return self

    def _mark(self, kind: ControlType, writer: Writer) -> Self:
        marker = encode_control_batch(
            kind, offset=0, timestamp_ms=NOW_MS, producer_id=writer.id, producer_epoch=0, coordinator_epoch=0
        )
        self.log.append(marker, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        return self

    def _records(self, wanted: Callable[[AnyBatch], bool]) -> Iterator[Record]:
        for batch in self.batches():
            if wanted(batch):
                yield from batch.records()

    def _facts(self) -> PartitionFacts:
        (facts,) = survey_log_dir(LogDir(self.log_dir), Survey(self.layers, NOW_MS, DAY_MS)).partitions
        assert isinstance(facts, PartitionFacts), facts
        return facts

    def _means(self) -> Means:
        return Means(FS, FakeClock(), Silent(), self.layers.broker_policy(), 1)


def _bytes(key: object) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode()
