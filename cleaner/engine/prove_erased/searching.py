"""Search one file for keys, and note the searched ranges and the SHA-256 of the file.

Nearly all other keys of a chunk are excluded at once: a word is made of the length, the first and the last eight bytes
of each key, and a table has the words of the wanted keys. Keys with a word of the table are compared byte for byte. So
each hit is a wanted key, and no wanted key is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cleaner.engine.prove_erased.places import FileContent, FilePlace
from cleaner.engine.prove_erased.wanted import WantedKey
from storage.arrays import Bytes, Integers
from storage.directory import status_of
from storage.errors import LogCleanerError, UnreadableFile
from storage.kernels.layout import DELETE_HORIZON, KEY_AT, KEY_BYTES, OFFSET, ROW, TIMESTAMP, VALUE_BYTES
from storage.log.producer_state import parse_snapshot
from storage.log_dir import read_file
from storage.names import FileKind, FileState
from storage.scan.chunks import Chunk, aborted_rows, every_chunk
from storage.scan.segments import open_whole
from storage.scan.slices import Damage
from storage.scan.witness import WitnessFile
from storage.tiers.errors import CorruptTier
from storage.txn_index import TXN_ENTRY_BYTES, AbortedTxn, parse_txn_index

WIRE_PREFIX_BYTES: Final = 5
"""A zero byte and a schema id, before an Avro payload."""
_WORD_BYTES: Final = 8
_BITS_MIN: Final = 16
_BITS_A_KEY: Final = 6
"""A table has 64 places for each key."""
_MULTIPLIERS: Final = tuple(
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)

_TRIES: Final = 3
RECORDS_TOLD: Final = 100
"""The most records of a key in one file that are listed. Further records are only counted."""

_SIZE_MAX: Final = 1 << 30
"""The sizes that no file of these kinds reaches. An index has 8 bytes for each 4 KiB of its segment."""
_ENTRIES: Final = {
    FileKind.INDEX: np.dtype([("offset", ">i4"), ("position", ">i4")]),
    FileKind.TIME_INDEX: np.dtype([("timestamp", ">i8"), ("offset", ">i4")]),
}
_KINDS: Final = (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT)
_ABORTED: Final = "a record of an aborted transaction may count as committed, so a date may be too early"


class RecordHit(NamedTuple):
    """A record with a wanted key."""

    offset: int
    timestamp_ms: int
    value_bytes: int | None
    """The size of the value; None for a tombstone."""
    horizon_ms: int | None
    """The delete horizon of the batch, epoch ms; None if no compaction has set one."""
    is_aborted: bool = False
    """Whether it belongs to an aborted transaction."""


@dataclass(slots=True)
class KeyHits:
    """The records of one key in one file."""

    key: int
    """The place of the key among those wanted."""
    values: int = 0
    tombstones: int = 0
    told: list[RecordHit] = field(default_factory=list)
    """The first records."""
    last: RecordHit | None = None
    """The record with the greatest offset; one of an aborted transaction only if all records are."""

    def add(self, hit: RecordHit) -> None:
        """Count a record."""
        if hit.value_bytes is None:
            self.tombstones += 1
        else:
            self.values += 1
        if len(self.told) < RECORDS_TOLD:
            self.told.append(hit)
        if self.last is None or (not hit.is_aborted, hit.offset) > (not self.last.is_aborted, self.last.offset):
            self.last = hit


class Undecoded(NamedTuple):
    """A part of a file that could not be searched."""

    position: int | None
    """The byte at which it begins; None for the whole file."""
    cause: str


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """The result of the search of one file."""

    place: FilePlace
    size_bytes: int
    """The size when the file was opened; bytes that were appended later are not searched."""
    sha256: str | None = None
    """The SHA-256 of the searched bytes; None if the file was not read."""
    records: int = 0
    hits: tuple[KeyHits, ...] = ()
    undecoded: tuple[Undecoded, ...] = ()
    error: str | None = None
    """Why the file could not be read."""

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The bytes that were read, each range with its end exclusive."""
        return ((0, self.size_bytes),) if self.sha256 is not None else ()


