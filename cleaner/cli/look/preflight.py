"""The command ``preflight``: it tells what the next start of Kafka will do to the log dirs, and changes nothing."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, help_on
from cleaner.cli.naming import add_log_dirs_operand
from cleaner.cli.opening import add_log_dir_arguments, load
from cleaner.cli.showing import show
from policies.preflight.facts import NEWEST, Release
from storage.errors import LogCleanerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cleaner.config.layers import LoadedLayers
    from cleaner.engine.preflight.preflight import Node, StartNeed
    from policies.preflight.start import Start

HELP: Final = "tell what the next start of Kafka will do or refuse"
_OLDEST: Final = (2, 8)
_SERIES: Final = {"2.x": "2.8", "3.x": "3.9", "4.x": str(NEWEST)}
"""The newest version of each series."""
_LOOKS_MAX: Final = 3
"""How often preflight looks, at most, before it reports a harm beside a running broker: one look may see a batch that
is half written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``preflight``."""
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.DAMAGED, ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "Kafka will start with every log dir and every partition, and will lose no records",
            ExitStatus.LOCKED: "another process holds a log dir; nothing else is wrong",
            ExitStatus.DAMAGED: "Kafka will refuse, take a log dir offline, find no space, or lose or hide records",
        },
    )  # fmt: skip
    add_log_dirs_operand(parser)
    parser.add_argument(
        "--kafka",
        type=release_of,
        default=NEWEST,
        metavar="VERSION",
        help=f"the version that will start, 2.8 to {NEWEST}; 3.x and 4.x mean the newest one (default: {NEWEST})",
    )
    add_log_dir_arguments(parser, with_topics=False)
    parser.set_defaults(topic=[])
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.preflight/1")


def release_of(text: str) -> Release:
    """Return the version of Kafka that a text names. Raises: ArgumentTypeError."""
    parts = _SERIES.get(text, text).split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no version; say for example {NEWEST}")
    release = Release(int(parts[0]), int(parts[1]))
    if not _OLDEST <= release < (5, 0):
        raise argparse.ArgumentTypeError(
            f"Kafka {release} is not known; 2.8, 3.0 to 3.9 and 4.0 or newer are, and 3.x and 4.x"
        )
    return release


def run(args: argparse.Namespace) -> int:
    """Read the log dirs, predict, and show the prediction."""
    from cleaner.engine.preflight.preflight import need_of, predict_start
    from cleaner.report.preflight import PreflightReport

    loaded = load(args, with_cluster_metadata=False)
    _check_dirs(loaded.log_dirs)
    node = node_of(loaded, args.kafka, named=bool(args.log_dir))
    for _ in range(_LOOKS_MAX):
        start = predict_start(loaded.log_dirs, node)
        if not (start.is_stopped_by_locks_alone and start.does_harm):
            break
    needs = [need_of(log_dir, node.interval_bytes) for log_dir in start.log_dirs]
    show(PreflightReport(start, needs), as_json=args.json, every_segment=args.verbose > 0, pager=args.pager)
    return _status(start, needs)


def node_of(loaded: LoadedLayers, release: Release, *, named: bool) -> Node:
    """Return the broker whose start is predicted.

    Args:
        loaded: the configuration.
        release: of its Kafka.
        named: whether the command line names the log dirs.
    """
    from cleaner.engine.preflight.preflight import Node

    return Node(
        release,
        _node_id(loaded),
        _metadata_dir(loaded, named=named),
        intervals=lambda topic: loaded.layers.policy_for(topic).index_interval_bytes,
        cleans=loaded.layers.broker_policy().log_cleaner_enable,
    )


def _check_dirs(log_dirs: Sequence[Path]) -> None:
    """Refuse a path that is no log dir. A log dir that is missing or shut is part of the prediction, unless all are."""
    from storage.log_dir import IsAPartitionDir, LogDir

    is_any_there = any(os.access(path, os.R_OK | os.X_OK) and path.is_dir() for path in log_dirs)
    for path in log_dirs:
        try:
            LogDir.open(path)
        except IsAPartitionDir:
            raise
        except LogCleanerError:
            if not is_any_there:
                raise


def _node_id(loaded: LoadedLayers) -> int | None:
    """Return the node id that server.properties states; None if none does."""
    from storage.properties import parse_properties

    path = loaded.settings.server_properties
    if path is None:
        return None
    found = parse_properties(loaded.contents[path], str(path))
    for key in ("node.id", "broker.id"):
        if key in found and found[key].value.strip().lstrip("-").isdigit():
            return int(found[key].value)
    return None


def _metadata_dir(loaded: LoadedLayers, *, named: bool) -> Path | None:
    """Return the log dir of the metadata log as the configuration states it: Kafka takes the first of log.dirs."""
    from storage.directory import followed

    stated = loaded.layers.broker_policy().metadata_log_dir
    if stated is not None:
        from pathlib import Path

        return followed(Path(stated))
    return None if named else loaded.log_dirs[0]


def _status(start: Start, needs: Sequence[StartNeed]) -> ExitStatus:
    if any(need.lacks_space for need in needs):
        return ExitStatus.DAMAGED
    if start.does_harm:
        return ExitStatus.DAMAGED
    if start.is_stopped_by_locks_alone:
        return ExitStatus.LOCKED
    return ExitStatus.DAMAGED if start.refusals else ExitStatus.DONE
