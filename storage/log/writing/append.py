"""The arguments of ``Log.append``, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from storage.codecs.compression import Compression
from storage.log.producer_state import BatchMetadata
from storage.records import Record, encode_batch
from storage.records.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer that writes a batch, idempotent or transactional."""

    producer_id: int
    epoch: int
    base_sequence: int
    is_transactional: bool = False


class Appended(NamedTuple):
    """The place of the appended batches."""

    first_offset: int
    last_offset: int
    has_rolled: bool
    """Whether it began a new segment."""
    is_duplicate: bool = False
    """Whether the log has the batch already: the offsets are those of the batch in the log."""
    log_append_time_ms: int = -1
    """The time that the log gave the records, -1 for their own; of a duplicate, its largest timestamp, as in Kafka."""

    @classmethod
    def as_duplicate(cls, known: BatchMetadata, has_rolled: bool) -> Appended:
        """Return the place of a batch that the log has already."""
        first_offset = known.last_offset - known.offset_delta
        return cls(first_offset, known.last_offset, has_rolled, True, known.timestamp_ms)


def build_batch(records: Sequence[Record], now_ms: int, compression: Compression, producer: Producer | None) -> bytes:
    """One batch of records, numbered from 0. One without a timestamp gets ``now_ms``."""
    numbered = [
        replace(record, offset=place, timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else now_ms)
        for place, record in enumerate(records)
    ]
    producer = producer or Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return encode_batch(
        numbered,
        compression=compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        is_transactional=producer.is_transactional,
    )
