"""The notes that a deletion leaves in the journal so that it can be taken back, and their reader.

Two read it: a restore, and the delayed deletion, whose delay counts from the time of the line. A line that does not
hold what it should is as good as none: then nothing is restored by it, and the change time of the files counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from cleaner.engine.journal import (
    GUARDED,
    REPLACING,
    SourceLog,
    partition_of,
    read_entries,
    read_journal,
    read_lines,
    sources_of,
)
from policies.facts import PartitionFacts
from policies.plan import Deletion
from policies.restore import DeletionFacts, RetiredFile, RetiredSegment
from storage.log.leader_epochs import read_leader_epochs, topic_id_if_sound
from storage.log.listing import Listing
from storage.names import (
    FileKind,
    FileState,
    SegmentFileName,
    TopicPartition,
    parse_segment_file_name,
)
from storage.segment import Segment, SegmentFile


class Renamed(NamedTuple):
    """The rename of a file, as the journal tells it."""

    time_ms: int
    """Epoch ms."""
    until_ms: int = 0
    """The moment, epoch ms, until which the file waits as the user was told; 0 if the delay in force alone counts."""


RenameTimes = Mapping[RetiredFile, Renamed]
"""Files that deletions of a partition renamed."""


def undo_of(facts: PartitionFacts, deletion: Deletion, listing: Listing) -> dict[str, Any]:
    """Return the part of a ``delete`` line that takes the deletion back. It is read before the first step.

    Raises: CorruptCheckpoint of the leader epochs, UnreadableFile.
    """
    bases = deletion.base_offsets
    doomed = [segment for segment in listing.segments if segment.base_offset in bases]
    rolled = deletion.roll_at_offset
    start, first_base = facts.log_start_offset, facts.segments[0].base_offset
    return {
        "files": [[f.file_name, f.identity.size_bytes, f.identity.mtime_ns] for f in _leaving(listing, doomed)],
        "end_offset": facts.upper_offset(len(deletion.segments) - 1),
        "log_start_checkpoint": start if start > first_base else None,
        "cleaner_checkpoint": facts.cleaner_checkpoint,
        "leader_epochs": [list(entry) for entry in read_leader_epochs(listing.directory)],
        "roll_at_offset": rolled,
        "rolled_snapshot": rolled is not None and all(s.name.base_offset != rolled for s in listing.snapshots),
        "topic_id": topic_id_if_sound(listing.directory),
    }


def _leaving(listing: Listing, doomed: Sequence[Segment]) -> Iterator[SegmentFile]:
    for segment in doomed:
        yield from segment.files.values()
    yield from listing.snapshots_of(doomed)


def journalled_deletions(
    log_dir: Path, partitions: Collection[TopicPartition], compacted: Collection[TopicPartition]
) -> Mapping[TopicPartition, tuple[DeletionFacts, ...]]:
    """Return the deletions that the journal knows how to take back, oldest first.

    Args:
        log_dir: whose journal is read.
        partitions: whose deletions are wanted.
        compacted: partitions that were ever compacted. Of these a line that cannot be read any more may have told of
            a compaction, and counts as one.

    Raises: UnreadableFile.
    """
    found: dict[TopicPartition, list[DeletionFacts]] = {topic_partition: [] for topic_partition in partitions}
    before_compaction, before_erasure = dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 0)
    without_the_newest: dict[TopicPartition, int] = {}
    for entry in read_lines(log_dir):
        if entry is None:
            before_compaction |= {tp: len(found[tp]) for tp in found if tp in compacted}
            without_the_newest.clear()
        elif not (topic_partition := partition_of(entry)) or topic_partition not in found:
            continue
        elif entry["what"] == "compact":
            without_the_newest[topic_partition] = before_compaction[topic_partition]
            before_compaction[topic_partition] = len(found[topic_partition])
        elif entry["what"] == "erase":
            before_erasure[topic_partition] = len(found[topic_partition])
        elif entry["what"] == GUARDED and topic_partition in without_the_newest:
            before_compaction[topic_partition] = without_the_newest.pop(topic_partition)
        elif entry["what"] == "delete" and (deletion := _deletion(entry)):
            found[topic_partition].append(deletion)
    return {
        tp: tuple(
            replace(d, is_compacted_since=place < before_compaction[tp], is_erased_since=place < before_erasure[tp])
            for place, d in enumerate(deletions)
        )
        for tp, deletions in found.items()
    }


def moved_partitions(log_dir: Path, now_ms: int) -> frozenset[TopicPartition]:
    """Return the partitions whose last move of the log start may still be taken back. Raises: UnreadableFile."""
    found = set()
    for entry in read_entries(log_dir, "delete"):
        topic_partition, deletion = partition_of(entry), _deletion(entry)
        if topic_partition and deletion and deletion.until_ms is not None and deletion.until_ms >= now_ms:
            found.add(topic_partition)
    return frozenset(found)


def rename_times(log_dir: Path, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, RenameTimes]:
    """Return when the files of each partition's deletions were renamed, by the newest line that names them; so, too,
    when repairs replaced files.

    A restore ends what a deletion's line says of its files: if a compaction renames such a file again, no line has the
    time. So does a line that names the log as a source: the deletion did not come to its rename, or somebody took the
    rename back.

    Raises: UnreadableFile.
    """
    found: dict[TopicPartition, dict[RetiredFile, Renamed]] = {topic_partition: {} for topic_partition in partitions}
    for entry in read_journal(log_dir):
        if not (topic_partition := partition_of(entry)) or topic_partition not in found:
            continue
        if entry["what"] == "restore":
            found[topic_partition].clear()
        elif entry["what"] in REPLACING:
            _forget_sources(found[topic_partition], entry)
        elif entry["what"] == "repair" and (kept := _kept(entry)):
            found[topic_partition][kept] = Renamed(entry["time_ms"])
        elif entry["what"] == "delete" and (deletion := _deletion(entry)):
            renamed = Renamed(deletion.time_ms, deletion.until_ms or 0)
            found[topic_partition].update((file, renamed) for s in deletion.segments for file in s.files)
    return found


def _forget_sources(renamed: dict[RetiredFile, Renamed], entry: Mapping[str, Any]) -> None:
    """Forget the renames of the segments whose logs an entry names as sources: these logs were still in their place."""
    bases = {source.base_offset for source in sources_of(entry) if _plain_log(source) in renamed}
    for file in [file for file in renamed if file.name.base_offset in bases] if bases else ():
        del renamed[file]


def _plain_log(source: SourceLog) -> RetiredFile:
    name = SegmentFileName(source.base_offset, FileKind.LOG, FileState.PLAIN)
    return RetiredFile(name, source.size_bytes, source.mtime_ns)


def due_ms(file: SegmentFile, delay_ms: int, renamed_ms: RenameTimes, *, is_asked: bool = False) -> int:
    """Return when the delay of a ``.deleted`` file is over, epoch ms: see ``Leftovers.due_ms``.

    Args:
        file: the file.
        delay_ms: ``file.delete.delay.ms``, or what the user of this run asked for.
        renamed_ms: what the journal says.
        is_asked: whether the user of this run asked for the delay. Then no earlier promise counts.
    """
    told = renamed_ms.get(retired_file(file))
    if told is None:
        return file.changed_ns // 1_000_000 + delay_ms
    return told.time_ms + delay_ms if is_asked else max(told.time_ms + delay_ms, told.until_ms)


def is_journalled(file: SegmentFile, renamed_ms: RenameTimes) -> bool:
    """Return whether a line of the journal tells of the rename of a ``.deleted`` file."""
    return retired_file(file) in renamed_ms


def retired_file(file: SegmentFile) -> RetiredFile:
    """Return a leftover as the journal's line named it."""
    plain = file.name._replace(state=FileState.PLAIN)
    return RetiredFile(plain, file.identity.size_bytes, file.identity.mtime_ns)


