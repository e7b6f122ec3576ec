"""Whether all that a cleaning took was to go: two states of a partition compared, record by record.

Both are read once from end to end, side by side; the earlier one a second time, before that, to find every key's last
record, by the offset map that compaction uses. What is gone must be below the new log start (retention), or, below the
offset that the cleaner's checkpoint says was compacted: superseded by a later record of its key, part of an aborted
transaction, without a key, or a tombstone or marker whose delete horizon has come. Everything else is damage, and so
is a record that is not as it was, or that was not there.

Memory: the offset map's budget, one bit for each record of the earlier state, and some windows of 8 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.digests import Digester, Run
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Budget, KeyMap, Secret, new_secret
from cleaner.engine.compaction.round import aborted_transactions
from cleaner.engine.compaction.sources import Source
from cleaner.engine.compaction.survivors import Finder
from storage.errors import PlanOutOfDate
from storage.kernels.layout import CONTROL, DELETE_HORIZON, DIGEST
from storage.kernels.signatures import Integers, Table, Words
from storage.kernels.status import Disposition
from storage.log.end import find_end
from storage.log.listing import Listing
from storage.names import FileKind
from storage.segment import Segment

OFFSET_END: Final = (1 << 63) - 1
_BUDGET: Final = Budget(128 << 20, 0.9)
_TRANSACTIONAL: Final = 0x10
_BATCH_FIELDS: Final = ("producer_id", "producer_epoch", "leader_epoch")
_RECORD_FIELDS: Final = ("timestamp", "key_bytes", "value_bytes", "body_low", "body_high")

Flags = npt.NDArray[np.bool_]


class Cause(StrEnum):
    """Why a record may be gone."""

    RETENTION = "retention"
    """Below the log start."""
    SUPERSEDED = "superseded"
    ABORTED = "aborted"
    EXPIRED = "expired"
    """A tombstone or a marker, after its delete horizon."""
    UNKEYED = "unkeyed"
    """A compacted log keeps no record without a key."""


@dataclass(frozen=True, slots=True)
class State:
    """A partition as it was, or is."""

    listing: Listing
    """As recovered."""
    log_start_offset: int
    compacted_to_offset: int
    """What the cleaner's checkpoint says; OFFSET_END where nothing tells."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The first offset at which the later state is not what a cleaning leaves, and how."""

    offset: int
    cause: str


@dataclass(slots=True)
class Difference:
    """What became of the records of a partition."""

    records: int = 0
    """In the earlier state."""
    kept: int = 0
    added: int = 0
    """Behind the end of the earlier state."""
    gone: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(Cause, 0))
    damaged: int = 0
    """Records lost, changed, or out of nowhere."""
    damage: Damage | None = None

    def _note(self, offsets: Integers, cause: str) -> None:
        if offsets.size:
            self.damaged += int(offsets.size)
            if self.damage is None or int(offsets[0]) < self.damage.offset:
                self.damage = Damage(int(offsets[0]), cause)


def compare(before: State, after: State, now_ms: int) -> Difference:
    """Compare two states of a partition.

    Args:
        before: the earlier one.
        after: the later one.
        now_ms: delete horizons up to it have come, epoch ms.

    Raises: CorruptBatch, PlanOutOfDate, UnreadableFile of either.
    """
    secret = new_secret()
    with ExitStack() as stack:
        earlier, later = (_sources(state.listing, stack) for state in (before, after))
        latest = _latest(before, after.compacted_to_offset, earlier, now_ms)
        comparison = _Comparison(before, after, now_ms, latest, _Reader(_runs(later, secret, None)))
        for run in _runs(earlier, secret, _fates(before, now_ms)):
            comparison.take(run)
        return comparison.finish()


