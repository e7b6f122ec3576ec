"""Events with a name and fields, logged on stderr through structlog.

The names are stable: a new name needs a minor version, a changed name a major one. Sizes are in bytes.

    =======================  =======  ===================================================================
    name                     level    fields
    =======================  =======  ===================================================================
    segment_deleted          info     topic, partition, base_offset, bytes, reason
    compaction_begun         info     topic, partition, bytes: the journal's line is written, and reading begins
    segments_compacted       info     topic, partition, first_base_offset, segments, from_bytes, to_bytes,
                                      records_read, records_kept
    log_start_moved          info     topic, partition, log_start_before, log_start_offset: ``delete-records`` made
                                      records unreadable
    records_erased           info     topic, partition, segments, records: ``erase`` took records of keys out
    segments_repacked        info     topic, partition, segments, bytes_before, bytes_after: ``clean --repack`` merged
                                      batches; the bytes are those of all ``.log`` files of the partition
    segment_rolled           info     topic, partition, base_offset
    files_removed            info     topic, partition, files, bytes: ``.deleted`` files were unlinked
    leftover_swept           info     log_dir, leftover, renamed_to, bytes: a sweep unlinked or renamed it
    partition_recovered      info     topic, partition, files: the step that a crash interrupted was finished or
                                      undone
    partition_imported       info     topic, partition, records, bytes: a new partition was made of an export
    partition_moved          info     topic, partition, from_dir, to_dir: it is in another log dir, and its old
                                      directory was set aside
    partition_restored       info     topic, partition, segments, bytes: deleted segments are back, and the partition
                                      is on hold
    partition_released       info     topic, partition: its hold was released
    file_repaired            info     topic, partition, path, kind, bytes: a derived file was made anew, or zeros
                                      were cut off a log
    repair_reverted          info     topic, partition, path: the file is as it was before its repair
    evidence_kept            warning  topic, partition, files: the only copies of records, and index files that tell of
                                      missing ones; a broker that starts removes them; told once, when the journal
                                      notes them
    unkeyed_records_dropped  warning  topic, partition, count: a compacted topic cannot keep records without a key
    journal_waits            warning  topic, partition, what, the entry's fields: the disk is full, so the journal's
                                      line stays in memory until there is space; log_dir in place of topic and
                                      partition if the line confirms a clock
    world_writable           warning  path, mode: any user may write to this log dir or configuration file
    topics_unmatched         warning  path, patterns: no topic here matches these names and globs of ``[topics]``
    partitions_symlinked     warning  paths: symlinks in place of partition directories: not followed, left out
    partition_changed        warning  topic, partition, path, cause: a file changed after it was planned; the run
                                      skipped the partition, and plans it once more
    limits_confirmed         info     log_dir, configuration: its limits count as confirmed here from now on
    metrics_exposed          warning  listen: other machines can read the metrics
    metrics_unavailable      warning  listen, error: no metrics are served; the daemon tries again every 10 s
    metrics_served           info     listen: the metrics are served again after metrics_unavailable
    partition_failed         error    topic, partition, error
    kernels_unusable         error    error: no partition is compacted in this run
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
                                      compacted_from_bytes, compacted_to_bytes, changed_partitions, changed: what was
                                      done to each, by which limit; only if the job changed something
    round_asked              info     signal: it asks for everything now; round_done with asked_by answers
    round_done               info     seconds, partitions, changed_partitions, the sums of its jobs, limits: segments
                                      that each let go, failures, held, asked_by; not of a round that only looked
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
    reload_held_back         warning  guard: saved limits let much more go than those confirmed last, which hold until
                                      ``config apply``
    cluster_lets_more_go     warning  topic, change: the cluster changed a limit in its metadata; it holds at once
    config_unknown           warning  topic: no source states its cleanup policy, so all of it stays
    config_reloaded          info     changes: each key with its value before and after
    config_rejected          error    error: the daemon keeps the configuration in force
    partition_appeared       info     topic, partition, log_dir
    partition_vanished       info     topic, partition, log_dir
    files_vanished           warning  topic, partition, log_dir, files: neither logcleaner nor a broker removed them
    watch_polls              warning  error: inotify does not work here, so the daemon compares directories now and
                                      then
    page_failed              warning  path, error: the page of ``[report] html`` was not written; the next plan gets
                                      another
    worker_died              error    error: the daemon starts the worker again
    =======================  =======  ===================================================================
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from copy import copy
from enum import StrEnum
from functools import partial
from typing import Any, Final, Self

from cleaner.journald import Level, goes_to_journal, prefix
from cleaner.printable import printable


class Event(StrEnum):
    """All events, with their levels; other names do not occur."""

    level: Level

    def __new__(cls, name: str, level: Level = Level.INFO) -> Self:
        """Make an event with its level."""
        event = str.__new__(cls, name)
        event._value_, event.level = name, level
        return event

    SEGMENT_DELETED = "segment_deleted"
    COMPACTION_BEGUN = "compaction_begun"
    SEGMENTS_COMPACTED = "segments_compacted"
    LOG_START_MOVED = "log_start_moved"
    RECORDS_ERASED = "records_erased"
    SEGMENTS_REPACKED = "segments_repacked"
    SEGMENT_ROLLED = "segment_rolled"
    FILES_REMOVED = "files_removed"
    LEFTOVER_SWEPT = "leftover_swept"
    PARTITION_RECOVERED = "partition_recovered"
    PARTITION_IMPORTED = "partition_imported"
    PARTITION_MOVED = "partition_moved"
    PARTITION_RESTORED = "partition_restored"
    FILE_REPAIRED = "file_repaired"
    REPAIR_REVERTED = "repair_reverted"
    PARTITION_RELEASED = "partition_released"
    EVIDENCE_KEPT = "evidence_kept", Level.WARNING
    UNKEYED_RECORDS_DROPPED = "unkeyed_records_dropped", Level.WARNING
    JOURNAL_WAITS = "journal_waits", Level.WARNING
    WORLD_WRITABLE = "world_writable", Level.WARNING
    TOPICS_UNMATCHED = "topics_unmatched", Level.WARNING
    PARTITIONS_SYMLINKED = "partitions_symlinked", Level.WARNING
    PARTITION_CHANGED = "partition_changed", Level.WARNING
    LIMITS_CONFIRMED = "limits_confirmed"
    METRICS_EXPOSED = "metrics_exposed", Level.WARNING
    METRICS_UNAVAILABLE = "metrics_unavailable", Level.WARNING
    METRICS_SERVED = "metrics_served"
    PARTITION_FAILED = "partition_failed", Level.ERROR
    KERNELS_UNUSABLE = "kernels_unusable", Level.ERROR
    LOG_DIR_FAILED = "log_dir_failed", Level.ERROR

    DAEMON_FAILED = "daemon_failed", Level.ERROR
    DAEMON_STARTED = "daemon_started"
    DAEMON_STOPPED = "daemon_stopped"
    JOB_BEGUN = "job_begun", Level.DEBUG
    JOB_DONE = "job_done"
    ROUND_ASKED = "round_asked"
    ROUND_DONE = "round_done"
    JOB_FAILED = "job_failed", Level.ERROR
    PARTITION_BACKS_OFF = "partition_backs_off", Level.WARNING
    COMPACTION_WITHDRAWN = "compaction_withdrawn"
    COMPACTOR_UNSTARTABLE = "compactor_unstartable", Level.ERROR
    LOG_DIR_HELD = "log_dir_held", Level.WARNING
    LOG_DIR_FREE = "log_dir_free"
    LOG_DIR_BACK = "log_dir_back"
    HELD_BACK = "held_back", Level.WARNING
    RELOAD_HELD_BACK = "reload_held_back", Level.WARNING
    CLUSTER_LETS_MORE_GO = "cluster_lets_more_go", Level.WARNING
    CONFIG_UNKNOWN = "config_unknown", Level.WARNING
    PAGE_FAILED = "page_failed", Level.WARNING
    CONFIG_RELOADED = "config_reloaded"
    CONFIG_REJECTED = "config_rejected", Level.ERROR
    PARTITION_APPEARED = "partition_appeared"
    PARTITION_VANISHED = "partition_vanished"
    FILES_VANISHED = "files_vanished", Level.WARNING
    WATCH_POLLS = "watch_polls", Level.WARNING
    WORKER_DIED = "worker_died", Level.ERROR


class LogFormat(StrEnum):
    """The form of a log line."""

    CONSOLE = "console"
    JSON = "json"


_FAILURES: Final = frozenset({Event.PARTITION_FAILED, Event.LOG_DIR_FAILED})
_BY_VERBOSITY: Final = (Level.WARNING, Level.INFO, Level.DEBUG)
Processor = Callable[[Any, str, MutableMapping[str, Any]], Any]


class EventLog:
    """The ``cleaner.engine.means.Listener`` that logs events and moves a progress bar."""

    def __init__(
        self,
        verbosity: int = 0,
        log_format: LogFormat = LogFormat.CONSOLE,
        advance: Callable[[int], None] | None = None,
        expect: Callable[[int], None] | None = None,
    ) -> None:
        """Log to stderr.

        Args:
            verbosity: number of ``-v``: 0 logs warnings and errors, 1 also info, 2 also debug.
            log_format: form of each line.
            advance: moves a progress bar by a number of bytes.
            expect: adds a number of bytes to the total of the bar.
        """
        self._level = _BY_VERBOSITY[min(verbosity, len(_BY_VERBOSITY) - 1)]
        self._format = log_format
        self._advance = advance
        self._expect = expect
        self._bound: dict[str, object] = {}
        self._held: list[tuple[str, dict[str, object]]] | None = None

    def bind(self, **fields: object) -> EventLog:
        """Return this log with some fields added to every line."""
        bound = copy(self)
        bound._bound = {**self._bound, **fields}
        return bound

    def event(self, name: str, **fields: object) -> None:
        """Log one event, unless the verbosity excludes its level."""
        level = Event(name).level
        if self._held is not None and name in _FAILURES:
            self._held.append((name, fields))
        elif level <= self._level:
            with suppress(OSError):  # the reader of stderr is gone, which must not end the work
                _emit(level, name, {**self._bound, **fields}, self._format)

    def hold_failures(self) -> None:
        """Keep failures back until ``release_failures``, at the latest until the process ends."""
        self._held = []
        atexit.register(self.release_failures)

    def release_failures(self, told: str = "") -> None:
        """Log the failures that were kept back, except failures whose error stands in a text; line breaks do not
        matter.
        """
        held, self._held, told = self._held or [], None, _on_one_line(told)
        for name, fields in held:
            if not told or _on_one_line(printable(str(fields["error"]))) not in told:
                self.event(name, **fields)

    def expect(self, size_bytes: int) -> None:
        """Add to the total of the bar."""
        if self._expect:
            self._expect(size_bytes)

    def progress(self, done_bytes: int) -> None:
        """Move the bar."""
        if self._advance:
            self._advance(done_bytes)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def format_of(asked: str) -> LogFormat:
    """Return the form that ``--log-format`` asks for; ``auto`` asks for JSON unless stderr is a terminal."""
    if asked != "auto":
        return LogFormat(asked)
    return LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON


def format_under(environment: Mapping[str, str]) -> LogFormat:
    """Return JSON if stderr goes to systemd's journal, else the form for people."""
    return LogFormat.JSON if goes_to_journal(environment) else LogFormat.CONSOLE


