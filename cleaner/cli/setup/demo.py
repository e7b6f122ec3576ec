"""The command ``demo``: it makes a small log directory on which a user can try logcleaner."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.errors import UnwritableFile

if TYPE_CHECKING:
    from cleaner.demo import MadeTopic

HELP: Final = "make a small log directory on which to try all this"
_COLUMNS: Final = 80
_INDENT: Final = " " * 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``demo``."""
    parser.epilog = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE)
    parser.add_argument("directory", metavar="DIR", type=Path, help="directory to make; it must be absent or empty")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random data (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Make the demo, and print what it holds and what to try. Raises: UnwritableFile, UnsafeOwner."""
    from cleaner.demo import make_demo
    from cleaner.engine.clock import SystemClock
    from storage.filesystem import FileSystem, OutOfSpace

    directory: Path = args.directory
    problem = _problem_with(directory)
    if problem:
        complain(f"{directory}: {problem}")
        return ExitStatus.USAGE
    try:
        made = make_demo(directory, FileSystem(), SystemClock().now_ms(), args.seed)
    except OutOfSpace as error:  # its advice on retention is for a log dir in service
        raise UnwritableFile(error.path, "no space; name a directory on another disk") from error
    sys.stdout.write(_report(directory, made))
    return ExitStatus.DONE


def _problem_with(directory: Path) -> str | None:
    """Return why the demo cannot be made in this directory; None if it can."""
    if directory.is_dir():
        return "is not empty; name a new directory" if any(directory.iterdir()) else None
    if directory.exists():
        return "is not a directory; name a new one"
    if not directory.parent.is_dir():
        return "its parent directory does not exist; make that first"
    return None


def _report(directory: Path, made: list[MadeTopic]) -> str:
    total_bytes = sum(one.size_bytes for one in made)
    named = shlex.quote(str(directory))
    return "\n".join(
        [
            f"Made a log directory of {len(made)} topics, {_size(total_bytes)}, in {directory}:",
            *(_line(one) for one in made),
            "",
            "Try:",
            f"  logcleaner clean --dry-run --log-dir {named}",
            f"  logcleaner clean --log-dir {named}",
            "",
        ]
    )


def _line(made: MadeTopic) -> str:
    from textwrap import fill

    topic = made.topic
    policy, size = topic.configs["cleanup.policy"], _size(made.size_bytes)
    segments = "segment " if made.segments == 1 else "segments"
    figures = f"  {topic.name:<9} {policy:<14} {made.segments:>3} {segments} {size:>9}"
    return f"{figures}\n{fill(topic.shows, _COLUMNS, initial_indent=_INDENT, subsequent_indent=_INDENT)}"


def _size(size_bytes: int) -> str:
    from policies.reasons import size

    return size(size_bytes)