class _Comparison:
    def __init__(self, before: State, after: State, now_ms: int, latest: Words, later: _Reader) -> None:
        self._before = before
        self._start = max(after.log_start_offset, _first_base(after))
        self._compacted_to = after.compacted_to_offset
        self._now_ms = now_ms
        self._latest = latest
        self._later = later
        self._next_offset = before.log_start_offset
        self.found = Difference()

    def take(self, run: Run) -> None:
        """Compare the next records of the earlier state."""
        is_live = run.digests["offset"] >= self._before.log_start_offset
        digests, rows = run.digests[is_live], run.rows[is_live]
        if not digests.size:
            return
        self.found.records += digests.size
        end_offset = int(digests["offset"][-1]) + 1
        later = self._later.up_to(end_offset)
        self._next_offset = end_offset
        place = np.searchsorted(later.digests["offset"], digests["offset"])
        there = np.zeros(digests.size, np.bool_)
        inside = place < later.digests.size
        there[inside] = later.digests["offset"][place[inside]] == digests["offset"][inside]
        self._match(digests[there], _batch_facts(run, rows[there]), later, place[there])
        self._account(run, digests[~there], rows[~there])
        is_known = np.isin(later.digests["offset"], digests["offset"], assume_unique=True)
        strangers = later.digests["offset"][~is_known]
        self.found._note(strangers[strangers >= self._before.log_start_offset], "a record that was not there")

    def finish(self) -> Difference:
        """Count what lies behind the end of the earlier state."""
        while (more := self._later.up_to(OFFSET_END)).digests.size:
            self.found.added += more.digests.size
        return self.found

    def _match(self, digests: Table, facts: Integers, later: _Records, place: Integers) -> None:
        others = later.digests[place]
        is_same = (facts == later.facts[:, place]).all(axis=0)
        for name in _RECORD_FIELDS:
            is_same &= digests[name] == others[name]
        self.found.kept += int(is_same.sum())
        self.found._note(digests["offset"][~is_same], "the record is not as it was")

    def _account(self, run: Run, gone: Table, rows: Integers) -> None:
        """Find a cause for every record that is gone, the first that holds."""
        if not gone.size:
            return
        left = np.ones(gone.size, np.bool_)
        for cause, holds in self._causes(run, gone, rows):
            self.found.gone[cause] += int((left & holds).sum())
            left &= ~holds
        self.found._note(gone["offset"][left], "the record is gone, and nothing accounts for that")

    def _causes(self, run: Run, gone: Table, rows: Integers) -> Iterator[tuple[Cause, Flags]]:
        table = run.slice_.table[rows]
        is_compacted = gone["offset"] < self._compacted_to
        is_control = (table["attributes"] & CONTROL) != 0
        is_data = is_compacted & ~is_control
        yield Cause.RETENTION, gone["offset"] < self._start
        yield Cause.ABORTED, is_data & np.isin(table["disposition"], _DISCARDED)
        yield Cause.UNKEYED, is_data & (gone["key_bytes"] < 0)
        yield Cause.SUPERSEDED, is_data & (gone["key_bytes"] >= 0) & ~_bits(self._latest, gone["ordinal"])
        is_expired = ((table["attributes"] & DELETE_HORIZON) != 0) & (table["base_timestamp"] <= self._now_ms)
        if run.slice_.is_legacy:
            is_expired |= True  # v0 and v1 have no horizon: file times decided
        yield Cause.EXPIRED, is_compacted & is_expired & (is_control | (gone["value_bytes"] < 0))


_DISCARDED: Final = (Disposition.DISCARD, Disposition.DISCARD_RETAIN_EMPTY)


@dataclass(frozen=True, slots=True)
class _Records:
    digests: Table
    facts: Integers
    """Of the batch of each; one row a field."""


