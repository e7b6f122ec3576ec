"""The aborted transactions of partition directories: their records supersede nothing, and compaction takes them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from storage.errors import CorruptIndex, UnreadableFile
from storage.log.listing import list_partition
from storage.log_dir import read_file
from storage.names import FileKind, FileState
from storage.txn_index import AbortedTxn, parse_txn_index


class AbortedIn:
    """The transaction indexes of directories, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, Sequence[AbortedTxn]] = {}

    def directory(self, directory: Path) -> Sequence[AbortedTxn]:
        """Return the aborted transactions of a partition directory; what cannot be read names none."""
        if directory not in self._known:
            self._known[directory] = list(dict.fromkeys(_aborted_in(directory)))
        return self._known[directory]


def _aborted_in(directory: Path) -> Sequence[AbortedTxn]:
    found: list[AbortedTxn] = []
    with suppress(UnreadableFile):  # beside a live broker it may be gone
        listing = list_partition(directory)
        for file in (*listing.in_state(FileState.PLAIN), *listing.in_state(FileState.SWAP)):
            if file.name.kind is FileKind.TXN_INDEX:
                with suppress(CorruptIndex, UnreadableFile):
                    found += parse_txn_index(read_file(file.path) or b"", file.path)
    return found
