"""Write a copy of a log dir without the records of some keys. The original is never touched.

Steps:      as of every copy (``cleaner.engine.copy.copying``). Of each partition, all segments are read as for an
            erasure in place; those that lose records are written anew into the copy, the others copied as they are.
Refused:    a partition of which nothing may be erased, or that cannot be read, is copied as it is, and named: the copy
            is what an erasure in place would leave. If no partition may lose a record, nothing is written.
Journal:    the copy gets one of its own, with the lines of an erasure in place. By the id of the request in them, the
            same command certifies a copy that was finished before its certificate was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.compaction.targets import IntoCopy
from cleaner.engine.compactor import Local
from cleaner.engine.copy.copying import Copier, check_room, check_usable
from cleaner.engine.copy.manifest import change_since, read_manifest
from cleaner.engine.copy.moment import Moment
from cleaner.engine.erase.erasing import (
    STOPPED,
    Certify,
    ErasedPartition,
    Eraser,
    Erasure,
    ErasureRequest,
    erase_entry,
    plan_erasure,
    tell_erased,
)
from cleaner.engine.journal import encode_entry, read_entries
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.errors import told
from policies.config.config_layers import Configured
from policies.facts import UnreadablePartition
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan
from storage.errors import LogCleanerError, Stopped
from storage.log.listing import Listing
from storage.log_dir import IncompleteCopy, LogDir
from storage.segment import Segment
from storage.stores.paths import look_anew


def plan_erased_copy(cleaner: Cleaner, asked: ErasureRequest) -> Erasure:
    """Return what a copy would lose, with the sizes of its segments. It takes no lock, and writes nothing.

    Raises: UnusableOutput, CopyDoesNotFit, Stopped.
    """
    opened, output = cleaner.opened(), _output_of(asked)
    (log_dir,) = opened.log_dirs
    check_usable(output, log_dir)
    (log_dir_plan,) = cleaner.plan(asked.request).log_dirs
    moment = Moment.of(log_dir, asked.request.topics)
    check_room(output, _copier(log_dir, log_dir_plan, moment, asked, opened.means, "").needed_bytes())
    return plan_erasure(cleaner, asked, measured=True)


def erase_into_copy(
    cleaner: Cleaner, asked: ErasureRequest, *, tool_version: str, certify: Certify | None = None
) -> Erasure:
    """Write a copy of one log dir without the records.

    Args:
        cleaner: of the log dir.
        asked: keys and topics; the copy holds no other topics.
        tool_version: for the manifest.
        certify: makes a certificate of it while the original is still locked, if it can be locked; not if no copy is
            written.

    Raises: as ``Cleaner.copy``.
    """
    output = _output_of(asked)
    if certify is not None and (done := _erased_before(cleaner, asked)) is not None:
        certify.begin()
        certify.take(cleaner.opened(), done)
        return done
    with cleaner.locked_to_copy(output, asked.request.topics) as (log_dir, moment, means):
        opened = OpenLogDirs((log_dir,), cleaner.opened().layers, means)
        planned = cleaner.plan(asked.request)
        (log_dir_plan,) = planned.log_dirs
        eraser = Eraser(opened, planned, asked)
        if not _may_lose(eraser, log_dir_plan):
            return eraser.all_partitions(eraser.planned)
        writer = _Writer(eraser, log_dir_plan, asked, means)
        copier = _copier(log_dir, log_dir_plan, moment, asked, means, tool_version)
        copier.instead, copier.journal = writer, writer.journal
        now_ms = means.clock.now_ms()
        if certify is not None:
            check_room(output, copier.needed_bytes())
            certify.begin()
        try:
            copier.copy_to(output)
        except Stopped:
            error = f"{output}: the copy was not finished: stopped; remove what there is of it, and run again"
            return Erasure((), (error,), now_ms, output=str(output))
        done = Erasure(writer.all_found(), (), now_ms, is_done=True, output=str(LogDir.open(output).path))
        if certify is not None:
            certify.take(opened, done)
        return done


def _output_of(asked: ErasureRequest) -> Path:
    assert asked.output is not None
    return asked.output


def _copier(
    log_dir: LogDir, planned: LogDirPlan, moment: Moment, asked: ErasureRequest, means: Means, tool_version: str
) -> Copier:
    """Return what copies all that a plan names, whatever the plan would do with it."""
    partitions = tuple(
        replace(p, verdicts=(), deletion=None, compaction=None, checkpoint_offset=None)
        if isinstance(p, PartitionPlan)
        else p
        for p in planned.partitions
    )
    bare = replace(planned, partitions=partitions)
    return Copier(log_dir, bare, moment, asked.request, means, tool_version, Local())


def _may_lose(eraser: Eraser, planned: LogDirPlan) -> bool:
    """Return whether a record may go from any partition, as far as the facts tell."""
    known = (p for p in planned.partitions if isinstance(p, PartitionPlan))
    return not planned.facts.errors and any(eraser.refused(planned, one) is None for one in known)


@dataclass(slots=True)
class _Writer:
    """Writes the segments of a copy."""

    eraser: Eraser
    planned: LogDirPlan
    asked: ErasureRequest
    means: Means
    journal: list[bytes] = field(default_factory=list)
    """The lines of the copy's journal."""
    found: dict[PartitionKey, ErasedPartition] = field(default_factory=dict)

    def __call__(
        self, partition: PartitionPlan, listing: Listing, target: Path, keep: Callable[[Segment], None]
    ) -> None:
        """Write the segments of one partition. Raises: LogCleanerError, OSError."""
        facts = partition.facts
        self.found[partition.key] = nothing = ErasedPartition(facts.topic_partition, facts.log_dir)
        if refused := self.eraser.refused(self.planned, partition):
            self.found[partition.key] = replace(nothing, refused=refused)
            for segment in listing.segments:
                keep(segment)
            return
        try:
            self._write(partition, listing, target, keep)
        except Stopped:
            self.found[partition.key] = replace(nothing, error=STOPPED)
            raise
        except (LogCleanerError, OSError, MemoryError) as error:
            self.found[partition.key] = replace(nothing, error=f"{told(error)}; the copy has it as it is")
            raise

    def _write(self, partition: PartitionPlan, listing: Listing, target: Path, keep: Callable[[Segment], None]) -> None:
        work = self.eraser.read(partition, listing, is_locked=False)
        found = self.eraser.with_hashes(work)
        losing = {segment.base_offset for segment in found.segments}
        for segment in work.recovered.segments:
            if segment.base_offset not in losing:
                keep(segment)
        into = IntoCopy(target, partition.policy.index_interval_bytes, self.means.fs, keep)
        sizes = [size for _, size in self.eraser.rewritten(work, into, is_locked=False)]
        segments = (replace(s, size_after=size) for s, size in zip(found.segments, sizes, strict=True))
        found = replace(found, segments=tuple(segments), done_segments=len(sizes))
        self.found[partition.key] = found
        if sizes:
            name, request = str(found.topic_partition), self.asked.certified_as
            entry = {"time_ms": self.means.clock.now_ms(), "what": "erase", "partition": name}
            self.journal.append(encode_entry({**entry, **erase_entry(found, request)}))
        tell_erased(found, self.means)

    def all_found(self) -> tuple[ErasedPartition, ...]:
        """Return the outcome in every partition, in the order of the plan."""
        partitions: list[ErasedPartition] = []
        for one in self.planned.partitions:
            if isinstance(one, UnreadablePartition):
                error = f"{one.error}; the copy has it as it is"
                partitions.append(ErasedPartition(one.topic_partition, one.log_dir, error=error))
            elif one.key in self.found:
                partitions.append(self.found[one.key])
        return tuple(partitions)


def _erased_before(cleaner: Cleaner, asked: ErasureRequest) -> Erasure | None:
    """Return the state of a copy that an earlier run of the same request finished; None if the output is no such copy.

    Nobody worked in it since, and no record of the keys is left that could go. Raises: UnreadableFile.
    """
    output = _output_of(asked)
    look_anew([output])
    (log_dir,) = cleaner.opened().log_dirs
    try:
        manifest = read_manifest(output) if output.is_dir() else None
    except IncompleteCopy:
        return None
    if manifest is None or manifest.original != str(log_dir.path) or change_since(output, manifest):
        return None
    if not any(entry.get("request") == asked.certified_as for entry in read_entries(output, "erase")):
        return None
    opened = cleaner.opened()
    of_copy = Cleaner(Configured((output,), opened.layers), opened.means)
    found = replace(
        plan_erasure(of_copy, asked), is_done=True, output=str(LogDir.open(output).path), only_certified=True
    )
    if found.records:
        return None
    partitions = (replace(one, log_dir=str(log_dir.path)) for one in found.partitions)
    return replace(found, partitions=tuple(partitions))
