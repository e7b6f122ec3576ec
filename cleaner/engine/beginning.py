"""The beginning of a run that has every lock: recovery after a crash, with a journal line before each step.

The journal also gets one line for each file that is the only copy of records, or the only trace of missing records. No
command of ours takes these files. But a broker that starts removes ``.deleted`` files and index files without a
``.log``; then only the journal still tells of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cleaner.engine.compactor import Compactor
from cleaner.engine.inventory import Survey
from cleaner.engine.journal import EVIDENCE, Journal, JournalFull, partition_of, read_entries
from cleaner.engine.leftovers import Swept, sweep_log_dir
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.only_copies import OnlyCopies
from cleaner.errors import told
from policies.facts import LogDirFacts
from policies.guards import clock_guard
from policies.plan import LogDirPlan, Request
from policies.planning import log_dir_guards
from storage.directory import pread
from storage.errors import LogCleanerError
from storage.indexes import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    OffsetIndexEntry,
    TimeIndexEntry,
    last_offset_index_entry,
    last_time_index_entry,
    parse_offset_index,
    parse_time_index,
)
from storage.log.listing import Listing, list_partition
from storage.log.recovery import Recovery, plan_recovery, recover
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, FileKind, FileState, TopicPartition
from storage.segment import SegmentFile, reading

if TYPE_CHECKING:
    from cleaner.engine.executor import Executor

_Entry = OffsetIndexEntry | TimeIndexEntry | None


@dataclass(slots=True)
class Begun:
    """The result of recovery, and of the deletions that made space for it, once every lock is taken."""

    means: Means
    request: Request
    errors: list[str] = field(default_factory=list)
    swept: Swept = field(default_factory=Swept)
    full: dict[LogDir, str] = field(default_factory=dict)
    """Log dirs whose journal found no space -> the error. They stay as they are, unrecovered."""

    def sweep(self, plans: Iterable[LogDirPlan]) -> None:
        """Unlink the leftovers of log dirs that are due."""
        found = [sweep_log_dir(planned, self.request, self.means, self.errors) for planned in plans]
        self.swept = Swept.total([self.swept, *found])

    def executor(self, log_dir: LogDir, compactor: Compactor | None = None) -> Executor:
        """Return an executor; if the log dir must stay as it is, one that does nothing."""
        from cleaner.engine.executor import Executor  # noqa: PLC0415 - a dry run carries nothing out

        return Executor(log_dir, self.means, self.request, compactor, journal_full=self.full.get(log_dir))


def may_recover(facts: LogDirFacts, request: Request, journal: Journal, means: Means) -> bool:
    """Return whether no guard rail holds the log dir back.

    Ask before this run writes its first journal entry, because the clock always agrees with an entry of its own. A
    confirmed clock gets an entry.

    Args:
        facts: of the log dir, with the facts that its guard rails need.
        request: what was asked, and confirmed.
        journal: of the log dir.
        means: of the run.

    Raises: JournalFull.
    """
    if any(log_dir_guards(facts, request, means.broker)):
        return False
    if facts.clock and (guard := clock_guard(facts.clock, means.broker)):
        fields = {"what": "clock", "text": guard.text}
        if not journal.record(time_ms=means.clock.now_ms(), **fields):
            means.listener.event("journal_waits", log_dir=facts.path, **fields)
    return True


def recover_all(opened: OpenLogDirs, request: Request) -> Iterator[str]:
    """Finish or undo what a crash left in partitions of any policy. Yield the errors. Raises: JournalFull."""
    means = opened.means
    survey = Survey(opened.layers, request.now_ms, means.broker.producer_id_expiration_ms, request.topics)
    for log_dir in opened.log_dirs:
        with closing(Journal(log_dir.path, means.fs, means.clock.boot())) as journal:
            yield from recover_log_dir(log_dir, survey, journal, means, of_unknown_policy=True)


def recover_log_dir(
    log_dir: LogDir, survey: Survey, journal: Journal, means: Means, *, of_unknown_policy: bool = False
) -> Iterator[str]:
    """Finish or undo what a crash interrupted, in the partitions that may be touched.

    With ``of_unknown_policy``, partitions of an unknown configuration may be touched, too: a user named them.

    Return the errors. The only copies of records, and files that tell of missing records, are noted in the journal
    first.

    Raises: JournalFull.
    """
    needed: list[tuple[TopicPartition, Path, Recovery]] = []
    notes = EvidenceNotes(log_dir)
    try:
        cleaned = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT)
        for topic_partition, path in log_dir.partitions():
            policy = survey.policy_of(topic_partition, cleaned)
            is_hands_off = policy.remote_storage_enable if of_unknown_policy else policy.is_hands_off
            if not survey.wants(topic_partition) or is_hands_off:
                continue
            try:
                listing = list_partition(path)
                recovery = plan_recovery(listing)
            except LogCleanerError:
                continue  # the inventory meets the error again, and reports it
            notes.look(topic_partition, listing, recovery)
            if recovery.is_needed:
                needed.append((topic_partition, path, recovery))
        notes.write(journal, means)
        for topic_partition, path, recovery in needed:
            try:
                _recover_partition(topic_partition, path, recovery, journal, means)
            except JournalFull:
                raise
            except (LogCleanerError, OSError) as error:
                yield told(error)
    except JournalFull:
        raise
    except LogCleanerError:
        pass  # the inventory meets a garbled checkpoint again, and reports it


class EvidenceNotes:
    """Collects the notes about one log dir. It reads nothing unless a partition has files that may be evidence."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self._seen: list[_Seen] = []

    def look(self, topic_partition: TopicPartition, listing: Listing, recovery: Recovery) -> None:
        """Note a partition that may have evidence."""
        waits = any(file.name.kind is FileKind.LOG for file in listing.in_state(FileState.DELETED))
        if waits or recovery.evidence:
            self._seen.append(_Seen(topic_partition, listing, recovery))

    def write(self, journal: Journal, means: Means) -> None:
        """Write a line for each partition with files that the journal does not know yet. Raises: UnreadableFile.

        On a full disk no line is written: these lines announce no step, so a step does not depend on them.
        """
        if not self._seen:
            return
        known = {
            (partition_of(entry), file.get("name"), file.get("bytes"))
            for entry in read_entries(self._log_dir.path, EVIDENCE)
            for file in entry.get("kept", ())
        }
        for topic_partition, files in self._found():
            new = [file for file in files if (topic_partition, file["name"], file["bytes"]) not in known]
            if not new:
                continue
            with suppress(JournalFull):
                fields = {"bytes": sum(file["bytes"] for file in new), "kept": new}
                journal.record(EVIDENCE, means.clock.now_ms(), partition=str(topic_partition), **fields)
            means.listener.event("evidence_kept", **topic_partition._asdict(), files=[file["name"] for file in new])

    def _found(self) -> Iterator[tuple[TopicPartition, list[dict[str, Any]]]]:
        rule = OnlyCopies(self._log_dir)
        for topic_partition, listing, recovery in self._seen:
            files = [_index(file) for file in recovery.evidence]
            for path, copy in rule.by_path(topic_partition, listing):
                name = path.rpartition("/")[2]
                files.append(_entry(name, copy.size_bytes, copy.first_offset, copy.last_offset))
            yield topic_partition, files