def search(
    place: FilePlace,
    matcher: KeyMatcher,
    aborted: Sequence[AbortedTxn] = (),
    going_on: Callable[[], None] = lambda: None,
) -> FileEvidence | None:
    """Search one file.

    Args:
        place: the file.
        matcher: the keys.
        aborted: the aborted transactions of its partition.
        going_on: called before each chunk; may raise Stopped.

    Returns: None if the file is gone by now, as happens beside a live broker.
    """
    match place.content:
        case FileContent.NO_KEYS:
            return FileEvidence(place, place.size_bytes, undecoded=_without_keys(place))
        case FileContent.UNKNOWN:
            cause = "it is no file of Kafka's: nobody knows how to search it"
            if not place.path.is_file() or place.path.is_symlink():
                cause = "it is a symlink, or another thing than a plain file: what it leads to was not searched"
            return FileEvidence(place, place.size_bytes, undecoded=(Undecoded(None, cause),))
    for tries_left in reversed(range(_TRIES)):
        try:
            file = WitnessFile(place.path)
        except UnreadableFile as error:
            return None if error.has_vanished else FileEvidence(place, place.size_bytes, error=str(error))
        try:
            found = _search(place, file, matcher, aborted, going_on)
        except CorruptTier as error:  # a chunk that does not decompress or decrypt
            return FileEvidence(place, place.size_bytes, undecoded=(Undecoded(None, error.cause),))
        if not found.undecoded or not tries_left or not _has_grown(found):
            break
    return found


def why_implausible(place: FilePlace) -> str | None:
    """Return why a file cannot be what its name says; None if it can be.

    Args:
        place: of a file that holds no keys by its name.

    Raises: UnreadableFile.
    """
    if place.size_bytes > _SIZE_MAX:
        return f"{place.size_bytes:,} bytes are too many for a file of that name: it may hold anything"
    data = read_file(place.path)
    return _why_implausible(place, data) if data else None


class KeyMatch(NamedTuple):
    """A record that has a wanted key."""

    place: int
    """The place among the records of the chunk."""
    key: int
    """The place of the key among those wanted."""


class KeyMatcher:
    """The keys that are wanted, ready to be compared."""

    def __init__(self, keys: Sequence[WantedKey]) -> None:
        """Prepare the tables for the forms of all keys."""
        self._whole = _Table({form: place for place, key in enumerate(keys) for form in key.forms})
        self._behind_schema = _Table({form: place for place, key in enumerate(keys) for form in key.payloads})

    def matches(self, chunk: Chunk, among: Integers | None = None) -> Iterator[KeyMatch]:
        """Yield the records of a chunk that have a wanted key; of those at some places, if these are given."""
        starts, sizes = chunk.located[KEY_AT], chunk.located[KEY_BYTES]
        among = np.arange(sizes.size) if among is None else among
        yield from self._whole.matches(chunk.buf, starts, sizes, among[sizes[among] >= 0])
        if self._behind_schema.forms:
            wired = among[sizes[among] >= WIRE_PREFIX_BYTES]
            wired = wired[chunk.buf[starts[wired]] == 0]
            after, left = starts + WIRE_PREFIX_BYTES, sizes - WIRE_PREFIX_BYTES
            yield from self._behind_schema.matches(chunk.buf, after, left, wired)


def _search(
    place: FilePlace,
    file: WitnessFile,
    matcher: KeyMatcher,
    aborted: Sequence[AbortedTxn],
    going_on: Callable[[], None],
) -> FileEvidence:
    """Search an open file. If reading fails on the way, earlier hits still count."""
    records, hits, undecoded = 0, dict[int, KeyHits](), list[Undecoded]()
    sha256 = error = None
    with open_whole(file) as reader:
        try:
            for found in every_chunk(reader):
                going_on()
                if isinstance(found, Damage):
                    undecoded += _undecoded(found, file)
                    continue
                records += int(found.located.shape[1])
                for match in matcher.matches(found):
                    hits.setdefault(match.key, KeyHits(match.key)).add(_hit(found, match, aborted))
            sha256 = file.sha256()
        except UnreadableFile as unreadable:
            error = str(unreadable)
    ordered = tuple(hits[key] for key in sorted(hits))
    return FileEvidence(place, file.size_bytes, sha256, records, ordered, tuple(undecoded), error)


def _undecoded(damage: Damage, file: WitnessFile) -> Sequence[Undecoded]:
    """Return the part that damage leaves unsearched; none if only zeros follow, which a broker preallocated."""
    position = damage.error.position
    if damage.base_offset is None and file.is_zero_from(position):
        return ()
    return (Undecoded(position, damage.error.cause),)


def _hit(chunk: Chunk, match: KeyMatch, aborted: Sequence[AbortedTxn]) -> RecordHit:
    located, place = chunk.located, match.place
    number = int(located[ROW, place])
    row = chunk.table[number]
    value_bytes = int(located[VALUE_BYTES, place])
    return RecordHit(
        int(located[OFFSET, place]),
        int(located[TIMESTAMP, place]),
        value_bytes if value_bytes >= 0 else None,
        int(row["base_timestamp"]) if int(row["attributes"]) & DELETE_HORIZON else None,
        bool(aborted) and bool(aborted_rows(chunk.table[number : number + 1], aborted)[0]),
    )


