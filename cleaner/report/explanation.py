"""The report of ``explain``: text for people, ``logcleaner.explain/1`` for machines, from the same values.

The text describes the partition, the next change, each segment, and at the end the blockers with their remedies. The
page also shows values that the segments alone do not tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.explain.choosing import ChosenSegment
from cleaner.engine.space import PartitionSpace
from cleaner.report.account import LABELS, directory_fields
from cleaner.report.cleaning import reason_fields
from cleaner.report.overview.provenance import Provenance
from cleaner.report.overview.values import ReasonShare
from cleaner.report.page import ATTENTION, YEAR_9999_MS, Page
from cleaner.report.runs import STYLES
from policies.config.config_keys import TOPIC_KEY
from policies.config.policy import TopicPolicy
from policies.explain.blockers import Blocker
from policies.explain.changes import ComingChange
from policies.explain.explanation import PartitionExplanation
from policies.explain.fates import SegmentFate
from policies.facts import NO_TIMESTAMP, UnreadablePartition
from policies.guards import may_drop_unkeyed
from policies.plan import PartitionPlan
from policies.reasons import Action, Reason, ReasonCode, counted, duration, moment, offsets, size
from policies.retention import newest

if TYPE_CHECKING:
    from cleaner.report.page import Lines

_LABEL_WIDTH: Final = len("offsets  ")
_WORD_WIDTH: Final = len("compact")
_CHANGES_TOLD: Final = 4
_BY_TIME: Final = frozenset({ReasonCode.TIME_NOT_REACHED, ReasonCode.FUTURE_TIMESTAMP, ReasonCode.RETENTION_TIME})

SCHEMA: Final = "logcleaner.explain/1"
_KEYS: Final = (
    *("cleanup.policy", "retention.ms", "retention.bytes", "min.cleanable.dirty.ratio", "min.compaction.lag.ms"),
    *("max.compaction.lag.ms", "delete.retention.ms", "segment.ms", "segment.bytes", "segment.index.bytes"),
    *("segment.jitter.ms", "file.delete.delay.ms"),
)
"""The keys that decide what happens to a segment, and when."""


@dataclass(frozen=True, slots=True)
class ExplanationReport:
    """Explanations of one partition: one for each log dir that holds it."""

    now_ms: int
    explained: Sequence[PartitionExplanation]
    chosen: Sequence[ChosenSegment] = ()
    """The segment that the user asked for, for each explanation; empty if the report tells all segments."""
    failures: Sequence[UnreadablePartition] = ()
    spaces: Sequence[PartitionSpace] = ()
    """The space that each partition's directory takes, as ``du`` counts it; empty if nobody looked."""
    provenance: Provenance | None = None
    """The provenance of the page; None if no page is asked for."""

    def document(self) -> dict[str, Any]:
        """Return what ``explain --json`` prints: sizes in bytes, times in epoch ms, null for what is not known."""
        chosen, spaces = dict(enumerate(self.chosen)), dict(enumerate(self.spaces))
        partitions = [_partition(one, chosen.get(place), spaces.get(place)) for place, one in enumerate(self.explained)]
        failed = [_unreadable(failure) for failure in self.failures]
        document = {"schema": SCHEMA, "now": self.now_ms, "partitions": [*partitions, *failed]}
        if self.provenance is None:
            return document

        return {**document, "report": report_fields(self.provenance, self.explained, self.failures)}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the explanations one after the other."""

        for place, one in enumerate(self.explained):
            chosen, space = self.chosen[place] if self.chosen else None, self.spaces[place] if self.spaces else None
            fill(page, one, self.now_ms, chosen, space)
        for failure in self.failures:
            page.line(f"{failure.topic_partition} in {failure.log_dir}", "bold")
            page.note(f"FAILED: {failure.error}", "bold red")
        yield page.text


def fill(
    page: Page,
    explained: PartitionExplanation,
    now_ms: int,
    chosen: ChosenSegment | None,
    space: PartitionSpace | None,
) -> None:
    """Fill a page with an explanation.

    Args:
        page: the page.
        explained: the explanation.
        now_ms: its moment, epoch ms.
        chosen: the one segment that was asked for; None tells all.
        space: the space that the partition directory takes; None if nobody looked.
    """
    _head(explained, space, page)
    page.line()
    _acts(explained, page)
    if chosen is None:
        _changes(explained.changes, now_ms, page)
        page.line()
        page.line("Segments, oldest first", "bold")
        stretches = list(_stretches(explained.segments, every_segment=page.every_segment))
        columns = max((len(_bases(stretch)) for stretch in stretches), default=0)
        for stretch in stretches:
            _stretch(stretch, explained, now_ms, page, columns)
    else:
        page.line()
        _stretch([chosen.fate], explained, now_ms, page)
        _contents(chosen, explained.planned.facts.log_start_offset, page)
    _blockers(_concerning(explained.blockers, chosen), page)
    for problem in explained.seen.problems:
        page.line(f"Not known, because it cannot be read: {problem}", ATTENTION, hanging=2)
    page.line()


def report_fields(
    provenance: Provenance, explained: Sequence[PartitionExplanation], failures: Sequence[UnreadablePartition]
) -> dict[str, Any]:
    """Return the key ``report`` of ``logcleaner.explain/1``.

    Args:
        provenance: who makes the report.
        explained: the explanations of the partition.
        failures: why it could not be read.
    """
    partitions = [_partition_on_page(one) for one in explained]
    names = ("segments", "deleted_segments", "deleted_bytes", "compacted_segments", "compacted_bytes", "bytes")
    totals = {name: sum(partition[name] for partition in partitions) for name in names}
    return {
        **provenance.fields(),
        "sentence": _sentence(explained, failures, totals),
        "totals": totals,
        "partitions": partitions,
    }


def _partition(
    explained: PartitionExplanation, chosen: ChosenSegment | None, space: PartitionSpace | None
) -> dict[str, Any]:
    planned, seen = explained.planned, explained.seen
    facts, section = planned.facts, explained.intended.section
    told = explained.segments if chosen is None else (chosen.fate,)
    return {
        "topic": facts.topic_partition.topic,
        "partition": facts.topic_partition.partition,
        "log_dir": facts.log_dir,
        "locked_by": seen.locked_by,
        "error": None,
        "cleanup_policy": planned.policy.cleanup_policy,
        "config": {key: _stated(planned.policy, key) for key in _KEYS},
        "bytes": facts.size_bytes,
        **(directory_fields(space.account, space.removals) if space else directory_fields(None)),
        "topic_partitions": seen.topic.partitions if seen.topic else None,
        "topic_bytes": seen.topic.size_bytes if seen.topic else None,
        "log_start_offset": facts.log_start_offset,
        "log_end_offset": facts.log_end_offset,
        "high_watermark": facts.high_watermark,
        "last_stable_offset": seen.last_stable_offset,
        "first_dirty_offset": section.first_dirty_offset if section else None,
        "first_uncleanable_offset": section.first_uncleanable_offset if section else None,
        "dirty_bytes": section.dirty_bytes if section else None,
        "dirty_ratio": round(section.dirty_ratio, 6) if section else None,
        "open_transactions": [transaction._asdict() for transaction in seen.transactions],
        "records_unkeyed": seen.records_unkeyed,
        "delete_horizons": _with_bytes(seen.horizons._asdict()),
        "deleted_files": _with_bytes(seen.waiting._asdict()) if seen.waiting else None,
        "changes": [_with_bytes(change._asdict()) for change in explained.changes],
        "blockers": [_with_bytes(blocker._asdict()) for blocker in explained.blockers],
        "segments": [_segment(fate, is_active=fate is explained.segments[-1]) for fate in told],
        "chosen": _chosen(chosen) if chosen else None,
        "problems": list(seen.problems),
    }


def _with_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the size under the name that all documents give it."""
    return {"bytes" if name == "size_bytes" else name: value for name, value in fields.items()}