class _Reader:
    """The later state, taken as far as the earlier one was read."""

    def __init__(self, runs: Iterator[Run]) -> None:
        self._runs = runs
        self._held = _Records(np.zeros(0, DIGEST), np.zeros((len(_BATCH_FIELDS) + 1, 0), np.int64))

    def up_to(self, end_offset: int) -> _Records:
        """The records below an offset that were not taken yet; with OFFSET_END those of one more run."""
        parts = [self._held]
        while not parts[-1].digests.size or parts[-1].digests["offset"][-1] < end_offset:
            run = next(self._runs, None)
            if run is None:
                break
            parts.append(_Records(run.digests, _batch_facts(run, run.rows)))
            if end_offset == OFFSET_END and run.digests.size:
                break
        digests = np.concatenate([part.digests for part in parts])
        facts = np.concatenate([part.facts for part in parts], axis=1)
        count = int(np.searchsorted(digests["offset"], end_offset))
        self._held = _Records(digests[count:], facts[:, count:])
        return _Records(digests[:count], facts[:, :count])


def _batch_facts(run: Run, rows: Integers) -> Integers:
    """What of a batch must stay as it is for its records to mean the same."""
    table = run.slice_.table[rows]
    kinds = table["attributes"].astype(np.int64) & (CONTROL | _TRANSACTIONAL)
    return np.stack([kinds, *(table[name].astype(np.int64) for name in _BATCH_FIELDS)])


def _runs(sources: Sequence[Source], secret: Secret, fates: Fates | None) -> Iterator[Run]:
    digester = Digester(secret, data_only=False, with_body=True)
    for source in sources:
        source.first_ordinal = max(source.first_ordinal, 0)
        for slice_ in source.slices(verify=True):
            slice_.verify(0, slice_.table.size)
            if fates is not None:
                fates.dispose(slice_)
            yield from digester.runs(slice_)


def _sources(listing: Listing, stack: ExitStack) -> list[Source]:
    segments = [*listing.segments[:-1], *(_without_torn_tail(segment) for segment in listing.segments[-1:])]
    uppers = [*(segment.base_offset for segment in segments[1:]), OFFSET_END]
    return [
        stack.enter_context(Source(segment, upper, is_locked=False))
        for segment, upper in zip(segments, uppers, strict=False)
    ]


def _without_torn_tail(segment: Segment) -> Segment:
    torn_bytes = find_end(segment, trust_index=False).torn_bytes
    identity = segment.log.identity
    if identity.size_bytes < torn_bytes:
        raise PlanOutOfDate(segment.log.path, "it grew while it was read")
    log = segment.log._replace(identity=identity._replace(size_bytes=identity.size_bytes - torn_bytes))
    return segment._replace(files={**segment.files, FileKind.LOG: log})


def _latest(before: State, compacted_to: int, sources: Sequence[Source], now_ms: int) -> Words:
    """A bit for every record that no later one of its key superseded, as far as the log was compacted."""
    compacted = [source for source in sources if source.segment.base_offset < compacted_to]
    if not compacted:
        return np.zeros(0, np.uint64)
    log_bytes = sum(source.segment.size_bytes for source in compacted)
    with Crew(1) as crew:
        first = compacted[0].segment.base_offset
        key_map = KeyMap(log_bytes, _BUDGET, crew.threads)
        finder = Finder(compacted, first, key_map, lambda: _fates(before, now_ms), crew, lambda _: None)
        found = finder.find()
    for source in sources[len(compacted) :]:  # not reached by a compaction: their bits are never asked for
        source.first_ordinal = found.records
    return found.bitmap


def _fates(state: State, now_ms: int) -> Fates:
    start = state.log_start_offset
    return Fates(aborted_transactions(state.listing, start, OFFSET_END), {}, OFFSET_END, now_ms, start)


def _bits(bitmap: Words, ordinals: Integers) -> Flags:
    """The bit of each ordinal; set where it lies beyond the bitmap."""
    inside = ordinals < bitmap.size * 64
    bits = np.ones(ordinals.size, np.bool_)
    words = bitmap[ordinals[inside] >> 6]
    bits[inside] = (words >> (ordinals[inside] & 63).astype(np.uint64)) & np.uint64(1) != 0
    return bits


def _first_base(state: State) -> int:
    segments = state.listing.segments
    return segments[0].base_offset if segments else OFFSET_END
