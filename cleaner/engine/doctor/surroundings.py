"""Look at what lies in a log dir beside its live partitions: directories, and files that only a process keeps."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from cleaner.engine.space.account import UnlinkedFile
from cleaner.engine.space.accounting import account_of
from policies.config.config_layers import ConfigLayers
from policies.findings.shapes.symptoms import EntryKind, EntrySymptoms, UnlinkedSymptoms
from policies.preflight.lost import SetAside
from storage.directory import opened
from storage.errors import as_unreadable
from storage.names import (
    IMPORT_SUFFIX,
    REMOTE_INDEX_CACHE,
    SCRATCH_SUFFIX,
    DirState,
    FileState,
    parse_partition_dir_name,
    parse_segment_file_name,
    parse_topic_partition,
)

COLLECTED_WITHIN_MS: Final = 3_600_000
"""A broker lets go of what it deleted itself within this time."""
_KINDS: Final = {DirState.STRAY: EntryKind.STRAY, DirState.DELETE: EntryKind.DELETE}


def entries_of(
    log_dir: Path, layers: ConfigLayers, now_ms: int, sole_copies: Mapping[str, SetAside]
) -> Iterator[EntrySymptoms]:
    """Yield the directories that are no live partition, by name.

    Args:
        log_dir: its path.
        layers: state the delays.
        now_ms: the moment of the look, epoch ms.
        sole_copies: the directories that hold the only copy of a partition that belongs here, by name.

    Raises: UnreadableFile.
    """
    found: list[tuple[str, os.stat_result]] = []
    with as_unreadable(log_dir), opened(log_dir) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    for name, status in sorted(found, key=lambda pair: pair[0]):
        if not stat.S_ISDIR(status.st_mode) or name.endswith(SCRATCH_SUFFIX):
            continue
        kind, topic = _kind_of(name)
        if kind is not None:
            delay_ms = layers.policy_for(topic).file_delete_delay_ms if topic else 0
            size_bytes = account_of(log_dir / name).total.disk_bytes
            age_ms = max(now_ms - status.st_ctime_ns // 1_000_000, 0)
            yield EntrySymptoms(str(log_dir / name), kind, size_bytes, age_ms, delay_ms, sole_copies.get(name))


def _is_kept(file: UnlinkedFile, now_ms: int) -> bool:
    name = parse_segment_file_name(Path(file.path).name)
    if name is None:
        return False
    return name.state is not FileState.DELETED or now_ms - file.unlinked_ms > COLLECTED_WITHIN_MS


def _kind_of(name: str) -> tuple[EntryKind | None, str]:
    """Return the kind of a directory, and its topic; None for a partition that is live, or moving."""
    if name == REMOTE_INDEX_CACHE:
        return EntryKind.INDEX_CACHE, ""
    if name.endswith(IMPORT_SUFFIX) and parse_topic_partition(name.removesuffix(IMPORT_SUFFIX)):
        return EntryKind.IMPORT, ""
    parsed = parse_partition_dir_name(name)
    if parsed is None:
        return EntryKind.STRANGE, ""
    return _KINDS.get(parsed.state), parsed.topic_partition.topic


def unlinked_of(log_dir: Path, files: Iterable[UnlinkedFile], now_ms: int) -> UnlinkedSymptoms | None:
    """Return the files of a log dir that have no name any more; None if there are none.

    A broker that deletes a segment itself keeps its index files mapped until its next garbage collections.

    Args:
        log_dir: its path.
        files: the unlinked files of its file system, the largest first.
        now_ms: the moment of the look, epoch ms.
    """
    own = [file for file in files if Path(file.path).is_relative_to(log_dir) and _is_kept(file, now_ms)]
    if not own:
        return None
    largest = own[0]
    return UnlinkedSymptoms(len(own), sum(file.disk_bytes for file in own), largest.path, largest.pid, largest.command)
