"""The blockers: each keeps segments or files here that could go.

A blocker has an owner, a sentence with its numbers, and its end.

A whole partition:  a hold, its configuration, a guard rail, a failure, a checkpoint.
Retention:          future timestamps, file times, a limit that was misunderstood, the active segment.
Compaction:         the active segment, open transactions, lags, the dirty ratio, a dead cleaner.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from policies.compaction import Cleanable
from policies.config.config_keys import RECORD_BYTES_MAX
from policies.config.policy import TopicPolicy
from policies.explain.fates import EXEMPT, Case, SegmentFate
from policies.explain.observations import Observations, OpenTransaction
from policies.explain.rolling import Roll, closing_sooner, roll_of
from policies.facts import PartitionFacts
from policies.guards import may_be_an_old_copy
from policies.reasons import Reason, ReasonCode, counted, duration, moment, size

_CONFIRM = "clean --yes goes on all the same"

_COPIED_WITHIN_MS: Final = 600_000
"""The least span of the file times of several segments. Closer times look as if a copy had set them."""

TRANSACTION_MS_MAX: Final = 900_000
"""Kafka's default of ``transaction.max.timeout.ms``: a coordinator ends no transaction that is open for longer."""
LATE_MS: Final = 3_600_000
"""The time after which a due round is late."""
_HOLDS_BACK: Final = {
    ReasonCode.NO_HIGH_WATERMARK: "without a high watermark nothing newer is compacted.",
    ReasonCode.OPEN_TRANSACTION: "the open transaction holds back what was closed since the last one.",
    ReasonCode.MIN_COMPACTION_LAG: "min.compaction.lag.ms holds back what was closed since the last one.",
    ReasonCode.ABOVE_HIGH_WATERMARK: "the high watermark holds back what was closed since the last one.",
}
LATE_SEGMENTS: Final = 10
"""The number of segments closed since a round was due at which the round is late, too."""


class BlockerCode(StrEnum):
    """The closed list of blockers (docs/explain.md). A code that is also a reason code means the same."""

    HELD = "HELD"
    CONFIG_UNKNOWN = "CONFIG_UNKNOWN"
    REMOTE_STORAGE = "REMOTE_STORAGE"
    CLEANER_DISABLED = "CLEANER_DISABLED"
    CLOCK_JUMPED = "CLOCK_JUMPED"
    FOREIGN_CONFIG = "FOREIGN_CONFIG"
    MAX_DELETE_RATIO = "MAX_DELETE_RATIO"
    MAX_UNKEYED_RATIO = "MAX_UNKEYED_RATIO"
    RELOAD_GUARD = "RELOAD_GUARD"
    FAILED_ATTEMPT = "FAILED_ATTEMPT"
    NO_HIGH_WATERMARK = "NO_HIGH_WATERMARK"
    ABOVE_HIGH_WATERMARK = "ABOVE_HIGH_WATERMARK"
    CHECKPOINT_OUTSIDE_LOG = "CHECKPOINT_OUTSIDE_LOG"
    TORN_TAIL = "TORN_TAIL"

    FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"
    FILE_TIMES_RESET = "FILE_TIMES_RESET"
    WITHIN_SIZE = "WITHIN_SIZE"
    NO_LIMIT = "NO_LIMIT"
    POLICY_EMPTY = "POLICY_EMPTY"

    ACTIVE_SEGMENT = "ACTIVE_SEGMENT"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    MIN_COMPACTION_LAG = "MIN_COMPACTION_LAG"
    DIRTY_RATIO_LOW = "DIRTY_RATIO_LOW"
    CLEANER_BEHIND = "CLEANER_BEHIND"
    TOMBSTONES_WAIT = "TOMBSTONES_WAIT"

    DELETED_FILES = "DELETED_FILES"


class Blocker(NamedTuple):
    """One thing that keeps bytes here, with its owner and what to do about it."""

    code: BlockerCode
    owner: str
    """Who or what can end the blocker: a file, a producer, a broker, a key of the configuration."""
    text: str
    remedy: str
    since_ms: int | None = None
    """Since when it holds, epoch ms, if that is known."""
    until_ms: int | None = None
    """The moment from which on the blocker may no longer hold, epoch ms; None if no passing of time ends it."""
    first_base_offset: int | None = None
    """The first segment that it keeps; None if it is about the whole partition, or about no segment."""
    last_base_offset: int | None = None
    size_bytes: int | None = None
    """The bytes that it keeps here."""


