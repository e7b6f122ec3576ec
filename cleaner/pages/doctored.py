"""The findings of ``doctor`` for a page, if they take only a second or two; else a note that nobody asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.engine.doctor.examining import Examination
from cleaner.engine.doctor.walking import WalkBudget
from cleaner.engine.space import file_systems_of
from cleaner.report.overview.values import OverviewFinding
from storage.names import parse_topic_partition

if TYPE_CHECKING:
    from policies.config.config_layers import ConfigLayers
    from policies.findings.findings import Finding
    from policies.plan import Plan
    from policies.rescue import Volume

SEGMENTS_MAX: Final = 1_000
"""The most segments with which ``doctor`` is asked.

It takes about a millisecond a segment: 105 seconds of one core for 100,000.
"""
BYTES_MAX: Final = 4 << 30
"""The most bytes of logs with which ``doctor`` is asked: it reads up to 64 MiB of each partition."""
NOT_ASKED: Final = "DOCTOR_NOT_ASKED"


def doctored(plan: Plan, layers: ConfigLayers, volumes: Sequence[Volume]) -> list[OverviewFinding]:
    """Return what ``doctor`` finds in the log dirs of a plan, worst first; for large log dirs, one finding that says
    so.

    Args:
        plan: a plan of the present files.
        layers: the configuration.
        volumes: the file systems of the log dirs.
    """
    segments = sum(len(planned.facts.segments) for planned in plan.partitions)
    if segments > SEGMENTS_MAX or sum(planned.facts.size_bytes for planned in plan.partitions) > BYTES_MAX:
        text = f"Nobody looked for damage: with {segments:,} segments that takes longer than a page."
        remedy = "logcleaner doctor tells what is wrong, worst first."
        return [OverviewFinding(NOT_ASKED, None, None, None, None, text, remedy, None, None)]
    file_systems = file_systems_of(volumes)
    found = Examination(plan, layers, layers.broker_policy(), WalkBudget(), file_systems=file_systems).diagnosis()
    log_dirs = [log_dir.facts.path for log_dir in plan.log_dirs]
    return [_finding(one, log_dirs) for one in found.findings]


def _finding(found: Finding, log_dirs: Sequence[str]) -> OverviewFinding:
    log_dir = next((path for path in log_dirs if Path(found.path).is_relative_to(path)), None)
    inner = Path(found.path).relative_to(log_dir).parts if log_dir else (found.path,)
    named = parse_topic_partition(inner[0]) if inner else None
    file = "/".join(inner[1:] if named else inner)
    text = f"{file}: {found.text}" if file else found.text
    topic, partition = named or (None, None)
    return OverviewFinding(found.code, topic, partition, log_dir, None, text, found.remedy, None, None)
