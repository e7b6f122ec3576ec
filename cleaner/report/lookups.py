"""The report of ``lookup``: text for people, ``logcleaner.lookup/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from cleaner.engine.lookup import LogPlace, LookedUp
from cleaner.export.fields import told
from cleaner.printable import printable
from cleaner.report.page import Lines, Page
from policies.reasons import counted, moment, size
from storage.log.search import FoundBatch, Lookup, LookupOutcome, LookupStep, StepBasis, StepKind
from storage.records import Record

SCHEMA: Final = "logcleaner.lookup/1"
OUT_OF_RANGE: Final = frozenset({LookupOutcome.BELOW_START, LookupOutcome.BEYOND_END})
_LABELS: Final = {
    StepKind.SEGMENT_MAP: "segment map",
    StepKind.LARGEST_TIMESTAMP: "largest timestamp",
    StepKind.TIME_INDEX: "time index",
    StepKind.OFFSET_INDEX: "offset index",
    StepKind.SCAN: "scan",
}
_TEXT_MAX: Final = 2000
_LABEL_WIDTH: Final = len("largest timestamp  ")


@dataclass(frozen=True, slots=True)
class LookupReport:
    """The answer to one lookup."""

    looked_up: LookedUp
    trace: bool
    """Whether the text tells the steps; the document has them always."""
    contents: Sequence[tuple[str, str]] = ()
    """The content of the record, for the text: labels and texts."""

    def document(self) -> dict[str, Any]:
        """Return what ``lookup --json`` prints: sizes in bytes, times in epoch ms, null for what is not known."""
        one, found = self.looked_up, self.looked_up.found
        return {
            "schema": SCHEMA,
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.partition,
            "directory": str(one.directory),
            "target": {
                "offset": one.target.offset,
                "timestamp_ms": one.target.timestamp_ms,
                "place": one.target.place.value if one.target.place else None,
            },
            "outcome": found.outcome.value,
            "error": range_error(one),
            "log_start_offset": found.log_start_offset,
            "log_end_offset": found.log_end_offset,
            "offset": _offset(one),
            "timestamp_ms": found.record.timestamp_ms if found.record else None,
            "batch": _batch(found.batch) if found.batch else None,
            "record": _record(found.record) if found.record else None,
            "segments": one.segments,
            "bytes": one.size_bytes,
            "bytes_read": found.bytes_read,
            "steps": [_step(step) for step in found.steps],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the answer, and with ``trace`` its steps before it."""
        one = self.looked_up
        if self.trace:
            page.line(f"{one.topic_partition} in {one.directory.parent}", "bold")
            for words in _told_steps(one.found):
                label, _, rest = words.partition("|")
                page.line(f"{label:{_LABEL_WIDTH}}{rest}", indent=2, hanging=_LABEL_WIDTH)
        for place, words in enumerate(_answer(one)):
            page.line(words, "" if place else "bold", hanging=2)
        for label, text in self.contents:
            page.text.add(f"  {label:<8}{_cut(printable(text))}")
        segments = counted(one.segments, "segment")
        page.line(f"Read {_bytes(one.found.bytes_read)} of {size(one.size_bytes)} in {segments}.")
        yield page.text


def range_error(one: LookedUp) -> str | None:
    """Return in Kafka's words why an offset is out of range; None if it is not."""
    found, received = one.found, f"Received request for offset {one.target.offset} for partition {one.topic_partition}"
    if found.outcome is LookupOutcome.BELOW_START:
        return f"{received}, but we only have log segments starting from offset: {found.log_start_offset}."
    if found.outcome is LookupOutcome.BEYOND_END:
        return f"{received}, but we only have log segments upto {found.log_end_offset}."
    return None


def _offset(one: LookedUp) -> int | None:
    """Return the offset that a broker answers for a timestamp; for an offset, the offset of the first record from there
    on.
    """
    found = one.found
    match found.outcome:
        case LookupOutcome.FOUND:
            return found.record.offset if found.record else None
        case LookupOutcome.LOG_START:
            return found.log_start_offset
        case LookupOutcome.LOG_END:
            return found.log_end_offset
        case _:
            return None


def _record(record: Record) -> dict[str, Any]:
    headers = [told("key", key) | told("value", value) for key, value in record.headers]
    return {**told("key", record.key), **told("value", record.value), "headers": headers}


def _cut(text: str) -> str:
    rest = len(text) - _TEXT_MAX
    return text if rest <= 0 else f"{text[:_TEXT_MAX]}... and {rest:,} characters more: --json has all"


def _batch(batch: FoundBatch) -> dict[str, Any]:
    fields = asdict(batch)
    return {"file": str(fields.pop("path")), "bytes": fields.pop("size_bytes"), **fields}


def _step(step: LookupStep) -> dict[str, Any]:
    fields = step._asdict()
    return {"step": fields.pop("look").value, "source": fields.pop("source").value,
            "file": str(fields.pop("path")), **fields}  # fmt: skip


