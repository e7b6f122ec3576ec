"""The report of ``import``: text for people, ``logcleaner.import/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.printable import printable
from cleaner.report.page import Lines, Page, counted, size
from policies.explain.words import offsets

if TYPE_CHECKING:
    from cleaner.documents.imports import ImportDocument

SCHEMA: Final = "logcleaner.import/1"


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
