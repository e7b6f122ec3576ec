"""Look at the ``.deleted`` files of a partition: how many, how large, since when, and who renamed them."""

from __future__ import annotations

from pathlib import Path

from cleaner.engine.journal import read_journal
from cleaner.engine.leftovers import Leftovers
from policies.explain.observations import WaitingFiles
from policies.facts import PartitionFacts
from policies.plan import PartitionPlan, path_of
from storage.log.listing import list_partition
from storage.names import FileState
from storage.segment import SegmentFile


def waiting_files(planned: PartitionPlan) -> WaitingFiles | None:
    """Return the ``.deleted`` files of a partition that may go; None if there are none. Raises: UnreadableFile."""
    facts = planned.facts
    listing = list_partition(Path(path_of(facts)))
    if not listing.in_state(FileState.DELETED):
        return None
    left = Leftovers.of(planned, listing, planned.policy.file_delete_delay_ms)
    files = left.waiting
    if not files:
        return None
    due_ms = [left.due_ms(file) for file in files]
    replaced_ms = _replaced_ms(facts)
    return WaitingFiles(
        len(files),
        sum(file.size_bytes for file in files),
        sum(file.disk_bytes for file in files),
        sum(not left.is_journalled(file) and not _is_replaced(file, replaced_ms) for file in files),
        min(due_ms),
        max(due_ms),
    )


def _replaced_ms(facts: PartitionFacts) -> dict[int, int]:
    """Return when a compaction of ours last began to replace the segment of each base offset, epoch ms."""
    replaced_ms: dict[int, int] = {}
    for entry in read_journal(Path(facts.log_dir)):
        match entry:
            case {"what": "compact", "partition": name, "time_ms": int(time_ms), "groups": list(groups)}:
                if name == str(facts.topic_partition):
                    bases = [base for group in groups if isinstance(group, list) for base in group]
                    replaced_ms.update(dict.fromkeys(bases, time_ms))
    return replaced_ms


def _is_replaced(file: SegmentFile, replaced_ms: dict[int, int]) -> bool:
    began_ms = replaced_ms.get(file.name.base_offset)
    return began_ms is not None and began_ms <= file.changed_ns // 1_000_000
