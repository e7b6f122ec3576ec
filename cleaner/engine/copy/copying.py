"""A cleaned copy of a log dir, beside the untouched original: the segments that the plan leaves, in another directory.

The copy is of one moment, the plan's. Every file, directory, topic id and checkpoint is compared with its state at that
moment: the files of a partition when their turn comes, each file before and behind its copying, and everything once
more before the manifest is written. The four checkpoints are not read again, but written from their contents at that
moment. Any change ends the copy without a manifest. Nothing is copied anew, because that would be another moment.

Steps:      ``logcleaner-incomplete`` is written first; then everything of the copy, each file fsynced, each directory
            behind its files; then the original is looked at once more; then ``logcleaner-manifest.json``; then the
            first file goes.
Invariant:  a directory with a manifest is a whole copy; a directory without one is no copy, whatever lies in it.
Assumes:    the caller holds the lock of the original, if the lock can be held. The comparisons do not rely on it.
Unchanged:  copied as it is: what the plan does not touch, what a guard rail holds back, and a partition that fails,
            which is reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import uuid4

from cleaner.engine.compactor import Compactor
from cleaner.engine.copy.manifest import CopyDoesNotFit, PartitionCopy, check_in_no_copy, manifest_of
from cleaner.engine.copy.moment import CHECKPOINTS, METADATA_DIR, EntrySeen, Moment, SeenDirectory, SourceChanged
from cleaner.engine.deletion import truncate_leader_epochs
from cleaner.engine.executor import corrected_checkpoints, log_starts_after, tell_compacted
from cleaner.engine.inventory import producer_state_of
from cleaner.engine.means import Means
from cleaner.engine.outcome import Basis, PartitionResult
from cleaner.engine.repair.kept import is_kept_other
from cleaner.engine.uncleanable import HeldBack
from cleaner.errors import UnusableOutput, told
from policies.facts import UnreadablePartition
from policies.guards import compaction_held_back
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Request
from policies.planning import compaction_steps
from storage.checkpoints import format_offset_checkpoint
from storage.directory import OpenFile, close, is_stored, open_file, opened_as_parent, status_of
from storage.errors import LogCleanerError, PlanOutOfDate, Stopped, UnreadableFile, as_unreadable
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.holes import data_bytes
from storage.log.listing import Listing
from storage.log.recovery import plan_recovery
from storage.log.roll import create_segment, write_snapshot
from storage.log_dir import INCOMPLETE_LOG_DIR, LogDir, Offsets, read_file
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    INCOMPLETE_FILE,
    JOURNAL_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    SCRATCH_SUFFIX,
    FileKind,
    FileState,
    TopicPartition,
    parse_segment_file_name,
)
from storage.segment import Segment, SegmentFile, open_to_read
from storage.stores.errors import ForbiddenStore, ObjectChanged
from storage.stores.paths import StoredPath, list_anew, look_anew
from storage.uploads import OtherWriter, is_of_writing

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted, Round

_INCOMPLETE_TEXT: Final = (
    b"logcleaner is writing a log dir here, or was interrupted: without a manifest it is worth nothing\n"
)
_ANOTHER: Final = "name another directory, or remove this one"

_NOT_COPIED: Final = frozenset({*CHECKPOINTS, MANIFEST_FILE, INCOMPLETE_FILE})
"""The files that a copy does not take from the original, because it has its own."""

_SMALL_FILES_BYTES: Final = 1 << 20
"""The least room for checkpoints, the manifest and other small files."""


WriteSegments: TypeAlias = Callable[[PartitionPlan, Listing, Path, Callable[[Segment], None]], None]
"""Is handed a partition, its files as a start of Kafka would recover them, its directory in the copy, and what copies a
segment as it is."""


class OutputFull(OutOfSpace):
    """The file system of a copy is full."""

    def __str__(self) -> str:
        wanted = f" for {self.wanted_bytes} bytes" if self.wanted_bytes else ""
        return (
            f"{self.path}: no space{wanted} where the copy is written; no copy was finished: remove what there is of "
            f"it, and name a directory on a file system with more space, or fewer topics with --topic"
        )


@dataclass(eq=False)
class Copier:
    """Writes one copy."""

    log_dir: LogDir
    """The original, under its lock if it has one."""
    plan: LogDirPlan
    """The plan. The copy leaves out what the plan deletes."""
    moment: Moment
    """The original as it was before the plan was made."""
    request: Request
    """The request that the plan was made for."""
    means: Means
    tool_version: str
    """The version of logcleaner, for the manifest."""
    compactor: Compactor
    behind: Callable[[PartitionPlan, Path, Means], None] | None = None
    """Called with the directory of each cleaned partition once its files are in the copy, and may change it."""
    instead: WriteSegments | None = None
    """Writes the segments of each partition, if the plan has no work."""
    journal: list[bytes] = field(default_factory=list)
    """The lines that the copy's own journal gets."""
    results: dict[PartitionKey, PartitionResult] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """What the copy does not have of the log dir, by name."""
    _cleaned: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition -> the offset at which its compaction ended."""

    def copy_to(self, path: Path) -> None:
        """Write the copy; ``results`` has an entry for every partition with work.

        Raises:
            UnusableOutput, CopyDoesNotFit, CorruptCheckpoint: nothing was written.
            SourceChanged, OutOfSpace, UnreadableFile, Stopped: the directory has no manifest, and is no copy.
        """
        try:
            self._copy_to(path)
        except (OutOfSpace, PlanOutOfDate, Stopped):
            raise
        except (LogCleanerError, OSError):
            self.moment.ensure_unchanged()  # report a change as the cause
            raise

    def _copy_to(self, path: Path) -> None:
        self.moment.ensure_unchanged()
        checkpoints, self.left_out = self.moment.offsets(), tuple(self.moment.left_out(self._names()))
        if compaction_steps(self.plan):
            self.compactor.begin([self.log_dir.path])
        output = OutputDir.begin(path, self.log_dir, self.needed_bytes(), self.means.fs)
        self._prepare(output)
        copied = [self._partition(planned, output) for planned in self.plan.partitions]
        self._copy_metadata_log(output)
        self._copy_files(set(self.moment.root.plain_files()) - _NOT_COPIED, self.log_dir.path, output)
        self._write_checkpoints(checkpoints, set(self.left_out), output)
        if self.journal:
            self.means.fs.replace_file(output.path / JOURNAL_FILE, b"".join(self.journal), Purpose.COPY)
        self.compactor.close()
        made = self.request.now_ms, self.compactor.name, self.tool_version
        manifest = manifest_of(self.plan, copied, output.path, self.left_out, made, output.sha256_of)
        output.settle()
        self.moment.ensure_unchanged()
        output.finish(manifest)

    def needed_bytes(self) -> int:
        """Return the most bytes that the copy can take. Raises: UnreadableFile."""
        return needed_bytes(self.plan, self.moment, lambda planned: self._left(planned).listing)

    def _prepare(self, output: OutputDir) -> None:
        """Make every directory, and do the work that the compactions share."""
        for name in self._names():
            output.make_dir(name)
        if not self.means.stopping():
            self.compactor.prepare(self._rounds(output), self.means)

    def _names(self) -> list[str]:
        """Return the names of the directories that the copy has."""
        planned = [p if isinstance(p, UnreadablePartition) else p.facts for p in self.plan.partitions]
        metadata = [METADATA_DIR] if METADATA_DIR in self.moment.directories else []
        return [str(facts.topic_partition) for facts in planned] + metadata

    def _rounds(self, output: OutputDir) -> Iterator[tuple[Round, Path]]:
        for planned in self.plan.partitions:
            if isinstance(planned, PartitionPlan) and planned.compaction:
                with suppress(LogCleanerError, OSError):  # reported when its turn comes
                    round_ = self._round(planned, self._left(planned).listing)
                    yield round_, output.path / str(planned.facts.topic_partition)

    def _left(self, planned: PartitionPlan) -> _Left:
        return _left_by_retention(self._recovered(planned), planned)

    def _recovered(self, planned: PartitionPlan) -> Listing:
        return plan_recovery(self.moment.directories[str(planned.facts.topic_partition)].listing()).listing

    def _round(self, planned: PartitionPlan, listing: Listing) -> Round:
        from cleaner.engine.compaction import round_of  # noqa: PLC0415 - loads kernels

        return round_of(planned, listing, self.request, self.means)

    def _partition(self, planned: PartitionPlan | UnreadablePartition, output: OutputDir) -> PartitionCopy:
        if self.means.stopping():
            raise Stopped
        if isinstance(planned, UnreadablePartition):
            return self._as_it_is(planned, output.path / str(planned.topic_partition), output, planned.error)
        facts, start_seconds = planned.facts, self.means.clock.seconds()
        name = str(facts.topic_partition)
        target = output.path / name
        self.moment.directories[name].ensure_unchanged()
        try:
            planned, result = self._as_far_as_guarded(planned, target, output)
        except (OutOfSpace, PlanOutOfDate, Stopped):
            raise
        except (LogCleanerError, OSError, MemoryError) as error:
            if is_of_writing(error):
                raise
            self.moment.directories[name].ensure_unchanged()  # a change may look like damage
            output.empty(target)
            self._cleaned.pop(facts.topic_partition, None)
            self.means.listener.event("partition_failed", **facts.topic_partition._asdict(), error=told(error))
            self.results[planned.key] = PartitionResult(Basis.DONE, error=told(error))
            return self._as_it_is(planned, target, output, told(error))
        if planned.has_work or result.guard:
            self.results[planned.key] = replace(result, seconds=self.means.clock.seconds() - start_seconds)
        return PartitionCopy(planned, name, compacted_to_offset=self._cleaned.get(facts.topic_partition))

    def _as_far_as_guarded(
        self, planned: PartitionPlan, target: Path, output: OutputDir
    ) -> tuple[PartitionPlan, PartitionResult]:
        """Write the partition as planned, or without its compaction if a guard rail holds the compaction back."""
        try:
            return planned, self._cleaned_copy(planned, target, output)
        except HeldBack as held:
            output.empty(target)
            planned = compaction_held_back(planned, held.guard)
            return planned, replace(self._cleaned_copy(planned, target, output), guard=held.guard)

    def _as_it_is(
        self, planned: PartitionPlan | UnreadablePartition, target: Path, output: OutputDir, error: str
    ) -> PartitionCopy:
        directory = self.moment.directories[target.name]
        self._copy_files(directory.plain_files(), directory.path, output)
        return PartitionCopy(planned, target.name, error)

    def _cleaned_copy(self, planned: PartitionPlan, target: Path, output: OutputDir) -> PartitionResult:
        left = self._left(planned)
        absorbed, result = self._copy_segments(planned, left, target, output)
        gone = left.listing.snapshots_of((*left.doomed, *absorbed))
        for snapshot in left.listing.snapshots:
            if snapshot not in gone:
                self._copy_listed(snapshot, target, output)
        directory = self.moment.directories[target.name]
        self._copy_files(filter(is_of_the_partition, directory.plain_files()), directory.path, output)
        if planned.deletion:
            self._follow_deletion(planned, left.listing, target)
        if self.behind:
            self.behind(planned, target, self.means)
        return result

    def _copy_segments(
        self, planned: PartitionPlan, left: _Left, target: Path, output: OutputDir
    ) -> tuple[Iterable[Segment], PartitionResult]:
        """Copy the segments. Return those that became part of others, and the figures."""
        keep = partial(self._copy_segment, target, output)
        result, compaction = PartitionResult(Basis.DONE), planned.compaction
        if self.instead:
            self.instead(planned, left.listing, target, keep)
            return (), result
        if planned.deletion:
            result = result.with_deletion(planned.deletion, at_once=False)
        bases = compaction.base_offsets if compaction else set()
        for segment in left.listing.segments:
            if segment.base_offset not in bases:
                keep(segment)
        if compaction is None:
            return (), result
        absorbed, done = self._compact(planned, left.listing, target, keep)
        self._cleaned[planned.facts.topic_partition] = done.end_offset
        tell_compacted(self.means.listener, planned.facts.topic_partition, compaction, done)
        return absorbed, result.with_compaction(compaction, done)

    def _compact(
        self, planned: PartitionPlan, listing: Listing, target: Path, keep: Callable[[Segment], None]
    ) -> tuple[list[Segment], Compacted]:
        from cleaner.engine.compaction import IntoCopy  # noqa: PLC0415 - loads kernels

        into = IntoCopy(target, planned.policy.index_interval_bytes, self.means.fs, keep)
        done = self.compactor.copy_compacted(self._round(planned, listing), self.means, into)
        return into.absorbed, done

    def _follow_deletion(self, planned: PartitionPlan, listing: Listing, target: Path) -> None:
        """Write the leader epochs and, if everything was deleted, the empty segment."""
        deletion, fs = planned.deletion, self.means.fs
        assert deletion is not None
        if (offset := deletion.roll_at_offset) is not None:
            if not any(snapshot.name.base_offset == offset for snapshot in listing.snapshots):
                state = producer_state_of(planned.facts, self._recovered(planned), self.request.now_ms, self.means)
                write_snapshot(fs, target, offset, state.to_snapshot_bytes())
            create_segment(fs, target, offset)
        truncate_leader_epochs(fs, target, deletion.new_log_start_offset)

    def _copy_metadata_log(self, output: OutputDir) -> None:
        directory = self.moment.directories.get(METADATA_DIR)
        if directory:
            self._copy_files(directory.plain_files(), directory.path, output)

    def _copy_files(self, names: Iterable[str], source: Path, output: OutputDir) -> None:
        """Copy files of one directory into the same directory of the copy."""
        target = output.path / source.relative_to(self.log_dir.path)
        for name in sorted(names):
            output.copy(source / name, self.moment.entry(source / name), target / name)

    def _copy_segment(self, target: Path, output: OutputDir, segment: Segment) -> None:
        for kind in FileKind:
            if kind in segment.files:
                self._copy_listed(segment.files[kind], target, output)

    def _copy_listed(self, file: SegmentFile, target: Path, output: OutputDir) -> None:
        output.copy(file.path, self.moment.entry(file.path), target / str(file.name))

    def _write_checkpoints(self, planned: Mapping[str, Offsets], left_out: set[str], output: OutputDir) -> None:
        """Write the checkpoints of the original, without the partitions that are left out, and with the changes of the
        plan.
        """
        failed = {key for key, result in self.results.items() if result.error}
        done = [p for p in self.plan.partitions if isinstance(p, PartitionPlan) and p.key not in failed]
        changes: dict[str, Mapping[TopicPartition, int | None]] = {
            LOG_START_OFFSET_CHECKPOINT: dict(log_starts_after([p for p in done if p.deletion])),
            CLEANER_OFFSET_CHECKPOINT: dict(corrected_checkpoints(self.plan, failed)) | self._cleaned,
        }
        for name in CHECKPOINTS:
            offsets = {**planned.get(name, {}), **changes.get(name, {})}
            kept = {key: at for key, at in offsets.items() if at is not None and str(key) not in left_out}
            if kept or name in planned:
                self.means.fs.replace_file(output.path / name, format_offset_checkpoint(kept), Purpose.COPY)


def needed_bytes(plan: LogDirPlan, moment: Moment, left_of: Callable[[PartitionPlan], Listing]) -> int:
    """Return the most bytes that a copy can take.

    Args:
        plan: of the log dir.
        moment: the log dir as it was before the plan was made.
        left_of: returns the segments that retention leaves of a partition.

    Raises: UnreadableFile.
    """
    segments_bytes = sum(_segments_bytes(planned, moment, left_of) for planned in plan.partitions)
    metadata = moment.directories.get(METADATA_DIR)
    others_bytes = _data_of(moment.root.path, moment.root.plain_files())
    others_bytes += _data_of(metadata.path, metadata.plain_files()) if metadata else 0
    return segments_bytes + max(others_bytes, _SMALL_FILES_BYTES)


def is_of_the_partition(name: str) -> bool:
    """Return whether a file belongs to no segment: topic id, leader epochs, and files that others put there.

    The files that a repair replaced are left out, as deleted segments are.
    """
    is_left = name.endswith(SCRATCH_SUFFIX) or is_kept_other(name)
    return parse_segment_file_name(name) is None and not is_left


class OutputDir:
    """An empty directory, of this machine or in a store, that becomes a copy of a log dir."""

    def __init__(self, path: Path, fs: FileSystem, mark: bytes | None = None) -> None:
        """Write nothing yet.

        Args:
            path: of the directory.
            fs: the disk, or what writes into the store.
            mark: the content of the file that another process of this run wrote to mark it incomplete.
        """
        self.path = path
        self._fs = fs
        self.mark = mark or b"%srun %s\n" % (_INCOMPLETE_TEXT, uuid4().hex.encode())

    @classmethod
    def begin(cls, path: Path, original: LogDir, needed_bytes: int, fs: FileSystem) -> OutputDir:
        """Make the directory and mark it incomplete, which one run alone can.

        Args:
            path: where the copy is to be.
            original: whose copy; a new directory takes its owner and mode.
            needed_bytes: the most bytes that the copy can take. A store does not tell what is free there.
            fs: the disk, or what writes into the store.

        Raises: UnusableOutput, CopyDoesNotFit before anything was written; OutOfSpace; as of a store.
        """
        check_usable(path, original)
        check_room(path, needed_bytes)
        if not path.exists():
            fs.make_dir(path, original.path, Purpose.COPY)
            fs.fsync_dir(path.parent, Purpose.COPY)
        return cls(path, fs)._marked()

    @classmethod
    def begin_in_store(cls, path: Path, fs: FileSystem) -> OutputDir:
        """Mark a place in a store incomplete, where a log dir that is no copy is to be.

        Raises: UnusableOutput before anything was written; as of a store.
        """
        look_anew([path])
        _check_empty(path)
        fs.make_dir(path, path, Purpose.COPY)
        return cls(path, fs)._marked()

    def _marked(self) -> OutputDir:
        try:
            with self._fs.create(self.path / INCOMPLETE_FILE, self.path, Purpose.COPY) as mark:
                mark.write(self.mark)
                mark.fsync()
            self._fs.fsync_dir(self.path, Purpose.COPY)
        except (FileExistsError, OtherWriter) as error:
            raise UnusableOutput(self.path, "holds a log dir that another run is writing", _ANOTHER) from error
        return self

    def make_dir(self, name: str) -> None:
        """Make a directory in the output, with the owner of the output."""
        self._fs.make_dir(self.path / name, self.path, Purpose.COPY)

    def empty(self, directory: Path) -> None:
        """Remove the leftovers of a failure in one of the copy's directories."""
        self._fs.fsync_dir(directory, Purpose.COPY)  # in a store, what is on its way comes first
        list_anew(directory)  # other processes may have written there
        for path in directory.iterdir():
            self._fs.unlink(path, Purpose.COPY)

    def copy(
        self,
        source: Path,
        planned: EntrySeen,
        target: Path,
        *,
        like: Path | None = None,
        purpose: Purpose = Purpose.COPY,
        size_bytes: int | None = None,
    ) -> None:
        """Copy a file with its time and its holes, within the operating system's kernel if it can.

        Args:
            source: a plain file.
            planned: the state of the file when the plan was made.
            target: a new file.
            like: whose owner and mode it gets; by default those of its directory.
            purpose: of the copy.
            size_bytes: how much of it is copied; by default all.

        Raises: SourceChanged, UnreadableFile, OutOfSpace.
        """
        file = _open(source)
        try:
            if (cause := planned.change_to(_seen(source, file))) is not None:
                raise SourceChanged(source, cause)
            with self._fs.create(target, like or target.parent, purpose) as new:
                new.copy_sparse(file, planned.identity.size_bytes if size_bytes is None else size_bytes)
                new.set_mtime(planned.identity.mtime_ns)
                new.fsync()
            if planned.change_to(_seen(source, file)) is not None:
                raise SourceChanged(source, "it was written to while it was copied")
        except EOFError as error:
            raise SourceChanged(source, "it was truncated while it was copied") from error
        except ObjectChanged as error:
            raise SourceChanged(source, "another version lies there") from error
        except OSError as error:
            raise UnreadableFile(source, f"copying it to {target} failed: {error.strerror or error}") from error
        finally:
            close(file)

    def sha256_of(self, path: Path) -> str:
        """Return the SHA-256 of a file of the copy: read back, or as it was sent. Raises: UnreadableFile."""
        return self._fs.sha256_of(path)

    def settle(self) -> None:
        """Make the names of all copied files durable; every file was fsynced before.

        Raises: OtherWriter if another run took the directory, which some stores let it do.
        """
        self._fs.settle(self.path, Purpose.COPY)
        if read_file(self.path / INCOMPLETE_FILE) != self.mark:
            raise OtherWriter(str(self.path / INCOMPLETE_FILE), "it is not what this run wrote")

    def finish(self, manifest: bytes) -> None:
        """Turn the directory into a copy, after ``settle``."""
        self._fs.replace_file(self.path / MANIFEST_FILE, manifest, Purpose.COPY)
        with suppress(ForbiddenStore):  # in a bucket that keeps everything the mark stays, and the copy is whole
            self._fs.unlink(self.path / INCOMPLETE_FILE, Purpose.COPY)
        self._fs.fsync_dir(self.path, Purpose.COPY)

    def give_up(self) -> None:
        """Take the mark away if it is all that is left, and still that of this run. Raises: as of a store."""
        look_anew([self.path])
        names = [path.name for path in self.path.iterdir()] if self.path.exists() else []
        if names == [INCOMPLETE_FILE] and read_file(self.path / INCOMPLETE_FILE) == self.mark:
            self._fs.unlink(self.path / INCOMPLETE_FILE, Purpose.COPY)


