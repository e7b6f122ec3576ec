"""The manual page, made from the texts of ``--help``; the build writes it into the wheel.

``python -m cleaner.cli.man | man -l -`` shows it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from cleaner import __version__
from cleaner.cli.exit_status import ExitStatus, help_on
from cleaner.cli.main import build_parser
from cleaner.cli.parser import commands_of

_FILES = (
    ("/etc/logcleaner.toml", "configuration of the services; --config names any other file"),
    (".logcleaner-journal", "in each log dir: the journal of all changes; logcleaner history prints it"),
    (".logcleaner-holds", "in each log dir: the partitions on hold since a restore"),
    (".logcleaner-limits", "in each log dir: the limits that were confirmed last; logcleaner config apply"),
    (".logcleaner-streams", "in each log dir: the last batch of each stream of Spark that writes there"),
    (".logcleaner-hold-ids", "in each log dir: the topic ids to which these holds belong"),
)


def man_page(parser: argparse.ArgumentParser) -> str:
    """Return the manual page of the whole command line, as roff."""
    commands = commands_of(parser)
    return "\n".join(
        [
            f'.TH LOGCLEANER 1 "" "logcleaner {__version__}" "User Commands"',
            ".nh",
            ".SH NAME",
            rf"logcleaner \- {_text(_name_line(parser.description))}",
            ".SH SYNOPSIS",
            *(line for name in commands for line in (rf".B logcleaner {_text(name)}", r"[\fIoptions\fR]", ".br")),
            ".SH DESCRIPTION",
            _text(_sentence(parser.description)),
            ".PP",
            _text(_sentence(parser.epilog)),
            ".SH OPTIONS",
            *_options(parser),
            ".SH COMMANDS",
            *_grouped(parser, commands),
            ".SH EXIT STATUS",
            *_statuses(),
            ".SH FILES",
            *(line for path, told in _FILES for line in (".TP", rf"\fI{_text(path)}\fR", _text(told))),
            ".SH SEE ALSO",
            r".BR systemd.service (5)",
            "",
        ]
    )


def _grouped(parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield the sections of the commands, behind a line that names their group."""
    for group in parser._action_groups:
        named = [action.dest for action in group._group_actions if _is_command(action)]
        if named:
            yield from (".PP", rf"\fB{_text(str(group.title)).upper()}\fR: {_text(', '.join(named))}")
        for name in named:
            yield from _command(name, commands[name])


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f".SS logcleaner {_text(name)}"
    yield _text(_sentence(parser.description))
    yield from _options(parser)
    for below, action in commands_of(parser).items():
        yield from _command(f"{name} {below}", action)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if _is_shown(action) and not _is_command(action)]
        if shown and group.title not in ("options", "positional arguments"):
            yield ".PP"
            yield rf"\fI{_text(str(group.title))}\fR"
        for action in shown:
            yield ".TP"
            yield _invocation(action)
            yield _text((action.help or "").replace("%%", "%"))


def _is_command(action: argparse.Action) -> bool:
    """Return whether an entry of a group stands for a command, which has a section of its own."""
    return isinstance(action, argparse._SubParsersAction._ChoicesPseudoAction)


def _is_shown(action: argparse.Action) -> bool:
    return action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)


def _invocation(action: argparse.Action) -> str:
    """Return an option's names and its argument, such as ``\\fB-n\\fR, \\fB--dry-run\\fR``."""
    takes = "" if action.nargs == 0 else action.metavar or "|".join(map(str, action.choices or ())) or action.dest
    argument = rf"\fI{_text(str(takes))}\fR" if takes else ""
    if not action.option_strings:
        return argument
    names = ", ".join(rf"\fB{_text(option)}\fR" for option in action.option_strings)
    return f"{names} {argument}".rstrip()


def _statuses() -> Iterator[str]:
    for line in help_on(*ExitStatus).splitlines()[1:]:
        status, _, told = line.strip().partition(" ")
        yield from (".TP", rf"\fB{status}\fR", _text(told.strip()))


def _sentence(text: str | None) -> str:
    """Return the text with a capital and a full stop."""
    told = (text or "").strip()
    return told[:1].upper() + told[1:] + ("" if told.endswith(".") else ".")


def _name_line(text: str | None) -> str:
    """Return the text without capital and full stop, as ``apropos`` expects it."""
    told = _sentence(text).rstrip(".")
    return told[:1].lower() + told[1:]


def _text(text: str) -> str:
    """Escape the characters that roff would take for a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(man_page(build_parser()))
