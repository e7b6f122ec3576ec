"""The options that say how much of a report is shown, and in which order."""

from __future__ import annotations

import argparse

from cleaner.cli.values import at_least_one
from cleaner.report.rollup.view import Sort, View
from storage.errors import InvalidConfig


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
    """Return what ``-q`` and ``-v`` say. Raises: InvalidConfig for both."""
    if args.quiet and args.verbose:
        raise InvalidConfig("--quiet", None, "does not go with --verbose")
    return View(args.verbose > 0, args.quiet)


def view_of(args: argparse.Namespace) -> View:
    """Return what the options say. Raises: InvalidConfig for ``-q`` with ``-v``."""
    sort = Sort(args.sort) if args.sort else None
    return quiet_view(args)._replace(sort=sort, limit=args.limit)
