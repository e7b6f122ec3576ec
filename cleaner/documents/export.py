"""``logcleaner.export/1``."""

from __future__ import annotations

from typing import Literal

from cleaner.documents.parts import Count, PartitionPlace


class ExportDocument(PartitionPlace):
    """The document that `export --json` prints."""

    schema: Literal["logcleaner.export/1"]
    """The name of this schema."""
    format: Literal["parquet", "jsonl"]
    """The format of the file."""
    file: str
    """The path of the file."""
    start_offset: int
    """The first offset that was asked for."""
    end_offset: int
    """The offset after the last one that was read."""
    records: Count
    """Records in the file."""
    bytes: Count
    """The size of the file."""
