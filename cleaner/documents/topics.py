"""``logcleaner.topics/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, KindSize, PartitionPlace, Positive, Ratio, RemovalForecast, RunwayDocument
from cleaner.engine.space.account import SpaceKind


class TopicsPartition(PartitionPlace):
    """A partition. What is not known of one that could not be read is null."""

    cleanup_policy: str | None
    """`delete`, `compact`, `compact,delete`; empty if it is empty, or unknown."""
    segments: Count | None
    """The number of its segments."""
    bytes: Count | None
    """The size of its `.log` files."""
    log_start_offset: int | None
    """The first offset that consumers can read."""
    log_end_offset: int | None
    """The offset that the next record gets."""
    dirty_ratio: Ratio | None
    """The share of dirty bytes in what can be compacted; null if the partition is not compacted."""
    next_expiry_ms: int | None
    """The time from which the oldest segment may be deleted, epoch ms; `now` if it may be deleted already, also
    by size or by the log start offset; null if no time is known from which it may.
    """
    error: str | None
    """Why the partition cannot be read, or why its last cleaning failed, if its files have not changed since;
    null if neither.
    """
    files: Count | None
    """The number of files in its directory, with that directory; null if nobody looked."""
    apparent_bytes: Count | None
    """The sum of their sizes: what `du --apparent-size` prints for the directory."""
    disk_bytes: Count | None
    """The space that their blocks take: what `du` prints for the directory."""
    kinds: dict[SpaceKind, KindSize] | None
    """The files by kind. The keys are as in `log_dirs[].kinds`. Null if nobody looked."""
    removals: list[RemovalForecast] | None
    """When its `.deleted` files may be unlinked, by moment; empty if there is none, or if logcleaner leaves them
    to a broker. Null if nobody looked.
    """


class TopicsOther(TypedDict):
    """A file, or a directory with all that lies in it."""

    name: str
    """Its path from the log dir."""
    files: Count
    """The number of files."""
    apparent_bytes: Count
    """The sum of their sizes."""
    disk_bytes: Count
    """The space that their blocks take."""


class TopicsLogDir(TypedDict):
    """A log dir."""

    path: str
    """Its path."""
    whole: bool
    """False if only the directories of the topics that `--topic` names count."""
    files: Count
    """The number of files in it, directories among them."""
    apparent_bytes: Count
    """The sum of their sizes: what `du --apparent-size` prints. From coreutils 9.2 on, `du` leaves the kind
    `directories` out.
    """
    disk_bytes: Count
    """The space that their blocks take: what `du` prints."""
    kinds: dict[SpaceKind, KindSize]
    """The files by kind: `segments` (`.log`), `indexes`, `snapshots`, `deleted` (`.deleted` files), `cleaned`,
    `swap`, `delete_dirs`, `stray_dirs`, `future_dirs` (files in directories with these suffixes),
    `cluster_metadata`, `metadata` (checkpoints, `meta.properties` and such), `logcleaner` (its own files),
    `directories` (themselves), `others`.
    """
    others: list[TopicsOther]
    """The largest entries of the kind `others`, ten at most, the largest first."""
    unread: list[str]
    """What could not be read and is not counted, each with its cause."""


class TopicsLargest(TypedDict):
    """A file."""

    path: str
    """Its last name."""
    pid: Count
    """The process that keeps it; of several the one with the smallest number."""
    command: str
    """The name of that process."""
    processes: Positive
    """The number of processes that keep it."""
    apparent_bytes: Count
    """Its size."""
    disk_bytes: Count
    """The space that its blocks take."""


class TopicsUnlinked(TypedDict):
    """Files without a name that a process keeps open or mapped. `du` does not see them."""

    files: Count
    """The number of files."""
    apparent_bytes: Count
    """The sum of their sizes."""
    disk_bytes: Count
    """The space that their blocks take."""
    hidden_processes: Count | None
    """The number of processes that this user may not look into; null if /proc cannot be read."""
    largest: list[TopicsLargest]
    """The largest by their blocks, ten at most, the largest first."""


class TopicsFileSystem(TypedDict):
    """A file system."""

    log_dirs: list[str]
    """The log dirs on it."""
    size_bytes: Count
    """Its size."""
    used_bytes: Count
    """The space that files take."""
    free_bytes: Count
    """Its free space, for an ordinary user."""
    unlinked: TopicsUnlinked
    """Files without a name that a process keeps open or mapped. `du` does not see them."""


class TopicsDocument(TypedDict):
    """The document that `topics --json` prints."""

    schema: Literal["logcleaner.topics/1"]
    """The name of this schema."""
    now: int
    """The moment that the plan was made for, epoch ms."""
    partitions: list[TopicsPartition]
    """The partitions, by log dir and name."""
    log_dirs: list[TopicsLogDir]
    """The log dirs, and the space that they take."""
    file_systems: list[TopicsFileSystem]
    """The file systems of the log dirs."""
    runway: NotRequired[list[RunwayDocument]]
    """How long each file system of the log dirs lasts, if its logs go on being written as in the last 7 days and
    what may be deleted is. Only of a look that changes nothing.
    """
