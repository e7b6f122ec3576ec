"""Batches that keep their offsets and leader epochs: the batches of a follower, and of a quorum's leader.

Source: Kafka UnifiedLog.append without ``validateAndAssignOffsets``.
"""

from __future__ import annotations

from pathlib import Path

from storage.log.errors import UnexpectedAppendOffset
from storage.log.writing.analysis import AppendAnalysis
from storage.log.writing.batches import Admitted, new_batch


def as_given(analysis: AppendAnalysis, data: bytes | memoryview, path: Path, log_end_offset: int) -> Admitted:
    """Return what is written of an append whose batches are analyzed and at least one.

    Args:
        analysis: of ``data``.
        data: begins with the batches.
        path: of the partition.
        log_end_offset: nothing may begin below it; of a batch that does not say where it begins, nothing may end there.

    Raises: UnexpectedAppendOffset.
    """
    first, last = analysis.batches[0], analysis.batches[-1]
    first_offset = analysis.first_offset
    begins = first.last_offset if first_offset is None else first_offset
    if begins < log_end_offset:
        cause = f"the batches begin at offset {begins}, below the log end at {log_end_offset}"
        raise UnexpectedAppendOffset(path, cause, first.base_offset, last.last_offset)
    size_bytes = sum(batch.header.size_bytes for batch in analysis.batches)
    batches = tuple(map(new_batch, analysis.batches))
    return Admitted(memoryview(data)[:size_bytes], batches, analysis.max_timestamp_ms, last.last_offset)
