"""Files that earlier runs, or a broker, renamed to ``.deleted``: they are unlinked ``file.delete.delay.ms`` after the
rename.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cleaner.engine.means import Means
from cleaner.engine.only_copies import NOTHING_KEPT, Kept, OnlyCopies
from cleaner.engine.repair.kept import kept_others
from cleaner.engine.undo_notes import RenameTimes, due_ms, is_journalled
from cleaner.errors import told
from policies.findings.only_copies import KeptFile
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan, Request, path_of
from storage.directory import status_of
from storage.errors import LogCleanerError, UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import Listing, list_partition
from storage.log_dir import LogDir
from storage.names import FileKind, FileState, parse_segment_file_name, segment_file_name
from storage.segment import SegmentFile
from storage.stores.paths import path_of_text


class Swept(NamedTuple):
    """The files that one sweep of a partition unlinked."""

    files: int = 0
    size_bytes: int = 0
    disk_bytes: int = 0
    """The bytes of their blocks; blocks that another hard link keeps do not count."""

    @classmethod
    def of(cls, files: Sequence[SegmentFile]) -> Swept:
        """Return the figures of some files."""
        disk_bytes = sum(file.disk_bytes for file in files if file.links == 1)
        return cls(len(files), sum(file.size_bytes for file in files), disk_bytes)

    @classmethod
    def total(cls, found: Iterable[Swept]) -> Swept:
        """Add up."""
        return cls(*(sum(column) for column in zip(cls(), *found, strict=True)))


class Leftovers(NamedTuple):
    """A partition whose leftovers may go, with the delay in force, and the renames in the journal."""

    partition: PartitionPlan
    listing: Listing
    delay_ms: int
    """``file.delete.delay.ms``."""
    renamed_ms: RenameTimes
    kept: Kept = NOTHING_KEPT
    """The ``.deleted`` logs that nobody may unlink, and neither the files that wait beside them."""
    is_asked: bool = False
    """Whether the user of this run asked for the delay. Then no promise of an earlier run counts."""

    @classmethod
    def of(
        cls,
        partition: PartitionPlan,
        listing: Listing,
        delay_ms: int,
        rule: OnlyCopies | None = None,
        *,
        is_asked: bool = False,
    ) -> Leftovers:
        """Return the leftovers of a partition, and find the files that must be kept.

        Args:
            partition: the partition.
            listing: of its directory.
            delay_ms: ``file.delete.delay.ms``, or the delay that the user asked for.
            rule: of the log dir; made here for a single partition.
            is_asked: whether the user of this run asked for the delay.
        """
        facts = partition.facts
        rule = rule or OnlyCopies(LogDir(path_of_text(facts.log_dir)))
        renamed_ms, kept = rule.renamed_ms(facts.topic_partition), rule.of(facts.topic_partition, listing)
        return cls(partition, listing, delay_ms, renamed_ms, kept, is_asked)

    @property
    def waiting(self) -> list[SegmentFile]:
        """The ``.deleted`` files that may go."""
        files = self.listing.in_state(FileState.DELETED)
        return [file for file in files if file.name.base_offset not in self.kept.copies]

    def kept_files(self) -> Iterator[KeptFile]:
        """Yield the ``.deleted`` logs that stay."""
        facts, why = self.partition.facts, self.kept.unknown_because
        for base_offset, copy in self.kept.copies.items():
            name = segment_file_name(base_offset, FileKind.LOG, FileState.DELETED)
            yield KeptFile(facts.topic_partition, facts.log_dir, name, copy, why)

    def due_ms(self, file: SegmentFile) -> int:
        """Return when the delay of a file is over, epoch ms.

        The delay counts from the journal's line, which no ``chmod`` and no copy changes; for a file that the journal
        does not know, from its change time, which a rename sets. If an earlier run promised that the file waits longer,
        the promise counts, unless the user of this run asked for another delay.
        """
        return due_ms(file, self.delay_ms, self.renamed_ms, is_asked=self.is_asked)

    def is_journalled(self, file: SegmentFile) -> bool:
        """Return whether a line of the journal tells of the file's rename."""
        return is_journalled(file, self.renamed_ms)

    def others_due_ms(self) -> Iterator[tuple[Path, int]]:
        """Yield the files of other kinds that repairs replaced, and when the delay of each is over, epoch ms."""
        for name in kept_others(self.listing.others):
            path = self.listing.directory / name
            with suppress(FileNotFoundError):
                yield path, status_of(path).st_ctime_ns // 1_000_000 + self.delay_ms

    def others_due(self, now_ms: int) -> list[Path]:
        """Return the files of other kinds that repairs replaced, and whose delay is over."""
        return [path for path, due_ms in self.others_due_ms() if due_ms <= now_ms]

    def due(self, now_ms: int) -> Iterator[SegmentFile]:
        """Yield the ``.deleted`` files whose delay is over."""
        return (file for file in self.waiting if self.due_ms(file) <= now_ms)


