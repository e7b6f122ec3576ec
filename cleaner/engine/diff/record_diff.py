"""Two states of a partition, compared record by record: was every record that is gone allowed to go?

Both are read once from end to end, side by side. Before that, their compacted parts are read once more, to find the
last record of every key, by the offset map that compaction uses (``two_states``: records that were appended since
supersede, too). A record that is gone must lie below the new log start (retention). Or it lies below the offset up to
which the log was compacted, by the cleaner's checkpoint or a partly done compaction in the journal, and was: superseded
by a later record of its key, part of an aborted transaction, without a key, or a tombstone or marker whose delete
horizon has come, or can have been set and have come in between (``expiry``). Everything else is damage, and so is a
record that changed, or that the earlier state lacks.

Not told, since the two states do not show it: a tombstone that was written, took older records and expired in between.
The records that it superseded are damage here; a state from in between accounts for them.

Memory: the offset map's budget, one bit for each record of the earlier state, keys of a million records that stayed
though they are superseded, and some windows of 8 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.crew import Crew, untold
from cleaner.engine.compaction.digests import Digester, Digests
from cleaner.engine.compaction.fates import TRANSACTIONAL, Fates
from cleaner.engine.compaction.key_map import Budget, KeyMap, Secret, new_secret
from cleaner.engine.compaction.passes import OpenSpan, Walked
from cleaner.engine.compaction.survivors import Finder
from cleaner.engine.diff.two_states import (
    OFFSET_END,
    Between,
    LaterTombstones,
    LeftRecords,
    Markers,
    OpenedState,
    State,
    aborted_in_both,
    joined,
)
from policies.retain import AbortedTransaction
from storage.arrays import Integers, Table, Words
from storage.errors import LogCleanerError
from storage.kernels.layout import CONTROL, DELETE_HORIZON, DIGEST
from storage.kernels.status import BatchFate
from storage.log.end import LogEndsBeforeItsStart
from storage.scan.slices import Checksums

BUDGET: Final = Budget(128 << 20, 0.9)
_BATCH_FIELDS: Final = ("producer_id", "producer_epoch", "leader_epoch")
_RECORD_FIELDS: Final = ("timestamp", "key_bytes", "value_bytes", "body_low", "body_high")
DISCARDED: Final = (BatchFate.DISCARD, BatchFate.DISCARD_RETAIN_EMPTY)
_UNACCOUNTED: Final = "the record is gone, and nothing accounts for that"

Flags = npt.NDArray[np.bool_]


class NoSegments(LogCleanerError):
    """A partition directory that had a log, and has no ``.log`` file left."""

    directory: Path

    def __str__(self) -> str:
        return f"{self.directory}: holds no .log file any more, and a cleaning leaves at least one"


class Cause(StrEnum):
    """The causes for which a record may be gone."""

    RETENTION = "retention"
    """Below the log start."""
    SUPERSEDED = "superseded"
    ABORTED = "aborted"
    EXPIRED = "expired"
    """A tombstone or a marker, after its delete horizon."""
    EXPIRED_BETWEEN = "expired_between"
    """A tombstone or a marker that had no delete horizon, which was set and came in between."""
    UNKEYED = "unkeyed"
    """A compacted log keeps no record without a key."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first offset at which the later state is no result of a cleaning, and the cause."""

    offset: int
    cause: str


@dataclass(slots=True)
class Difference:
    """The difference between two states of a partition."""

    records: int = 0
    """The records of the earlier state."""
    kept: int = 0
    added: int = 0
    """The records behind the end of the earlier state."""
    gone: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(Cause, 0))
    damaged: int = 0
    """The records that are lost, changed, or new without a source."""
    damage: Mismatch | None = None

    def _note(self, offsets: Integers, cause: str) -> None:
        if offsets.size:
            self.damaged += int(offsets.size)
            if self.damage is None or int(offsets[0]) < self.damage.offset:
                self.damage = Mismatch(int(offsets[0]), cause)


