"""``logcleaner.doctor/1``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, FindingDocument


class DoctorStart(TypedDict):
    """The next start of Kafka, as `preflight` tells it."""

    kafka: str
    """The version of Kafka."""
    starts: bool | None
    """Whether it starts; null if nobody can say, as beside a broker that runs."""
    text: str
    """A sentence: whether it starts, and what becomes of partitions."""


class DoctorFinding(FindingDocument):
    """A finding, and how it counts."""

    is_damage: bool
    """Whether it makes the exit status 4."""


class DoctorTotals(TypedDict):
    """Counts."""

    findings: Count
    """The number of findings."""
    damages: Count
    """The number of those that are damage."""
    partitions: Count
    """The number of partitions that were looked at."""
    walked_bytes: Count
    """The size of the segments whose batch headers were read."""
    unwalked_bytes: Count
    """The size of the segments whose batch headers were left out; `--deep` reads them."""
    verified_bytes: Count
    """The size of the segments of which every byte was read, with `--deep`."""


class DoctorDocument(TypedDict):
    """The document that `doctor --json` prints: what is wrong with the log dirs, worst first. Each code has a
    section in docs/doctor.md.
    """

    schema: Literal["logcleaner.doctor/1"]
    """The name of this schema."""
    now: int
    """The moment of the look, epoch ms."""
    log_dirs: list[str]
    """The paths of the log dirs."""
    start: DoctorStart | None
    """What the next start of Kafka does, as `preflight` tells it; null with `--topic`."""
    findings: list[DoctorFinding]
    """The findings, worst first."""
    totals: DoctorTotals
    """Counts."""
