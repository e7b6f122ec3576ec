"""The keys and types that several documents share."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from policies.config.policy import Layer
from policies.findings.findings import Harm, RepairGroup
from policies.reasons import Action, ReasonCode

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Measure = Annotated[float, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
LayerTitle = Annotated[str, WithJsonSchema({"enum": [layer.title for layer in Layer]})]
HarmName = Annotated[str, WithJsonSchema({"enum": [harm.name.lower() for harm in Harm]})]


class PartitionPlace(TypedDict):
    """A partition in a log dir."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    log_dir: str
    """The path of the log dir that holds the partition."""


class FindingDocument(TypedDict):
    """A finding."""

    code: str
    """The code of the finding: a closed list."""
    harm: HarmName
    """The harm that the finding does; the list begins with the worst."""
    path: str
    """Path of the file or directory."""
    position: int | None
    """Byte in the file; null for the whole file."""
    offset: int | None
    """Offset of the log at which the damage begins; null without one."""
    text: str
    """What is wrong, in a sentence."""
    remedy: str
    """What to do, in a sentence."""
    kafka_issue: str | None
    """The issue of Kafka about this; null without one."""
    repair: RepairGroup | None
    """The KIND of `verify --repair=KIND` that mends the file; null if none does."""
    bytes: NotRequired[Count]
    """Of `verify --tier`: the bytes of the tier that the finding is about, as far as they are known."""


class PageFile(TypedDict):
    """A file, or the directory of the cluster metadata."""

    path: str
    """The path of the file."""
    sha256: str | None
    """The hash of the bytes when the report was made; null for a directory, or if the file can no longer be read."""


class PageHead(TypedDict):
    """The part of a page that names program, command, time and sources."""

    version: str
    """The version of logcleaner."""
    command: list[str]
    """The command line, word by word."""
    made_ms: int
    """When the report was made, epoch ms."""
    log_dirs: list[str]
    """The log dirs of the configuration."""
    configuration_files: list[PageFile]
    """The files that the configuration was read from."""


class PageGrowthSeries(TypedDict):
    """A topic."""

    topic: str | None
    """The topic's name; null for all others."""
    bytes: list[Count]
    """The bytes of each day."""


class PageGrowth(TypedDict):
    """The bytes of each day, by the timestamps of the records."""

    days: list[str]
    """The last 30 days, ISO 8601, UTC."""
    series: list[PageGrowthSeries]
    """The topics with the most bytes, and all other topics together."""
    older_bytes: Count
    """The bytes of earlier days."""
    undated_bytes: Count
    """The bytes of segments without a timestamp, or with a timestamp in the future."""


class KindSize(TypedDict):
    """The files of a kind."""

    files: Count
    """The number of files."""
    apparent_bytes: Count
    """The sum of their sizes."""
    disk_bytes: Count
    """The space that their blocks take."""


class RemovalForecast(TypedDict):
    """Files that may go at one moment."""

    due_ms: int
    """The moment, epoch ms."""
    files: Count
    """The number of files."""
    apparent_bytes: Count
    """The sum of their sizes."""
    disk_bytes: Count
    """The space that their blocks take."""


class ReasonLimit(TypedDict):
    """The value of the configuration that a reason rests on."""

    key: str
    """Kafka's topic key, or the broker key if topics do not have the key."""
    value: int | float | str | bool
    """The value in Kafka's unit, such as ms or bytes; a list as one text with commas."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for `--set`
    and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""
    actual: float | None
    """The number that was compared with the value, in the unit of the value: an age in ms (below 0 for a time in the
    future), bytes, a share. Null if the value is no number.
    """


class SegmentReason(TypedDict):
    """The reason for which a segment stays or goes, in the words of `clean`."""

    code: ReasonCode
    """The reason's code (docs/reasons.md). A new code takes a minor version, a changed one a major."""
    text: str
    """A sentence for people, with its numbers."""
    until_ms: int | None
    """Of a segment that stays, the time from which the reason may no longer hold, epoch ms; of one that goes by
    RETENTION_TIME, the time at which it expired; null if no time is known.
    """
    limit: ReasonLimit | None
    """The value of the configuration that the reason rests on; null if it rests on none, or on more than one."""


class PageReason(TypedDict):
    """The segments with one action and reason code."""

    action: Action
    """What happens to the segments."""
    code: str
    """The reason code."""
    segments: Count
    """Segments."""
    bytes: Count
    """The size of the `.log` files of the segments."""


class RunwayDocument(TypedDict):
    """A file system."""

    log_dirs: list[str]
    """The log dirs on it."""
    free_bytes: Count
    """The free space, for an ordinary user."""
    written_bytes_per_day: Count
    """The bytes written to `.log` files in a day, as a mean of the last 7 days, in the partitions that count."""
    fills: bool | None
    """Whether the file system will be full one day; null if not known: no partition tells how much is written, or the
    growth of some partitions is not known and the others never fill it.
    """
    days: Measure | None
    """The days until the file system is full; null if it never will be, or if not known."""
    partitions: Count
    """The partitions that count."""
    partitions_left_out: Count
    """The other partitions: compacted, not touched by a run, or written for too short a time to tell."""
