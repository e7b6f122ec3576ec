"""Repairs of some log dirs: check, decide, mend; the plan without the last step is the dry run.

A repair gives a file new content, or cuts bytes that are no batch off the end of a ``.log``.

Order, each step safe to crash behind:
    1. the journal's line;
    2. a copy of the present file, under a scratch name; fsync; rename to ``.deleted``; fsync of the directory;
    3. the new content, under a scratch name; fsync;
    4. a last look: the file, and the logs of its content, have not changed;
    5. rename over the present file; fsync of the directory.
Invariant:  the name always holds the old file or the new one, each whole. No file that a broker needs is ever missing:
            it makes an ``.index`` anew, but takes a missing ``.txnindex`` for "nothing was aborted", missing snapshots
            for "no producers", and sets a directory without ``partition.metadata`` aside. Hence a copy, and not a
            rename of the old file.
A cut:      is one ``ftruncate``, and an fsync, once the index files fit the new end. Zeros are not copied; the journal
            says how many they were. Other bytes that are cut off are copied first, as in step 2, under a name that a
            broker leaves alone.
Scratch:    names that end in ``.logcleaner`` mean nothing to a broker, nor to recovery; the next repair of the file
removes those that a crash left.
Not chosen: a hard link of the old file, which not every file system has; the old file renamed away first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.journal import Journal, ensure_space
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.repair.kept import is_kept_already, kept_name
from cleaner.engine.repair.observing import PlannedRepair, Surroundings, look, plan_repairs, tail_of
from cleaner.engine.verify.checked import Checked, CheckRequest
from cleaner.errors import told
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.repairs import RepairKind, targets_of
from storage.errors import LogCleanerError, PlanOutOfDate
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir, read_file
from storage.names import SCRATCH_SUFFIX

_LINE_BYTES: Final = 1024
"""The most that the journal's line about a cut takes."""
_UNSHOWN: Final = "it needs this only since you were asked, so it was left; the same command shows it"
Check = Callable[[Sequence[LogDir], CheckRequest, Means], Checked]
"""Finds what is wrong in log dirs."""


class Shown(NamedTuple):
    """A repair in the form that a person saw."""

    path: str
    kind: RepairKind


class RepairRequest(NamedTuple):
    """The repairs that were asked for."""

    check: CheckRequest
    """The check that runs first: only files that it finds wrong are mended."""
    kinds: frozenset[RepairKind]
    shown: frozenset[Shown] | None = None
    """The repairs that a person saw and agreed to; None for all that may be done."""


class RepairResult(NamedTuple):
    """The outcome of the repair of one file."""

    planned: PlannedRepair
    is_done: bool = False
    error: str | None = None
    """Why the file was not mended, although it should have been."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """The findings of a check, and the repairs that followed, or would follow."""

    checked: Checked
    results: tuple[RepairResult, ...]
    dry_run: bool
    interrupted: bool = False
    """Whether a signal ended the repairs: a target without a result was not examined."""

    @property
    def repairable(self) -> tuple[Shown, ...]:
        """The repairs that may be done."""
        planned = (result.planned.repair for result in self.results)
        return tuple(Shown(one.target.path, one.target.kind) for one in planned if one.is_repairable)

    @property
    def done(self) -> int:
        """The number of files that were mended."""
        return sum(result.is_done for result in self.results)

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The findings that no repair ends, worst first."""
        mended = {
            result.planned.repair.target.path
            for result in self.results
            if (result.planned.repair.is_repairable if self.dry_run else result.is_done)
        }
        return tuple(one for one in self.checked.findings if one.path not in mended or _tells_of_a_loss(one))

    @property
    def is_damaged(self) -> bool:
        """Return whether a finding worse than waste remains."""
        return any(finding.harm < Harm.WASTE for finding in self.remaining)

    @property
    def has_failed(self) -> bool:
        """Return whether a repair that may be done failed."""
        return any(result.error for result in self.results)


def plan_of(opened: OpenLogDirs, request: RepairRequest, check: Check) -> Repairs:
    """Return what ``repair_log_dirs`` would do. Nothing is changed, and no lock is needed.

    Args:
        opened: log dirs of one broker, with their configuration.
        request: the check, and the kinds of repairs that were asked for.
        check: finds what is wrong.

    Raises: Stopped, UnreadableFile.
    """
    checked, planned = _planned(opened, request, check)
    return Repairs(checked, tuple(map(_rehearsed, planned)), dry_run=True)


