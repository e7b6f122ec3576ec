"""The names that a user wrote: log dirs, topics and partitions, by name or by the path of a directory.

An unknown name is an error that names the nearest.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cleaner.cli.exit_status import complain
from cleaner.cli.parser import actions_of, did_you_mean, nearest
from cleaner.journald import Level
from storage.directory import is_stored, is_there
from storage.errors import ErrorKind, InvalidConfig, InvalidConfigs, LogCleanerError, UnreadableFile
from storage.names import CLUSTER_METADATA_TOPIC, DirState, TopicPartition, parse_partition_dir_name
from storage.stores.errors import WrongUrl
from storage.stores.paths import SEPARATOR, TIER, StoredPath, located, names_a_store

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers
    from policies.plan import Plan
    from storage.log_dir import LogDir

TOPIC_OPTION = "--topic"
OPERAND = "TOPIC-PARTITION"
_LIST = "; logcleaner topics lists what is there"
_IS_IT = "is it a log dir, and was nothing lost?"
_NAMED_MAX = 3
_MOVE = "put the directory itself there, or mount it there"

LOG_DIR: Final = "DIR"


class NothingChangedThere(LogCleanerError):
    """A log dir in a store, named to a command that changes log dirs."""

    kind = ErrorKind.USAGE

    url: str

    def __str__(self) -> str:
        return (
            f"{self.url}: lies in a store, where nothing is changed in place; look at it with clean --dry-run, or "
            f"write a cleaned copy with clean --output DIR"
        )


class NotReadThere(LogCleanerError):
    """A log dir in a store, named to a command that reads log dirs of this machine alone."""

    kind = ErrorKind.USAGE

    url: str
    command: str

    def __str__(self) -> str:
        return f"{self.url}: lies in a store, and {self.command} reads directories of this machine; copy it here first"


def place(text: str) -> Path:
    """Parse what names a directory or file: a path, or a URL. Raises: argparse.ArgumentTypeError."""
    if text.startswith(f"{TIER}{SEPARATOR}"):
        import storage.tiers.view  # noqa: F401 - opens such paths
    try:
        return located(text)
    except WrongUrl as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def check_places(args: argparse.Namespace, *, acts: bool) -> None:
    """Refuse URLs of stores, unless the command says by ``reads_stores`` that it reads there.

    Args:
        args: of the command.
        acts: whether the command changes log dirs.

    Raises: NothingChangedThere, NotReadThere.
    """
    values = [value for said in vars(args).values() for value in (said if isinstance(said, list) else [said])]
    texts = [str(value) for value in values if isinstance(value, (StoredPath, str))]
    url = next((str(located(text)) for text in texts if names_a_store(text)), None)
    if url is None:
        return
    if acts:
        raise NothingChangedThere(url)
    if not getattr(args, "reads_stores", False):
        raise NotReadThere(url, args.command)


class LogDirs(argparse.Action):
    """The action for operands that name log dirs; it adds them to those of ``--log-dir``.

    A word that names no directory is refused, because it mostly is an option without hyphens, or a topic. A path is
    accepted as it is, because a disk may be mounted there later.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Add the log dirs. Raises: argparse.ArgumentError for a word that names none."""
        for word in values:
            if os.sep not in word and not os.path.lexists(word):
                raise argparse.ArgumentError(None, f"no such directory: {word}{_meant(parser, word)}")
        _add(namespace, map(located, values))


class OnePartition(argparse.Action):
    """The action for an operand that names a partition: ``orders-0``, or the path of its directory, whose parent is the
    log dir.

    With ``nargs="?"``, a log dir may stand instead.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, *, named: Callable[[str], Any], **rest: Any) -> None:
        super().__init__(option_strings, dest, **rest)
        self._named = named
        """The parser for the name of a partition.

        For any other text, it raises ``ArgumentTypeError`` or returns the text.
        """

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Set the partition, or add the log dir. Raises: argparse.ArgumentError for any other text."""
        from storage.names import parse_topic_partition

        if values is None:
            return
        path = located(values)
        found = parse_topic_partition(path.absolute().name)
        is_named = os.sep not in values and found is not None
        is_to_come = os.sep in values and found is not None and not is_there(path)  # it may be mounted later
        if is_named or not (path.is_dir() or is_to_come):
            try:
                setattr(namespace, self.dest, self._named(values))
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from error
        elif found is not None and not _is_log_dir(path):
            setattr(namespace, self.dest, found)
            _add(namespace, [path.absolute().parent])
        elif self.nargs == "?":
            _add(namespace, [path])
        else:
            told = f"{values} is a directory, and no partition: say for example orders-3 --log-dir {values}"
            raise argparse.ArgumentError(self, told)


def add_log_dirs_operand(parser: argparse.ArgumentParser) -> None:
    """Add the operand that names log dirs without ``--log-dir``."""
    parser.add_argument("dirs", nargs="*", action=LogDirs, metavar=LOG_DIR, help="log dirs, as --log-dir names them")


def check_topics(globs: Sequence[str], log_dirs: Sequence[LogDir]) -> None:
    """Refuse a ``--topic`` that matches nothing in any log dir.

    If a log dir cannot be read, refuse nothing: it may have the topic, and the command reports its error.

    Raises: InvalidConfigs.
    """
    if globs and (known := partitions_of(log_dirs)) is not None:
        check_globs(globs, known, _all_of(log_dirs), log_dirs)


def check_globs(
    globs: Sequence[str], known: Iterable[TopicPartition], where: str, log_dirs: Sequence[LogDir] = ()
) -> None:
    """Refuse each glob that names none of the known partitions.

    Args:
        globs: over topic or partition names.
        known: the partitions.
        where: the place of the partitions, in words.
        log_dirs: a symlink in one of them may explain why a partition is not known.

    Raises: InvalidConfigs.
    """
    from storage.names import is_named

    known = set(known)
    problems = [
        InvalidConfig(
            TOPIC_OPTION,
            glob,
            _never_touched(glob) or f"matches no topic and no partition of {where}{_why(glob, known, log_dirs)}",
        )
        for glob in dict.fromkeys(globs)
        if not any(is_named(topic_partition, (glob,)) for topic_partition in known)
    ]
    if problems:
        raise InvalidConfigs(tuple(problems))


def check_partition(
    wanted: TopicPartition | str, known: Iterable[TopicPartition], log_dirs: Sequence[LogDir] = ()
) -> None:
    """Refuse a partition that nothing knows, and a text that is no partition.

    Arguments: as for ``check_globs``. Raises: InvalidConfig.
    """
    known = set(known)
    if wanted not in known:
        if why := _never_touched(str(wanted)):
            raise InvalidConfig(OPERAND, str(wanted), why)
        linked = _symlinks_named(str(wanted), log_dirs)
        near = linked or did_you_mean(str(wanted), map(str, known))
        if isinstance(wanted, str):
            raise InvalidConfig(OPERAND, wanted, f"is no partition{near or f', such as orders-3{_LIST}'}")
        raise InvalidConfig(OPERAND, str(wanted), f"is in none of the log dirs{near or _LIST}")


def check_importable(wanted: TopicPartition) -> None:
    """Refuse to make a partition of a topic that only Kafka itself may write. Raises: InvalidConfig."""
    from storage.names import INTERNAL_TOPICS

    if wanted.topic in INTERNAL_TOPICS:
        raise InvalidConfig(
            OPERAND, str(wanted), "is of a topic that only Kafka's coordinators may write; name another"
        )
    if wanted.topic == CLUSTER_METADATA_TOPIC:
        raise InvalidConfig(OPERAND, str(wanted), "holds the cluster metadata, which only Kafka's quorum may write")


def check_remembered(globs: Sequence[str], wanted: TopicPartition | str | None, log_dirs: Sequence[LogDir]) -> None:
    """Refuse names that occur neither in the log dirs, nor in their journals, nor in their holds.

    A partition that a journal names may be gone by now. Raises: InvalidConfig, InvalidConfigs; UnreadableFile,
    CorruptHolds.
    """
    if not globs and wanted is None:
        return
    known = {found for log_dir in log_dirs for found in _remembered(log_dir)}
    if wanted is not None:
        check_partition(wanted, known, log_dirs)
    if globs:
        check_globs(globs, known, f"{_all_of(log_dirs)}, nor of the journal", log_dirs)


def warn_of_sole_replicas(loaded: LoadedLayers, globs: Sequence[str]) -> None:
    """Name, in one line, the partitions of a run of which no other broker has a replica in sync.

    A log dir in a store is a copy, in which nothing goes.

    Args:
        loaded: the log dirs and their configuration.
        globs: over topic or partition names; empty means all.
    """
    from cleaner.engine.sole_replicas import sole_in_sync
    from storage.log_dir import LogDir
    from storage.names import is_named

    local = [LogDir(path) for path in loaded.log_dirs if not is_stored(path)]
    found: list[TopicPartition] = []
    with suppress(LogCleanerError):  # the run meets it again, and reports it
        metadata_log_dir = loaded.layers.broker_policy().metadata_log_dir
        found = sole_in_sync(local, lambda name: is_named(name, globs), metadata_log_dir)
    if found:
        named = ", ".join(map(str, found[:_NAMED_MAX]))
        more = f" and {len(found) - _NAMED_MAX:,} more" if len(found) > _NAMED_MAX else ""
        complain(f"{named}{more}: by the cluster metadata no other broker has a replica in sync")


def warn_of_names(loaded: LoadedLayers) -> None:
    """Warn of names without effect: keys that a broker ignores, and, in one line, patterns that match no topic."""
    for sentence in loaded.ignored:
        complain(sentence)
    warn_of_patterns(loaded)


def warn_of_patterns(loaded: LoadedLayers) -> None:
    """Warn, in one line, of ``[topics]`` patterns that match no topic."""
    if patterns := patterns_without_topic(loaded):
        near = [_meant_by(pattern, loaded) for pattern in patterns]
        told = [f"{p} ({n})" if n else p for p, n in zip(patterns, near, strict=True)]
        complain(f"{loaded.settings.path}: these [topics] match no topic here: {', '.join(told)}")


def tell_misnamed(loaded: LoadedLayers, plan: Plan, *, is_dry: bool) -> None:
    """Print, for each pattern of ``[topics]`` without a topic, what the topic with the nearest name lost by another
    limit.
    """
    for pattern in patterns_without_topic(loaded):
        near = nearest(pattern, topics_of(loaded) or ())
        deleting = [p for p in plan.partitions if p.deletion and p.policy.topic == near]
        limit = next((v.reason.limit for p in deleting for v in p.verdicts if v.reason.limit), None)
        if limit is not None:
            segments = sum(len(p.deletion.segments) for p in deleting if p.deletion)
            what = f"{near} {'would lose' if is_dry else 'lost'} {segments:,} segment{'' if segments == 1 else 's'}"
            complain(f'{what} by {limit.stated.sentence}: [topics."{pattern}"] does not match this topic')


def check_patterns(loaded: LoadedLayers) -> None:
    """Refuse the ``[topics]`` patterns that match no topic, each with its line. Raises: InvalidConfigs."""
    lines = {
        pattern: min((stated.line for stated in table.values() if stated.line), default=None)
        for pattern, table in loaded.layers.topics_file
    }
    where = ", ".join(map(str, loaded.log_dirs))
    problems = [
        InvalidConfig(
            f'[topics."{pattern}"]',
            None,
            f"matches no topic of {where}{f'; {near}' if (near := _meant_by(pattern, loaded)) else ''}",
            f"{loaded.settings.path}{f' line {lines[pattern]}' if lines[pattern] else ''}",
        )
        for pattern in sorted(patterns_without_topic(loaded), key=lambda pattern: lines[pattern] or 0)
    ]
    if problems:
        raise InvalidConfigs(tuple(problems))


def named_topics(loaded: LoadedLayers, globs: Sequence[str]) -> list[str]:
    """Return the topics that the globs name, by topic or by partition, of the log dirs and the cluster metadata.

    If a log dir cannot be read, or none is named, a glob without a match is taken for the name of a topic.

    Raises: InvalidConfigs for a glob without a match.
    """
    from storage.log_dir import LogDir
    from storage.names import is_named

    log_dirs = [LogDir(path) for path in loaded.log_dirs]
    here = partitions_of(log_dirs) if log_dirs else None
    elsewhere = {*loaded.layers.topic_metadata, *(loaded.layers.topic_ids or ())}
    known = {*(here or ()), *(TopicPartition(topic, 0) for topic in elsewhere)}
    if here is not None:
        check_globs(globs, known, _all_of(log_dirs), log_dirs)
    unmatched = [glob for glob in globs if not any(is_named(found, (glob,)) for found in known)]
    return sorted({found.topic for found in known if is_named(found, globs)} | set(unmatched))


def warn_of_symlinks(log_dirs: Iterable[LogDir]) -> None:
    """Print in one line which partitions are symlinks, and so are left out."""
    if paths := symlinks_in(log_dirs):
        are = "is a symlink" if len(paths) == 1 else "are symlinks"
        complain(f"{', '.join(map(str, paths))} {are}, which is not followed: left out; {_MOVE}")


def warn_of_directories_without_segments(plan: Plan) -> None:
    """Print, in one line for each log dir, which directories have the name of a partition and no segment.

    A broker takes them for partitions, too, so they are not left out.
    """
    from policies.plan import PartitionPlan

    for log_dir in plan.log_dirs:
        found = [p.facts for p in log_dir.partitions if isinstance(p, PartitionPlan)]
        bare = [str(facts.topic_partition) for facts in found if not facts.segments and not facts.leftover_files]
        if bare:
            others = f" and {len(bare) - _NAMED_MAX} more" if len(bare) > _NAMED_MAX else ""
            names = f"{', '.join(bare[:_NAMED_MAX])}{others}"
            complain(f"{log_dir.facts.path}: no segment in {names}: a broker would begin an empty log there; {_IS_IT}")


def tell_overrides(loaded: LoadedLayers, globs: Sequence[str]) -> None:
    """Print a line for each topic key of ``--set``: what the key changes, and for which topics of the run."""
    from policies.config.loosened import overrides
    from storage.log_dir import LogDir
    from storage.names import is_named

    def topics() -> Iterator[str]:
        """List the log dirs only if there is a key to tell of."""
        found = partitions_of([LogDir(path) for path in loaded.log_dirs]) or ()
        yield from (topic_partition.topic for topic_partition in found if is_named(topic_partition, globs))

    for override in overrides(loaded.layers, topics()):
        complain(f"--set {override.told}", Level.INFO)


def symlinks_in(log_dirs: Iterable[LogDir]) -> list[Path]:
    """Return the partitions that are symlinks; none for a log dir that cannot be read."""
    return [path for log_dir in log_dirs for _, path in _symlinked(log_dir)]


def patterns_without_topic(loaded: LoadedLayers) -> tuple[str, ...]:
    """Return the names and globs of ``[topics]`` that match no topic of a log dir or of the cluster metadata.

    If a log dir cannot be read, return none, because it may have the topics.
    """
    known = topics_of(loaded) if loaded.layers.topics_file else None
    return () if known is None else loaded.layers.patterns_without(known)


def topics_of(loaded: LoadedLayers) -> set[str] | None:
    """Return the topics of the log dirs and of the cluster metadata; None if a log dir cannot be read."""
    from storage.log_dir import LogDir

    found = partitions_of([LogDir(path) for path in loaded.log_dirs])
    if found is None:
        return None
    layers = loaded.layers
    return {topic for topic, _ in found} | set(layers.topic_metadata) | set(layers.topic_ids or ())


def partitions_of(log_dirs: Iterable[LogDir]) -> set[TopicPartition] | None:
    """Return the partitions of all log dirs; None if one log dir cannot be read."""
    try:
        return {found for log_dir in log_dirs for found, _ in log_dir.partitions()}
    except UnreadableFile:
        return None


def _add(namespace: argparse.Namespace, paths: Any) -> None:
    known = namespace.log_dir
    namespace.log_dir = [*known, *(path for path in paths if path.absolute() not in {one.absolute() for one in known})]


def _meant(parser: argparse.ArgumentParser, word: str) -> str:
    """Return what the user probably meant by a word that names no directory."""
    options = [name for action in actions_of(parser) for name in action.option_strings]
    if near := nearest(word, (option.lstrip("-") for option in options if option.startswith("--"))):
        return f"; did you mean --{near}?"
    return f"; a topic is named by --topic {word}" if "--topic" in options else ""


def _is_log_dir(path: Path) -> bool:
    """Return whether a directory with the name of a partition is a log dir all the same, such as ``demo-1``."""
    from storage.errors import LogCleanerError
    from storage.log_dir import LogDir

    try:
        LogDir.open(path)
    except LogCleanerError:
        return False
    return True


def _all_of(log_dirs: Sequence[LogDir]) -> str:
    return ", ".join(str(log_dir.path) for log_dir in log_dirs)


def _never_touched(name: str) -> str:
    """Return why no command accepts this name; an empty text if commands may accept it."""
    directory = parse_partition_dir_name(name)
    topic = directory.topic_partition.topic if directory else name
    if topic == CLUSTER_METADATA_TOPIC:
        return (
            "is never touched: it holds the cluster metadata, which only Kafka's quorum may shorten; "
            f"logcleaner dump {CLUSTER_METADATA_TOPIC}-0 shows it"
        )
    if directory is None or directory.state is DirState.LIVE:
        return ""
    if directory.state is DirState.FUTURE:
        return "is never touched: a broker moves a replica there, and goes on when it starts"
    return "is never touched, but by doctor --sweep: its topic was deleted, or its broker no longer has it"


def _why(glob: str, known: Iterable[TopicPartition], log_dirs: Sequence[LogDir]) -> str:
    if linked := _symlinks_named(glob, log_dirs):
        return linked
    return did_you_mean(glob, {name for found in known for name in (found.topic, str(found))}) or _LIST


def _symlinks_named(glob: str, log_dirs: Iterable[LogDir]) -> str:
    """Return a text if a glob names a symlink; else an empty text."""
    from storage.names import is_named

    for log_dir in log_dirs:
        for topic_partition, path in _symlinked(log_dir):
            if is_named(topic_partition, (glob,)):
                return f"; {path} is a symlink, which is not followed: {_MOVE}"
    return ""


def _symlinked(log_dir: LogDir) -> list[tuple[TopicPartition, Path]]:
    try:
        return list(log_dir.symlinked_partitions())
    except UnreadableFile:
        return []


def _remembered(log_dir: LogDir) -> Iterable[TopicPartition]:
    from cleaner.engine.journal import partition_of, read_journal

    yield from (found for found, _ in log_dir.partitions())
    yield from log_dir.holds()
    yield from filter(None, map(partition_of, read_journal(log_dir.path)))


def _meant_by(pattern: str, loaded: LoadedLayers) -> str:
    """Return what the user probably meant by a pattern of ``[topics]``; an empty text if nothing is near."""
    from storage.log_dir import LogDir
    from storage.names import is_named

    partitions = partitions_of([LogDir(path) for path in loaded.log_dirs]) or ()
    for found in sorted(partitions):
        if is_named(found, (pattern,)):
            return f"it matches partitions, and [topics] takes topic names: did you mean {found.topic}?"
    near = nearest(pattern, topics_of(loaded) or ())
    return f"did you mean {near}?" if near else ""
