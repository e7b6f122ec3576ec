"""What ``export`` wrote, for people and for machines: ``logcleaner.export/1``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from cleaner.printable import printable
from cleaner.report.text import counted, size

SCHEMA: Final = "logcleaner.export/1"


@dataclass(frozen=True, slots=True)
class Export:
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


def document(done: Export) -> dict[str, Any]:
    """What ``export --json`` prints."""
    return {"schema": SCHEMA, **asdict(done)}


def line(done: Export) -> str:
    """One line."""
    what = f"{counted(done.records, 'record')} of offsets {done.start_offset} to {done.end_offset}"
    return printable(f"{done.topic}-{done.partition}: {what}, {size(done.bytes)} in {done.file}")