def _recover_partition(
    topic_partition: TopicPartition, path: Path, recovery: Recovery, journal: Journal, means: Means
) -> None:
    names, place = recovery.names, topic_partition._asdict()
    if not journal.record("recover", means.clock.now_ms(), partition=str(topic_partition), files=names):
        means.listener.event("journal_waits", **place, what="recover", files=names)
    recover(means.fs, recovery, path)
    means.listener.event("partition_recovered", **place, files=len(names))


class _Seen(NamedTuple):
    topic_partition: TopicPartition
    listing: Listing
    recovery: Recovery


def _index(file: SegmentFile) -> dict[str, Any]:
    """Return the name and size of an index file, and the offsets of its first and its last entry."""
    base = file.name.base_offset
    offsets: list[int | None] = [None, None]
    with suppress(LogCleanerError):
        offsets = [entry and entry.offset for entry in _ends(file, base)]
    return _entry(file.file_name, file.size_bytes, *offsets)


def _entry(name: str, size_bytes: int, first: object, last: object) -> dict[str, Any]:
    return {"name": name, "bytes": size_bytes, "first": first, "last": last}


def _ends(file: SegmentFile, base: int) -> tuple[_Entry, _Entry]:
    """Return the first and the last entry. Raises: CorruptIndex, UnreadableFile."""
    if file.name.kind is FileKind.INDEX:
        found = parse_offset_index(_start_of(file, OFFSET_ENTRY_BYTES), base, file.path)
        return next(iter(found), None), last_offset_index_entry(file.location, base)
    if file.name.kind is FileKind.TIME_INDEX:
        times = parse_time_index(_start_of(file, TIME_ENTRY_BYTES), base, file.path)
        return next(iter(times), None), last_time_index_entry(file.location, base)
    return None, None


def _start_of(file: SegmentFile, size_bytes: int) -> bytes:
    with reading(file.location) as descriptor:
        return pread(descriptor, size_bytes, 0)
