"""What happens, as events with a name and fields: logged on stderr through structlog, never as prose.

The names are stable: adding one is a minor version, changing one a major. Sizes are in bytes.

    =======================  =======  ===================================================================
    name                     level    fields
    =======================  =======  ===================================================================
    segment_deleted          info     topic, partition, base_offset, bytes, reason
    compaction_begun         info     topic, partition, bytes: the journal's line is written, reading begins
    segments_compacted       info     topic, partition, first_base_offset, segments, from_bytes, to_bytes,
                                      records_read, records_kept
    segment_rolled           info     topic, partition, base_offset
    files_removed            info     topic, partition, files, bytes: ``.deleted`` files were unlinked
    partition_recovered      info     topic, partition, files: what a crash left was finished or undone
    partition_restored       info     topic, partition, segments, bytes: deleted segments are back, it is on hold
    partition_released       info     topic, partition: its hold was given up
    unkeyed_records_dropped  warning  topic, partition, count: a compacted topic cannot keep them
    journal_waits            warning  topic, partition, what, the entry's fields: the disk is full, the journal's line
                                      is kept in memory until there is space; log_dir in place of topic and partition
                                      where a clock was confirmed
    world_writable           warning  path, mode: everybody may change this log dir or configuration file
    topics_unmatched         warning  path, patterns: no topic here matches these names and globs of ``[topics]``
    partition_changed        warning  topic, partition, path, cause: a file is not as it was planned with; the
                                      partition was skipped, and is planned anew once
    metrics_exposed          warning  listen: other machines can read the metrics
    metrics_unavailable      warning  listen, error: the metrics are served by nobody; tried again every 10 s
    metrics_served           info     listen: after metrics_unavailable
    partition_failed         error    topic, partition, error
    log_dir_failed           error    error: nothing in it was touched, or a checkpoint was not written; the daemon
                                      tells it once for as long as it lasts, with log_dir
    =======================  =======  ===================================================================

Of the daemon; what happens within a round also has ``round``, its number:

    =======================  =======  ===================================================================
    daemon_started           info     log_dirs, observing
    daemon_failed            error    error, status: it could not start, or an error ended it; with which exit status
    daemon_stopped           info     signal
    job_begun                debug    job, partitions: how many it is for; 0 is all
    job_done                 info     job, seconds, deleted_segments, deleted_bytes, freed_bytes,
                                      compacted_from_bytes, compacted_to_bytes: only where it changed something
    job_failed               error    job, error: tried again when it is next due
    partition_backs_off      warning  topic, partition, log_dir, job, failures, pause_ms; without pause_ms it waits
                                      until its files change
    compaction_withdrawn     info     topic, partition, log_dir: what the configuration says of it changed, or cannot be
                                      read; it is planned anew
    compactor_unstartable    error    error, failures, pause_ms: nothing is compacted meanwhile
    log_dir_held             warning  log_dir, by: a broker has it; observed until it is free
    log_dir_free             info     log_dir: nobody has it any more
    log_dir_back             info     log_dir: what was wrong with it is over
    held_back                warning  guard: a guard rail keeps something until ``clean --yes``
    config_unknown           warning  topic: nobody stated what may go, all of it stays
    config_reloaded          info     changes: each key with the value before and after
    config_rejected          error    error: the configuration in force stays
    partition_appeared       info     topic, partition, log_dir
    partition_vanished       info     topic, partition, log_dir
    files_vanished           warning  topic, partition, log_dir, files: not by us, nor as a broker does it
    watch_polls              warning  error: inotify is not to be had, directories are compared now and then
    worker_died              error    error: it is started again
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
    """The closed list of events."""

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
    """Form of a log line."""

    CONSOLE = "console"
    JSON = "json"


LEVELS: Final[Mapping[str, int]] = {
    Event.UNKEYED_RECORDS_DROPPED: logging.WARNING,
    Event.JOURNAL_WAITS: logging.WARNING,
    Event.WORLD_WRITABLE: logging.WARNING,
    Event.TOPICS_UNMATCHED: logging.WARNING,
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
"""Level of an event; INFO where it is not named."""

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
        """So many more bytes were dealt with."""


class EventLog:
    """A ``cleaner.engine.outcome.Listener`` that logs events and moves a progress bar."""

    def __init__(self, verbosity: int = 0, log_format: LogFormat = LogFormat.CONSOLE, bar: Bar | None = None) -> None:
        """Log to stderr.

        Args:
            verbosity: how often ``-v`` was said: warnings and errors, info, debug.
            log_format: form of a line.
            bar: hears the progress.
        """
        self._level = _BY_VERBOSITY[min(verbosity, len(_BY_VERBOSITY) - 1)]
        self._format = log_format
        self._bar = bar
        self._bound: dict[str, object] = {}

    def bind(self, **fields: object) -> EventLog:
        """The same log, with these fields in every line."""
        bound = copy(self)
        bound._bound = {**self._bound, **fields}
        return bound

    def event(self, name: str, **fields: object) -> None:
        """Log one event, if its level asks for it."""
        level = LEVELS.get(name, logging.INFO)
        if level >= self._level:
            with suppress(OSError):  # whoever read it is gone: an event less must not end the work
                _emit(level, name, {**self._bound, **fields}, self._format)

    def progress(self, done_bytes: int) -> None:
        """Move the bar."""
        if self._bar:
            self._bar.advance(done_bytes)


def format_under(environment: Mapping[str, str]) -> LogFormat:
    """JSON where stderr goes to the journal; else for people."""
    return LogFormat.JSON if goes_to_journal(environment) else LogFormat.CONSOLE


def _emit(level: int, name: str, fields: dict[str, object], log_format: LogFormat) -> None:
    import structlog  # noqa: PLC0415 - a quiet run never needs its quarter of a second

    # a progress bar replaces sys.stderr while it is shown, so that is looked up for each line
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
    """Control characters of file names cannot reach the terminal; structlog quotes only some of them."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