def _has_grown(found: FileEvidence) -> bool:
    """Return whether a broker wrote to the file since: then a torn end may have been half of a batch."""
    with suppress(OSError):
        return status_of(found.place.path).st_size > found.size_bytes
    return False


def _without_keys(place: FilePlace) -> tuple[Undecoded, ...]:
    """Return why a file that should hold no keys, by its name, may hold some all the same."""
    cause: str | None = None
    for _ in range(_TRIES):  # a broker may be in the middle of an entry
        try:
            cause = why_implausible(place)
        except UnreadableFile as error:
            cause = None if error.has_vanished else error.cause
        if cause is None:
            return ()
    return (Undecoded(None, str(cause)),)


def _why_implausible(place: FilePlace, data: bytes) -> str | None:
    kind = next((kind for kind in _KINDS if kind in (f".{part}" for part in place.path.name.split("."))), None)
    try:
        if kind is FileKind.TXN_INDEX:
            return _of_transactions(place, data)
        if kind is FileKind.SNAPSHOT:
            parse_snapshot(data, place.path)
    except LogCleanerError as error:
        return f"its name says {kind}, and its content does not: {error}"
    if kind is None and b"\0" in data:
        return "its name says text, and it holds zero bytes: it may hold anything"
    if kind in _ENTRIES and not _is_index(data, _ENTRIES[kind]):
        return f"its name says {kind}, and its entries do not ascend: it may hold anything"
    return None


def _of_transactions(place: FilePlace, data: bytes) -> str | None:
    """Judge a transaction index. ``AbortedIn`` ignores a damaged index of a live segment."""
    try:
        parse_txn_index(data, place.path)
    except LogCleanerError as error:
        is_live = place.path.name.removesuffix(FileState.SWAP).endswith(FileKind.TXN_INDEX)
        return f"{error}; {_ABORTED if is_live else 'it may hold anything'}"
    return f"{len(data):,} bytes are no whole entries" if len(data) % TXN_ENTRY_BYTES else None


def _is_index(data: bytes, entry: np.dtype[Any]) -> bool:
    """Return whether whole entries ascend; zeros, which a broker preallocates, count for nothing."""
    if len(data) % entry.itemsize:
        return False
    entries = np.frombuffer(data, entry)
    columns = [entries[name].astype(np.int64) for name in entries.dtype.names or ()]
    is_entry = np.any([column != 0 for column in columns], axis=0)
    return all(bool((np.diff(column[is_entry]) >= 0).all()) for column in columns)


class _Table:
    """Some byte strings, each with the place of its key."""

    def __init__(self, forms: dict[bytes, int]) -> None:
        self.forms = forms
        self._shift = np.uint64(64 - max(_BITS_MIN, len(forms).bit_length() + _BITS_A_KEY))
        self._has = np.zeros(1 << int(np.uint64(64) - self._shift), np.bool_)
        buf = np.frombuffer(b"".join(forms) or b"\0", np.uint8)
        sizes = np.fromiter(map(len, forms), np.int64, len(forms))
        self._has[_words(buf, np.cumsum(sizes) - sizes, sizes) >> self._shift] = True

    def matches(self, buf: Bytes, starts: Integers, sizes: Integers, places: Integers) -> Iterator[KeyMatch]:
        """Yield the matches among the strings at some places of ``starts`` and ``sizes``, which index ``buf``."""
        if not self.forms:
            return
        words = _words(buf, starts[places], sizes[places])
        for place in places[self._has[words >> self._shift]].tolist():
            start = int(starts[place])
            key = self.forms.get(buf[start : start + int(sizes[place])].tobytes())
            if key is not None:
                yield KeyMatch(place, key)


def _words(buf: Bytes, starts: Integers, sizes: Integers) -> npt.NDArray[np.uint64]:
    """Return a word for each string: of its length, its first and its last eight bytes."""
    first, last, length = _MULTIPLIERS
    tails = np.maximum(sizes - _WORD_BYTES, 0)
    heads = _eight_bytes(buf, starts, sizes) * first
    words: npt.NDArray[np.uint64] = heads ^ (_eight_bytes(buf, starts + tails, sizes - tails) * last)
    return words ^ (sizes.astype(np.uint64) * length)


def _eight_bytes(buf: Bytes, starts: Integers, sizes: Integers) -> npt.NDArray[np.uint64]:
    """Load the first bytes of each string, at most eight; zeros follow a shorter one."""
    steps = np.arange(_WORD_BYTES)
    at = np.minimum(starts[:, None] + steps, buf.size - 1)
    loaded = np.where(steps < sizes[:, None], buf[at], np.uint8(0))
    words: npt.NDArray[np.uint64] = np.ascontiguousarray(loaded, np.uint8).view(np.uint64).ravel()
    return words
