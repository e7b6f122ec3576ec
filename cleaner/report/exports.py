"""The report of ``export``: text for people, ``logcleaner.export/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from cleaner.printable import printable
from cleaner.report.page import Lines, Page, counted, size
from policies.explain.words import offsets

if TYPE_CHECKING:
    from cleaner.documents.export import ExportDocument

SCHEMA: Final = "logcleaner.export/1"


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
            "schema": SCHEMA,
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
