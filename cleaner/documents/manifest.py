"""``logcleaner.manifest/1``."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, Sha256
from policies.reasons import Action, ReasonCode


class ManifestConfig(TypedDict):
    """A value."""

    value: int | float | str | bool | list[Any] | None
    """The value."""
    origin: str
    """The place that stated it."""


class ManifestSegment(TypedDict):
    """A segment."""

    base_offset: int
    """Its base offset."""
    bytes: Count
    """The size of its `.log` file."""
    action: Action
    """What was done with it."""
    code: ReasonCode | Literal["FAILED", "ROUND_ENDED"]
    """The reason's code; `FAILED` and `ROUND_ENDED` for what was planned and not done."""
    text: str
    """The reason's sentence."""


class ManifestEntry(TypedDict):
    """A file."""

    path: str
    """Its path within the copy."""
    bytes: Count
    """Its size."""
    sha256: Sha256
    """SHA-256, in hexadecimal digits."""


class ManifestPartition(TypedDict):
    """A partition."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    error: str | None
    """Why it was copied as it is; null otherwise."""
    log_start_offset: NotRequired[int]
    """Of the copy."""
    log_end_offset: NotRequired[int]
    """Of the copy."""
    high_watermark: NotRequired[int | None]
    """Of the copy; null if unknown."""
    last_stable_offset: NotRequired[int | None]
    """Of the copy; null if unknown."""
    compacted_to_offset: NotRequired[int | None]
    """Where the compaction ended; null if there was none."""
    configs: NotRequired[dict[str, ManifestConfig]]
    """Key → value in Kafka's unit, and who stated it."""
    segments: NotRequired[list[ManifestSegment]]
    """The verdict on each segment of the original."""
    files: list[ManifestEntry]
    """Its files in the copy."""


class ManifestDocument(TypedDict):
    """The file `logcleaner-manifest.json` in a copy that `clean --output` wrote. Sizes are in bytes, paths
    relative to the copy.
    """

    schema: Literal["logcleaner.manifest/1"]
    """The name of this schema."""
    tool: str
    """Name and version of what wrote it."""
    engine: Literal["local", "spark"]
    """Who compacted."""
    now: int
    """The moment that the plan was made for, epoch ms."""
    original: str
    """The path of the log dir that was copied."""
    left_out: list[str]
    """Entries that were not copied."""
    partitions: list[ManifestPartition]
    """The partitions. One that could not be read has neither offsets, `configs` nor `segments`."""
    files: list[ManifestEntry]
    """The files outside of the partitions."""
