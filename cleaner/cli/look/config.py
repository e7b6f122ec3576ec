"""The command ``config``: it shows the values in force and their sources, explains a key, and checks the files."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import (
    add_log_dirs_operand,
    check_patterns,
    named_topics,
    topics_of,
    warn_of_names,
    warn_of_patterns,
)
from cleaner.cli.opening import add_log_dir_arguments, overridden, read_configuration, reader_of, without_missing
from cleaner.cli.parser import Parser
from cleaner.cli.showing import show
from storage.errors import InvalidConfig, LogCleanerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cleaner.cli.opening import Missing
    from cleaner.config.layers import LoadedLayers
    from cleaner.report.configuration import Read, Scope
    from policies.plan import Plan

HELP = "show the configuration in force, explain a key, check files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``config``."""
    reading = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET)
    parser.epilog = reading
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_show(actions.add_parser("show", help="the values in force, and the place that states each", epilog=reading))
    _add_explain(actions.add_parser("explain", help="every value that is stated for one key", epilog=reading))
    _add_check(
        actions.add_parser(
            "check",
            help="check the files, and tell all problems at once; change nothing",
            epilog=help_on(
                ExitStatus.NOT_YET,
                also={ExitStatus.DONE: "the files are sound", ExitStatus.USAGE: "something is wrong: see stderr"},
            ),
        )
    )
    _add_apply(
        actions.add_parser(
            "apply",
            help="confirm saved limits that let much more go than the limits confirmed last",
            epilog=help_on(
                *(ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.NOT_YET),
                also={ExitStatus.DONE: "confirmed, or nothing waits"},
            ),
        )
    )


def _add_apply(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Confirm the saved limits that the reload guard (reload.guard) holds back, because they let much more go than "
        "the limits confirmed last. They hold from the next run, or the daemon's next round, on. This command deletes "
        "nothing."
    )
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser, with_topics=False)
    parser.add_argument("-n", "--dry-run", action="store_true", help="only show what waits, and what it lets go")
    parser.set_defaults(topic=[])


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the values in force: those of the broker, or with --topic those of topics."
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="show also the keys with Kafka's default, as kafka-configs --describe --all"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.config/1")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show every value that is stated for a key, the strongest first, and what the key does."
    parser.usage = "%(prog)s KEY [--topic TOPIC] [options]"
    _takes_topics_by_option(parser)
    parser.add_argument("key", metavar="KEY", help="a key of Kafka or of logcleaner, e.g. retention.ms")
    add_log_dir_arguments(parser, with_topics=False)
    parser.add_argument("--topic", metavar="TOPIC", help="show what holds for this topic")
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.config/1")


def _takes_topics_by_option(parser: argparse.ArgumentParser) -> None:
    if isinstance(parser, Parser):
        parser.for_several = "a topic is named by --topic"


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check --config, --set, and the server.properties that --config or --server-properties names. With --log-dir, "
        "also check that these agree with the cluster metadata there, and that each [topics] pattern matches a topic. "
        "Without --log-dir, warn if a pattern matches no topic in log.dirs, if these directories are here."
    )
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser, with_topics=False)


def run(args: argparse.Namespace) -> int:
    """Show, explain, check or apply."""
    return {"show": _show, "explain": _explain, "check": _check, "apply": _apply}[args.action](args)


def _show(args: argparse.Namespace) -> int:
    from cleaner.report.configuration import ConfigurationReport

    loaded, missing = _load(args)
    topics = named_topics(loaded, args.topic) if args.topic else [None]
    scopes = _scopes(loaded, topics)
    differing = 0 if args.topic else len(loaded.layers.of_their_own(topics_of(loaded) or ()))
    report = ConfigurationReport(scopes, _read(loaded), every_key=args.all, differing_topics=differing)
    show(report, as_json=args.json, pager=args.pager)
    warn_of_names(loaded)
    return _tell(loaded, missing)


