"""The command ``completion``: it prints the script that teaches a shell to complete ``logcleaner``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

HELP = "print a shell's completion script, e.g. source <(logcleaner completion bash)"
_SHELLS = ("bash", "zsh", "fish", "tcsh")
_PATHS = {"DIR", "FILE"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``completion``."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that will read the script")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    for action in _actions(args.parser):
        if action.metavar in _PATHS:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(args.parser, args.shell) + "\n")
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield every option and operand, also those of the commands."""
    for action in parser._actions:  # argparse offers no public list
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
