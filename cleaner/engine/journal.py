"""The journal of a log dir: each change with its time, reason and bytes, written before the step.

One plain file, ``.logcleaner-journal``, which a broker ignores; one line an entry: a CRC-32 of the rest in
hexadecimal, a blank, a JSON object. A run that changes nothing writes nothing. A line that finds no space is taken
back, so that no half line is left: nobody knows what an unreadable line told. Lines of several threads share an fsync:
each thread still waits for the fsync behind its own line. Past its cap the file becomes
``.logcleaner-journal.1``, in the place of the earlier one; both are read. The holds of restored partitions must outlive
both, so they have a file of their own.
"""

from __future__ import annotations

import io
import json
import os
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from policies.facts import Boot, LastRun
from policies.plan import Compaction, Deletion
from storage.directory import open_plain
from storage.errors import LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, NewFile, OutOfSpace, Purpose
from storage.log_dir import read_file, writable_bytes
from storage.names import JOURNAL_FILE, ROTATED_JOURNAL_FILE, TopicPartition, parse_topic_partition
from storage.stores.paths import StoredPath

GUARDED: Final = "guarded"
"""The kind of the line that follows the line of a compaction if a guard rail then held the compaction back."""
DROPPED: Final = "dropped"
"""The kind of the line that follows the line of a compaction, with the number of records dropped without a key."""
EVIDENCE: Final = "evidence"
"""The kind of the line that notes files of missing records; it announces no step."""
REPLACING: Final = ("compact", "erase", "repack")
"""The kinds of lines that name the logs that they replace, as ``SOURCES``."""
SOURCES: Final = "sources"
"""The key of the logs in the line of a compaction, an erasure or a repacking: base offset, size and file time (ns)
of each."""
SIZE_MAX_BYTES: Final = 16 << 20
LINE_BYTES_MAX: Final = 256 << 20
"""The length of a line about a deletion of a million segments. A longer line is read in pieces, and no piece has a
valid checksum."""


class JournalFull(LogCleanerError):
    """The journal of a log dir finds no space, so no step that needs a line may be done."""

    log_dir: Path
    remedy: str = "let retention make some first: free, or clean --delete-delay 0"

    def __str__(self) -> str:
        return f"{self.log_dir}: no space for the journal, and nothing is changed without a line in it; {self.remedy}"


@dataclass(slots=True, eq=False)
class _Line:
    """A line that is not durable yet."""

    data: bytes
    is_due: bool = True
    """Whether its step must not be done before the line is durable, or has failed."""
    failure: BaseException | None = None


