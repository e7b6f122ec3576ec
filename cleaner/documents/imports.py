"""``logcleaner.import/1``."""

from __future__ import annotations

from typing import Literal

from cleaner.documents.parts import Count, PartitionPlace, Positive


class ImportDocument(PartitionPlace):
    """The document that `import --json` prints."""

    schema: Literal["logcleaner.import/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was written."""
    log_dir: str
    """The path of the log dir that gets the partition."""
    files: list[str]
    """The input files."""
    topic_id: str | None
    """The topic id of the partition; null in a dry run of an import that would make a new one."""
    records: Count
    """Records that were imported."""
    control_records: Count
    """Control records of the input, which are left out."""
    log_start_offset: int
    """The offset of the first record."""
    log_end_offset: int
    """The offset behind the last record."""
    segments: Positive | None
    """Segments that were made; null in a dry run."""
    bytes: Count
    """The size of the `.log` files."""
    warning: str | None
    """What a broker will do with the partition that one may not expect; null if it serves it."""
