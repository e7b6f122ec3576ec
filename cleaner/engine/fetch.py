"""``fetch``: a copy of a log dir is brought here, out of a bucket, HDFS or another directory, and checked.

Steps:      everything is written to a directory beside the wanted one, ``NAME.unfinished-ID``, where ``ID`` stands for
            the place that is fetched. In it ``logcleaner-incomplete`` notes each file that is there whole: version,
            size and SHA-256, which another thread computes while the bytes pass. Each file is fsynced. Then the place
            is listed again, the files are checked, the note goes, and the directory gets its name.
Invariant:  a directory with the wanted name is whole. One without a name is nothing to a broker.
Again:      a run that finds such a directory keeps what is noted if the same version lies there still, and if the file
            here has the noted SHA-256, which is computed anew. All else is fetched again.
Assumes:    nobody writes to the directory beside; a lock on its note keeps a second fetch out.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cleaner.engine.copy.manifest import CopyDoesNotFit, ManifestFile, change_since, check_in_no_copy, read_manifest
from cleaner.engine.copy.moment import IGNORED, EntrySeen, Moment, SourceChanged
from cleaner.engine.means import Means
from cleaner.errors import UnusableOutput
from storage.directory import close, pread, read_ahead, view
from storage.errors import ErrorKind, LogCleanerError, PlanOutOfDate, Stopped, UnreadableFile, as_unreadable
from storage.filesystem import NewFile, OutOfSpace, Purpose
from storage.log_dir import LogDir, read_file
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from storage.segment import open_to_read
from storage.stores.errors import ObjectChanged
from storage.stores.paths import look_anew

if TYPE_CHECKING:
    from cleaner.engine.verify.checked import Checked

SCHEMA: Final = "logcleaner.fetch-notes/1"
THREADS: Final = 4
_PIECE_BYTES: Final = 1 << 20
_NS_A_MS: Final = 1_000_000
_ZEROS: Final = bytes(_PIECE_BYTES)
_GOES_ON: Final = "run again, and the fetch goes on from there"
_ROOM: Final = "make room, or name a directory on a file system with more space"


class AlreadyFetching(LogCleanerError):
    """Another process that fetches the same place to the same directory."""

    kind = ErrorKind.LOCKED

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: another process fetches into it; wait for that one"


class Differing(NamedTuple):
    """A file that is not what the manifest of the copy says."""

    path: str
    problem: str


class Fetched(NamedTuple):
    """A copy that was brought here."""

    source: str
    directory: str
    unfinished: str
    """The directory in which everything lies until it is finished."""
    files: int
    size_bytes: int
    resumed_files: int
    """The files of them that an earlier fetch had brought."""
    resumed_bytes: int
    has_manifest: bool
    left_out: tuple[str, ...]
    """What lies there and was not brought."""
    differing: tuple[Differing, ...]
    """What the manifest says otherwise."""


class Alteration(NamedTuple):
    """A change of the bytes of a file while they pass. Its size stays."""

    mark: int
    """Tells the change from others: a file that is here already counts only if it was changed alike."""
    altered: Callable[[Iterable[bytes | memoryview]], Iterable[bytes | memoryview]]


class _Noted(NamedTuple):
    """The note of a file."""

    version: list[int]
    size_bytes: int
    sha256: str


class Fetch:
    """Brings one copy."""

    def __init__(
        self, source: Path, directory: Path, means: Means, threads: int = THREADS,
        wants: Callable[[str], bool] = lambda _: True, alters: Callable[[str], Alteration | None] = lambda _: None,
        *, is_listed: bool = False,
    ) -> None:  # fmt: skip
        """Do nothing yet.

        Args:
            source: the copy, of this machine or in a store.
            directory: a new or an empty directory of this machine.
            means: of the run; ``progress`` hears of each byte that is here.
            threads: files that are brought at the same time, each with at most 48 MiB in memory.
            wants: whether the file of a path within the copy is brought at all.
            alters: how it is changed.
            is_listed: bring what the last listing told, as somebody planned by it; if that is gone, say so.
        """
        self._is_listed = is_listed
        self._wants, self._alters = wants, alters
        self._source, self._directory, self._means, self._threads = source, directory.absolute(), means, threads
        self._is_stopping = False
        self._noting = Lock()
        self._notes: NewFile | None = None
        self.sums: dict[str, str] = {}
        """The SHA-256 of each file that is here, as it was brought."""
        self._times_ms: dict[str, int] = {}
        name = hashlib.blake2b(str(source).encode(), digest_size=4).hexdigest()
        self.unfinished = self._directory.with_name(f"{self._directory.name}.unfinished-{name}")

    def stop(self) -> None:
        """Ask the fetch to end soon; safe to call from a signal handler."""
        self._is_stopping = True

    def bring(self, check: Callable[[LogDir], Checked | None], *, with_damage: bool) -> tuple[Fetched, Checked | None]:
        """Bring everything, check it, and give the directory its name if nothing is wrong.

        Args:
            check: checks every checksum of a log dir; None if a signal ended that.
            with_damage: give it its name also if something is damaged.

        Raises:
            UnusableOutput, IncompleteCopy, NotALogDir, CopyDoesNotFit, AlreadyFetching: nothing was written.
            SourceChanged, OutOfSpace, UnreadableFile, Stopped, StoreError: a later run goes on.
        """
        check_directory(self._directory)
        if not self._is_listed:
            look_anew([self._source])
        log_dir = LogDir.open(self._source)
        manifest = read_manifest(self._source)
        if manifest and change_since(self._source, manifest):
            manifest = None
        named = {file.path for file in manifest.files} if manifest else set[str]()
        moment = Moment.of(log_dir, (), IGNORED - named)  # an erased copy has a journal that belongs to it
        files = {path: seen for path, seen in _files_of(moment).items() if self._wants(path)}
        said = {file.path: file for file in manifest.files} if manifest else {}
        self._times_ms = {file.path: file.mtime_ms for file in said.values() if file.mtime_ms}
        extra = {path for path in files if said and path not in said and path != MANIFEST_FILE}
        extra |= files.keys() & {MANIFEST_FILE} if manifest is None else set()
        wanted = {path: seen for path, seen in files.items() if path not in extra}
        if manifest is not None:  # ``change_since`` goes by it: a store has the times of any order of uploads
            self._times_ms[MANIFEST_FILE] = max(seen.identity.mtime_ms for seen in wanted.values())
        left_out = (*moment.left_out(moment.directories.keys()), *sorted(extra))
        directories = {path.partition("/")[0] for path in wanted if "/" in path}
        if not said:
            directories |= {name for name in moment.directories if self._wants(f"{name}/")}
        with self._opened(directories) as noted:
            here = self._kept(wanted, noted)
            for path in sorted(path for path in self.unfinished.iterdir() if path.is_dir()):
                if path.name not in directories:  # of an earlier run that wanted other partitions
                    self._means.fs.remove_dir(path, Purpose.COPY)
            self._bring(wanted, here)
            self._ensure_unchanged(moment)
            fetched = Fetched(
                str(self._source),
                str(self._directory),
                str(self.unfinished),
                len(wanted),
                sum(seen.identity.size_bytes for seen in wanted.values()),
                len(here),
                sum(noted[path].size_bytes for path in here),
                manifest is not None,
                left_out,
                tuple(_differing(said.values(), self.sums)),
            )
            checked = check(LogDir(self.unfinished))
            is_well = checked is not None and not checked.is_damaged and not checked.problems
            if checked is not None and (with_damage or (is_well and not fetched.differing)):
                self._finish()
        return fetched, checked

    @property
    def is_finished(self) -> bool:
        """Return whether the directory has its name."""
        return not self.unfinished.exists()

    @contextmanager
    def _opened(self, directories: Iterable[str]) -> Iterator[Mapping[str, _Noted]]:
        """Make the directory beside, or take up that of an earlier fetch, under a lock. Yield what is noted there.

        ``directories`` are made in it.
        """
        fs, path = self._means.fs, self.unfinished
        if not path.exists():
            fs.make_dir(path, self._directory if self._directory.exists() else path.parent, Purpose.COPY)
            fs.fsync_dir(path.parent, Purpose.COPY)
        note = path / INCOMPLETE_FILE
        with suppress(FileExistsError), fs.create(note, path, Purpose.COPY) as new:
            new.write(json.dumps({"schema": SCHEMA, "source": str(self._source)}).encode() + b"\n")
        with fs.open_to_append(note, Purpose.COPY) as self._notes:
            try:
                fcntl.flock(self._notes.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise AlreadyFetching(path) from error
            noted = _parsed(read_file(note) or b"")
            self._notes.write(b"\n")  # behind a line that a crash cut off
            for name in sorted(directories):
                with suppress(FileExistsError):
                    fs.make_dir(path / name, path, Purpose.COPY)
            yield noted

    def _kept(self, wanted: Mapping[str, EntrySeen], noted: Mapping[str, _Noted]) -> set[str]:
        """Return what is here already, whole, each file read for its SHA-256; remove everything else."""
        here = {path.relative_to(self.unfinished).as_posix(): path for path in _files_below(self.unfinished)}
        here.pop(INCOMPLETE_FILE, None)
        noted = {name: note for name, note in noted.items() if name in here and self._is_of(note, name, wanted)}
        self._means.listener.expect(sum(note.size_bytes for note in noted.values()))
        with self._stopping_pool("sum") as threads:
            sums = dict(zip(noted, threads.map(lambda name: self._sum_of(here[name]), noted), strict=True))
        kept = {name for name, sha256 in sums.items() if sha256 == noted[name].sha256}
        for name in here.keys() - kept:
            self._means.fs.unlink(here[name], Purpose.COPY)
        self.sums.update({name: sums[name] for name in kept})
        return kept

    def _is_of(self, note: _Noted, name: str, wanted: Mapping[str, EntrySeen]) -> bool:
        """Return whether a file was noted of the version that lies there now."""
        return name in wanted and note.version == self._version(name, wanted[name])

    def _sum_of(self, path: Path) -> str:
        """Return the SHA-256 of a file that is here. Raises: Stopped, UnreadableFile."""
        digest, file = hashlib.sha256(), open_to_read(path)
        try:
            at = 0
            while piece := pread(file, _PIECE_BYTES, at):
                self._ensure_going()
                digest.update(piece)
                at += len(piece)
                self._means.listener.progress(len(piece))
        finally:
            close(file)
        return digest.hexdigest()

    @contextmanager
    def _stopping_pool(self, name: str) -> Iterator[ThreadPoolExecutor]:
        """Yield threads. An error ends what they do."""
        with ThreadPoolExecutor(self._threads, name) as threads:
            try:
                yield threads
            except BaseException:
                self.stop()
                threads.shutdown(wait=True, cancel_futures=True)
                raise

    def _bring(self, wanted: Mapping[str, EntrySeen], here: set[str]) -> None:
        to_come = {path: seen for path, seen in wanted.items() if path not in here}
        needed_bytes = sum(seen.identity.size_bytes for seen in to_come.values())
        space = os.statvfs(self.unfinished)
        if needed_bytes > space.f_bavail * space.f_frsize:
            raise CopyDoesNotFit(self.unfinished, needed_bytes, space.f_bavail * space.f_frsize, _ROOM)
        self._means.listener.expect(needed_bytes)
        with self._stopping_pool("sum") as summing, self._stopping_pool("fetch") as threads:
            coming = [threads.submit(self._bring_file, path, seen, summing) for path, seen in sorted(to_come.items())]
            for one in as_completed(coming):
                one.result()
                self._ensure_going()

    def _bring_file(self, name: str, seen: EntrySeen, summing: Executor) -> None:
        source, target, size_bytes = self._source / name, self.unfinished / name, seen.identity.size_bytes
        self._ensure_going()  # else each thread begins files that it gives up at once
        try:
            file = open_to_read(source)
            try:
                read_ahead(file, 0, size_bytes)
                with self._means.fs.create(target, target.parent, Purpose.COPY) as new:
                    pieces: Iterable[bytes | memoryview] = (
                        view(file, min(_PIECE_BYTES, size_bytes - at), at) for at in range(0, size_bytes, _PIECE_BYTES)
                    )
                    alteration = self._alters(name)
                    sha256 = self._written(alteration.altered(pieces) if alteration else pieces, new, summing)
                    if new.size_bytes != size_bytes:
                        raise SourceChanged(source, "it became shorter", _GOES_ON)
                    new.set_mtime(self._times_ms.get(name, seen.identity.mtime_ms) * _NS_A_MS)
                    new.fsync()
            finally:
                close(file)
        except FileNotFoundError as error:
            cause = "another version lies there" if isinstance(error, ObjectChanged) else "it is gone"
            raise SourceChanged(source, cause, _GOES_ON) from error
        except UnreadableFile as error:
            if error.has_vanished:
                raise SourceChanged(source, "it is gone", _GOES_ON) from error
            raise
        except OutOfSpace as error:
            raise OutOfSpace(error.path, error.wanted_bytes, f"make room; {_GOES_ON}") from error
        self._note(name, seen, sha256)

    def _written(self, pieces: Iterable[bytes | memoryview], new: NewFile, summing: Executor) -> str:
        """Write pieces, zeros as holes, and return their SHA-256. While a piece is written, it is summed."""
        digest, summed = hashlib.sha256(), None
        for piece in pieces:
            self._ensure_going()
            if summed is not None:
                summed.result()
            summed = summing.submit(digest.update, piece)
            if piece == _ZEROS[: len(piece)]:
                new.extend_to(new.size_bytes + len(piece))
            else:
                new.write(piece)
            new.write_out()
            self._means.listener.progress(len(piece))
        if summed is not None:
            summed.result()
        return digest.hexdigest()

    def _version(self, name: str, seen: EntrySeen) -> list[int]:
        """Return what tells a file, as it is brought, from others: in a store the number of its version, here its
        inode.
        """
        identity, alteration = seen.identity, self._alters(name)
        found = [identity.inode, identity.size_bytes, identity.mtime_ns, seen.changed_ns]
        return [*found, alteration.mark] if alteration else found

    def _note(self, name: str, seen: EntrySeen, sha256: str) -> None:
        line = {"path": name, "version": self._version(name, seen), "bytes": seen.identity.size_bytes, "sha256": sha256}
        with self._noting:
            self.sums[name] = sha256
            assert self._notes is not None
            self._notes.write(json.dumps(line).encode() + b"\n")

    def _ensure_going(self) -> None:
        if self._is_stopping:
            raise Stopped

    def _ensure_unchanged(self, moment: Moment) -> None:
        try:
            moment.ensure_unchanged()
        except PlanOutOfDate as error:
            raise SourceChanged(error.path, error.cause, _GOES_ON) from error

    def _finish(self) -> None:
        fs = self._means.fs
        fs.settle(self.unfinished, Purpose.COPY)
        fs.unlink(self.unfinished / INCOMPLETE_FILE, Purpose.COPY)
        fs.fsync_dir(self.unfinished, Purpose.COPY)
        fs.rename(self.unfinished, self._directory, Purpose.COPY)
        fs.fsync_dir(self._directory.parent, Purpose.COPY)


def check_directory(path: Path) -> None:
    """Refuse a directory that cannot be made, or is not empty. Raises: UnusableOutput; as of a store."""
    if not path.parent.is_dir():
        raise UnusableOutput(path, f"{path.parent} does not exist", "make it first")
    check_in_no_copy(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise UnusableOutput(path, "is no directory", "name a new or an empty one")
    if any(path.iterdir()):
        raise UnusableOutput(path, "is not empty", "name a new or an empty one")
    if path.is_mount():
        raise UnusableOutput(path, "is a mount point, whose name no other directory can get", "name a new one in it")


def _files_of(moment: Moment) -> dict[str, EntrySeen]:
    """Return the files that a log dir consists of, by path."""
    root = moment.root
    files = {name: root.entries[name] for name in root.plain_files() if name != INCOMPLETE_FILE}
    for name, directory in moment.directories.items():
        files |= {f"{name}/{file}": directory.entries[file] for file in directory.plain_files()}
    return files


def _files_below(root: Path) -> Iterator[Path]:
    with as_unreadable(root):
        for path in sorted(root.iterdir()):
            yield from (sorted(path.iterdir()) if path.is_dir() else [path])


def _parsed(notes: bytes) -> dict[str, _Noted]:
    """Return what is noted; a line that does not parse says nothing."""
    found: dict[str, _Noted] = {}
    for line in notes.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            note: dict[str, Any] = json.loads(line)
            found[str(note["path"])] = _Noted(list(note["version"]), int(note["bytes"]), str(note["sha256"]))
    return found


def _differing(said: Iterable[ManifestFile], sums: Mapping[str, str]) -> Iterator[Differing]:
    for file in said:
        if file.path not in sums:
            yield Differing(file.path, "is missing, and the manifest names it")
        elif sums[file.path] != file.sha256:
            yield Differing(file.path, "has another SHA-256 than in the manifest")
