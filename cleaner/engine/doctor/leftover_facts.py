"""Reads the facts about leftovers that a person named: their kind, their size, and when their delay is over."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from cleaner.engine.journal import read_entries
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.repair.kept import is_kept_other
from cleaner.engine.undo_notes import due_ms
from cleaner.engine.verify.set_aside import sole_copies_in
from policies.config.config_layers import ConfigLayers
from policies.findings.sweeping import LeftoverFacts, LeftoverKind, SweepAct
from storage.directory import opened
from storage.errors import as_unreadable
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import (
    DirState,
    FileState,
    PartitionDirName,
    parse_partition_dir_name,
    parse_segment_file_name,
)
from storage.segment import BLOCK_BYTES, listed

SWEEP: Final = "sweep"
"""The kind of the journal's line."""
_NAME_BYTES_MAX: Final = 255
_UNFINISHED: Final = (FileState.SWAP, FileState.CLEANED)


def leftover_facts(log_dir: LogDir, name: str, layers: ConfigLayers, log_dirs: Sequence[LogDir] = ()) -> LeftoverFacts:
    """Look at one thing in a log dir.

    Args:
        log_dir: the log dir.
        name: its path from the log dir: a directory, or a file in one.
        layers: state the delay.
        log_dirs: all of the broker that are known: one may hold the partition whose directory is a leftover here.

    Raises: UnreadableFile, CorruptHolds, CorruptHoldIds.
    """
    parts = PurePath(name).parts
    parsed = parse_partition_dir_name(parts[0]) if parts and ".." not in parts else None
    if parsed is None or len(parts) > 2:
        return LeftoverFacts(name, LeftoverKind.OTHER)
    status = _status(log_dir.path / name)
    if status is None:
        return LeftoverFacts(name, LeftoverKind.MISSING)
    delay_ms = layers.policy_for(parsed.topic_partition.topic).file_delete_delay_ms
    if len(parts) == 2:
        return _file(log_dir, name, parsed, status, delay_ms)
    facts = _directory(log_dir, name, parsed, status, delay_ms)
    if facts.kind is LeftoverKind.OTHER:
        return facts
    found = sole_copies_in(log_dir, log_dirs or (log_dir,), layers.broker_policy().metadata_log_dir)
    return facts._replace(sole_copy=found.get(name))


def _status(path: Path) -> os.stat_result | None:
    """Return the status of an entry; None if it is not there, or the directory that holds it is a symlink."""
    try:
        with opened(path.parent) as parent:
            return os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _file(log_dir: LogDir, name: str, parsed: PartitionDirName, status: os.stat_result, delay_ms: int) -> LeftoverFacts:
    path = log_dir.path / name
    segment_file = parse_segment_file_name(path.name)
    if is_kept_other(path.name) and parsed.state is DirState.LIVE and stat.S_ISREG(status.st_mode):
        is_held, due = parsed.topic_partition in log_dir.holds(), status.st_ctime_ns // 1_000_000 + delay_ms
        return LeftoverFacts(name, LeftoverKind.DELETED_FILE, status.st_size, 1, due, is_held)
    if segment_file is None or parsed.state is not DirState.LIVE or not stat.S_ISREG(status.st_mode):
        return LeftoverFacts(name, LeftoverKind.OTHER)
    if segment_file.state in _UNFINISHED:
        return LeftoverFacts(name, LeftoverKind.UNFINISHED_FILE, status.st_size, 1)
    if segment_file.state is not FileState.DELETED:
        return LeftoverFacts(name, LeftoverKind.OTHER)
    topic_partition = parsed.topic_partition
    rule = OnlyCopies(log_dir)
    file = listed(path.parent, path.name, segment_file, status)
    due, is_held = due_ms(file, delay_ms, rule.renamed_ms(topic_partition)), topic_partition in log_dir.holds()
    facts = LeftoverFacts(name, LeftoverKind.DELETED_FILE, status.st_size, 1, due, is_held)
    kept = rule.of(topic_partition, list_partition(path.parent))
    copy = kept.copies.get(segment_file.base_offset)
    if kept.unknown_because is not None and copy is not None:
        return facts._replace(unknown_because=kept.unknown_because)
    return facts._replace(only_copy=copy)


def _directory(
    log_dir: LogDir, name: str, parsed: PartitionDirName, status: os.stat_result, delay_ms: int
) -> LeftoverFacts:
    if not stat.S_ISDIR(status.st_mode) or parsed.state not in (DirState.STRAY, DirState.DELETE):
        return LeftoverFacts(name, LeftoverKind.OTHER)
    size_bytes, files, nested = _contents(log_dir.path / name)
    if parsed.state is DirState.STRAY:
        kind = LeftoverKind.STRAY_DIRECTORY
        return LeftoverFacts(name, kind, size_bytes, files, new_name=_as_deleted(log_dir, name, parsed), nested=nested)
    due = _directory_due_ms(log_dir, name, status, delay_ms)
    return LeftoverFacts(name, LeftoverKind.DELETE_DIRECTORY, size_bytes, files, due, nested=nested)


def _contents(directory: Path) -> tuple[int, int, str | None]:
    """Return what the files in a directory take, their number, and the first directory in it."""
    size_bytes = files = 0
    nested: str | None = None
    with as_unreadable(directory), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                nested = min(nested or entry.name, entry.name)
            else:
                size_bytes += entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
                files += 1
    return size_bytes, files, nested


def _as_deleted(log_dir: LogDir, name: str, parsed: PartitionDirName) -> str | None:
    """Return the name that Kafka gives the directory of a deleted partition, with the same unique id; None if it does
    not fit, or is taken. Source: Kafka LocalLog.logDeleteDirName."""
    unique = name.rpartition(".")[2].removesuffix(DirState.STRAY.value)
    new_name = f"{parsed.topic_partition}.{unique}{DirState.DELETE.value}"
    is_kafkas = parse_partition_dir_name(new_name) == PartitionDirName(parsed.topic_partition, DirState.DELETE)
    fits = len(new_name.encode()) <= _NAME_BYTES_MAX and _status(log_dir.path / new_name) is None
    return new_name if is_kafkas and fits else None


def _directory_due_ms(log_dir: LogDir, name: str, status: os.stat_result, delay_ms: int) -> int:
    """Return when the delay of a ``-delete`` directory is over, epoch ms.

    It counts from the journal's line of the sweep that renamed it; else from its change time, which a rename sets. Once
    a sweep began to unlink it, it is over: a crash in between changes nothing of that.
    """
    renamed_ms = status.st_ctime_ns // 1_000_000
    for entry in read_entries(log_dir.path, SWEEP):
        if _tells(entry, SweepAct.RENAME, "renamed_to", name):
            renamed_ms = entry["time_ms"]
        elif _tells(entry, SweepAct.UNLINK, "name", name):
            return int(entry["time_ms"])
    return int(renamed_ms) + delay_ms


def _tells(entry: Mapping[str, Any], act: SweepAct, key: str, name: str) -> bool:
    return entry.get("act") == act.value and entry.get(key) == name
