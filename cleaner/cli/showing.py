"""The output of a command: its report on stdout, or as a page (``--html``), and a line for each failure on stderr."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.cli.values import at_least_one
from cleaner.report.rollup.view import Sort, View
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

    from cleaner.config.layers import LoadedLayers
    from cleaner.engine.outcome import Outcome
    from cleaner.events import EventLog
    from cleaner.report.overview.provenance import Provenance
    from cleaner.report.page import Lines, Report
    from policies.plan import Plan

_ASKS_FOR_STYLES: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables by which rich shows styles where stdout is no terminal, too."""
_WIDE: Final = 1000
"""A number of columns at which no cell of a piped table is folded."""

_DEFAULT: Final = "less"
_NONE: Final = ("", "cat")
_SETTINGS: Final = {"LESS": "FRX", "LV": "-c"}
"""The value that git uses, too: less quits if all fits the screen, shows colours, and leaves the text on the screen."""
_PLAIN: Final = re.compile(r"[\w@%+=:,./ -]+")
"""A command in which the shell sees nothing but words."""
_NOT_STARTED: Final = (126, 127)
"""The exit statuses of a shell that cannot start a command."""


def show(
    report: Report,
    *,
    as_json: bool,
    every_segment: bool = False,
    view: View | None = None,
    pager: bool = False,
) -> str:
    """Print a report on stdout.

    Args:
        report: the value that a command made.
        as_json: print the report's document, on one line.
        every_segment: do not fold neighbouring segments (``-v``).
        view: how much is shown, and in which order; by default as ``every_segment`` says.
        pager: show the text through the user's pager, if stdout is a terminal.

    Returns:
        The text, without tables, if stdout is a terminal; else an empty text.
    """
    if as_json:
        sys.stdout.write(document_text(report.document()) + "\n")
        return ""
    from cleaner.report.page import Page

    is_terminal = sys.stdout.isatty()
    view = view or View(every_segment)
    width = shutil.get_terminal_size((80, 24)).columns
    parts = report.text(Page(width, view.every_segment, view=view, shortens=is_terminal, draws=draws()))
    if not is_terminal and _ASKS_FOR_STYLES.isdisjoint(os.environ):
        _print_plain(parts)
        return ""
    from rich.console import Console

    # rich takes only colours away for NO_COLOR, and keeps bold; without a colour system it has no styles at all
    console = Console(width=None if is_terminal else _WIDE, color_system=None if os.environ.get("NO_COLOR") else "auto")
    told = _page(parts, console) if pager and is_terminal else _print(parts, console)
    return told if is_terminal else ""


def tell(words: str) -> None:
    """Print one more line of a result on stdout; a terminal gets it wrapped, as the report before it."""
    from cleaner.printable import printable
    from cleaner.report.page import wrapped

    line = printable(words)
    if sys.stdout.isatty():
        line = wrapped(line, shutil.get_terminal_size((80, 24)).columns, 2)
    sys.stdout.write(f"{line}\n")


