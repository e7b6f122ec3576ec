"""What lies in a log dir, as the readable reader of ``storage.records`` sees it: the witness against the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from storage.errors import CorruptBatch
from storage.names import FileState, parse_segment_file_name
from storage.records import Record
from tests.batches import iter_batches

WITH_DATA = (FileState.PLAIN, FileState.SWAP)


@dataclass(frozen=True, slots=True)
class Sight:
    """One partition."""

    records: frozenset[Record]
    """Of all batches with a right checksum that a walk from the start of their file meets."""
    latest: Mapping[bytes, Record]
    """The last data record of every key."""
    broken: frozenset[int]
    """Base offsets of the ``.log`` files in which not every byte is part of such a batch."""
    files: Mapping[str, str]
    """Name -> digest."""


def sights(log_dir: Path) -> dict[str, Sight]:
    """Of every partition directory but the metadata log's."""
    found = (path for path in sorted(log_dir.iterdir()) if path.is_dir() and not path.name.startswith("__"))
    return {path.name: sight_of(path) for path in found}


def sight_of(partition: Path) -> Sight:
    """A partition as it is."""
    logs = sorted(path for path in partition.iterdir() if _holds_records(path))
    read = [_readable(path.read_bytes()) for path in logs]
    data = [record for found, _ in read for record in found]
    broken = {int(path.name[:20]) for path, (_, is_whole) in zip(logs, read, strict=True) if not is_whole}
    files = {path.name: sha256(path.read_bytes()).hexdigest() for path in partition.iterdir() if path.is_file()}
    return Sight(frozenset(data), _latest(data), frozenset(broken), files)


def forget() -> None:
    """Let go of the files read so far: those of the samples are large."""
    _readable.cache_clear()


def _holds_records(path: Path) -> bool:
    name = parse_segment_file_name(path.name)
    return name is not None and name.kind.value == ".log" and name.state in WITH_DATA


@lru_cache(maxsize=1000)
def _readable(data: bytes) -> tuple[tuple[Record, ...], bool]:
    """The records of a ``.log`` that can be read and vouched for, and whether that is all there is."""
    found: list[Record] = []
    walk, is_whole = iter_batches(data, Path()), True
    while True:
        try:
            for batch in walk:
                batch.ensure_valid()
                found += batch.records()
            return tuple(found), is_whole and walk.position == len(data)
        except CorruptBatch as error:
            is_whole = False
            if error.position >= walk.position:  # a header: nobody knows where the next one is
                return tuple(found), False


def _latest(records: Iterable[Record]) -> dict[bytes, Record]:
    latest: dict[bytes, Record] = {}
    for record in sorted(_keyed(records), key=lambda record: record.offset):
        assert record.key is not None
        latest[record.key] = record
    return latest


def _keyed(records: Iterable[Record]) -> Iterator[Record]:
    return (record for record in records if record.key is not None)
