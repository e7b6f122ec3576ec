"""Carry one repair out: a file gets its new content, or a ``.log`` loses the zeros at its end.

Order, each step safe to crash behind:
    1. the journal's line;
    2. a copy of the present file, under a scratch name; fsync; rename to ``.deleted``; fsync of the directory;
    3. the new content, under a scratch name; fsync;
    4. a last look: the file, and the logs that its content was derived from, are what they were;
    5. rename over the present file; fsync of the directory.
Invariant:  the name always holds the old file or the new one, each whole. No file that a broker needs is ever missing:
            it makes an ``.index`` anew, but takes a missing ``.txnindex`` for "nothing was aborted", missing snapshots
            for "no producers", and sets a directory without ``partition.metadata`` aside. Hence a copy, and not a
            rename of the old file.
Scratch:    names that end in ``.logcleaner`` mean nothing to a broker, nor to recovery; the next repair of the file
            removes what a crash left of them.

A cut of zeros keeps no copy, and the journal says how many they were. It is one ``ftruncate``, and an fsync. What else
is cut off the end of a log is copied first, by the same two steps, under a name that a broker leaves alone.

Not chosen: a hard link of the old file, which not every file system has; the old file renamed away first.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cleaner.engine.journal import Journal
from cleaner.engine.repair.kept import is_kept_already, kept_name
from cleaner.engine.repair.observing import PlannedRepair, look, tail_of
from storage.errors import LogCleanerError, PlanOutOfDate
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import read_file
from storage.names import SCRATCH_SUFFIX


def mend(fs: FileSystem, journal: Journal, planned: PlannedRepair, now_ms: int) -> None:
    """Carry a repair out.

    Args:
        fs: the disk.
        journal: of the log dir.
        planned: a repair that may be done, with what carries it out.
        now_ms: epoch ms, for the journal.

    Raises: PlanOutOfDate where a file is not as it was looked at; JournalFull, OutOfSpace, UnsafeOwner, UnsafeFile,
        OSError. The file is as it was then.
    """
    _ensure_unchanged(planned)
    present = read_file(planned.path) if planned.identity and planned.content is not None else None
    journal.record("repair", now_ms, **_entry(planned, present))
    if planned.content is None:
        _cut(fs, planned)
    else:
        _replace(fs, planned, planned.content, present)


def _entry(planned: PlannedRepair, present: bytes | None) -> dict[str, object]:
    """Return the fields of a ``repair`` line: enough to take it back."""
    identity, content, target = planned.identity, planned.content, planned.repair.target
    fields: dict[str, object] = {
        "partition": str(planned.topic_partition),
        "kind": target.kind.value,
        "file": target.name,
        "bytes": planned.repair.made_bytes,
        "findings": list(target.findings),
    }
    if content is None:
        assert identity is not None
        undo: dict[str, object] = {"cut_from": identity.size_bytes}
        if planned.tail_copy is not None:
            tail = _tail(planned)
            undo |= {"copy": planned.tail_copy.name, "tail": [len(tail), zlib.crc32(tail)]}
        return {**fields, "undo": undo}
    kept = [len(present), identity.mtime_ns, zlib.crc32(present)] if identity and present is not None else None
    return {**fields, "undo": {"made": [len(content), zlib.crc32(content)], "kept": kept}}


def _cut(fs: FileSystem, planned: PlannedRepair) -> None:
    assert planned.repair.made_bytes is not None
    if planned.tail_copy is not None:
        _keep_tail(fs, planned, planned.tail_copy)
        _ensure_unchanged(planned)
    fs.truncate(planned.path, planned.repair.made_bytes, Purpose.REPAIR)
    with fs.open_to_append(planned.path, Purpose.REPAIR) as file:
        file.fsync()


def _keep_tail(fs: FileSystem, planned: PlannedRepair, copy: Path) -> None:
    """Copy what is cut off, durably."""
    tail = _tail(planned)
    if copy.exists() and read_file(copy) == tail:
        return
    scratch = _scratch(copy)
    _remove(fs, (scratch,))
    _write(fs, scratch, planned.path, tail)
    fs.rename(scratch, copy, Purpose.REPAIR)
    fs.fsync_dir(copy.parent, Purpose.REPAIR)


def _tail(planned: PlannedRepair) -> bytes:
    return tail_of(planned.path, planned.repair.made_bytes or 0)


def _replace(fs: FileSystem, planned: PlannedRepair, content: bytes, present: bytes | None) -> None:
    path = planned.path
    scratch, kept = _scratch(path), path.with_name(kept_name(path.name))
    _remove(fs, (scratch, _scratch(kept)))
    try:
        if present is not None and planned.identity and not is_kept_already(path, present):
            _write(fs, _scratch(kept), path, present, planned.identity.mtime_ns)
            fs.rename(_scratch(kept), kept, Purpose.REPAIR)
            fs.fsync_dir(path.parent, Purpose.REPAIR)
        _write(fs, scratch, _model(planned), content)
        _ensure_unchanged(planned)
        fs.rename(scratch, path, Purpose.REPAIR)
        fs.fsync_dir(path.parent, Purpose.REPAIR)
    except (LogCleanerError, OSError):
        with suppress(LogCleanerError, OSError):
            _remove(fs, (scratch, _scratch(kept)))
        raise


def _write(fs: FileSystem, path: Path, like: Path, content: bytes, mtime_ns: int | None = None) -> None:
    with fs.create(path, like, Purpose.REPAIR) as file:
        file.write(content)
        if mtime_ns is not None:
            file.set_mtime(mtime_ns)
        file.fsync()


def _model(planned: PlannedRepair) -> Path:
    """Return the file that lends the new one owner and mode: the present one, else a ``.log`` beside it."""
    if planned.identity is not None or not planned.sources:
        return planned.path if planned.identity is not None else planned.path.parent
    return planned.sources[-1][0]


def _scratch(path: Path) -> Path:
    return path.with_name(path.name + SCRATCH_SUFFIX)


def _remove(fs: FileSystem, paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            fs.unlink(path, Purpose.REPAIR)


def _ensure_unchanged(planned: PlannedRepair) -> None:
    """Look again. Raises: PlanOutOfDate."""
    for path, identity in (*planned.sources, (planned.path, planned.identity)):
        if look(path) != identity:
            raise PlanOutOfDate(path, "another size, time or file")
