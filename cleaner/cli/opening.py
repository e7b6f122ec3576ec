"""What every command on log dirs takes, and how it opens them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cleaner.cli.exit_status import complain
from cleaner.cli.missing import without_missing
from storage.errors import InvalidConfig, NotALogDir, UnreadableFile
from storage.names import parse_topic_partition

if TYPE_CHECKING:
    from cleaner.cli.missing import Missing
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.compactor import Compactor
    from cleaner.engine.inventory import Wanted
    from cleaner.engine.outcome import Listener
    from cleaner.service.layers import LoadedLayers, Settings
    from storage.log_dir import LogDir
    from storage.names import TopicPartition


class Opened(NamedTuple):
    """What a command works with."""

    cleaner: Cleaner
    settings: Settings
    missing: tuple[Missing, ...]
    """What is wrong with log dirs that are left out."""


def add_log_dir_arguments(parser: argparse.ArgumentParser) -> None:
    """Which log dirs, and under which configuration."""
    group = parser.add_argument_group("log dirs and configuration")
    _add_places(group)
    _add_topics(group)
    _add_broker(group)


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    """As ``add_log_dir_arguments``, for a command that serves all topics."""
    group = parser.add_argument_group("log dirs and configuration")
    _add_places(group)
    _add_broker(group)


def _add_broker(group: argparse._ArgumentGroup) -> None:
    broker = group.add_mutually_exclusive_group()
    broker.add_argument("--server-properties", type=Path, metavar="FILE", help="the broker's own server.properties")
    broker.add_argument(
        "--kafka-defaults",
        action="store_true",
        help="the broker runs on Kafka's own defaults: retention.ms is 7 days",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="set_options",
        help="one value over all others, e.g. --set retention.ms=3d",
    )


def add_place_arguments(parser: argparse.ArgumentParser, *, with_topics: bool = True) -> None:
    """Which log dirs, for a command that asks no policy; ``with_topics``: and which topics of them."""
    group = parser.add_argument_group("log dirs")
    _add_places(group)
    if with_topics:
        _add_topics(group)
    parser.set_defaults(server_properties=None, kafka_defaults=False, set_options=[])


def _add_places(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--log-dir",
        action="extend",
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="a directory of the broker's log.dirs; in place of those configured",
    )
    group.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML, Kafka's keys)")


def _add_topics(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--topic",
        action="extend",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="only topics or partitions of these names",
    )


def open_cleaner(
    args: argparse.Namespace,
    listener: Listener,
    *,
    threads: int = 1,
    compactor: Compactor | None = None,
    one_log_dir_for: str | None = None,
) -> Opened:
    """Read the configuration and open the log dirs.

    Args:
        args: of ``add_log_dir_arguments``.
        listener: hears events and progress.
        threads: that one compaction may use.
        compactor: carries the compactions out; by default this process.
        one_log_dir_for: an option that goes with a single log dir only.

    Raises:
        InvalidConfig, InvalidConfigs: of the configuration, or no log dir was named.
        NotALogDir, LogDirNotThere, UnreadableFile: of a log dir; one of several may be missing.
    """
    from cleaner.engine.cleaner import Cleaner  # noqa: PLC0415 - not for --help
    from cleaner.service.trust import tell_world_writable  # noqa: PLC0415 - not for --help

    loaded, missing = without_missing(load(args), args.log_dir)
    if one_log_dir_for and len(loaded.log_dirs) > 1:
        raise InvalidConfig(
            one_log_dir_for, None, "goes with one log dir: name it with --log-dir, and run once for each"
        )
    force_lock = getattr(args, "force_lock", False)  # of commands that take a lock
    tell_world_writable((*loaded.log_dirs, *loaded.files), listener)
    cleaner = Cleaner(
        loaded.log_dirs,
        loaded.layers,
        listener=listener,
        threads=threads,
        force_lock=force_lock,
        compactor=compactor,
    )
    return Opened(cleaner, loaded.settings, tuple(missing))


def open_log_dirs(args: argparse.Namespace) -> list[LogDir]:
    """Open the log dirs alone: what a metadata log says, or that it is damaged, does not matter.

    Raises: as ``open_cleaner``.
    """
    from storage.log_dir import LogDir  # noqa: PLC0415 - not for --help

    loaded = load(args, with_cluster_metadata=False)
    try:
        loaded, missing = without_missing(loaded, args.log_dir)
        for found in missing:
            complain(str(found))
        return [LogDir.open(path) for path in loaded.log_dirs]
    except NotALogDir as error:
        if parse_topic_partition(str(error.path)) and not error.path.exists():
            reason = "is taken for a directory; a TOPIC-PARTITION goes before the options"
            raise InvalidConfig("--log-dir", str(error.path), reason) from error
        raise


def load(args: argparse.Namespace, *, with_cluster_metadata: bool = True) -> LoadedLayers:
    """Read the configuration. Raises: InvalidConfig where no log dir is named; as ``load_layers``."""
    from cleaner.service.layers import load_layers  # noqa: PLC0415 - not for --help

    try:
        settings = _settings(args)
        settings = replace(settings, cluster_metadata=settings.cluster_metadata and with_cluster_metadata)
        loaded = load_layers(settings, args.log_dir, args.set_options)
    except UnreadableFile as error:
        if error.path in (args.config, args.server_properties):
            raise InvalidConfig("--config" if error.path == args.config else "--server-properties",
                                str(error.path), f"cannot be read: {error.cause}") from error  # fmt: skip
        raise
    except PermissionError as error:  # a log dir that lets nobody but the broker look for the cluster metadata
        from storage.log_dir import forbidden  # noqa: PLC0415 - not for --help

        raise forbidden(Path(error.filename).parent, error) from error
    if not loaded.log_dirs:
        raise InvalidConfig("log.dirs", None, "no log dir is named; say --log-dir DIR, or --config FILE with log.dirs")
    return loaded


def _settings(args: argparse.Namespace) -> Settings:
    """The configuration file, and what the command line says in its place."""
    from cleaner.service.layers import Settings  # noqa: PLC0415 - not for --help

    settings = Settings()
    if args.config:
        from cleaner.service.settings import read_settings  # noqa: PLC0415 - pydantic, only where a file is read

        settings = read_settings(args.config)
    return replace(
        settings,
        server_properties=args.server_properties or settings.server_properties,
        kafka_defaults=args.kafka_defaults or settings.kafka_defaults,
    )


def wanted_partitions(args: argparse.Namespace) -> Wanted:
    """The one that is named, else those that ``--topic`` names, else all."""
    from cleaner.engine.inventory import is_named  # noqa: PLC0415 - not for --help

    one: TopicPartition | None = args.topic_partition
    return lambda topic_partition: is_named(topic_partition, args.topic) and one in (None, topic_partition)
