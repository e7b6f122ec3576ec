"""The options of every command on log dirs, and how a command opens the log dirs.

A log dir that cannot be served now is reported and left out: a disk that died, or is not mounted, must not stop the
others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cleaner.cli.exit_status import complain
from cleaner.cli.naming import OPERAND, check_partition, check_topics, place, warn_of_names, warn_of_symlinks
from cleaner.engine.means import Listener
from cleaner.events import Event
from storage.directory import world_writable_mode
from storage.errors import InvalidConfig, UnreadableFile
from storage.names import parse_segment_file_name, parse_topic_partition

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers, Settings
    from cleaner.config.reader import ConfigurationReader
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.compactor import Compactor
    from cleaner.engine.inventory import Wanted
    from cleaner.engine.locks import Patience
    from storage.log_dir import LogDir, LogDirNotThere
    from storage.names import TopicPartition
    from storage.scan.partitions import FoundPartition

Missing: TypeAlias = "LogDirNotThere | UnreadableFile"


class Opened(NamedTuple):
    """The cleaner and the configuration with which a command works."""

    cleaner: Cleaner
    loaded: LoadedLayers
    """The configuration from the first reading; a run that takes locks reads it again."""
    missing: tuple[Missing, ...]
    """An error for each log dir that the command leaves out."""


def add_log_dir_arguments(
    parser: argparse.ArgumentParser, *, with_topics: bool = True, with_tier: bool = False
) -> None:
    """Add the options that name log dirs and the configuration; also ``--topic``, and those of a tier, if asked to."""
    group = parser.add_argument_group("log dirs and configuration")
    _add_places(group)
    if with_tier:
        _add_tier(group)
    if with_topics:
        add_topics_argument(group)
    _add_broker(group)


def add_place_arguments(parser: argparse.ArgumentParser, *, with_topics: bool = True, with_tier: bool = False) -> None:
    """Add the options that name log dirs; also ``--topic``, and those of a tier, if asked to."""
    group = parser.add_argument_group("log dirs")
    _add_places(group)
    if with_tier:
        _add_tier(group)
    if with_topics:
        add_topics_argument(group)
    parser.set_defaults(server_properties=None, kafka_defaults=False, set_options=[])


def add_topics_argument(group: argparse._ActionsContainer) -> None:
    """Add the option ``--topic``."""
    group.add_argument(
        "--topic",
        action="extend",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="take only what these globs match: topics (clicks) or partitions (clicks-0, 'clicks-*')",
    )


def open_cleaner(
    args: argparse.Namespace,
    listener: Listener,
    *,
    threads: int = 1,
    compactor: Compactor | None = None,
    one_log_dir_for: str | None = None,
    patience: Patience | None = None,
    with_cluster_metadata: bool = True,
) -> Opened:
    """Read the configuration and open the log dirs.

    Args:
        args: options that ``add_log_dir_arguments`` added.
        listener: receives events and progress.
        threads: number of threads that one compaction may use.
        compactor: carries out the compactions; by default this process does.
        one_log_dir_for: an option that needs exactly one log dir.
        patience: waits for a lock that another process holds.
        with_cluster_metadata: read the cluster metadata, too, which may be damaged.

    Raises:
        InvalidConfig, InvalidConfigs: the configuration is wrong, names no log dir, or a ``--topic`` matches nothing.
        NotALogDir, LogDirNotThere, UnreadableFile: a log dir cannot be used; one of several may be missing.
    """
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.locks import OwnLocks
    from cleaner.engine.means import Means
    from storage.log_dir import LogDir

    reader = reader_of(args, with_cluster_metadata=with_cluster_metadata)

    def read() -> tuple[LoadedLayers, list[Missing]]:
        loaded, missing = without_missing(read_configuration(reader, args), args.log_dir)
        if one_log_dir_for and len(loaded.log_dirs) > 1:
            raise InvalidConfig(
                one_log_dir_for, None, "needs exactly one log dir: name it with --log-dir, and run once for each"
            )
        check_topics(args.topic, [LogDir(path) for path in loaded.log_dirs])
        return loaded, missing

    loaded, missing = read()
    tell_world_writable((*loaded.log_dirs, *loaded.files), listener)
    cleaner = Cleaner(
        loaded.configured,
        Means(listener=listener, threads=threads),
        locks=OwnLocks(forced=getattr(args, "force_lock", False), patience=patience),  # commands that take a lock
        compactor=compactor,
        read_again=lambda: read()[0].configured,
    )
    warn_of_names(loaded)
    warn_of_symlinks([LogDir(path) for path in loaded.log_dirs])
    return Opened(cleaner, loaded, tuple(missing))


def open_log_dirs(args: argparse.Namespace) -> list[LogDir]:
    """Open the log dirs without reading the cluster metadata, which may be damaged.

    Raises: as ``open_cleaner``.
    """
    from storage.log_dir import IsAPartitionDir, LogDir

    loaded = load(args, with_cluster_metadata=False)
    try:
        loaded, missing = without_missing(loaded, args.log_dir)
        for found in missing:
            complain(str(found))
        log_dirs = [LogDir.open(path) for path in loaded.log_dirs]
    except IsAPartitionDir as error:
        reason = f"is a partition directory; use its parent, --log-dir {error.path.parent}, with {error.path.name}"
        raise InvalidConfig("--log-dir", str(error.path), reason) from error
    else:
        return log_dirs


def one_partition(args: argparse.Namespace) -> FoundPartition:
    """Find the partition that a command names.

    Raises: InvalidConfig if no log dir has it, or more than one; CopyLacksFiles if a copy lost segments of it.
    """
    from cleaner.engine.inventory import ensure_whole_copy
    from storage.names import LOG_START_OFFSET_CHECKPOINT
    from storage.scan.partitions import FoundPartition

    wanted = args.topic_partition
    log_dirs = open_log_dirs(args)
    here = [(log_dir, *found) for log_dir in log_dirs for found in log_dir.partitions()]
    check_partition(wanted, (name for _, name, _ in here), log_dirs)
    warn_of_symlinks(log_dirs)
    found = [(log_dir, directory) for log_dir, name, directory in here if name == wanted]
    if len(found) > 1:
        both = " and ".join(str(log_dir.path) for log_dir, _ in found)
        raise InvalidConfig(OPERAND, str(wanted), f"lies in {both} (replicas?); name one with --log-dir")
    ((log_dir, directory),) = found
    ensure_whole_copy(log_dir, wanted.__eq__)
    return FoundPartition(wanted, directory, log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(wanted, 0))


def target_of(named: Path | None, log_dirs: Sequence[LogDir]) -> LogDir:
    """Return the log dir that ``--to-dir`` names, of those of the run. Raises: InvalidConfig."""
    if named is None:
        if len(log_dirs) > 1:
            paths = ", ".join(str(log_dir.path) for log_dir in log_dirs)
            raise InvalidConfig("--to-dir", None, f"say which log dir gets the partition: {paths}")
        return log_dirs[0]
    wanted = named.resolve()
    for log_dir in log_dirs:
        if log_dir.path == wanted:
            return log_dir
    raise InvalidConfig("--to-dir", str(named), "is none of the log dirs that are named or configured")


def load(args: argparse.Namespace, *, with_cluster_metadata: bool = True) -> LoadedLayers:
    """Read the configuration once.

    Raises: InvalidConfig if no log dir is named; as ``ConfigurationReader.read``.
    """
    return read_configuration(reader_of(args, with_cluster_metadata=with_cluster_metadata), args)


def reader_of(
    args: argparse.Namespace, *, with_cluster_metadata: bool = True, keeps_settings: bool = False
) -> ConfigurationReader:
    """Return a reader that reads, at each call, the configuration that the options name.

    Args:
        args: options that ``add_log_dir_arguments`` added.
        with_cluster_metadata: read the cluster metadata, too.
        keeps_settings: as for ``ConfigurationReader``.
    """
    from cleaner.config.reader import ConfigurationReader

    def read_settings() -> Settings:
        settings = _settings(args)
        return replace(settings, cluster_metadata=settings.cluster_metadata and with_cluster_metadata)

    return ConfigurationReader(
        read_settings, args.log_dir, args.set_options, inputs=args.inputs, keeps_settings=keeps_settings
    )


def read_configuration(
    reader: ConfigurationReader, args: argparse.Namespace, *, log_dirs_needed: bool = True
) -> LoadedLayers:
    """Read the configuration. If a file cannot be read, name its option in the error.

    Raises: InvalidConfig if a log dir is needed and none is named; as ``ConfigurationReader.read``.
    """
    try:
        loaded = reader.read()
    except UnreadableFile as error:
        if error.path in (args.config, args.server_properties):
            raise InvalidConfig("--config" if error.path == args.config else "--server-properties",
                                str(error.path), f"cannot be read: {error.cause}") from error  # fmt: skip
        raise
    except PermissionError as error:  # only the broker may look for the cluster metadata in the log dir
        from storage.log_dir import forbidden

        raise forbidden(Path(error.filename).parent, error) from error
    if getattr(args, "tier", None) is not None:
        return _joined(loaded, args)
    if log_dirs_needed and not loaded.log_dirs:
        raise InvalidConfig("log.dirs", None, f"no log dir is named; {_perhaps_named(args)}")
    return loaded


def _joined(loaded: LoadedLayers, args: argparse.Namespace) -> LoadedLayers:
    """Return the configuration for the log dir that shows a tier and log dirs as one. Raises: as ``LogDir.open``."""
    from policies.facts import ConfigFacts
    from storage.log_dir import LogDir
    from storage.tiers.view import view_at, view_of

    log_dirs = [LogDir.open(path).path for path in loaded.log_dirs]
    is_cleaned = getattr(args, "tier_cleaned", False)
    args.view = view_of(args.tier, log_dirs, args.tier_key, restored=args.topic if is_cleaned else None)
    if log_dirs and getattr(args, "tier_apart", False):
        return loaded
    if is_cleaned and (view := view_at(args.view)):
        loaded = loaded._replace(layers=replace(loaded.layers, tiered=frozenset(name.topic for name in view.tiered())))
    facts = next((loaded.facts[path] for path in log_dirs if path in loaded.facts), ConfigFacts())
    return loaded._replace(log_dirs=(args.view,), facts={args.view: facts}, unread={})


def tell_left_out(args: argparse.Namespace) -> bool:
    """Name the segments of a tier that a command could not read. Return whether there are any."""
    from storage.tiers.view import view_at

    view = getattr(args, "view", None)
    found = view_at(view) if view is not None else None
    for problem in found.problems if found else ():
        complain(problem)
    return found is not None and bool(found.problems)


def overridden(settings: Settings, args: argparse.Namespace) -> Settings:
    """Return the settings of a file, overridden by the options of the command line."""
    return replace(
        settings,
        server_properties=args.server_properties or settings.server_properties,
        names_both=settings.names_both and not args.server_properties,
        kafka_defaults=args.kafka_defaults or settings.kafka_defaults,
    )


def wanted_partitions(args: argparse.Namespace) -> Wanted:
    """Return a predicate for the named partition; if none is named, for the partitions of ``--topic``; without either,
    for all partitions.
    """
    from storage.names import is_named

    one: TopicPartition | None = args.topic_partition
    return lambda topic_partition: is_named(topic_partition, args.topic) and one in (None, topic_partition)


def tell_world_writable(paths: Iterable[Path], listener: Listener) -> None:
    """Log an event for each log dir or configuration file to which any user may write."""
    for path in paths:
        mode = world_writable_mode(path)
        if mode is not None:
            listener.event(Event.WORLD_WRITABLE, path=str(path), mode=f"{mode:04o}")


def find_missing(loaded: LoadedLayers, named: Sequence[Path]) -> list[Missing]:
    """Return an error for each configured log dir that is missing now and that a later try may find.

    Args:
        loaded: the configuration.
        named: log dirs that the command line names; each of them must be there, because a missing one may be a typo.

    Raises:
        NotALogDir: a path can never be a log dir.
        LogDirNotThere, UnreadableFile: the first missing log dir, if it is named, or if none can be served.
        InvalidConfig: ``--log-dir`` took a word that the user meant as an operand.
    """
    from storage.log_dir import LogDir, LogDirNotThere

    missing: list[Missing] = []
    for path in loaded.log_dirs:
        try:
            LogDir.open(path)
        except (LogDirNotThere, UnreadableFile) as error:
            missing.append(error)
        else:
            missing += filter(None, [loaded.unread.get(path)])
    for one in missing:
        if one.path in named and isinstance(one, LogDirNotThere) and _is_operand(one.path):
            reason = "is read as a directory; a TOPIC-PARTITION or a SEGMENT goes before the options"
            raise InvalidConfig("--log-dir", str(one.path), reason) from one
    if missing and (named or len(missing) == len(loaded.log_dirs)):
        raise _all_named(missing)
    return missing


def without_missing(loaded: LoadedLayers, named: Sequence[Path]) -> tuple[LoadedLayers, list[Missing]]:
    """Return the configuration for the log dirs that are there, and an error for each other log dir.

    Arguments: as for ``find_missing``. Raises: as ``find_missing`` and ``check_metadata``.
    """
    missing = find_missing(loaded, named)
    check_metadata(loaded, missing)
    gone = {error.path for error in missing}
    return loaded._replace(log_dirs=tuple(path for path in loaded.log_dirs if path not in gone)), missing


def check_metadata(loaded: LoadedLayers, missing: Iterable[Missing], without: Iterable[Path] = ()) -> None:
    """Refuse to go on if a missing log dir may hold the cluster metadata, which state what the topics keep.

    Args:
        loaded: the configuration, as far as it could be read.
        missing: the result of ``find_missing``.
        without: log dirs that held no cluster metadata when they were last there.

    Raises: LogDirNotThere.
    """
    from storage.log_dir import LogDirNotThere

    if loaded.cluster or not loaded.settings.cluster_metadata:
        return
    known = {path.absolute() for path in without}
    for error in missing:
        if error.path.absolute() not in known:
            cause = f"{error.cause}, and the cluster metadata may lie in it (if not, say cluster.metadata = false)"
            raise LogDirNotThere(error.path, cause) from error


def _add_places(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--log-dir",
        action="extend",
        nargs="+",
        type=place,
        default=[],
        metavar="DIR",
        help="directories of the broker's log.dirs; they replace the configured ones. Or URLs of copies, such as "
        "s3://bucket/dir",
    )
    group.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="read this configuration file: TOML with Kafka's keys; its [topics] match topics, not partitions",
    )


def _add_tier(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--tier",
        type=place,
        metavar="URL",
        help="read also the segments that brokers copied to this tier: the directory of LocalTieredStorage, or bucket "
        "and prefix of Aiven's plugin. Log dirs may be left out then",
    )
    add_tier_key_argument(group)


def add_tier_key_argument(group: argparse._ActionsContainer) -> None:
    """Add ``--tier-key``."""
    group.add_argument(
        "--tier-key",
        type=_tier_key,
        action="extend",
        nargs="+",
        default=[],
        metavar="ID=FILE",
        help="private keys (PEM) of an encrypted tier; FILE alone is the key of every id",
    )


def _tier_key(text: str) -> str:
    """Return ``ID=FILE`` or ``FILE`` as it is, if that is a private key. Raises: argparse.ArgumentTypeError."""
    from storage.errors import LogCleanerError
    from storage.tiers.aiven import check_key

    try:
        check_key(text)
    except LogCleanerError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _add_broker(group: argparse._ArgumentGroup) -> None:
    broker = group.add_mutually_exclusive_group()
    broker.add_argument(
        "--server-properties", type=Path, metavar="FILE", help="also read the broker's server.properties"
    )
    broker.add_argument(
        "--kafka-defaults",
        action="store_true",
        help="declare that the broker runs on Kafka's defaults, e.g. retention.ms of 7 days",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="set_options",
        help="set a key over what every file states, e.g. --set retention.ms=3d; topics named __* take no retention.* "
        "from it, and no topic changes between compact and delete by it alone",
    )


def _settings(args: argparse.Namespace) -> Settings:
    """Read the configuration file, and replace the settings that the command line overrides."""
    from cleaner.config.layers import Settings

    settings = Settings()
    if args.config:
        from cleaner.config.settings import read_settings

        settings = read_settings(args.config, args.inputs)
    return overridden(settings, args)


def _perhaps_named(args: argparse.Namespace) -> str:
    """Return advice on how to name a log dir. An option or operand that takes several words may have taken the name."""
    words = [word for dest in ("topic", "sweep", "names", "key") for word in getattr(args, dest, None) or ()]
    taken = next((word for word in words if isinstance(word, str) and Path(word).is_dir()), None)
    return f"say --log-dir {taken}" if taken else "add --log-dir DIR, or --config FILE with log.dirs"


def _all_named(missing: Sequence[Missing]) -> Missing:
    """Return the error of the first missing log dir, which names the other missing ones, too."""
    from storage.log_dir import LogDirNotThere

    first, *others = missing
    if not others or type(first) is not LogDirNotThere:
        return first
    return LogDirNotThere(first.path, f"{first.cause}, nor can {', '.join(str(e.path) for e in others)} be served")


def _is_operand(path: Path) -> bool:
    """Return whether a path that is not there is the name of a partition or of a segment."""
    text = str(path)
    names_one = parse_topic_partition(text) or parse_segment_file_name(text) or (text.isascii() and text.isdigit())
    return bool(names_one) and not path.exists()