def check_room(path: Path, needed_bytes: int) -> None:
    """Refuse a directory without the space for a copy. A store does not tell what is free. Raises: CopyDoesNotFit."""
    if not is_stored(path):
        space = os.statvfs(path if path.exists() else path.parent)
        if needed_bytes > space.f_bavail * space.f_frsize:
            raise CopyDoesNotFit(path, needed_bytes, space.f_bavail * space.f_frsize)


def check_usable(path: Path, original: LogDir) -> None:
    """Refuse a directory that cannot become a copy of a log dir. Raises: UnusableOutput; as of a store."""
    look_anew([path])
    for place, what in _read_from(original.path):
        check_outside(path, place, what)
    _check_empty(path)


def check_outside(path: Path, place: Path, what: str) -> None:
    """Refuse an output within a directory that is only read; ``what`` that is. Raises: UnusableOutput."""
    resolved, source = path.resolve(), place.resolve()
    if resolved == source or source in resolved.parents:
        raise UnusableOutput(path, f"lies in the {what} {place}", "name a directory outside it")


def _read_from(original: Path) -> Iterator[tuple[Path, str]]:
    """Yield the directories that a log dir is read from, and what each is: those behind a view that shows a tier."""
    view = None
    if isinstance(original, StoredPath):
        from storage.tiers.view import view_at  # noqa: PLC0415 - hardly any run reads a tier

        view = view_at(original)
    if view is not None:
        yield view.tier.path, "tier"
    yield from ((path, "log dir") for path in (view.log_dirs if view else (original,)))


