"""The first record that is as late as a timestamp, found by a kernel in the plain records of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def find_as_late(
    payload: bytes | memoryview,
    record_count: int,
    delta_max: int,
    base_timestamp_ms: int,
    timestamp_ms: int,
    least_delta: int,
) -> tuple[int, int] | None:
    """Return the offset delta of the record, -1 if there is none, and its timestamp.

    Args:
        payload: the plain records of one batch.
        record_count: of the batch's header.
        delta_max: last offset of the batch minus its base.
        base_timestamp_ms: of the batch's header.
        timestamp_ms: epoch ms.
        least_delta: records whose offset delta is below it are passed over.

    Returns: None if no kernel runs here, or if it does not take the records.
    """
    finding = _finding()
    if finding is None or not payload:
        return None
    return finding(payload, record_count, delta_max, base_timestamp_ms, timestamp_ms, least_delta)


@cache
def _finding() -> Callable[[bytes | memoryview, int, int, int, int, int], tuple[int, int] | None] | None:
    """Return what calls the kernel; None if no kernel runs here. Who looks up by offset alone loads none."""
    from storage.kernels import why_unusable  # noqa: PLC0415

    if why_unusable() is not None:
        return None
    from numpy import frombuffer, uint8  # noqa: PLC0415

    from storage.kernels.records import first_as_late  # noqa: PLC0415

    def find(payload: bytes | memoryview, *wanted: int) -> tuple[int, int] | None:
        status, delta, found_ms = first_as_late(frombuffer(payload, uint8), 0, len(payload), *wanted)
        return (delta, found_ms) if status == 0 else None

    return find