def repair_log_dirs(opened: OpenLogDirs, request: RepairRequest, check: Check) -> Repairs:
    """Carry out the repairs that may be done. The caller holds the locks. Arguments and errors as for ``plan_of``."""
    request = request._replace(check=replace(request.check, is_locked_by_us=True))
    checked, planned = _planned(opened, request, check)
    results: list[RepairResult] = []
    with ExitStack() as journals:
        repairing = _Repairing(opened.means, journals, request.shown)
        for one in planned:
            if opened.means.stopping():
                break
            results.append(repairing.result(one))
    return Repairs(checked, tuple(results), dry_run=False, interrupted=opened.means.stopping())


def mend(fs: FileSystem, journal: Journal, planned: PlannedRepair, now_ms: int) -> None:
    """Carry a repair out.

    Args:
        fs: the disk.
        journal: of the log dir.
        planned: a repair that may be done, with its data.
        now_ms: epoch ms, for the journal.

    Raises: PlanOutOfDate if a file changed since the look; JournalFull, OutOfSpace, UnsafeOwner, UnsafeFile,
        OSError. The file then stays as it was.
    """
    _ensure_unchanged(planned)
    present = read_file(planned.path) if planned.identity and planned.content is not None else None
    journal.record("repair", now_ms, **_entry(planned, present))
    if planned.content is None:
        _cut(fs, planned)
    else:
        _replace(fs, planned, planned.content, present)


def _rehearsed(planned: PlannedRepair) -> RepairResult:
    """Return a repair as planned, with the error of a log dir that has no space for it."""
    result = RepairResult(planned._replace(content=None))
    if not planned.repair.is_repairable:
        return result
    is_plain_cut = planned.content is None and planned.tail_copy is None
    try:
        ensure_space(planned.path.parent.parent, _LINE_BYTES if is_plain_cut else None)
    except LogCleanerError as error:
        return result._replace(error=told(error))
    return result


def _tells_of_a_loss(finding: Finding) -> bool:
    """Return whether a finding says that records are gone, which no repair brings back."""
    return finding.code is FindingCode.OFFSET_GAP and finding.harm is Harm.DATA_LOST


def _planned(opened: OpenLogDirs, request: RepairRequest, check: Check) -> tuple[Checked, Iterator[PlannedRepair]]:
    checked = check(opened.log_dirs, request.check, opened.means)
    targets = targets_of(checked.findings, request.kinds)
    return checked, plan_repairs(targets, Surroundings(opened.log_dirs, opened.layers))


class _Repairing:
    def __init__(self, means: Means, journals: ExitStack, shown: Collection[Shown] | None) -> None:
        self._means, self._closing, self._shown = means, journals, shown
        self._journals: dict[Path, Journal] = {}
        self._failed: set[Path] = set()

    def result(self, planned: PlannedRepair) -> RepairResult:
        """Carry out a repair if it may be done, and return its result."""
        result = self._result(planned)
        if result.error is not None:
            self._failed.add(planned.path)
        return result

    def _result(self, planned: PlannedRepair) -> RepairResult:
        result, target = RepairResult(planned._replace(content=None)), planned.repair.target
        if not planned.repair.is_repairable:
            return result
        if self._shown is not None and Shown(target.path, target.kind) not in self._shown:
            return result._replace(error=_UNSHOWN)
        if unmended := [path.name for path in planned.needs if path in self._failed]:
            return result._replace(error=f"{', '.join(unmended)} could not be mended, so nothing was cut; run it again")
        return self._attempt(planned, result)

    def _journal(self, log_dir: Path) -> Journal:
        if log_dir not in self._journals:
            means = self._means
            self._journals[log_dir] = self._closing.enter_context(
                closing(Journal(log_dir, means.fs, means.clock.boot()))
            )
        return self._journals[log_dir]

    def _attempt(self, planned: PlannedRepair, result: RepairResult) -> RepairResult:
        """Carry out one repair. A failure becomes its result, and the other repairs go on."""
        assert planned.topic_partition is not None
        means, place = self._means, planned.topic_partition._asdict()
        journal = self._journal(planned.path.parent.parent)
        try:
            mend(means.fs, journal, planned, means.clock.now_ms())
        except (LogCleanerError, OSError) as error:
            self._note_failure(journal, planned, told(error))
            means.listener.event("partition_failed", **place, error=told(error))
            return result._replace(error=told(error))
        fields = {"path": str(planned.path), "kind": planned.repair.target.kind.value}
        means.listener.event("file_repaired", **place, **fields, bytes=planned.repair.made_bytes)
        return result._replace(is_done=True)

    def _note_failure(self, journal: Journal, planned: PlannedRepair, error: str) -> None:
        """Write that the repair of the line before failed.

        If even this line finds no space, only the report says so.
        """
        fields = {"partition": str(planned.topic_partition), "file": planned.repair.target.name}
        with suppress(LogCleanerError, OSError):
            journal.record("repair-failed", self._means.clock.now_ms(), **fields, error=error)


