"""``logcleaner.deletion/1``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, PartitionPlace


class DeletionRefused(TypedDict):
    """The reason for which nothing is deleted."""

    code: str
    """The reason (docs/delete-records.md)."""
    text: str
    """A sentence for people."""


class DeletionSegment(TypedDict):
    """A segment."""

    base_offset: int
    """Its base offset."""
    bytes: Count
    """The size of its `.log` and index files."""


class DeletionDocument(PartitionPlace):
    """The document that `delete-records --json` prints."""

    schema: Literal["logcleaner.deletion/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was to be changed."""
    before_offset: int | None
    """The offset that was asked for; -1 means the high watermark. Null if a time was asked for."""
    before_ms: int | None
    """The time that was asked for, epoch ms; null if an offset was."""
    done: bool
    """True if it was carried out."""
    refused: DeletionRefused | None
    """Why nothing is deleted; null if nothing speaks against it."""
    high_watermark: int | None
    """The checkpointed high watermark; null if there is none, or if it was refused."""
    log_end_offset: int | None
    """The log end offset; null if it was refused."""
    log_start_before: int | None
    """The log start offset before; null if it was refused."""
    log_start_offset: int | None
    """The log start offset after it; null if it was refused."""
    records: Count | None
    """Records that become unreadable; null if they could not be counted."""
    damaged: str | None
    """The first damage among what becomes unreadable: file, byte and cause. Null if nothing is damaged."""
    restorable_until_ms: int | None
    """Until when `restore` takes it back, epoch ms; of a dry run as if it were carried out now. Null if nothing
    is to do.
    """
    segments: list[DeletionSegment]
    """The segments that go, oldest first."""
    deleted_bytes: Count
    """The size of these segments."""