def compare(before: State, after: State, now_ms: int, between: Between | None = None) -> Difference:
    """Compare two states of a partition.

    Args:
        before: the earlier one.
        after: the later one.
        now_ms: delete horizons up to it have come, epoch ms.
        between: the known facts about the time between them.

    Raises: CorruptBatch, CorruptIndex, PlanOutOfDate, UnreadableFile of either.
    """
    secret = new_secret()
    with ExitStack() as stack:
        earlier, later = OpenedState.of(before, stack), OpenedState.of(after, stack)
        _check_still_a_log(earlier, later)
        aborted = aborted_in_both(earlier, later)
        latest, ordinals = _latest(earlier, later, lambda: _fates(before, aborted, now_ms))
        reader = _LaterState(runs_of(later.spans, {}, secret, None))
        objection = (between or Between()).objection(before.newest_write_ms, now_ms)
        comparison = _Comparison(before, after, now_ms, latest, reader, objection)
        for run in runs_of(earlier.spans, ordinals, secret, _fates(before, aborted, now_ms)):
            comparison.take(run)
        return comparison.finish()


def _check_still_a_log(earlier: OpenedState, later: OpenedState) -> None:
    """Refuse to explain an empty directory by retention: neither we nor Kafka delete the last segment without a new
    one.

    Raises: NoSegments, LogEndsBeforeItsStart.
    """
    if earlier.spans and not later.spans:
        raise NoSegments(later.state.listing.directory)
    if later.end_offset < later.state.log_start_offset:
        raise LogEndsBeforeItsStart(later.state.listing.directory, later.end_offset, later.state.log_start_offset)


@dataclass(frozen=True, slots=True)
class _Met:
    """The next records of the earlier state, with the facts that decide whether they may be gone."""

    run: Digests
    digests: Table
    rows: Integers
    """The batch of each."""
    there: Flags
    """Whether each is in the later state, changed or not."""
    is_compacted: Flags
    is_control: Flags
    is_discarded: Flags
    is_latest: Flags
    """Whether no later record of the key supersedes the record, as far as the log was compacted."""

    @property
    def is_data(self) -> Flags:
        """The records that are compacted data, and of no aborted transaction."""
        return self.is_compacted & ~self.is_control & ~self.is_discarded

    @property
    def has_key(self) -> Flags:
        return np.asarray(self.digests["key_bytes"] >= 0)


