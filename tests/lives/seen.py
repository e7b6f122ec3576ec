"""A log dir as a start of Kafka would read it: its records and markers, and how they lie in segments.

The judge of all lives. It shares the formats with the program (``storage.records``), and no rule: it finds files,
finishes swaps, reads checkpoints and follows transactions by itself.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import LogCleanerError
from storage.records import BatchHeader, LegacyBatch, Record
from storage.txn_index import AbortedTxn, parse_txn_index
from tests.batches import iter_batches

STARTS: Final = "log-start-offset-checkpoint"
WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
HOLDS: Final = ".logcleaner-holds"
_LOG: Final = re.compile(r"(\d{20})\.log(|\.swap|\.deleted)")
_UNFINISHED: Final = re.compile(r"(\d{20})\.[a-z]+\.cleaned")
_PARTITION: Final = re.compile(r"(.+)-(\d+)")
_ABORT: Final = b"\0\0\0\0"


class Fact(NamedTuple):
    """A data record as it was written."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: str | None
    """A hash of it; None in a tombstone."""
    headers: str = ""
    producer: tuple[int, int, int] | None = None
    """Id, epoch and sequence number; None without an idempotent producer."""


class Placed(NamedTuple):
    """A record in its batch."""

    fact: Fact
    producer_id: int
    is_transactional: bool
    horizon_ms: int | None
    """The delete horizon of its batch."""
    is_legacy: bool = False
    """Of the formats v0 and v1, whose batches have no horizon."""


class Marker(NamedTuple):
    """The end of a transaction."""

    offset: int
    producer_id: int
    is_abort: bool
    horizon_ms: int | None = None
    """The delete horizon of its batch."""