def _stated(policy: TopicPolicy, key: str) -> dict[str, Any]:
    stated = policy.value_of(key)
    value = ",".join(stated.value) if isinstance(stated.value, tuple) else stated.value
    return {"value": value, "layer": stated.layer.title, "file": stated.file, "line": stated.line}


def _segment(fate: SegmentFate, *, is_active: bool) -> dict[str, Any]:
    facts = fate.facts
    rules = {"retention": fate.retention, "compaction": fate.compaction}
    return {
        "base_offset": facts.base_offset,
        "last_offset_max": fate.upper_offset - 1 if facts.size_bytes else None,
        "first_timestamp_ms": _known(fate.times.first_ms),
        "newest_timestamp_ms": _known(fate.times.newest_ms),
        "file_time_ms": facts.mtime_ms,
        "bytes": facts.size_bytes,
        "index_bytes": facts.companions_bytes,
        "disk_bytes": facts.disk_bytes,
        "is_active": is_active,
        "action": fate.verdict.action.value,
        "reason": reason_fields(fate.verdict.reason),
        "rules": [{"rule": rule, **reason_fields(reason)} for rule, reason in rules.items() if reason is not None],
        "expires_ms": fate.expires_ms,
    }


def _known(timestamp_ms: int) -> int | None:
    return None if timestamp_ms == NO_TIMESTAMP else timestamp_ms


