"""``logcleaner-manifest.json``: what a copy consists of, how it was made, and that it is whole.

Schema ``logcleaner.manifest/1``; sizes in bytes, times in epoch ms, paths relative to the copy.

A manifest counts as long as nobody worked in its directory: a broker that starts on a copy, and a run that cleans it,
rightly change what the manifest names (``change_since``).

The code of a segment is a ``ReasonCode``. If the plan was not carried out, it is ``FAILED`` for a partition that was
copied unchanged or could not be compacted, or ``ROUND_ENDED`` behind the end of a round that ended early.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cleaner.errors import UnusableOutput
from policies.config.policy import TopicPolicy
from policies.facts import UnreadablePartition
from policies.findings.of_log_dir import CHECKPOINTS, CopyCheck
from policies.plan import LogDirPlan, PartitionPlan
from policies.reasons import Action, Verdict, counted, size
from storage.checkpoints import CorruptCheckpoint, parse_offset_checkpoint
from storage.directory import entries, status_of
from storage.errors import LogCleanerError, UnreadableFile, as_unreadable
from storage.filesystem import FileSystem
from storage.log_dir import INCOMPLETE_LOG_DIR, IncompleteCopy, read_file
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    HOLDS_FILE,
    INCOMPLETE_FILE,
    JOURNAL_FILE,
    LOCK_FILE,
    MANIFEST_FILE,
    ROTATED_JOURNAL_FILE,
    FileKind,
    TopicPartition,
    parse_topic_partition,
)
from storage.stores.errors import ForbiddenStore
from storage.stores.paths import StoredPath, want_whole

SCHEMA: Final = "logcleaner.manifest/1"
_FAILED: Final = "FAILED"
_ROUND_ENDED: Final = "ROUND_ENDED"
_NAMED_BY_A_RUN: Final = (LOCK_FILE, JOURNAL_FILE, ROTATED_JOURNAL_FILE, HOLDS_FILE, CLEAN_SHUTDOWN_FILE, *CHECKPOINTS)
"""The files that a broker or a run of ours leaves in a log dir in which it worked."""
_NOT_COMPACTED: Final = "was not compacted, because the kernels do not run where the copy was made"


class CorruptManifest(LogCleanerError):
    """A ``logcleaner-manifest.json`` that does not say what a copy consists of."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; make the copy anew, or take the file away to compare without it"


class CopyLacksFiles(LogCleanerError):
    """A copy that lost a file, or a part of one, since its manifest was written."""

    path: Path
    problem: str
    others: int

    def __str__(self) -> str:
        more = f", and so on: {counted(self.others, 'file')} more" if self.others else ""
        return f"{self.path}: {self.problem}{more}; make the copy anew, or take {MANIFEST_FILE} away to go on without"


class CopyDoesNotFit(LogCleanerError):
    """The file system of a copy has less free than the rest of the copy may take. Nothing was written."""

    path: Path
    needed_bytes: int
    free_bytes: int
    remedy: str = "name a directory on a file system with more space, or fewer topics with --topic"

    def __str__(self) -> str:
        return f"{self.path}: a copy may take {size(self.needed_bytes)}, {size(self.free_bytes)} free; {self.remedy}"


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """A partition within a copy."""

    planned: PartitionPlan | UnreadablePartition
    name: str
    """The name of the partition's directory."""
    error: str | None = None
    """The error for which the partition was copied unchanged; None if the plan was carried out."""
    compacted_to_offset: int | None = None
    """The offset at which the round ended, if the partition was compacted."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file of a copy."""

    path: str
    size_bytes: int
    sha256: str
    mtime_ms: int | None = None
    """The time of a ``.log``, epoch ms."""


def manifest_of(
    plan: LogDirPlan,
    copied: Sequence[PartitionCopy],
    root: Path,
    left_out: Sequence[str],
    made: tuple[int, str, str],
    hashed: Callable[[Path], str],
) -> bytes:
    """Make the manifest of a copy that is complete except for the manifest.

    Args:
        plan: that the copy was made by.
        copied: its partitions.
        root: the copy.
        left_out: the entries of the original that were not copied: directories, symlinks and the like.
        made: the moment of the run (epoch ms), the engine, the version of logcleaner.
        hashed: tells the SHA-256 of a file of the copy.

    Raises: UnreadableFile.
    """
    partitions = {copy.name: _partition(copy, root, hashed) for copy in copied}
    return _document(plan.facts.path, left_out, partitions, root, made, hashed)


