"""Tell what blocks compaction: the active segment, open transactions, lags, the dirty ratio, a dead cleaner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from policies.compaction import Cleanable
from policies.config.config_keys import RECORD_BYTES_MAX
from policies.config.policy import TopicPolicy
from policies.explain.blockers import Blocker, BlockerCode
from policies.explain.fates import Case, SegmentFate
from policies.explain.observations import Observations, OpenTransaction
from policies.explain.rolling import Roll, closing_sooner, roll_of
from policies.explain.words import counted, size
from policies.facts import PartitionFacts
from policies.reasons import ReasonCode, duration, moment

TRANSACTION_MS_MAX: Final = 900_000
"""Kafka's default of ``transaction.max.timeout.ms``: a coordinator ends no transaction that is open for longer."""
LATE_MS: Final = 3_600_000
"""A round that is due for longer is late."""
_HOLDS_BACK: Final = {
    ReasonCode.NO_HIGH_WATERMARK: "without a high watermark nothing newer is compacted.",
    ReasonCode.OPEN_TRANSACTION: "the open transaction holds back what was closed since the last one.",
    ReasonCode.MIN_COMPACTION_LAG: "min.compaction.lag.ms holds back what was closed since the last one.",
    ReasonCode.ABOVE_HIGH_WATERMARK: "the high watermark holds back what was closed since the last one.",
}
LATE_SEGMENTS: Final = 10
"""A round is late, too, if so many segments were closed since it was due."""


def compaction_blockers(case: Case) -> Iterator[Blocker]:
    """Yield what keeps compaction from segments that it would take otherwise."""
    section = case.intended.section
    if section is not None:
        yield from _cleaner_behind(case)
    yield from _open_transaction(case)
    if section is None:
        return
    yield from _lag(case, section)
    yield from _dirty_ratio(case, section)
    yield from _tombstones(case)
    yield from _active_segment(case)


def _cleaner_behind(case: Case) -> Iterator[Blocker]:
    """Yield that nobody cleans, although a round is due for long."""
    planned, facts, now_ms = case.intended, case.left, case.request.now_ms
    assert planned.section is not None
    due = due_since(facts, planned.policy, planned.section) if planned.compaction else None
    if due is None or planned.compaction is None:
        return
    # beside a stopped broker nobody can clean: what counts is how long the log was written to since
    alive_ms = now_ms if case.seen.locked_by else min(facts.active.mtime_ms, now_ms)
    if alive_ms - due.since_ms < LATE_MS and due.closed_since < LATE_SEGMENTS:
        return
    noted_ms = case.seen.cleaner_checkpoint_ms
    if noted_ms is not None and noted_ms > due.since_ms:
        whose = f"A cleaner finished a round of another partition at {moment(noted_ms)}, so this one was given up."
        remedy = "Look for this partition in log-cleaner.log; a restart of the broker, or clean, tries it again."
    else:
        whose = "No round of any partition of this log dir was finished since, so the cleaner is dead, or off."
        remedy = "Restart the broker, which starts its cleaner; or stop it, and run clean. log-cleaner.log says why."
    section = planned.section
    since = "It was never compacted" if section.is_first else f"It was compacted up to {section.first_dirty_offset}"
    text = f"{since}. A round is due since {moment(due.since_ms)}: {size(section.dirty_bytes)} are dirty"
    if due.closed_since:
        more = "was" if due.closed_since == 1 else "were"
        text += f", and {counted(due.closed_since, 'more segment')} {more} closed since"
    text += f". {whose}"
    limit = planned.policy.value_of("max.decompressed.message.bytes")
    if planned.policy.max_decompressed_message_bytes < RECORD_BYTES_MAX:
        text += (
            f" One cause can be {limit.sentence}: since Kafka 4.4 the cleaner gives a partition up at a larger record"
            f" of a compressed batch, and look-ups by time fail there."
        )
        remedy += f" If log-cleaner.log names a record above that size, raise {limit.key} first."
    bases = planned.compaction.segments[0].base_offset, planned.compaction.segments[-1].base_offset
    yield Blocker(
        BlockerCode.CLEANER_BEHIND, "the log cleaner of the broker", text, remedy, due.since_ms, None, *bases,
        section.dirty_bytes,
    )  # fmt: skip