def _emit(level: Level, name: str, fields: dict[str, object], log_format: LogFormat) -> None:
    import structlog  # noqa: PLC0415 - loading it takes 0.25 s, and a quiet run never needs it

    # a visible progress bar replaces sys.stderr, so each line looks it up anew
    processors: list[Any] = [*_processors(log_format), partial(_prefixed, prefix(level))]
    logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors=processors)
    getattr(logger, level.name.lower())(name, **fields)


def _prefixed(prefix: str, _logger: object, _level: str, line: str) -> str:
    return prefix + line


def _processors(log_format: LogFormat) -> list[Processor]:
    import structlog  # noqa: PLC0415 - see _emit

    if log_format is LogFormat.JSON:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        return [structlog.processors.add_log_level, stamp, _named_first, structlog.processors.JSONRenderer()]
    stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [
        structlog.processors.add_log_level,
        stamp,
        _escaped,
        structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, sort_keys=False),
    ]


def _named_first(_logger: object, _level: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the name of the event first, where a reader of a journal looks for it."""
    return {"event": fields["event"], **fields}


def _escaped(_logger: object, _level: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape all control characters, so that none of a file name reaches the terminal; structlog quotes only some.

    Lists and objects, such as the fields of a journal's line, become JSON.
    """
    as_json = {name: json.dumps(value) for name, value in fields.items() if isinstance(value, dict | list | tuple)}
    return {
        name: printable(value) if isinstance(value, str) else value for name, value in {**fields, **as_json}.items()
    }