def _chosen(chosen: ChosenSegment) -> dict[str, Any]:
    contents = chosen.contents
    return {
        "offset": chosen.offset,
        "record": chosen.record._asdict() if chosen.record else None,
        "files": [
            {"name": f.file_name, "bytes": f.size_bytes, "disk_bytes": f.disk_bytes, "links": f.links}
            for f in contents.files
        ],
        "batches": contents.batches,
        "records": contents.records,
        "codecs": dict(contents.codecs),
        "transactional_batches": contents.transactional_batches,
        "control_batches": contents.control_batches,
        "producers": contents.producers,
        "delete_horizons": _with_bytes(contents.stamped._asdict()),
        "problem": contents.problem,
    }


def _unreadable(failure: UnreadablePartition) -> dict[str, Any]:
    topic, partition = failure.topic_partition
    return {"topic": topic, "partition": partition, "log_dir": failure.log_dir, "error": failure.error}


def _head(explained: PartitionExplanation, space: PartitionSpace | None, page: Page) -> None:
    planned, seen = explained.planned, explained.seen
    facts, topic = planned.facts, seen.topic
    page.line(f"{facts.topic_partition} in {facts.log_dir}", "bold")
    for place, words in enumerate(_policy(planned)):
        _labelled("" if place else "policy", words, page)
    _labelled("size", f"{size(facts.size_bytes)} in {counted(len(facts.segments), 'segment')}", page)
    if topic is not None and topic.partitions > 1:
        _labelled("", f"the topic has {counted(topic.partitions, 'partition')} here, {size(topic.size_bytes)}", page)
    if space is not None:
        _labelled("on disk", _space(space), page)
    _labelled("offsets", _offsets(explained), page)
    if explained.intended.section is not None:
        _labelled("dirty", _dirty(explained), page)
    if seen.locked_by:
        _labelled("lock", f"{seen.locked_by} holds the log dir: a clean would be refused", page)


def _labelled(label: str, words: str, page: Page) -> None:
    page.line(f"{label:{_LABEL_WIDTH}}{words}", indent=2, hanging=_LABEL_WIDTH)


def _policy(planned: PartitionPlan) -> Iterator[str]:
    policy = planned.policy
    if policy.unknown:
        yield "unknown"
        return
    yield policy.value_of("cleanup.policy").sentence
    if policy.cleanup_delete:
        yield from (policy.value_of(key).sentence for key in ("retention.ms", "retention.bytes"))
    if policy.cleanup_compact:
        yield policy.value_of("min.cleanable.dirty.ratio").sentence
        for key in ("min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms"):
            if getattr(policy, TOPIC_KEY[key].field) != TOPIC_KEY[key].default:
                yield policy.value_of(key).sentence


