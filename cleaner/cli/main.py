"""The command ``logcleaner``: it reads the command line, runs one command and returns its exit status.

This module imports only what parsing needs, so that ``--help`` answers at once; each command imports the rest. Before
anything else it prepares the three standard streams: one may be closed, or may not take every character.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from cleaner import __version__
from cleaner.cli.exit_status import ExitStatus, Terminated, complain, exit_status_of
from cleaner.cli.parser import Parser, commands_of
from cleaner.config.files import CommandFiles
from storage.errors import LogCleanerError
from storage.stores import ENDING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STREAMS: Final = 3
_SEE_HISTORY: Final = "the run is done, only its report is missing: logcleaner history tells what was changed"

_GROUPS: Final = {
    "rescue and clean": {
        "free": "change.free",
        "clean": "change.clean",
        "delete-records": "change.delete_records",
        "erase": "change.erase",
    },
    "look": {
        "topics": "look.topics",
        "explain": "look.explain",
        "lookup": "look.lookup",
        "dump": "look.dump",
        "owners": "look.owners",
        "prove-erased": "look.prove_erased",
        "analyze": "look.analyze",
    },
    "damage and starts": {"preflight": "look.preflight", "doctor": "look.doctor", "verify": "look.verify"},
    "take back": {"history": "look.history", "restore": "change.restore", "diff": "look.diff", "digest": "look.digest"},
    "data in and out": {
        "export": "look.export",
        "import": "change.import_records",
        "fetch": "change.fetch",
        "move": "change.move",
        "restore-tier": "change.restore_tier",
    },
    "service": {
        "run": "change.run",
        "config": "look.config",
        "systemd": "setup.systemd",
        "completion": "setup.completion",
        "demo": "setup.demo",
    },
}
"""The commands, each with its module below ``cleaner.cli``, in the groups that ``--help`` shows."""
_NEEDS_ALL: Final = "completion"
"""The command that tells of all commands."""
_DESCRIPTION = "Retention and log compaction for Apache Kafka log directories, without a broker."
_EPILOG = "Try it: logcleaner demo DIR, then logcleaner clean -n DIR"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: arguments without the program's name; by default those of the process.

    Returns:
        The exit status.
    """
    prepare_streams()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start a thread for each core
    has_acted = False
    try:
        words = tuple(sys.argv[1:] if argv is None else argv)
        args = build_parser(_command_of(words)).parse_args(words)
        args.words = words
        args.inputs = CommandFiles()
        has_acted = _acts(args)
        from cleaner.cli.naming import check_places

        check_places(args, acts=has_acted)
        status = _run(args)
    except SystemExit as exit_:  # argparse raises it after --help and a mistake, rich if nobody reads stdout
        status = exit_.code if isinstance(exit_.code, int) else ExitStatus.DONE
    except LogCleanerError as error:  # raised for an operand that names a place in a store
        has_acted, status = False, exit_status_of(error, show_traceback=False)
    except KeyboardInterrupt:
        status = ExitStatus.SIGINT
    return status_if_shown(status, has_acted=has_acted)


def build_parser(only: str | None = None) -> Parser:
    """Return the parser of the command line. ``only``: import the module of this command alone, not of all commands."""
    parser = Parser(prog="logcleaner", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"logcleaner {__version__}")
    parser.set_defaults(verbose=0, log_format="console", pager=True, parser=parser)
    _add_common(parser)
    commands = parser.add_subparsers(prog="logcleaner", dest="command", metavar="COMMAND", required=True)
    groups = {title: {n: m for n, m in group.items() if only in (None, n)} for title, group in _GROUPS.items()}
    for name, place in (pair for group in groups.values() for pair in group.items()):
        module = import_module(f"cleaner.cli.{place}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        for taking in (command, *commands_of(command).values()):
            _add_common(taking)
        command.set_defaults(run=module.run)
    parser.show_in_groups(commands, {title: tuple(group) for title, group in groups.items()})
    return parser


def prepare_streams() -> None:
    """Escape what the locale cannot show, and replace closed streams.

    The next file that is opened would get the number of a closed stream. That file could be a log, and a child
    process would write its messages into it.
    """
    for number in range(_STREAMS):
        _occupy(number)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Unread()), encoding="utf-8")
    out, is_replaced = sys.stdout, sys.stdout is not sys.__stdout__
    raw = getattr(out, "buffer", None)
    if not is_replaced and isinstance(raw, io.RawIOBase):
        # PYTHONUNBUFFERED, as in many images: without a buffer nothing tells that an error is that of a full stdout
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=out.encoding, line_buffering=out.isatty())
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):  # an undecodable file name must not end the program
            reconfigure(errors="backslashreplace")


