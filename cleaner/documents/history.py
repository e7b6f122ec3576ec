"""``logcleaner.history/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, Positive


class HistorySegment(TypedDict):
    """A segment."""

    base_offset: int
    """Its base offset."""
    bytes: Count
    """Its size."""
    code: NotRequired[str]
    """The reason's code; of `delete`."""
    text: NotRequired[str]
    """The reason's sentence; of `delete`."""


class HistoryKept(TypedDict):
    """A file."""

    name: str
    """Its name."""
    bytes: int
    """Its size."""
    first: int | None
    """The first offset that the log lacks, or the one of the first entry; null if it has none."""
    last: int | None
    """As `first`: the last one."""


class HistoryEntry(TypedDict):
    """An entry."""

    time_ms: int
    """The wall clock, epoch ms."""
    what: str
    """The kind: `delete`, `compact`, `recover`, `restore`, `restore-failed`, `release`, `repair`,
    `repair-failed`, `revert`, `failed`, `sweep`, `import`, `evidence` or `clock`.
    """
    boot: NotRequired[tuple[str, int]]
    """Linux's boot id, and the wall clock at boot, epoch ms."""
    partition: NotRequired[str]
    """`TOPIC-PARTITION`; in every kind but `clock`."""
    bytes: NotRequired[Count]
    """The size of the segments."""
    log_start_offset: NotRequired[int]
    """Of `delete` the new log start offset, of `restore` the one it goes back to."""
    log_start_before: NotRequired[int]
    """Of a `delete` by `delete-records`: the log start offset before it."""
    segments: NotRequired[list[HistorySegment]]
    """Of `delete` and `restore`: the segments."""
    records_unkeyed: NotRequired[Positive]
    """Of `compact`: how many records it dropped because they have no key; absent if none."""
    first_dirty_offset: NotRequired[int]
    """Of `compact`: where the dirty section began."""
    end_offset: NotRequired[int]
    """Of `compact`: where the round was to end, exclusive."""
    groups: NotRequired[list[list[int]]]
    """Of `compact`: the base offsets of the segments that became one."""
    files: NotRequired[list[str]]
    """Of `recover`: the names of the files."""
    kept: NotRequired[list[HistoryKept]]
    """Of `evidence`: only copies of records, and index files that tell of missing ones."""
    file: NotRequired[str]
    """The name of the file; of `repair` and `revert`."""
    kind: NotRequired[str]
    """The kind of the repair (docs/repair.md); of `repair` and `revert`."""
    findings: NotRequired[list[str]]
    """The codes of what was wrong with the file; of `repair`."""
    error: NotRequired[str]
    """Of `failed`: the message."""
    name: NotRequired[str]
    """Of `sweep`: the leftover's path from the log dir."""
    act: NotRequired[str]
    """Of `sweep`: `unlink` or `rename`."""
    renamed_to: NotRequired[str | None]
    """Of `sweep`: the new name of a stray directory; null if it was unlinked."""
    fingerprint: NotRequired[str]
    """Of `failed`: SHA-256 of the names and identities of the files."""
    text: NotRequired[str]
    """Of `clock`: the guard rail's sentence."""


class HistoryLogDir(TypedDict):
    """A log dir."""

    path: str
    """Its path."""
    damaged_lines: Count
    """Lines that a crash or a full disk cut short, or that were altered."""
    entries: list[HistoryEntry]
    """The entries, oldest first. The kind of an entry, `what`, decides which of the optional fields it has."""


class HistoryDocument(TypedDict):
    """The document that `history --json` prints: the lines of the journals (docs/formats.md), without what a
    restore needs. A journal may hold fields of an older version.
    """

    schema: Literal["logcleaner.history/1"]
    """The name of this schema."""
    log_dirs: list[HistoryLogDir]
    """The log dirs."""