def _offsets(explained: PartitionExplanation) -> str:
    facts, stable = explained.planned.facts, explained.seen.last_stable_offset
    watermark = "unknown" if facts.high_watermark is None else str(facts.high_watermark)
    here = offsets(facts.log_start_offset, facts.log_end_offset).removeprefix("offsets ")
    words = f"{here}, log end offset {facts.log_end_offset}, high watermark {watermark}"
    return words if stable is None else f"{words}, last stable offset {stable}"


def _space(space: PartitionSpace) -> str:
    """Return what the directory takes, as ``du`` counts it, by kind of file."""
    account = space.account
    kinds = (f"{LABELS[kind]} {size(amount.disk_bytes)}" for kind, amount in account.amounts.items())
    return f"{size(account.total.disk_bytes)}: {', '.join(kinds)}"


def _dirty(explained: PartitionExplanation) -> str:
    section = explained.intended.section
    assert section is not None
    all_bytes = section.clean_bytes + section.dirty_bytes
    first = f"first dirty offset {section.first_dirty_offset}"
    since = f"{first}, never compacted" if section.is_first else first
    if not section.dirty_bytes:
        return f"{since}; nothing above it can be compacted now"
    up_to = f"{since}, up to {section.first_uncleanable_offset - 1}"
    return f"ratio {section.dirty_ratio:.2f}: {size(section.dirty_bytes)} of {size(all_bytes)}; {up_to}"


def _acts(explained: PartitionExplanation, page: Page) -> None:
    """Add what ``clean`` does now."""
    again = "tries again to compact" if explained.seen.failed else "compacts"
    if explained.planned.guard is not None:
        page.line("Now   a guard rail holds clean back here", ATTENTION, hanging=6)
        page.line(f"With --yes it {_done_by(explained.intended, again)}", indent=6)
    else:
        page.line(f"Now   clean {_done_by(explained.planned, again)}", "bold", hanging=6)
    if explained.intended.compaction and (failed := explained.seen.failed):
        page.line(f"The last attempt to compact failed at {moment(failed.last_ms)}", ATTENTION, indent=6)
    if unkeyed := _unkeyed(explained):
        page.line(unkeyed, indent=6)


def _unkeyed(explained: PartitionExplanation) -> str:
    """Return a sentence about the records without a key that a compaction drops; empty if the report tells that
    already.
    """
    planned, dropped = explained.planned, explained.seen.records_unkeyed
    is_told = planned.guard is not None and planned.guard.code is ReasonCode.MAX_UNKEYED_RATIO
    if is_told or not may_drop_unkeyed(explained.intended):
        return ""
    if dropped is None:
        limit = planned.policy.value_of("max.unkeyed.ratio").sentence
        return (
            f"Records without a key were not counted: --exact counts them. More than {limit} hold the compaction back"
        )
    if not dropped:
        return "Compaction drops no record without a key"
    return f"Compaction drops {counted(dropped, 'record')} without a key"


def _done_by(planned: PartitionPlan, compacts: str) -> str:
    acts = []
    if planned.deletion:
        count = len(planned.deletion.segments)
        acts.append(f"deletes {counted(count, 'segment')} ({size(planned.deletion.size_bytes)})")
    if planned.compaction:
        count = len(planned.compaction.segments)
        acts.append(f"{compacts} {counted(count, 'segment')} ({size(planned.compaction.size_bytes)})")
    if planned.checkpoint_offset is not None:
        acts.append(f"writes the first dirty offset {planned.checkpoint_offset} to cleaner-offset-checkpoint")
    return " and ".join(acts) or "changes nothing here"


