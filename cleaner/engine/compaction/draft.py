"""What one slice leaves: its output, made by one thread, taken up by the cleaned segment in the order of the slices."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from storage.arrays import Bytes, Table
from storage.kernels.layout import WRITTEN

_GROWTH: Final = 2
_OUTPUT_BYTES: Final = 10 << 20
"""Nearly every slice leaves less; what is not touched takes no memory."""


@dataclass(frozen=True, slots=True)
class WrittenRun:
    """A run of batches in the draft's output: bytes and rows, both half open."""

    start: int
    end: int
    first_row: int
    last_row: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A run of the slice's rows, to be copied from file to file."""

    first_row: int
    last_row: int


class Outputs:
    """Buffers of drafts, used again once these were taken up: fresh memory would have to be zeroed page by page. Called
    by several threads."""

    def __init__(self) -> None:
        self._spare: deque[Bytes] = deque()

    def take(self, size_bytes: int) -> Bytes:
        """One with so much room."""
        if size_bytes > _OUTPUT_BYTES:
            return np.empty(size_bytes, np.uint8)
        with suppress(IndexError):
            return self._spare.pop()
        return np.empty(_OUTPUT_BYTES, np.uint8)

    def give(self, output: Bytes) -> None:
        """It is not read any more; a very large one is not kept."""
        if output.size == _OUTPUT_BYTES:
            self._spare.append(output)


class Draft:
    """Batches written or to be copied, in order."""

    def __init__(self, rows: int, out: Bytes) -> None:
        """Have room.

        Args:
            rows: of the slice.
            out: for the output, at first; it grows.
        """
        self.out = out
        self.written: Table = np.zeros(rows, WRITTEN)
        self.position = 0
        """In ``out``, of the next batch."""
        self.rows = 0
        """In use of ``written``."""
        self.parts: list[WrittenRun | Copied] = []
        self._noted = (0, 0)

    def make_room(self, size_bytes: int) -> None:
        """Have room for so many bytes more."""
        if self.out.size - self.position < size_bytes:
            grown = np.empty(max(self.position + size_bytes, _GROWTH * self.out.size), np.uint8)
            grown[: self.position] = self.out[: self.position]
            self.out = grown

    def append(self, batch: Bytes, last_offset: int, max_timestamp_ms: int, records: int) -> None:
        """Put one batch behind the others."""
        self.make_room(batch.size)
        self.out[self.position : self.position + batch.size] = batch
        self.note(batch.size, last_offset, max_timestamp_ms, records)

    def note(self, size_bytes: int, last_offset: int, max_timestamp_ms: int, records: int) -> None:
        """Enter a batch that lies at ``position``."""
        self.written[self.rows] = (self.position, size_bytes, last_offset, max_timestamp_ms, records)
        self.position, self.rows = self.position + size_bytes, self.rows + 1

    def copy(self, first_row: int, last_row: int) -> None:
        """Have rows of the slice copied behind what was written."""
        self.end_run()
        self.parts.append(Copied(first_row, last_row))

    def end_run(self) -> None:
        """Make what was written since the last part a part."""
        position, rows = self._noted
        if self.rows > rows:
            self.parts.append(WrittenRun(position, self.position, rows, self.rows))
            self._noted = self.position, self.rows
