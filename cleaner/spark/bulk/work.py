"""The tasks and answers of executors: plain values that travel between processes.

Nouns: a *span* is a segment of a round, with the offset that it ends below. A *unit* is a group of spans, and becomes
one segment. A record's *place* is ``unit << PLACE_BITS | ordinal``; the ordinal counts from the unit's first record.
Within a round, places ascend as offsets do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.passes import Horizons, Span, Walked
from policies.facts import KeyCount
from policies.retain import TransactionFates
from storage.segment import Segment

PLACE_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts that hold for a whole round."""

    round: int
    """The number of the round in the run."""
    new_fates: Callable[[], Fates]
    """Makes the follower of transactions for one walk."""
    first_dirty_offset: int
    horizons: Horizons
    index_interval_bytes: int
    upgrades: bool
    directory: Path
    """The directory of the output."""


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """The task of walking over a round's headers."""

    setting: Setting
    units: tuple[tuple[Span, ...], ...]
    """The spans of each of the round's units."""
    log: tuple[Segment, ...]
    """All segments of the log: markers behind the round end transactions within it."""
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The record count of a span, and the state of transactions as the walk comes to the span."""

    records: int
    transactions: TransactionFates


@dataclass(frozen=True, slots=True)
class SpanWork:
    """A span with the facts that its tasks need."""

    number: int
    """The number of the span in the run."""
    span: Span
    first_ordinal: int
    """The ordinal of the span's first record within its unit."""
    records: int
    transactions: TransactionFates


@dataclass(frozen=True, slots=True)
class GroupWork:
    """A unit: spans that become one segment."""

    number: int
    """The number of the unit in the run."""
    setting: Setting
    spans: tuple[SpanWork, ...]

    @property
    def records(self) -> int:
        """The record count of all spans."""
        return sum(span.records for span in self.spans)


@dataclass(frozen=True, slots=True)
class KeysFound:
    """The findings of a walk over a span's records, apart from keys."""

    walked: Walked
    count: KeyCount


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """The task of writing a unit's segment."""

    unit: GroupWork
    bitmap: Path | None
    """The bitmap file of the unit's survivors; None if no record survives."""
    walked: tuple[Walked, ...]
    """The walks over the unit's spans."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A unit's segment, written and fsynced under scratch names."""

    segment: Segment | None
    """The written segment; None if the unit is one segment that keeps every record, so that nothing was written."""
    size_bytes: int
    records: int