def partition_blockers(case: Case) -> Iterator[Blocker]:
    """Yield the blockers of the whole partition."""
    reason = case.intended.verdicts[0].reason if case.intended.verdicts else None
    if reason is not None and reason.code in EXEMPT:
        yield _exempt(case, reason)
    if (guard := case.planned.guard) is not None:
        yield _guard(case, guard)
    yield from _failed(case)
    yield from _checkpoints(case)


def high_watermark_blockers(case: Case) -> Iterator[Blocker]:
    """Yield the blockers by the high watermark and a torn tail."""
    facts = case.facts
    reasons = [fate.retention or fate.verdict.reason for fate in case.fates]
    codes = {reason.code for reason in reasons} | {reason.code for reason in _compaction_reasons(case)}
    if facts.high_watermark is None and ReasonCode.NO_HIGH_WATERMARK in codes:
        text = "No high watermark is checkpointed, so nothing is known to be committed."
        remedy = "Start the broker once, and stop it; for a copy or a backup, add --assume-committed."
        kept = facts.size_bytes
        yield Blocker(BlockerCode.NO_HIGH_WATERMARK, "replication-offset-checkpoint", text, remedy, size_bytes=kept)
    above = [f for f in case.fates if facts.high_watermark is not None and f.upper_offset > facts.high_watermark]
    # a transaction whose marker lies above the high watermark is over, but not yet for compaction
    is_over = ReasonCode.OPEN_TRANSACTION in codes and not case.seen.transactions
    if above and (ReasonCode.ABOVE_HIGH_WATERMARK in codes or is_over):
        held = sum(fate.facts.size_bytes for fate in above)
        offsets = counted(facts.log_end_offset - (facts.high_watermark or 0), "offset")
        text = (
            f"The high watermark is {facts.high_watermark}, the log ends at {facts.log_end_offset}: the last {offsets} "
            f"may not be on every in-sync replica. {_segments(len(above), held)}."
        )
        remedy = "Bring the followers back in sync (kafka-topics.sh --describe --under-replicated-partitions)."
        bases = above[0].facts.base_offset, above[-1].facts.base_offset
        owner = "replication"
        yield Blocker(BlockerCode.ABOVE_HIGH_WATERMARK, owner, text, remedy, None, None, *bases, held)
    if facts.torn_tail_bytes:
        bytes_ = counted(facts.torn_tail_bytes, "byte")
        text = f"The last {bytes_} of the active segment are no record batch: a write was cut short."
        remedy = "Run logcleaner doctor: it says what the next start does with them. Nothing is rolled behind them."
        base = facts.active.base_offset
        yield Blocker(BlockerCode.TORN_TAIL, "a crash", text, remedy, None, None, base, base, facts.active.size_bytes)


def file_blockers(case: Case) -> Iterator[Blocker]:
    """Yield the ``.deleted`` files that still take space."""
    waiting, now_ms = case.seen.waiting, case.request.now_ms
    if waiting is None:
        return
    text = f"{counted(waiting.files, '.deleted file')} ({size(waiting.size_bytes)}) still lie here. "
    delay = case.planned.policy.value_of("file.delete.delay.ms").sentence
    is_over = waiting.last_due_ms <= now_ms
    text += (
        f"Their delay is over since {moment(waiting.last_due_ms)}"
        if is_over
        else (f"Their delay ends at {moment(waiting.last_due_ms)}")
    )
    unknown = waiting.unknown_files
    if unknown:
        whose = "None of them is" if unknown == waiting.files else f"{unknown} of them are not"
        ended = "" if case.seen.locked_by else ", and ended before it could remove them"
        text += f". {whose} in logcleaner's journal: a broker renamed them{ended}."
    else:
        text += "; logcleaner renamed them."
    if case.is_exempt or case.planned.guard is not None:
        remedy = "They stay as long as the partition is not touched; a broker that starts removes them."
    elif is_over:
        remedy = "clean, or the next start of a broker, removes them."
    elif unknown:
        remedy = "clean --delete-delay 0 removes them now; so does the next start of a broker."
    else:
        remedy = "clean --delete-delay 0 removes them now; until then restore can take a deletion back."
    owner = "a crash of the broker" if unknown and is_over and not case.seen.locked_by else delay
    until_ms = None if is_over else waiting.last_due_ms
    yield Blocker(BlockerCode.DELETED_FILES, owner, text, remedy, until_ms=until_ms, size_bytes=waiting.size_bytes)