def _check_empty(path: Path) -> None:
    check_in_no_copy(path)
    if not is_stored(path) and path.is_symlink():
        raise UnusableOutput(path, "is a symlink, which is not followed", f"name {path.resolve()} itself")
    if not path.exists():
        if not is_stored(path) and not path.parent.is_dir():
            what = "is no directory" if path.parent.exists() else "does not exist"
            raise UnusableOutput(path, f"{path.parent} {what}", "make it first")
        _check_writable(path, path.parent)
        return
    if not path.is_dir():
        raise UnusableOutput(path, "is no directory", "name a new or an empty one")
    _check_writable(path, path)
    list_anew(path)  # a whole bucket may be empty, and is there
    names = {entry.name for entry in path.iterdir()}
    if MANIFEST_FILE in names:
        raise UnusableOutput(path, "holds a finished log dir already", _ANOTHER)
    if INCOMPLETE_FILE in names:
        raise UnusableOutput(path, f"holds {INCOMPLETE_LOG_DIR}", _ANOTHER)
    if names:
        raise UnusableOutput(path, "is not empty", "name a new or an empty one")


def _check_writable(path: Path, directory: Path) -> None:
    """Refuse a directory in which this user can make no file. A store does not tell before one is written."""
    if not is_stored(path) and not os.access(directory, os.W_OK | os.X_OK):
        raise UnusableOutput(
            path, f"this user cannot write to {directory}", "name another one, or give it to this user"
        )


