"""What a policy may not do, whatever it lets go: take the middle of a log, bring a deleted key back, lose how a
transaction ended, or leave what is due.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tests.lives.seen import Fact, Piece, SeenLog
from tests.lives.world import Stated

_SHOWN: Final = 5
PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""``producer.id.expiration.ms``."""
Gap = tuple[int, int]
"""Behind the last offset of a segment, and where the next one begins."""


def gaps_of(log: SeenLog) -> list[Gap]:
    """Return where a log lacks what may have ended a transaction."""
    return _between(log.pieces)


def _between(pieces: Sequence[Piece]) -> list[Gap]:
    both = itertools.pairwise(pieces)
    return [(one.end_offset, other.base_offset) for one, other in both if one.end_offset < other.base_offset]


def fates(log: SeenLog, gaps: Collection[Gap]) -> dict[int, str]:
    """Return how the transaction of each record ended: ``open``, ``committed`` or ``aborted``.

    A record whose transaction may have ended within a gap is left out. Other gaps are what rounds left of a segment.
    """
    is_open: dict[int, list[int]] = {}
    found: dict[int, str] = {}
    for place, piece in enumerate(log.pieces):
        behind = _between(log.pieces[place - 1 : place + 1]) if place else []
        if any(start <= gap[0] and gap[1] <= end for start, end in behind for gap in gaps):
            is_open.clear()
        events: list[tuple[int, int, str]]
        events = [(one.fact.offset, one.producer_id, "") for one in piece.placed if one.is_transactional]
        events += [(one.offset, one.producer_id, "aborted" if one.is_abort else "committed") for one in piece.markers]
        for offset, producer_id, end in sorted(events):
            if end:
                found |= dict.fromkeys(is_open.pop(producer_id, ()), end)
            else:
                is_open.setdefault(producer_id, []).append(offset)
    return found | {offset: "open" for offsets in is_open.values() for offset in offsets}


def of_transactions(before: SeenLog, after: SeenLog) -> Iterator[str]:
    """Yield transactions that ended otherwise than they had."""
    gaps = gaps_of(before)
    old, new = fates(before, gaps), fates(after, gaps)
    both = old.keys() & new.keys() & before.records.keys() & after.records.keys()
    if wrong := [(offset, old[offset], new[offset]) for offset in sorted(both) if old[offset] != new[offset]]:
        yield f"{before.name}: {wrong[:_SHOWN]}"


def of_producers(before: SeenLog, after: SeenLog, latest_ms: int, *, lost_power: bool = False) -> Iterator[str]:
    """Yield producers whose last sequence number is lost: a broker would take it twice, or refuse the next one.

    Behind a gap a snapshot may tell of a later batch, which a person took away; or which a limit let go, if the power
    went within that deletion.

    Source: Kafka Cleaner.cleanInto, which keeps the last batch of each active producer, also without a record.
    """
    new = {end.producer_id: end for piece in after.pieces for end in piece.ends}
    gaps = gaps_of(before) + (gaps_of(after) if lost_power else [])
    whole_from = max((start for _, start in gaps), default=before.log_start)
    for end in {end.producer_id: end for piece in before.pieces for end in piece.ends}.values():
        is_active = (
            end.offset >= max(after.log_start, whole_from) and end.timestamp_ms > latest_ms - PRODUCER_EXPIRATION_MS
        )
        if is_active and (new.get(end.producer_id) or ())[:4] != end[:4]:
            yield f"{before.name}: {end} became {new.get(end.producer_id)}"


def of_deleted_keys(before: SeenLog, after: SeenLog, aside: Collection[Piece]) -> Iterator[str]:
    """Yield keys that a tombstone deleted, and that have a value again, or will if what the log lacks comes back."""
    lasting = _last_states(before, [])
    states = _last_states(after, aside)
    for key, last in lasting.items():
        now = states.get(key)
        if last.value is None and now is not None and now.value is not None and now.offset < last.offset:
            yield f"{before.name}: {key.decode()} was deleted at {last.offset}, and has the value of {now.offset}"


def _last_states(log: SeenLog, aside: Collection[Piece]) -> Mapping[bytes, Fact]:
    ended = fates(log, gaps_of(log))
    lacking = (one.fact for piece in aside for one in piece.placed if one.fact.offset >= log.log_start)
    known = {fact.offset: fact for fact in lacking} | dict(log.records)
    facts = (known[offset] for offset in sorted(known) if offset < log.stable_end and ended.get(offset) != "aborted")
    return {fact.key: fact for fact in facts if fact.key is not None}


def overdue(before: SeenLog, after: SeenLog, stated: Stated, now_ms: int) -> Iterator[str]:
    """Yield segments that were due by age when a run began, and are still there behind its end."""
    if not stated.deletes or stated.retention_ms is None or stated.retention_ms < 0 or before.trouble:
        return
    for piece in before.pieces[:-1]:
        is_old = 0 <= piece.newest_ms < now_ms - stated.retention_ms
        if not is_old or before.high_watermark is None or piece.end_offset > before.high_watermark:
            return
        if any(one.base_offset == piece.base_offset for one in after.pieces):
            yield f"{before.name}: segment {piece.base_offset} is of {piece.newest_ms}, and it is {now_ms}"
