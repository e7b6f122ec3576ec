"""The parser of the command line. It reports a mistake in one line, with the nearest right word."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.journald import Level

_NEGATIVE_VALUE: Final = re.compile(r"-\.?\d")
_REQUIRED: Final = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """The parser that reports a mistake in one line, and loads rich only when it shows help."""

    for_several = ""
    """What to say instead, where a user gives more operands than a command takes."""
    is_intermixed = False
    """True if options may stand between operands of which one takes several words."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self._given: Sequence[str] = ()
        self._is_pass = False
        """True within one of argparse's two passes over intermixed arguments."""
        self._negative_number_matcher = _NEGATIVE_VALUE  # -5GiB and -36h are values: no option begins with a digit

    def format_help(self) -> str:
        """Return the help text, coloured on a terminal."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            # loading rich takes twice as long as everything else
            from rich_argparse import RawDescriptionRichHelpFormatter

            self.formatter_class = RawDescriptionRichHelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print one line on stderr, and exit with status 2."""
        if message.startswith(_REQUIRED) and (taking := self._taking_all()):
            operands = message.removeprefix(_REQUIRED)
            message += f"; {taking} takes every word behind it: {operands} goes before the options"
        complain(f"{message}; see {self.prog} --help", Level.ERROR)
        sys.exit(ExitStatus.USAGE)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, which hands each command's arguments to the command's own parser.

        Report an unknown option first: its misspelling explains why a required option is missing.
        """
        arguments = self._given = sys.argv[1:] if args is None else list(args)
        for argument in self._own(arguments):
            name = argument.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                self.error(f"no such option: {argument}{did_you_mean(name, self._option_string_actions)}")
        if self._is_pass:
            return super().parse_known_args(arguments, namespace)
        self._is_pass = self.is_intermixed
        parse = super().parse_known_intermixed_args if self.is_intermixed else super().parse_known_args
        parsed, unknown = parse(arguments, namespace)
        self._is_pass = False
        if unknown:
            one = unknown[0]
            near = did_you_mean(f"-{one}", self._option_string_actions) if one.startswith("-") else ""
            if f"--{one}" in self._option_string_actions:
                near = f"; did you mean --{one}?"
            elif self.for_several and not one.startswith("-"):
                near = f"; {self.for_several}"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return parsed, unknown

    def _taking_all(self) -> str | None:
        """Return the first option given that takes all words behind it, also an operand; None if there is none."""
        of = self._option_string_actions
        return next((word for word in self._given if word in of and of[word].nargs == "+"), None)

    def _own(self, arguments: Sequence[str]) -> Iterable[str]:
        """Yield the arguments before ``--`` and before a command's name; the command's parser takes the others."""
        for argument in arguments:
            if argument == "--" or (self._subparsers and not argument.startswith("-")):
                return
            yield argument

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest choice in the error, or all choices if none is near."""
        choices = list(map(str, action.choices or ()))
        if isinstance(action, CommaSeparated):
            value = next((word for word in value.split(",") if word not in choices), choices[0])
        if not choices or value in choices:
            return
        what = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
        told = did_you_mean(str(value), choices) or f"; choose from {', '.join(choices)}"
        raise argparse.ArgumentError(None if what == "command" else action, f"no such {what}: {value}{told}")


class CommaSeparated(argparse.Action):
    """Takes an option with ``choices`` that may be repeated, and may name several at a time, with commas between."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Add what is named to what was named before."""
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *values.split(",")])


def did_you_mean(written: str, names: Iterable[str]) -> str:
    """Return a text like ``; did you mean clean?``; an empty text if no name is near."""
    near = nearest(written, names)
    return f"; did you mean {near}?" if near else ""


def nearest(written: str, names: Iterable[str]) -> str | None:
    """Return the name that the user probably meant, of several that are as near the first one; None if none is near."""
    from difflib import SequenceMatcher, get_close_matches

    known = {name.casefold(): name for name in sorted(names)}
    near = get_close_matches(written.casefold(), known, n=max(len(known), 1))
    alike = {name: SequenceMatcher(None, name, written.casefold()).ratio() for name in near}
    return known[min(name for name in near if alike[name] == alike[near[0]])] if near else None
