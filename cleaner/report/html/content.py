"""The content of a page, as values: the same shape for a plan, an explanation and an analysis.

The segments are packed: each reason is stored once, and each segment has only its differences. A sentence is split into
its words and its figures; the words are kept once for all segments that share them. The page's script unpacks them.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cleaner.printable import printable

_FIGURES: Final = re.compile(r"\d(?:[\w.:,-]*\w)?")
_EXACT_MAX: Final = 1 << 53
"""The greatest number that is exact in JavaScript; a greater one is packed as text."""
_LEVEL: Final = 4
"""The level of compression. A higher level takes twice as long, and makes the page a twentieth smaller."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """A page.

    Attributes:
        title: of the window.
        heading: the kind of report, and what it is about.
        sentence: says it all.
        headlines: the figures on top.
        charts, remarks, tables: what follows.
        remarks_left_out: the number of remarks that the page leaves out.
        segments: the packed segments of the partitions, as ``packing`` makes them.
        report: the provenance, as the document has it.
        now_ms: the moment of the report.
        notes: lines under the sentence, such as failures.
    """

    title: str
    heading: str
    sentence: str
    headlines: tuple[Headline, ...]
    charts: tuple[Chart, ...]
    remarks: tuple[Remark, ...]
    tables: tuple[DataTable, ...]
    report: Mapping[str, Any]
    now_ms: int
    remarks_left_out: int = 0
    segments: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Headline(NamedTuple):
    """One of the figures on top of a page."""

    label: str
    words: str
    note: str
    value: int | float | None = None
    """The figure as a number of the document; None if there are only words."""


class ChartTable(NamedTuple):
    """The figures of a chart, for those who cannot see it or want them exactly. Integers are bytes."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


class Legend(NamedTuple):
    """A name, and the class that has its colour."""

    name: str
    colour: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its caption and its figures."""

    key: str
    title: str
    caption: str
    wide: str
    """SVG."""
    narrow: str
    """SVG, for pages of the width of a telephone."""
    legend: tuple[Legend, ...]
    table: ChartTable


class Remark(NamedTuple):
    """A finding: what is wrong or keeps bytes, and what to do."""

    code: str
    where: str
    text: str
    remedy: str
    owner: str
    size_bytes: int | None
    until_ms: int | None


class Kind(StrEnum):
    """The kinds of columns. The script formats and compares by them."""

    NAME = "name"
    TEXT = "text"
    WORD = "word"
    NUMBER = "number"
    BYTES = "bytes"
    RATIO = "ratio"
    MOMENT = "moment"
    SPAN = "span"
    CODE = "code"
    ACTION = "action"


class Column(NamedTuple):
    """A column of a table: its heading, its kind, and a value for each row."""

    heading: str
    kind: Kind
    values: Sequence[Any]
    has_total: bool = False


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table that is sorted, filtered and copied in the page."""

    key: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    opens: str = ""
    """The part that a row opens: ``segments`` (of a partition); empty if a row opens nothing."""

    @property
    def length(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values) if self.columns else 0


class Packer:
    """Packs segments, partition by partition."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[Any, ...], int] = {}
        self._limits: dict[tuple[Any, ...], int] = {}
        self._sentences: dict[tuple[Any, ...], tuple[int, list[str]]] = {}
        self._columns: dict[str, list[Any]] = {name: [] for name in ("base", "bytes", "newest", "until", "reason")}
        self._figures: list[str] = []
        self._starts: list[int] = [0]
        self._pins: list[list[Any]] = []

    def add(self, partition: Mapping[str, Any]) -> None:
        """Add the segments of a partition, its offsets, and when it began. ``partition``: as the document has it."""
        bases, sizes, newests, untils, reasons = self._columns.values()
        base = newest = 0
        for segment in partition["segments"]:  # a hundred thousand times: what is usual comes first
            base_offset, newest_ms = segment["base_offset"], segment["newest_timestamp_ms"]
            until_ms = segment["reason"]["until_ms"]
            bases.append(base_offset - base if base_offset < _EXACT_MAX else str(base_offset))
            base = base_offset if base_offset < _EXACT_MAX else base
            sizes.append(segment["bytes"])
            newests.append(_step(newest_ms, newest))
            untils.append(_step(until_ms, newest_ms or 0))
            if newest_ms is not None and newest_ms < _EXACT_MAX:
                newest = newest_ms
            reasons.append(self._reason(segment["action"], segment["reason"]))
        self._starts.append(len(bases))
        names = ("log_start_offset", "log_end_offset", "high_watermark", "last_stable_offset", "first_dirty_offset")
        born_ms = partition["segments"][0].get("first_timestamp_ms") if partition["segments"] else None
        self._pins.append([*(_safe(partition.get(name)) for name in names), _safe(born_ms)])

    def packed(self) -> dict[str, Any]:
        """Return everything that was added, packed."""
        return {
            **self._columns,
            "figures": self._figures,
            "starts": self._starts,
            "pins": self._pins,
            "reasons": [[action, code, words, limit] for action, code, words, limit in self._reasons],
            "limits": [list(limit) for limit in self._limits],
        }

    def _reason(self, action: str, reason: Mapping[str, Any]) -> int:
        """Return the place of a reason, and note the figures of its sentence."""
        text, limit = reason["text"], reason["limit"]
        place = (limit["value"], limit["file"], limit["line"]) if limit else None
        known = self._sentences.get((action, text, place))
        if known is None:
            told = printable(text)
            key = action, reason["code"], tuple(_FIGURES.split(told)), self._limit(limit) if limit else None
            place_of = self._reasons.setdefault(key, len(self._reasons))
            known = self._sentences[action, text, place] = place_of, _FIGURES.findall(told)
        self._figures += known[1]
        return known[0]

    def _limit(self, limit: Mapping[str, Any]) -> int:
        file = limit["file"] and printable(limit["file"])
        stated = limit["key"], _safe(limit["value"]), limit["layer"], file, limit["line"]
        return self._limits.setdefault(stated, len(self._limits))


def packed(values: Mapping[str, Any]) -> str:
    """Return values as compressed JSON in base64: letters that mean nothing in HTML."""
    text = json.dumps(values, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("ascii"), _LEVEL, mtime=0)).decode("ascii")


def columns_of(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of rows by column."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name in names:
            found[name].append(_safe(row[name]))
    return found


def _safe(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not -_EXACT_MAX < value < _EXACT_MAX else value


def _step(value: int | None, before: int) -> int | str | None:
    """Return the difference to the value before, which packs better; a text if the value is too great."""
    if value is None or not -_EXACT_MAX < value < _EXACT_MAX:
        return value if value is None else str(value)
    return value - before
