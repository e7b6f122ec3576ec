"""Write a copy of a log dir as of a moment. The original is never touched.

Steps:      as of every copy (``cleaner.engine.copy.copying``): the incomplete mark, the files, each fsynced, a last
            look at the original, the manifest.
A cut:      segments below it as they are; of the one that it lies in, the batches below it, with index files made of
            them; a producer snapshot at the new end, without which a clean start forgets open transactions.
Checkpoints: none lies above the end of its log.
Clamped:    a committed offset above the end of its partition is written once more, as that end, in a segment behind
            the cut of ``__consumer_offsets``. The newest record of a key counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cleaner.engine.as_of.commits import clamped_value, write_commits
from cleaner.engine.as_of.deciding import AsOf, NotAsItWas, PartitionAsOf, decide
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.copy.copying import OutputDir, is_of_the_partition
from cleaner.engine.copy.manifest import manifest_of_restored
from cleaner.engine.copy.moment import CHECKPOINTS, METADATA_DIR, Moment
from cleaner.engine.means import Means
from policies.plan import Plan, Request
from storage.checkpoints import format_leader_epochs, format_offset_checkpoint, parse_leader_epochs, truncate_from_end
from storage.errors import LogCleanerError, Stopped
from storage.filesystem import Purpose
from storage.log.listing import Listing, list_partition
from storage.log.rebuild import RebuildTerms, RebuiltProducers, rebuild_segment
from storage.log.recovery import plan_recovery
from storage.log.roll import create_segment, write_snapshot
from storage.log_dir import LogDir, read_file
from storage.names import (
    INCOMPLETE_FILE,
    LEADER_EPOCH_CHECKPOINT,
    MANIFEST_FILE,
    FileKind,
    TopicPartition,
    segment_file_name,
)
from storage.segment import SegmentFile
from storage.stores.paths import path_of_text

_NOT_COPIED: Final = frozenset({*CHECKPOINTS, MANIFEST_FILE, INCOMPLETE_FILE})
_SMALL_FILES_BYTES: Final = 1 << 20


def look_as_of(
    cleaner: Cleaner, request: Request, until_ms: int | None, offsets: Mapping[TopicPartition, int] | None
) -> AsOf:
    """Return what a copy would have, without a lock. Arguments and errors as of ``decide``."""

    def listed(log_dir: str, name: str) -> Listing:
        return plan_recovery(list_partition(path_of_text(log_dir) / name)).listing

    planned = cleaner.plan(request)
    _check(planned)
    return decide(planned, lambda facts: listed(facts.log_dir, str(facts.topic_partition)), until_ms, offsets)


def copy_as_of(
    cleaner: Cleaner,
    request: Request,
    output: Path,
    until_ms: int | None,
    offsets: Mapping[TopicPartition, int] | None,
    *,
    incomplete: bool,
    tool_version: str,
) -> AsOf:
    """Write the copy.

    Args:
        cleaner: of one log dir.
        request: with the topics.
        output: a new or an empty directory, of this machine or in a store.
        until_ms: the moment, epoch ms; None if offsets are given.
        offsets: where to cut.
        incomplete: go on though partitions cannot be what they were; those that cannot be read are left out.
        tool_version: for the manifest.

    Raises: NotAsItWas; as ``Cleaner.copy`` and ``decide``.
    """
    with cleaner.locked_to_copy(output, request.topics) as (log_dir, moment, means):
        planned = cleaner.plan(request)
        _check(planned)

        def listed(name: str) -> Listing:
            return plan_recovery(moment.directories[name].listing()).listing

        found = decide(planned, lambda facts: listed(str(facts.topic_partition)), until_ms, offsets)
        if found.spoiled and not incomplete:
            raise NotAsItWas(found.spoiled)
        intervals = {p.facts.topic_partition: p.policy.index_interval_bytes for p in planned.partitions}
        writer = _Writer(log_dir, moment, means, found, intervals)
        try:
            writer.write(output, (request.now_ms, "local", tool_version))
        except (LogCleanerError, OSError) as error:
            if not isinstance(error, Stopped):
                moment.ensure_unchanged()  # report a change as the cause
            raise
        return found


def _check(planned: Plan) -> None:
    """Refuse log dirs whose checkpoints cannot be read. Raises: UnreadableLogDir."""
    for error in (error for log_dir in planned.log_dirs for error in log_dir.facts.errors):
        raise UnreadableLogDir(error)


class UnreadableLogDir(LogCleanerError):
    """A log dir whose checkpoints or journal cannot be read."""

    cause: str

    def __str__(self) -> str:
        return self.cause


@dataclass(slots=True)
class _Writer:
    """Writes one copy."""

    log_dir: LogDir
    moment: Moment
    means: Means
    found: AsOf
    intervals: Mapping[TopicPartition, int]

    def write(self, path: Path, made: tuple[int, str, str]) -> None:
        self.moment.ensure_unchanged()
        checkpoints = self.moment.offsets()
        partitions = [one for one in self.found.partitions if one.place]
        output = OutputDir.begin(path, self.log_dir, self._needed_bytes(partitions), self.means.fs)
        names = [str(one.topic_partition) for one in partitions]
        for name in [*names, *([METADATA_DIR] if METADATA_DIR in self.moment.directories else [])]:
            output.make_dir(name)
        spans = {one.topic_partition: (one.log_start_offset, self._partition(one, output)) for one in partitions}
        if metadata := self.moment.directories.get(METADATA_DIR):
            self._copy_files(metadata.plain_files(), metadata.path, output)
        self._copy_files(set(self.moment.root.plain_files()) - _NOT_COPIED, self.log_dir.path, output)
        for name, offsets in checkpoints.items():
            kept = {key: min(at, spans[key][1]) for key, at in offsets.items() if key in spans}
            self.means.fs.replace_file(output.path / name, format_offset_checkpoint(kept), Purpose.COPY)
        manifest = manifest_of_restored(spans, str(self.log_dir.path), output.path, made, output.sha256_of)
        output.settle()
        self.moment.ensure_unchanged()
        output.finish(manifest)

    def _needed_bytes(self, partitions: Iterable[PartitionAsOf]) -> int:
        kept = [segment for one in partitions if one.place for segment in one.place.kept]
        others = [*self.moment.root.entries.values()]
        if metadata := self.moment.directories.get(METADATA_DIR):
            others += metadata.entries.values()
        files_bytes = sum(file.size_bytes for segment in kept for file in segment.files.values())
        return files_bytes + sum(entry.identity.size_bytes for entry in others) + _SMALL_FILES_BYTES

    def _partition(self, one: PartitionAsOf, output: OutputDir) -> int:
        """Copy a partition as far as its cut. Return its log end offset."""
        if self.means.stopping():
            raise Stopped
        directory = self.moment.directories[str(one.topic_partition)]
        directory.ensure_unchanged()
        target, place = output.path / str(one.topic_partition), one.place
        assert place is not None
        listing = plan_recovery(directory.listing()).listing
        files = [name for name in directory.plain_files() if is_of_the_partition(name)]
        is_cut = place.last_bytes is not None
        whole = place.kept[:-1] if is_cut else place.kept
        for segment in whole:
            for kind in FileKind:
                if kind in segment.files:
                    self._copy_listed(segment.files[kind], target, output)
        for snapshot in listing.snapshots:
            if not is_cut or snapshot.name.base_offset < place.end_offset:
                self._copy_listed(snapshot, target, output)
        if is_cut:
            files = [name for name in files if name != LEADER_EPOCH_CHECKPOINT]
            self._cut(one, listing, target, output)
        self._copy_files(files, directory.path, output)
        return self._clamp(one, target) if one.clamped else place.end_offset

    def _cut(self, one: PartitionAsOf, listing: Listing, target: Path, output: OutputDir) -> None:
        """Write what is left of the segment of the cut, and what a start reads of the new end."""
        place, fs, directory = one.place, self.means.fs, listing.directory
        assert place is not None
        assert place.last_bytes is not None
        end, now_ms = place.end_offset, self.found.until_ms or 0
        terms = RebuildTerms(
            self.intervals[one.topic_partition], one.log_start_offset, now_ms,
            self.means.broker.producer_id_expiration_ms,
        )  # fmt: skip
        producers = RebuiltProducers(
            place.kept, [file for file in listing.snapshots if file.name.base_offset <= end], terms
        )
        if place.kept:
            last = place.kept[-1]
            state = producers.at(last.base_offset)
            rebuilt = rebuild_segment(last, None, state, terms, place.last_bytes)
            log = last.log
            output.copy(log.path, self.moment.entry(log.path), target / str(log.name), size_bytes=place.last_bytes)
            self._write(target / segment_file_name(last.base_offset, FileKind.INDEX), rebuilt.offset_index)
            self._write(target / segment_file_name(last.base_offset, FileKind.TIME_INDEX), rebuilt.time_index)
            if rebuilt.txn_index:
                self._write(target / segment_file_name(last.base_offset, FileKind.TXN_INDEX), rebuilt.txn_index)
            write_snapshot(fs, target, end, state.to_snapshot_bytes())
        else:
            create_segment(fs, target, end)
        path = directory / LEADER_EPOCH_CHECKPOINT
        if (data := read_file(path)) is not None:
            epochs = truncate_from_end(parse_leader_epochs(data, path), end)
            fs.replace_file(target / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(epochs), Purpose.COPY)

    def _clamp(self, one: PartitionAsOf, target: Path) -> int:
        """Write the committed offsets that are clamped. Return the log end offset behind them."""
        assert one.place is not None
        base, until_ms = one.place.end_offset, self.found.until_ms
        if not one.place.kept:
            return base
        epoch = -1
        with suppress(LogCleanerError):
            path = self.moment.directories[str(one.topic_partition)].path / LEADER_EPOCH_CHECKPOINT
            kept = truncate_from_end(parse_leader_epochs(read_file(path) or b"", path), base)
            epoch = kept[-1].epoch if kept else epoch
        commits = [(offset.key, clamped_value(offset, self.found.ends)) for offset in one.clamped]
        interval_bytes = self.intervals[one.topic_partition]
        return write_commits(self.means.fs, target, base, commits, until_ms or 0, epoch, interval_bytes)

    def _write(self, path: Path, data: bytes) -> None:
        with self.means.fs.create(path, path.parent, Purpose.COPY) as file:
            file.write(data)
            file.fsync()

    def _copy_files(self, names: Iterable[str], source: Path, output: OutputDir) -> None:
        target = output.path / source.relative_to(self.log_dir.path)
        for name in sorted(names):
            output.copy(source / name, self.moment.entry(source / name), target / name)

    def _copy_listed(self, file: SegmentFile, target: Path, output: OutputDir) -> None:
        output.copy(file.path, self.moment.entry(file.path), target / str(file.name))
