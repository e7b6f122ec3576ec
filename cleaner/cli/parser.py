"""The parser of the command line. It reports a mistake in one line, with the nearest right word."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.journald import Level

_NEGATIVE_VALUE: Final = re.compile(r"-\.?\d")
_USAGE_INDENT: Final = " " * 11
_STATUS_INDENT: Final = " " * 7
_HELP_COLUMN: Final = 24
_GAP: Final = 4
"""The columns in front of a command's name, and behind it."""
_GIVEN: Final = "given_once"
_REQUIRED: Final = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """The parser that reports a mistake in one line, and loads rich only when it shows help."""

    for_several = ""
    """The error message for a user who gives more operands than the command takes."""
    is_intermixed = False
    """True if options may stand between operands, and one of the operands takes several words."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self.register("action", None, Once)
        self.register("action", "store", Once)
        self._given: Sequence[str] = ()
        self._help_column = _HELP_COLUMN
        self._is_pass = False
        """True within one of argparse's two passes over intermixed arguments."""
        self._negative_number_matcher = _NEGATIVE_VALUE  # -5GiB and -36h are values: no option begins with a digit

    def format_help(self) -> str:
        """Return the help text, coloured on a terminal."""
        formatter: type[argparse.HelpFormatter] = argparse.RawDescriptionHelpFormatter
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            # loading rich takes twice as long as everything else
            from rich_argparse import RawDescriptionRichHelpFormatter

            formatter = RawDescriptionRichHelpFormatter
        self.formatter_class = partial(formatter, max_help_position=self._help_column)
        with self._wrapped(shutil.get_terminal_size().columns - 2):
            return super().format_help()

    @contextmanager
    def _wrapped(self, columns: int) -> Iterator[None]:
        """Wrap the texts that argparse prints as they are."""
        texts = self.usage, self.description, self.epilog
        if self.usage:
            usage = f"usage: {self.usage % {'prog': self.prog}}"
            self.usage = _filled(usage, columns, _USAGE_INDENT).removeprefix("usage: ")
        self.description = _filled(self.description or "", columns, "") or None
        self.epilog = _filled(self.epilog or "", columns, _STATUS_INDENT) or None
        yield
        self.usage, self.description, self.epilog = texts

    def show_in_groups(self, commands: argparse._SubParsersAction[Any], groups: Mapping[str, Sequence[str]]) -> None:
        """Have the help show the commands in groups, each on one line, before the options."""
        told = {action.dest: action for action in commands._choices_actions}
        self._positionals._group_actions.remove(commands)
        shown = []
        for title, names in groups.items():
            shown.append(argparse._ArgumentGroup(self, title))
            shown[-1]._group_actions.extend(told[name] for name in names)
        self._action_groups = [*shown, *self._action_groups]
        self._help_column = _GAP + max(map(len, told))

    def error(self, message: str) -> NoReturn:
        """Print one line on stderr, and exit with status 2."""
        if message.startswith(_REQUIRED) and (taking := self._taking_all()):
            names = message.removeprefix(_REQUIRED).split(", ")
            if operands := ", ".join(name for name in names if not name.startswith("-")):
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
            if Path(one).is_dir() and "--log-dir" in self._option_string_actions:
                near = f"; say --log-dir {one}"
            elif f"--{one}" in self._option_string_actions:
                near = f"; did you mean --{one}?"
            elif self.for_several and not one.startswith("-"):
                near = f"; {self.for_several}"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return parsed, unknown

    def _taking_all(self) -> str | None:
        """Return the first given option that takes all words behind it, operands too; None if no option does."""
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


def actions_of(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """Return the options and operands of a parser; argparse offers no public list."""
    return parser._actions


def commands_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the commands directly below a parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


class Once(argparse._StoreAction):
    """The action for an option with one value. A second value is a mistake, because neither may be ignored silently.

    An option that may stand on both sides of the command (its default is ``SUPPRESS``) may be repeated: the last value
    holds.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Set the value, unless it was set before."""
        if self.option_strings and self.default is not argparse.SUPPRESS:
            given = vars(namespace).setdefault(_GIVEN, set())
            if self.dest in given:
                raise argparse.ArgumentError(self, "takes one value, and was given twice")
            given.add(self.dest)
        super().__call__(parser, namespace, values, option)


class CommaSeparated(argparse.Action):
    """The action for an option with ``choices`` that may be repeated, and may name several choices, separated by
    commas.
    """

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Add the named choices to the earlier ones."""
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *values.split(",")])


def _filled(text: str, columns: int, indent: str) -> str:
    """Wrap each line of a text, with an indent for the continuation lines."""
    lines = (
        textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
    return "\n".join(lines)


def did_you_mean(written: str, names: Iterable[str]) -> str:
    """Return a text like ``; did you mean clean?``; an empty text if no name is near."""
    near = nearest(written, names)
    return f"; did you mean {near}?" if near else ""


def nearest(written: str, names: Iterable[str]) -> str | None:
    """Return the name that the user probably meant, the first of equally near names; None if no name is near."""
    from difflib import SequenceMatcher, get_close_matches

    known = {name.casefold(): name for name in sorted(names)}
    near = get_close_matches(written.casefold(), known, n=max(len(known), 1))
    alike = {name: SequenceMatcher(None, name, written.casefold()).ratio() for name in near}
    return known[min(name for name in near if alike[name] == alike[near[0]])] if near else None
