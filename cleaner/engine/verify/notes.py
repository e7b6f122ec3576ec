"""The notes of a check: what it found in each large segment, so that an interrupted check can go on.

Each segment has a line of JSON, written as soon as the segment was read. The reader passes over a line that is cut off.
What the notes say holds only for files with the same device, inode, size, mtime and ctime.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final, Self

from storage.anomalies import Anomaly, CheckedSegment, EpochRun, Gap, LastBatch, SeenAnomaly, TxnEvent
from storage.names import FileKind
from storage.segment import Segment
from storage.txn_index import AbortedTxn

SCHEMA: Final = "logcleaner.verify-notes/1"
_BYTES_MIN: Final = 1 << 20
"""A smaller segment is read as fast as its note."""
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Notes:
    """The notes of one check."""

    def __init__(self, file: IO[bytes], lines: Iterable[bytes]) -> None:
        """Begin with the lines of an earlier check, and write further ones to a file."""
        self._file, self._lock = file, Lock()
        self._known: dict[str, Any] = {}
        for line in lines:
            try:
                noted = json.loads(line)
                self._known[noted["key"]] = noted["facts"]
            except (ValueError, KeyError, TypeError):
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._file.close()

    @property
    def is_empty(self) -> bool:
        """Return whether no earlier check left a note."""
        return not self._known

    def recall(self, segment: Segment, upper_offset: int | None, *, is_deep: bool) -> CheckedSegment | None:
        """Return what an unchanged segment told; None if nothing is noted of it, or something else."""
        facts = self._known.get(_key(segment, upper_offset, is_deep=is_deep))
        try:
            return _facts(facts) if facts else None
        except (TypeError, ValueError, AttributeError):  # of another version
            return None

    def note(self, segment: Segment, upper_offset: int | None, facts: CheckedSegment, *, is_deep: bool) -> None:
        """Note what a segment told, as it was listed before it was read."""
        if segment.size_bytes < _BYTES_MIN or facts.size_bytes != segment.size_bytes:
            return
        noted = {"key": _key(segment, upper_offset, is_deep=is_deep), "facts": facts}
        line = json.dumps(noted).encode() + b"\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


def open_notes(path: Path | str, parent: int | None = None, *, goes_on: bool) -> Notes:
    """Open the notes in a file, or begin new ones.

    Args:
        path: of the file.
        parent: a descriptor of its directory, if the path is a name in it.
        goes_on: take up what an earlier check noted; else the file is emptied.

    Raises: OSError.
    """
    lines: list[bytes] = []
    if goes_on:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent), "rb") as file:
            lines = file.read().splitlines()
        if not lines or lines[0] != _first_line():
            lines = []
    flags = _FLAGS if lines else _FLAGS | os.O_TRUNC
    made = os.fdopen(os.open(path, flags, 0o600, dir_fd=parent), "wb")
    made.write(b"\n" if lines else _first_line() + b"\n")  # behind a line that a crash cut off
    return Notes(made, lines)


def _first_line() -> bytes:
    return json.dumps({"schema": SCHEMA}).encode()


def _key(segment: Segment, upper_offset: int | None, *, is_deep: bool) -> str:
    files = sorted(f"{kind}:{tuple(file.identity)}:{file.changed_ns}" for kind, file in segment.files.items())
    return f"{segment.log.location} {upper_offset} {is_deep} {' '.join(files)}"


def _facts(noted: Sequence[Any]) -> CheckedSegment:
    """Make facts of what JSON makes of them: lists, and text for the keys of a mapping."""
    facts = CheckedSegment(*noted)
    return facts._replace(
        seen=tuple(SeenAnomaly(*one)._replace(anomaly=Anomaly(one[0]), kind=FileKind(one[1])) for one in facts.seen),
        missing=tuple(FileKind(kind) for kind in facts.missing),
        epochs=tuple(EpochRun(*run) for run in facts.epochs),
        producers={int(id_): LastBatch(*batch) for id_, batch in facts.producers.items()},
        events=tuple(TxnEvent(*event) for event in facts.events),
        aborted=tuple(AbortedTxn(*entry) for entry in facts.aborted),
        gap=Gap(*facts.gap) if facts.gap else None,
    )
