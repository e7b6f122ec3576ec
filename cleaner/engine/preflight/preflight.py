"""Predicts a start: reads the facts, in the order in which a broker does, and asks the rules."""

from __future__ import annotations

import pwd
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cleaner.engine.doctor.missing import missing_records
from cleaner.engine.preflight.contents import ReadingBudget
from cleaner.engine.preflight.estimate import full_disks
from cleaner.engine.preflight.reading import User, read_identity, read_log_dir, read_metadata
from policies.preflight.facts import LogDirBefore, Release, Replicas
from policies.preflight.identity import Identities, IdentityBefore, check_identities
from policies.preflight.metadata import METADATA_DIR, MetadataStart, load_metadata, with_features
from policies.preflight.prediction import StartSurroundings, predict
from policies.preflight.start import LogDirStart, PartitionFate, Start, StartUser
from policies.preflight.verdict import StartVerdict, verdict_of
from policies.preflight.zookeeper import check_zookeeper_identities
from storage.errors import CorruptBatch, InvalidRecord, LogCleanerError
from storage.log.file_records.walk import CorruptRecord, walk
from storage.metadata.placements import Placements
from storage.names import TopicPartition
from storage.records import Batch
from storage.records.read_batches import LogBytes, parse_batch
from storage.segment import reading

_INTERVAL_BYTES: Final = 4096
_INTERVAL_KEY: Final = "index.interval.bytes"
_KRAFT_ONLY: Final = 4
_GLANCED_BYTES_MAX: Final = 256 << 20
_GLANCED_FILE_BYTES_MAX: Final = 16 << 20
_NOT_SERVED: Final = (PartitionFate.STRAY, PartitionFate.DELETED)


@dataclass(frozen=True, slots=True)
class Node:
    """The broker that is to start.

    Attributes:
        release: its Kafka.
        node_id: ``node.id`` or ``broker.id``; None if no configuration states it.
        metadata_dir: the log dir of the metadata log; None: the first one that has it, else the first one.
        interval_bytes: ``log.index.interval.bytes``.
        intervals: ``index.interval.bytes`` by topic, for those of which the metadata log states none.
        cleans: ``log.cleaner.enable``.
    """

    release: Release
    node_id: int | None = None
    metadata_dir: Path | None = None
    interval_bytes: int = _INTERVAL_BYTES
    intervals: Callable[[str], int] | None = None
    cleans: bool = True


def predict_start(log_dirs: Sequence[Path], node: Node) -> Start:
    """Return what a start of a broker does with its log dirs. Nothing is changed, and no lock is taken.

    Raises: UnreadableFile where the rules need what may not be read.
    """
    befores, start = _predicted(log_dirs, node)
    pairs = zip(befores, start.log_dirs, strict=True)
    return start._replace(log_dirs=tuple(_with_missing(before, log_dir) for before, log_dir in pairs))


def start_verdict(log_dirs: Sequence[Path], node: Node, *, reads_all: bool = False) -> StartVerdict:
    """Return in a sentence what a start of a broker does with its log dirs.

    Args:
        log_dirs: of the broker.
        node: the broker.
        reads_all: whether all that the start recovers is read; else only small segments, and the ends of others.
    """
    budget = None if reads_all else ReadingBudget(_GLANCED_BYTES_MAX, _GLANCED_FILE_BYTES_MAX)
    try:
        _, start = _predicted(log_dirs, node, budget, is_all=False)
    except (LogCleanerError, OSError) as error:
        text = f"Nobody can say whether Kafka {node.release} will start: {error}."
        return StartVerdict(str(node.release), None, text)
    if start.is_stopped_by_locks_alone:
        return StartVerdict(str(node.release), None, f"No start is predicted: {start.refusals[0].failure.cause}.")
    full = full_disks(start, node.interval_bytes)
    return verdict_of(start, full, budget.unread_bytes if budget else 0)


