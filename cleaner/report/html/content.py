"""The content of a page, as values: the same shape for a plan, an explanation and an analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Headline(NamedTuple):
    """One of the figures on top of a page."""

    label: str
    words: str
    note: str
    value: int | float | None = None
    """The figure itself, as the document has it; None if the words are all there is."""


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