def retention_blockers(case: Case) -> Iterator[Blocker]:
    """Yield the blockers of segments that retention would delete otherwise."""
    if not case.planned.policy.cleanup_delete:
        if not case.planned.policy.cleanup_policy:
            yield _policy_empty(case)
        return
    yield from future_timestamp(case)
    yield from _file_times(case)
    yield from _within_size(case)
    yield from _no_limit(case)
    yield from _expired_beside_newer(case)


def compaction_blockers(case: Case) -> Iterator[Blocker]:
    """Yield the blockers of segments that compaction would take otherwise."""
    section = case.intended.section
    if section is not None:
        yield from cleaner_behind(case)
    yield from _open_transaction(case)
    if section is None:
        return
    yield from _lag(case, section)
    yield from _dirty_ratio(case, section)
    yield from _tombstones(case)
    yield from _closing_of_active_segment(case)


def future_timestamp(case: Case) -> Iterator[Blocker]:
    """Yield the blocker that a record from the future keeps its segment, and all behind it."""
    now_ms, policy = case.request.now_ms, case.planned.policy
    kept = case.fates[case.deleted :]
    places = [place for place, fate in enumerate(kept) if _is(fate, ReasonCode.FUTURE_TIMESTAMP)]
    if not places:
        return
    first, behind = kept[places[0]], kept[places[0] :]
    found, newest_ms = case.seen.future, first.times.newest_ms
    ahead = duration(newest_ms - now_ms)
    offset = found.offset if found is not None else first.times.newest_offset
    what = f"The record at offset {offset}" if found else f"A record of the batch up to offset {offset}"
    held = sum(fate.facts.size_bytes for fate in behind)
    text = (
        f"{what} has the timestamp {moment(newest_ms)}, {ahead} ahead of the clock. Retention deletes the oldest "
        f"first, so it holds {counted(len(behind), 'segment')} ({size(held)})."
    )
    if len(places) > 1:
        text += f" {counted(len(places) - 1, 'later segment')} reach into the future, too."
    if len(places) == len(kept):
        text += " Every segment does: is --now, or the clock of this machine, behind?"
    key = "retention.future.timestamps"
    until = first.facts.mtime_ms + policy.retention_ms + 1
    when = "at once" if until <= now_ms else f"from {moment(until)} on"
    remedy = f"{key}=mtime lets the file time count instead: segment {first.facts.base_offset} can go {when}."
    owner = f"the producer that wrote offset {offset}"
    bases = first.facts.base_offset, behind[-1].facts.base_offset
    yield Blocker(BlockerCode.FUTURE_TIMESTAMP, owner, text, remedy, None, first.expires_ms, *bases, held)


def cleaner_behind(case: Case) -> Iterator[Blocker]:
    """Yield the blocker that nobody compacts, although a round has been due for long."""
    planned, facts, now_ms = case.intended, case.left, case.request.now_ms
    assert planned.section is not None
    due = due_since(facts, planned.policy, planned.section) if planned.compaction else None
    if due is None or planned.compaction is None:
        return
    # beside a stopped broker nobody can clean, so the time counts for which the log was written to since
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


def hangs(facts: PartitionFacts, seen: Observations, transaction: OpenTransaction, now_ms: int) -> bool:
    """Return whether a transaction was open for longer than a coordinator allows while the log was written to."""
    newest_ms = max((segment.largest_timestamp_ms for segment in facts.segments), default=0)
    alive_ms = now_ms if seen.locked_by else min(newest_ms, now_ms)
    return transaction.since_ms is not None and alive_ms - transaction.since_ms > TRANSACTION_MS_MAX


def aborting(facts: PartitionFacts, transaction: OpenTransaction) -> str:
    """Return the command that ends a hanging transaction."""
    topic, partition = facts.topic_partition
    place = f"--topic {topic} --partition {partition} --start-offset {transaction.first_offset}"
    return f"kafka-transactions.sh --bootstrap-server HOST:PORT abort {place}"


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

    A segment counts from its file time on, because it was closed soon after.

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


