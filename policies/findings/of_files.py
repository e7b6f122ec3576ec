"""Findings about the files of a partition: what is wrong with a file, behind a last batch, in a swap; what is gone.

Findings about bytes behind the last whole batch of a ``.log``, by the place of the segment and how the broker
stopped.

A start behind a clean stop looks for no end. It fails at zeros, which read as a record of size 0; bytes of another kind
it takes for the end of the log, and appends behind them. Recovery cuts either off, and deletes all later segments.

Source: Kafka LogLoader.recoverLog, LogSegment.recover, FileRecords; the starts in ``tests/interop/test_doctor.py``.

Findings of records that are gone: files that name offsets which the ``.log`` files lack.

A compaction leaves gaps, too. But it makes the index files anew with the log: none of them names what is gone. So an
index that leads behind the end of its log, to an offset that no other segment has, tells of a loss. What tells of it
must stay: nothing that is derived from the whole log is made anew there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import PurePath
from typing import Final, NamedTuple

from policies.findings.findings import (
    BY_ITSELF,
    FETCH_AGAIN,
    REBUILD,
    SPLIT_BY_ITSELF,
    TIME_INDEX_PADDED,
    Finding,
    FindingCode,
    Harm,
    LogHistory,
    RepairGroup,
    Standing,
)
from policies.reasons import moment
from storage.anomalies import Anomaly, SeenAnomaly
from storage.names import FileKind, segment_file_name

_CUT_ZEROS: Final = f"Stop the broker, and run logcleaner verify --repair={RepairGroup.ZERO_TAIL}: it cuts them off."
_CUT_BY_ITSELF: Final = "Nothing: the next start of the broker cuts them off. To look at them before, copy the file."
_LEAVE_THE_MARKER: Final = (
    "Leave .kafka_cleanshutdown: if one log dir lacks it, the start recovers every log there, and cuts each one at its"
    " first damage. It also knows no broker epoch then: with eligible leader replicas the controller takes the stop for"
    " an unclean one, and may drop the broker from ISR and ELR of all its partitions."
)
RECOVER_TAIL: Final = (
    f"Keep the broker stopped, and run logcleaner verify --repair={RepairGroup.LOG_END}: it recovers this log alone, as"
    " a broker would, up to its last whole batch, and keeps a copy of what it cuts. What is gone already comes from"
    " elsewhere: let a replica that has it lead before clients write; without one, a backup is all there is."
    f" {_LEAVE_THE_MARKER}"
)
"""The one remedy for a log whose end a start behind a clean stop would not find, in every command and finding."""
_ZERO_ISSUE: Final = "KAFKA-21000"


def tail_finding(
    standing: Standing,
    what: str,
    position: int | None,
    offset: int | None,
    *,
    is_zero: bool,
    counted: int | None = None,
) -> Finding | None:
    """Return the finding of the bytes behind the last batch; None if a broker is writing these bytes.

    Args:
        standing: of the segment.
        what: what is seen there, without a full stop.
        position: byte in the file.
        offset: the offset behind the last batch, if it is known.
        is_zero: whether all of them are zeros.
        counted: the offset that a start behind a clean stop takes for the end of the log; None if it takes none.
    """
    if standing.is_live and standing.is_last:
        return None
    code, issue, repair = FindingCode.TORN_TAIL, None, None
    if is_zero:
        code, issue, repair = FindingCode.ZERO_TAIL, _ZERO_ISSUE, RepairGroup.ZERO_TAIL
    if not standing.is_last:
        harm, so, remedy = _of_a_sealed(standing, is_zero=is_zero)
    elif standing.is_recovered:
        so = "The next start of the broker recovers the log: it finds the end, and cuts them off."
        harm, remedy = Harm.SLOW_START, _CUT_BY_ITSELF
    elif is_zero:
        so = "The stop was clean, so the next start does not look for the end: it meets a record of size 0, and fails."
        harm, remedy = Harm.NO_START, f"{_CUT_ZEROS} {_LEAVE_THE_MARKER}"
    else:
        harm, so, remedy, repair = Harm.DATA_LOST, _not_found(offset, counted), RECOVER_TAIL, RepairGroup.LOG_END
    path = standing.path_of(FileKind.LOG)
    return Finding(code, harm, path, f"{what}. {so}", remedy, position, offset, issue, repair)


def early_end_findings(
    log: LogHistory, found: Iterable[Finding], counted: int | None, *, is_lost: bool
) -> list[Finding]:
    """Return the finding of whole batches at the end of a log that a start behind a clean stop does not count.

    Args:
        log: the partition.
        found: the findings of its files: of bytes behind the last batch these tell already.
        counted: the offset that the start takes for the end of the log; None if it looks for the end, or fails.
        is_lost: whether a file names records behind the last whole batch. If so, the offset index is evidence; if not,
            the index is wrong by itself, and can be made anew.
    """
    if counted is None or not log.segments or counted >= log.end_offset or log.segments[-1].facts.is_damaged:
        return []
    standing, offset = log.segments[-1].standing, log.end_offset
    log_path, index_path = standing.path_of(FileKind.LOG), standing.path_of(FileKind.INDEX)
    if any(one.code in (FindingCode.TORN_TAIL, FindingCode.ZERO_TAIL) and one.path == log_path for one in found):
        return []
    text = (
        f"The stop was clean, so the next start does not look for the end: {_early(counted, offset)} The broker serves"
        " the log, and consumers find two records of one offset."
    )
    told = Finding(FindingCode.TORN_TAIL, Harm.DATA_LOST, log_path, text, RECOVER_TAIL, None, offset)
    if is_lost:
        return [told._replace(repair=RepairGroup.LOG_END)]
    of_index = FindingCode.OFFSET_INDEX_WRONG
    return [told._replace(code=of_index, path=index_path, remedy=REBUILD, repair=RepairGroup.DERIVED)]


def _early(counted: int, offset: int) -> str:
    return (
        f"the offset index leads behind the last whole batch, so it takes offset {counted} for the end, and gives the"
        f" offsets {counted} to {offset - 1}, which whole batches have, to new records."
    )


def _not_found(offset: int | None, counted: int | None) -> str:
    """Return what a start does that does not look for the end."""
    so = "The stop was clean, so the next start does not look for the end"
    if counted is None:
        so += "."
    elif offset is not None and counted < offset:
        so += f": {_early(counted, offset)}"
    else:
        so += f": it takes offset {counted} for it."
    return so + (
        " The broker serves the log, and puts what producers send behind these bytes, where no consumer and no replica"
        " ever gets to."
    )


def _of_a_sealed(standing: Standing, *, is_zero: bool) -> tuple[Harm, str, str]:
    if standing.is_recovered:
        so = "The next start recovers the log: it cuts it there, and deletes all later segments."
        return Harm.DATA_LOST, so, _CUT_ZEROS if is_zero else FETCH_AGAIN
    if is_zero:
        return Harm.WRONG_ANSWER, "Consumers fail there, and get no further.", _CUT_ZEROS
    return Harm.DATA_LOST, "Consumers fail there, and records that were there may be lost.", FETCH_AGAIN


class _Rule(NamedTuple):
    code: FindingCode
    harm: Harm
    so: str
    """The consequence, which the sentence tells behind the observation."""
    kafka_issue: str | None = None


_LOOKUP: Final = "a reader that begins there may miss records"
_RETENTION: Final = "retention by time may delete the segment too early, and a look-up by time may miss records"
_NO_INDEX: Final = "no index can hold it, so the segment can be neither indexed nor compacted"
_RULES: Final = {
    Anomaly.CRC: _Rule(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.UNREADABLE: _Rule(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.HEADER: _Rule(FindingCode.BATCH_HEADER, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.RECORDS: _Rule(FindingCode.RECORDS_CORRUPT, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.OFFSET_BACK: _Rule(
        FindingCode.OFFSET_BACKWARDS, Harm.WRONG_ANSWER, "consumers skip records, or get some under a wrong offset"
    ),
    Anomaly.BELOW_BASE: _Rule(
        FindingCode.OFFSET_BACKWARDS, Harm.WRONG_ANSWER, "the next recovery of the segment cuts it to nothing"
    ),
    Anomaly.BEYOND_NEXT: _Rule(
        FindingCode.OFFSET_BACKWARDS, Harm.WRONG_ANSWER, "consumers get records twice, or skip some"
    ),
    Anomaly.OVERFLOW: _Rule(FindingCode.OFFSET_OVERFLOW, Harm.SLOW_START, _NO_INDEX, "KAFKA-6264"),
    Anomaly.ENTRY_CUT: _Rule(FindingCode.OFFSET_INDEX_CORRUPT, Harm.WRONG_ANSWER, "Kafka takes the index for corrupt"),
    Anomaly.ENTRY_ORDER: _Rule(FindingCode.OFFSET_INDEX_CORRUPT, Harm.WRONG_ANSWER, _LOOKUP),
    Anomaly.ENTRY_BEYOND: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, "the log end is taken for another"),
    Anomaly.ENTRY_ASTRAY: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, "a reader that begins there fails"),
    Anomaly.ENTRY_SKIPS: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, _LOOKUP),
    Anomaly.ENTRY_OFFSET: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, "no batch ends at that offset"),
    Anomaly.ENTRIES_ZERO: _Rule(
        FindingCode.OFFSET_INDEX_CORRUPT, Harm.WRONG_ANSWER, "the broker takes the zeros for entries"
    ),
    Anomaly.ENTRIES_FEW: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WASTE, "each look-up there reads much of the log"),
    Anomaly.TIME_ORDER: _Rule(FindingCode.TIME_INDEX_CORRUPT, Harm.WRONG_ANSWER, "a look-up by time may miss records"),
    Anomaly.TIME_BEYOND: _Rule(FindingCode.TIME_INDEX_WRONG, Harm.WRONG_ANSWER, "a look-up by time may miss records"),
    Anomaly.TIME_SKIPS: _Rule(FindingCode.TIME_INDEX_WRONG, Harm.WRONG_ANSWER, "a look-up by time may miss records"),
    Anomaly.TIME_UNKNOWN: _Rule(
        FindingCode.TIME_INDEX_WRONG, Harm.WRONG_ANSWER, "a look-up by time, and retention, may go wrong"
    ),
    Anomaly.TIME_END: _Rule(FindingCode.TIME_INDEX_WRONG, Harm.DATA_LOST, _RETENTION),
    Anomaly.TIMES_ZERO: _Rule(FindingCode.TIME_INDEX_PADDED, Harm.DATA_LOST, TIME_INDEX_PADDED, "KAFKA-10207"),
    Anomaly.TIMES_CUT: _Rule(FindingCode.TIME_INDEX_CORRUPT, Harm.WRONG_ANSWER, "Kafka takes the index for corrupt"),
    Anomaly.TXN_FORMAT: _Rule(
        FindingCode.TXN_INDEX_CORRUPT, Harm.WRONG_ANSWER, "aborted records may be read as committed", "KAFKA-13727"
    ),
}
_OF_AN_END: Final = frozenset({Anomaly.TAIL, Anomaly.ZERO_TAIL})
_OF_AN_OPEN_INDEX: Final = frozenset({Anomaly.ENTRIES_ZERO, Anomaly.TIMES_ZERO, Anomaly.TIME_END})
"""How the index files of an active segment look while a broker runs, and where one was killed: they are allocated
ahead, and the last entry of the time index comes when the segment is closed."""


def segment_findings(log: LogHistory, counted: int | None) -> list[Finding]:
    """Return the findings of the files of all segments.

    Args:
        log: the partition.
        counted: the offset that a start behind a clean stop takes for the end of the log; None if it takes none.
    """
    found: list[Finding] = []
    for standing, facts in log.segments:
        if facts.seen:
            found += file_findings(facts.seen, standing, counted if standing.is_last else None)
        if facts.missing:
            found += missing_findings(facts.missing, facts.size_bytes, standing)
    return found


def file_findings(seen: Iterable[SeenAnomaly], standing: Standing, counted: int | None = None) -> list[Finding]:
    """Return the findings of the files of one segment; anomalies that are healthy where they stand are left out.

    Args:
        seen: what was seen.
        standing: of the segment.
        counted: the offset that a start behind a clean stop takes for the end of the log; None if it takes none.
    """
    return [found for one in seen if (found := _finding(one, standing, counted)) is not None]


def missing_findings(missing: Iterable[FileKind], size_bytes: int, standing: Standing) -> list[Finding]:
    """Return the findings of index files that are not there. A broker makes those of an open segment when it must.

    Args:
        missing: their kinds.
        size_bytes: of the ``.log``.
        standing: of the segment.
    """
    if not size_bytes or standing.is_open:
        return []
    found = []
    for kind in missing:
        is_rebuilt = kind is FileKind.INDEX or standing.is_recovered
        so = "the next start of the broker builds it anew" if is_rebuilt else "the broker goes on with an empty one"
        harm = Harm.SLOW_START if is_rebuilt else Harm.WRONG_ANSWER
        text = f"The file is missing: {so}."
        path = standing.path_of(kind)
        found.append(Finding(FindingCode.INDEX_MISSING, harm, path, text, REBUILD, repair=RepairGroup.DERIVED))
    return found


def _is_healthy(anomaly: Anomaly, standing: Standing) -> bool:
    return standing.is_open and anomaly in _OF_AN_OPEN_INDEX


def _finding(seen: SeenAnomaly, standing: Standing, counted: int | None) -> Finding | None:
    what = f"{seen.text[0].upper()}{seen.text[1:]}"
    if seen.anomaly in _OF_AN_END:
        is_zero = seen.anomaly is Anomaly.ZERO_TAIL
        return tail_finding(standing, what, seen.position, seen.offset, is_zero=is_zero, counted=counted)
    if _is_healthy(seen.anomaly, standing):
        return None
    rule = _RULES[seen.anomaly]
    text, kafka_issue = f"{what}: {rule.so}.", rule.kafka_issue
    harm, remedy = rule.harm, REBUILD
    repair: RepairGroup | None = RepairGroup.DERIVED
    if seen.kind is FileKind.LOG:
        remedy, repair = FETCH_AGAIN, None
        if seen.anomaly is Anomaly.OVERFLOW:
            remedy = SPLIT_BY_ITSELF
    elif standing.is_recovered and harm < Harm.SLOW_START:
        harm, remedy = Harm.SLOW_START, BY_ITSELF
    if rule.code is FindingCode.TIME_INDEX_PADDED and standing.is_last:
        kafka_issue = "KAFKA-19200"
    path = standing.path_of(seen.kind)
    return Finding(rule.code, harm, path, text, remedy, seen.position, seen.offset, kafka_issue, repair)


_ISSUE: Final = "KAFKA-12520"
_THROWN_AWAY: Final = (
    "Before the broker starts, run logcleaner clean, which throws the .swap away, or move it out of the directory; its"
    " sources are still here."
)
_KEPT: Final = (
    "Before the broker starts, copy the directory to a safe place: the start also deletes the .deleted files, which may"
    " have the records. Then bring the partition back from another replica, or from a backup."
)


class HollowSwapFacts(NamedTuple):
    """The facts about one ``.swap`` log that is empty or damaged. No process holds the lock of its log dir."""

    path: str
    damage: str | None
    """The first damage; None if the file is empty."""
    position: int
    """Byte of the damage."""
    replaced: str | None
    """The name of the plain log that has records where the swap begins; None if there is none."""
    is_undone: bool
    """Whether our recovery throws it away; else it refuses the partition."""


def swap_findings(found: Iterable[HollowSwapFacts]) -> Iterator[Finding]:
    """Yield a finding for each ``.swap`` log that a start of the broker would put in the place of records."""
    for swap in found:
        what = f"The file is damaged at byte {swap.position:,} ({swap.damage})" if swap.damage else "The file is empty"
        if swap.replaced is None:
            so = "the next start of the broker makes it a part of the log, with the damage"
        elif swap.replaced == PurePath(swap.path).name.removesuffix(".swap"):
            so = f"the next start of the broker puts it in the place of {swap.replaced}, which has records"
        else:
            so = f"the next start of the broker puts it beside {swap.replaced}, whose records from there on go unread"
        remedy = _THROWN_AWAY if swap.is_undone else _KEPT
        yield Finding(
            FindingCode.SWAP_LEFT, Harm.DATA_LOST, swap.path, f"{what}: {so}.", remedy,
            swap.position if swap.damage else None, kafka_issue=_ISSUE,
        )  # fmt: skip


_ASK_FOR_RECORDS: Final = (
    "Copy the directory to a safe place, and touch nothing; then fetch the partition from another replica, or restore"
    " it from a backup."
)
INDEXES_GO: Final = "Do not start the broker: its start removes these index files, too."
"""What comes first where index files without a ``.log`` tell of the loss."""


class NamedBatch(NamedTuple):
    """An entry of an offset index."""

    offset: int
    position: int


class NamedTime(NamedTuple):
    """An entry of a time index."""

    timestamp_ms: int
    offset: int


class IndexedTail(NamedTuple):
    """The end of one segment, and the entries of its index files that name offsets behind it."""

    base_offset: int
    end_bytes: int
    """The byte behind the last sound batch."""
    largest_ms: int
    """The largest timestamp of the batches; -1 without one."""
    batches: Sequence[NamedBatch]
    times: Sequence[NamedTime]
    aborted: Sequence[int]
    """Offsets of the markers that the transaction index names."""
    shift_bytes: int = 0
    """The number of bytes by which the offset index leads too far, from some entry on to its end."""


class EmptiedSegment(NamedTuple):
    """A segment without a record, whose index files have entries."""

    base_offset: int
    index_name: str
    is_gone: bool
    """Whether the ``.log`` is gone, and does not wait as ``.deleted``; else it is empty."""
    deletion_ms: int | None = None
    """When a deletion of ours began that was to take this segment and all below it, and did not end; None if none."""


def missing_record_findings(
    log: LogHistory,
    emptied: Iterable[EmptiedSegment],
    tails: Iterable[IndexedTail],
    log_start_offset: int,
    whole_to: int | None,
) -> list[Finding]:
    """Return a finding for each place where files name records that no ``.log`` has.

    Args:
        log: the partition.
        emptied: the segments without a record, by what their index files say.
        tails: of the other segments, if somebody read their indexes.
        log_start_offset: the log start offset. Records below it may be gone.
        whole_to: the end of the log as the broker noted it when it stopped cleanly; None where it did not.
    """
    known, without_records = {tail.base_offset: tail for tail in tails}, {one.base_offset: one for one in emptied}
    found: list[Finding] = []
    gaps: list[tuple[int, int | None]] = [(log_start_offset, log.start_offset)]
    following = [segment.standing.base_offset for segment in log.segments[1:]]
    for segment, due_offset in zip_longest(log.segments, following):
        next_offset, base_offset = segment.facts.next_offset, segment.standing.base_offset
        if due_offset is None or next_offset < due_offset:
            gaps.append((next_offset, due_offset))
        is_live_end = due_offset is None and segment.standing.is_live
        is_whole = next_offset == (whole_to if due_offset is None else due_offset)
        if base_offset in without_records and (is_live_end or is_whole):
            del without_records[base_offset]
        is_told = base_offset in without_records
        if is_told or segment.facts.is_damaged or is_live_end or (tail := known.get(base_offset)) is None:
            continue
        text = None if is_whole else next(_named_behind(tail, next_offset, due_offset), None)
        if text is None and tail.shift_bytes:
            index = segment_file_name(base_offset, FileKind.INDEX)
            text = f"{index} leads {tail.shift_bytes:,} bytes behind the batches: so many are gone from the log"
        if text:
            found.append(_lost(log.directory, base_offset, next_offset, text))
    for base_offset, one in without_records.items():
        if base_offset >= log_start_offset and any(_is_between(base_offset, *gap) for gap in gaps):
            text = f"{one.index_name} has entries, and {'no .log' if one.is_gone else 'its .log is empty'}"
            lost = _lost(log.directory, base_offset, base_offset, text, is_gone=one.is_gone)
            found.append(lost if one.deletion_ms is None else _as_begun(lost, one.deletion_ms))
    return found


def _as_begun(lost: Finding, deletion_ms: int) -> Finding:
    """Return a finding that says that a power loss within a deletion may have left the older segments alone."""
    text = f"{lost.text} A deletion that was to take this segment and all below it began at {moment(deletion_ms)}."
    remedy = f"If logcleaner clean -n deletes all below it, the next clean ends that deletion. Else: {lost.remedy}"
    return lost._replace(text=text, remedy=remedy)


def _named_behind(tail: IndexedTail, next_offset: int, due_offset: int | None) -> Iterator[str]:
    """Yield a text for each record that an index file of a segment names behind the segment's end, below the next
    segment.

    Two fields of an entry must agree: an entry with one wrong field is no evidence.
    """
    ends = f"and the batches end at {next_offset}"
    for offset, position in tail.batches:
        if _is_between(offset, next_offset, due_offset) and position >= tail.end_bytes:
            name = segment_file_name(tail.base_offset, FileKind.INDEX)
            yield f"{name} names offset {offset} at byte {position}, {ends}"
    for timestamp_ms, offset in tail.times:
        if _is_between(offset, next_offset, due_offset) and timestamp_ms > tail.largest_ms:
            yield f"{segment_file_name(tail.base_offset, FileKind.TIME_INDEX)} names offset {offset}, {ends}"
    for offset in tail.aborted:
        if _is_between(offset, next_offset, due_offset):
            yield f"{segment_file_name(tail.base_offset, FileKind.TXN_INDEX)} names offset {offset}, {ends}"


def _is_between(offset: int, lower: int, upper: int | None) -> bool:
    return offset >= lower and (upper is None or offset < upper)


def _lost(directory: str, base_offset: int, offset: int, text: str, *, is_gone: bool = False) -> Finding:
    path = f"{directory}/{segment_file_name(base_offset, FileKind.LOG)}"
    remedy = f"{INDEXES_GO} {_ASK_FOR_RECORDS}" if is_gone else _ASK_FOR_RECORDS
    return Finding(FindingCode.OFFSET_GAP, Harm.DATA_LOST, path, f"Records are missing: {text}.", remedy, offset=offset)
