"""One partition judged: the facts of its segments and its small files, handed to the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.verify.hollow import (
    claims_on,
    emptied_segments,
    hollow_swap_facts,
    names_in,
    odd_logs,
    strange_logs,
)
from cleaner.engine.verify.log_dir_files import read_epochs_of
from policies.findings.findings import (
    Circumstances,
    Finding,
    FindingCode,
    LogHistory,
    Noted,
)
from policies.findings.of_files import (
    IndexedTail,
    NamedBatch,
    NamedTime,
    early_end_findings,
    missing_record_findings,
    segment_findings,
    swap_findings,
)
from policies.findings.of_history import (
    SnapshotEntry,
    Snapshots,
    checkpoint_findings,
    corrupt_epochs_finding,
    order_findings,
    snapshot_findings,
    transaction_findings,
)
from policies.findings.of_log_dir import gap_findings, offset_findings, partition_name_findings
from policies.findings.repairs import RepairKind, missing_near
from policies.findings.ruled_out import grouped, with_one_remedy, with_true_remedies, without_repairs
from policies.findings.sweeping import only_copy_findings
from storage.anomalies import CheckedSegment
from storage.errors import CorruptBatch
from storage.log.listing import Listing, strange_files
from storage.log.producer_state import CorruptSnapshot, ProducerEntry, parse_snapshot
from storage.log.read import companion_bytes, offset_entries
from storage.log_dir import read_file
from storage.names import (
    CLUSTER_METADATA_TOPIC,
    FileKind,
    FileState,
    TopicPartition,
)
from storage.records import iter_headers
from storage.segment import Segment, reading
from storage.stores.paths import path_of_text

_BATCH: Final = Struct(">ii")
_TIME: Final = Struct(">qi")
_POSITION_MAX: Final = 1 << 30
"""A segment is no larger by default."""
_TIMESTAMP_MAX_MS: Final = 1 << 43
"""A time in the year 2248. A greater number is rather no timestamp."""


def tails_of(listing: Listing, facts: Sequence[CheckedSegment]) -> Iterator[IndexedTail]:
    """Yield the ends of the segments whose indexes do not agree with them. Raises: UnreadableFile."""
    segments = {segment.base_offset: segment for segment in listing.segments}
    for one in facts:
        if (one.seen or one.aborted) and one.base_offset in segments:
            yield _tail(segments[one.base_offset], one)


def _tail(segment: Segment, facts: CheckedSegment) -> IndexedTail:
    base_offset, next_offset = facts.base_offset, facts.next_offset
    data = companion_bytes(segment, FileKind.INDEX)
    entries = _BATCH.iter_unpack(_entries(data, _BATCH.size))
    batches = [
        NamedBatch(base_offset + offset, position)
        for offset, position in entries
        if base_offset + offset >= next_offset and 0 <= position < _POSITION_MAX and (offset or position)
    ]
    data = companion_bytes(segment, FileKind.TIME_INDEX)
    times = [
        NamedTime(timestamp_ms, base_offset + offset)
        for timestamp_ms, offset in _TIME.iter_unpack(_entries(data, _TIME.size))
        if base_offset + offset >= next_offset and 0 < timestamp_ms < _TIMESTAMP_MAX_MS
    ]
    aborted = [entry.last_offset for entry in facts.aborted if entry.last_offset >= next_offset]
    shift_bytes = _shift_bytes(segment) if facts.seen and not facts.is_damaged and facts.size_bytes else 0
    return IndexedTail(base_offset, facts.end_position, facts.largest_ms, batches, times, aborted, shift_bytes)


def _entries(data: bytes, size: int) -> bytes:
    """Return whole entries, without the zeros behind them: an open index is allocated ahead."""
    used = -(-len(data.rstrip(b"\0")) // size) * size
    return data[: min(used, len(data) // size * size)]


def _shift_bytes(segment: Segment) -> int:
    """Return how far behind their batches the last entries of the offset index lead, all alike; 0 if they do not.

    Raises: UnreadableFile.
    """
    entries = {entry.offset: entry.position for entry in offset_entries(segment)}
    shifts = []
    with reading(segment.log.path) as descriptor, suppress(CorruptBatch):
        for position, header in iter_headers(descriptor, segment.log.path, 0):
            if header.last_offset in entries:
                shifts.append(entries[header.last_offset] - position)
    behind = shifts[next((place for place, shift in enumerate(shifts) if shift), len(shifts)) :]
    return behind[0] if behind and behind[0] > 0 and len(set(behind)) == 1 else 0


_OF_A_FILE_ALONE = frozenset({FindingCode.EPOCHS_CORRUPT, FindingCode.SNAPSHOT_CORRUPT})


def partition_findings(
    name: TopicPartition,
    listing: Listing,
    facts: Sequence[CheckedSegment],
    noted: Noted,
    circumstances: Circumstances,
    rule: OnlyCopies,
) -> list[Finding]:
    """Return what is wrong with one partition. Its small files are read now, behind the logs.

    Args:
        name: of the partition.
        listing: of its directory.
        facts: of its segments, ascending.
        noted: its lines in the checkpoints, read before the log was.
        circumstances: what the log dir says of it.
        rule: of the log dir.

    Raises: UnreadableFile.
    """
    log = LogHistory.of(str(listing.directory), facts, circumstances)
    end_offset = log.end_offset if log.segments else circumstances.log_start_offset
    claims = claims_on(listing, listing.segments, log, noted, circumstances, end_offset)
    if circumstances.is_live:
        claims = claims._replace(newest_snapshot=None)  # the broker may have written it since the log was read
    found = segment_findings(log, claims.counted_end)
    of_epochs = order_findings(log) or _epoch_findings(log, circumstances)
    snapshots = _snapshots(listing, log, circumstances)
    of_snapshots = snapshot_findings(log, snapshots)
    if strange_logs(listing):  # nobody knows which batches are not here
        found += [one for one in (*of_epochs, *of_snapshots) if one.code in _OF_A_FILE_ALONE]
    else:
        found += [*offset_findings(claims), *of_epochs, *transaction_findings(log), *of_snapshots]
        copies = [] if circumstances.is_live else list(only_copy_findings(rule.by_path(name, listing)))
        emptied, tails = emptied_segments(listing), tails_of(listing, facts)
        start_offset, whole_to = circumstances.log_start_offset, circumstances.whole_to
        missing = missing_record_findings(log, emptied, tails, start_offset, whole_to)
        found += missing or ([] if copies else _gap_findings(log, circumstances, snapshots))
        found += copies
    if log.segments:
        index = log.segments[-1].standing.path_of(FileKind.INDEX)
        is_lost = bool(claims.beyond) or missing_near(index, RepairKind.INDEX, found) is not None
        found += early_end_findings(log, found, claims.counted_end, is_lost=is_lost)
    odd = odd_logs(listing)
    unread = {f"{log.directory}/{strange}" for strange in strange_files(listing)}  # a broker may follow it
    found = [one for one in found if one.path not in unread and Path(one.path).stem not in odd]
    if not circumstances.is_live:
        found += swap_findings(hollow_swap_facts(listing))
    found += list(partition_name_findings(log.directory, names_in(listing), name, found))
    if name.topic == CLUSTER_METADATA_TOPIC:
        return list(without_repairs(grouped(found)))
    deleted = [file.file_name for file in listing.in_state(FileState.DELETED)]
    return with_one_remedy(with_true_remedies(grouped(found), deleted), log.directory, log.end_offset)


def _epoch_findings(log: LogHistory, circumstances: Circumstances) -> list[Finding]:
    epochs = read_epochs_of(path_of_text(log.directory))
    if epochs.error is not None:
        return [corrupt_epochs_finding(log.directory, epochs)]
    entries = epochs.entries
    if circumstances.is_live and entries:
        entries = tuple(entry for entry in entries if entry.start_offset <= log.end_offset)
    return checkpoint_findings(log, entries, circumstances.log_start_offset)


def _snapshots(
    listing: Listing, log: LogHistory, circumstances: Circumstances
) -> dict[int, Sequence[SnapshotEntry] | str]:
    """Read the producer snapshots; beside a live broker, only snapshots up to the end that was read."""
    found: dict[int, Sequence[SnapshotEntry] | str] = {}
    for file in listing.snapshots:
        offset = file.name.base_offset
        data = read_file(file.path)
        if data is None or (circumstances.is_live and offset > log.end_offset):
            continue
        try:
            found[offset] = list(map(_snapshot_entry, parse_snapshot(data, file.path)))
        except CorruptSnapshot as error:
            found[offset] = error.cause
    return found


def _snapshot_entry(entry: ProducerEntry) -> SnapshotEntry:
    batch = entry.last_batch
    sequence, offset, delta = (batch.last_sequence, batch.last_offset, batch.offset_delta) if batch else (-1, -1, 0)
    return SnapshotEntry(entry.producer_id, entry.epoch, sequence, offset, delta, entry.open_txn_first_offset)


def _gap_findings(log: LogHistory, circumstances: Circumstances, snapshots: Snapshots) -> list[Finding]:
    """Return at most one finding: a lone gap in a log that shows no other trace of a compaction.

    Where the last batch of a producer, by a snapshot, lies in the gap, records are lost.
    """
    if circumstances.was_compacted or log.is_damaged or not all(segment.facts.is_full for segment in log.segments):
        return []
    found = []
    end_offset = log.start_offset
    for segment in log.segments:
        base_offset, path = segment.standing.base_offset, segment.standing.path_of(FileKind.LOG)
        if end_offset < base_offset:
            gap = end_offset, base_offset
            found.append(gap_findings(log.directory, path, 0, gap, _named_in(gap, snapshots)))
        if segment.facts.gap is not None:
            gap = segment.facts.gap.lower_offset, segment.facts.gap.base_offset
            position, named = segment.facts.gap.position, _named_in(gap, snapshots)
            found += [gap_findings(log.directory, path, position, gap, named)] * segment.facts.gaps
        end_offset = segment.facts.next_offset
    return found if len(found) == 1 else []


def _named_in(gap: tuple[int, int], snapshots: Snapshots) -> int | None:
    """Return an offset in a gap that a snapshot has as that of a batch."""
    named = (entry.last_offset for entries in snapshots.values() if not isinstance(entries, str) for entry in entries)
    return next((offset for offset in named if gap[0] <= offset < gap[1]), None)
