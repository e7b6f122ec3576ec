"""What can happen to a small log, one letter each; a word is the story of a log.

Producers append a batch, committed at once unless the scenario replicates later:
    ``A`` ``B`` values of keys a and b, ``a`` the tombstone of a, ``W`` both values in one batch, ``U`` a record without
    key, ``F`` a value of a, of a future time; ``I`` ``i`` a value of a and its tombstone, of idempotent producer 1;
    ``T`` ``t`` the same in a transaction of producer 2, ``C`` ``X`` its commit and abort; ``S`` a value of b in a
    transaction of producer 3, ``D`` ``Y`` its commit and abort, which begin a new epoch (as since Kafka 4.0).
The broker: ``|`` rolls, ``>`` replicates up to the log end, ``^`` deletes the records before the second batch.
Time: ``.`` a tick, ``~`` all that any limit asks for.
We: ``%`` compact, ``!`` compact whatever the dirty ratio, the checkpoint lost, ``-`` apply retention, ``*`` do both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from policies.plan import Only, Request
from policies.retain import AbortedTransaction, Marker
from tests.builders import NOW_MS
from tests.models.small_logs.world import (
    AGE_MAX_MS,
    Batch,
    Record,
    Segment,
    World,
    aged,
    last_stable_offset,
    producers_of,
)

REQUESTS: Final = {
    "%": Request(NOW_MS, only=Only.COMPACTION),
    "!": Request(NOW_MS, only=Only.COMPACTION, force_compaction=True),
    "-": Request(NOW_MS, only=Only.RETENTION),
    "*": Request(NOW_MS),
}


class Append(NamedTuple):
    """The keys of a batch's records (None for none, small for a tombstone) and its producer."""

    keys: tuple[str | None, ...]
    producer_id: int = -1
    ahead_ms: int = 0


APPENDS: Final = {
    "A": Append(("A",)),
    "B": Append(("B",)),
    "a": Append(("a",)),
    "W": Append(("A", "B")),
    "U": Append((None,)),
    "F": Append(("A",), ahead_ms=1),
    "I": Append(("A",), 1),
    "i": Append(("a",), 1),
    "T": Append(("A",), 2),
    "t": Append(("a",), 2),
    "S": Append(("B",), 3),
}
MARKERS: Final = {"C": (Marker.COMMIT, 2), "X": (Marker.ABORT, 2), "D": (Marker.COMMIT, 3), "Y": (Marker.ABORT, 3)}
TRANSACTIONAL: Final = (2, 3)
BUMPING: Final = 3


def happened(world: World, letter: str, *, replicates_later: bool = False) -> World | None:
    """Return the log after one operation that is not ours; None if the operation is impossible, or changes nothing."""
    if letter in APPENDS:
        return _appended(world, _data(world, APPENDS[letter]), (), replicates_later=replicates_later)
    if letter in MARKERS:
        return _ended(world, *MARKERS[letter], replicates_later=replicates_later)
    after = _BROKERS[letter](world)
    return None if after == world else after


def forgotten(world: World) -> World:
    """The cleaner's checkpoint is lost: all is dirty."""
    return world._replace(checkpoint=None)


def _data(world: World, append: Append) -> Batch:
    known, _ = producers_of(world)
    producer = known.get(append.producer_id)
    records = tuple(
        Record(world.log_end + place, key and key.lower(), key is None or key.isupper())
        for place, key in enumerate(append.keys)
    )
    return Batch(
        world.log_end,
        records[-1].offset,
        NOW_MS + append.ahead_ms,
        records,
        append.producer_id,
        -1 if append.producer_id < 0 else max(producer.end.producer_epoch, 0) if producer else 0,
        -1 if append.producer_id < 0 else producer.next_sequence if producer else 0,
        append.producer_id in TRANSACTIONAL,
    )


def _ended(world: World, marker: Marker, producer_id: int, *, replicates_later: bool) -> World | None:
    """A marker, which only an open transaction gets."""
    known, _ = producers_of(world)
    producer = known.get(producer_id)
    if producer is None or producer.open_since is None:
        return None
    epoch = producer.end.producer_epoch + (producer_id == BUMPING)
    end = world.log_end
    batch = Batch(end, end, NOW_MS, (), producer_id, epoch, -1, is_transactional=True, marker=marker)
    others = [p.open_since for id_, p in known.items() if id_ != producer_id and p.open_since is not None]
    entry = AbortedTransaction(producer_id, producer.open_since, end, min(others, default=end + 1))
    return _appended(world, batch, (entry,) if marker is Marker.ABORT else (), replicates_later=replicates_later)


def _appended(world: World, batch: Batch, aborted: tuple[AbortedTransaction, ...], *, replicates_later: bool) -> World:
    active = world.segments[-1]
    active = Segment(active.base, NOW_MS, (*active.batches, batch), (*active.aborted, *aborted))
    end = batch.last + 1
    high_watermark = world.high_watermark if replicates_later else end
    return world._replace(segments=(*world.segments[:-1], active), log_end=end, high_watermark=high_watermark)


def _rolled(world: World) -> World:
    if not world.segments[-1].batches:
        return world
    return world._replace(segments=(*world.segments, Segment(world.log_end, NOW_MS)))


def _records_deleted(world: World) -> World:
    """DeleteRecords: the first batch that is visible, and committed."""
    ends = [batch.last + 1 for batch in world.batches if batch.last >= world.log_start]
    if not ends or ends[0] > last_stable_offset(world):
        return world
    return world._replace(log_start=ends[0])


_BROKERS: Final[dict[str, Callable[[World], World]]] = {
    "|": _rolled,
    ">": lambda world: world._replace(high_watermark=world.log_end),
    "^": _records_deleted,
    ".": lambda world: aged(world, 1),
    "~": lambda world: aged(world, AGE_MAX_MS),
}