def draws() -> bool:
    """Return whether stdout is a terminal with colours that shows the characters of bars."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def draw(lines: Lines) -> None:
    """Print lines with their styles, if stdout is a terminal that ``draws``."""
    if draws():
        from rich.console import Console

        Console().print(lines.styled(), soft_wrap=True, end="")


def document_text(document: Any) -> str:
    """Return a document as JSON, on one line; bytes of a name that are no UTF-8 stand there as the text ``\\udcNN``.

    Python keeps such a byte as half of a surrogate pair, which strict readers of JSON refuse.
    """
    text = json.dumps(document)  # json.dump takes four times as long
    return json.dumps(_encodable(document)) if "\\udc" in text else text


def hold_failures(listener: EventLog, *, as_json: bool) -> None:
    """Hold back the log lines of failures if the report goes to the same terminal, because the report shows each
    failure.
    """
    if not as_json and sys.stdout.isatty() and sys.stderr.isatty():
        listener.hold_failures()


def tell_failures(plan: Plan, outcome: Outcome, listener: EventLog, told: str) -> None:
    """Log each failure that the engine did not log while it ran; on a terminal, each failure that the report left out.

    Args:
        plan: the plan.
        outcome: what was done, or would be.
        listener: the log, after ``hold_failures``.
        told: what ``show`` returned.
    """
    from cleaner.report.totals import log_dir_errors

    for failed in plan.failures:
        listener.event("partition_failed", **failed.topic_partition._asdict(), error=failed.error)
    if outcome.dry_run:  # a run logs these failures itself
        for (_, topic_partition), result in outcome.results.items():
            if result.error:
                listener.event("partition_failed", **topic_partition._asdict(), error=result.error)
    for error in log_dir_errors(plan, outcome):
        if error != outcome.no_kernels:
            listener.event("log_dir_failed", error=error)
    listener.release_failures(told)


def pager_of(environment: Mapping[str, str]) -> str | None:
    """Return the command of the pager; None if the user wants none, or it is not installed."""
    command = environment.get("LOGCLEANER_PAGER", environment.get("PAGER", _DEFAULT)).strip()
    if command in _NONE:
        return None
    import shlex

    is_missing = _PLAIN.fullmatch(command) and not shutil.which(shlex.split(command)[0], path=environment.get("PATH"))
    return None if is_missing else command


def page(text: str, command: str) -> bool:
    """Show a text through a pager until the user leaves it. Return False if the pager could not start.

    Args:
        text: with the colours of the terminal.
        command: of the pager; a shell runs it.
    """
    import subprocess

    with _interrupts_left_to_the_pager():
        process = subprocess.Popen(  # noqa: S602 - the user's own command, as in git and man
            command,
            shell=True,
            stdin=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=_SETTINGS | dict(os.environ),
        )
        try:
            process.communicate(text)  # a pager that was left early closes the pipe, which is no error
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process.returncode not in _NOT_STARTED


def add_view_arguments(group: argparse._ArgumentGroup, what: str) -> None:
    """Add ``-q``, ``--sort`` and ``--limit``.

    Args:
        group: of options.
        what: the report lists, such as ``topics``.
    """
    add_quiet_argument(group)
    group.add_argument(
        "--sort",
        choices=[sort.value for sort in Sort],
        help=f"order of the {what} in the text: largest, most to reclaim, dirtiest, or next to expire first",
    )
    group.add_argument(
        "--limit", type=at_least_one, metavar="N", help=f"list N {what} in the text (default: what fits 60 lines)"
    )


def add_quiet_argument(group: argparse._ActionsContainer) -> None:
    """Add ``-q`` alone, to a command whose report is no list to sort."""
    group.add_argument("-q", "--quiet", action="store_true", help="report the totals alone")


def quiet_view(args: argparse.Namespace) -> View:
    """Return the view that ``-q`` or ``-v`` asks for. Raises: InvalidConfig for both."""
    if args.quiet and args.verbose:
        raise InvalidConfig("--quiet", None, "does not go with --verbose")
    return View(args.verbose > 0, args.quiet)


def view_of(args: argparse.Namespace) -> View:
    """Return the view that the options ask for. Raises: InvalidConfig for ``-q`` with ``-v``."""
    sort = Sort(args.sort) if args.sort else None
    return quiet_view(args)._replace(sort=sort, limit=args.limit)


def add_html_argument(group: argparse._ActionsContainer) -> None:
    """Add the option ``--html``."""
    group.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write a page of HTML that needs no other file; needs pip install '.[report]' in the sources",
    )


def check_html(args: argparse.Namespace, *log_dirs: Path) -> None:
    """Refuse a page that could not be written. Raises: InvalidConfig."""
    if args.html:
        from cleaner.pages.writing import check_page

        check_page("--html", args.html, log_dirs)


def provenance_if_asked(args: argparse.Namespace, loaded: LoadedLayers) -> Provenance | None:
    """Return the version, the command line and the configuration that a page names; None if no page is asked for."""
    if not args.html:
        return None
    from cleaner.cli.metrics import clock_ms
    from cleaner.pages.writing import provenance_of

    return provenance_of(loaded, args.words, clock_ms())


def write_html(args: argparse.Namespace, report: Report) -> ExitStatus:
    """Write the page of a report, if one is asked for. Return the status: FAILED if it could not be written."""
    if args.html:
        from cleaner.errors import UnwritableFile
        from cleaner.pages.writing import write_page

        try:
            write_page(args.html, report.document())
        except UnwritableFile as error:
            complain(str(error))
            return ExitStatus.FAILED
    return ExitStatus.DONE


def _print_plain(parts: Iterable[Lines | Table]) -> None:
    """Print a report without styles. Only a table needs rich, which lays it out."""
    from cleaner.report.page import Lines

    for part in parts:
        if isinstance(part, Lines):
            sys.stdout.write(part.plain)
        else:
            from rich.console import Console

            console = Console(width=_WIDE)
            with console.capture() as captured:  # rich fills each row up with blanks
                console.print(part)
            sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _page(parts: Iterable[Lines | Table], console: Console) -> str:
    """Show a report through the user's pager, or without a pager if there is none or it cannot start."""

    command = pager_of(os.environ)
    if command is None:
        return _print(parts, console)
    with console.capture() as captured:
        told = _print(parts, console)
    if not page(captured.get(), command):
        sys.stdout.write(captured.get())
    return told


def _print(parts: Iterable[Lines | Table], console: Console) -> str:
    """Print a report with rich, and return the text of its lines."""
    from cleaner.report.page import Lines

    told: list[str] = []
    for part in parts:
        if not isinstance(part, Lines):
            console.print(part)
            continue
        told.append(part.plain)
        if console.is_terminal:
            console.print(part.styled(), soft_wrap=True, end="")
        else:  # TTY_COMPATIBLE=0
            console.out(part.plain, highlight=False, end="")
    return "".join(told)


def _encodable(value: Any) -> Any:
    """Return a value whose texts can all be encoded as UTF-8."""
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(inner) for inner in value]
    if not isinstance(value, str):
        return value
    return "".join(
        c.encode("unicode_escape", "surrogatepass").decode() if "\ud800" <= c <= "\udfff" else c for c in value
    )


@contextmanager
def _interrupts_left_to_the_pager() -> Iterator[None]:
    """Ignore Ctrl-C, which stops a search in the pager. The pager itself inherits no ignored signal."""
    previous = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