def _ensure_unchanged(planned: PlannedRepair) -> None:
    """Look again. Raises: PlanOutOfDate."""
    for path, identity in (*planned.sources, (planned.path, planned.identity)):
        if look(path) != identity:
            raise PlanOutOfDate(path, "another size, time or file")


def _cut(fs: FileSystem, planned: PlannedRepair) -> None:
    assert planned.repair.made_bytes is not None
    if planned.tail_copy is not None:
        _keep_tail(fs, planned, planned.tail_copy)
        _ensure_unchanged(planned)
    fs.truncate(planned.path, planned.repair.made_bytes, Purpose.REPAIR)
    with fs.open_to_append(planned.path, Purpose.REPAIR) as file:
        file.fsync()


def _keep_tail(fs: FileSystem, planned: PlannedRepair, copy: Path) -> None:
    """Copy the bytes that are cut off, durably."""
    tail = _tail(planned)
    if copy.exists() and read_file(copy) == tail:
        return
    scratch = _scratch(copy)
    _remove(fs, (scratch,))
    _write(fs, scratch, planned.path, tail)
    fs.rename(scratch, copy, Purpose.REPAIR)
    fs.fsync_dir(copy.parent, Purpose.REPAIR)


def _tail(planned: PlannedRepair) -> bytes:
    return tail_of(planned.path, planned.repair.made_bytes or 0)


def _scratch(path: Path) -> Path:
    return path.with_name(path.name + SCRATCH_SUFFIX)


def _remove(fs: FileSystem, paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            fs.unlink(path, Purpose.REPAIR)


def _write(fs: FileSystem, path: Path, like: Path, content: bytes, mtime_ns: int | None = None) -> None:
    with fs.create(path, like, Purpose.REPAIR) as file:
        file.write(content)
        if mtime_ns is not None:
            file.set_mtime(mtime_ns)
        file.fsync()


def _replace(fs: FileSystem, planned: PlannedRepair, content: bytes, present: bytes | None) -> None:
    path = planned.path
    scratch, kept = _scratch(path), path.with_name(kept_name(path.name))
    _remove(fs, (scratch, _scratch(kept)))
    try:
        if present is not None and planned.identity and not is_kept_already(path, present):
            _write(fs, _scratch(kept), path, present, planned.identity.mtime_ns)
            fs.rename(_scratch(kept), kept, Purpose.REPAIR)
            fs.fsync_dir(path.parent, Purpose.REPAIR)
        _write(fs, scratch, _model(planned), content)
        _ensure_unchanged(planned)
        fs.rename(scratch, path, Purpose.REPAIR)
        fs.fsync_dir(path.parent, Purpose.REPAIR)
    except (LogCleanerError, OSError):
        with suppress(LogCleanerError, OSError):
            _remove(fs, (scratch, _scratch(kept)))
        raise


def _model(planned: PlannedRepair) -> Path:
    """Return the file whose owner and mode the new file gets: the present file, or a ``.log`` beside it if there is
    none.
    """
    if planned.identity is not None or not planned.sources:
        return planned.path if planned.identity is not None else planned.path.parent
    return planned.sources[-1][0]


def _entry(planned: PlannedRepair, present: bytes | None) -> dict[str, object]:
    """Return the fields of a ``repair`` line: enough to take it back."""
    identity, content, target = planned.identity, planned.content, planned.repair.target
    fields: dict[str, object] = {
        "partition": str(planned.topic_partition),
        "kind": target.kind.value,
        "file": target.name,
        "bytes": planned.repair.made_bytes,
        "findings": list(target.findings),
    }
    if content is None:
        assert identity is not None
        undo: dict[str, object] = {"cut_from": identity.size_bytes}
        if planned.tail_copy is not None:
            tail = _tail(planned)
            undo |= {"copy": planned.tail_copy.name, "tail": [len(tail), zlib.crc32(tail)]}
        return {**fields, "undo": undo}
    kept = [len(present), identity.mtime_ns, zlib.crc32(present)] if identity and present is not None else None
    return {**fields, "undo": {"made": [len(content), zlib.crc32(content)], "kept": kept}}