def _kept(entry: Mapping[str, Any]) -> RetiredFile | None:
    """Return the segment file that a repair replaced; None if it replaced none, or if the line is strange."""
    try:
        size_bytes, mtime_ns, _ = entry["undo"]["kept"]
        return RetiredFile(_plain_name(entry["file"]), _whole(size_bytes), _whole(mtime_ns))
    except (KeyError, TypeError, ValueError):
        return None


def _deletion(entry: Mapping[str, Any]) -> DeletionFacts | None:
    """Return a deletion; None if the line is of a version that noted less, or holds something unexpected."""
    try:
        undo = entry["undo"]
        files = [RetiredFile(_plain_name(name), _whole(size), _whole(mtime)) for name, size, mtime in undo["files"]]
        until_ms = _whole_or_none(undo.get("until_ms"))
        may_be_none = until_ms is not None and not files
        return DeletionFacts(
            entry["time_ms"],
            () if may_be_none else _segments(files, _whole(undo["end_offset"])),
            _whole(entry["log_start_offset"]),
            _whole_or_none(undo["log_start_checkpoint"]),
            _whole_or_none(undo["cleaner_checkpoint"]),
            tuple((_whole(epoch), _whole(start)) for epoch, start in undo["leader_epochs"]),
            _whole_or_none(undo["roll_at_offset"]),
            undo["rolled_snapshot"] is True,
            _text_or_none(undo.get("topic_id")),
            first_base_left=_whole(undo["end_offset"]),
            until_ms=until_ms,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _segments(files: list[RetiredFile], end_offset: int) -> tuple[RetiredSegment, ...]:
    """Group by base offset; each ends where the next one begins. Raises: ValueError without a ``.log``."""
    bases = sorted({file.name.base_offset for file in files if file.name.kind is FileKind.LOG})
    if not bases or {file.name.base_offset for file in files} != {*bases}:
        raise ValueError(files)
    return tuple(
        RetiredSegment(base, end, tuple(file for file in files if file.name.base_offset == base))
        for base, end in pairwise((*bases, end_offset))
    )


def _plain_name(name: object) -> SegmentFileName:
    found = parse_segment_file_name(name) if isinstance(name, str) else None
    if found is None or found.state is not FileState.PLAIN:
        raise ValueError(name)
    return found


def _whole(number: object) -> int:
    if type(number) is not int:
        raise TypeError(number)
    return number


def _whole_or_none(number: object) -> int | None:
    return None if number is None else _whole(number)


def _text_or_none(text: object) -> str | None:
    if text is not None and not isinstance(text, str):
        raise TypeError(text)
    return text
