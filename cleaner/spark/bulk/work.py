"""What the executors are told to do, and what they answer: plain values that travel between processes.

Nouns: a *span* is a segment of a round with the offset it ends below; a *unit* is a group of spans, and becomes one
segment. A record's *place* is ``unit << PLACE_BITS | ordinal``, the ordinal counted from the unit's first record:
places ascend within a round as offsets do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cleaner.engine.compaction.passes import Horizons, Span, Walked
from policies.retain import AbortedTransaction, ProducerEnd, TransactionFates
from storage.segment import Segment

PLACE_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Setting:
    """What holds for all of a round."""

    round: int
    """Its number in the run."""
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, ProducerEnd]
    first_dirty_offset: int
    end_offset: int
    log_start_offset: int
    horizons: Horizons
    index_interval_bytes: int
    upgrades: bool
    directory: Path
    """Where the output goes."""


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """Walk over a round's headers."""

    setting: Setting
    units: tuple[tuple[Span, ...], ...]
    """Of the round."""
    log: tuple[Segment, ...]
    """All segments: markers behind the round end transactions in it."""
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Where a walk over the batches stands as it comes to a span."""

    records: int
    transactions: TransactionFates


@dataclass(frozen=True, slots=True)
class SpanWork:
    """A span as its tasks need it."""

    number: int
    """In the run."""
    span: Span
    first_ordinal: int
    """Within its unit."""
    records: int
    transactions: TransactionFates


@dataclass(frozen=True, slots=True)
class GroupWork:
    """What becomes one segment."""

    number: int
    """In the run."""
    setting: Setting
    spans: tuple[SpanWork, ...]

    @property
    def records(self) -> int:
        """Of all spans."""
        return sum(span.records for span in self.spans)


@dataclass(frozen=True, slots=True)
class KeysFound:
    """What the walk over a span's records found besides keys."""

    walked: Walked
    unkeyed: int
    """How many records have no key."""


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Write a unit's segment."""

    unit: GroupWork
    bitmap: Path | None
    """Of its survivors; None where there are none."""
    walked: tuple[Walked, ...]
    """Its spans."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A unit's segment, fsynced under scratch names."""

    segment: Segment | None
    """None where it is one segment that loses nothing, and nothing was written."""
    size_bytes: int
    records: int
