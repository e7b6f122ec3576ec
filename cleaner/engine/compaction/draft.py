"""The output of one slice: one thread makes it, and the cleaned segment takes it in the order of the slices."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from storage.arrays import Bytes, Table, Words
from storage.codecs.batches import compress_records
from storage.codecs.compression import Compression, compress
from storage.codecs.rewrite_batches import rewrite_batches
from storage.codecs.rewrite_messages import rewrite_messages
from storage.kernels.layout import WRITTEN
from storage.kernels.status import Status
from storage.scan.arena import ARENA_BYTES, Arena
from storage.scan.slices import Slice

_GROWTH: Final = 2
_OUTPUT_BYTES: Final = 10 << 20
"""The first size of the output. Nearly every slice leaves less, and untouched pages take no memory."""


class WrittenRun(NamedTuple):
    """A run of batches in the draft's output: bytes and rows, both half open."""

    start: int
    end: int
    first_row: int
    last_row: int


class Copied(NamedTuple):
    """A run of batches to be copied from file to file: bytes of the source file, half open."""

    start: int
    end: int
    written: Table
    """``layout.WRITTEN``, by position from ``start`` on."""

    @classmethod
    def of(cls, slice_: Slice) -> Copied:
        """Note the batches of a slice, which lie side by side. They are read here, and not when they are copied: by
        then the pages of the slice may have been left.
        """
        written = slice_.written()
        start = slice_.position_of(0)
        written["position"] -= slice_.table["position"][0]
        return cls(start, start + slice_.size_bytes, written)


class Outputs:
    """Buffers of drafts, which are used again: the system would have to zero fresh memory page by page.

    Called by several threads.
    """

    def __init__(self) -> None:
        self._spare: deque[Bytes] = deque()

    def take(self, size_bytes: int) -> Bytes:
        """Return a draft with the wanted room."""
        if size_bytes > _OUTPUT_BYTES:
            return np.empty(size_bytes, np.uint8)
        with suppress(IndexError):
            return self._spare.pop()
        return np.empty(_OUTPUT_BYTES, np.uint8)

    def give(self, output: Bytes) -> None:
        """Take a draft back that nobody reads any more. A very large draft is not kept."""
        if output.size == _OUTPUT_BYTES:
            self._spare.append(output)


class Draft:
    """Batches written or to be copied, in order."""

    def __init__(self, rows: int, out: Bytes) -> None:
        """Prepare an empty draft.

        Args:
            rows: of batches and messages that may be written.
            out: for the output, at first; it grows.
        """
        self.out = out
        self.written: Table = np.empty(rows, WRITTEN)
        self.position = 0
        """The position in ``out`` of the next batch."""
        self.rows = 0
        """The rows of ``written`` that are in use."""
        self.parts: list[WrittenRun | Copied] = []
        self._noted = (0, 0)

    def make_room(self, size_bytes: int) -> None:
        """Make room for more bytes."""
        if self.out.size - self.position < size_bytes:
            grown = np.empty(max(self.position + size_bytes, _GROWTH * self.out.size), np.uint8)
            grown[: self.position] = self.out[: self.position]
            self.out = grown

    def append(self, batch: Bytes, last_offset: int, max_timestamp_ms: int, records: int) -> None:
        """Append one batch."""
        self.make_room(batch.size)
        self.out[self.position : self.position + batch.size] = batch
        self.note(batch.size, last_offset, max_timestamp_ms, records)

    def append_rows(self, batches: Bytes, written: Table) -> None:
        """Append batches that lie side by side; ``written`` has their positions from the first one on."""
        self.make_room(batches.size)
        self.out[self.position : self.position + batches.size] = batches
        noted = self.written[self.rows : self.rows + written.size]
        noted[:] = written
        noted["position"] += self.position
        self.position, self.rows = self.position + batches.size, self.rows + written.size

    def note(self, size_bytes: int, last_offset: int, max_timestamp_ms: int, records: int) -> None:
        """Enter a batch that lies at ``position``."""
        self.written[self.rows] = (self.position, size_bytes, last_offset, max_timestamp_ms, records)
        self.position, self.rows = self.position + size_bytes, self.rows + 1

    def copy(self, run: Copied) -> None:
        """Note batches to be copied behind the output so far."""
        self.end_run()
        self.parts.append(run)

    def end_run(self) -> None:
        """End the part that was written since the last one."""
        position, rows = self._noted
        if self.rows > rows:
            self.parts.append(WrittenRun(position, self.position, rows, self.rows))
            self._noted = self.position, self.rows


class Recoder(Arena):
    """An arena that compresses, too; one for each thread."""

    def __init__(self) -> None:
        super().__init__()
        self._plain = np.empty(ARENA_BYTES, np.uint8)

    def rewrite(
        self,
        slice_: Slice,
        row: int,
        last: int,
        keep: tuple[Words, int, int],
        out: tuple[Bytes, int, Table, int],
    ) -> tuple[int, int, int, int]:
        """Write rows by their decisions.

        Args:
            slice_: with the outcomes.
            row: to begin with.
            last: row to end before.
            keep: survivors, now, and horizon of new tombstones, epoch ms.
            out: output and position in it, table of what was written and its rows in use.

        Returns: as ``rewrite_batches``.
        """
        codecs, (output, position, written, rows) = self._codecs, out
        return rewrite_batches(
            slice_.buf, slice_.table, row, last, *keep, self._buf, self._plain,
            output, position, written, rows, codecs.words, codecs.last_seen,
        )  # fmt: skip

    def rewrite_messages(
        self, slice_: Slice, row: int, last: int, keep: tuple[Words, bool, int], out: tuple[Bytes, int, Table, int]
    ) -> tuple[int, int, int, int]:
        """Write messages of v0 and v1 by their decisions, as ``rewrite`` does.

        Args:
            slice_: with the outcomes.
            row: to begin with.
            last: row to end before.
            keep: survivors, whether rebuilt messages become v2, and the horizon of tombstones then, epoch ms.
            out: as of ``rewrite``.
        """
        codecs, (output, position, written, rows) = self._codecs, out
        return rewrite_messages(
            slice_.buf, slice_.table, row, last, *keep, self._buf, self._plain,
            output, position, written, rows, codecs.words, codecs.last_seen,
        )  # fmt: skip

    def plain(self, size_bytes: int) -> Bytes:
        """A buffer for the records of one rebuilt batch, valid until the next call; a very large one is not kept."""
        if size_bytes > ARENA_BYTES:
            return np.empty(size_bytes, np.uint8)
        return self._plain[:size_bytes]

    def compress(self, codec: Compression, plain: Bytes, out: Bytes, position: int) -> int:
        """Write the body of a rebuilt batch, at the codec's default level, framed as Kafka frames it.

        Args:
            codec: of the batch.
            plain: its records.
            out: with ``body_bytes_max`` bytes of room.
            position: in ``out``, where to begin.

        Returns:
            The position behind the body.
        """
        status, end = compress_records(
            int(codec), plain, 0, plain.size, out, position, self._codecs.words, self._codecs.last_seen
        )
        if status == Status.OK:
            return int(end)
        body = np.frombuffer(compress(codec, plain.data), np.uint8)
        out[position : position + body.size] = body
        return position + body.size
