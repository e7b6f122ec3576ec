"""Findings about indexes and offsets, told behind all files, as Kafka's own tool tells them.

Source: Kafka ``DumpLogSegments``: what ``main`` and ``TimeIndexDumpErrors`` print.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cleaner.dump.files import without_controls
from storage.arrays import Integers


class IndexMismatch(NamedTuple):
    """A number as an index says it, and as the log says it."""

    in_index: int
    in_log: int


class DumpFindings:
    """Findings by file, in the order in which they were made."""

    def __init__(self) -> None:
        self._offset_index: dict[Path, dict[int, int]] = {}
        self._timestamps: dict[Path, list[IndexMismatch]] = {}
        self._out_of_order: dict[Path, list[IndexMismatch]] = {}
        self._not_found: dict[Path, list[IndexMismatch]] = {}
        self._gaps: dict[Path, list[Integers]] = {}

    def offset_mismatch(self, path: Path, index_offset: int, log_offset: int) -> None:
        """Note that an offset index points to a batch that ends at another offset."""
        self._offset_index.setdefault(path, {})[index_offset] = log_offset

    def timestamp_mismatch(self, path: Path, index_ms: int, log_ms: int) -> None:
        """Note that a time index names a batch with another largest timestamp."""
        self._timestamps.setdefault(path, []).append(IndexMismatch(index_ms, log_ms))

    def timestamp_out_of_order(self, path: Path, index_ms: int, previous_ms: int) -> None:
        """Note that a timestamp of a time index is not above the one before it."""
        self._out_of_order.setdefault(path, []).append(IndexMismatch(index_ms, previous_ms))

    def offset_not_found(self, path: Path, index_offset: int, log_offset: int) -> None:
        """Note that no batch ends at the offset that a time index names. The log's offset is -1 if the log has no batch
        at all.
        """
        self._not_found.setdefault(path, []).append(IndexMismatch(index_offset, log_offset))

    def gaps(self, path: Path, pairs: Integers) -> None:
        """Note records that do not follow the one before them by one: two columns of offsets."""
        if len(pairs):
            self._gaps.setdefault(path, []).append(pairs)

    def lines(self) -> Iterator[str]:
        """Return the lines for stderr."""
        for path, found in self._offset_index.items():
            yield f"Mismatches in :{without_controls(str(path))}"
            for index, log in sorted(found.items(), reverse=True):
                yield f"  Index offset: {index}, log offset: {log}"
        for path, pairs in self._timestamps.items():
            yield f"Found timestamp mismatch in :{without_controls(str(path))}"
            for index, log in pairs:
                yield f"  Index timestamp: {index}, log timestamp: {log}"
        for path, pairs in self._out_of_order.items():
            yield f"Found out of order timestamp in :{without_controls(str(path))}"
            for index, log in pairs:
                yield f"  Index timestamp: {index}, Previously indexed timestamp: {log}"
        for path, pairs in self._not_found.items():
            yield f"The following indexed offsets are not found in :{without_controls(str(path))}"
            for index, log in pairs:
                yield f"Indexed offset: {index}, found log offset: {log}"
        for path, parts in self._gaps.items():
            yield f"Non-consecutive offsets in {without_controls(str(path))}"
            followers = dict(np.concatenate(parts).tolist())  # as in Kafka, the last one counts
            for offset, next_offset in sorted(followers.items()):
                yield f"  {offset} is followed by {next_offset}"

    def documents(self) -> Iterator[dict[str, Any]]:
        """Return the findings for JSON. Offsets that do not follow are left out: the records show them."""
        yield from _documents("index-offset", {path: found.items() for path, found in self._offset_index.items()})
        yield from _documents("index-timestamp", self._timestamps)
        yield from _documents("index-order", self._out_of_order)
        yield from _documents("index-offset-not-found", self._not_found)


def _documents(kind: str, found: Any) -> Iterator[dict[str, Any]]:
    for path, pairs in found.items():
        for index, log in pairs:
            yield {"finding": kind, "path": str(path), "index": index, "log": log}
