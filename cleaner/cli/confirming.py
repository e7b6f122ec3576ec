"""Confirmation of dangerous acts: a question on a terminal; without a terminal, ``--yes``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import NotConfirmed, complain

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.outcome import Outcome
    from policies.plan import Plan, Request

_UNTOUCHED: Final = "nothing there was changed: look with --dry-run --yes, and add --yes if you mean it"
_WAITS: Final = (
    "until then the earlier limits hold: logcleaner config apply -n shows what waits; "
    "logcleaner config apply, or --yes, confirms it"
)
_OLD: Final = "as in an old copy, or where a broker was stopped for long"
_UNCOMPACTED: Final = (
    "nothing there was compacted: add --yes if you mean it; with cleanup.policy=delete the topic keeps these records"
)


_CONSEQUENCES: Final = {"MAX_UNKEYED_RATIO": _UNCOMPACTED, "RELOAD_GUARD": _WAITS}
"""Code of a guard rail -> what the guard rail means for the run, and what to do."""


def confirm(args: argparse.Namespace, danger: str) -> None:
    """Ask the user to confirm a danger, unless ``--yes`` confirms it or a dry run endangers nothing.

    Raises: NotConfirmed.
    """
    if needs_answer(args, danger):
        ask(f"{danger}. Go on?")


def needs_answer(args: argparse.Namespace, danger: str) -> bool:
    """Return whether the user must be asked to confirm a danger. Raises: NotConfirmed where nobody can be asked."""
    if args.yes or args.dry_run:
        return False
    if not _on_a_terminal():
        raise NotConfirmed(danger, "nothing was done; add --yes if you mean it")
    return True


def add_danger_arguments(
    group: argparse._ArgumentGroup, confirms: str = "what is dangerous or what a guard rail holds back"
) -> None:
    """Add the options ``--force-lock`` and ``--yes``. ``confirms``: what the latter confirms."""
    group.add_argument(
        "--force-lock",
        action="store_true",
        help="go on although the lock may keep no broker out, as on NFS; make sure that no broker runs anywhere",
    )
    group.add_argument("-y", "--yes", action="store_true", help=f"confirm, without a question, {confirms}")


def confirm_force_lock(args: argparse.Namespace) -> None:
    """Ask the user to confirm ``--force-lock``, if it is given. Raises: NotConfirmed."""
    if args.force_lock:
        confirm(args, "--force-lock goes on even if a broker runs that the lock does not keep out, which destroys data")


def confirm_guards(args: argparse.Namespace, cleaner: Cleaner, request: Request) -> Request:
    """Ask the user, on a terminal, to confirm what guard rails hold back, before the run changes anything.

    Returns: the request, with the guards that were shown and confirmed, or with all guards after ``--yes``. A guard
    that only the plan under the lock meets was never shown, so it still holds its partitions back.

    Raises: NotConfirmed.
    """
    if args.yes or args.dry_run or not _on_a_terminal():
        return replace(request, confirmed=args.yes)
    in_place = not getattr(args, "output", None)
    plan = cleaner.plan(replace(request, in_place=in_place))
    for guard in plan.guards:
        complain(guard)
    if plan.guard_keys:
        ask("Do it anyway?")
    return replace(request, confirmed_guards=plan.guard_keys)


def confirm_held_back(args: argparse.Namespace, plan: Plan, outcome: Outcome, request: Request) -> Request | None:
    """Ask the user, on a terminal, to confirm what guard rails held back while the run was under way.

    Args:
        args: of the command.
        plan: the plan that the run carried out.
        outcome: the outcome of the run; no log dir is locked any more.
        request: of the run.

    Returns: the request of a second run over these partitions alone; None if there are none, if the user says no, or if
    the run wrote a copy, because a copy cannot be extended.
    """
    from policies.plan import guard_key, path_of

    if args.dry_run or args.output or outcome.interrupted or not _on_a_terminal():
        return None
    held = [(p.facts, guard) for p in plan.partitions if (guard := outcome.guards.get(p.key))]
    if not held:
        return None
    for facts, guard in held:
        complain(f"{guard.code}: {path_of(facts)}: {guard.text}")
    if not _answer("Do it anyway?"):
        return None
    keys = {guard_key(guard, path_of(facts)) for facts, guard in held}
    names = tuple(str(facts.topic_partition) for facts, _ in held)
    return replace(request, topics=names, confirmed_guards=request.confirmed_guards | keys)


def tell_guards(plan: Plan, *, is_dry: bool = False) -> None:
    """Print a line for each guard rail that holds something back; in a dry run, also each reason to refuse the run."""
    from policies.guards import may_be_an_old_copy
    from policies.reasons import ReasonCode
    from storage.log_dir import LogDir
    from storage.stores.paths import SEPARATOR, TIER, path_of_text

    for guard in plan.guards:
        is_old = guard.startswith(ReasonCode.CLOCK_JUMPED) and may_be_an_old_copy(guard)
        told = f"{guard} ({_OLD})" if is_old else guard
        complain(f"{told}; {_CONSEQUENCES.get(guard.partition(':')[0], _UNTOUCHED)}")
    held, request = set(plan.guards), plan.request
    consequence = "--yes confirmed it" if request.confirmed else "a run that changes the log dir needs --yes"
    for line in plan.foreign:
        if line not in held:
            complain(f"{line}; {'you confirmed it' if request.confirmed_guards else consequence}")
    for log_dir in plan.log_dirs if is_dry else ():
        if log_dir.facts.path.startswith(f"{TIER}{SEPARATOR}"):
            continue  # a run needs --output, which leaves it as it is
        if refusal := LogDir(path_of_text(log_dir.facts.path)).refusal():
            complain(f"a run without --dry-run would be refused: {refusal}")


def _on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> None:
    """Ask a question on the terminal. Raises: NotConfirmed if the answer is not yes."""
    if not _answer(question):
        raise NotConfirmed("not confirmed", "nothing was done")


def _answer(question: str) -> bool:
    """Return whether the user says yes."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201 - a question to the user
    return sys.stdin.readline().strip().lower() in ("y", "yes")
