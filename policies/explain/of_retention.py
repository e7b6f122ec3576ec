"""Tell what blocks retention: future timestamps, file times, a limit that was misunderstood, the active segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.explain.blockers import Blocker, BlockerCode
from policies.explain.fates import Case, SegmentFate
from policies.explain.rolling import closing_sooner
from policies.explain.words import counted, size
from policies.reasons import ReasonCode, duration, moment

_COPIED_WITHIN_MS: Final = 600_000
"""File times of several segments that lie closer together look as if a copy had set them."""


def retention_blockers(case: Case) -> Iterator[Blocker]:
    """Yield what keeps segments that retention would delete otherwise."""
    if not case.planned.policy.cleanup_delete:
        if not case.planned.policy.cleanup_policy:
            yield _policy_empty(case)
        return
    yield from _future_timestamp(case)
    yield from _file_times(case)
    yield from _within_size(case)
    yield from _no_limit(case)
    yield from _active_segment(case)


def _policy_empty(case: Case) -> Blocker:
    owner = case.planned.policy.value_of("cleanup.policy").sentence
    text = "An empty cleanup.policy deletes nothing and compacts nothing."
    remedy = "State cleanup.policy=delete, or compact, for the topic."
    return Blocker(BlockerCode.POLICY_EMPTY, owner, text, remedy, size_bytes=case.facts.size_bytes)


def _future_timestamp(case: Case) -> Iterator[Blocker]:
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


def _active_segment(case: Case) -> Iterator[Blocker]:
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


def _is(fate: SegmentFate, code: ReasonCode) -> bool:
    return fate.retention is not None and fate.retention.code is code