def next_removals(plan: LogDirPlan) -> Iterator[tuple[PartitionKey, int]]:
    """Yield each partition with leftovers that may go, and when the first delay is over, epoch ms.

    Raises: UnreadableFile.
    """
    for left in leftovers_of(plan, None):
        moments = [left.due_ms(file) for file in left.waiting]
        if moments := [*moments, *(due_ms for _, due_ms in left.others_due_ms())]:
            yield left.partition.key, min(moments)


def _journalled(left: Leftovers) -> Leftovers:
    """Leave out files that no line of the journal names."""
    files = tuple(file for file in left.listing.files if left.is_journalled(file))
    return left._replace(listing=Listing(left.listing.directory, files, left.listing.others))


def gaining(files: Iterable[SegmentFile]) -> list[SegmentFile]:
    """Return the files whose unlinking frees space.

    If one file of a base offset has another hard link, all files of that offset are left out.
    """
    listed = list(files)
    linked = {file.name.base_offset for file in listed if file.links > 1}
    return [file for file in listed if file.name.base_offset not in linked]


def sweep(fs: FileSystem, left: Leftovers, now_ms: int, *, for_space: bool = False) -> Swept:
    """Unlink the leftovers of one partition that are due, oldest base first.

    Args:
        fs: the disk.
        left: of the partition.
        now_ms: the clock's time, epoch ms; never that of ``--now``.
        for_space: leave files that would free no space.

    Raises: PlanOutOfDate if another file has taken the place of a listed file.
    """
    due = gaining(left.due(now_ms)) if for_space else list(left.due(now_ms))
    for file in due:
        file.ensure_as_listed()
        fs.unlink(file.path, Purpose.REMOVE)
    others = left.others_due(now_ms)
    for path in others:
        fs.unlink(path, Purpose.REMOVE)
    if due or others:
        fs.fsync_dir(left.listing.directory, Purpose.REMOVE)
    return Swept.of(due)


def leftovers_of(plan: LogDirPlan, override_ms: int | None) -> Iterator[Leftovers]:
    """Yield the partitions whose leftovers may go, without those of unknown configuration or on hold.

    If the clock is not to be believed, no delay is over.
    """
    if plan.guard:
        return
    partitions = [p for p in plan.partitions if isinstance(p, PartitionPlan) and _may_go(p)]
    rule = OnlyCopies(LogDir(path_of_text(plan.facts.path)))
    for partition in partitions:
        delay_ms = partition.policy.file_delete_delay_ms if override_ms is None else override_ms
        try:
            listing = list_partition(path_of_text(path_of(partition.facts)))
        except UnreadableFile:  # the actions report the error; beside a live broker the directory may be gone
            continue
        yield Leftovers.of(partition, listing, delay_ms, rule, is_asked=override_ms is not None)


def kept_files(plan: Plan) -> tuple[KeptFile, ...]:
    """Return the files that no run takes although their kind may go."""
    return tuple(file for log_dir in plan.log_dirs for file in _kept_in(log_dir))


def _kept_in(plan: LogDirPlan) -> Iterator[KeptFile]:
    for partition in plan.partitions:
        if isinstance(partition, PartitionPlan):
            facts = partition.facts
            start = partition.deletion.new_log_start_offset if partition.deletion else 0
            for name in facts.lone_indexes:
                if (parsed := parse_segment_file_name(name)) and parsed.base_offset >= start:
                    yield KeptFile(facts.topic_partition, facts.log_dir, name)
    for left in leftovers_of(plan, None):
        yield from left.kept_files()


def _may_go(partition: PartitionPlan) -> bool:
    facts = partition.facts
    return facts.leftover_files > 0 and facts.held_since_ms is None and not partition.policy.is_hands_off


def sweep_log_dir(
    plan: LogDirPlan, request: Request, means: Means, errors: list[str], *, only_journalled: bool = False
) -> Swept:
    """Unlink the leftovers of a log dir that are due.

    Args:
        plan: of the log dir.
        request: states the delay, unless that of the topic counts.
        means: of the run.
        errors: takes the failures.
        only_journalled: leave alone files that no line of the journal names.
    """
    swept: list[Swept] = []
    for found in leftovers_of(plan, request.delete_delay_ms):
        left = _journalled(found) if only_journalled else found
        now_ms = means.clock.now_ms()
        if not any(left.due(now_ms)) and not left.others_due(now_ms):
            continue
        if not means.may_begin():
            break
        swept.append(sweep_partition(left, means, errors))
    return Swept.total(swept)


def sweep_partition(left: Leftovers, means: Means, errors: list[str], *, for_space: bool = False) -> Swept:
    """Unlink the leftovers of a partition that are due, and log an event. Arguments as for the two functions above."""
    try:
        swept = sweep(means.fs, left, means.clock.now_ms(), for_space=for_space)
    except (LogCleanerError, OSError) as error:
        errors.append(told(error))
        return Swept()
    if swept.files:
        place = left.partition.facts.topic_partition._asdict()
        means.listener.event("files_removed", **place, files=swept.files, bytes=swept.size_bytes)
    return swept
