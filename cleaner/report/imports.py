"""The reports of ``import`` and ``export``: text for people, and for machines.

Their documents are ``logcleaner.import/1`` and ``logcleaner.export/1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from cleaner.printable import printable
from cleaner.report.page import Lines, Page
from policies.reasons import counted, offsets, size

if TYPE_CHECKING:
    from cleaner.documents.changes import ExportDocument, ImportDocument

SCHEMA: Final = "logcleaner.import/1"

EXPORT_SCHEMA: Final = "logcleaner.export/1"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The import of one partition, done or rehearsed."""

    dry_run: bool
    topic: str
    partition: int
    log_dir: str
    files: tuple[str, ...]
    topic_id: str | None
    """The topic id; None in a dry run that would make a new one."""
    records: int
    control_records: int
    """Control records of the input, which are left out."""
    log_start_offset: int
    log_end_offset: int
    segments: int | None
    """The number of segments; None in a dry run, which writes none."""
    bytes: int
    """The size of the ``.log`` files."""
    warning: str | None
    """A sentence about what a broker will do that the user may not expect."""

    def document(self) -> ImportDocument:
        """Return what ``import --json`` prints."""
        return {
            "schema": SCHEMA,
            "dry_run": self.dry_run,
            "topic": self.topic,
            "partition": self.partition,
            "log_dir": self.log_dir,
            "files": list(self.files),
            "topic_id": self.topic_id,
            "records": self.records,
            "control_records": self.control_records,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "segments": self.segments,
            "bytes": self.bytes,
            "warning": self.warning,
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line, and one on what was left out."""
        what = f"{counted(self.records, 'record')}, {offsets(self.log_start_offset, self.log_end_offset)}"
        where = "" if self.segments is None else f" in {counted(self.segments, 'segment')}"
        would = "would be imported into" if self.dry_run else "imported into"
        name = printable(f"{self.topic}-{self.partition}")
        page.line(f"{name}: {what}, {size(self.bytes)}{where}, {would} {self.log_dir}", hanging=2)
        if self.control_records:
            page.note(f"{counted(self.control_records, 'control record')} of the input left out")
        yield page.text


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The export of one partition."""

    topic: str
    partition: int
    log_dir: str
    format: Literal["parquet", "jsonl"]
    file: str
    start_offset: int
    end_offset: int
    """The offset behind the last record that was read."""
    records: int
    bytes: int
    """Size of the file."""

    def document(self) -> ExportDocument:
        """Return what ``export --json`` prints."""
        return {
            "schema": EXPORT_SCHEMA,
            "topic": self.topic,
            "partition": self.partition,
            "log_dir": self.log_dir,
            "format": self.format,
            "file": self.file,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "records": self.records,
            "bytes": self.bytes,
        }

    def text(self, page: Page) -> Iterator[Lines]:  # noqa: ARG002 - a line stays whole, so that it can be searched
        """Yield one line."""
        what = f"{counted(self.records, 'record')} of {offsets(self.start_offset, self.end_offset)}"
        yield Lines((printable(f"{self.topic}-{self.partition}: {what}, {size(self.bytes)} in {self.file}"), ""))
