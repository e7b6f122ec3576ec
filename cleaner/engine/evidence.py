"""Notes what is the only copy of records, and what alone tells of missing ones, in the journal.

No command of ours takes these files. But a broker that starts removes ``.deleted`` files and index files without a
``.log``, and then the journal is all that tells that they were there. Each file has one line, however often it is met.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cleaner.engine.journal import Journal, JournalFull, partition_of, read_entries
from cleaner.engine.means import Means
from cleaner.engine.only_copies import OnlyCopies
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
from storage.log.listing import Listing
from storage.log.recovery import Recovery
from storage.log_dir import LogDir
from storage.names import FileKind, FileState, TopicPartition
from storage.segment import SegmentFile, reading

_Entry = OffsetIndexEntry | TimeIndexEntry | None
EVIDENCE: Final = "evidence"
"""The kind of the journal's line."""


class _Seen(NamedTuple):
    topic_partition: TopicPartition
    listing: Listing
    recovery: Recovery


class EvidenceNotes:
    """Collects the notes about one log dir. It reads nothing unless a partition has files that may be evidence."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self._seen: list[_Seen] = []

    def look(self, topic_partition: TopicPartition, listing: Listing, recovery: Recovery) -> None:
        """Take a partition in that may have something."""
        waits = any(file.name.kind is FileKind.LOG for file in listing.in_state(FileState.DELETED))
        if waits or recovery.evidence:
            self._seen.append(_Seen(topic_partition, listing, recovery))

    def write(self, journal: Journal, means: Means) -> None:
        """Write a line for each partition with files that the journal does not know yet. Raises: UnreadableFile.

        On a full disk none is written: nothing of this is a step that the journal must tell of before.
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


def _entry(name: str, size_bytes: int, first: object, last: object) -> dict[str, Any]:
    return {"name": name, "bytes": size_bytes, "first": first, "last": last}


def _start_of(file: SegmentFile, size_bytes: int) -> bytes:
    with reading(file.location) as descriptor:
        return os.pread(descriptor, size_bytes, 0)


def _index(file: SegmentFile) -> dict[str, Any]:
    """Return the name and size of an index file, and the offsets of its first and its last entry."""
    base = file.name.base_offset
    offsets: list[int | None] = [None, None]
    with suppress(LogCleanerError):
        offsets = [entry and entry.offset for entry in _ends(file, base)]
    return _entry(file.file_name, file.size_bytes, *offsets)


def _ends(file: SegmentFile, base: int) -> tuple[_Entry, _Entry]:
    """Return the first and the last entry. Raises: CorruptIndex, UnreadableFile."""
    if file.name.kind is FileKind.INDEX:
        found = parse_offset_index(_start_of(file, OFFSET_ENTRY_BYTES), base, file.path)
        return next(iter(found), None), last_offset_index_entry(file.location, base)
    if file.name.kind is FileKind.TIME_INDEX:
        times = parse_time_index(_start_of(file, TIME_ENTRY_BYTES), base, file.path)
        return next(iter(times), None), last_time_index_entry(file.location, base)
    return None, None