def _blockers(blockers: Sequence[Blocker], page: Page) -> None:
    if not blockers:
        return
    page.line()
    page.line("What blocks, and what to do", "bold")
    for blocker in blockers:
        page.line(f"{blocker.code}  {blocker.owner}", ATTENTION, indent=2, hanging=2)
        page.line(blocker.text, indent=4)
        told = f"{blocker.text} {blocker.remedy}"
        if blocker.until_ms is not None and blocker.until_ms < YEAR_9999_MS and moment(blocker.until_ms) not in told:
            page.line(f"Until: {moment(blocker.until_ms)}", indent=4)
        page.line(f"Remedy: {blocker.remedy}", indent=4, hanging=2)


def _changes(changes: Sequence[ComingChange], now_ms: int, page: Page) -> None:
    if not changes:
        page.line("Next  nothing changes by itself, as long as nobody writes", "bold", hanging=6)
    for place, change in enumerate(changes[:_CHANGES_TOLD]):
        when = f"{moment(change.at_ms)}, in {duration(change.at_ms - now_ms)}"
        page.line(f"{'Then' if place else 'Next':6}{when}: {change.text}", "" if place else "bold", hanging=6)


def _stretch(
    fates: Sequence[SegmentFate], explained: PartitionExplanation, now_ms: int, page: Page, columns: int = 0
) -> None:
    first, last = fates[0], fates[-1]
    action, reason = first.verdict.action, first.verdict.reason
    size_bytes = sum(fate.facts.size_bytes for fate in fates)
    where = f"{_bases(fates):{columns}}  {size(size_bytes):>10}"
    page.fate(f"{action.value:{_WORD_WIDTH}}", f"  {where}  {reason.code}", STYLES[action])
    page.line(_extent(fates), indent=4, hanging=2)
    # people ask about the segment next to the border between deleted and kept segments
    telling = last if action is Action.DELETE else first
    whose = f"{telling.facts.base_offset}: " if len(fates) > 1 else ""
    for words in _told(telling, explained.planned, now_ms):
        page.line(f"{whose}{words}", indent=4, hanging=2)
    if len(fates) > 1 and action is Action.KEEP and first.expires_ms != last.expires_ms and last.expires_ms:
        page.line(f"{last.facts.base_offset}: {_expires(last.expires_ms, now_ms)}", indent=4, hanging=2)


def _told(fate: SegmentFate, planned: PartitionPlan, now_ms: int) -> Iterator[str]:
    """Yield the sentence of the rule that decides on a segment: its limit, and the number compared with the limit."""
    if fate.retention is None and fate.compaction is None:
        yield fate.verdict.reason.text
        return
    if planned.guard is not None:
        yield f"held back: {planned.guard.text}"
    if fate.retention is not None and (planned.policy.cleanup_delete or fate.compaction is None):
        yield _told_by_retention(fate, fate.retention, planned, now_ms)
    if fate.compaction is not None:
        until_ms = fate.compaction.until_ms
        yield f"{fate.compaction.text}{f'; until {_shown(until_ms)}' if until_ms else ''}"


def _told_by_retention(fate: SegmentFate, reason: Reason, planned: PartitionPlan, now_ms: int) -> str:
    if reason.code not in _BY_TIME or reason.until_ms is None:
        until = f"; {_expires(reason.until_ms, now_ms)}" if reason.until_ms else ""
        return f"{reason.text}{until}"
    facts = fate.facts._replace(newest_record_ms=max(fate.times.newest_ms, fate.facts.newest_record_ms))
    newest_ms, source = newest(facts, planned.policy, now_ms)
    what = source.removeprefix("its ")
    limit = planned.policy.value_of("retention.ms").sentence
    own_ms = newest_ms + planned.policy.retention_ms + 1
    told = f"{what} {moment(newest_ms)}, {limit}"
    if own_ms < reason.until_ms:
        first = "older segments and missing records go first" if planned.facts.missing else "older segments go first"
        turn = f"old enough from {_shown(own_ms)} on, but {first}"
        return f"{told}: {turn}; {_expires(reason.until_ms, now_ms)}"
    return f"{told}: {_expires(reason.until_ms, now_ms)}"


