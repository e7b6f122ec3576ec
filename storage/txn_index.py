"""Transaction index of a segment: the aborted transactions whose markers lie in it.

Source: Kafka ``TransactionIndex``, ``AbortedTxn``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import CorruptIndex
from storage.names import parse_segment_file_name

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
TXN_ENTRY_BYTES: Final = _ENTRY.size


class AbortedTxn(NamedTuple):
    """An aborted transaction.

    ``last_offset`` is its marker's. ``last_stable_offset`` is the last stable offset after the abort: the first offset
    of the oldest other transaction still open then, else the offset behind the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_txn_index(data: bytes, path: Path) -> list[AbortedTxn]:
    """Read the entries of a ``.txnindex``, by ascending marker offset. A torn entry at the end is left out.

    Raises:
        CorruptIndex: another version than 0, markers that do not ascend, or one below the base offset in the file's
            name.
    """
    entries: list[AbortedTxn] = []
    name = parse_segment_file_name(path.name)
    for at in range(0, len(data) - len(data) % _ENTRY.size, _ENTRY.size):
        version, *fields = _ENTRY.unpack_from(data, at)
        entry = AbortedTxn(*fields)
        if version != _VERSION:
            raise CorruptIndex(path, at, f"version {version} of an aborted transaction")
        if entries and entry.last_offset <= entries[-1].last_offset:
            raise CorruptIndex(path, at, f"marker {entry.last_offset} does not follow {entries[-1].last_offset}")
        if name and entry.last_offset < name.base_offset:
            raise CorruptIndex(path, at, f"marker {entry.last_offset} lies below the segment")
        entries.append(entry)
    return entries


def format_aborted_txn(entry: AbortedTxn) -> bytes:
    """Return the 34 bytes that append ``entry`` to a ``.txnindex``."""
    return _ENTRY.pack(_VERSION, *entry)


def collect_aborted_txns(
    indexes: Iterable[Sequence[AbortedTxn]], from_offset: int, upper_offset: int
) -> list[AbortedTxn]:
    """Return the aborted transactions that may have records in ``[from_offset, upper_offset)``.

    Kafka stops at the first entry whose last stable offset reaches ``upper_offset``. This function looks at all
    entries: no checksum covers that offset, and a wrong one would hide the entries behind it.

    Args:
        indexes: entries of the segment that holds ``from_offset``, then of each later one.
        from_offset: transactions that ended below it are left out.
        upper_offset: transactions that began at or above it are left out.

    Source: Kafka TransactionIndex.collectAbortedTxns.
    """
    return [
        entry
        for entries in indexes
        for entry in entries
        if entry.last_offset >= from_offset and entry.first_offset < upper_offset
    ]
