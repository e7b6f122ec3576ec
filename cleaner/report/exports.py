"""What ``export`` wrote, for people and for machines: ``logcleaner.export/1``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from rich.text import Text

from cleaner.printable import printable
from cleaner.report.page import Page, counted, size

SCHEMA: Final = "logcleaner.export/1"


@dataclass(frozen=True, slots=True)
class ExportReport:
    """One partition, exported."""

    topic: str
    partition: int
    log_dir: str
    format: str
    file: str
    start_offset: int
    end_offset: int
    """Behind the last one that was looked at."""
    records: int
    bytes: int
    """Of the file."""
    width_piped: ClassVar[int] = 80

    def document(self) -> dict[str, Any]:
        """Return what ``export --json`` prints."""
        return {"schema": SCHEMA, **asdict(self)}

    def text(self, page: Page) -> Iterator[Text]:  # noqa: ARG002 - a line stays whole, for those who search it
        """Yield one line."""
        what = f"{counted(self.records, 'record')} of offsets {self.start_offset} to {self.end_offset}"
        yield Text(printable(f"{self.topic}-{self.partition}: {what}, {size(self.bytes)} in {self.file}") + "\n")