def _explain(args: argparse.Namespace) -> int:
    from cleaner.report.configuration import KeyReport
    from policies.config.config_keys import TOPIC_KEY
    from policies.config.config_layers import key_of
    from policies.config.key_descriptions import SETTINGS

    if args.key in SETTINGS:
        raise InvalidConfig(args.key, None, f"is no key of Kafka, but a setting of the file: {SETTINGS[args.key]}")
    key = key_of(args.key)
    if args.topic and key not in TOPIC_KEY:
        raise InvalidConfig(args.key, None, "holds for all topics alike; leave --topic out")
    loaded, missing = _load(args)
    if args.topic:
        topics = named_topics(loaded, [args.topic])
        if len(topics) > 1:
            raise InvalidConfig("--topic", args.topic, f"names {len(topics)} topics; name one: {', '.join(topics[:3])}")
        (scope,) = _scopes(loaded, topics, key)
        report = KeyReport(scope, _read(loaded))
    else:
        (scope,) = _scopes(loaded, [None], key)
        known = topics_of(loaded) if key in TOPIC_KEY else None
        report = KeyReport(scope, _read(loaded), loaded.layers.differing(key, known or ()))
    show(report, as_json=args.json, pager=args.pager)
    return _tell(loaded, missing)


def _check(args: argparse.Namespace) -> int:
    from cleaner.config.checking import check_files, ignored_of, slips
    from cleaner.pages.writing import check_drawable

    if not (args.config or args.server_properties or args.set_options):
        raise InvalidConfig("config check", None, "has nothing to check; add --config FILE or --server-properties FILE")
    settings, layers = check_files(args.config, lambda read: overridden(read, args), args.set_options, args.inputs)
    if settings.report_html is not None:  # run refuses to start without it
        check_drawable("report.html", settings.report_html)
    warnings = [*ignored_of(settings, args.inputs), *slips(layers)]
    for sentence in warnings:
        complain(sentence)
    found = [str(path) for path in (settings.path, settings.server_properties) if path]
    words = ""
    if args.log_dir:
        loaded, _ = _load(args)
        _warn_of_another_broker(loaded)
        check_patterns(loaded)
        found = [*_files(loaded), *(f"the topics of {path}" for path in loaded.log_dirs)]
    elif settings.topics:
        words = _compared(args)
    told = "nothing that a run would refuse" if warnings else "no problem"
    sys.stdout.write(f"{told} found in {', '.join(found) or '--set'}{words}\n")
    return ExitStatus.DONE


def _compared(args: argparse.Namespace) -> str:
    """Warn of ``[topics]`` without a topic, if the log dirs of the configuration are here. Return what was compared."""
    try:
        loaded, missing = _load(args)
    except (LogCleanerError, OSError):
        missing, loaded = [], None
    if loaded is None or missing or not loaded.log_dirs:
        return "; [topics] is not compared with any topics, because the log dirs are not here: name one by --log-dir"
    warn_of_patterns(loaded)
    return f"; [topics] is compared with the topics of {', '.join(map(str, loaded.log_dirs))}"


def _apply(args: argparse.Namespace) -> int:
    from cleaner.cli.opening import open_cleaner
    from cleaner.cli.waiting import Waiting
    from cleaner.engine.clock import SystemClock
    from cleaner.events import EventLog, format_of
    from policies.plan import Request

    listener = EventLog(args.verbose, format_of(args.log_format))
    cleaner, loaded, missing = open_cleaner(args, listener, patience=Waiting())
    if (name := loaded.configured.name) is None:
        raise InvalidConfig(
            "config apply", None, "has nothing to confirm; add --config FILE or --server-properties FILE"
        )
    request = Request(SystemClock().now_ms())
    would_go = cleaner.plan(replace(request, confirmed=True))
    plan, errors = cleaner.would_confirm(request) if args.dry_run else cleaner.confirm_limits(request)
    for line in _waiting(plan, would_go):
        sys.stdout.write(f"{line}\n")
    if args.dry_run or not errors:
        what = "" if not plan.waits else ", and nothing is confirmed yet" if args.dry_run else ", and is confirmed"
        sys.stdout.write(f"{name}: {f'this waits{what}' if plan.waits else 'nothing waits'}\n")
    for error in errors:
        complain(error)
    return _tell(loaded, missing) or (ExitStatus.FAILED if errors else ExitStatus.DONE)