def _answer(one: LookedUp) -> Iterator[str]:
    found = one.found
    match found.outcome:
        case LookupOutcome.FOUND:
            assert found.batch is not None
            yield from _found(one, found.batch)
        case LookupOutcome.LOG_START:
            yield f"The log starts at offset {found.log_start_offset}."
        case LookupOutcome.LOG_END if one.target.place is LogPlace.LATEST:
            yield f"The log ends before offset {found.log_end_offset}."
        case LookupOutcome.LOG_END:
            yield f"Offset {one.target.offset} is the log end: no record has it yet. A broker answers without records."
        case LookupOutcome.NONE_AS_LATE if one.target.place is LogPlace.NEWEST:
            yield "No record has a timestamp. A broker answers offset -1."
        case LookupOutcome.NONE_AS_LATE:
            asked = moment(one.target.timestamp_ms or 0)
            yield f"No record has a timestamp of {asked} or later. A broker answers offset -1."
            yield "A consumer that seeks there gets no offset, and follows auto.offset.reset."
        case _:
            yield f"Offset {one.target.offset} is out of range: a broker answers OFFSET_OUT_OF_RANGE."


def _found(one: LookedUp, batch: FoundBatch) -> Iterator[str]:
    record, offset = one.found.record, one.target.offset
    if record is None:
        yield f"Offset {offset} is not there, nor any record behind it in its batch: compaction took them."
    elif offset is not None and record.offset > offset:
        of = "without a timestamp" if record.timestamp_ms < 0 else f"of {_time(record.timestamp_ms)}"
        yield f"Offset {offset} is not there: the next record is at {record.offset}, {of}."
    else:
        yield f"Offset {record.offset}, timestamp {_time(record.timestamp_ms)}"
        if one.target.timestamp_ms is not None:
            yield f"  the first record from {moment(one.target.timestamp_ms)} on"
    codec = "not compressed" if batch.compression == "none" else batch.compression
    batches = f"offsets {batch.base_offset} to {batch.last_offset}, {_bytes(batch.size_bytes)}, {codec}"
    yield f"  at byte {batch.position} of {batch.path.name}"
    yield f"  batch of {batches}"


def _told_steps(found: Lookup) -> Iterator[str]:
    """Yield a line for each step, and one line for all segments whose timestamps are too early."""
    early: list[LookupStep] = []
    for place, step in enumerate(found.steps):
        following = found.steps[place + 1 : place + 2]
        if step.look is StepKind.LARGEST_TIMESTAMP and any(one.look is StepKind.LARGEST_TIMESTAMP for one in following):
            early.append(step)
            continue
        if early:
            yield _early(early)
            early = []
        yield f"{_LABELS[step.look]}|{_told(step)}"


def _early(steps: Sequence[LookupStep]) -> str:
    last = steps[-1]
    read = sum(step.bytes_read for step in steps)
    if len(steps) == 1:
        return f"{_LABELS[last.look]}|{_told(last)}"
    told = f"{counted(len(steps), 'segment')} from {steps[0].base_offset} to {last.base_offset} looked at before"
    return f"{_LABELS[last.look]}|{told} (read {_bytes(read)})"


def _told(step: LookupStep) -> str:
    read = f" (read {_bytes(step.bytes_read)})" if step.bytes_read else ""
    return f"{_FOUND_BY[step.look](step)}{read}"


def _by_names(step: LookupStep) -> str:
    number = (step.entry or 0) + 1
    return f"{step.path.name}, {number:,} of {step.looked_at:,}: the last one that begins at or before the offset"


def _by_largest(step: LookupStep) -> str:
    name, time = step.path.name, _time(step.timestamp_ms)
    match step.source:
        case StepBasis.FILE_TIME:
            return f"{name}: no record has a timestamp; its file time counts, {time}"
        case StepBasis.BATCHES:
            return f"{name}: {time}, by the headers up to offset {step.offset}"
        case _:
            return f"{name} entry {step.entry} at byte {step.position}: {time}"


def _by_scan(step: LookupStep) -> str:
    batches = f"{step.looked_at:,} batch{'' if step.looked_at == 1 else 'es'}"
    where = "none of them matches" if step.position is None else f"batch {step.offset} at byte {step.position}"
    return f"{step.path.name}: {batches} looked at, {where}"


def _by_index(step: LookupStep) -> str:
    match step.source:
        case StepBasis.ENTRY | StepBasis.BAD_ENTRY:
            return f"{step.path.name} entry {step.entry} at byte {step.position}: {_entry(step)}"
        case StepBasis.NO_INDEX:
            return (
                f"segment {step.base_offset} has no such file (a broker makes it anew): search from {_beginning(step)}"
            )
        case _:
            return f"{step.path.name}: every entry lies higher: search from {_beginning(step)}"


_FOUND_BY: Final = {
    StepKind.SEGMENT_MAP: _by_names,
    StepKind.LARGEST_TIMESTAMP: _by_largest,
    StepKind.TIME_INDEX: _by_index,
    StepKind.OFFSET_INDEX: _by_index,
    StepKind.SCAN: _by_scan,
}


def _entry(step: LookupStep) -> str:
    if step.look is StepKind.TIME_INDEX:
        return f"{_time(step.timestamp_ms)} up to offset {step.offset}"
    if step.source is StepBasis.BAD_ENTRY:
        return f"offset {step.offset} leads to no batch: search from byte 0"
    return f"offset {step.offset} at byte {step.leads_to}"


def _beginning(step: LookupStep) -> str:
    return f"offset {step.base_offset}" if step.look is StepKind.TIME_INDEX else "byte 0"


def _bytes(count: int) -> str:
    return f"{count:,} byte{'' if count == 1 else 's'}"


def _time(timestamp_ms: int | None) -> str:
    """Return a timestamp for people, to the millisecond: two records of one second differ."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "none"
    return f"{moment(timestamp_ms)} ({timestamp_ms})"
