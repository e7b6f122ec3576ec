"""Tell whether a file that holds no keys by its name can be what the name says: somebody may have renamed a log.

Each kind has its own form: entries of an index ascend, a snapshot has a checksum, all other files are text. Record
batches have none of these.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cleaner.engine.prove_erased.places import FilePlace
from storage.errors import LogCleanerError
from storage.log.producer_state import parse_snapshot
from storage.log_dir import read_file
from storage.names import FileKind, FileState
from storage.txn_index import TXN_ENTRY_BYTES, parse_txn_index

_SIZE_MAX: Final = 1 << 30
"""No file of these kinds is as large. An index has 8 bytes for each 4 KiB of its segment."""
_ENTRIES: Final = {
    FileKind.INDEX: np.dtype([("offset", ">i4"), ("position", ">i4")]),
    FileKind.TIME_INDEX: np.dtype([("timestamp", ">i8"), ("offset", ">i4")]),
}
_KINDS: Final = (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT)
_ABORTED: Final = "a record of an aborted transaction may count as committed, and a date be too early"


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
    """Judge a transaction index. ``AbortedIn`` takes no transaction from a damaged one of a live segment."""
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
