"""The new content of files that are to be mended, derived from the log of their partition."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from policies.findings.repairs import CUTS, RepairKind, Target
from storage.checkpoints import CorruptCheckpoint, LeaderEpochEntry, format_leader_epochs
from storage.errors import CorruptBatch, LogCleanerError
from storage.log.end import end_bytes_of
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import Listing
from storage.log.producer_state import ProducerState
from storage.log.read import last_offset_entry
from storage.log.rebuild import (
    RebuildTerms,
    Rebuilt,
    RebuiltProducers,
    epochs_in,
    rebuild_epochs,
    rebuild_segment,
    with_due_offsets,
)
from storage.names import FileKind, SegmentFileName, parse_segment_file_name
from storage.records.batch_search import next_whole_batch
from storage.segment import Segment, reading


class DerivedEnd(NamedTuple):
    """The end of the last segment as a recovery finds it, and the index files that go with it."""

    end_bytes: int
    end_offset: int
    whole_behind: int | None
    """The byte at which another whole batch begins, behind bytes that are no batch."""
    contents: Mapping[RepairKind, bytes]


class Made(NamedTuple):
    """The new content of a file, or the reason why there is none."""

    content: bytes | None
    because: str | None = None


def _name(target: Target) -> SegmentFileName:
    name = parse_segment_file_name(target.name)
    assert name is not None
    return name


def in_order(targets: Iterable[Target]) -> list[Target]:
    """Return targets by offset, so that each state of the producers is made from the one before; cuts come last.

    At an offset the snapshot comes first. A cut changes the log from which other files are derived.
    """
    return sorted(targets, key=_place)


def _place(target: Target) -> tuple[bool, int, bool, str]:
    found = parse_segment_file_name(target.name)
    offset = found.base_offset if found else -1
    return target.kind in CUTS, offset, target.kind is not RepairKind.SNAPSHOT, target.name


class Deriving:
    """Derives files of one partition.

    Each file is derived by itself: damage in one segment does not touch the indexes of another. A snapshot that is to
    be made anew is not used.
    """

    def __init__(self, listing: Listing, targets: Iterable[Target], terms: RebuildTerms) -> None:
        """Read nothing yet.

        Args:
            listing: of the partition.
            targets: the files that are missing or wrong; ``made`` is best asked for them ``in_order``.
            terms: of the partition.
        """
        doubted = {_name(target).base_offset for target in targets if target.kind is RepairKind.SNAPSHOT}
        believed = [snapshot for snapshot in listing.snapshots if snapshot.name.base_offset not in doubted]
        self._listing, self._terms = listing, terms
        self._producers = RebuiltProducers(listing.segments, believed, terms)
        self._segments = {s.base_offset: (s, due) for s, due in with_due_offsets(listing.segments)}

    def made(self, target: Target) -> Made:
        """Return the new content of a file."""
        try:
            return Made(self._makers[target.kind](self, target))
        except LogCleanerError as error:
            return Made(None, str(error))

    def log_end(self, target: Target) -> DerivedEnd:
        """Return the end of the last segment, and its index files, as a recovery makes them.

        Raises: CorruptBatch, UnreadableFile.
        """
        segment = self._listing.segments[-1]
        if segment.log.path != Path(target.path):
            raise CorruptBatch(Path(target.path), 0, "it is not the last segment: what lies behind it would be lost")
        end_bytes = end_bytes_of(segment)
        state = self._producers.at(segment.base_offset)
        rebuilt = rebuild_segment(segment, None, state, self._terms, end_bytes)
        contents = {RepairKind.INDEX: rebuilt.offset_index, RepairKind.TIME_INDEX: rebuilt.time_index}
        if rebuilt.txn_index or FileKind.TXN_INDEX in segment.files:
            contents[RepairKind.TXN_INDEX] = rebuilt.txn_index
        with reading(segment.log.path) as descriptor:
            behind = next_whole_batch(descriptor, segment.log.path, end_bytes, os.fstat(descriptor).st_size)
        return DerivedEnd(end_bytes, rebuilt.next_offset, behind, contents)

    def _index(self, target: Target) -> bytes:
        rebuilt = self._rebuild(target, ProducerState())
        return rebuilt.offset_index if target.kind is RepairKind.INDEX else rebuilt.time_index

    def _txn_index(self, target: Target) -> bytes:
        state = self._producers.at(_name(target).base_offset)
        rebuilt = self._rebuild(target, state)
        self._producers.note(rebuilt.next_offset, state)
        return rebuilt.txn_index

    def _rebuild(self, target: Target, state: ProducerState) -> Rebuilt:
        base_offset = _name(target).base_offset
        if base_offset not in self._segments:
            raise CorruptBatch(Path(target.path), 0, "there is no .log of this name")
        segment, due_offset = self._segments[base_offset]
        rebuilt = rebuild_segment(segment, due_offset, state, self._terms)
        _check_index(segment, rebuilt)
        return rebuilt

    def _snapshot(self, target: Target) -> bytes:
        offset, end_offset = _name(target).base_offset, self.end_offset()
        if offset > end_offset:
            cause = f"offset {offset} is above the end of the log, {end_offset}"
            raise CorruptBatch(Path(target.path), 0, cause)
        return self._producers.at(offset).to_snapshot_bytes()

    def end_offset(self) -> int:
        """Return the end of the log; -1 without a segment. Raises: CorruptBatch, UnreadableFile."""
        if not self._listing.segments:
            return -1
        segment, due_offset = self._segments[self._listing.segments[-1].base_offset]
        return rebuild_segment(segment, due_offset, ProducerState(), self._terms).next_offset

    def _leader_epochs(self, _target: Target) -> bytes:
        seen = epochs_in(self._listing.segments)
        entries = rebuild_epochs(_stated_epochs(self._listing.directory), seen, self._terms.log_start_offset)
        return format_leader_epochs(entries)

    _makers: Mapping[RepairKind, Callable[[Deriving, Target], bytes]] = {
        RepairKind.INDEX: _index,
        RepairKind.TIME_INDEX: _index,
        RepairKind.TXN_INDEX: _txn_index,
        RepairKind.SNAPSHOT: _snapshot,
        RepairKind.LEADER_EPOCHS: _leader_epochs,
    }


def _check_index(segment: Segment, rebuilt: Rebuilt) -> None:
    """Refuse zeros at the end of a log where its present index names a batch in them: that batch is lost.

    Raises: CorruptBatch, UnreadableFile.
    """
    if rebuilt.end_bytes == segment.size_bytes:
        return
    entry = last_offset_entry(segment)
    if entry and entry.position >= rebuilt.end_bytes:
        cause = f"zeros, where the offset index names a batch at byte {entry.position}"
        raise CorruptBatch(segment.log.path, rebuilt.end_bytes, cause)


def _stated_epochs(directory: Path) -> list[LeaderEpochEntry] | None:
    try:
        return read_leader_epochs(directory)
    except CorruptCheckpoint:
        return None
