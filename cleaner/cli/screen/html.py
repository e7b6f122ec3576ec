"""The option ``--html``: a report as a page that needs no other file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import ExitStatus, complain

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers
    from cleaner.report.overview.provenance import Provenance
    from cleaner.report.page import Report


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
    """Return who makes the page, and of which configuration; None if no page is asked for."""
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
