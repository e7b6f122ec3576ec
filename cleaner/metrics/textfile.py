"""The metrics of a one-shot run in a file, which the node exporter's textfile collector reads.

The file is written as a whole or not at all. A new file takes the time of the last success and the growth of the disks
from the file that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from cleaner.errors import as_unwritable
from cleaner.metrics import families as names
from cleaner.metrics.registry import Metrics
from cleaner.replacing import replace_file, target_of
from policies.forecast.runway import Growth

_BYTES_MAX: Final = 64 << 20
Earlier = dict[tuple[str, str], float]
"""Name and log dir (empty if the metric has none) -> value."""


def metrics_since(path: Path, per_partition: str, version: str = "unknown") -> Metrics:
    """Return metrics that go on from the values that the last run wrote.

    Args:
        path: the textfile. The file may be missing, or hold something else than metrics.
        per_partition: the value of ``[metrics] per.partition``.
        version: version of logcleaner.

    Raises: UnwritableFile if the file may not even be read.
    """
    with as_unwritable(path):
        earlier = _read(target_of(path))
    growths = dict(_growths(earlier))
    metrics = Metrics(per_partition=per_partition, growths=growths, version=version, of_process=False)
    if success := earlier.get((names.LAST_SUCCESS.name, "")):
        metrics.succeeded_before(round(success * 1000))
    return metrics


def write_textfile(path: Path, metrics: Metrics) -> None:
    """Replace the textfile.

    Args:
        path: the textfile; the node exporter reads it only if its name ends in ``.prom``.
        metrics: the metrics of a run that ended.

    Raises: UnwritableFile.
    """
    with as_unwritable(path):
        replace_file(path, metrics.text())


def _read(path: Path) -> Earlier:
    """Return the values that an earlier run wrote; nothing if the file is missing or no textfile."""
    try:
        if path.stat().st_size > _BYTES_MAX:
            return {}
        families = list(text_string_to_metric_families(path.read_text("utf-8")))
    except (FileNotFoundError, ValueError):
        return {}
    return {
        (sample.name, sample.labels.get("log_dir", "")): sample.value
        for family in families
        for sample in family.samples
        if "topic" not in sample.labels
    }


def _growths(earlier: Earlier) -> Iterator[tuple[str, Growth]]:
    at = earlier.get((names.PLAN_TIME.name, ""))
    for name, log_dir in earlier:
        if name == names.LOG_DIR_OBSERVED.name and at is not None:
            values = [
                earlier.get((family.name, log_dir), 0.0)
                for family in (names.LOG_DIR_FREE, names.LOG_DIR_GROWTH, names.LOG_DIR_OBSERVED)
            ]
            yield log_dir, Growth(round(at * 1000), int(values[0]), values[1], values[2])
