"""Events with a name and fields, logged on stderr through structlog.

The names are stable: a new name needs a minor version, a changed name a major one. Sizes are in bytes.

    =======================  =======  ===================================================================
    name                     level    fields
    =======================  =======  ===================================================================
    segment_deleted          info     topic, partition, base_offset, bytes, reason
    compaction_begun         info     topic, partition, bytes: the journal's line is written, and reading begins
    segments_compacted       info     topic, partition, first_base_offset, segments, from_bytes, to_bytes,
                                      records_read, records_kept
    segment_rolled           info     topic, partition, base_offset
    files_removed            info     topic, partition, files, bytes: ``.deleted`` files were unlinked
    partition_recovered      info     topic, partition, files: the step that a crash interrupted was finished or
                                      undone
    partition_restored       info     topic, partition, segments, bytes: deleted segments are back, and the partition
                                      is on hold
    partition_released       info     topic, partition: its hold was released
    unkeyed_records_dropped  warning  topic, partition, count: a compacted topic cannot keep records without a key
    journal_waits            warning  topic, partition, what, the entry's fields: the disk is full, so the journal's
                                      line stays in memory until there is space; log_dir in place of topic and
                                      partition if the line confirms a clock
    world_writable           warning  path, mode: any user may write to this log dir or configuration file
    topics_unmatched         warning  path, patterns: no topic here matches these names and globs of ``[topics]``
    partitions_symlinked     warning  paths: symlinks in place of partition directories: not followed, left out
    partition_changed        warning  topic, partition, path, cause: a file changed after it was planned; the run
                                      skipped the partition, and plans it once more
    metrics_exposed          warning  listen: other machines can read the metrics
    metrics_unavailable      warning  listen, error: no metrics are served; the daemon tries again every 10 s
    metrics_served           info     listen: the metrics are served again after metrics_unavailable
    partition_failed         error    topic, partition, error
    log_dir_failed           error    error: nothing in the log dir was touched, or a checkpoint was not written; the
                                      daemon adds log_dir, and repeats nothing while the same error lasts
    =======================  =======  ===================================================================

The events of the daemon; those within a round also have ``round``, its number:

    =======================  =======  ===================================================================
    daemon_started           info     log_dirs, observing
    daemon_failed            error    error, status: the daemon could not start, or an error ended it; status is the
                                      exit status
    daemon_stopped           info     signal
    job_begun                debug    job, partitions: how many the job is for; 0 means all
    job_done                 info     job, seconds, deleted_segments, deleted_bytes, freed_bytes,
                                      compacted_from_bytes, compacted_to_bytes: only if the job changed something
    job_failed               error    job, error: the daemon tries again when the job is next due
    partition_backs_off      warning  topic, partition, log_dir, job, failures, pause_ms; without pause_ms the
                                      partition waits until its files change
    compaction_withdrawn     info     topic, partition, log_dir: the configuration of the topic changed, or cannot be
                                      read, so the daemon plans the partition anew
    compactor_unstartable    error    error, failures, pause_ms: no compaction runs during the pause
    log_dir_held             warning  log_dir, by: a broker holds the lock; the daemon observes until it is free
    log_dir_free             info     log_dir: nobody holds the lock any more
    log_dir_back             info     log_dir: its error is over
    held_back                warning  guard: a guard rail holds a change back until ``clean --yes``
    config_unknown           warning  topic: no source states its cleanup policy, so all of it stays
    config_reloaded          info     changes: each key with its value before and after
    config_rejected          error    error: the daemon keeps the configuration in force
    partition_appeared       info     topic, partition, log_dir
    partition_vanished       info     topic, partition, log_dir
    files_vanished           warning  topic, partition, log_dir, files: neither logcleaner nor a broker removed them
    watch_polls              warning  error: inotify does not work here, so the daemon compares directories now and
                                      then
    worker_died              error    error: the daemon starts the worker again
    =======================  =======  ===================================================================
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from copy import copy
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol

from cleaner import journald
from cleaner.journald import goes_to_journal, prefix
from cleaner.printable import printable


class Event(StrEnum):
    """All events; other names do not occur."""

    SEGMENT_DELETED = "segment_deleted"
    COMPACTION_BEGUN = "compaction_begun"
    SEGMENTS_COMPACTED = "segments_compacted"
    SEGMENT_ROLLED = "segment_rolled"
    FILES_REMOVED = "files_removed"
    PARTITION_RECOVERED = "partition_recovered"
    PARTITION_RESTORED = "partition_restored"
    PARTITION_RELEASED = "partition_released"
    UNKEYED_RECORDS_DROPPED = "unkeyed_records_dropped"
    JOURNAL_WAITS = "journal_waits"
    WORLD_WRITABLE = "world_writable"
    TOPICS_UNMATCHED = "topics_unmatched"
    PARTITIONS_SYMLINKED = "partitions_symlinked"
    PARTITION_CHANGED = "partition_changed"
    METRICS_EXPOSED = "metrics_exposed"
    METRICS_UNAVAILABLE = "metrics_unavailable"
    METRICS_SERVED = "metrics_served"
    PARTITION_FAILED = "partition_failed"
    LOG_DIR_FAILED = "log_dir_failed"

    DAEMON_FAILED = "daemon_failed"
    DAEMON_STARTED = "daemon_started"
    DAEMON_STOPPED = "daemon_stopped"
    JOB_BEGUN = "job_begun"
    JOB_DONE = "job_done"
    JOB_FAILED = "job_failed"
    PARTITION_BACKS_OFF = "partition_backs_off"
    COMPACTION_WITHDRAWN = "compaction_withdrawn"
    COMPACTOR_UNSTARTABLE = "compactor_unstartable"
    LOG_DIR_HELD = "log_dir_held"
    LOG_DIR_FREE = "log_dir_free"
    LOG_DIR_BACK = "log_dir_back"
    HELD_BACK = "held_back"
    CONFIG_UNKNOWN = "config_unknown"
    CONFIG_RELOADED = "config_reloaded"
    CONFIG_REJECTED = "config_rejected"
    PARTITION_APPEARED = "partition_appeared"
    PARTITION_VANISHED = "partition_vanished"
    FILES_VANISHED = "files_vanished"
    WATCH_POLLS = "watch_polls"
    WORKER_DIED = "worker_died"


class LogFormat(StrEnum):
    """The form of a log line."""

    CONSOLE = "console"
    JSON = "json"


LEVELS: Final[Mapping[str, int]] = {
    Event.UNKEYED_RECORDS_DROPPED: logging.WARNING,
    Event.JOURNAL_WAITS: logging.WARNING,
    Event.WORLD_WRITABLE: logging.WARNING,
    Event.TOPICS_UNMATCHED: logging.WARNING,
    Event.PARTITIONS_SYMLINKED: logging.WARNING,
    Event.PARTITION_CHANGED: logging.WARNING,
    Event.METRICS_EXPOSED: logging.WARNING,
    Event.METRICS_UNAVAILABLE: logging.WARNING,
    Event.PARTITION_FAILED: logging.ERROR,
    Event.LOG_DIR_FAILED: logging.ERROR,
    Event.DAEMON_FAILED: logging.ERROR,
    Event.JOB_BEGUN: logging.DEBUG,
    Event.JOB_FAILED: logging.ERROR,
    Event.PARTITION_BACKS_OFF: logging.WARNING,
    Event.COMPACTOR_UNSTARTABLE: logging.ERROR,
    Event.LOG_DIR_HELD: logging.WARNING,
    Event.HELD_BACK: logging.WARNING,
    Event.CONFIG_UNKNOWN: logging.WARNING,
    Event.CONFIG_REJECTED: logging.ERROR,
    Event.FILES_VANISHED: logging.WARNING,
    Event.WATCH_POLLS: logging.WARNING,
    Event.WORKER_DIED: logging.ERROR,
}
"""Level of each event; the others have INFO."""

_BY_VERBOSITY: Final = (logging.WARNING, logging.INFO, logging.DEBUG)
_PRIORITIES: Final = {
    logging.DEBUG: journald.DEBUG,
    logging.INFO: journald.INFO,
    logging.WARNING: journald.WARNING,
    logging.ERROR: journald.ERROR,
}
Processor = Callable[[Any, str, MutableMapping[str, Any]], Any]


class Bar(Protocol):
    """Shows progress."""

    def advance(self, done_bytes: int) -> None:
        """Move the bar by the bytes that are done since the last call."""


class EventLog:
    """The ``cleaner.engine.outcome.Listener`` that logs events and moves a progress bar."""

    def __init__(self, verbosity: int = 0, log_format: LogFormat = LogFormat.CONSOLE, bar: Bar | None = None) -> None:
        """Log to stderr.

        Args:
            verbosity: number of ``-v``: 0 logs warnings and errors, 1 also info, 2 also debug.
            log_format: form of each line.
            bar: shows the progress.
        """
        self._level = _BY_VERBOSITY[min(verbosity, len(_BY_VERBOSITY) - 1)]
        self._format = log_format
        self._bar = bar
        self._bound: dict[str, object] = {}

    def bind(self, **fields: object) -> EventLog:
        """Return this log with some fields added to every line."""
        bound = copy(self)
        bound._bound = {**self._bound, **fields}
        return bound

    def event(self, name: str, **fields: object) -> None:
        """Log one event, unless the verbosity excludes its level."""
        level = LEVELS.get(name, logging.INFO)
        if level >= self._level:
            with suppress(OSError):  # whoever read it is gone: an event less must not end the work
                _emit(level, name, {**self._bound, **fields}, self._format)

    def progress(self, done_bytes: int) -> None:
        """Move the bar."""
        if self._bar:
            self._bar.advance(done_bytes)


def format_under(environment: Mapping[str, str]) -> LogFormat:
    """Return JSON if stderr goes to systemd's journal, else the form for people."""
    return LogFormat.JSON if goes_to_journal(environment) else LogFormat.CONSOLE


def _emit(level: int, name: str, fields: dict[str, object], log_format: LogFormat) -> None:
    import structlog  # noqa: PLC0415 - loading it takes 0.25 s, and a quiet run never needs it

    # a visible progress bar replaces sys.stderr, so each line looks it up anew
    processors: list[Any] = [*_processors(log_format), partial(_prefixed, prefix(_PRIORITIES[level]))]
    logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors=processors)
    getattr(logger, logging.getLevelName(level).lower())(name, **fields)


def _prefixed(prefix: str, _logger: object, _level: str, line: str) -> str:
    return prefix + line


def _processors(log_format: LogFormat) -> list[Processor]:
    import structlog  # noqa: PLC0415 - see _emit

    if log_format is LogFormat.JSON:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        return [structlog.processors.add_log_level, stamp, structlog.processors.JSONRenderer()]
    stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [
        structlog.processors.add_log_level,
        stamp,
        _escaped,
        structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, sort_keys=False),
    ]


def _escaped(_logger: object, _level: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape all control characters, so that none of a file name reaches the terminal; structlog quotes only some."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