class _Comparison:
    def __init__(
        self, before: State, after: State, now_ms: int, latest: Words, later: _LaterState, objection: str | None
    ) -> None:
        self._before = before
        self._start = max(after.log_start_offset, after.first_base_offset)
        self._compacted_to = after.compacted_to_offset
        self._now_ms = now_ms
        self._latest = latest
        self._later = later
        self._objection = objection
        self._tombstones, self._leftovers, self._markers = LaterTombstones(), LeftRecords(), Markers()
        self.found = Difference()

    def take(self, run: Digests) -> None:
        """Compare the next records of the earlier state."""
        is_live = run.digests["offset"] >= self._before.log_start_offset
        digests, rows = run.digests[is_live], run.rows[is_live]
        if not digests.size:
            return
        self.found.records += digests.size
        later = self._later.up_to(int(digests["offset"][-1]) + 1)
        place = np.searchsorted(later.digests["offset"], digests["offset"])
        there = np.zeros(digests.size, np.bool_)
        inside = place < later.digests.size
        there[inside] = later.digests["offset"][place[inside]] == digests["offset"][inside]
        self._match(digests[there], batch_facts(run, rows[there]), later, place[there])
        self._account(self._met(run, digests, rows, there))
        is_known = np.isin(later.digests["offset"], digests["offset"], assume_unique=True)
        strangers = later.digests["offset"][~is_known]
        self.found._note(strangers[strangers >= self._before.log_start_offset], "a record that the earlier state lacks")

    def _met(self, run: Digests, digests: Table, rows: Integers, there: Flags) -> _Met:
        table = run.slice_.table
        return _Met(
            run,
            digests,
            rows,
            there,
            is_compacted=digests["offset"] < self._compacted_to,
            is_control=(table["attributes"][rows] & CONTROL) != 0,
            is_discarded=np.isin(table["fate"][rows], DISCARDED),
            is_latest=bits_of(self._latest, digests["ordinal"]),
        )

    def finish(self) -> Difference:
        """Count the records behind the end of the earlier state."""
        while (more := self._later.up_to(OFFSET_END)).digests.size:
            self.found.added += more.digests.size
        return self.found

    def _match(self, digests: Table, facts: Integers, later: _Records, place: Integers) -> None:
        others = later.digests[place]
        is_same = (facts == later.facts[:, place]).all(axis=0)
        for name in _RECORD_FIELDS:
            is_same &= digests[name] == others[name]
        self.found.kept += int(is_same.sum())
        self.found._note(digests["offset"][~is_same], "the record was changed")

    def _account(self, met: _Met) -> None:
        """Find the first cause that holds for every record that is gone."""
        self._leftovers.add(met.digests[met.there & met.is_data & met.has_key & ~met.is_latest])
        left = ~met.there & (met.digests["offset"] >= self._start)
        self.found.gone[Cause.RETENTION] += int((~met.there).sum() - left.sum())
        for cause, holds in self._causes(met):
            self.found.gone[cause] += int((left & holds).sum())
            left &= ~holds
        self._tell_damage(met, left)

    def _causes(self, met: _Met) -> Iterator[tuple[Cause, Flags]]:
        """Yield the causes of a cleaner, in the order of its decisions."""
        yield Cause.ABORTED, met.is_compacted & ~met.is_control & met.is_discarded
        # without a checkpoint, nothing shows that the log was compacted, and only a compaction drops these records
        yield Cause.UNKEYED, met.is_data & ~met.has_key & (self._compacted_to != OFFSET_END)
        yield Cause.SUPERSEDED, met.is_data & met.has_key & ~met.is_latest
        is_due = self._is_due(met)
        is_tombstone = self._is_tombstone(met)
        is_last_left = is_tombstone.copy()
        is_last_left[is_tombstone] = ~self._leftovers.have(met.digests[is_tombstone])
        yield Cause.EXPIRED, is_due & (is_last_left | (met.is_compacted & met.is_control))
        may_be_gone = self._tombstones_between(met, is_tombstone) & is_last_left | self._markers_between(met)
        yield Cause.EXPIRED_BETWEEN, may_be_gone & (self._objection is None)

    def _is_tombstone(self, met: _Met) -> Flags:
        """Return the compacted tombstones that no later record supersedes."""
        return met.is_data & met.has_key & met.is_latest & (met.digests["value_bytes"] < 0)

    def _is_due(self, met: _Met) -> Flags:
        """Return whether the delete horizon has come. v0 and v1 have none: file times decided."""
        if met.run.slice_.is_legacy:
            return ~met.is_control
        table = met.run.slice_.table
        return _has_horizon(met) & (table["base_timestamp"][met.rows] <= self._now_ms)

    def _tombstones_between(self, met: _Met, is_tombstone: Flags) -> Flags:
        """Return the tombstones without a horizon that may be gone, judged by the other tombstones."""
        asked = np.zeros(met.rows.size, np.bool_)
        if not met.run.slice_.is_legacy:
            asked |= is_tombstone & ~_has_horizon(met)
            asked[asked] = self._tombstones.may_be_gone(
                met.digests["offset"][asked], met.rows[asked], ~met.there[asked]
            )
        return asked

    def _markers_between(self, met: _Met) -> Flags:
        """Return the markers without a horizon that may be gone, judged by the data of their transactions."""
        if not met.is_compacted.any():
            return met.is_compacted
        is_bare = self._markers.without_data(met.run, met.rows, met.there)
        return is_bare & met.is_compacted & met.is_control & ~_has_horizon(met)

    def _tell_damage(self, met: _Met, left: Flags) -> None:
        offsets = met.digests["offset"]
        is_tombstone, has_horizon = self._is_tombstone(met), _has_horizon(met)
        is_ours = left & (is_tombstone | (met.is_compacted & met.is_control))
        if self._objection is not None:
            cause = "a tombstone or marker is gone that had no delete horizon"
            self.found._note(offsets[is_ours & ~has_horizon], f"{cause}: {self._objection}")
            left = left & ~(is_ours & ~has_horizon)
        self.found._note(offsets[left], _UNACCOUNTED)


def _has_horizon(met: _Met) -> Flags:
    return np.asarray((met.run.slice_.table["attributes"][met.rows] & DELETE_HORIZON) != 0)


@dataclass(frozen=True, slots=True)
class _Records:
    digests: Table
    facts: Integers
    """Facts about the batch of each record; one row a field."""