class Journal:
    """The writer of a journal, one at a time. Each line is durable before the step that it tells of.

    Several threads may record; closing and taking back are for the thread that is left.
    """

    def __init__(self, log_dir: Path, fs: FileSystem, boot: Boot | None = None, *, may_wait: bool = False) -> None:
        """Prepare the writer.

        Args:
            log_dir: the directory that holds the journal.
            fs: the disk.
            boot: the boot of the machine; goes into every entry, for the next run to judge the wall clock by.
            may_wait: on a full disk, keep lines in memory and write them as soon as there is space. Only callers that
                make space may do so; everybody else must not act without the line.
        """
        self._path = log_dir / JOURNAL_FILE
        self._fs = fs
        self._boot = {"boot": list(boot)} if boot else {}
        self._may_wait = may_wait
        self._file: NewFile | None = None
        self._is_torn = False
        """Whether the file ends within a line, cut short by a crash."""
        self._turn = threading.Lock()
        """Held by the thread that writes; what the others add meanwhile is written in one go behind it."""
        self._waiting: list[_Line] = []
        """The lines that are not durable, oldest first; a list is appended to, and copied, in one step."""
        self._newest: tuple[int, int] | None = None
        """The begin and the end of the newest line that we wrote, in the file."""

    def record(self, what: str, time_ms: int, **fields: Any) -> bool:
        """Write one entry durably, before the step that it tells of.

        Args:
            what: ``delete``, ``compact``, ``erase``, ``repack``, ``guarded``, ``dropped``, ``recover``, ``restore``,
                ``restore-failed``, ``release``, ``repair``, ``repair-failed``, ``revert``, ``import``, ``append``,
                ``move``, ``failed``, ``evidence``, or ``clock``, for a clock that looked wrong and was confirmed.
            time_ms: epoch ms.
            fields: JSON values.

        Returns: whether the entry is durable; if not, it waits in memory.
        Raises: JournalFull, unless lines may wait.
        """
        line = _Line(encode_entry({"time_ms": time_ms, **self._boot, "what": what, **fields}))
        self._waiting.append(line)
        with self._turn:
            if line in self._waiting:
                self._try_to_write()
            line.is_due = False
            is_durable = line not in self._waiting
        match line.failure:
            case None:
                return is_durable
            case OutOfSpace() as error:
                raise JournalFull(self._path.parent) from error
            case error:
                raise error

    def close(self) -> None:
        """Write the waiting lines, if there is space by now, and close the file. A second call does nothing.

        Raises: OSError if the disk fails otherwise; the file is closed all the same.
        """
        try:
            if self._waiting:
                with suppress(OutOfSpace):
                    self._write_waiting()
        finally:
            self._close_file()

    def try_again(self) -> None:
        """Write the waiting lines, if there is space by now; what fails is left to ``close``."""
        with self._turn:
            if self._waiting:
                with suppress(OutOfSpace, OSError):
                    self._write_waiting()

    def _try_to_write(self) -> None:
        """Write all lines that wait. Those that are due fail if they cannot be written, unless lines may wait."""
        tried = tuple(self._waiting)
        try:
            self._write_waiting()
        except BaseException as error:  # an interrupt, too
            if self._may_wait and isinstance(error, OutOfSpace):
                return
            for line in tried:
                if line.is_due and line in self._waiting:
                    line.failure = error
                    self._waiting.remove(line)  # a step without its line is not done

    def _write_waiting(self) -> None:
        """Write the lines that wait: due lines with one fsync, those that wait for space singly. Raises: OutOfSpace."""
        lines = tuple(self._waiting)
        while lines:
            together = tuple(takewhile(lambda line: line.is_due, lines)) or lines[:1]
            self._append(together)
            lines = lines[len(together) :]

    def _append(self, lines: Sequence[_Line]) -> None:
        """Write the lines that wait longest durably, all or none."""
        file = self._open()
        start_bytes, written_before = self._path.stat().st_size, file.size_bytes
        data = b"".join(line.data for line in lines)
        try:
            file.write(b"\n" + data if self._is_torn else data)
            file.fsync()
        except (OutOfSpace, OSError):
            self._take_back(start_bytes, start_bytes + file.size_bytes - written_before)
            raise
        del self._waiting[: len(lines)]
        self._is_torn = False
        end_bytes = start_bytes + file.size_bytes - written_before
        self._newest = end_bytes - len(lines[-1].data), end_bytes

    def take_back(self) -> None:
        """Cut the newest line off again, because its step failed before it changed anything. This needs no free space.

        The line stays if the cut fails, or if another process has written a line since.
        """
        if self._newest:
            self._take_back(*self._newest)
            self._newest = None

    def _take_back(self, start_bytes: int, end_bytes: int) -> None:
        """Cut off the written part of lines; if that fails, the next line begins behind a line break."""
        self._close_file()
        with suppress(OutOfSpace, OSError):
            if not start_bytes:
                self._fs.unlink(self._path, Purpose.JOURNAL)
            elif self._path.stat().st_size == end_bytes:  # nobody else has written since
                self._fs.truncate(self._path, start_bytes, Purpose.JOURNAL)

    def _open(self) -> NewFile:
        if self._file and self._file.size_bytes > SIZE_MAX_BYTES:
            self._close_file()
        if self._file is None:
            if self._path.exists() and self._path.stat().st_size > SIZE_MAX_BYTES:
                self._fs.rename(self._path, self._path.with_name(ROTATED_JOURNAL_FILE), Purpose.JOURNAL)
            self._file = self._opened() if self._path.exists() else self._created()
        return self._file

    def _opened(self) -> NewFile:
        file = self._fs.open_to_append(self._path, Purpose.JOURNAL)
        self._is_torn = _ends_within_a_line(self._path)
        return file

    def _created(self) -> NewFile:
        file = self._fs.create(self._path, self._path.parent, Purpose.JOURNAL)
        try:
            self._fs.fsync_dir(self._path.parent, Purpose.JOURNAL)
        except (OutOfSpace, OSError):
            file.close()
            self._fs.unlink(self._path, Purpose.JOURNAL)
            raise
        self._is_torn = False
        return file

    def _close_file(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


def ensure_space(log_dir: Path, line_bytes: int | None = None) -> None:
    """Refuse, in a dry run, a step for whose line the disk has no space.

    Args:
        log_dir: of the step.
        line_bytes: the length of the line if the step needs no other space. The last block of the journal may have
            room for it.

    Raises: JournalFull, UnreadableFile.
    """
    if writable_bytes(log_dir):
        return
    with as_unreadable(log_dir):
        path, block_bytes = log_dir / JOURNAL_FILE, os.statvfs(log_dir).f_frsize
        size_bytes = path.stat().st_size if path.exists() else 0
    if line_bytes is None or -size_bytes % block_bytes < line_bytes:
        raise JournalFull(log_dir)


def encode_entry(entry: dict[str, Any]) -> bytes:
    """Return one line of the journal."""
    body = json.dumps(entry, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_journal(log_dir: Path) -> Iterator[dict[str, Any]]:
    """Return the entries, oldest first, without lines that were cut short or damaged. Raises: UnreadableFile."""
    return (entry for entry in read_lines(log_dir) if entry is not None)


def read_lines(log_dir: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the entries of the rotated file, then of the present one, oldest first; None for a damaged line.

    Every entry has its ``time_ms`` and ``what``.

    Raises: UnreadableFile.
    """
    for name in (ROTATED_JOURNAL_FILE, JOURNAL_FILE):
        path = log_dir / name
        with as_unreadable(path), suppress(FileNotFoundError), _lines(path) as file:
            while line := file.readline(LINE_BYTES_MAX):
                if line != b"\n":  # written behind a torn line
                    yield decode_entry(line.removesuffix(b"\n"))


def _lines(path: Path) -> IO[bytes]:
    return io.BytesIO(path.read_bytes()) if isinstance(path, StoredPath) else os.fdopen(open_plain(path), "rb")


def read_entries(log_dir: Path, what: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of one kind, oldest first; the other lines are not decoded. Raises: UnreadableFile."""
    stated = b'"what":"%s"' % what.encode()
    for name in (ROTATED_JOURNAL_FILE, JOURNAL_FILE):
        data = read_file(log_dir / name) or b""
        lines = data.splitlines() if stated in data else ()  # every plan asks, and hardly ever finds an entry
        yield from (entry for line in lines if stated in line and (entry := decode_entry(line)))


def partition_of(entry: Mapping[str, Any]) -> TopicPartition | None:
    """Return the partition that an entry is about; None if it names none."""
    name = entry.get("partition")
    return parse_topic_partition(name) if isinstance(name, str) else None


class SourceLog(NamedTuple):
    """A log that a line names as replaced."""

    base_offset: int
    size_bytes: int
    mtime_ns: int


def sources_of(entry: Mapping[str, Any]) -> tuple[SourceLog, ...]:
    """Return the logs that an entry names as ``SOURCES``; none if its line is strange, or of an older version."""
    with suppress(TypeError, ValueError):
        return tuple(SourceLog(int(base), int(size), int(mtime)) for base, size, mtime in entry.get(SOURCES, ()))
    return ()


def read_last_run(log_dir: Path) -> LastRun | None:
    """Return when the last run wrote its last entry, and in which boot; None without an entry.

    Restores, repairs and moves do not count: they work by any clock, so their times prove nothing.

    Raises: UnreadableFile.
    """
    for name in (JOURNAL_FILE, ROTATED_JOURNAL_FILE):
        for line in reversed((read_file(log_dir / name) or b"").splitlines()):
            match decode_entry(line):
                case {"what": "restore" | "restore-failed" | "release" | "repair" | "revert" | "move"}:
                    continue
                case {"time_ms": int(time_ms), "boot": [str(boot_id), int(booted_ms)]}:
                    return LastRun(time_ms, Boot(boot_id, booted_ms))
                case {"time_ms": int(time_ms)}:
                    return LastRun(time_ms, None)
    return None


def decode_entry(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line; None if the line is damaged."""
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        entry = json.loads(body)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and type(entry.get("time_ms")) is int and isinstance(entry.get("what"), str)
    return entry if whole else None


def _ends_within_a_line(path: Path) -> bool:
    with os.fdopen(open_plain(path), "rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(size_bytes - 1, 0))
        return file.read() not in (b"", b"\n")


def deletion_entry(deletion: Deletion) -> dict[str, object]:
    """Return the fields of a ``delete`` line, without the fields for a restore."""
    return {
        "bytes": deletion.size_bytes,
        "log_start_offset": deletion.new_log_start_offset,
        "segments": [
            {
                "base_offset": v.base_offset,
                "bytes": v.size_bytes,
                "code": v.reason.code.value,
                "text": v.reason.text,
            }
            for v in deletion.verdicts
        ],
    }


def compaction_entry(compaction: Compaction) -> dict[str, object]:
    """Return the fields of a ``compact`` line."""
    return {
        "bytes": compaction.size_bytes,
        "first_dirty_offset": compaction.round.first_dirty_offset,
        "end_offset": compaction.round.end_offset,
        "groups": [list(group) for group in compaction.round.groups],
        SOURCES: [[s.base_offset, s.identity.size_bytes, s.identity.mtime_ns] for s in compaction.segments],
    }
