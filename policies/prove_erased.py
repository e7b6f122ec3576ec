"""Tell the moment at which one file no longer holds the records of one key, by the configuration in force.

Retention deletes whole segments at moments that are known. Compaction takes a superseded record in a round, and a
tombstone in the first round behind its delete horizon. For a round, the record and the one that supersedes it must lie
in closed segments, behind their lag, and the log must be dirty enough. If a moment depends on more than time, it is the
earliest possible one, and its needs say what else must happen.

No function here closes the active segment: only a broker does, when it appends a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from policies.explain.fates import Case, SegmentFate
from policies.explain.rolling import Roll, roll_of
from policies.facts import NO_TIMESTAMP, PartitionFacts, SegmentFacts
from policies.planning import plan_partition
from policies.reasons import INT64_MAX, Action, ReasonCode, as_int64, moment
from storage.names import FileIdentity

_MOMENTS_MAX: Final = 64
"""The most moments that are tried to find the one at which a round begins."""
_BY_SIZE: Final = frozenset({ReasonCode.WITHIN_SIZE, ReasonCode.BEHIND_KEPT_SEGMENT})


class DepartureCode(StrEnum):
    """The closed list of ways in which a file loses the records of a key (docs/prove-erased.md)."""

    RETENTION = "RETENTION"
    SUPERSEDED = "SUPERSEDED"
    ABORTED = "ABORTED"
    TOMBSTONE = "TOMBSTONE"
    LATEST_VALUE = "LATEST_VALUE"
    DELETED_FILE = "DELETED_FILE"
    RECOVERY = "RECOVERY"
    TOPIC_DELETED = "TOPIC_DELETED"
    STRAY = "STRAY"
    FUTURE = "FUTURE"
    COPY = "COPY"
    KEPT = "KEPT"
    """Neither retention nor compaction takes the records: because of the policy, a hold, or an unknown
    configuration.
    """


class Need(StrEnum):
    """The closed list of events that must happen beside the passing of time."""

    ROLL = "ROLL"
    """A broker appends a record, and so closes the active segment."""
    WRITE = "WRITE"
    """More is written to the partition, so that a round of compaction is due, or ``retention.bytes`` is exceeded."""
    DELETE_KEY = "DELETE_KEY"
    """A tombstone is written for the key."""
    CONFIRM = "CONFIRM"
    """A person removes the cause that holds the partition back."""
    REMOVE = "REMOVE"
    """A person removes the file, or the directory, because nothing else does."""
    BROKER = "BROKER"
    """A broker removes the file when it starts or runs."""


class Departure(NamedTuple):
    """The moment at which one file no longer holds the records of a key."""

    code: DepartureCode
    at_ms: int | None
    """Epoch ms: the earliest moment if ``needs`` has anything; None if no moment is known."""
    needs: tuple[Need, ...]
    text: str
    """A sentence for people."""

    @property
    def is_certain(self) -> bool:
        """True if the moment comes by itself, while somebody cleans: the daemon, ``clean`` or a broker."""
        return self.at_ms is not None and not self.needs


class FileHolding(NamedTuple):
    """The records of one key in one file of a log, beside those in the rest of the log."""

    base_offset: int
    """The base offset of the file's segment."""
    latest_offset: int
    """The offset of the key's last record in the log."""
    has_latest: bool
    """Whether the file holds that record."""
    latest_is_tombstone: bool
    horizon_ms: int | None
    """The delete horizon of that tombstone, epoch ms; None if none was set."""
    is_aborted: bool = False
    """Whether all records belong to aborted transactions; ``latest_offset`` is then the last of them."""


def departure(case: Case, holding: FileHolding) -> Departure:
    """Return when a segment of a log no longer holds a key."""
    fate = next((one for one in case.fates if one.facts.base_offset == holding.base_offset), None)
    if fate is None:
        text = "The segment is new: run again."
        return Departure(DepartureCode.KEPT, None, (), text)
    if case.is_exempt:
        return Departure(DepartureCode.KEPT, None, (Need.CONFIRM,), _sentence(fate.verdict.reason.text))
    guard: tuple[Need, ...] = (Need.CONFIRM,) if case.planned.guard is not None else ()
    found = [*_by_retention(case, fate), *_by_compaction(case, holding)]
    if not found:
        text = "Nothing deletes the record: the topic reaches no limit of age or size, and is not compacted."
        return Departure(DepartureCode.KEPT, None, (Need.REMOVE,), text)
    best = min(found, key=_rank)
    if not guard:
        return best
    why = case.planned.guard.text if case.planned.guard is not None else ""
    return best._replace(needs=(*best.needs, *guard), text=f"{best.text} A guard rail holds it back: {_sentence(why)}")