def _expires(at_ms: int, now_ms: int) -> str:
    if at_ms <= now_ms:
        return f"expired {duration(now_ms - at_ms)} ago"
    return f"expires in {duration(at_ms - now_ms)}, {_shown(at_ms)}"


def _shown(at_ms: int) -> str:
    return moment(at_ms) if at_ms < YEAR_9999_MS else "never in practice"


def _extent(fates: Sequence[SegmentFate]) -> str:
    """Return the offsets of neighbouring segments, and the timestamps of the first and of the newest record."""
    first, last = fates[0], fates[-1]
    upper = last.upper_offset
    here = offsets(first.facts.base_offset, upper) if upper > first.facts.base_offset else "no offset"
    first_ms = next((f.times.first_ms for f in fates if f.times.first_ms != NO_TIMESTAMP), NO_TIMESTAMP)
    newest_ms = max(fate.times.newest_ms for fate in fates)
    if newest_ms == NO_TIMESTAMP:
        return f"{here}, no record has a timestamp" if any(f.facts.size_bytes for f in fates) else here
    if first_ms == NO_TIMESTAMP:
        return f"{here}, records up to {moment(newest_ms)}"
    if first_ms == newest_ms:
        return f"{here}, first and newest record {moment(newest_ms)}"
    return f"{here}, first {moment(first_ms)}, newest {moment(newest_ms)}"


def _bases(fates: Sequence[SegmentFate]) -> str:
    first, last = fates[0].facts.base_offset, fates[-1].facts.base_offset
    return str(first) if len(fates) == 1 else f"{first} to {last}, {counted(len(fates), 'segment')}"


def _contents(chosen: ChosenSegment, log_start_offset: int, page: Page) -> None:
    """Add all that is known of one segment."""
    contents, stamped = chosen.contents, chosen.contents.stamped
    page.line()
    page.line("What it holds", "bold")
    codecs = ", ".join(f"{count:,} {_compressed(codec)}" for codec, count in sorted(contents.codecs.items()))
    words = f"{counted(contents.records, 'record')} in {counted(contents.batches, 'batch', 'batches')}"
    page.note(f"{words}{f' ({codecs})' if codecs else ''}")
    if contents.transactional_batches or contents.producers:
        producers = f"{counted(contents.producers, 'producer')} with an id"
        page.note(
            f"{producers}; {counted(contents.transactional_batches, 'transactional batch', 'transactional batches')}, "
            f"{counted(contents.control_batches, 'marker')}"
        )
    if stamped.batches and stamped.earliest_ms is not None and stamped.latest_ms is not None:
        batches = counted(stamped.batches, "batch", "batches")
        page.note(f"{batches} with a delete horizon, {moment(stamped.earliest_ms)} to {moment(stamped.latest_ms)}")
    for file in contents.files:
        linked = f", {file.links} hard links" if file.links > 1 else ""
        times = moment(file.identity.mtime_ms)
        page.note(f"{file.file_name}  {size(file.size_bytes)}, {size(file.disk_bytes)} on disk{linked}; {times}")
    if contents.problem:
        page.note(f"the rest cannot be read: {contents.problem}", "bold red")
    if chosen.offset is not None:
        page.line()
        _record(chosen, chosen.offset, page)
        if chosen.offset < log_start_offset:
            page.note(f"The offset lies below the log start offset {log_start_offset}: no consumer can read it.")


def _record(chosen: ChosenSegment, offset: int, page: Page) -> None:
    page.line(f"Offset {offset}", "bold")
    record = chosen.record
    if record is None:
        page.note("No record has this offset: compaction took the record, or nothing was ever written there.")
        return
    kind = "control record" if record.is_control else "tombstone" if record.value_bytes is None else "record"
    key = "no key" if record.key_bytes is None else f"a key of {counted(record.key_bytes, 'byte')}"
    value = "no value" if record.value_bytes is None else f"a value of {counted(record.value_bytes, 'byte')}"
    at = "without a timestamp" if record.timestamp_ms == NO_TIMESTAMP else f"of {moment(record.timestamp_ms)}"
    page.note(f"{kind} {at}, {key}, {value}")
    batch = f"batch {record.batch_base_offset} to {record.batch_last_offset} at byte {record.position}"
    producer = f", producer {record.producer_id}" if record.producer_id >= 0 else ""
    transactional = ", transactional" if record.is_transactional else ""
    page.note(f"{batch}, compression {record.compression}{producer}{transactional}")