def manifest_of_new(
    ends: Mapping[TopicPartition, int], root: Path, made: tuple[int, str, str], hashed: Callable[[Path], str]
) -> bytes:
    """Make the manifest of a log dir that is no copy of another one: it names itself as its original.

    Args:
        ends: the log end offset of each partition, all of whose records are committed.
        root: the log dir, complete except for the manifest.
        made: as of ``manifest_of``, as are ``hashed`` and the errors.
        hashed: tells the SHA-256 of a file.
    """
    return manifest_of_restored({name: (0, end) for name, end in ends.items()}, str(root), root, made, hashed)


def manifest_of_restored(
    spans: Mapping[TopicPartition, tuple[int, int]], original: str, root: Path, made: tuple[int, str, str],
    hashed: Callable[[Path], str],
) -> bytes:  # fmt: skip
    """Make the manifest of a log dir whose logs were put together from another place.

    Args:
        spans: log start and log end offset of each partition, all of whose records are committed.
        original: the other place.
        root: the log dir, complete except for the manifest. Its other directories are named by their files alone.
        made: as of ``manifest_of``, as are ``hashed`` and the errors.
        hashed: tells the SHA-256 of a file.
    """
    partitions: dict[str, dict[str, Any]] = {
        str(name): {
            "topic": name.topic,
            "partition": name.partition,
            "error": None,
            "log_start_offset": start,
            "log_end_offset": end,
            "high_watermark": end,
            "last_stable_offset": end,
            "compacted_to_offset": None,
            "configs": {},
            "segments": [],
            "files": [_file(path, root, hashed) for path in _files_of(root / str(name))],
        }
        for name, (start, end) in sorted(spans.items())
    }
    return _document(original, (), partitions, root, made, hashed)


