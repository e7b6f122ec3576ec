"""The same metrics in a file, for runs that end: the node exporter's textfile collector reads it.

Written as a whole or not at all. When the last run succeeded, and how the disks filled up to now, is taken over from
the file that is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from cleaner.errors import UnwritableFile
from cleaner.metrics import families as names
from cleaner.metrics.registry import Metrics
from policies.runway import Growth

_MODE: Final = 0o644
"""Another user's exporter reads it."""
_BYTES_MAX: Final = 64 << 20
Earlier = dict[tuple[str, str], float]
"""Name and log dir (empty where there is none) -> value."""


def metrics_since(path: Path, per_partition: str, version: str = "unknown") -> Metrics:
    """Metrics that go on from those that the last run wrote.

    Args:
        path: of the file; there may be none, or one that holds something else.
        per_partition: as ``[metrics] per.partition`` has it.
        version: of this program.

    Raises: UnwritableFile, where it may not even be read.
    """
    try:
        earlier = _read(path)
    except OSError as error:
        raise UnwritableFile(path, error.strerror or str(error)) from error
    growths = dict(_growths(earlier))
    metrics = Metrics(per_partition=per_partition, growths=growths, version=version, of_process=False)
    if success := earlier.get((names.LAST_SUCCESS.name, "")):
        metrics.succeeded_before(round(success * 1000))
    return metrics


def write_textfile(path: Path, metrics: Metrics) -> None:
    """Replace the file.

    Args:
        path: ends in ``.prom``, or the node exporter does not read it.
        metrics: of a run that ended.

    Raises: UnwritableFile.
    """
    try:
        _replace(path, metrics.text())
    except OSError as error:
        raise UnwritableFile(path, error.strerror or str(error)) from error


def _read(path: Path) -> Earlier:
    """What an earlier run wrote; nothing where it is no such file."""
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


def _replace(path: Path, text: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