def _compressed(codec: str) -> str:
    return "not compressed" if codec == "none" else codec


def _concerning(blockers: Sequence[Blocker], chosen: ChosenSegment | None) -> Sequence[Blocker]:
    """Return the blockers of a chosen segment: the partition's own, and the blockers that name the segment."""
    if chosen is None:
        return blockers
    base = chosen.fate.facts.base_offset
    return [
        b
        for b in blockers
        if b.first_base_offset is None
        or b.last_base_offset is None
        or b.first_base_offset <= base <= b.last_base_offset
    ]


def _stretches(fates: Sequence[SegmentFate], *, every_segment: bool) -> Iterator[list[SegmentFate]]:
    """Join neighbouring segments that have the same fate for the same reasons."""
    if every_segment:
        yield from ([fate] for fate in fates)
        return
    for _, group in groupby(fates, key=_kind):
        yield list(group)


def _kind(fate: SegmentFate) -> tuple[object, ...]:
    codes = (reason.code if reason else None for reason in (fate.retention, fate.compaction))
    return fate.verdict.action, fate.verdict.reason.code, *codes


def _partition_on_page(explained: PartitionExplanation) -> dict[str, Any]:
    facts = explained.planned.facts
    sizes: Counter[tuple[Action, str]] = Counter()
    segments: Counter[tuple[Action, str]] = Counter()
    for fate in explained.segments:
        key = fate.verdict.action, fate.verdict.reason.code
        sizes[key] += fate.facts.size_bytes
        segments[key] += 1
    reasons = [ReasonShare(act.value, code, segments[act, code], sizes[act, code]) for act, code in segments]
    return {
        "topic": facts.topic_partition.topic,
        "partition": facts.topic_partition.partition,
        "log_dir": facts.log_dir,
        "segments": sum(segments.values()),
        "bytes": facts.size_bytes,
        "deleted_segments": sum(count for (action, _), count in segments.items() if action is Action.DELETE),
        "deleted_bytes": sum(bytes_ for (action, _), bytes_ in sizes.items() if action is Action.DELETE),
        "compacted_segments": sum(count for (action, _), count in segments.items() if action is Action.COMPACT),
        "compacted_bytes": sum(bytes_ for (action, _), bytes_ in sizes.items() if action is Action.COMPACT),
        "reasons": [reason._asdict() for reason in reasons],
    }


def _sentence(
    explained: Sequence[PartitionExplanation], failures: Sequence[UnreadablePartition], totals: dict[str, int]
) -> str:
    if not explained:
        return f"{failures[0].topic_partition} cannot be read." if failures else "There is no such partition."
    name, change = explained[0].planned.facts.topic_partition, explained[0].next_change
    acts = []
    if totals["deleted_segments"]:
        acts.append(f"deletes {_counted_segments(totals, 'deleted')}")
    if totals["compacted_segments"]:
        acts.append(f"compacts {_counted_segments(totals, 'compacted')}")
    of = f"of the {counted(totals['segments'], 'segment')} ({size(totals['bytes'])}) of {name}"
    then = f"Next, at {moment(change.at_ms)}: {change.text}." if change else "Nothing changes by itself after that."
    return f"Clean {' and '.join(acts) or 'changes nothing'} {of}. {then}"


def _counted_segments(totals: dict[str, int], acted: str) -> str:
    return f"{counted(totals[f'{acted}_segments'], 'segment')} ({size(totals[f'{acted}_bytes'])})"
