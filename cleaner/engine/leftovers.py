"""Files that earlier runs, or a broker, renamed to ``.deleted``: they go ``file.delete.delay.ms`` after the rename."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cleaner.engine.means import Means
from policies.plan import LogDirPlan, PartitionPlan, path_of
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import Listing, list_partition
from storage.names import FileState
from storage.segment import SegmentFile


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep of a partition unlinked."""

    files: int = 0
    size_bytes: int = 0


def due_leftovers(listing: Listing, now_ms: int, delay_ms: int) -> Iterator[SegmentFile]:
    """``.deleted`` files whose delay is over. A rename sets the change time of a file, so that tells since when it
    waits."""
    for file in listing.in_state(FileState.DELETED):
        if file.changed_ns // 1_000_000 + delay_ms <= now_ms:
            yield file


def sweep(fs: FileSystem, listing: Listing, now_ms: int, delay_ms: int) -> Swept:
    """Unlink the leftovers of one partition that are due, oldest base first.

    Args:
        fs: the disk.
        listing: of the partition.
        now_ms: the clock's time, epoch ms; never a time the user made up.
        delay_ms: ``file.delete.delay.ms``.
    """
    due = list(due_leftovers(listing, now_ms, delay_ms))
    for file in due:
        fs.unlink(file.path, Purpose.REMOVE)
    if due:
        fs.fsync_dir(listing.directory, Purpose.REMOVE)
    return Swept(len(due), sum(file.identity.size_bytes for file in due))


def leftovers_of(plan: LogDirPlan, override_ms: int | None) -> Iterator[tuple[PartitionPlan, Listing, int]]:
    """Partitions whose leftovers may go, with the delay that holds; of the others nobody said that anything may."""
    for partition in plan.partitions:
        if (
            isinstance(partition, PartitionPlan)
            and partition.facts.leftover_files
            and not partition.policy.is_hands_off
        ):
            delay_ms = partition.policy.file_delete_delay_ms if override_ms is None else override_ms
            yield partition, list_partition(Path(path_of(partition.facts))), delay_ms


def sweep_log_dir(
    plan: LogDirPlan, means: Means, errors: list[str], is_wanted: Callable[[], bool] = lambda: True
) -> int:
    """Unlink the leftovers of a log dir that are due; gives their bytes.

    Args:
        plan: of the log dir.
        means: with the delay that holds in place of the topics' own, if one does.
        errors: what fails is added.
        is_wanted: asked before each partition.
    """
    swept_bytes = 0
    for partition, listing, delay_ms in leftovers_of(plan, means.delete_delay_ms):
        if not is_wanted():
            break
        try:
            swept = sweep(means.fs, listing, means.clock.now_ms(), delay_ms)
        except (LogCleanerError, OSError) as error:
            errors.append(str(error))
            continue
        if swept.files:
            topic, number = partition.facts.topic_partition
            fields = {"topic": topic, "partition": number, "files": swept.files, "bytes": swept.size_bytes}
            means.listener.event("files_removed", **fields)
        swept_bytes += swept.size_bytes
    return swept_bytes
