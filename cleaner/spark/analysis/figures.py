"""Add up the figures of stretches: rows of integers, by partition and by day, codec, batch size or producer.

Tables of one log merge in the order of the log, in any grouping, to the same table. So a task merges what it reads, and
another task sorts and merges what several tasks send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.arrays import Integers

Figures = dict[str, Integers]
"""A table, column by column."""
Tables = dict[str, Figures]
"""Tables by the names of ``TABLES``."""
Row = dict[str, Any]
Flags = npt.NDArray[np.bool_]

NONE_YET: Final = int(np.iinfo(np.int64).max)
"""Of an ``oldest_ms`` or ``open_since_offset``: there is none."""
ROWS_PENDING_MIN: Final = 1 << 14
"""The number of rows that are worth a merge."""

_Reduced = Callable[[Integers, Integers], Integers]
_sum: Final = np.add.reduceat
_least: Final = np.minimum.reduceat
_most: Final = np.maximum.reduceat


def _first(values: Integers, starts: Integers) -> Integers:
    return values[starts]


def _last(values: Integers, starts: Integers) -> Integers:
    found: Integers = values[np.append(starts[1:], values.size) - 1]
    return found


class _Table(NamedTuple):
    """A rule by which the rows of a table merge."""

    by: tuple[str, ...]
    """The columns that are equal in rows of one group."""
    columns: Mapping[str, _Reduced]
    """What becomes of each other column of a group."""
    ordered_by: tuple[str, ...] = ()
    """The order of the rows of a group."""
    joined: Callable[[Figures, Flags], None] | None = None
    """Changes the sorted rows before they are reduced; the flags tell where groups begin."""


def _across(rows: Figures, is_first: Flags) -> None:
    """Count a record that is earlier than the last one of the row before."""
    before = np.roll(rows["last_ms"], 1)
    rows["out_of_order"] += ~is_first & (rows["first_ms"] >= 0) & (rows["first_ms"] < before)


def _still_open(rows: Figures, is_first: Flags) -> None:
    """Drop the transactions that a later marker ended."""
    ended = _most(rows["last_marker"], np.flatnonzero(is_first))[np.cumsum(is_first) - 1]
    rows["open_since_offset"][rows["open_since_offset"] <= ended] = NONE_YET


TABLES: Final[Mapping[str, _Table]] = {
    "sums": _Table(
        ("place",),
        {
            "first_offset": _first,
            "first_ms": _first,
            "last_ms": _last,
            "oldest_ms": _least,
            "newest_ms": _most,
            **dict.fromkeys(("records", "without_key", "tombstones", "future", "missing", "out_of_order"), _sum),
        },
        ("first_offset",),
        _across,
    ),
    "batch_sizes": _Table(("place", "batch_bytes"), {"batches": _sum}),
    "days": _Table(("place", "day"), {"records": _sum, "size_bytes": _sum}),
    "codecs": _Table(
        ("place", "codec"), dict.fromkeys(("batches", "records", "size_bytes", "plain_bytes", "known_bytes"), _sum)
    ),
    "producers": _Table(
        ("place", "producer_id"),
        {
            "producer_epoch": _most,
            "last_marker": _most,
            "open_since_offset": _least,
            **dict.fromkeys(("records", "batches", "size_bytes", "committed", "aborted"), _sum),
        },
        (),
        _still_open,
    ),
}


def changes(*values: Integers) -> Flags:
    """Return flags: True at the first place, and at each place where an array differs from the place before."""
    found = np.ones(values[0].size, np.bool_)
    found[1:] = np.logical_or.reduce([value[1:] != value[:-1] for value in values])
    return found


def merged(name: str, parts: Sequence[Figures]) -> Figures:
    """Merge parts of the table of that name."""
    table = TABLES[name]
    rows = {column: np.concatenate([part[column] for part in parts]) for column in (*table.by, *table.columns)}
    if not rows["place"].size:
        return rows
    order = np.lexsort([rows[column] for column in reversed((*table.by, *table.ordered_by))])
    rows = {column: values[order] for column, values in rows.items()}
    is_first = changes(*(rows[column] for column in table.by))
    if table.joined:
        table.joined(rows, is_first)
    starts = np.flatnonzero(is_first)
    found = {column: rows[column][starts] for column in table.by}
    return found | {column: reduced(rows[column], starts) for column, reduced in table.columns.items()}


class Growing:
    """Tables that take in further parts."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Figures]] = {name: [_empty(name)] for name in TABLES}
        self._pending = self._merged_rows = 0

    def add(self, tables: Tables) -> None:
        """Take in a part of each table."""
        for name, figures in tables.items():
            self._parts[name].append(figures)
            self._pending += figures["place"].size
        if self._pending > max(ROWS_PENDING_MIN, self._merged_rows):
            self._merged_rows = sum(figures["place"].size for figures in self.merge().values())

    def merge(self) -> Tables:
        """Return the tables."""
        found = {name: merged(name, parts) for name, parts in self._parts.items()}
        self._parts = {name: [figures] for name, figures in found.items()}
        self._pending = 0
        return found


def _empty(name: str) -> Figures:
    return {column: np.empty(0, np.int64) for column in (*TABLES[name].by, *TABLES[name].columns)}


def answers(tables: Tables) -> dict[str, list[Row]]:
    """Return the rows of merged tables, as an analysis tells them; ``sums`` with the figures of batch sizes."""
    sizes = {row["place"]: row for row in _of_batches(tables["batch_sizes"])}
    sums = {row["place"]: row for row in _rows(tables["sums"])}
    return {
        "sums": [_dated(sums.get(place, {"records": 0})) | of_batches for place, of_batches in sizes.items()],
        "days": list(_rows(tables["days"])),
        "codecs": [
            {**row, "ratio": row["plain_bytes"] / row["known_bytes"] if row["known_bytes"] else None}
            for row in _rows(tables["codecs"])
        ],
        "producers": [
            {**row, "open_since_offset": _unless(row["open_since_offset"], NONE_YET)}
            for row in _rows(tables["producers"])
        ],
    }


def _rows(figures: Figures) -> Iterator[Row]:
    for values in zip(*(column.tolist() for column in figures.values()), strict=True):
        yield dict(zip(figures, values, strict=True))


def _dated(row: Row) -> Row:
    return row | {
        "oldest_ms": _unless(row.get("oldest_ms", NONE_YET), NONE_YET),
        "newest_ms": _unless(row.get("newest_ms", -1), -1),
    }


def _unless(value: int, none: int) -> int | None:
    return None if value == none else value


def _of_batches(sizes: Figures) -> Iterator[Row]:
    """Yield the number of batches of each partition, the least size, the median by rank, and the greatest."""
    starts = np.flatnonzero(changes(sizes["place"])) if sizes["place"].size else np.empty(0, np.int64)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), sizes["place"].size], strict=False):
        batch_bytes, ranks = sizes["batch_bytes"][start:end], np.cumsum(sizes["batches"][start:end])
        median = int(np.searchsorted(ranks, (int(ranks[-1]) + 1) // 2))
        yield {
            "place": int(sizes["place"][start]),
            "batches": int(ranks[-1]),
            "batch_min_bytes": int(batch_bytes[0]),
            "batch_median_bytes": int(batch_bytes[median]),
            "batch_max_bytes": int(batch_bytes[-1]),
        }
