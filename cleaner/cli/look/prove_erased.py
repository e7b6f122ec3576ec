"""The command ``prove-erased``: it shows that keys are in no file of the log dirs, or where they are and until when."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner import __version__
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import check_globs
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.record_keys import OPERAND, add_key_arguments, given_keys
from cleaner.cli.showing import show
from cleaner.cli.values import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cleaner.engine.prove_erased.places import FilePlace
    from cleaner.engine.prove_erased.proving import ErasureProof

HELP: Final = "show that keys are gone, or where they are, until when"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``prove-erased``."""
    parser.usage = f"%(prog)s [{OPERAND} ...] [--keys FILE] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.DAMAGED, ExitStatus.NOT_YET,
        ExitStatus.WORK_TO_DO,
        also={
            ExitStatus.DONE: "no key is left: every file was read and decoded",
            ExitStatus.FAILED: "no key was found, but a file or a log dir could not be read",
            ExitStatus.DAMAGED: "no key was found, but a part of a file could not be decoded",
            ExitStatus.WORK_TO_DO: "a key is still there; the report says where and until when",
        },
    )  # fmt: skip
    add_key_arguments(parser, "search for")
    parser.add_argument(
        "--now", type=moment, metavar="TIME", help="tell dates as of this time: epoch ms, ISO 8601, +7d"
    )
    add_log_dir_arguments(parser, with_tier=True)
    parser.set_defaults(tier_apart=True)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.erasure/1")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Search every file, and show the proof."""
    from storage.kernels import check_usable

    given = given_keys(args)
    check_usable()
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.inventory import lost_since_the_copy
    from cleaner.engine.means import Silent
    from cleaner.engine.prove_erased.places import may_be_named
    from cleaner.engine.prove_erased.proving import HolderPlans, KeySearch, list_places, prove
    from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
    from cleaner.report.prove_erased import ErasureReport
    from storage.log_dir import LogDir
    from storage.names import is_named

    encoding, globs = KeyEncoding(args.encoding), tuple(args.topic)
    keys = wanted_keys(given, encoding)
    args.topic = []  # a topic that was deleted may be left in a -delete directory alone
    opened = open_cleaner(args, Silent())
    clock_ms = SystemClock().now_ms()
    now_ms = args.now(clock_ms) if args.now else clock_ms
    log_dirs = tuple(dict.fromkeys(path.resolve() for path in opened.loaded.log_dirs))
    if args.tier is not None:
        from storage.tiers.view import segments_of

        log_dirs = (*(path for path in log_dirs if path != args.view), segments_of(args.view))
    question = KeySearch(keys, encoding, log_dirs, globs)
    wants = (lambda directory: may_be_named(directory, globs)) if globs else None
    _check_globs(globs, log_dirs, list_places(log_dirs, None).values())
    with ProgressBar("searching") as bar:
        bar.expect(
            sum(place.size_bytes for place in list_places(log_dirs, wants).values() if place.content == "records")
        )
        survey = HolderPlans(opened.cleaner.plan, opened.loaded.configured.layers)
        proof = prove(now_ms, question, wants, survey, bar.advance)
    if args.tier is not None:
        from cleaner.engine.prove_erased.proving import under_names_in_tier
        from storage.tiers.view import view_at

        view = view_at(args.view)
        assert view is not None
        proof, args.view = under_names_in_tier(proof, view), None
    show(ErasureReport(proof, __version__), as_json=args.json, every_segment=args.verbose > 0, pager=args.pager)
    wanted = partial(is_named, globs=globs)
    lost = [error for path in log_dirs if (error := lost_since_the_copy(LogDir(path), wanted))]
    for line in (*opened.missing, *lost, *(evidence.error for evidence in proof.unread)):
        complain(str(line))
    return _status(proof, is_whole=not (opened.missing or lost))


def _check_globs(globs: Sequence[str], log_dirs: Sequence[Path], places: Iterable[FilePlace]) -> None:
    """Refuse each glob that names no partition, also counting names that Kafka may have cut."""
    from cleaner.engine.prove_erased.places import may_be_named

    known = {place.topic_partition: place for place in places if place.topic_partition}
    names = {place.path.parent.name for place in known.values()}
    unmatched = [glob for glob in globs if not any(may_be_named(name, (glob,)) for name in names)]
    check_globs(unmatched, known, ", ".join(map(str, log_dirs)))


def _status(proof: ErasureProof, *, is_whole: bool) -> ExitStatus:
    """Return the exit status for the worst finding; a key that is still there is the worst."""
    if proof.holding:
        return ExitStatus.WORK_TO_DO
    if proof.unread or not is_whole or not proof.is_settled:
        return ExitStatus.FAILED
    return ExitStatus.DAMAGED if proof.undecoded else ExitStatus.DONE