@dataclass(frozen=True, slots=True)
class _Left:
    """The segments that retention leaves of a partition."""

    listing: Listing
    doomed: tuple[Segment, ...]


def _left_by_retention(listing: Listing, planned: PartitionPlan) -> _Left:
    bases = planned.deletion.base_offsets if planned.deletion else set()
    doomed = tuple(segment for segment in listing.segments if segment.base_offset in bases)
    gone = {file.path for segment in doomed for file in segment.files.values()}
    files = tuple(f for f in listing.in_state(FileState.PLAIN) if f.path not in gone)
    return _Left(Listing(listing.directory, files), doomed)


def _data_of(directory: Path, names: Iterable[str]) -> int:
    """Return the bytes of data in some files of a directory.

    A file that is gone counts nothing; its copying reports the error.
    """
    total_bytes = 0
    with as_unreadable(directory), opened_as_parent(directory) as parent:
        for name in names:
            total_bytes += _data_in(directory / name, parent)
    return total_bytes


def _data_in(path: Path, parent: int | None) -> int:
    try:
        file, size_bytes = open_file(path, parent)
    except OSError:  # its copying reports the error
        return 0
    try:
        return data_bytes(file, size_bytes)
    finally:
        close(file)


def _segments_bytes(
    planned: PartitionPlan | UnreadablePartition, moment: Moment, left_of: Callable[[PartitionPlan], Listing]
) -> int:
    """Return the bytes of segments.

    A compacted log counts whole, because its result has no holes and is at most as long.
    """
    if isinstance(planned, UnreadablePartition):
        return as_it_is_bytes(moment.directories[str(planned.topic_partition)])
    directory = moment.directories[str(planned.facts.topic_partition)]
    try:
        files = left_of(planned).files
    except LogCleanerError:
        return as_it_is_bytes(directory)
    bases = planned.compaction.base_offsets if planned.compaction else set()
    written_bytes, copied = 0, []
    for file in files:
        if file.name.kind is FileKind.LOG and file.name.base_offset in bases:
            written_bytes += file.size_bytes
        else:
            copied.append(file.file_name)
    return written_bytes + _data_of(directory.path, copied)


def as_it_is_bytes(directory: SeenDirectory) -> int:
    """Return the bytes of data in all plain files of a directory."""
    return _data_of(directory.path, directory.plain_files())


def _seen(source: Path, file: OpenFile) -> EntrySeen:
    """Return what lies at a path, which is open; in a store what was listed, since each read names that version."""
    return EntrySeen.of(os.fstat(file) if isinstance(file, int) else status_of(source))


def _open(source: Path) -> OpenFile:
    try:
        return open_to_read(source)
    except UnreadableFile as error:
        if error.has_vanished:
            raise SourceChanged(source, "it is gone") from error
        raise
