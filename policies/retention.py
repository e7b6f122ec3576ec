"""Decide which of the oldest segments go, by log start offset, size and time, and why each other segment stays.

Pure functions over facts. Three full passes, in this order. Each pass walks from the oldest segment on, and stops at
its first refusal. A segment must lie wholly below the high watermark, and an empty active segment never goes.

One rule is ours: missing records that a file tells of stop a limit as if their segment were there, and not due
(``missing_below``). Otherwise the log would begin above them, and the file, perhaps their only copy, would count as
older than the log.

The bytes that retention would leave are a function of its limit, by the same rules: the curve has every limit at which
the bytes change.

Source: Kafka UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from sys import intern  # a plan holds each sentence once: the segments of many partitions have the same ages
from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import MissingRecords, PartitionFacts, SegmentFacts
from policies.reasons import (
    INT64_MAX,
    Action,
    Limit,
    Reason,
    ReasonCode,
    Verdict,
    age_beside,
    as_int64,
    moment,
    size_beside,
)

Rule = Callable[[int], Reason | None]
"""A function that takes a segment's place, and returns the reason why the segment goes, or None."""
_OF_TIME: Final = frozenset(
    {
        ReasonCode.TIME_NOT_REACHED,
        ReasonCode.FUTURE_TIMESTAMP,
        ReasonCode.BEHIND_KEPT_SEGMENT,
        ReasonCode.RECORDS_MISSING,
    }
)
"""Reasons to stay that time may end."""
NO_HIGH_WATERMARK: Final = Reason(
    ReasonCode.NO_HIGH_WATERMARK,
    "no high watermark was checkpointed, so nothing is known to be committed (--assume-committed for copies)",
)


class Retention(NamedTuple):
    """The outcome for one partition: a verdict on every segment. The verdicts on deleted segments come first."""

    verdicts: tuple[Verdict, ...]
    deleted: int

    @property
    def deletes_everything(self) -> bool:
        """True if every segment goes. An empty segment is then rolled at the log end first."""
        return 0 < self.deleted == len(self.verdicts)

    @property
    def gone(self) -> tuple[Verdict, ...]:
        """The verdicts on the segments that go."""
        return self.verdicts[: self.deleted]

    @property
    def kept(self) -> tuple[Verdict, ...]:
        """The verdicts on the segments that stay."""
        return self.verdicts[self.deleted :]


