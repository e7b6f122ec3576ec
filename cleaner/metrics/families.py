"""The metrics: their names, what they count, and their labels; the one list that exposition and docs/metrics.md share.

The names are stable: adding one is a minor version, changing one a major. Sizes are in bytes, times in seconds since
1970, as Prometheus has them. Partitions carry the labels ``log_dir``, ``topic`` and ``partition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "logcleaner_"
PARTITION: Final = ("log_dir", "topic", "partition")


class MetricKind(StrEnum):
    """Prometheus' types of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE
    is_few: bool = True
    """Whether it is exported unless ``[metrics] per.partition = "all"`` asks for more."""


def _partition(name: str, help_: str, *, is_few: bool = True, kind: MetricKind = MetricKind.GAUGE) -> Family:
    return Family(f"{PREFIX}partition_{name}", help_, PARTITION, kind, is_few)


def _log_dir(name: str, help_: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}", help_, ("log_dir", *labels))


SIZE: Final = _partition("size_bytes", "Size of the .log files of the partition.")
SEGMENTS: Final = _partition("segments", "Segments of the partition, the active one too.")
DIRTY_RATIO: Final = _partition("dirty_ratio", "Share of dirty bytes in what can be compacted; compacted topics only.")
NEXT_EXPIRY: Final = _partition(
    "next_expiry_timestamp_seconds", "When time retention may delete the oldest segment; where a limit is stated."
)
UNCLEANABLE: Final = _partition("uncleanable", "1 if the partition could not be read or its last cleaning failed.")
FIRST_DIRTY_OFFSET: Final = _partition(
    "first_dirty_offset", "Where the next compaction begins; compacted topics only.", is_few=False
)
LOG_START_OFFSET: Final = _partition("log_start_offset", "First offset that can be read.", is_few=False)
LOG_END_OFFSET: Final = _partition("log_end_offset", "Offset of the next record.", is_few=False)
PARTITION_OLDEST: Final = _partition(
    "oldest_record_timestamp_seconds", "Newest record of the oldest segment that holds one.", is_few=False
)
PARTITION_RECLAIMABLE: Final = _partition(
    "reclaimable_bytes", "What deletion takes in the next run, and at most compaction.", is_few=False
)
PARTITION_FAILURES: Final = _partition(
    "failures_total", "Cleanings of the partition that failed since the start.", is_few=False, kind=MetricKind.COUNTER
)
PARTITION_FAMILIES: Final = (
    SIZE,
    SEGMENTS,
    DIRTY_RATIO,
    NEXT_EXPIRY,
    UNCLEANABLE,
    FIRST_DIRTY_OFFSET,
    LOG_START_OFFSET,
    LOG_END_OFFSET,
    PARTITION_OLDEST,
    PARTITION_RECLAIMABLE,
    PARTITION_FAILURES,
)
FAMILIES_PER_PARTITION: Final = {
    "none": (),
    "few": tuple(family for family in PARTITION_FAMILIES if family.is_few),
    "all": PARTITION_FAMILIES,
}
"""By ``[metrics] per.partition``."""

LOG_DIR_SIZE: Final = _log_dir("log_dir_size_bytes", "Size of all files of the partitions.")
LOG_DIR_FREE: Final = _log_dir("log_dir_free_bytes", "Free space of the file system, for an ordinary user.")
LOG_DIR_GROWTH: Final = _log_dir(
    "log_dir_growth_bytes_per_second", "How fast free space shrinks, deletions included; a mean over about a day."
)
LOG_DIR_OBSERVED: Final = _log_dir("log_dir_growth_observed_seconds", "How long the growth has been observed.")
RUNWAY: Final = _log_dir(
    "log_dir_runway_seconds", "Until the disk is full at that growth; +Inf if it does not fill; after an hour."
)
LOG_DIR_LOCKED: Final = _log_dir("log_dir_locked", "1 if another process, as a rule the broker, holds the log dir.")
LOG_DIR_FAILED: Final = _log_dir("log_dir_failed", "1 if something is wrong with the log dir itself: nothing is done.")
PARTITIONS: Final = _log_dir("partitions", "Partitions in the log dir.")
LOG_DIR_SEGMENTS: Final = _log_dir("segments", "Segments in the log dir.")
UNCLEANABLE_PARTITIONS: Final = _log_dir("uncleanable_partitions", "Partitions that are uncleanable.")
MAX_DIRTY_RATIO: Final = _log_dir("max_dirty_ratio", "Greatest dirty ratio of a compacted partition.")
OLDEST: Final = _log_dir("oldest_record_timestamp_seconds", "Newest record of the oldest segment that holds one.")
RECLAIMABLE: Final = _log_dir(
    "reclaimable_bytes", "What deletion takes in the next run, by reason; DIRTY: at most compaction.", "reason"
)
KEPT: Final = _log_dir("kept_bytes", "Bytes of the segments that stay, by reason.", "reason")
LOG_DIR_FAMILIES: Final = (
    LOG_DIR_SIZE,
    LOG_DIR_FREE,
    LOG_DIR_GROWTH,
    LOG_DIR_OBSERVED,
    RUNWAY,
    LOG_DIR_LOCKED,
    LOG_DIR_FAILED,
    PARTITIONS,
    LOG_DIR_SEGMENTS,
    UNCLEANABLE_PARTITIONS,
    MAX_DIRTY_RATIO,
    OLDEST,
    RECLAIMABLE,
    KEPT,
)