def _waiting(plan: Plan, would_go: Plan) -> Iterator[str]:
    """Yield a line for each saved limit that waits, and for each partition that would lose segments by a limit.

    ``would_go``: a plan by the saved limits.
    """
    from policies.reasons import ReasonCode, counted, size

    for guard in plan.guards:
        if guard.startswith(ReasonCode.RELOAD_GUARD):
            yield guard.partition(": ")[2]
    held = {p.key: p for p in plan.partitions if p.waiting or p.facts.log_dir in plan.waits}
    for then in (p for p in would_go.partitions if p.key in held and p.deletion):
        now, segments = held[then.key].deletion, then.deletion.segments if then.deletion else ()
        if more := segments[len(now.segments) if now else 0 :]:
            bytes_ = size(sum(segment.size_bytes + segment.companions_bytes for segment in more))
            yield f"{then.facts.topic_partition}: {counted(len(more), 'segment')} more to be deleted, {bytes_}"


def _load(args: argparse.Namespace) -> tuple[LoadedLayers, list[Missing]]:
    """Read the configuration; it may name no log dir, because a key can be explained without one."""
    loaded = read_configuration(reader_of(args), args, log_dirs_needed=False)
    return without_missing(loaded, args.log_dir) if loaded.log_dirs else (loaded, [])


def _scopes(loaded: LoadedLayers, topics: Sequence[str | None], key: str | None = None) -> list[Scope]:
    """Return the values of each topic, or of the broker, for one key or for all keys."""
    from cleaner.report.configuration import Scope
    from policies.config.config_keys import BROKER_KEY, TOPIC_KEY

    layers, compacted = loaded.layers, _compacted_before(loaded)
    scopes = []
    for topic in topics:
        keys: Iterable[str] = (key,) if key else TOPIC_KEY if topic else (*TOPIC_KEY, *BROKER_KEY)
        policy = layers.policy_for(topic, compacted_before=topic in compacted) if topic else None
        explanations = tuple(layers.explain(name, topic) for name in keys)
        unread = {} if key else layers.unread.get(topic, {})
        scopes.append(Scope(topic, explanations, policy.unknown_because if policy else None, unread))
    return scopes


def _compacted_before(loaded: LoadedLayers) -> set[str]:
    """Return the topics that a cleaner has compacted before, by the checkpoints of the log dirs."""
    from storage.log_dir import LogDir
    from storage.names import CLEANER_OFFSET_CHECKPOINT

    return {found.topic for path in loaded.log_dirs for found in LogDir(path).offsets(CLEANER_OFFSET_CHECKPOINT)}


def _read(loaded: LoadedLayers) -> Read:
    from cleaner.report.configuration import Read

    return Read(_files(loaded), list(map(str, loaded.log_dirs)))


def _files(loaded: LoadedLayers) -> list[str]:
    """Return the paths of all that was read."""
    cluster = [str(loaded.cluster.directory)] if loaded.cluster else []
    return [*map(str, loaded.files), *cluster]


def _warn_of_another_broker(loaded: LoadedLayers) -> None:
    """Warn if the configuration may be another broker's. A run would not act on it without ``--yes``."""
    from policies.guards import config_guard

    for path, facts in loaded.facts.items():
        if reason := config_guard(facts):
            complain(f"{reason.code}: {path}: {reason.text}; a run that changes the log dir needs --yes")


def _tell(loaded: LoadedLayers, missing: Sequence[Missing]) -> int:
    _warn_of_another_broker(loaded)
    for error in missing:
        complain(str(error))
    return ExitStatus.FAILED if missing else ExitStatus.DONE