def retention(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    """Decide which segments retention removes.

    Args:
        log: the facts of one partition.
        policy: the topic's configuration; ``retention.ms`` and ``retention.bytes`` below 0 mean no limit.
        now_ms: epoch ms.

    Returns:
        One verdict for each segment, in order.
    """
    reasons = below_log_start(log)
    if policy.cleanup_delete:
        reasons += _pass(log, len(reasons), _over_size(log, policy))
        reasons += _pass(log, len(reasons), _expired(log, policy, now_ms))
    held: dict[int, Reason] = {}
    staying = _missing_within_size(log, policy)
    for place, reason in enumerate(reasons):
        if reason.code is ReasonCode.LOG_START_OFFSET:
            continue
        if missing := missing_below(log, place, staying, policy, now_ms):
            held = dict.fromkeys(range(place, len(reasons)), before_missing(missing, ", and no limit lets them go yet"))
            del reasons[place:]
            break
    oldest = zip(log.segments[: len(reasons)], reasons, strict=True)
    gone = [Verdict(s.base_offset, s.size_bytes, Action.DELETE, reason) for s, reason in oldest]
    return Retention((*gone, *_kept(log, len(gone), held, staying, policy, now_ms)), len(gone))


def barrier(log: PartitionFacts, place: int) -> Reason | None:
    """Return why no rule may remove this segment; None if rules may."""
    is_active = place == len(log.segments) - 1
    if is_active and log.active.size_bytes == 0:
        return Reason(ReasonCode.ACTIVE_EMPTY, "the empty active segment: a log has at least one segment")
    if log.high_watermark is None:
        return NO_HIGH_WATERMARK
    if log.high_watermark < (upper := log.upper_offset(place)):
        text = f"reaches to offset {upper}, above the high watermark {log.high_watermark}"
        return Reason(ReasonCode.ABOVE_HIGH_WATERMARK, text)
    if is_active and log.torn_tail_bytes:
        text = f"{log.torn_tail_bytes} bytes at its end are no record batch; nothing is rolled behind them"
        return Reason(ReasonCode.TORN_TAIL, text)
    return None


def missing_below(
    log: PartitionFacts, place: int, staying: Sequence[MissingRecords], policy: TopicPolicy, now_ms: int
) -> MissingRecords | None:
    """Return the missing records between this segment and the next one that no limit lets go; None without any.

    Records that are missing above the active segment count for the active segment. The size limit counts the bytes
    above the missing records alone. If nobody knows their age, no limit of time lets them go.
    """
    going = (missing for missing in staying if _goes_with(log, place, missing))
    return next((missing for missing in going if now_ms < _missing_until_ms(missing, policy)), None)


def _missing_within_size(log: PartitionFacts, policy: TopicPolicy) -> list[MissingRecords]:
    """Return the missing records that no limit of size lets go."""
    left = left_bytes(log) if log.missing else []
    above = (bisect_left(log.segments, one.base_offset, key=attrgetter("base_offset")) for one in log.missing)
    both = zip(log.missing, above, strict=True)
    return [missing for missing, place in both if not 0 <= policy.retention_bytes <= left[place]]


def _goes_with(log: PartitionFacts, place: int, missing: MissingRecords) -> bool:
    """Return whether the log would begin above missing records once a segment is gone."""
    return place + 1 == len(log.segments) or missing.base_offset < log.upper_offset(place)


def _missing_until_ms(missing: MissingRecords, policy: TopicPolicy) -> int:
    """Return the first moment at which a limit of time lets missing records go; INT64_MAX if none does."""
    if policy.retention_ms < 0 or missing.newest_ms < 0:
        return INT64_MAX
    return as_int64(missing.newest_ms + policy.retention_ms + 1)


def below_log_start(log: PartitionFacts) -> list[Reason]:
    """Return the reasons of the oldest segments that go by the log start offset, whatever the limits."""

    def rule(place: int) -> Reason | None:
        if place + 1 == len(log.segments) or (upper := log.upper_offset(place)) > log.log_start_offset:
            return None
        text = f"ends at offset {upper}, below the log start offset {log.log_start_offset}"
        return Reason(ReasonCode.LOG_START_OFFSET, text)

    return _pass(log, 0, rule)


def left_bytes(log: PartitionFacts) -> list[int]:
    """Return the bytes that are left once none, one, two … of the oldest segments are gone."""
    from_newest = accumulate((segment.size_bytes for segment in reversed(log.segments)), initial=0)
    return list(from_newest)[::-1]


def before_missing(missing: MissingRecords, so: str) -> Reason:
    """Return the reason that a segment stays because records are missing above it."""
    return Reason(ReasonCode.RECORDS_MISSING, f"{_missing(missing)}{so}; logcleaner doctor says what to do")


def _missing(missing: MissingRecords) -> str:
    return f"records are missing from offset {missing.base_offset} on, as {missing.name} tells"


def newest(segment: SegmentFacts, policy: TopicPolicy, now_ms: int) -> tuple[int, str]:
    """Return the time that a segment's age counts from, epoch ms, and the words for its source."""
    if _is_unpinned(segment, policy, now_ms):
        return segment.mtime_ms, "the file time of its .log (its newest record lies in the future)"
    if segment.newest_record_ms < 0:
        return segment.mtime_ms, "the file time of its .log (no record has a timestamp)"
    what = "its newest record"
    if segment.newest_record_ms > now_ms and segment.newest_record_offset is not None:
        what += f" (in the batch up to offset {segment.newest_record_offset})"
    return segment.newest_record_ms, what


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A step of the curve: every limit above the previous point's, up to this one's, leaves ``kept_bytes``."""

    limit: int | None
    """The ``retention.ms`` or ``retention.bytes``. None stands for all greater limits, and for no limit at all."""
    kept_bytes: int
    """The size of the ``.log`` files that stay."""


def curve_by_time(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> tuple[CurvePoint, ...]:
    """Return the bytes that each ``retention.ms`` keeps, as if no other limit held.

    Args:
        log: the facts of one partition.
        policy: states which time of a segment counts; its limits do not matter.
        now_ms: epoch ms.

    Returns:
        The points by rising limit. No limit is below 0: a segment whose age is negative always stays.
    """
    ages_ms = (_age_ms(log, place, policy, now_ms) for place in _deletable(log))
    youngest_so_far_ms = accumulate(ages_ms, min)  # a segment goes once it and all older ones are beyond the limit
    return _curve(log, [age_ms - 1 for age_ms in youngest_so_far_ms])


def _age_ms(log: PartitionFacts, place: int, policy: TopicPolicy, now_ms: int) -> int:
    """Return the age of a segment, or of the youngest missing records that go with it; -1 if nobody knows theirs."""
    ages_ms = [
        now_ms - missing.newest_ms if missing.newest_ms >= 0 else -1
        for missing in log.missing
        if _goes_with(log, place, missing)
    ]
    return min([now_ms - newest(log.segments[place], policy, now_ms)[0], *ages_ms])


def curve_by_size(log: PartitionFacts) -> tuple[CurvePoint, ...]:
    """Return the bytes that each ``retention.bytes`` keeps, as if no other limit held.

    A limit never keeps less than itself, unless the partition holds less.

    Args:
        log: the facts of one partition.

    Returns:
        The points by rising limit.
    """
    left = left_bytes(log)
    return _curve(log, [left[place + 1] for place in _deletable(log)])


def _pass(log: PartitionFacts, first: int, rule: Rule) -> list[Reason]:
    """Return the reasons of the segments from place ``first`` on that a rule removes, up to its first refusal."""
    reasons: list[Reason] = []
    for place in range(first, len(log.segments)):
        reason = None if barrier(log, place) else rule(place)
        if reason is None:
            break
        reasons.append(reason)
    return reasons


def _over_size(log: PartitionFacts, policy: TopicPolicy) -> Rule:
    """Return the rule that deletes a segment if at least ``retention.bytes`` remain without it."""
    limit_bytes, left = policy.retention_bytes, left_bytes(log)
    stated = policy.value_of("retention.bytes")
    limit = stated.sentence

    def rule(place: int) -> Reason | None:
        if limit_bytes < 0 or left[place + 1] < limit_bytes:
            return None
        text = f"{size_beside(left[place + 1], limit_bytes)} stay without it, at least {limit}"
        return Reason(ReasonCode.RETENTION_SIZE, text, limit=Limit(stated, left[place + 1]))

    return rule


def _expired(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Rule:
    stated = policy.value_of("retention.ms")
    limit = stated.sentence

    def rule(place: int) -> Reason | None:
        segment = log.segments[place]
        newest_ms, what = newest(segment, policy, now_ms)
        if policy.retention_ms < 0 or now_ms - newest_ms <= policy.retention_ms:
            return None
        age_ms = now_ms - newest_ms
        text = f"{what} is {age_beside(age_ms, policy.retention_ms)} old, more than {limit}"
        until_ms = _expiry_ms(segment, policy, now_ms)
        return Reason(ReasonCode.RETENTION_TIME, intern(text), until_ms, Limit(stated, age_ms))

    return rule


def _expiry_ms(segment: SegmentFacts, policy: TopicPolicy, now_ms: int) -> int:
    """Return the first moment at which time retention deletes the segment (strict comparison); 0 without a limit.

    A moment beyond int64 becomes the last moment of int64. No deletion depends on the result.
    """
    if policy.retention_ms < 0:
        return 0
    if policy.retention_future_timestamps == "mtime":
        by_file_ms = segment.mtime_ms + policy.retention_ms + 1
        if _is_unpinned(segment, policy, max(now_ms, by_file_ms)):
            return as_int64(by_file_ms)
    return as_int64(segment.largest_timestamp_ms + policy.retention_ms + 1)


def _is_unpinned(segment: SegmentFacts, policy: TopicPolicy, now_ms: int) -> bool:
    return policy.retention_future_timestamps == "mtime" and segment.newest_record_ms > now_ms


def _kept(
    log: PartitionFacts,
    first: int,
    held: Mapping[int, Reason],
    staying: Sequence[MissingRecords],
    policy: TopicPolicy,
    now_ms: int,
) -> list[Verdict]:
    """Return a verdict for each segment that stays, with the moment from which time retention could delete it.

    Args:
        log: the facts.
        first: the place of the first segment that stays.
        held: place -> why a segment that is due stays.
        staying: the missing records that no limit of size lets go.
        policy: the configuration.
        now_ms: epoch ms.
    """
    verdicts: list[Verdict] = []
    stays = _stays(log, first, policy, now_ms)
    is_by_time, until_ms = policy.cleanup_delete and policy.retention_ms >= 0, 0
    waits_for: MissingRecords | None = None
    for place in range(first, len(log.segments)):
        segment = log.segments[place]
        if is_by_time:
            until_ms = max(until_ms, _expiry_ms(segment, policy, max(now_ms, until_ms)))
            for missing in staying:
                if _goes_with(log, place, missing) and until_ms < (go_ms := _missing_until_ms(missing, policy)):
                    until_ms, waits_for = go_ms, missing
        reason = barrier(log, place) or held.get(place)
        if reason is None:
            reason = stays(place, until_ms)
            if waits_for:
                reason = reason._replace(text=f"{reason.text}; {_missing(waits_for)}")
        if waits_for and reason.code in _OF_TIME:
            reason = reason._replace(until_ms=until_ms if until_ms < INT64_MAX else None)
        verdicts.append(Verdict(segment.base_offset, segment.size_bytes, Action.KEEP, reason))
    return verdicts


def _stays(log: PartitionFacts, first: int, policy: TopicPolicy, now_ms: int) -> Callable[[int, int], Reason]:
    """Return a function of a place and the moment of its expiry.

    It returns the reason why no limit lets the segment go.
    """
    if policy.cleanup_delete and policy.retention_ms >= 0:
        return _stays_by_time(log, first, policy, now_ms)
    if policy.cleanup_delete and policy.retention_bytes >= 0:
        return _stays_by_size(log, policy)
    reason = _deletes_by_no_limit(policy)
    return lambda _place, _until_ms: reason


def _deletes_by_no_limit(policy: TopicPolicy) -> Reason:
    if policy.cleanup_delete:
        return Reason(ReasonCode.NO_LIMIT, "no retention.ms and no retention.bytes limits it")
    stated = Limit(policy.value_of("cleanup.policy"))
    if policy.cleanup_policy:
        text = f"cleanup.policy {policy.cleanup_policy} deletes by no limit"
        return Reason(ReasonCode.NO_LIMIT, text, limit=stated)
    text = "cleanup.policy is empty: no limit deletes, nothing is compacted"
    return Reason(ReasonCode.POLICY_EMPTY, text, limit=stated)


def _stays_by_time(log: PartitionFacts, first: int, policy: TopicPolicy, now_ms: int) -> Callable[[int, int], Reason]:
    stated = policy.value_of("retention.ms")
    limit = stated.sentence
    longest_ms, holder = -1, first
    """The latest expiry so far, and the place of the segment that has it: all later segments wait for it."""

    def reason(place: int, until_ms: int) -> Reason:
        nonlocal longest_ms, holder
        if until_ms > longest_ms:
            longest_ms, holder = until_ms, place
        newest_ms, what = newest(log.segments[place], policy, now_ms)
        age_ms = now_ms - newest_ms
        if age_ms < 0:
            code, text = ReasonCode.FUTURE_TIMESTAMP, f"{what} lies in the future, {moment(newest_ms)}"
            if place == holder < len(log.segments) - 1:
                text += "; it holds all later segments"
        elif age_ms <= policy.retention_ms:
            code, age = ReasonCode.TIME_NOT_REACHED, age_beside(age_ms, policy.retention_ms)
            text = f"{what} is {age} old, not more than {limit}"
        else:
            code, text = ReasonCode.BEHIND_KEPT_SEGMENT, "expired"
        if place != holder:
            joint = ", but" if code is ReasonCode.BEHIND_KEPT_SEGMENT else ";"
            text += f"{joint} segments go oldest first and {log.segments[holder].base_offset} stays"
        return Reason(code, intern(text), until_ms, Limit(stated, age_ms))

    return reason


def _stays_by_size(log: PartitionFacts, policy: TopicPolicy) -> Callable[[int, int], Reason]:
    stated, left = policy.value_of("retention.bytes"), left_bytes(log)
    limit = stated.sentence

    def reason(place: int, _until_ms: int) -> Reason:
        text = f"{size_beside(left[place + 1], policy.retention_bytes)} would stay without it, less than {limit}"
        return Reason(ReasonCode.WITHIN_SIZE, text, limit=Limit(stated, left[place + 1]))

    return reason


def _curve(log: PartitionFacts, greatest_limits: Sequence[int]) -> tuple[CurvePoint, ...]:
    """Build the curve from the greatest limit at which each segment still goes: oldest first, never rising."""
    first, left = len(below_log_start(log)), left_bytes(log)
    points = [CurvePoint(None, left[first])]
    for place, limit in enumerate(greatest_limits, first):
        if limit < 0:
            break
        if points[-1].limit == limit:
            points.pop()
        points.append(CurvePoint(limit, left[place + 1]))
    return tuple(reversed(points))


def _deletable(log: PartitionFacts) -> Iterator[int]:
    """Yield the places of the segments that some limit may delete; no limit may delete the others."""
    for place in range(len(below_log_start(log)), len(log.segments)):
        if barrier(log, place):
            return
        yield place