FIGURES: Final = {
    "deleted_segments": "Segments deleted",
    "deleted_bytes": "Bytes of deleted segments, index files included",
    "freed_bytes": "Bytes of them unlinked, and of what compactions replaced",
    "compacted_segments": "Segments that compactions read",
    "compaction_read_bytes": "Bytes that compactions read",
    "compaction_written_bytes": "Bytes that compactions left of them",
    "records_read": "Records that compactions read",
    "records_kept": "Records that compactions kept",
}
"""What a run does in a log dir: told of the last run, and in total."""
LAST_RUN: Final = {stem: _log_dir(f"last_run_{stem}", f"{said} in the last run.") for stem, said in FIGURES.items()}
TOTAL: Final = {
    stem: Family(f"{PREFIX}{stem}_total", f"{said} since the start.", ("log_dir",), MetricKind.COUNTER)
    for stem, said in FIGURES.items()
}
LAST_RUN_TIME: Final = Family(f"{PREFIX}last_run_timestamp_seconds", "When the last run ended.")
LAST_RUN_DURATION: Final = Family(f"{PREFIX}last_run_duration_seconds", "How long the last run took.")
LAST_SUCCESS: Final = Family(
    f"{PREFIX}last_success_timestamp_seconds", "When the last run ended in which nothing failed."
)
MAP_UTILISATION: Final = Family(
    f"{PREFIX}map_utilisation_ratio", "Greatest share of the offset map in the last run that compacted; 1: too small."
)
LAST_RUN_SWEPT: Final = Family(
    f"{PREFIX}last_run_swept_bytes", "Bytes unlinked in the last run that had waited as .deleted."
)
SWEPT: Final = Family(
    f"{PREFIX}swept_bytes_total", "Bytes unlinked since the start that had waited as .deleted.", kind=MetricKind.COUNTER
)
PLAN_TIME: Final = Family(f"{PREFIX}plan_timestamp_seconds", "When the log dirs were last read.")
RUNS: Final = Family(
    f"{PREFIX}runs_total", "Runs since the start: done, failed or interrupted.", ("result",), MetricKind.COUNTER
)
RUN_SECONDS: Final = Family(
    f"{PREFIX}run_seconds_total", "Time spent in runs since the start.", kind=MetricKind.COUNTER
)
FAILURES: Final = Family(
    f"{PREFIX}failures_total",
    "What failed outside of a partition since the start, by the kind of the job that met it.",
    ("where",),
    MetricKind.COUNTER,
)
LOCK_SECONDS: Final = Family(
    f"{PREFIX}lock_held_seconds_total",
    "Seconds for which the locks were held since the start: a broker that started meanwhile was refused.",
    kind=MetricKind.COUNTER,
)
DEAD_THREADS: Final = Family(
    f"{PREFIX}dead_threads_total", "Workers that died, and were restarted, since the start.", kind=MetricKind.COUNTER
)
JOB_SUCCESS: Final = Family(
    f"{PREFIX}job_success", "1 if nothing failed in the daemon's last job of this kind.", ("kind",)
)
JOB_SECONDS: Final = Family(
    f"{PREFIX}job_duration_seconds", "How long the daemon's last job of this kind took.", ("kind",)
)
JOB_SUCCESS_TIME: Final = Family(
    f"{PREFIX}job_last_success_timestamp_seconds", "When a job of this kind last ended well.", ("kind",)
)
CONFIG_SUCCESS: Final = Family(
    f"{PREFIX}config_last_reload_successful", "1 if the daemon's configuration was taken when it was last read."
)
CONFIG_TIME: Final = Family(
    f"{PREFIX}config_last_reload_success_timestamp_seconds", "When a configuration was last taken."
)
BUILD_INFO: Final = Family(f"{PREFIX}build_info", "1; its labels tell what is running.", ("version", "python"))
READY: Final = Family(
    f"{PREFIX}ready", "1 while the daemon serves every log dir of its configuration, once it made its first plan."
)
OBSERVING: Final = Family(
    f"{PREFIX}observing", "1 while the daemon changes nothing: --observe, or a broker holds a log dir."
)
RUN_FAMILIES: Final = (
    *LAST_RUN.values(),
    *TOTAL.values(),
    LAST_RUN_TIME,
    LAST_RUN_DURATION,
    LAST_SUCCESS,
    MAP_UTILISATION,
    LAST_RUN_SWEPT,
    SWEPT,
    PLAN_TIME,
    RUNS,
    RUN_SECONDS,
    FAILURES,
    DEAD_THREADS,
    LOCK_SECONDS,
    JOB_SUCCESS,
    JOB_SECONDS,
    JOB_SUCCESS_TIME,
    CONFIG_SUCCESS,
    CONFIG_TIME,
    READY,
    OBSERVING,
    BUILD_INFO,
)
RUN_RESULTS: Final = ("done", "failed", "interrupted")
ALL: Final = (*PARTITION_FAMILIES, *LOG_DIR_FAMILIES, *RUN_FAMILIES)