def _open_transaction(case: Case) -> Iterator[Blocker]:
    """Yield the oldest open transaction, and what it keeps from compaction."""
    if not case.seen.transactions:
        return
    first, *others = case.seen.transactions
    pinned = [fate for fate in case.fates[:-1] if _is_pinned(fate)]
    is_hanging = hangs(case.facts, case.seen, first, case.request.now_ms)
    if not pinned and not is_hanging:
        return
    since = f" on {moment(first.since_ms)}, {_age(case, first.since_ms)}" if first.since_ms is not None else ""
    producer = f"producer {first.producer_id}, epoch {first.producer_epoch}"
    owner = producer if first.transactional_id is None else f"transactional id {first.transactional_id}, {producer}"
    text = (
        f"{owner[0].upper()}{owner[1:]}, began a transaction at offset {first.first_offset}{since}, and it has no end."
    )
    if others:
        text += f" {counted(len(others), 'more transaction')} {'is' if len(others) == 1 else 'are'} open behind it."
    held = sum(fate.facts.size_bytes for fate in pinned)
    if pinned:
        text += f" Nothing from it on is compacted: {counted(len(pinned), 'closed segment')} ({size(held)})."
    text += " Consumers that read committed records wait at it."
    yield Blocker(
        BlockerCode.OPEN_TRANSACTION,
        owner,
        text,
        _transaction_remedy(case, first, is_hanging=is_hanging),
        first.since_ms,
        None,
        pinned[0].facts.base_offset if pinned else None,
        pinned[-1].facts.base_offset if pinned else None,
        held,
    )


def _is_pinned(fate: SegmentFate) -> bool:
    return fate.compaction is not None and fate.compaction.code is ReasonCode.OPEN_TRANSACTION


def _age(case: Case, since_ms: int) -> str:
    return f"{duration(max(case.request.now_ms - since_ms, 0))} ago"


def hangs(facts: PartitionFacts, seen: Observations, transaction: OpenTransaction, now_ms: int) -> bool:
    """Return whether a transaction was open for longer than a coordinator allows while the log was written to."""
    newest_ms = max((segment.largest_timestamp_ms for segment in facts.segments), default=0)
    alive_ms = now_ms if seen.locked_by else min(newest_ms, now_ms)
    return transaction.since_ms is not None and alive_ms - transaction.since_ms > TRANSACTION_MS_MAX


def _transaction_remedy(case: Case, transaction: OpenTransaction, *, is_hanging: bool) -> str:
    abort = aborting(case.facts, transaction)
    if is_hanging:
        return f"It hangs: no coordinator will end it. End it with {abort}."
    return f"A coordinator ends it once the broker runs and its timeout is over; if it does not, {abort}."


def aborting(facts: PartitionFacts, transaction: OpenTransaction) -> str:
    """Return the command that ends a hanging transaction."""
    topic, partition = facts.topic_partition
    place = f"--topic {topic} --partition {partition} --start-offset {transaction.first_offset}"
    return f"kafka-transactions.sh --bootstrap-server HOST:PORT abort {place}"


def _lag(case: Case, section: Cleanable) -> Iterator[Blocker]:
    policy, bound = case.planned.policy, section.bound
    if bound.code is not ReasonCode.MIN_COMPACTION_LAG:
        return
    waiting = [f for f in case.fates[case.deleted : -1] if f.facts.base_offset >= section.first_uncleanable_offset]
    held = sum(fate.facts.size_bytes for fate in waiting)
    first = waiting[0].facts
    age_ms = case.request.now_ms - first.largest_timestamp_ms
    is_future = f"lies {duration(-age_ms)} in the future" if age_ms < 0 else f"is {duration(age_ms)} old"
    text = f"The newest record of segment {first.base_offset} {is_future}. It and all behind it wait: {size(held)}."
    remedy = "A shorter min.compaction.lag.ms lets it be compacted sooner."
    place = first.base_offset, waiting[-1].facts.base_offset, held
    owner = policy.value_of("min.compaction.lag.ms").sentence
    yield Blocker(BlockerCode.MIN_COMPACTION_LAG, owner, text, remedy, None, bound.until_ms, *place)