def _failed(case: Case) -> Iterator[Blocker]:
    failed = case.seen.failed
    if failed is None:
        return
    again = f", the last time at {moment(failed.last_ms)}" if failed.last_ms > failed.since_ms else ""
    text = f"Compaction fails since {moment(failed.since_ms)}{again}: {failed.cause}"
    if failed.files_changed:
        remedy = "Its files are others since then: the next clean, or the daemon, tries again."
    else:
        remedy = "Replace what is damaged by a replica or a backup; the daemon tries again once a file changes."
    yield Blocker(BlockerCode.FAILED_ATTEMPT, "the file that the message names", text, remedy, failed.since_ms)


def _checkpoints(case: Case) -> Iterator[Blocker]:
    """Yield the checkpoints that lie outside the log."""
    facts, section = case.facts, case.intended.section
    noted = case.seen.checkpointed_high_watermark
    if noted is not None and noted > facts.log_end_offset:
        lost = counted(noted - facts.log_end_offset, "committed offset")
        text = (
            f"replication-offset-checkpoint says {noted}, but the log ends at {facts.log_end_offset}: {lost} are gone."
        )
        remedy = "Let a replica with the end of the log lead, or restore the newest segments, before clients write."
        yield Blocker(BlockerCode.CHECKPOINT_OUTSIDE_LOG, "whoever cut the log off", text, remedy)
    if section is None or not section.checkpoint_is_invalid:
        return
    if case.planned.policy.cleanup_delete and (facts.cleaner_checkpoint or 0) < facts.log_start_offset:
        return  # retention deleted beyond the checkpoint, which is no fault
    ends = f"the log starts at {facts.log_start_offset} and ends at {facts.log_end_offset}"
    text = f"cleaner-offset-checkpoint says {facts.cleaner_checkpoint}, but {ends}: it counts as never compacted."
    remedy = "Nothing: the next clean, or a broker, writes it anew. If the log lost its end, restore that first."
    yield Blocker(BlockerCode.CHECKPOINT_OUTSIDE_LOG, "cleaner-offset-checkpoint", text, remedy)


def _exempt(case: Case, reason: Reason) -> Blocker:
    facts, policy = case.facts, case.planned.policy
    kept = {"size_bytes": facts.size_bytes}
    match reason.code:
        case ReasonCode.HELD:
            since_ms = facts.held_since_ms
            text = f"It is on hold since its restore at {moment(since_ms or 0)}: no retention, no compaction."
            remedy = f"logcleaner restore --release {facts.topic_partition} ends the hold."
            return Blocker(BlockerCode.HELD, "logcleaner restore", text, remedy, since_ms, **kept)
        case ReasonCode.CONFIG_UNKNOWN:
            why, _, remedy = (policy.unknown_because or reason.text).partition("; ")
            return Blocker(BlockerCode.CONFIG_UNKNOWN, "the configuration", _sentence(why), _sentence(remedy), **kept)
        case ReasonCode.REMOTE_STORAGE:
            owner = policy.value_of("remote.storage.enable").sentence
            text = "Only the broker knows which segments it has uploaded, so logcleaner touches none."
            remedy = "Let the broker run: it alone deletes here, by local.retention.ms and local.retention.bytes."
            return Blocker(BlockerCode.REMOTE_STORAGE, owner, text, remedy, **kept)
        case _:
            text = (
                "With log.cleaner.enable=false a compacted topic is neither compacted nor, as in Kafka, deleted from."
            )
            remedy = "Set log.cleaner.enable=true; --set log.cleaner.enable=true does it for one run of clean."
            owner = case.broker.value_of("log.cleaner.enable").sentence
            return Blocker(BlockerCode.CLEANER_DISABLED, owner, text, remedy, **kept)