def _rank(one: Departure) -> tuple[bool, bool, int]:
    """Return a sort key: certain departures first, then those with a moment, then the earlier ones."""
    return not one.is_certain, one.at_ms is None, one.at_ms or 0


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else text


def _by_retention(case: Case, fate: SegmentFate) -> Iterator[Departure]:
    delay_ms, now_ms, base = case.planned.policy.file_delete_delay_ms, case.request.now_ms, fate.facts.base_offset
    if any(v.base_offset == base and v.action is Action.DELETE for v in case.intended.verdicts):
        gone_ms = as_int64(now_ms + delay_ms)
        yield Departure(DepartureCode.RETENTION, gone_ms, (), f"Retention deletes segment {base} in the next run.")
    elif fate.expires_ms is not None and fate.expires_ms < INT64_MAX:
        last_ms, text = _expiry(case, fate, fate.expires_ms)
        yield Departure(DepartureCode.RETENTION, as_int64(max(last_ms, now_ms) + delay_ms), (), text)
    elif case.planned.policy.cleanup_delete and fate.retention is not None:
        code, text = fate.retention.code, f"Retention keeps segment {base}: {_sentence(fate.retention.text)}"
        if code is not ReasonCode.NO_LIMIT:
            needs = (Need.WRITE,) if code in _BY_SIZE else (Need.BROKER,)
            yield Departure(DepartureCode.RETENTION, None, needs, text)


def _expiry(case: Case, fate: SegmentFate, expires_ms: int) -> tuple[int, str]:
    """Return the moment at which time retention has deleted a segment in any case, and a sentence.

    The active segment gets newer records until a broker closes it, by ``segment.ms``.
    """
    base, roll = fate.facts.base_offset, roll_of(case.facts, case.planned.policy, case.seen.active)
    text = f"retention.ms deletes segment {base} from {moment(expires_ms)} on."
    if base != case.facts.active.base_offset or roll is None:
        return expires_ms, text
    last_ms = as_int64(_closes_ms(case, roll) + case.planned.policy.retention_ms)
    if last_ms <= expires_ms:
        return expires_ms, text
    return last_ms, f"{text} It is the active one: if somebody writes to it, it goes by {moment(last_ms)}."


def _closes_ms(case: Case, roll: Roll) -> int:
    """Return when an appended record closes the active segment at the latest."""
    return (
        roll.latest_ms if roll.latest_ms is not None else as_int64(case.request.now_ms + case.planned.policy.segment_ms)
    )


def _by_compaction(case: Case, holding: FileHolding) -> Iterator[Departure]:
    if not case.planned.policy.cleanup_compact:
        return
    if holding.has_latest and not holding.latest_is_tombstone:
        text = (
            f"Offset {holding.latest_offset} is the key's latest value: compaction keeps it until a tombstone follows."
        )
        yield Departure(DepartureCode.LATEST_VALUE, None, (Need.DELETE_KEY,), text)
        return
    if holding.has_latest:
        yield _tombstone(case, holding)
        return
    at_ms, needs = _first_round(case, holding.latest_offset)
    if holding.is_aborted:
        text = f"Offset {holding.latest_offset} belongs to an aborted transaction: {_round_text(at_ms, needs)}"
        yield Departure(DepartureCode.ABORTED, _after_delay(case, at_ms), needs, text)
        return
    text = f"Offset {holding.latest_offset} supersedes it: {_round_text(at_ms, needs)}"
    yield Departure(DepartureCode.SUPERSEDED, _after_delay(case, at_ms), needs, text)


