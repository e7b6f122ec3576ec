"""The metrics with their names, meanings and labels: the one list for exposition and docs/metrics.md.

The names are stable: adding one is a minor version, changing one a major. Sizes are in bytes, times in seconds since
1970, as Prometheus has them. Partitions carry the labels ``log_dir``, ``topic`` and ``partition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PREFIX: Final = "logcleaner_"
PARTITION: Final = ("log_dir", "topic", "partition")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its help text and the names of its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    is_few: bool = True
    """Whether ``[metrics] per.partition = "few"`` exports a metric of partitions; ``all`` exports every one."""

    @property
    def kind(self) -> str:
        """Return the type that Prometheus gives to the metric. The name of a counter, and no other, ends in _total."""
        return "counter" if self.name.endswith("_total") else "gauge"


_made: Final[list[Family]] = []


def _family(name: str, help_: str, *labels: str, is_few: bool = True) -> Family:
    """Make a metric. ``ALL`` lists the metrics in the order in which they are made."""
    family = Family(f"{PREFIX}{name}", help_, labels, is_few)
    _made.append(family)
    return family


def _partition(name: str, help_: str, *, is_few: bool = True) -> Family:
    return _family(f"partition_{name}", help_, *PARTITION, is_few=is_few)


def _log_dir(name: str, help_: str, *labels: str) -> Family:
    return _family(name, help_, "log_dir", *labels)


SIZE: Final = _partition("size_bytes", "Size of the .log files of the partition.")
SEGMENTS: Final = _partition("segments", "Number of segments of the partition, the active one included.")
DIRTY_RATIO: Final = _partition(
    "dirty_ratio", "Share of dirty bytes in the bytes that can be compacted; only for compacted topics."
)
NEXT_EXPIRY: Final = _partition(
    "next_expiry_timestamp_seconds",
    "Time from which time retention may delete the oldest segment, if a limit is stated.",
)
UNCLEANABLE: Final = _partition("uncleanable", "1 if the partition cannot be read, or if its last cleaning failed.")
FIRST_DIRTY_OFFSET: Final = _partition(
    "first_dirty_offset",
    "First dirty offset, where the next compaction begins; only for compacted topics.",
    is_few=False,
)
LOG_START_OFFSET: Final = _partition(
    "log_start_offset", "Log start offset, the first offset that a consumer can read.", is_few=False
)
LOG_END_OFFSET: Final = _partition("log_end_offset", "Log end offset, the offset of the next record.", is_few=False)
PARTITION_OLDEST: Final = _partition(
    "oldest_record_timestamp_seconds",
    "Timestamp of the newest record in the oldest segment with records.",
    is_few=False,
)
PARTITION_RECLAIMABLE: Final = _partition(
    "reclaimable_bytes", "Bytes that the next run will delete, and the most that its compaction can save.", is_few=False
)
PARTITION_FAILURES: Final = _partition(
    "failures_total", "Number of failed cleanings of the partition since the start.", is_few=False
)

LOG_DIR_SIZE: Final = _log_dir("log_dir_size_bytes", "Size of all files of the partitions in the log dir.")
LOG_DIR_FREE: Final = _log_dir("log_dir_free_bytes", "Free space of the file system for an ordinary user.")
LOG_DIR_GROWTH: Final = _log_dir(
    "log_dir_growth_bytes_per_second", "Mean speed over about a day at which free space shrinks, deletions included."
)
LOG_DIR_OBSERVED: Final = _log_dir("log_dir_growth_observed_seconds", "Time for which the growth has been observed.")
RUNWAY: Final = _log_dir(
    "log_dir_runway_seconds",
    "Time until the disk is full at that growth, known after an hour; +Inf if it does not fill.",
)
LOG_DIR_LOCKED: Final = _log_dir(
    "log_dir_locked", "1 if another process, usually the broker, holds the lock of the log dir."
)
LOG_DIR_FAILED: Final = _log_dir("log_dir_failed", "1 if the log dir itself has an error, so nothing in it is cleaned.")
PARTITIONS: Final = _log_dir("partitions", "Number of partitions in the log dir.")
LOG_DIR_SEGMENTS: Final = _log_dir("segments", "Number of segments in the log dir.")
UNCLEANABLE_PARTITIONS: Final = _log_dir(
    "uncleanable_partitions", "Number of partitions that cannot be read, or whose last cleaning failed."
)
MAX_DIRTY_RATIO: Final = _log_dir("max_dirty_ratio", "Greatest dirty ratio of a compacted partition.")
OLDEST: Final = _log_dir(
    "oldest_record_timestamp_seconds", "Timestamp of the newest record in the oldest segment with records."
)
RECLAIMABLE: Final = _log_dir(
    "reclaimable_bytes",
    "Bytes that the next run will delete, by reason; for DIRTY, the most that compaction can save.",
    "reason",
)
UNCONFIRMED: Final = _log_dir(
    "unconfirmed_limits", "Number of topics, and of settings for all topics, whose saved limits wait for config apply."
)
KEPT: Final = _log_dir("kept_bytes", "Size of the segments that stay, by reason.", "reason")

FIGURES: Final = {
    "deleted_segments": "Number of deleted segments",
    "deleted_bytes": "Size of the deleted segments, index files included,",
    "freed_bytes": "Size of the files of deleted and replaced segments that were unlinked without a delay",
    "compacted_segments": "Number of segments that compactions read",
    "compaction_read_bytes": "Bytes that compactions read",
    "compaction_written_bytes": "Bytes that compactions left",
    "records_read": "Number of records that compactions read",
    "records_kept": "Number of records that compactions kept",
}
"""The figures of a run in a log dir. Each has a metric for the last run, and a metric for the total."""
LAST_RUN: Final = {stem: _log_dir(f"last_run_{stem}", f"{said} in the last run.") for stem, said in FIGURES.items()}
TOTAL: Final = {stem: _family(f"{stem}_total", f"{said} since the start.", "log_dir") for stem, said in FIGURES.items()}
LAST_RUN_TIME: Final = _family("last_run_timestamp_seconds", "Time at which the last run ended.")
LAST_RUN_DURATION: Final = _family("last_run_duration_seconds", "Duration of the last run.")
LAST_SUCCESS: Final = _family("last_success_timestamp_seconds", "Time at which the last run without a failure ended.")
MAP_UTILISATION: Final = _family(
    "map_utilisation_ratio", "Greatest share of the offset map that the last compacting run used; 1 means too small."
)
LAST_RUN_SWEPT: Final = _family(
    "last_run_swept_bytes", "Size of the waiting .deleted files that the last run unlinked."
)
SWEPT: Final = _family(
    "swept_bytes_total", "Size of the .deleted files that were unlinked after their delay, since the start."
)
PLAN_TIME: Final = _family("plan_timestamp_seconds", "Time at which the log dirs were last read.")
RUNS: Final = _family(
    "runs_total",
    "Number of plans that were carried out since the start, by result: done, failed or interrupted.",
    "result",
)
RUN_SECONDS: Final = _family("run_seconds_total", "Time spent in runs since the start.")
FAILURES: Final = _family(
    "failures_total", "Number of failures outside of partitions since the start, by the kind of the job.", "where"
)
DEAD_THREADS: Final = _family("dead_threads_total", "Number of workers that died and were restarted since the start.")
LOCK_SECONDS: Final = _family(
    "lock_held_seconds_total", "Time for which the locks were held since the start; a broker cannot start meanwhile."
)
JOB_SUCCESS: Final = _family("job_success", "1 if nothing failed in the daemon's last job of this kind.", "kind")
JOB_SECONDS: Final = _family("job_duration_seconds", "Duration of the daemon's last job of this kind.", "kind")
JOB_SUCCESS_TIME: Final = _family(
    "job_last_success_timestamp_seconds", "Time at which a job of this kind last succeeded.", "kind"
)
CONFIG_SUCCESS: Final = _family(
    "config_last_reload_successful", "1 if the daemon accepted its configuration when it last read it."
)
CONFIG_TIME: Final = _family(
    "config_last_reload_success_timestamp_seconds", "Time at which the daemon last accepted a configuration."
)
READY: Final = _family("ready", "1 while the daemon serves every log dir of its configuration, from its first plan on.")
OBSERVING: Final = _family(
    "observing", "1 while the daemon changes nothing, because of --observe or a broker that holds a log dir."
)
BUILD_INFO: Final = _family("build_info", "Always 1; the labels name the running versions.", "version", "python")
RUN_RESULTS: Final = ("done", "failed", "interrupted")
ALL: Final = tuple(_made)
PARTITION_FAMILIES: Final = tuple(family for family in ALL if family.labels == PARTITION)
FAMILIES_PER_PARTITION: Final = {
    "none": (),
    "few": tuple(family for family in PARTITION_FAMILIES if family.is_few),
    "all": PARTITION_FAMILIES,
}
"""Value of ``[metrics] per.partition`` -> the metrics of partitions that it exports."""
