"""One record, whatever the format it was stored in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""The most bytes of a decompressed batch, unless the caller sets its own limit.

Kafka 4.3 sets none, but no client comes near it: librdkafka holds a batch to ``message.max.bytes`` before it compresses
it, Java's producer closes one at ``batch.size`` compressed bytes, and the best codec makes a thousandth of the emptiest
data. 128 times a broker's default of 1 MiB for a compressed batch, and small enough for a run's memory.
"""

RecordHeader = tuple[bytes, bytes | None]
"""A record header: key (UTF-8, kept as bytes) and value."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record with its absolute offset and timestamp (epoch ms, -1 for none)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()
    sequence: int = NO_SEQUENCE

    @property
    def is_tombstone(self) -> bool:
        """Return whether the value is null: in a compacted topic, the key is deleted."""
        return self.value is None