class End(NamedTuple):
    """The last batch of a producer in a log."""

    producer_id: int
    producer_epoch: int
    sequence: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A ``.log`` file that was read to its last whole batch."""

    path: Path
    base_offset: int
    size_bytes: int
    end_offset: int
    """Behind its last batch; its base offset without one."""
    newest_ms: int
    """The largest timestamp of its batches; -1 without one."""
    placed: tuple[Placed, ...] = ()
    markers: tuple[Marker, ...] = ()
    trouble: str = ""
    """Why the walk ended before the end of the file."""
    file_ms: int = 0
    """The time of the file."""
    ends: tuple[End, ...] = ()
    """Of the batches of idempotent producers, markers aside."""

    @property
    def aged_from_ms(self) -> int:
        """The time from which its age counts. Source: Kafka LogSegment.largestTimestamp."""
        return self.newest_ms if self.newest_ms >= 0 else self.file_ms


@dataclass(frozen=True)
class SeenLog:
    """A partition."""

    name: str
    pieces: tuple[Piece, ...]
    """By base offset."""
    log_start: int
    high_watermark: int | None
    aborts: tuple[AbortedTxn, ...] = ()
    """What transaction indexes tell: also of a transaction that begins below a gap."""

    @cached_property
    def records(self) -> Mapping[int, Fact]:
        """The records that can be read, by offset."""
        found = (placed.fact for piece in self.pieces for placed in piece.placed)
        return {fact.offset: fact for fact in found if fact.offset >= self.log_start}

    @property
    def contents(self) -> list[Fact]:
        """The records, whoever produced them."""
        return [fact._replace(producer=None) for fact in self.records.values()]

    @cached_property
    def horizons(self) -> Mapping[int, int]:
        """The delete horizons of records and markers, by offset."""
        found = [(one.fact.offset, one.horizon_ms) for piece in self.pieces for one in piece.placed]
        found += [(one.offset, one.horizon_ms) for piece in self.pieces for one in piece.markers]
        return {offset: ms for offset, ms in found if ms is not None}

    @cached_property
    def end_offset(self) -> int:
        """The log end."""
        return max((piece.end_offset for piece in self.pieces), default=0)

    @cached_property
    def aborted(self) -> frozenset[int]:
        """The offsets of records of aborted transactions."""
        placed = (one for piece in self.pieces for one in piece.placed if one.is_transactional)
        told = (one.fact.offset for one in placed if any(_is_of(abort, one) for abort in self.aborts))
        return frozenset((*self._transactions[0], *told))

    @cached_property
    def stable_end(self) -> int:
        """Where the oldest open transaction begins, or the high watermark, or the log end."""
        committed = self.end_offset if self.high_watermark is None else self.high_watermark
        return min([committed, *self._transactions[1]])

    @property
    def open_from(self) -> list[int]:
        """The first offset of each open transaction."""
        return self._transactions[1]

    @cached_property
    def _transactions(self) -> tuple[list[int], list[int]]:
        """Aborted offsets, and the first offset of each open transaction.

        A transaction below a gap may have ended within it: only snapshots tell, and a start of Kafka believes them.
        """
        is_open: dict[int, list[int]] = {}
        aborted: list[int] = []
        end = 0
        for piece in self.pieces:
            if end < piece.base_offset:
                is_open.clear()
            end = piece.end_offset
            events: list[tuple[int, int, bool | None]]
            events = [(p.fact.offset, p.producer_id, None) for p in piece.placed if p.is_transactional]
            events += [(marker.offset, marker.producer_id, marker.is_abort) for marker in piece.markers]
            for offset, producer_id, is_abort in sorted(events):
                if is_abort is None:
                    is_open.setdefault(producer_id, []).append(offset)
                else:
                    ended = is_open.pop(producer_id, [])
                    aborted += ended if is_abort else []
        return aborted, [offsets[0] for offsets in is_open.values()]

    @property
    def trouble(self) -> list[str]:
        """What cannot be read, and offsets that go back."""
        found = [f"{piece.path}: {piece.trouble}" for piece in self.pieces if piece.trouble]
        offsets = [placed.fact.offset for piece in self.pieces for placed in piece.placed]
        if any(later <= earlier for earlier, later in itertools.pairwise(offsets)):
            found.append(f"{self.name}: offsets go back")
        return found


Seen = Mapping[str, SeenLog]
"""By the name of the directory."""


def seen_in(log_dir: Path) -> dict[str, SeenLog]:
    """Read a whole log dir."""
    starts, watermarks = (checkpoint(log_dir / name) for name in (STARTS, WATERMARKS))
    return {
        path.name: SeenLog(
            path.name,
            pieces := tuple(_pieces(path)),
            _log_start(pieces, starts.get(path.name, 0)),
            watermarks.get(path.name),
            tuple(_aborts(path)),
        )
        for path in sorted(log_dir.iterdir())
        if path.is_dir() and _PARTITION.fullmatch(path.name) and path.name[0] != "_" and "." not in path.name
    }


def _aborts(directory: Path) -> Iterator[AbortedTxn]:
    for path in directory.glob("*.txnindex"):
        with suppress(LogCleanerError):
            yield from parse_txn_index(path.read_bytes(), path)


def _is_of(abort: AbortedTxn, placed: Placed) -> bool:
    return placed.producer_id == abort.producer_id and abort.first_offset <= placed.fact.offset <= abort.last_offset


def _log_start(pieces: tuple[Piece, ...], checkpointed: int) -> int:
    """Source: Kafka LogLoader.load."""
    return max(checkpointed, pieces[0].base_offset if pieces else 0)


def checkpoint(path: Path) -> dict[str, int]:
    """Read a checkpoint; empty if there is none or its content is none."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()[2:]]
        return {f"{topic}-{partition}": int(offset) for topic, partition, offset in lines}
    except (OSError, ValueError):
        return {}


def _pieces(directory: Path) -> Iterator[Piece]:
    """The logs that a start goes on with. Source: Kafka LogLoader.load."""
    files: dict[str, dict[int, Path]] = {"": {}, ".swap": {}, ".deleted": {}}
    unfinished = 1 << 62
    for path in directory.iterdir():
        if (found := _LOG.fullmatch(path.name)) and path.is_file():
            files[found[2]][int(found[1])] = path
        elif found := _UNFINISHED.fullmatch(path.name):  # an index file, too, tells that a swap never began
            unfinished = min(unfinished, int(found[1]))
    live = dict(files[""])
    for base, path in sorted(files[".swap"].items()):
        if base < unfinished:
            swapped = piece_of(path, base)
            for other in [other for other in live if base <= other < swapped.end_offset]:
                del live[other]
            live[base] = path
    for base, path in sorted(live.items()):
        yield piece_of(path, base)