def _dirty_ratio(case: Case, section: Cleanable) -> Iterator[Blocker]:
    policy = case.planned.policy
    dirty = [fate for fate in case.fates if fate.compaction and fate.compaction.code is ReasonCode.DIRTY_RATIO_LOW]
    if not dirty:
        return
    least = policy.min_cleanable_dirty_ratio
    total = section.clean_bytes + section.dirty_bytes
    ratio = f"{section.dirty_ratio:.2f}, {size(section.dirty_bytes)} of {size(total)}"
    text = f"The dirty ratio is {ratio}, and a round needs "
    missing = bytes_missing(section, least)
    if missing is None:
        text += f"more than {least:g}: there is no such ratio."
    else:
        active = case.facts.active.size_bytes
        has = f" The active segment has {size(active)} once it is closed." if active else ""
        text += f"more than {least:g}: {size(missing)} more in closed segments.{has}"
    remedy = f"clean --force-compaction --topic {case.facts.topic_partition} compacts it now."
    place = dirty[0].facts.base_offset, dirty[-1].facts.base_offset, section.dirty_bytes
    owner = policy.value_of("min.cleanable.dirty.ratio").sentence
    yield Blocker(BlockerCode.DIRTY_RATIO_LOW, owner, text, remedy, None, None, *place)


def _tombstones(case: Case) -> Iterator[Blocker]:
    """Yield that tombstones whose delete horizon is over stay, because no round is due."""
    horizons, now_ms = case.seen.horizons, case.request.now_ms
    if case.intended.compaction or horizons.earliest_ms is None or horizons.earliest_ms > now_ms:
        return
    batches = counted(horizons.batches, "batch", "batches")
    hold = "holds" if horizons.batches == 1 else "hold"
    over = "is over" if (horizons.latest_ms or 0) <= now_ms else "is over for the first"
    text = (
        f"{batches} {hold} tombstones or markers; their delete horizon {over} since {moment(horizons.earliest_ms)}. "
        f"They go in the next round, and none is due: "
    )
    why, remedy = _no_round(case)
    owner = "a quiet log"
    held = horizons.size_bytes
    yield Blocker(BlockerCode.TOMBSTONES_WAIT, owner, text + why, remedy, horizons.earliest_ms, size_bytes=held)


def _no_round(case: Case) -> tuple[str, str]:
    """Return why no round is due, and what to do about it."""
    section = case.intended.section
    if section is not None and section.dirty_bytes:
        remedy = f"clean --force-compaction --topic {case.facts.topic_partition} makes a round now."
        return "too little was written since the last one.", remedy
    bound = section.bound.code if section is not None else ReasonCode.ACTIVE_SEGMENT
    if bound is ReasonCode.ACTIVE_SEGMENT:
        remedy = (
            "Append a record to the topic once segment.ms is over: that closes the active segment, and makes it dirty."
        )
        return "no segment was closed since the last one.", remedy
    return _HOLDS_BACK.get(
        bound, "nothing newer can be compacted."
    ), "Remove that blocker, and the next round takes them."


def _active_segment(case: Case) -> Iterator[Blocker]:
    """Yield what would close the active segment, which compaction never takes."""
    policy, active = case.planned.policy, case.fates[-1]
    roll = roll_of(case.facts, policy, case.seen.active)
    if roll is None:
        return
    what = f"{size(active.facts.size_bytes)}{_since(active)}"
    text = f"Compaction never takes the active segment ({what}). {_closes(case, roll)}"
    is_over = roll.latest_ms is not None and roll.latest_ms <= case.request.now_ms
    remedy = (
        "Append one record to the topic: that closes it. While nobody writes, it is never closed."
        if is_over
        else f"A shorter {roll.key} lets a broker close it sooner, but only with a record that is appended: "
        f"{closing_sooner(case.facts, policy, roll.key)}."
    )
    until_ms = None if is_over else roll.earliest_ms
    place = active.facts.base_offset, active.facts.base_offset, active.facts.size_bytes
    yield Blocker(BlockerCode.ACTIVE_SEGMENT, policy.value_of(roll.key).sentence, text, remedy, None, until_ms, *place)