def _document(
    original: str, left_out: Sequence[str], partitions: Mapping[str, dict[str, Any]], root: Path,
    made: tuple[int, str, str], hashed: Callable[[Path], str],
) -> bytes:  # fmt: skip
    now_ms, engine, tool_version = made
    others = sorted(p for p in root.iterdir() if p.name not in partitions and p.name != INCOMPLETE_FILE)
    document = {
        "schema": SCHEMA,
        "tool": f"logcleaner {tool_version}",
        "engine": engine,
        "now": now_ms,
        "original": original,
        "left_out": list(left_out),
        "partitions": list(partitions.values()),
        "files": [_file(path, root, hashed) for other in others for path in _files_of(other)],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts that a copy keeps about itself and the log dir that it was made of."""

    original: str
    """The path of that log dir at that time; its own of one that is no copy."""
    left_out: frozenset[str]
    """The entries of the log dir that were not copied."""
    files: tuple[ManifestFile, ...]
    """The files that the copy consists of."""


def read_manifest(root: Path) -> Manifest | None:
    """Return the manifest of a copy; None if there is none.

    Raises: CorruptManifest, UnreadableFile; IncompleteCopy where a copy was interrupted.
    """
    path = root / MANIFEST_FILE
    data = read_file(path)
    if data is None:
        if (root / INCOMPLETE_FILE).exists():
            raise IncompleteCopy(root)
        return None
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            raise CorruptManifest(path, f"schema {document['schema']!r} is not {SCHEMA}")
        lists = [document["files"], *(partition["files"] for partition in document["partitions"])]
        files = [
            ManifestFile(str(entry["path"]), int(entry["bytes"]), str(entry["sha256"]), entry.get("mtime_ms"))
            for entries in lists
            for entry in entries
        ]
        return Manifest(str(document["original"]), frozenset(map(str, document["left_out"])), tuple(files))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptManifest(path, f"not as it was written ({error})") from error


def check_in_no_copy(path: Path) -> None:
    """Refuse a directory within a log dir that a manifest tells of, or will: it has no place for another one.

    Raises: UnusableOutput; as of a store.
    """
    for above in path.resolve().parents:
        if held := _marks_in(above):
            what = "a finished log dir" if MANIFEST_FILE in held else INCOMPLETE_LOG_DIR
            raise UnusableOutput(path, f"lies in {above}, which holds {what}", "name a directory beside that one")


def _marks_in(directory: Path) -> set[str]:
    """Return which of the two files lie in a directory by which a copy is known; none where nobody may look."""
    names = (MANIFEST_FILE, INCOMPLETE_FILE)
    if not isinstance(directory, StoredPath):
        return {name for name in names if os.path.lexists(directory / name)}
    found: set[str] = set()
    if len(directory.parts) > 1:  # a bucket, or a directory in it
        with suppress(ForbiddenStore):
            found = {name for name in names if read_file(directory / name) is not None}
    return found


def check_of_copy(
    root: Path, wants: Callable[[TopicPartition], bool], *, is_whole: bool = True, only_logs: bool = False
) -> CopyCheck:
    """Hold the names and sizes of a copy's files against its manifest. No file of a partition is opened.

    Args:
        root: a log dir. Without a manifest, nothing lacks.
        wants: whether a partition matters.
        is_whole: whether the files of the log dir itself matter, too.
        only_logs: whether ``.log`` files matter alone.

    Raises: CorruptManifest, UnreadableFile.
    """
    is_here = not isinstance(root, StoredPath)
    manifest = None
    with suppress(IncompleteCopy):
        manifest = read_manifest(root)
    if manifest is None or (is_here and (root / INCOMPLETE_FILE).exists()):  # a fetch that goes on compares by itself
        return CopyCheck()
    files: defaultdict[str, list[ManifestFile]] = defaultdict(list)
    for file in manifest.files:
        directory = file.path.rpartition("/")[0]
        found = parse_topic_partition(directory)
        if (wants(found) if found else is_whole) and (not only_logs or file.path.endswith(FileKind.LOG)):
            files[directory].append(file)
    lacking = [one for directory, named in sorted(files.items()) for one in _lacking_in(root, directory, named)]
    change = change_since(root, manifest) if lacking else None
    if change is None:
        return CopyCheck(tuple(lacking))
    return CopyCheck() if is_here else CopyCheck(changed=change)


def ensure_whole(root: Path, wants: Callable[[TopicPartition], bool]) -> None:
    """Refuse a copy whose partitions lost segments since its manifest was written.

    Raises: CopyLacksFiles; as ``check_of_copy``.
    """
    lacking = check_of_copy(root, wants, is_whole=False, only_logs=True).lacking
    if lacking:
        raise CopyLacksFiles(root / lacking[0][0], lacking[0][1], len(lacking) - 1)


def change_since(root: Path, manifest: Manifest) -> str | None:
    """Return the name of a file that shows that a broker or a run worked in a copy since; None if none does.

    Whoever works there has a ``.lock``. A broker that stopped removed it, and wrote other checkpoints, on this machine
    at a later time. Raises: UnreadableFile.
    """
    named = {file.path: file for file in manifest.files}
    with as_unreadable(root), entries(root) as listed:
        there = {entry.name for entry in listed}
    is_told_by_time = not isinstance(root, StoredPath)
    made_ns = status_of(root / MANIFEST_FILE).st_mtime_ns
    for name in _NAMED_BY_A_RUN:
        if name not in there:
            if name in named and name == CLEAN_SHUTDOWN_FILE:
                return name
        elif (
            name not in named
            or (is_told_by_time and status_of(root / name).st_mtime_ns > made_ns)
            or _has_other_offsets(root / name, named[name].sha256)
        ):
            return name
    return None


def _has_other_offsets(path: Path, sha256: str) -> bool:
    """Return whether a whole checkpoint, or a mark of a clean stop, is not the one of the manifest."""
    data = read_file(path) or b""
    if hashlib.sha256(data).hexdigest() == sha256:
        return False
    with suppress(CorruptCheckpoint):
        if path.name in CHECKPOINTS:
            parse_offset_checkpoint(data, path)
        return True
    return False


def _lacking_in(root: Path, directory: str, files: Sequence[ManifestFile]) -> Iterator[tuple[str, str]]:
    """Yield what lacks in a directory of a copy: all of it, or some of its files. Raises: UnreadableFile."""
    try:
        with as_unreadable(root / directory), entries(root / directory) as listed:
            sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in listed}
    except UnreadableFile as error:
        if not error.has_vanished:
            raise
        size_bytes = sum(file.size_bytes for file in files)
        yield directory, f"is not here, and the manifest has {counted(len(files), 'file')} of it, {size(size_bytes)}"
        return
    for file in files:
        found = sizes.get(file.path.rpartition("/")[2])
        if found is None:
            yield file.path, f"is not here, and the manifest has {size(file.size_bytes)} of it"
        elif found != file.size_bytes:
            yield file.path, f"has {found:,} bytes, and {file.size_bytes:,} in the manifest"


def damaged_files(root: Path, files: Sequence[ManifestFile]) -> Iterator[tuple[str, str]]:
    """Yield each file that is not what its manifest says, and what is wrong with it. Raises: UnreadableFile."""
    want_whole([root])
    for file in files:
        path = root / file.path
        if root.resolve() not in path.resolve().parents or not path.is_file():
            yield file.path, "is missing"
        elif (size_bytes := path.stat().st_size) != file.size_bytes:
            yield file.path, f"has {size_bytes} bytes, {file.size_bytes} in the manifest"
        elif sha256_of(path) != file.sha256:
            yield file.path, "has another SHA-256 than in the manifest"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, hexadecimal. Raises: UnreadableFile."""
    if isinstance(path, StoredPath):
        from storage.scan.witness import WitnessFile  # noqa: PLC0415 - loads numpy

        with closing(WitnessFile(path)) as stored:
            return stored.sha256()
    return FileSystem().sha256_of(path)


def _partition(copy: PartitionCopy, root: Path, hashed: Callable[[Path], str]) -> dict[str, Any]:
    topic, partition = _topic_partition(copy)
    planned = copy.planned
    known = _known(planned, copy) if isinstance(planned, PartitionPlan) else {}
    files = [_file(path, root, hashed) for path in _files_of(root / copy.name)]
    return {"topic": topic, "partition": partition, "error": copy.error, **known, "files": files}


def _topic_partition(copy: PartitionCopy) -> tuple[str, int]:
    planned = copy.planned
    return (planned.facts if isinstance(planned, PartitionPlan) else planned).topic_partition


def _known(planned: PartitionPlan, copy: PartitionCopy) -> dict[str, Any]:
    facts, deletion = planned.facts, planned.deletion if copy.error is None else None
    return {
        "log_start_offset": deletion.new_log_start_offset if deletion else facts.log_start_offset,
        "log_end_offset": facts.log_end_offset,
        "high_watermark": facts.high_watermark,
        "last_stable_offset": facts.last_stable_offset,
        "compacted_to_offset": copy.compacted_to_offset,
        "configs": _configs(planned.policy),
        "segments": [_segment(verdict, copy) for verdict in planned.verdicts],
    }


def _segment(verdict: Verdict, copy: PartitionCopy) -> dict[str, Any]:
    action, code, text = verdict.action, verdict.reason.code.value, verdict.reason.text
    end_offset = copy.compacted_to_offset
    if copy.error is not None and action is not Action.KEEP:
        action, code, text = Action.KEEP, _FAILED, copy.error
    elif action is Action.COMPACT and isinstance(copy.planned, PartitionPlan) and copy.planned.compaction is None:
        action, code, text = Action.KEEP, _FAILED, _NOT_COMPACTED
    elif action is Action.COMPACT and end_offset is not None and verdict.base_offset >= end_offset:
        action, code, text = Action.KEEP, _ROUND_ENDED, f"the round ended at offset {end_offset}: its map was full"
    base_offset, size_bytes = verdict.base_offset, verdict.size_bytes
    return {"base_offset": base_offset, "bytes": size_bytes, "action": action.value, "code": code, "text": text}


def _configs(policy: TopicPolicy) -> Mapping[str, Any]:
    """Return the configuration that was stated for a topic, and who stated it."""
    return {key: {"value": stated.value, "origin": stated.origin} for key, stated in sorted(policy.stated.items())}


def _files_of(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.iterdir())
    else:
        yield path


def _file(path: Path, root: Path, hashed: Callable[[Path], str]) -> dict[str, Any]:
    status = path.stat()
    has_records = path.suffix == FileKind.LOG and status.st_size
    time = {"mtime_ms": status.st_mtime_ns // 1_000_000} if has_records else {}
    return {
        "path": path.relative_to(root).as_posix(),
        "bytes": status.st_size,
        "sha256": hashed(path),
        **time,
    }
