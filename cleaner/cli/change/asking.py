"""The option ``--what-if`` of ``clean``: what a run would do with other values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleaner.engine.rehearsal.what_if import Answered
    from cleaner.report.cleaning import CleaningReport
    from policies.forecast.what_if import Question


def add_what_if_argument(group: argparse._ArgumentGroup) -> None:
    """Add the option ``--what-if``."""
    group.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="KEY=V1,V2,...",
        help="with --dry-run: what would be freed and kept, now and in the long run, with these values of a key; "
        "once for each key",
    )


def asked(args: argparse.Namespace) -> tuple[Question, ...]:
    """Return the questions of the command line. Raises: InvalidConfigs."""
    if not args.what_if:
        return ()
    from policies.forecast.what_if import questions_of

    return questions_of(args.what_if, is_exact=args.exact)


def with_answers(report: CleaningReport, answered: Sequence[Answered]) -> CleaningReport:
    """Return a report that has the answers, too; the same one if nothing was asked."""
    if not answered:
        return report
    from cleaner.report.forecast.what_if import WhatIfReport

    return WhatIfReport(report.plan, report.outcome, overview=report.overview, answered=tuple(answered))
