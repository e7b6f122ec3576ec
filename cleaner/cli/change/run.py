"""The command ``run``: the daemon, which systemd starts."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner import __version__
from cleaner.cli.exit_status import ExitStatus, help_on, lines_of, status_of
from cleaner.cli.naming import add_log_dirs_operand, patterns_without_topic, symlinks_in
from cleaner.cli.opening import add_log_dir_arguments, check_metadata, find_missing, read_configuration, reader_of
from storage.errors import LogCleanerError

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers
    from cleaner.daemon.configuration import Configuration
    from cleaner.daemon.daemon import Daemon
    from cleaner.daemon.observer import Observer
    from cleaner.engine.means import Listener
    from cleaner.events import EventLog

HELP = "serve log dirs as a daemon, until SIGTERM"
_ONCE = {
    ExitStatus.FAILED: "a partition failed, or a log dir is missing",
    ExitStatus.LOCKED: "another process holds a log dir",
    ExitStatus.REFUSED: "a guard rail held something back",
    ExitStatus.SIGINT: "interrupted by Ctrl-C",
    ExitStatus.SIGTERM: "interrupted by SIGTERM",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run``."""
    stopped = "stopped by SIGTERM or SIGINT; with --once: done, or nothing to do"
    once = {status: f"with --once: {text}" for status, text in _ONCE.items()}
    parser.epilog = help_on(ExitStatus.USAGE, ExitStatus.NOT_YET, also={ExitStatus.DONE: stopped, **once})
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser, with_topics=False)
    group = parser.add_argument_group("what is done")
    group.add_argument(
        "--observe", action="store_true", help="only plan and export metrics: change nothing, take no lock"
    )
    group.add_argument("--once", action="store_true", help="do one round of everything, then exit as clean does")


def run(args: argparse.Namespace) -> int:
    """Serve until a signal. If the log is JSON, log an error that ends the daemon as an event, too."""
    from cleaner.events import Event, EventLog, LogFormat, format_of, format_under

    log_format = format_of(args.log_format)
    if log_format is LogFormat.CONSOLE:
        log_format = format_under(os.environ)
    log = EventLog(args.verbose + 1, log_format)
    try:
        return _serve(args, log)
    except (LogCleanerError, OSError) as error:
        if log_format is LogFormat.CONSOLE or isinstance(error, BrokenPipeError):
            raise
        status = status_of(error)
        for line in lines_of(error):
            log.event(Event.DAEMON_FAILED, error=line, status=int(status))
        return status


def _serve(args: argparse.Namespace, log: EventLog) -> int:
    from cleaner.cli.opening import tell_world_writable
    from cleaner.daemon.configuration import Configuration
    from cleaner.daemon.daemon import Daemon
    from cleaner.daemon.observer import Observers
    from cleaner.engine.clock import SystemClock
    from cleaner.metrics.http import observer_of
    from storage.kernels import check_level

    if not args.observe:
        check_level()  # only the level is set: the child, which compacts, loads the kernels
    opening, told_once = _Opening(args), _ToldOnce(log)
    configuration = Configuration(lambda: told_once(opening.read()))
    tell_world_writable((*configuration.loaded.log_dirs, *configuration.loaded.files), log)
    with (
        observer_of(configuration.loaded.settings, log, __version__) as metrics,
        _keeper(args, configuration, log) as pages,
    ):
        observer = Observers(metrics, pages)
        daemon = Daemon(configuration, SystemClock(), log, observer, os.environ, observing=args.observe)
        if args.once:
            return _once(daemon)
        daemon.run()
    return ExitStatus.DONE


def _keeper(args: argparse.Namespace, configuration: Configuration, log: EventLog) -> AbstractContextManager[Observer]:
    """Return what keeps the page of the last plan, if one is asked for. Raises: InvalidConfig."""
    if configuration.loaded.settings.report_html is None:
        from cleaner.daemon.observer import Observer

        return nullcontext(Observer())
    from cleaner.pages.keeping import page_keeper

    return page_keeper(lambda: configuration.loaded, args.words, log, is_once=args.once)


class _ToldOnce:
    """Warns once of each ``[topics]`` pattern without a topic, and of each symlink in place of a partition.

    A reload can bring new ones.
    """

    def __init__(self, log: Listener) -> None:
        self._log = log
        self._told: set[str] = set()
        self._told_symlinks: set[str] = set()

    def __call__(self, loaded: LoadedLayers) -> LoadedLayers:
        """Log new patterns that match no topic, and return the configuration unchanged."""
        from storage.log_dir import LogDir

        patterns = patterns_without_topic(loaded)
        if set(patterns) - self._told:
            self._log.event("topics_unmatched", path=str(loaded.settings.path), patterns=list(patterns))
        self._told = set(patterns)
        symlinks = list(map(str, symlinks_in(LogDir(path) for path in loaded.log_dirs)))
        if set(symlinks) - self._told_symlinks:
            self._log.event("partitions_symlinked", paths=symlinks)
        self._told_symlinks = set(symlinks)
        return loaded


class _Opening:
    """Reads the configuration at each call, and remembers the log dirs that held no cluster metadata."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._reader = reader_of(args, keeps_settings=True)
        self._without_metadata: set[Path] = set()

    def read(self) -> LoadedLayers:
        """Return the configuration with all its log dirs, unless all of them are missing.

        Raises: as ``read_configuration``, ``find_missing`` and ``check_metadata``.
        """
        from cleaner.config.reader import METADATA_DIR

        loaded = read_configuration(self._reader, self._args)
        missing = find_missing(loaded, self._args.log_dir)
        check_metadata(loaded, missing, self._without_metadata)
        there = set(loaded.log_dirs) - {error.path for error in missing}
        self._without_metadata |= {path.absolute() for path in there if not (path / METADATA_DIR).exists()}
        return loaded


def _once(daemon: Daemon) -> int:
    teller, ended_by = daemon.once()
    if ended_by:
        return 128 + ended_by
    if teller.held:
        return ExitStatus.LOCKED
    if teller.has_failed or teller.newest is None or teller.newest.has_failures:
        return ExitStatus.FAILED
    return ExitStatus.REFUSED if teller.newest.is_held_back else ExitStatus.DONE
