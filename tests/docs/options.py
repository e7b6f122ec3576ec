"""The options of every command, as ``--help`` knows them: the site has them on the page of docs/commands.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from cleaner.cli.main import build_parser
from cleaner.cli.parser import actions_of, commands_of
from tests.docs.tables import table

_EVERY_COMMAND = ("-h", "-v", "--log-format", "--no-pager")


def options() -> str:
    """Return a table for each command, behind one for the options that all commands have."""
    parser = build_parser()
    common = [action for action in _actions(parser) if action.option_strings]
    sections = [
        f"Every command takes:\n\n{table(('Option', ''), map(_row, common))}",
        *(_section(name, command) for name, command in _commands("", parser)),
    ]
    return "\n\n".join(sections)


def _commands(prefix: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, command in commands_of(parser).items():
        below = list(_commands(f"{prefix}{name} ", command))
        yield from below or [(f"{prefix}{name}", command)]


def _section(name: str, command: argparse.ArgumentParser) -> str:
    own = [action for action in _actions(command) if not set(_EVERY_COMMAND) & set(action.option_strings)]
    return f"### logcleaner {name}\n\n{table(('Option', ''), map(_row, own))}"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in actions_of(parser):
        if action.help is not argparse.SUPPRESS and action.nargs != argparse.PARSER:
            yield action


def _row(action: argparse.Action) -> tuple[str, str]:
    takes = "" if action.nargs == 0 else str(action.metavar or "|".join(map(str, action.choices or ())) or action.dest)
    takes += " ..." if action.nargs == "+" else ""
    names = ", ".join(action.option_strings)
    help_ = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return f"`{f'{names} {takes}'.strip()}`".replace("|", r"\|"), _text(help_)


def _text(help_: str) -> str:
    """Return the help so that Markdown takes nothing in it for its own."""
    return help_.replace("|", r"\|").replace("*", r"\*").replace("<", r"\<")