def _predicted(
    log_dirs: Sequence[Path], node: Node, budget: ReadingBudget | None = None, *, is_all: bool = True
) -> tuple[list[LogDirBefore], Start]:
    """Return the facts, and what a start does.

    Args:
        log_dirs: of the broker.
        node: the broker.
        budget: bounds what is read whole; None for no bound.
        is_all: whether the broker has no other log dirs. Else a metadata log that is not here may lie in one of them.

    Raises: as ``predict_start``.
    """
    metadata_dir = node.metadata_dir or next((p for p in log_dirs if (p / METADATA_DIR).is_dir()), log_dirs[0])
    user = _user_of(dict.fromkeys((metadata_dir, *log_dirs)))
    identities = [read_identity(path, user) for path in dict.fromkeys((*log_dirs, metadata_dir))]
    around = StartSurroundings(
        node.release, check_identities(identities, node.node_id, str(metadata_dir)), str(metadata_dir), None, None
    )
    placements: Placements | None = None
    if _has_quorum(node.release, identities, metadata_dir):
        metadata = load_metadata(read_metadata(metadata_dir, user, node.release), str(metadata_dir))
        placements = read_placements(metadata_dir / METADATA_DIR, metadata)
        metadata = with_features(metadata, placements.features, str(metadata_dir / METADATA_DIR), node.release)
        node_id = _node_id(node, identities)
        around = around._replace(metadata=metadata)
        is_known = is_all or (metadata_dir / METADATA_DIR).is_dir()
        if node_id is not None and metadata.refusal is None and is_known:
            replicas = Replicas(node_id, placements.brokers, placements.names, placements.directories)
            around = around._replace(replicas=replicas)
    else:
        around = around._replace(identities=_of_zookeeper(identities, node))

    def interval(topic_partition: TopicPartition) -> int:
        text = placements.configs.get((topic_partition.topic, _INTERVAL_KEY)) if placements else None
        if text and text.isdigit():
            return int(text)
        return node.intervals(topic_partition.topic) if node.intervals else node.interval_bytes

    befores = [read_log_dir(path, user, interval, node.release, cleans=node.cleans, budget=budget) for path in log_dirs]
    return befores, predict(befores, around)._replace(user=StartUser(user.uid, user.gid, _name_of(user)))


def _with_missing(before: LogDirBefore, log_dir: LogDirStart) -> LogDirStart:
    """Add what its partitions lack already. A partition that the start sets aside or deletes is not looked at."""
    partitions = [
        log.topic_partition
        for log in log_dir.logs
        if log.fate not in _NOT_SERVED and log.name == str(log.topic_partition) and log.name != METADATA_DIR
    ]
    found = missing_records(Path(log_dir.path), partitions, is_live=before.locked_by is not None)
    return log_dir._replace(missing=tuple(found))


def _user_of(log_dirs: Iterable[Path]) -> User:
    """Return the first owner of a log dir who is not root: the broker is taken to run as that user."""
    for path in log_dirs:
        with suppress(OSError):  # one that is missing: the broker makes it, or cannot start
            status = path.stat()
            if status.st_uid:
                return User(status.st_uid, status.st_gid)
    return User(0, 0)


def _name_of(user: User) -> str | None:
    with suppress(KeyError):
        return pwd.getpwuid(user.uid).pw_name
    return None


def _has_quorum(release: Release, identities: Sequence[IdentityBefore], metadata_dir: Path) -> bool:
    """Return whether the broker is a KRaft node: since 4.0 always, before that if a log dir was formatted for it."""
    if release.major >= _KRAFT_ONLY:
        return True
    if release.major < 3:
        return False
    is_formatted = any((one.properties or {}).get("version") == "1" for one in identities)
    return is_formatted or (metadata_dir / METADATA_DIR).is_dir()


def _node_id(node: Node, identities: Sequence[IdentityBefore]) -> int | None:
    """Return the id of the node; None if neither the configuration nor a ``meta.properties`` states it."""
    if node.node_id is not None:
        return node.node_id
    for identity in identities:
        for key in ("node.id", "broker.id"):
            text = (identity.properties or {}).get(key, "")
            if text.lstrip("-").isdigit():
                return int(text)
    return None


def _of_zookeeper(identities: Sequence[IdentityBefore], node: Node) -> Identities:
    return check_zookeeper_identities(identities, node.node_id)


def read_placements(directory: Path, metadata: MetadataStart) -> Placements:
    """Read which broker hosts which partition, from the metadata log as it will be cut."""
    placements = Placements()
    from_offset = 0
    if metadata.snapshot:
        from_offset = int(metadata.snapshot.partition("-")[0])
        _take(placements, directory / metadata.snapshot, None, 0)
    for name, valid_bytes in metadata.valid_bytes:
        if (directory / name).exists():
            _take(placements, directory / name, valid_bytes, from_offset)
    return placements


def _take(placements: Placements, path: Path, end: int | None, from_offset: int) -> None:
    with reading(path) as descriptor:
        log = LogBytes(descriptor)
        try:
            for found in walk(log, 0, end):
                if found.is_control or found.last_offset < from_offset:
                    continue
                batch = parse_batch(log.at(found.position, found.size_bytes), path, found.position)
                if isinstance(batch, Batch):
                    _take_records(placements, batch, from_offset)
        except (CorruptRecord, CorruptBatch):
            return


def _take_records(placements: Placements, batch: Batch, from_offset: int) -> None:
    for record in batch.records():
        if record.offset >= from_offset and record.value:
            try:
                placements.take(record.value)
            except InvalidRecord:
                continue