def _first_round(case: Case, offset: int) -> tuple[int | None, tuple[Need, ...]]:
    """Return when a round first covers an offset, and the needs for that."""
    facts, now_ms = case.facts, case.request.now_ms
    if offset < facts.active.base_offset:
        at_ms = _round_from(case, facts, offset, now_ms)
        if at_ms is not None:
            return at_ms, ()
    roll = roll_of(facts, case.planned.policy, case.seen.active)
    if roll is None:
        return None, (Need.WRITE,)
    at_ms = _round_from(case, _rolled(facts), offset, max(_closes_ms(case, roll), now_ms))
    return (at_ms, (Need.ROLL,)) if at_ms is not None else (None, (Need.ROLL, Need.WRITE))


def _round_from(case: Case, facts: PartitionFacts, offset: int, from_ms: int) -> int | None:
    """Return the first moment at which a round covers an offset, of the moments at which a lag or a limit ends."""
    policy, ends_ms = case.planned.policy, {from_ms}
    for segment in facts.segments[:-1]:
        ends_ms.add(as_int64(segment.largest_timestamp_ms + policy.min_compaction_lag_ms))
        if segment.first_batch_ms > 0:
            ends_ms.add(as_int64(segment.first_batch_ms + policy.max_compaction_lag_ms + 1))
    ends_ms |= {fate.expires_ms for fate in case.fates if fate.expires_ms is not None}
    for at_ms in sorted(end_ms for end_ms in ends_ms if from_ms <= end_ms < INT64_MAX)[:_MOMENTS_MAX]:
        then = plan_partition(facts, policy, replace(case.request, now_ms=at_ms, confirmed=True), case.broker)
        if then.compaction is not None and then.compaction.round.end_offset > offset:
            return at_ms
    return None


def _rolled(facts: PartitionFacts) -> PartitionFacts:
    """Return a partition as it is once the active segment is closed: an empty one begins at the log end."""
    active = facts.active
    first_ms = active.first_batch_ms if active.first_batch_ms > 0 else active.newest_record_ms
    closed = active._replace(first_batch_ms=first_ms)
    empty = SegmentFacts(
        facts.log_end_offset, 0, 0, 0, 0, active.mtime_ms, NO_TIMESTAMP, FileIdentity(0, 0, 0, active.identity.mtime_ns)
    )
    return replace(facts, segments=(*facts.segments[:-1], closed, empty))


def _tombstone(case: Case, holding: FileHolding) -> Departure:
    """Return when a tombstone goes: in the first round behind its horizon, which the first round sets that meets it."""
    policy, offset = case.planned.policy, holding.latest_offset
    if holding.horizon_ms is not None:
        from_ms = max(holding.horizon_ms, case.request.now_ms)
        round_ms = _round_from(case, case.facts, offset, from_ms)
        needs: tuple[Need, ...] = () if round_ms is not None else (Need.ROLL, Need.WRITE)
        text = f"The delete horizon of the tombstone at offset {offset} is {moment(holding.horizon_ms)}: "
        text += _round_text(round_ms, needs)
        at_ms = from_ms if round_ms is None else round_ms
        return Departure(DepartureCode.TOMBSTONE, _after_delay(case, at_ms), needs, text)
    first_ms, needs = _first_round(case, offset)
    span = policy.value_of("delete.retention.ms").sentence
    if first_ms is None:
        text = f"The tombstone at offset {offset} stays for {span} after its first round, and no round is in sight."
        return Departure(DepartureCode.TOMBSTONE, None, needs, text)
    horizon_ms = as_int64(first_ms + policy.delete_retention_ms)
    text = (
        f"A first round, from {moment(first_ms)} on, sets the delete horizon of the tombstone at offset {offset}, by "
    )
    text += f"{span}; the next round from {moment(horizon_ms)} on takes it."
    needs = tuple(dict.fromkeys((*needs, Need.ROLL, Need.WRITE)))
    return Departure(DepartureCode.TOMBSTONE, _after_delay(case, horizon_ms), needs, text)


def _round_text(at_ms: int | None, needs: tuple[Need, ...]) -> str:
    if at_ms is None:
        return "a round takes it, but no round is due by time alone."
    if Need.ROLL in needs:
        return f"a round from {moment(at_ms)} on takes it, once an appended record has closed the active segment."
    return f"a round from {moment(at_ms)} on takes it."


def _after_delay(case: Case, at_ms: int | None) -> int | None:
    """Return when the file that a round replaces is unlinked."""
    return None if at_ms is None else as_int64(at_ms + case.planned.policy.file_delete_delay_ms)
