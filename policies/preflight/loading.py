"""Loads one partition directory as Kafka's loader does, step by step, on a list of its files.

Steps:      leftovers (``.deleted``, ``.cleaned``, ``.swap``); segments and their indexes; recovery behind the recovery
            point after an unclean shutdown; the end of the log; producer snapshots, read, written and deleted.
Source:     Kafka 4.3 ``LogLoader``, ``LogSegment.recover``, ``ProducerStateManager``,
            ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from policies.preflight.facts import Contents, KafkaFailure, PartitionBefore, RecoveredLog
from policies.preflight.files import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    OFFSET_MAX,
    SNAPSHOT_DELETED,
    SWAP,
    Files,
    LoadingStopped,
    SegmentNames,
    add_to,
    base_offset_of,
    floor_place,
    log_name,
    names_of,
    offset_if_any,
    remove_from,
    snapshot_name,
)
from policies.preflight.start import StartStepKind

Replay = Callable[[int, int], KafkaFailure | None]
"""Replays a segment, by its base offset, from an offset on; returns the exception at which that ends."""

OVERFLOW: Final = "LogSegmentOffsetOverflowException"
LOG_BYTES_MAX: Final = (1 << 31) - 1
INDEX_BYTES_MAX: Final = 10 << 20
_UNCOUNTED: Final = "they are no batch that the start finds, and nothing cuts them after a clean shutdown"
_RECOVERED: Final = "all its batches are read"


class Loading:
    """The loading of one partition. ``run`` does everything; after that, the fields hold the result."""

    def __init__(self, before: PartitionBefore, *, is_clean: bool, recovery_point: int, log_start: int) -> None:
        self._before, self._contents = before, before.contents
        self._by_name = {file.name: file for file in before.files}
        self._may_write_all = all(file.is_writable for file in before.files)
        self._is_clean, self._recovery_point, self._checkpointed_start = is_clean, recovery_point, log_start
        self.files = Files(before.files)
        self._fresh_snapshots: set[int] = set()
        self.bases: list[int] = []
        self._recovered: dict[int, RecoveredLog] = {}
        self._emptied: set[int] = set()
        self._made_for: dict[int, str] = {}
        """Base offset -> the ``.log`` of an odd name for which an empty segment was made."""
        self.log_start: int | None = None
        self.log_end: int | None = None

    def run(self) -> None:
        """Load the partition. Raises: LoadingStopped, with the exception that Kafka raises."""
        before = self._before
        if before.leader_epochs:
            raise LoadingStopped(before.leader_epochs, "leader-epoch-checkpoint")
        self._producers = self._new_producers()
        self._clear_leftovers()
        self._load_segments()
        self._complete_swaps()
        if before.name.endswith("-delete"):
            self._load_doomed()
        else:
            self._recover()
        self.log_start = max(self._checkpointed_start, self.bases[0])
        assert self.log_end is not None
        self._producers.remove_strays(self.bases)
        self._producers.rebuild(self.bases, self.log_start, self.log_end, self._replay, trusts_absence=self._is_clean)
        if not before.is_writable and (self.files.net_steps() or not before.name.endswith("-stray")):
            cause = "the owner of the log dir may not write to the directory"
            raise LoadingStopped(KafkaFailure("AccessDeniedException", cause, is_io=True), "")
        if before.topic_id.failure:
            raise LoadingStopped(before.topic_id.failure, "partition.metadata")
        self._note_uncounted(self.bases[-1])
        self._note_covered()

    def _new_producers(self) -> Producers:
        return Producers(self.files, self._contents, self._fresh_snapshots)

    # leftovers

    def _check_readable(self) -> None:
        for file in self._before.files:
            if not file.is_readable:
                raise LoadingStopped(
                    KafkaFailure("IOException", "the owner of the log dir may not read it", is_io=True),
                    file.name,
                )

    def _open(self, *files: str) -> None:
        """Open files as Kafka does, to read and to write, the indexes of older segments some seconds later.

        Raises: LoadingStopped where the broker's user may not.
        """
        for file in files:
            name = self._on_disk(file)
            if name is not None and not self._by_name[name].is_writable:
                cause = "the owner of the log dir may not write it"
                raise LoadingStopped(KafkaFailure("FileNotFoundException", cause, is_io=True), file)

    def _clear_leftovers(self) -> None:
        self._check_readable()
        names = self.files.names()
        if not any(name.endswith((DELETED, CLEANED, SWAP)) for name in names):
            return
        for name in names:
            if name.endswith(DELETED) and not name.endswith(SNAPSHOT_DELETED):
                self.files.delete(name, "was to be deleted before the broker stopped")
        cleaned = [name for name in names if name.endswith(CLEANED)]
        undone_from = min(map(base_offset_of, cleaned), default=OFFSET_MAX)
        for name in names:
            if name.endswith(SWAP) and base_offset_of(name) >= undone_from:
                self.files.delete(name, "of a swap that had not begun: a .cleaned file is there")
        for name in cleaned:
            self.files.delete(name, "an unfinished compaction wrote it")
        self._finish_swaps([name for name in names if name.endswith(SWAP) and name in self.files.sizes])

    def _finish_swaps(self, swaps: list[str]) -> None:
        covered_from, covered_to = OFFSET_MAX, -OFFSET_MAX
        for name in swaps:
            if name.endswith(".log" + SWAP):
                base = base_offset_of(name)
                index = names_of(base).offset_index + SWAP
                self._note_damaged_swap(name, base)
                end = self._next_offset(name, index if index in self.files.sizes else None, base)
                self.files.create(index, "the swap has no offset index: an empty one takes its place")
                covered_from, covered_to = min(covered_from, base), max(covered_to, end)
        for name in self.files.names() if covered_from < covered_to else ():
            offset = offset_if_any(name)
            if not name.endswith(SWAP) and offset is not None and covered_from <= offset < covered_to:
                self.files.delete(name, "a finished compaction replaced it")
        for name in self.files.names():
            if name.endswith(SWAP):
                self.files.rename(name, name.removesuffix(SWAP), "finishes a compaction that was interrupted")

    def _note_damaged_swap(self, name: str, base: int) -> None:
        """Note what is wrong with a swap: Kafka reads its last batches, and takes it for what a compaction wrote."""
        size_bytes = self.files.sizes[name]
        if not size_bytes:
            self._note_empty_swap(name, base)
            return
        found = self._contents.recovered(name, base)
        cause = found.failure.cause if found.failure else found.cause or "the file ends within a batch"
        if found.failure or found.valid_bytes < size_bytes:
            end = base if found.next_offset is None else found.next_offset
            places = {"position": found.valid_bytes, "offset": end, "size_bytes": size_bytes - found.valid_bytes}
            self.files.note(StartStepKind.TAKE_DAMAGED, name, cause, **places)

    def _note_empty_swap(self, name: str, base: int) -> None:
        """Note that an empty swap takes the place of records."""
        replaced_bytes = self.files.sizes.get(log_name(base), 0)
        if replaced_bytes:
            log = log_name(base)
            why = f"is empty, and {log} has {replaced_bytes} bytes: right only if a compaction kept none of them"
            self.files.note(StartStepKind.TAKE_DAMAGED, name, why, position=0, offset=base, size_bytes=replaced_bytes)

    def _complete_swaps(self) -> None:
        """Do what an older Kafka does once the segments are loaded."""

    # segments

    def _load_segments(self) -> None:
        for name in self.files.names():
            is_index = name.endswith(INDEX_SUFFIXES)
            if not is_index and not name.endswith(".log"):
                continue
            base = base_offset_of(name)
            if not is_index:
                names = names_of(base)
                if names.log not in self.files.sizes:
                    self._made_for[base] = name
                    self.files.create(names.log, f"{name} stands for it, which has not 20 digits")
                self._load_segment(base, names)
            elif names_of(base).log not in self.files.sizes:
                self.files.delete(name, "an index without its .log")

    def _load_segment(self, base: int, names: SegmentNames) -> None:
        if self.files.sizes[names.log] > LOG_BYTES_MAX:
            raise LoadingStopped(KafkaFailure("KafkaException", "larger than 2,147,483,647 bytes"), names.log)
        if not self._may_write_all:
            self._open(*names)
        if names.offset_index not in self.files.sizes:
            self.files.note(StartStepKind.REBUILD, names.offset_index, "is missing")
            self._recover_segment(base)
        else:
            if names.time_index not in self.files.sizes:
                self.files.create(names.time_index, "is missing: made empty, and not rebuilt")
            failure = self._txn_index_failure(base, names.txn_index)
            if failure and failure.exception == "CorruptIndexException":
                self.files.note(StartStepKind.REBUILD, names.txn_index, failure.cause)
                self._recover_segment(base)
            elif failure:
                raise LoadingStopped(failure, names.txn_index)
        add_to(self.bases, base)

    def _txn_index_failure(self, base: int, name: str) -> KafkaFailure | None:
        return self._contents.txn_index_failure(self._name_before(name), base) if name in self.files.sizes else None

    def _name_before(self, name: str) -> str:
        """Return the name on disk: a swap that is not finished yet still carries the suffix."""
        return self.files.renamed.get(name, name)

    def _recover_segment(self, base: int) -> bool:
        """Recover a segment; returns whether its log was cut. Raises: LoadingStopped."""
        log, index, time_index, txn_index = names_of(base)
        producers = self._new_producers()
        producers.rebuild(self.bases, self._checkpointed_start, base, self._replay, trusts_absence=False)
        before_bytes = self.files.sizes[log]
        self.files.note(StartStepKind.RECOVER, log, _RECOVERED, size_bytes=before_bytes)
        found = self._recovered.get(base) or self._found_in(log, base)
        self._stop_at(found, log)
        self._recovered[base] = found
        self.files.sizes[index] = self.files.sizes[time_index] = 0
        if found.aborts:
            self.files.sizes[txn_index] = 0
        if found.producers_end is not None:
            producers.map_end = found.producers_end
        is_cut = found.valid_bytes < before_bytes
        if is_cut:
            end = base if found.next_offset is None else found.next_offset
            self._cut(log, found.valid_bytes, end, found.cause or "the file ends within a batch", found.zero_bytes)
        producers.write()
        return is_cut

    def _stop_at(self, found: RecoveredLog, log: str) -> None:
        """Leave at the exception of a recovery; at offsets that do not fit Kafka splits. Raises: LoadingStopped."""
        if found.failure:
            failure = found.split_failure or found.failure
            raise LoadingStopped(failure, log, is_split=failure.exception == OVERFLOW)

    def _found_in(self, log: str, base: int) -> RecoveredLog:
        name = self._on_disk(log)
        return self._contents.recovered(name, base) if name else RecoveredLog(0, None, None, False, None)

    def _cut(self, log: str, position: int, end_offset: int, cause: str, zero_bytes: int = 0) -> None:
        cut_bytes = self.files.sizes[log] - position
        self.files.note(
            StartStepKind.TRUNCATE, log, cause, position=position, offset=end_offset, size_bytes=cut_bytes,
            zero_bytes=zero_bytes,
        )  # fmt: skip
        self.files.sizes[log] = position

    # recovery and the end of the log

    def _recover(self) -> None:
        if not self._is_clean:
            self._recover_unflushed()
        self._find_end()
        if not self.bases:
            self._begin_empty()
        last = self.bases[-1]
        for name in names_of(last)[1:3]:
            if last not in self._recovered and self.files.sizes.get(name, 0) > INDEX_BYTES_MAX:
                cause = f"{self.files.sizes[name]} bytes are more than segment.index.bytes"
                raise LoadingStopped(KafkaFailure("IllegalArgumentException", cause), name)
            self.files.create(name, "is missing: made empty")

    def _recover_unflushed(self) -> None:
        unflushed = self._from(self._recovery_point)
        for place, base in enumerate(unflushed):
            try:
                is_cut = self._recover_segment(base)
            except LoadingStopped as stopped:
                if stopped.failure.exception != "InvalidOffsetException":
                    raise
                is_cut = self.files.sizes[log_name(base)] > 0
                self._emptied.add(base)
                self._cut(log_name(base), 0, base, f"{stopped.failure.exception}: {stopped.failure.cause}")
            if is_cut:
                self._retire(unflushed[place + 1 :], "lies behind the cut")
                return

    def _from(self, offset: int) -> list[int]:
        return [] if offset == OFFSET_MAX else self.bases[floor_place(self.bases, offset) :]

    def _retire(self, bases: list[int], why: str) -> None:
        going = set(bases)
        self.bases = [base for base in self.bases if base not in going]
        for base in bases:
            log = log_name(base)
            if self.files.sizes[log]:
                size_bytes = self.files.sizes[log]
                self.files.note(StartStepKind.TRUNCATE, log, why, position=0, offset=base, size_bytes=size_bytes)
            for name in names_of(base):
                self.files.retire(name, why)
        self._producers.retire(bases)

    def _find_end(self) -> None:
        if not self.bases:
            return
        end = self._end_of(self.bases[-1])
        if end >= self._checkpointed_start:
            self.log_end = end
            return
        why = f"the log ends at {end}, before its checkpointed start {self._checkpointed_start}"
        self._retire(list(self.bases), why)
        self._producers.start_at(self._checkpointed_start)

    def _note_uncounted(self, base: int) -> None:
        """Note bytes behind the last batch of the active segment that no recovery cuts: the broker appends to them."""
        names = names_of(base)
        log = self._on_disk(names.log)
        if base in self._emptied or base in self._recovered or log is None or self._before.name.endswith("-delete"):
            return
        size_bytes = self._contents.uncounted_bytes(log, self._on_disk(names.offset_index), base)
        if size_bytes:
            places = {"position": self.files.sizes[names.log] - size_bytes, "offset": self.log_end}
            self.files.note(StartStepKind.APPEND_BEHIND, names.log, _UNCOUNTED, size_bytes=size_bytes, **places)

    def _note_covered(self) -> None:
        """Note the empty segments that were made for odd names, and the records that lie behind their offsets."""
        for base, name in self._made_for.items():
            below = [one for one in self.bases if one < base and one not in self._made_for]
            upper = min((one for one in self.bases if one > base), default=OFFSET_MAX)
            end = min(self._end_of(below[-1]), upper) if below and base in self.bases else base
            covered = f", over the records of the offsets {base} to {end - 1}" if end > base else ""
            why = f"its name has not 20 digits: Kafka does not read it, and makes an empty segment at {base}{covered}"
            self.files.note(StartStepKind.COVER, name, why, offset=base, size_bytes=self.files.sizes[name])

    def _end_of(self, base: int) -> int:
        if base in self._emptied:
            return base
        if base in self._recovered:
            found = self._recovered[base].next_offset
            return base if found is None else found
        names = names_of(base)
        log = self._on_disk(names.log)
        return self._next_offset(log, self._on_disk(names.offset_index), base) if log else base

    def _on_disk(self, file: str) -> str | None:
        """Return the name of a file as it was before the start; None for one that the start makes."""
        name = self._name_before(file)
        return name if name in self._by_name else None

    def _next_offset(self, log: str, index: str | None, base: int) -> int:
        found = self._contents.next_offset(log, index, base)
        if isinstance(found, KafkaFailure):
            raise LoadingStopped(found, log)
        return found

    def _begin_empty(self) -> None:
        start = self._checkpointed_start
        for name in names_of(start)[:3]:
            self.files.create(name, "the log begins anew, empty")
        self.bases, self.log_end = [start], start

    def _load_doomed(self) -> None:
        if not self.bases:
            self.files.create(log_name(0), "a directory without a log gets an empty one")
            self.bases = [0]
        self.log_end = 0

    def _replay(self, base: int, start_offset: int) -> KafkaFailure | None:
        names = names_of(base)
        log = self._on_disk(names.log)
        if log is None or base in self._emptied or base in self._recovered:
            return None
        return self._contents.replay(log, self._on_disk(names.offset_index), base, start_offset)


class Producers:
    """A ``ProducerStateManager``: the snapshots that it knows of, and up to where its state reaches."""

    def __init__(self, files: Files, contents: Contents, fresh: set[int]) -> None:
        """Look at the snapshots that are there.

        Args:
            files: of the partition directory.
            contents: of its files.
            fresh: offsets of snapshots that this start has written; they are valid.

        Raises: LoadingStopped where a name is no offset.
        """
        self._files, self._contents, self._fresh = files, contents, fresh
        self.map_end = 0
        self._snap_end = 0
        self._snapshots = files.snapshots()

    def rebuild(
        self, bases: Sequence[int], log_start: int, end_offset: int, replay: Replay, *, trusts_absence: bool
    ) -> None:
        """Rebuild the state up to an offset.

        Args:
            bases: base offsets of the segments, ascending.
            log_start: snapshots at or below it go.
            end_offset: snapshots above it go; one is written there.
            replay: see ``Replay``.
            trusts_absence: after a clean shutdown, a log without snapshots is not replayed.

        Raises: LoadingStopped.
        """
        to_write = [*bases[-2:], end_offset]
        if not self._snapshots and trusts_absence:
            for offset in to_write:
                self.map_end = offset
                self.write()
            return
        was_empty = self.map_end >= end_offset
        self._truncate(log_start, end_offset)
        if end_offset > self.map_end and not was_empty:
            for base in _in_range(bases, self.map_end, end_offset):
                start = max(base, self.map_end, log_start)
                self.map_end = start
                if base in to_write:
                    self.write()
                failure = replay(base, start)
                if failure:
                    raise LoadingStopped(failure, f"{base:020d}.log")
        self.map_end = end_offset
        self.write()

    def _truncate(self, log_start: int, end_offset: int) -> None:
        first, end = bisect_right(self._snapshots, log_start), bisect_right(self._snapshots, end_offset)
        for offset in (*self._snapshots[:first], *self._snapshots[max(first, end) :]):
            self._delete(offset, "lies outside the log, or at its start")
        if end_offset == self.map_end:
            self.map_end = max(self.map_end, log_start)
            self._snap_end = self._snapshots[-1] if self._snapshots else log_start
            return
        while self._snapshots:
            newest = self._snapshots[-1]
            if newest in self._fresh or self._contents.snapshot_is_valid(snapshot_name(newest)):
                self.map_end = self._snap_end = newest
                return
            self._delete(newest, "is damaged: the producer state is rebuilt from older ones and the log")
        self.map_end = self._snap_end = log_start

    def write(self) -> None:
        """Write a snapshot of the state, unless there is one."""
        if self.map_end > self._snap_end:
            self._files.write_snapshot(self.map_end, "the producer state at that offset")
            self._fresh.add(self.map_end)
            add_to(self._snapshots, self.map_end)
            self._snap_end = self.map_end

    def remove_strays(self, bases: Sequence[int]) -> None:
        """Delete the snapshots at which no segment begins, but for the newest, if that lies behind all segments."""
        kept: int | None = None
        self._snapshots, begin = self._files.snapshots(), set(bases)
        for offset in [offset for offset in self._snapshots if offset not in begin]:
            if kept is not None:
                self._delete(kept, "no segment begins there")
            kept = offset
        if kept is not None and bases and kept < bases[-1]:
            self._delete(kept, "no segment begins there")

    def retire(self, bases: Sequence[int]) -> None:
        """Have the snapshots of segments that go wait for their deletion, too."""
        for base in bases:
            if remove_from(self._snapshots, base):
                self._files.retire(snapshot_name(base), "its segment goes")

    def start_at(self, offset: int) -> None:
        """Forget everything: the log begins anew."""
        for known in self._snapshots.copy():
            self._delete(known, "the log begins anew")
        self._snap_end, self.map_end = 0, offset

    def _delete(self, offset: int, why: str) -> None:
        remove_from(self._snapshots, offset)
        self._fresh.discard(offset)
        self._files.delete(snapshot_name(offset), why)


def _in_range(bases: Sequence[int], from_offset: int, to_offset: int) -> list[int]:
    """Return the segments from the one that holds an offset on. Source: Kafka ``LogSegments.values``."""
    return list(bases[floor_place(bases, from_offset) : bisect_left(bases, to_offset)])
