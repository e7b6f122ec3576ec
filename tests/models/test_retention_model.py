"""Every small log against Kafka's own three passes, written down naively; then every small plan, executed and repeated.

Worlds: up to four segments, empty or not, expired, at the limit, fresh, of the future or without timestamps; every
interesting high watermark and log start offset; every kind of cleanup.policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from policies.config.policy import TopicPolicy
from policies.facts import NO_TIMESTAMP, PartitionFacts, SegmentFacts
from policies.plan import Only, PartitionPlan, Request
from policies.planning import plan_partition
from policies.reasons import Action, ReasonCode, Verdict
from policies.retention import Retention, retention
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

Decide = Callable[[PartitionFacts, TopicPolicy, int], Retention]
Predicate = Callable[[SegmentFacts, SegmentFacts | None], bool]

LIMIT_MS, LIMIT_BYTES = 100, 4
EXPIRED, AT_LIMIT, FUTURE, UNTIMED = 2 * LIMIT_MS, LIMIT_MS, -LIMIT_MS, None
RECORDS = 2
DELETING = tuple(
    a_policy(cleanup, retention_ms=retention_ms, retention_bytes=retention_bytes)
    for cleanup, retention_ms, retention_bytes in [
        ("delete", LIMIT_MS, -1),
        ("delete", -1, LIMIT_BYTES),
        ("delete", LIMIT_MS, LIMIT_BYTES),
        ("delete", -1, 0),
        ("delete", -1, -1),
        ("compact,delete", LIMIT_MS, LIMIT_BYTES),
    ]
)
UNPINNING = a_policy("delete", retention_ms=LIMIT_MS, retention_future_timestamps="mtime")
KEEPING = tuple(a_policy(cleanup, retention_ms=0, retention_bytes=0) for cleanup in ("compact", ""))
RETENTION_CODES = {
    ReasonCode.LOG_START_OFFSET,
    ReasonCode.RETENTION_SIZE,
    ReasonCode.RETENTION_TIME,
    ReasonCode.TIME_NOT_REACHED,
    ReasonCode.FUTURE_TIMESTAMP,
    ReasonCode.WITHIN_SIZE,
    ReasonCode.NO_LIMIT,
    ReasonCode.BEHIND_KEPT_SEGMENT,
    ReasonCode.ACTIVE_EMPTY,
    ReasonCode.ABOVE_HIGH_WATERMARK,
    ReasonCode.NO_HIGH_WATERMARK,
    ReasonCode.TORN_TAIL,
    ReasonCode.POLICY_EMPTY,
}


# Worlds


def every_small_log() -> Iterator[PartitionFacts]:
    yield a_log().facts()
    for count in (1, 2):
        yield from every_log(count, (0, 1, 4), (EXPIRED, AT_LIMIT, FUTURE, UNTIMED))
    yield from every_log(3, (0, 2), (EXPIRED, AT_LIMIT, FUTURE))
    yield from every_log(4, (0, 2), (EXPIRED, AT_LIMIT))


def every_log(count: int, sizes: Sequence[int], ages_ms: Sequence[int | None]) -> Iterator[PartitionFacts]:
    for drawn in product(product(sizes, ages_ms), repeat=count):
        log = a_log()
        for place, (size_bytes, age_ms) in enumerate(drawn):
            log = with_segment(log, size_bytes, age_ms, is_active=place + 1 == count)
        yield from every_offset(log.facts())


def with_segment(log: LogBuilder, size_bytes: int, age_ms: int | None, *, is_active: bool) -> LogBuilder:
    """A sealed segment may be empty and span offsets: compaction left it so."""
    records = 0 if is_active and size_bytes == 0 else RECORDS
    newest_ms = NO_TIMESTAMP if age_ms is None else NOW_MS - age_ms
    return log.segment(bytes=size_bytes, records=records, newest_ms=newest_ms, mtime_ms=NOW_MS - EXPIRED)


def every_offset(log: PartitionFacts) -> Iterator[PartitionFacts]:
    """High watermarks at, and one off, the ends of the oldest and newest segments; log starts not above them."""
    end = log.log_end_offset
    yield replace(log, high_watermark=None, last_stable_offset=None, log_start_offset=min(RECORDS, end))
    for high_watermark in sorted({0, RECORDS - 1, RECORDS, end - 1, end} & set(range(end + 1))):
        for log_start in sorted({0, 1, RECORDS, end} & set(range(high_watermark + 1))):
            yield replace(
                log, high_watermark=high_watermark, last_stable_offset=high_watermark, log_start_offset=log_start
            )
    if log.active.size_bytes:
        yield replace(log, torn_tail_bytes=1)


# The oracle: Kafka UnifiedLog.deleteOldSegments, pass by pass


def kafka_deletes(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> list[str]:
    """Which pass deletes each of the oldest segments."""
    left = list(log.segments)
    passes: list[str] = []
    log_start = log.log_start_offset

    def start_breached(_: SegmentFacts, following: SegmentFacts | None) -> bool:
        return following is not None and following.base_offset <= log_start

    def run(name: str, predicate: Predicate) -> None:
        nonlocal log_start
        for _ in range(deletable(left, log, predicate)):
            left.pop(0)
            passes.append(name)
        log_start = max(log_start, left[0].base_offset if left else log.log_end_offset)

    run("LOG_START_OFFSET", start_breached)
    if policy.cleanup_policy in ("delete", "compact,delete"):
        run("RETENTION_SIZE", size_breached(left, policy.retention_bytes))
        unpins = policy.retention_future_timestamps == "mtime"
        run("RETENTION_TIME", time_breached(policy.retention_ms, now_ms, unpins=unpins))
    return passes


def deletable(left: Sequence[SegmentFacts], log: PartitionFacts, predicate: Predicate) -> int:
    count = 0
    for segment, following in zip(left, [*left[1:], None], strict=False):
        upper = log.log_end_offset if following is None else following.base_offset
        is_last_and_empty = following is None and segment.size_bytes == 0
        is_committed = log.high_watermark is not None and log.high_watermark >= upper
        is_torn = following is None and log.torn_tail_bytes > 0  # ours alone: a broker cuts it before
        if not is_committed or is_last_and_empty or is_torn or not predicate(segment, following):
            break
        count += 1
    return count


def size_breached(left: Sequence[SegmentFacts], retention_bytes: int) -> Predicate:
    total_bytes = sum(segment.size_bytes for segment in left)
    diff = total_bytes - retention_bytes

    def predicate(segment: SegmentFacts, _: SegmentFacts | None) -> bool:
        nonlocal diff
        if diff - segment.size_bytes < 0:
            return False
        diff -= segment.size_bytes
        return True

    return predicate if 0 <= retention_bytes <= total_bytes else lambda _, __: False


def time_breached(retention_ms: int, now_ms: int, *, unpins: bool) -> Predicate:
    """``unpins`` is ours alone."""

    def predicate(segment: SegmentFacts, _: SegmentFacts | None) -> bool:
        is_by_file = segment.newest_record_ms < 0 or (unpins and segment.newest_record_ms > now_ms)
        newest_ms = segment.mtime_ms if is_by_file else segment.newest_record_ms
        return retention_ms >= 0 and now_ms - newest_ms > retention_ms

    return predicate


# What must hold


class UnsoundRetention(Exception):
    """A decision that Kafka would not take, or a sentence that does not hold."""


def demand(holds: bool, what: str, *world: object) -> None:
    if not holds:
        raise UnsoundRetention(what, *world)


def check_every_small_log(decide: Decide) -> None:
    seen: set[ReasonCode] = set()
    for log in every_small_log():
        for policy in (*DELETING, UNPINNING, *KEEPING):
            seen |= check_decision(decide, log, policy)
    assert seen == RETENTION_CODES


def check_decision(decide: Decide, log: PartitionFacts, policy: TopicPolicy) -> set[ReasonCode]:
    found = decide(log, policy, NOW_MS)
    codes = [verdict.reason.code for verdict in found.verdicts]
    demand(codes[: found.deleted] == kafka_deletes(log, policy, NOW_MS), "differs from Kafka", log, policy, found)
    actions = [verdict.action for verdict in found.verdicts]
    kept = [Action.KEEP] * (len(actions) - found.deleted)
    demand(actions == [Action.DELETE] * found.deleted + kept, "the deleted are no prefix", log, policy, found)
    demand([v.base_offset for v in found.verdicts] == [s.base_offset for s in log.segments], "one a segment", log)
    for place, verdict in enumerate(found.verdicts[found.deleted :], found.deleted):
        check_moment(decide, log, policy, place, verdict)
    return set(codes)


def check_moment(decide: Decide, log: PartitionFacts, policy: TopicPolicy, place: int, kept: Verdict) -> None:
    """The moment that a kept segment names is the first one at which it goes."""
    until_ms = kept.reason.until_ms
    if until_ms is not None:
        demand(decide(log, policy, until_ms).deleted > place, "stays after its moment", log, policy, kept)
        demand(decide(log, policy, until_ms - 1).deleted <= place, "goes before its moment", log, policy, kept)


def test_every_small_log_is_decided_as_kafka_decides_it() -> None:
    check_every_small_log(retention)


# Broken twins that the checks must catch


def expires_at_the_limit(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    return retention(log, replace(policy, retention_ms=max(policy.retention_ms - 1, -1)), now_ms)


def exceeds_the_size_strictly(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    limit = policy.retention_bytes
    return retention(log, replace(policy, retention_bytes=limit + 1 if limit >= 0 else limit), now_ms)


def goes_one_segment_further(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    found = retention(log, policy, now_ms)
    place = found.deleted
    if not 0 < place < len(found.verdicts):
        return found
    further = found.verdicts[place]._replace(action=Action.DELETE, reason=found.verdicts[place - 1].reason)
    return Retention((*found.verdicts[:place], further, *found.verdicts[place + 1 :]), place + 1)


def ignores_the_high_watermark(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    return retention(replace(log, high_watermark=log.log_end_offset), policy, now_ms)


def trusts_the_file_time(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    segments = tuple(segment._replace(newest_record_ms=NO_TIMESTAMP) for segment in log.segments)
    return retention(replace(log, segments=segments), policy, now_ms)


def cuts_torn_tails(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    return retention(replace(log, torn_tail_bytes=0), policy, now_ms)


def promises_too_early(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Retention:
    found = retention(log, policy, now_ms)
    return found._replace(verdicts=tuple(map(one_millisecond_early, found.verdicts)))


def one_millisecond_early(verdict: Verdict) -> Verdict:
    until_ms = verdict.reason.until_ms
    early = until_ms - 1 if until_ms is not None and verdict.action is Action.KEEP else until_ms
    return verdict._replace(reason=verdict.reason._replace(until_ms=early))


@pytest.mark.parametrize(
    ("twin", "complaint"),
    [
        (expires_at_the_limit, "differs from Kafka"),
        (exceeds_the_size_strictly, "differs from Kafka"),
        (goes_one_segment_further, "differs from Kafka"),
        (ignores_the_high_watermark, "differs from Kafka"),
        (trusts_the_file_time, "differs from Kafka"),
        (cuts_torn_tails, "differs from Kafka"),
        (promises_too_early, "stays after its moment"),
    ],
)
def test_a_broken_twin_is_caught(twin: Decide, complaint: str) -> None:
    with pytest.raises(UnsoundRetention, match=complaint):
        check_every_small_log(twin)


# Plans, executed and repeated


REQUESTS = (Request(NOW_MS), Request(NOW_MS, force_compaction=True), Request(NOW_MS, assume_committed=True))
PLANNED = (
    a_policy("delete", retention_ms=LIMIT_MS, retention_bytes=LIMIT_BYTES),
    a_policy("compact", min_compaction_lag_ms=LIMIT_MS // 2),
    a_policy("compact", min_cleanable_dirty_ratio=0.9),
    a_policy("compact,delete", retention_ms=LIMIT_MS),
)
EXEMPT = (
    (a_policy(""), Request(NOW_MS)),
    (a_policy("delete"), Request(NOW_MS)),
    (a_policy("delete", retention_bytes=LIMIT_BYTES), Request(NOW_MS)),
    (a_policy("delete", retention_ms=LIMIT_MS), Request(NOW_MS, only=Only.COMPACTION)),
    (a_policy("delete", retention_ms=LIMIT_MS, max_delete_ratio=0.4), Request(NOW_MS)),
    (replace(a_policy(""), unknown_because="nobody stated it"), Request(NOW_MS)),
    (replace(a_policy("delete", retention_ms=0), remote_storage_enable=True), Request(NOW_MS)),
)


def every_plan() -> Iterator[tuple[PartitionFacts, TopicPolicy, Request]]:
    for log in every_planned_log():
        for policy, request in product(PLANNED, REQUESTS):
            yield log, policy, request
        for policy, request in EXEMPT:
            yield log, policy, request
        yield replace(log, held_since_ms=NOW_MS), PLANNED[0], Request(NOW_MS)


def every_planned_log() -> Iterator[PartitionFacts]:
    """Never compacted, compacted to a place inside, and with a checkpoint outside the log; with a transaction open."""
    logs = [
        *every_log(1, (0, 4), (EXPIRED,)),
        *every_log(2, (0, 4), (EXPIRED, FUTURE)),
        *every_log(3, (4,), (EXPIRED, 0)),
    ]
    for log in logs:
        for checkpoint in (None, 1, RECORDS, log.log_end_offset + 1):
            yield replace(log, cleaner_checkpoint=checkpoint)
        if log.high_watermark:
            yield replace(log, last_stable_offset=max(log.log_start_offset, log.high_watermark - 1))


def executed(planned: PartitionPlan) -> PartitionFacts:
    """The log after the plan; compaction is drawn as losing nothing."""
    log = planned.facts
    if planned.deletion is not None:
        log = replace(log, segments=log.segments[len(planned.deletion.segments) :])
        log = replace(log, log_start_offset=planned.deletion.new_log_start_offset)
    if planned.deletion is not None and planned.deletion.roll_at_offset is not None:
        rolled = a_log().log_end(planned.deletion.roll_at_offset).empty_active().facts()
        log = replace(log, segments=rolled.segments)
    if planned.compaction is not None:
        log = replace(log, cleaner_checkpoint=planned.compaction.round.end_offset)
    if planned.checkpoint_offset is not None:
        log = replace(log, cleaner_checkpoint=planned.checkpoint_offset)
    return log


def check_plan(log: PartitionFacts, policy: TopicPolicy, request: Request) -> set[ReasonCode]:
    planned = plan_partition(log, policy, request)
    check_offsets(log, planned)
    after = executed(planned)
    again = plan_partition(after, policy, request)
    assert not again.has_work, (log, policy, again)
    return {verdict.reason.code for verdict in planned.verdicts}


def check_offsets(log: PartitionFacts, planned: PartitionPlan) -> None:
    """Whatever goes or is rewritten is committed; the log keeps its end, and its start never goes back."""
    committed = planned.facts.high_watermark or 0
    deletion, compaction = planned.deletion, planned.compaction
    assert [v.base_offset for v in planned.verdicts] == [s.base_offset for s in log.segments]
    if deletion is not None:
        assert log.log_start_offset <= deletion.new_log_start_offset <= committed
        assert deletion.segments == log.segments[: len(deletion.segments)]
        assert deletion.verdicts == planned.verdicts[: len(deletion.segments)]
        assert not any(s.size_bytes == 0 for s in deletion.segments if s is log.active)
        assert (deletion.roll_at_offset == log.log_end_offset) is (len(deletion.segments) == len(log.segments))
    if compaction is not None:
        assert compaction.round.end_offset <= min(committed, log.active.base_offset)
        assert compaction.round.first_dirty_offset < compaction.round.end_offset
        bases = [s.base_offset for s in compaction.segments]
        assert [base for group in compaction.round.groups for base in group] == bases
        assert bases == [v.base_offset for v in planned.verdicts if v.action is Action.COMPACT]


def test_a_plan_repeated_on_what_it_left_finds_nothing_to_do_and_every_reason_occurs() -> None:
    seen: set[ReasonCode] = set()
    for world in every_plan():
        seen |= check_plan(*world)
    of_log_dirs = {ReasonCode.CLOCK_JUMPED, ReasonCode.FOREIGN_CONFIG, ReasonCode.CLEANER_DISABLED}
    elsewhere = of_log_dirs | {ReasonCode.TARGET_MET, ReasonCode.NO_GAIN}  # these two are of ``free``
    elsewhere |= {ReasonCode.MAX_UNKEYED_RATIO}  # a plan has it where an earlier run counted the records
    elsewhere |= {ReasonCode.RECORDS_MISSING, ReasonCode.RELOAD_GUARD}  # ``small_logs.guards`` brings these about
    assert seen == set(ReasonCode) - elsewhere
