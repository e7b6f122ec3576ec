"""What the lines of the journal say of a deletion and of a compaction."""

from __future__ import annotations

from policies.plan import Compaction, Deletion, PartitionPlan


def deletion_entry(partition: PartitionPlan, deletion: Deletion) -> dict[str, object]:
    """Return the fields of a ``delete`` line, but those that take it back."""
    return {
        "bytes": deletion.size_bytes,
        "log_start_offset": deletion.new_log_start_offset,
        "segments": [
            {
                "base_offset": v.base_offset,
                "bytes": v.size_bytes,
                "code": v.reason.code.value,
                "text": v.reason.text,
            }
            for v in partition.verdicts[: len(deletion.segments)]
        ],
    }


def compaction_entry(compaction: Compaction) -> dict[str, object]:
    """Return the fields of a ``compact`` line."""
    return {
        "bytes": compaction.size_bytes,
        "first_dirty_offset": compaction.round.first_dirty_offset,
        "end_offset": compaction.round.end_offset,
        "groups": [list(group) for group in compaction.round.groups],
    }