def is_of_stdout(error: BaseException) -> bool:
    """Return whether the error says that stdout cannot be written.

    If so, the buffer of stdout still holds the unwritten rest.
    """
    if not isinstance(error, OSError) or isinstance(error, BrokenPipeError) or error.filename is not None:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def status_if_shown(status: int, *, has_acted: bool = False) -> int:
    """Return the exit status; FAILED instead of DONE if stdout does not take the result.

    Args:
        status: of the command.
        has_acted: whether the command may have changed log dirs, which nobody reads on stdout now.
    """
    instead = f"; {_SEE_HISTORY}" if has_acted else ""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        if not isinstance(error, BrokenPipeError):
            complain(f"stdout: cannot be written: {error.strerror}{instead}")
        return status or ExitStatus.FAILED
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", None)
    if not isinstance(raw, _Unread):
        return status
    if not raw.lost_bytes:
        return status
    complain(f"stdout is closed, so nobody got the result{instead}; add >/dev/null if nobody needs it")
    return status or ExitStatus.FAILED


def _acts(args: argparse.Namespace) -> bool:
    """Return whether a command changes log dirs, and leaves a line in their journal for each change."""
    if any(getattr(args, name, None) for name in ("dry_run", "output", "check", "pending")):
        return False
    asked = args.command in {"clean", "free", "delete-records", "erase", "import", "move"} or (
        args.command == "restore" and args.topic_partition
    )
    return bool(asked or getattr(args, "repair", None) or getattr(args, "sweep", None))


def _run(args: argparse.Namespace) -> int:
    if args.command != "run":
        _collect_seldom()
    ENDING.by = 0
    ENDING.hanging.clear()
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the shell has SIGINT ignored
        numbers.append(signal.SIGINT)
    previous = {number: signal.signal(number, _end) for number in numbers}
    try:
        status: int = args.run(args)
    except SystemExit:
        raise
    except BaseException as error:
        if is_of_stdout(error):
            return ExitStatus.FAILED  # ``main`` reports the error
        return exit_status_of(error, show_traceback=args.verbose > 1)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if getattr(args, "tier", None) is not None:
        from cleaner.cli.opening import tell_left_out

        if tell_left_out(args) and status == ExitStatus.DONE:
            return ExitStatus.FAILED
    return status


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    ENDING.by = number
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _collect_seldom() -> None:
    """Run Python's garbage collector less often, and not at exit.

    A plan is a million small values that stay, without a cycle among them. The usual collections take a sixth of the
    time, and the one at exit takes a tenth of a short run. The daemon keeps the usual ones, because its cycles would
    add up for months.
    """
    gc.set_threshold(20_000, 100)
    atexit.register(gc.freeze)


def _command_of(words: Sequence[str]) -> str | None:
    """Return the command if a command line begins with one; else None: then the parser needs every command."""
    names = {name for group in _GROUPS.values() for name in group} - {_NEEDS_ALL}
    return words[0] if words and words[0] in names else None


def _add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that a user may write before or after the command's name."""
    group = parser.add_argument_group("messages")
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=argparse.SUPPRESS,
        help="report each step and every segment; -vv also shows tracebacks",
    )
    group.add_argument(
        "--log-format",
        choices=("console", "json", "auto"),
        default=argparse.SUPPRESS,
        help="form of the log lines on stderr; auto: json unless stderr is a terminal",
    )
    group.add_argument(
        "--no-pager",
        action="store_false",
        dest="pager",
        default=argparse.SUPPRESS,
        help="print reports without a pager; on a terminal the default is $LOGCLEANER_PAGER, $PAGER or less",
    )


def _occupy(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:  # a lower number is closed, too, and is left closed
            os.dup2(descriptor, number)
            os.close(descriptor)


class _Unread(io.RawIOBase):
    """A replacement for a closed stdout: it takes everything, keeps nothing, and counts the bytes that were lost."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Count the bytes, and keep none."""
        size_bytes = memoryview(data).nbytes
        self.lost_bytes += size_bytes
        return size_bytes
