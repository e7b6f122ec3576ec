"""The command ``diff``: it accounts for every record that is gone between two states of a log dir, or compares
replicas.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import OPERAND, check_globs, place, warn_of_symlinks
from cleaner.cli.opening import add_topics_argument
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import show
from cleaner.cli.values import moment
from storage.errors import InvalidConfig, LogCleanerError
from storage.stores.paths import StoredPath

if TYPE_CHECKING:
    from pathlib import Path

    from cleaner.engine.diff.comparing import ComparedDir, RetentionOf
    from cleaner.engine.replicas.agreement import DigestedReplica
    from cleaner.engine.replicas.reading import FoundReplica
    from policies.config.config_layers import ConfigLayers
    from storage.names import TopicPartition

HELP = "compare two states, or replicas: was any record lost?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``diff``."""
    parser.epilog = help_on(
        ExitStatus.DONE,
        ExitStatus.FAILED,
        ExitStatus.USAGE,
        also={
            ExitStatus.FAILED: "a partition failed, or its replicas could not be compared",
            ExitStatus.DAMAGED: (
                "a record is gone, changed or new without a cause; committed records of replicas differ"
            ),
        },
    )
    parser.usage = "logcleaner diff BEFORE AFTER [options] | --replicas DIR|FILE DIR|FILE ... [options]"
    parser.add_argument(
        "before", type=place, nargs="?", metavar="BEFORE", help="the earlier state: a log dir or a partition directory"
    )
    parser.add_argument(
        "after", type=place, nargs="?", metavar="AFTER", help="the later state, or a copy with a manifest"
    )
    parser.add_argument(
        "--replicas",
        type=place,
        nargs="+",
        action="extend",
        default=[],
        metavar="DIR|FILE",
        help="find the first divergence of each partition in the log dirs of several brokers, or in files of digest",
    )
    add_topics_argument(parser)
    parser.add_argument(
        "--now", type=moment, metavar="TIME", help="take this as the time: delete horizons up to it have passed"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="set_options",
        help="delete.retention.ms=VALUE, if no cluster metadata beside AFTER or BEFORE states it",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document, schema logcleaner.diff/1; with --replicas schema logcleaner.replicas/1",
    )
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Compare two states or several replicas, and show the differences."""
    if args.replicas:
        return _compare_replicas(args)
    if args.before is None or args.after is None:
        raise InvalidConfig(OPERAND, None, "name two states, BEFORE and AFTER, or the replicas with --replicas")
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.diff.comparing import ComparedDir, check_alike, compared
    from cleaner.report.differences import DiffReport
    from storage.kernels import check_usable

    clock_ms = SystemClock().now_ms()
    before, after = ComparedDir.open(args.before, args.topic), ComparedDir.open(args.after, args.topic)
    check_alike(before, after)
    _check_named(args.topic, before, after)
    warn_of_symlinks(place.log_dir for place in (before, after) if place.is_whole)
    check_usable()
    files = [*before.damaged_files(), *after.damaged_files()]
    now_ms = args.now(clock_ms) if args.now else clock_ms
    found = list(compared(before, after, now_ms, _retention_ms_of(args.set_options, before, after)))
    report = DiffReport(found, files)
    show(report, as_json=args.json, pager=args.pager)
    return ExitStatus.DAMAGED if report.is_damaged else ExitStatus.DONE


def _compare_replicas(args: argparse.Namespace) -> int:
    """Read the replicas, compare them, and show where they diverge."""
    from cleaner.engine.replicas.reading import FoundReplica, compare_replicas
    from cleaner.report.replicas import ReplicasReport
    from storage.kernels import check_usable

    if args.before is not None or args.now or args.set_options:
        raise InvalidConfig("--replicas", None, "takes log dirs and files of digest alone; put other options first")
    if len(args.replicas) < 2:
        raise InvalidConfig("--replicas", None, "needs the log dirs, or the digests, of two brokers or more")
    if len({path if isinstance(path, StoredPath) else path.resolve() for path in args.replicas}) < len(args.replicas):
        raise InvalidConfig("--replicas", None, "names a place twice; name each broker's log dir or digest once")
    check_usable()
    places = [_replicas_in(path, args.topic) for path in args.replicas]
    for one, other in combinations(zip(args.replicas, places, strict=True), 2):
        if _directory_ids(one[1]) & _directory_ids(other[1]):
            complain(f"{one[0]} and {other[0]} are of one log dir by its directory.id: that they agree proves nothing")
    known = {one.topic_partition for replicas in places for one in replicas}
    if args.topic and not known:
        raise InvalidConfig("--topic", " ".join(args.topic), "matches no partition in any of the places")
    if len(known) == sum(map(len, places)):
        cause = f"no partition lies in two of the places ({len(known)} in one each); name brokers of one cluster"
        raise InvalidConfig("--replicas", None, cause)
    with ProgressBar("comparing") as bar:
        bar.expect(sum(one.size_bytes for replicas in places for one in replicas if isinstance(one, FoundReplica)))
        found = list(compare_replicas(places, bar.advance))
    report = ReplicasReport(found, sorted(map(str, known - {one.topic_partition for one in found})))
    show(report, as_json=args.json, every_segment=args.verbose > 0, pager=args.pager)
    if report.is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.DONE if report.is_whole else ExitStatus.FAILED


def _directory_ids(replicas: Sequence[FoundReplica] | Sequence[DigestedReplica]) -> set[str]:
    return {one.directory_id for one in replicas if one.directory_id is not None}


def _replicas_in(path: Path, topics: Sequence[str]) -> list[FoundReplica] | list[DigestedReplica]:
    """Return the replicas in a log dir, or in the file of a digest. Raises: as ``LogDir.open``; NoDigest."""
    from cleaner.engine.replicas.reading import compacted_by, find_replicas, read_digest
    from storage.directory import is_pipe
    from storage.log_dir import LogDir

    if path.is_file() or is_pipe(path):
        return read_digest(path, topics)
    log_dir = LogDir.open(path)
    warn_of_symlinks([log_dir])
    layers = _layers_of([log_dir.path], (), "cleaner-offset-checkpoint tells which topics are compacted")
    return list(find_replicas(log_dir, topics, compacted_by(layers)))


def _check_named(topics: Sequence[str], before: ComparedDir, after: ComparedDir) -> None:
    if topics:
        known = {found for place in (before, after) for found in place.all_partitions()}
        check_globs(topics, known, "either place", [place.log_dir for place in (before, after)])


def _retention_ms_of(set_options: Sequence[str], before: ComparedDir, after: ComparedDir) -> RetentionOf:
    """Return a function from a partition to its ``delete.retention.ms``: the value of ``--set``, else of the metadata.

    Raises: InvalidConfigs for a wrong ``--set``.
    """
    from policies.config.policy import Layer

    log_dirs = [after.log_dir.path, before.log_dir.path]
    layers = _layers_of(log_dirs, set_options, "--set states delete.retention.ms")

    def retention_ms_of(topic_partition: TopicPartition) -> int | None:
        policy = layers.policy_for(topic_partition.topic)
        is_stated = policy.stated["delete.retention.ms"].layer is not Layer.KAFKA_DEFAULT
        is_known = is_stated or topic_partition.topic in (layers.topic_ids or {})
        return policy.delete_retention_ms if is_known else None

    return retention_ms_of


def _layers_of(log_dirs: Sequence[Path], set_options: Sequence[str], otherwise: str) -> ConfigLayers:
    """Return the configuration. If the cluster metadata cannot be read, go on without, and say what alone tells then.

    Raises: InvalidConfigs for a wrong ``--set``.
    """
    from cleaner.config.layers import Settings
    from cleaner.config.reader import load_layers

    without = load_layers(Settings(cluster_metadata=False), log_dirs, set_options).layers
    try:
        return load_layers(Settings(), log_dirs, set_options).layers
    except LogCleanerError as error:
        complain(f"{error}; so only {otherwise}")
        return without