class _LaterState:
    """The later state, read as far as the earlier one."""

    def __init__(self, runs: Iterator[Digests]) -> None:
        self._runs = runs
        self._held = _Records(np.zeros(0, DIGEST), np.zeros((len(_BATCH_FIELDS) + 1, 0), np.int64))

    def up_to(self, end_offset: int) -> _Records:
        """Take the records below an offset that were not taken yet; with OFFSET_END, the records of one more run."""
        parts = [self._held]
        while not parts[-1].digests.size or parts[-1].digests["offset"][-1] < end_offset:
            run = next(self._runs, None)
            if run is None:
                break
            parts.append(_Records(run.digests, batch_facts(run, run.rows)))
            if end_offset == OFFSET_END and run.digests.size:
                break
        digests = np.concatenate([part.digests for part in parts])
        facts = np.concatenate([part.facts for part in parts], axis=1)
        count = int(np.searchsorted(digests["offset"], end_offset))
        self._held = _Records(digests[count:], facts[:, count:])
        return _Records(digests[:count], facts[:, :count])


def batch_facts(run: Digests, rows: Integers) -> Integers:
    """Return the fields of a batch that must not change, because its records depend on them."""
    table = run.slice_.table[rows]
    kinds = table["attributes"].astype(np.int64) & (CONTROL | TRANSACTIONAL)
    return np.stack([kinds, *(table[name].astype(np.int64) for name in _BATCH_FIELDS)])


def runs_of(
    spans: Sequence[OpenSpan], ordinals: Mapping[Path, int], secret: Secret, fates: Fates | None
) -> Iterator[Digests]:
    """Yield the digests of all records.

    Args:
        spans: ascending.
        ordinals: of the first record of each ``.log``; 0 if it is not there.
        secret: of the digests.
        fates: tells which batches are discarded; None to keep all.
    """
    digester = Digester(secret, data_only=False, with_body=True)
    for opened in spans:
        start = opened.reader.start._replace(ordinal=ordinals.get(opened.reader.path, 0))
        for slice_ in opened.reader.slices(checksums=Checksums.BY_CALLER, start=start):
            slice_.verify(0, slice_.table.size)
            if fates is not None:
                fates.dispose(slice_)
            yield from digester.runs(slice_)


def _latest(earlier: OpenedState, later: OpenedState, new_fates: Callable[[], Fates]) -> tuple[Words, dict[Path, int]]:
    """Return a bit for every record of the earlier state, and the ordinal of the first record of each of its files.

    The bit is set if no later record of the key supersedes the record. A record behind the offset up to which the log
    was compacted supersedes nothing yet.
    """
    with ExitStack() as stack:
        bitmap, walked, records = latest_in(joined(earlier, later, stack), new_fates)
    # nobody asks for the bits of records that no compaction reached
    return bitmap, {opened.reader.path: walked.get(opened.reader.path, records) for opened in earlier.spans}


def latest_in(spans: Sequence[OpenSpan], new_fates: Callable[[], Fates]) -> tuple[Words, dict[Path, int], int]:
    """Find the records of some spans that no later one of their key supersedes.

    Returns: a bit for every record, the ordinal of the first record of each file, and the number of records.
    Raises: CorruptBatch, PlanOutOfDate, UnreadableFile.
    """
    if not spans:
        return np.zeros(0, np.uint64), {}, 0
    with Crew(1) as crew:
        key_map = KeyMap(sum(opened.span.size_bytes for opened in spans), BUDGET, crew.threads)
        found = Finder(list(spans), spans[0].span.base_offset, key_map, new_fates, crew, untold, untold).find()
    walked = {one.span.segment.log.path: one.first_ordinal for one in reversed(found.walked) if isinstance(one, Walked)}
    return found.bitmap, walked, found.records


def _fates(state: State, aborted: list[AbortedTransaction], now_ms: int) -> Fates:
    return Fates(aborted, {}, OFFSET_END, now_ms, state.log_start_offset)


def bits_of(bitmap: Words, ordinals: Integers) -> Flags:
    """Return the bit of each ordinal; an ordinal beyond the bitmap counts as set."""
    inside = ordinals < bitmap.size * 64
    bits = np.ones(ordinals.size, np.bool_)
    words = bitmap[ordinals[inside] >> 6]
    bits[inside] = (words >> (ordinals[inside] & 63).astype(np.uint64)) & np.uint64(1) != 0
    return bits