def piece_of(path: Path, base_offset: int) -> Piece:
    """Read one ``.log``, whatever its suffix."""
    return _piece(path, base_offset, path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)


@lru_cache(maxsize=1000)  # most files are as they were when the step before ended
def _piece(path: Path, base_offset: int, data: bytes, file_ms: int) -> Piece:
    ends: list[End] = []
    placed: list[Placed] = []
    markers: list[Marker] = []
    newest, end, trouble, batches = -1, base_offset, "", iter_batches(data, path)
    try:
        for batch in batches:
            batch.ensure_valid()
            header = batch.header
            end, newest = header.last_offset + 1, max(newest, header.max_timestamp_ms)
            if isinstance(batch, LegacyBatch):
                placed += [Placed(_fact(record), -1, False, None, True) for record in batch.records()]
            elif header.is_control:
                markers += [
                    Marker(record.offset, header.producer_id, record.key == _ABORT, header.delete_horizon_ms)
                    for record in batch.records()
                ]
            else:
                ends += _ends_of(header)
                placed += [
                    Placed(_fact(record, header), header.producer_id, header.is_transactional, header.delete_horizon_ms)
                    for record in batch.records()
                ]
        trouble = f"{len(data) - batches.position} bytes are no batch" if batches.position < len(data) else ""
    except LogCleanerError as error:
        trouble = str(error)
    return Piece(
        path, base_offset, len(data), end, newest, tuple(placed), tuple(markers), trouble, file_ms, tuple(ends)
    )


def _fact(record: Record, header: BatchHeader | None = None) -> Fact:
    value = None if record.value is None else hashlib.sha256(record.value).hexdigest()[:16]
    headers = repr(record.headers) if record.headers else ""
    is_numbered = header is not None and header.producer_id >= 0
    producer = (header.producer_id, header.producer_epoch, record.sequence) if header and is_numbered else None
    return Fact(record.offset, record.timestamp_ms, record.key, value, headers, producer)


def _ends_of(header: BatchHeader) -> Iterator[End]:
    if header.producer_id >= 0:
        newest_ms, last = header.max_timestamp_ms, header.last_sequence
        yield End(header.producer_id, header.producer_epoch, last, header.last_offset, newest_ms)


def aside_in(log_dir: Path) -> dict[str, Piece]:
    """Read the logs that wait as ``.deleted``, by path below the log dir."""
    found = {}
    for path in log_dir.glob("*/*.log.deleted"):
        name = _LOG.fullmatch(path.name)
        if name:
            found[str(path.relative_to(log_dir))] = piece_of(path, int(name[1]))
    return found


def offsets_of(pieces: Iterable[Piece]) -> set[int]:
    """All offsets of data records."""
    return {placed.fact.offset for piece in pieces for placed in piece.placed}


@dataclass(frozen=True, slots=True)
class Look:
    """A log dir at one moment."""

    logs: dict[str, SeenLog]
    aside: dict[str, Piece] = field(default_factory=dict)
    files: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Size, time (ns) and owner of every file, by path below the log dir."""
    lone: dict[str, bytes] = field(default_factory=dict)
    """The index files whose ``.log`` is gone or empty."""
    holds: frozenset[str] = frozenset()
    """The partitions on hold."""

    @classmethod
    def at(cls, log_dir: Path) -> Look:
        """Look now."""
        found = (f"{place}/{name}" for place, _, names in os.walk(log_dir) for name in names)
        told = ((path[len(f"{log_dir}/") :], os.lstat(path)) for path in found)
        files = {path: (one.st_size, one.st_mtime_ns, one.st_uid) for path, one in told}
        indexes = (path for path in files if path.endswith("index"))
        alone = (path for path in indexes if not files.get(f"{path.rpartition('.')[0]}.log", (0,))[0])
        lone = {path: (log_dir / path).read_bytes() for path in alone}
        holds = frozenset(checkpoint(log_dir / HOLDS))
        return cls(seen_in(log_dir), aside_in(log_dir), files, lone, holds)

    def holds_key(self, key: bytes) -> bool:
        """Return whether a record of any log has the key."""
        pieces = [piece for log in self.logs.values() for piece in log.pieces]
        return any(one.fact.key == key for piece in (*pieces, *self.aside.values()) for one in piece.placed)
