"""Local log dirs and a tier, shown as one log dir that lies in a store.

A path in it is a ``StoredPath`` whose store is named ``tier://TIER+LOGDIR+LOGDIR@KEY!GLOB``, each part quoted as in a
URL. So a task on another machine, which has nothing but the path, sees the same log dir.

What it shows:  the files of the local log dirs; for each partition that is tiered its joined log (``joining``) as the
                files of a partition directory, with the epochs of the lineage and the topic id; the offset checkpoints
                of all log dirs in one file. Of several replicas the one that reaches furthest counts. Below
                ``.remote`` each segment of the tier by itself, in a directory
                TOPICID.SEGMENTID.segment/TOPIC-PARTITION, which no listing names.
Until:          ``end_at`` has logs end at an offset. What lies behind it is not shown.
Restored:       if the name has a ``!``, it looks like the log dir that ``restore-tier`` would make: checkpoints speak
                of the joined logs, and nothing tells that a local log dir was stopped cleanly.
                Globs name the partitions of which that is wanted.
Never shown:    ``.lock``, and the manifest of a log dir that is a copy: it names no segment of the tier.
Left out:       segments that cannot be read, such as encrypted ones without a key. ``problems`` names them.
Never:          a write. A broker's own files stay as they are.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, NoReturn
from urllib.parse import quote, unquote

from storage.checkpoints import (
    LeaderEpochEntry,
    format_leader_epochs,
    format_offset_checkpoint,
    format_partition_metadata,
)
from storage.directory import followed
from storage.errors import Corrupt, LogCleanerError
from storage.log.end import next_offset_of
from storage.log.leader_epochs import read_leader_epochs, topic_id_if_sound
from storage.log.listing import Listing, list_partition
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    INCOMPLETE_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    TopicPartition,
    is_named,
    parse_partition_dir_name,
    parse_segment_file_name,
    segment_file_name,
)
from storage.stores.errors import ObjectChanged, StoreFailed, not_there
from storage.stores.opening import add_kind
from storage.stores.paths import SEPARATOR, TIER, StoredPath, path_of_text
from storage.stores.store import Piece as Bytes
from storage.stores.store import StoredEntry, Upload
from storage.tiers.cutting import MadeFile, cut
from storage.tiers.errors import LOCKED
from storage.tiers.joining import OFFSET_MAX, LocalPart, LogPiece, OffsetSpan, join, with_older
from storage.tiers.layout import OriginalFile
from storage.tiers.local import LocalFile
from storage.tiers.objects import listed
from storage.tiers.restored import RestoredPartition, restored_of
from storage.tiers.segments import RemoteSegment, TieredPartition, TierFile
from storage.tiers.tier import Tier

_METADATA_DIR: Final = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
_REMOTE: Final = ".remote"
_HELD: Final = ".segment"
"""Behind the ids of a segment, so that no such name looks like that of a partition."""
_OF_ITS_OWN_LIFE: Final = frozenset({CLEAN_SHUTDOWN_FILE, INCOMPLETE_FILE})
"""The files of a log dir that say how it was left. A joined one was never stopped cleanly."""
_KINDS: Final = {
    TierFile.LOG: FileKind.LOG,
    TierFile.INDEX: FileKind.INDEX,
    TierFile.TIME_INDEX: FileKind.TIME_INDEX,
    TierFile.TXN_INDEX: FileKind.TXN_INDEX,
}


def view_of(
    tier: Path, log_dirs: Iterable[Path] = (), keys: Iterable[str] = (), restored: Iterable[str] | None = None
) -> StoredPath:
    """Return the path of the log dir that shows a tier and local log dirs as one.

    Args:
        tier: where it lies.
        log_dirs: local log dirs; may be none.
        keys: private keys, each as ``ID=FILE`` or ``FILE``.
        restored: globs over topic or partition names, for a log dir as ``restore-tier`` would make it; empty means all.
            None for the log dirs as they are.
    """
    parts = [quote(str(tier.absolute()), safe=":")]
    parts += [f"+{quote(str(followed(path).absolute()), safe=':')}" for path in log_dirs]
    parts += [f"@{quote(key, safe=':=')}" for key in keys]
    parts += [f"!{quote(glob)}" for glob in (restored or [""] if restored is not None else ())]
    return StoredPath(f"{TIER}{SEPARATOR}{''.join(parts)}")


def view_at(path: Path) -> TierView | None:
    """Return the view that a path lies in; None for any other path."""
    if not isinstance(path, StoredPath) or not path.place.startswith(TIER + SEPARATOR):
        return None
    from storage.stores.catalogue import catalogue_of  # noqa: PLC0415 - the catalogue opens the view

    found = catalogue_of(path.place).store
    assert isinstance(found, TierView)
    return found


def log_dirs_behind(path: Path) -> tuple[Path, ...]:
    """Return the log dirs that a view shows; any other path itself."""
    view = view_at(path)
    return view.log_dirs if view else (path,)


def segments_of(view: StoredPath) -> StoredPath:
    """Return the directory in which a view shows every segment of its tier by itself, whoever names it."""
    return StoredPath(view.place, _REMOTE)


def is_of_tier(path: Path) -> bool:
    """Return whether a path is one of ``segments_of``, or lies below it."""
    return isinstance(path, StoredPath) and path.parts[2:3] == (_REMOTE,) and path.place.startswith(TIER + SEPARATOR)


class _UnreadableLog(NamedTuple):
    """The log of a segment that cannot be read, such as an encrypted one without its key."""

    cause: str

    @property
    def size_bytes(self) -> int:
        return 1

    @property
    def version(self) -> str:
        return ""

    def read(self, start: int, end: int) -> memoryview:  # noqa: ARG002
        raise OSError(errno.EIO, self.cause)


class JoinedLog(NamedTuple):
    """One partition of the view."""

    partition: TieredPartition
    local: Path | None
    """The local directory; None without one."""
    lineage: tuple[LeaderEpochEntry, ...]
    part: LocalPart | None
    """The offsets of the local log; None without one."""
    pieces: tuple[LogPiece, ...]
    files: Mapping[str, OriginalFile]
    """The files that the view shows, by name."""
    in_tier: frozenset[int]
    """The base offsets of the segments that are read from the tier."""
    end: int | None = None
    """Where it was told to end; None if it was not."""


@dataclass(slots=True)
class _Shown:
    """A name that the view shows: a directory, or a file with what reads it."""

    entry: StoredEntry
    file: OriginalFile | None = None


@dataclass  # no slots: it keeps what it was asked for
class TierView:
    """Local log dirs and a tier, as a ``Store`` that only reads."""

    has_empty_directories: ClassVar = True
    moves_files: ClassVar = False

    place: str
    tier: Tier
    log_dirs: tuple[Path, ...]
    restored: tuple[str, ...] | None = None
    """Globs for the partitions that are shown as ``restore-tier`` would make them; None if none are."""
    left_out: dict[Path, str] = field(default_factory=dict)
    """The files of the tier that are not to be read, each with the reason, also after ``forget``."""
    problems: dict[str, None] = field(default_factory=dict)
    """What is left out, and why, in the order in which it was found."""
    _shown: dict[str, dict[str, _Shown]] = field(default_factory=dict)
    _joined: dict[str, JoinedLog] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    """Where logs are to end, by the name of the partition."""
    _restored: dict[str, RestoredPartition] = field(default_factory=dict)

    @classmethod
    def opened(cls, place: str, config: Mapping[str, Any]) -> TierView:
        """Open the view that a URL names. Raises: as ``Tier.open``."""
        del config
        names, *globs = place.removeprefix(TIER + SEPARATOR).split("!")
        names, *keys = names.split("@")
        tier, *log_dirs = (path_of_text(unquote(name)) for name in names.split("+"))
        restored = tuple(unquote(glob) for glob in globs if glob) if globs else None
        return cls(place, Tier.open(tier, log_dirs, [unquote(key) for key in keys]), tuple(log_dirs), restored)

    def forget(self) -> None:
        """Have the tier, its metadata and the log dirs looked at anew. Raises: as ``opened``."""
        self.tier = self.opened(self.place, {}).tier
        for known in (self.problems, self._shown, self._joined, self._restored):
            known.clear()
        self.__dict__.pop("_local_dirs", None)

    def end_at(self, ends: Mapping[TopicPartition, int]) -> None:
        """Have logs end at an offset, exclusive, until ``end_nowhere``; also after ``forget``. Raises: as a store.

        A log that ends at its start is shown as one empty segment.
        """
        from storage.stores.catalogue import catalogue_of  # noqa: PLC0415 - as in ``view_at``

        for name, end in ends.items():
            self._ends[str(name)] = end
            self._shown.pop(str(name), None)
            self._joined.pop(str(name), None)
            self._restored.pop(str(name), None)
            catalogue_of(self.place).list_anew(str(name))

    def end_nowhere(self) -> None:
        """Show all logs whole again, as soon as ``forget`` was called."""
        self._ends.clear()

    def tiered(self) -> Mapping[TopicPartition, TieredPartition]:
        """Return the partitions that are read from the tier; of several topics of one name, the one that counts."""
        by_name: dict[TopicPartition, list[TieredPartition]] = {}
        for found in self.tier.partitions:
            by_name.setdefault(found.topic_partition, []).append(found)
        chosen = ((name, self._chosen(name, found)) for name, found in by_name.items())
        return {name: found for name, found in chosen if found is not None}

    def _chosen(self, name: TopicPartition, found: Sequence[TieredPartition]) -> TieredPartition | None:
        """Return the topic of the local directory, else the one that was copied last."""
        local = self._local(str(name))
        topic_id = topic_id_if_sound(local) if local else None
        if topic_id is not None:
            return next((one for one in found if one.topic_id == topic_id), None)
        if len(found) == 1:
            return found[0]

        def newest_ms(partition: TieredPartition) -> int:
            segments = self.tier.readable(partition)
            return max((s.event_ms or (s.stored.newest_ms if s.stored else 0) for s in segments), default=-1)

        return max(found, key=newest_ms)

    def joined(self, name: TopicPartition) -> JoinedLog | None:
        """Return the joined log of a partition; None if it is not read from the tier. Raises: as a store."""
        partition = self.tiered().get(name)
        if partition is None:
            return None
        if str(name) not in self._joined:
            self._joined[str(name)] = self._join(partition)
        return self._joined[str(name)]

    def as_restored(self, name: TopicPartition) -> RestoredPartition | None:
        """Return a partition as a plain log; None if it is not read from the tier. Raises: as a store."""
        joined = self.joined(name)
        if joined is None:
            return None
        if str(name) not in self._restored:
            self._restored[str(name)] = self._as_restored(name, joined)
        return self._restored[str(name)]

    def missing(self, name: TopicPartition) -> tuple[tuple[int, int], ...]:
        """Return the offsets of a partition that somebody names, and no copy has: from, and to before. Raises: as a
        store.
        """
        found = self.as_restored(name)
        return found.missing if found else ()

    def _as_restored(self, name: TopicPartition, joined: JoinedLog) -> RestoredPartition:
        local, stated = joined.local, None
        if local is not None:
            stated = LogDir(local.parent).offsets(LOG_START_OFFSET_CHECKPOINT).get(name)
        end = joined.pieces[-1].end if joined.pieces else stated or 0
        if end == OFFSET_MAX and local is not None:
            end = next_offset_of(list_partition(local).segments[-1])
        is_cut = joined.end is not None
        return restored_of(self.tier, joined.partition, joined.pieces, joined.lineage, end, stated, is_cut=is_cut)

    def _local(self, name: str) -> Path | None:
        return self._local_dirs.get(name)

    @cached_property
    def _local_dirs(self) -> Mapping[str, Path]:
        """The directories of partitions in the local log dirs, by name.

        Of several replicas that of the latest leader epoch counts, and of those the longest one.
        """
        found: dict[str, list[Path]] = {}
        for log_dir in self.log_dirs:
            for directory in (*(path for _, path in LogDir(log_dir).partitions()), log_dir / _METADATA_DIR):
                if directory.name != _METADATA_DIR or directory.is_dir():
                    found.setdefault(directory.name, []).append(directory)
        return {name: max(held, key=_reach) if len(held) > 1 else held[0] for name, held in found.items()}

    def _join(self, partition: TieredPartition) -> JoinedLog:
        local = self._local(str(partition))
        listing = list_partition(local) if local else None
        files = self._readable(partition)
        lineage = self.tier.lineage(partition)
        own = tuple(read_leader_epochs(local)) if local else ()
        if own and (not lineage or own[-1].epoch >= lineage[-1].epoch):
            lineage = with_older(own, [lineage, *(segment.epochs for segment in files.values())])
        else:
            lineage = with_older(lineage, [own])
        own = with_older(own, [lineage])
        part = (
            _local_part(listing, own, max((s.next_offset or 0 for s in files.values()), default=0)) if listing else None
        )
        pieces = join(files.values(), lineage, part, self._log_start(local))
        end = self._ends.get(str(partition))
        if end is not None:
            first = min((piece.start for piece in pieces), default=end)
            pieces = [piece._replace(end=min(piece.end, end)) for piece in pieces if piece.start < end]
            lineage = tuple(entry for entry in lineage if entry.start_offset < end)
        shown: dict[str, OriginalFile] = {}
        kept, in_tier = [], set[int]()
        for piece in pieces:
            if found := self._files_of(listing, piece):
                kept.append(piece)
                in_tier.update(_bases_of(found) if piece.remote else ())
                shown |= found
        if end is not None and not any(map(_is_log, shown)):
            shown[segment_file_name(first, FileKind.LOG)] = MadeFile(b"")
        shown[LEADER_EPOCH_CHECKPOINT] = MadeFile(format_leader_epochs(lineage))
        shown[PARTITION_METADATA_FILE] = MadeFile(format_partition_metadata(partition.topic_id))
        return JoinedLog(partition, local, lineage, part, tuple(kept), shown, frozenset(in_tier), end)

    def _log_start(self, local: Path | None) -> int:
        if local is None:
            return 0
        offsets = LogDir(local.parent).offsets(LOG_START_OFFSET_CHECKPOINT)
        found = parse_partition_dir_name(local.name)
        return offsets.get(found.topic_partition, 0) if found else 0

    def _readable(self, partition: TieredPartition) -> dict[str, RemoteSegment]:
        """Return the segments that can be read, by id; note the others."""
        found = {}
        for segment in self.tier.segments(partition):
            if segment.problem and segment.end_offset is not None:  # what there is of it is shown
                self.problems[f"{segment}: {segment.problem}"] = None
            elif segment.problem:
                self._note(segment, segment.problem)
        for segment in self.tier.readable(partition):
            try:
                files = self._files(segment)
            except LOCKED as error:
                self.problems[f"{partition}: left out: {error.cause}"] = None
                continue
            except (LogCleanerError, FileNotFoundError) as error:
                self._note(segment, str(error))
                continue
            if TierFile.LOG not in files:
                stored = segment.stored.objects.values() if segment.stored else ()
                causes = [self.left_out[one.path] for one in stored if one.path in self.left_out]
                self._note(segment, causes[0] if causes else "its .log is not there")
                continue
            wrong = self._wrong_size(segment)
            if wrong and self.restored is not None:
                self._note(segment, wrong)
                continue
            if wrong:  # what there is of it is shown
                self.problems[f"{segment}: {wrong}"] = None
            found[segment.segment_id] = segment
        return found

    def _wrong_size(self, segment: RemoteSegment) -> str:
        """Return which file has another size than was copied, in words; of a log dir as it is, the log alone counts."""
        wrong = self.tier.wrong_sizes(segment)
        counted = (one for one in wrong if self.restored is not None or one.path.name.endswith(TierFile.LOG))
        one = next(counted, None)
        return f"{one.path} has {one.size_bytes:,} bytes, not {one.due_bytes:,}" if one else ""

    def _files(self, segment: RemoteSegment) -> dict[TierFile, OriginalFile]:
        """Return the files of a segment, but for those that are left out. Raises: as ``Layout.files``."""
        files = self.tier.layout.files(segment)
        return {kind: file for kind, file in files.items() if file.found.path not in self.left_out}

    def _note(self, segment: RemoteSegment, cause: str) -> None:
        self.problems[f"{segment}: left out: {cause}"] = None

    def _files_of(self, listing: Listing | None, piece: LogPiece) -> dict[str, OriginalFile]:
        """Return the files of a piece; none of a segment that cannot be cut to it."""
        if piece.remote is not None:
            return self._remote_files(piece, piece.remote)
        assert listing is not None
        return _local_files(listing, piece)

    def _remote_files(self, piece: LogPiece, segment: RemoteSegment) -> dict[str, OriginalFile]:
        base_offset, files = segment.start_offset, self._files(segment)
        if piece.is_cut_at_start or piece.is_cut_at_end:
            try:
                whole = list_partition(self.path_of(segment)).segments[0]
                base_offset, files = cut(whole, files, piece.start, piece.end)
            except Corrupt as error:
                self._note(segment, str(error))
                return {}
        shown = {segment_file_name(base_offset, kind): files[name] for name, kind in _KINDS.items() if name in files}
        if not piece.is_cut_at_end and TierFile.SNAPSHOT in files:
            shown[segment_file_name(piece.end, FileKind.SNAPSHOT)] = files[TierFile.SNAPSHOT]
        return shown

    def object_of(self, path: Path) -> Path:
        """Return the file of the tier that holds what is shown at a path of ``segments_of``; else the path itself."""
        name, segment = parse_segment_file_name(path.name), self._held.get(path.parent.parent.name)
        objects = segment.stored.objects if segment and segment.stored else {}
        suffixes = (name.kind.value if name else "", ".indexes", *objects)
        return next((objects[suffix].path for suffix in suffixes if suffix in objects), path)

    @cached_property
    def _held(self) -> Mapping[str, RemoteSegment]:
        """All segments of which files lie in the tier, whoever names them, by the names of their log dirs."""
        segments = (one for partition in self.tier.partitions for one in self.tier.segments(partition))
        return {self.path_of(segment).parent.name: segment for segment in segments if segment.stored}

    def path_of(self, segment: RemoteSegment) -> StoredPath:
        """Return the directory in which the view shows a segment of the tier by itself.

        It looks like that of a partition of which the segment is all, sealed, in a log dir of its own.
        """
        held = f"{segment.partition.topic_id}.{segment.segment_id}{_HELD}"
        return StoredPath(self.place, _REMOTE, held, str(segment.partition))

    def _alone(self, held: str, name: str | None) -> dict[str, _Shown]:
        """Return the names in the log dir of one segment, or in the directory of its partition."""
        segment = self._held.get(held)
        if segment is None or name not in (None, str(segment.partition)):
            return {}
        if name is None:
            name = str(segment.partition)
            return {name: _Shown(StoredEntry(name, is_directory=True))}
        return self._files_alone(segment)

    def _files_alone(self, segment: RemoteSegment) -> dict[str, _Shown]:
        base, newest_ms = segment.start_offset, segment.stored.newest_ms if segment.stored else 0
        try:
            files = self.tier.layout.files(segment)
        except LogCleanerError as error:
            return _as_shown({segment_file_name(base, FileKind.LOG): _UnreadableLog(str(error))}, newest_ms)
        shown: dict[str, OriginalFile] = {
            segment_file_name(base, kind): files[name] for name, kind in _KINDS.items() if name in files
        }
        if segment.next_offset is not None:  # what follows makes it a sealed one
            shown[segment_file_name(segment.next_offset, FileKind.LOG)] = MadeFile(b"")
            if TierFile.SNAPSHOT in files:
                shown[segment_file_name(segment.next_offset, FileKind.SNAPSHOT)] = files[TierFile.SNAPSHOT]
        return _as_shown(shown, newest_ms)

    def _names(self, directory: str) -> dict[str, _Shown]:
        if directory not in self._shown:
            self._shown[directory] = self._look_into(directory)
        return self._shown[directory]

    def _look_into(self, directory: str) -> dict[str, _Shown]:
        if not directory:
            return self._root()
        parts = directory.split("/")
        if parts[0] == _REMOTE:
            if len(parts) == 1:
                return {name: _Shown(StoredEntry(name, is_directory=True)) for name in self._held}
            return self._alone(parts[1], parts[2] if len(parts) > 2 else None) if len(parts) <= 3 else {}
        found: dict[str, _Shown] = {}
        for log_dir in [held.parent] if (held := self._local(directory)) else self.log_dirs:
            with suppress(FileNotFoundError, NotADirectoryError):
                found = _passed_on(log_dir / directory)
                break
        parsed = parse_partition_dir_name(directory)
        joined = self.joined(parsed.topic_partition) if parsed and str(parsed.topic_partition) == directory else None
        if joined is not None:
            found = {name: one for name, one in found.items() if parse_segment_file_name(name) is None}
            found |= _as_shown(joined.files, _newest_ms(joined))
        elif (end := self._ends.get(directory)) is not None and (local := self._local(directory)):
            found = {name: one for name, one in found.items() if parse_segment_file_name(name) is None}
            found |= _as_shown(_local_files_until(local, end), 0)
        return found

    def _root(self) -> dict[str, _Shown]:
        shown: dict[str, _Shown] = {}
        for log_dir in reversed(self.log_dirs):
            shown |= _passed_on(log_dir)
        for name in (LOCK_FILE, MANIFEST_FILE):  # a manifest of a copy speaks of the copy alone
            shown.pop(name, None)
        for name in _OF_ITS_OWN_LIFE if self.restored is not None else ():
            shown.pop(name, None)
        for name in OFFSET_CHECKPOINTS:
            if offsets := self._offsets(name):
                shown |= _as_shown({name: MadeFile(format_offset_checkpoint(offsets))}, 0)
        for found in self.tiered():
            shown.setdefault(str(found), _Shown(StoredEntry(str(found), is_directory=True)))
        return shown

    def _offsets(self, checkpoint: str) -> dict[TopicPartition, int]:
        """Return what the checkpoints of a name say of all log dirs; if restored, of the joined logs."""
        offsets: dict[TopicPartition, int] = {}
        for log_dir in self.log_dirs:
            for name, offset in LogDir(log_dir).offsets(checkpoint).items():
                local = self._local(str(name))
                if local is None or local.parent == log_dir:  # that of another replica says nothing about this one
                    offsets[name] = offset
        if self.restored is None or checkpoint == CLEANER_OFFSET_CHECKPOINT:
            return offsets
        for name in self.tiered():
            found = self.as_restored(name) if is_named(name, self.restored) else None
            if found is not None:
                offsets[name] = found.offset_in(checkpoint, offsets.get(name, 0))
        return offsets

    def list(self, directory: str) -> list[StoredEntry]:
        """Return the names in a directory. Raises: as ``Store``."""
        return [shown.entry for shown in self._names(directory).values()]

    def walk(self, directory: str) -> Iterator[tuple[str, StoredEntry]]:
        """Yield every file below a directory. Raises: as ``Store``."""
        for name, shown in self._names(directory).items():
            if shown.entry.is_directory:
                yield from self.walk(f"{directory}/{name}".lstrip("/"))
            else:
                yield directory, shown.entry

    def look(self, name: str) -> StoredEntry:
        """Return the entry of a file. Raises: as ``Store``."""
        return self._found(name).entry

    def _found(self, name: str) -> _Shown:
        directory, _, file_name = name.rpartition("/")
        found = self._names(directory).get(file_name)
        if found is None:
            raise not_there(f"{self.place}/{name}")
        return found

    def range(self, name: str, start: int, end: int, version: str | None) -> Bytes:
        """Read a range of a file. Arguments and errors as of ``Store.range``; also CorruptTier, NoKey."""
        found = self._found(name)
        if found.file is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), f"{self.place}/{name}")
        if version and version != found.entry.version:
            raise ObjectChanged(f"{self.place}/{name}")
        size_bytes = found.file.size_bytes
        return Bytes(found.file.read(start, min(end, size_bytes)), found.entry.version, size_bytes)

    def whole(self, name: str, version: str | None) -> Bytes:
        """Read a whole file. Arguments and errors as of ``range``."""
        found = self._found(name)
        return self.range(name, 0, found.file.size_bytes if found.file else 0, version)

    def put(self, name: str, data: bytes | bytearray, *, is_new: bool) -> StoredEntry:  # noqa: ARG002
        """Refuse. Raises: StoreFailed."""
        self._refuse(name)

    def upload(self, name: str) -> Upload:
        """Refuse. Raises: StoreFailed."""
        self._refuse(name)

    def move(self, name: str, target: str, size_bytes: int) -> StoredEntry:  # noqa: ARG002
        """Refuse. Raises: StoreFailed."""
        self._refuse(name)

    def delete(self, name: str) -> None:
        """Refuse. Raises: StoreFailed."""
        self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        raise StoreFailed(f"{self.place}/{name}", "a tier is only read", is_writing=True)


def _newest_ms(joined: JoinedLog) -> int:
    return max((p.remote.stored.newest_ms for p in joined.pieces if p.remote and p.remote.stored), default=0)


def _as_shown(files: Mapping[str, OriginalFile], mtime_ms: int) -> dict[str, _Shown]:
    """Return files as names of a directory, each with the time of its own file, or else with one for all."""
    shown = {}
    for name, file in files.items():
        own_ms = file.found.mtime_ms if isinstance(file, LocalFile) else mtime_ms
        entry = StoredEntry(name, file.size_bytes, file.version or f"unnamed-{file.size_bytes}", own_ms * 1_000_000)
        shown[name] = _Shown(entry, file)
    return shown


def _passed_on(directory: Path) -> dict[str, _Shown]:
    """Return what lies in a directory, as it is."""
    shown: dict[str, _Shown] = {}
    for name, found in listed(directory):
        if found is None:
            shown[name] = _Shown(StoredEntry(name, is_directory=True))
        else:
            shown |= _as_shown({name: LocalFile(found)}, 0)
    return shown


def _bases_of(files: Iterable[str]) -> Iterator[int]:
    """Yield the base offsets of the logs among some files."""
    for name in map(parse_segment_file_name, files):
        if name is not None and name.kind is FileKind.LOG:
            yield name.base_offset


def _local_part(listing: Listing, epochs: tuple[LeaderEpochEntry, ...], remote_end: int) -> LocalPart | None:
    """Return what the local log has. Its end is read only if the tier may reach further."""
    if not listing.segments:
        return None
    last = listing.segments[-1]
    end = next_offset_of(last) if remote_end > last.base_offset else OFFSET_MAX
    return LocalPart(OffsetSpan(listing.segments[0].base_offset, end), epochs)


def _local_files(listing: Listing, piece: LogPiece) -> dict[str, OriginalFile]:
    """Return the files of a local log, up to the end of a piece."""
    objects = {name: LocalFile(found) for name, found in listed(listing.directory) if found is not None}
    shown: dict[str, OriginalFile] = {}
    for name, file in objects.items():
        parsed = parse_segment_file_name(name)
        if parsed and parsed.base_offset < piece.end + (parsed.kind is FileKind.SNAPSHOT):
            shown[name] = file
    below = [segment for segment in listing.segments if segment.base_offset < piece.end]
    if below and piece.end < OFFSET_MAX and (whole := below[-1]) and next_offset_of(whole) > piece.end:
        files = {
            kind: shown[n] for kind in _KINDS if (n := segment_file_name(whole.base_offset, _KINDS[kind])) in shown
        }
        _, made = cut(whole, files, whole.base_offset, piece.end)
        shown |= {segment_file_name(whole.base_offset, _KINDS[kind]): file for kind, file in made.items()}
    return shown


def _local_files_until(directory: Path, end: int) -> dict[str, OriginalFile]:
    """Return the files of a local log that is not tiered, as if it ended at an offset."""
    listing = list_partition(directory)
    first = listing.segments[0].base_offset
    shown = _local_files(listing, LogPiece(first, end, None))
    if not any(map(_is_log, shown)):
        shown[segment_file_name(first, FileKind.LOG)] = MadeFile(b"")
    if epochs := read_leader_epochs(directory):
        kept = [entry for entry in epochs if entry.start_offset < end]
        shown[LEADER_EPOCH_CHECKPOINT] = MadeFile(format_leader_epochs(kept))
    return shown


def _reach(directory: Path) -> tuple[int, int]:
    """Return the latest leader epoch of a log, and its end; -1 for what cannot be read."""
    epoch, end = -1, -1
    with suppress(LogCleanerError):
        epoch = max((entry.epoch for entry in read_leader_epochs(directory)), default=-1)
    with suppress(LogCleanerError):
        segments = list_partition(directory).segments
        end = next_offset_of(segments[-1]) if segments else -1
    return epoch, end


def _is_log(name: str) -> bool:
    parsed = parse_segment_file_name(name)
    return parsed is not None and parsed.kind is FileKind.LOG


add_kind(TIER, TierView.opened)