def _since(active: SegmentFate) -> str:
    return f", records since {moment(active.times.first_ms)}" if active.times.first_ms >= 0 else ""


def _closes(case: Case, roll: Roll) -> str:
    """Return the conditions that close the active segment, in two or three sentences."""
    policy, now_ms = case.planned.policy, case.request.now_ms
    if roll.earliest_ms is None or roll.latest_ms is None:
        by_time = f"A broker closes it with a record that comes {policy.shown(roll.key)} after it opened the segment"
    elif roll.latest_ms <= now_ms:
        by_time = (
            f"{roll.key}={policy.shown(roll.key)} is over since {moment(roll.latest_ms)}: the next record closes it"
        )
    else:
        jitter = f" ({moment(roll.latest_ms)} without segment.jitter.ms)" if roll.earliest_ms < roll.latest_ms else ""
        by_time = f"A broker closes it with the first record from {moment(roll.earliest_ms)} on{jitter}"
    by_size = f"or once {size(roll.bytes_left)} more are written (segment.bytes={policy.shown('segment.bytes')})"
    index_bytes = (roll.index_entries_left + 1) * policy.index_interval_bytes
    if index_bytes < roll.bytes_left:
        full = f"its indexes are full, after about {size(index_bytes)}"
        by_size = f"or once {full} (segment.index.bytes={policy.shown('segment.index.bytes')})"
    return f"{by_time}, {by_size}."


class Due(NamedTuple):
    """The time since which a round is due, epoch ms, and the number of segments that were closed since."""

    since_ms: int
    closed_since: int


def bytes_missing(section: Cleanable, least_ratio: float) -> int | None:
    """Return the least number of dirty bytes that must come, so that the dirty ratio is above ``least_ratio``.

    Return 0 if the ratio is above it already, and None if no number is enough: no ratio is above 1.
    """
    dirty_bytes, all_bytes = section.dirty_bytes, section.clean_bytes + section.dirty_bytes

    def is_enough(more_bytes: int) -> bool:
        total_bytes = all_bytes + more_bytes
        return total_bytes > 0 and (dirty_bytes + more_bytes) / total_bytes > least_ratio

    if is_enough(0):
        return 0
    low, high = 0, 1
    while not is_enough(high):
        if high > 1 << 80:
            return None
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def due_since(log: PartitionFacts, policy: TopicPolicy, section: Cleanable) -> Due | None:
    """Return since when a broker's cleaner would have begun a round; None if none is due.

    A segment counts from its file time on: it was written to until then, and closed soon after.

    Args:
        log: the partition, as retention leaves it.
        policy: states the ratio and the lags.
        section: the dirty section of the log.
    """
    uppers = [segment.base_offset for segment in log.segments[1:]]
    dirty = [
        segment
        for segment, upper in zip(log.segments, uppers, strict=False)
        if segment.base_offset < section.first_uncleanable_offset and upper > section.first_dirty_offset
    ]
    found: list[Due] = []
    dirty_bytes = 0
    for place, segment in enumerate(dirty, 1):
        dirty_bytes += segment.size_bytes
        total_bytes, least = section.clean_bytes + dirty_bytes, policy.min_cleanable_dirty_ratio
        after = len(dirty) - place
        if total_bytes and dirty_bytes / total_bytes > least:
            lag_over_ms = segment.largest_timestamp_ms + policy.min_compaction_lag_ms
            found.append(Due(max(segment.mtime_ms, lag_over_ms if policy.min_compaction_lag_ms else 0), after))
        if segment.first_batch_ms > 0:
            found.append(Due(max(segment.mtime_ms, segment.first_batch_ms + policy.max_compaction_lag_ms + 1), after))
    return min(found, default=None)