def _sentence(text: str) -> str:
    """Return a text as a sentence: with a capital at its beginning and a period at its end."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else text


def _guard(case: Case, guard: Reason) -> Blocker:
    kept = {"size_bytes": case.facts.size_bytes}
    text = _sentence(guard.text)
    match guard.code:
        case ReasonCode.CLOCK_JUMPED:
            owner = "the clock of this machine"
            goes_on = "clean --yes goes on and notes that"
            remedy = f"Set the clock (timedatectl, chronyc tracking); if it is right, {goes_on}."
            if may_be_an_old_copy(guard.text):
                normal = "An old copy, or a broker that was stopped for long, looks like this"
                remedy = f"{normal}: {goes_on}. Of a log dir in use, set the clock (timedatectl, chronyc tracking)."
            return Blocker(BlockerCode.CLOCK_JUMPED, owner, text, remedy, **kept)
        case ReasonCode.FOREIGN_CONFIG:
            remedy = f"Name the configuration of the broker that wrote this log dir; {_CONFIRM}."
            return Blocker(BlockerCode.FOREIGN_CONFIG, "the configuration", text, remedy, **kept)
        case ReasonCode.MAX_UNKEYED_RATIO:
            owner = "the producer that sends no keys"
            size_bytes = sum(v.size_bytes for v in case.planned.verdicts if v.reason.code is guard.code)
            remedy = f"With cleanup.policy=delete the topic keeps these records; if they may go, {_CONFIRM}."
            return Blocker(BlockerCode.MAX_UNKEYED_RATIO, owner, text, remedy, size_bytes=size_bytes)
        case ReasonCode.RELOAD_GUARD:
            owner = guard.limit.stated.origin if guard.limit else "the configuration"
            remedy = "If it is meant, logcleaner config apply confirms it; else mend the file."
            return Blocker(BlockerCode.RELOAD_GUARD, owner, text, remedy, **kept)
        case _:
            owner = case.planned.policy.value_of("max.delete.ratio").sentence
            remedy = f"Make sure that the limits are meant; then {_CONFIRM}."
            return Blocker(BlockerCode.MAX_DELETE_RATIO, owner, text, remedy, **kept)


def _compaction_reasons(case: Case) -> Iterator[Reason]:
    return (fate.compaction for fate in case.fates if fate.compaction is not None)


def _segments(count: int, size_bytes: int) -> str:
    reach = "reaches" if count == 1 else "reach"
    return f"{counted(count, 'segment')} ({size(size_bytes)}) {reach} above it"


def _is(fate: SegmentFate, code: ReasonCode) -> bool:
    return fate.retention is not None and fate.retention.code is code


def _file_times(case: Case) -> Iterator[Blocker]:
    """Yield that a copy may have reset the file times that the age of segments counts from."""
    timeless = [f for f in case.fates if f.times.newest_ms < 0 and f.facts.size_bytes and f.facts.newest_record_ms < 0]
    waiting = [fate for fate in timeless if _is(fate, ReasonCode.TIME_NOT_REACHED)]
    times_ms = [fate.facts.mtime_ms for fate in timeless]
    if len(times_ms) < 2 or not waiting or max(times_ms) - min(times_ms) > _COPIED_WITHIN_MS:
        return
    held = sum(fate.facts.size_bytes for fate in waiting)
    spread = max(times_ms) - min(times_ms)
    newest = moment(max(times_ms))
    told = f"They lie within {duration(spread)}, the newest at {newest}" if spread else f"All of them are {newest}"
    text = (
        f"The records of {counted(len(timeless), 'segment')} have no timestamps, so the file times count. {told}: a "
        f"copy that does not keep file times leaves them so."
    )
    remedy = "Copy again with cp -a or rsync -t, or set the time of each .log with touch -d to when it was written."
    bases = waiting[0].facts.base_offset, waiting[-1].facts.base_offset
    until_ms = waiting[0].expires_ms
    owner = "whoever copied the directory"
    yield Blocker(BlockerCode.FILE_TIMES_RESET, owner, text, remedy, min(times_ms), until_ms, *bases, held)


def _within_size(case: Case) -> Iterator[Blocker]:
    policy, topic = case.planned.policy, case.seen.topic
    kept = case.fates[case.deleted :]
    if policy.retention_bytes < 0 or not kept:
        return
    all_bytes, limit_bytes = sum(fate.facts.size_bytes for fate in kept), policy.retention_bytes
    is_misread = topic is not None and topic.partitions > 1 and topic.size_bytes > limit_bytes
    if not (is_misread or _is(kept[0], ReasonCode.WITHIN_SIZE)):
        return
    oldest = kept[0].facts
    missing_bytes = max(limit_bytes + oldest.size_bytes - all_bytes, 0)
    text = (
        f"Without segment {oldest.base_offset} ({size(oldest.size_bytes)}) only {size(all_bytes - oldest.size_bytes)} "
        f"of {size(all_bytes)} would stay: it goes once {size(missing_bytes)} more are written."
    )
    remedy = "A smaller retention.bytes lets it go; the log always keeps at least that much, in whole segments."
    if is_misread and topic is not None:
        text += (
            f" The limit holds for each partition, not for the topic: {counted(topic.partitions, 'partition')} may "
            f"keep {size(topic.partitions * limit_bytes)}, and hold {size(topic.size_bytes)} here."
        )
        share = limit_bytes // topic.partitions
        remedy = f"To keep {size(limit_bytes)} of the whole topic, set retention.bytes={share} ({size(share)})."
    base, owner = oldest.base_offset, policy.value_of("retention.bytes").sentence
    last = kept[-1].facts.base_offset
    yield Blocker(BlockerCode.WITHIN_SIZE, owner, text, remedy, None, None, base, last, all_bytes)


def _no_limit(case: Case) -> Iterator[Blocker]:
    kept, policy = case.fates[case.deleted :], case.planned.policy
    if not kept or not _is(kept[0], ReasonCode.NO_LIMIT):
        return
    text = "Nobody limits the age or the size of the log: retention deletes nothing."
    remedy = "State retention.ms or retention.bytes for the topic; --server-properties FILE reads the broker's own."
    owner = f"{policy.value_of('retention.ms').sentence}, {policy.value_of('retention.bytes').sentence}"
    base = kept[0].facts.base_offset
    held = sum(fate.facts.size_bytes for fate in kept)
    last = kept[-1].facts.base_offset
    yield Blocker(BlockerCode.NO_LIMIT, owner, text, remedy, None, None, base, last, held)


def _expired_beside_newer(case: Case) -> Iterator[Blocker]:
    """Yield that expired records lie in one segment with records that are not."""
    policy, now_ms = case.planned.policy, case.request.now_ms
    active = case.fates[-1]
    first_ms = active.times.first_ms
    if policy.retention_ms < 0 or not _is(active, ReasonCode.TIME_NOT_REACHED) or first_ms < 0:
        return
    if now_ms - first_ms <= policy.retention_ms:
        return
    text = (
        f"The active segment holds records since {moment(first_ms)}, {duration(now_ms - first_ms)} ago. A segment goes "
        f"as a whole, once its newest record is older than {policy.value_of('retention.ms').sentence}."
    )
    remedy = "A shorter segment.ms makes a broker begin segments more often, and so delete sooner: "
    remedy += f"{closing_sooner(case.facts, policy, 'segment.ms')}."
    place = active.facts.base_offset, active.facts.base_offset, active.facts.size_bytes
    yield Blocker(
        BlockerCode.ACTIVE_SEGMENT,
        policy.value_of("segment.ms").sentence,
        text,
        remedy,
        first_ms,
        active.expires_ms,
        *place,
    )


def _policy_empty(case: Case) -> Blocker:
    owner = case.planned.policy.value_of("cleanup.policy").sentence
    text = "An empty cleanup.policy deletes nothing and compacts nothing."
    remedy = "State cleanup.policy=delete, or compact, for the topic."
    return Blocker(BlockerCode.POLICY_EMPTY, owner, text, remedy, size_bytes=case.facts.size_bytes)


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


def _transaction_remedy(case: Case, transaction: OpenTransaction, *, is_hanging: bool) -> str:
    abort = aborting(case.facts, transaction)
    if is_hanging:
        return f"It hangs: no coordinator will end it. End it with {abort}."
    return f"A coordinator ends it once the broker runs and its timeout is over; if it does not, {abort}."


def _age(case: Case, since_ms: int) -> str:
    return f"{duration(max(case.request.now_ms - since_ms, 0))} ago"


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
        f"The next round takes them, but no round is due: "
    )
    why, remedy = _no_round(case)
    owner = "a quiet log"
    held = horizons.size_bytes
    yield Blocker(BlockerCode.TOMBSTONES_WAIT, owner, text + why, remedy, horizons.earliest_ms, size_bytes=held)


def _no_round(case: Case) -> tuple[str, str]:
    """Return why no round is due, and the remedy."""
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


def _closing_of_active_segment(case: Case) -> Iterator[Blocker]:
    """Yield the blocker that compaction never takes the active segment, with what would close it."""
    policy, active = case.planned.policy, case.fates[-1]
    roll = roll_of(case.facts, policy, case.seen.active)
    if roll is None:
        return
    what = f"{size(active.facts.size_bytes)}{_since(active)}"
    text = f"Compaction never takes the active segment ({what}). {_closes(case, roll)}"
    is_over = roll.latest_ms is not None and roll.latest_ms <= case.request.now_ms
    remedy = (
        "Append one record to the topic: that closes the segment. While nobody writes, it is never closed."
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
