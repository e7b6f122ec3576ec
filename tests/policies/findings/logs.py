"""Histories of logs, drawn by hand: ``log(segment(0, 10, events=...), segment(10, 20))``."""

from __future__ import annotations

from typing import Any

from policies.findings.findings import LogHistory, SegmentHistory, Standing
from storage.anomalies import CheckedSegment

DIRECTORY = "/data/orders-0"


def standing(base_offset: int = 0, **named: bool) -> Standing:
    """A segment in the middle of a log whose broker stopped cleanly."""
    given = {"is_last": False, "is_live": False, "is_recovered": False} | named
    return Standing(DIRECTORY, base_offset, **given)


def segment(base_offset: int, next_offset: int, **named: Any) -> SegmentHistory:
    """A segment whose batches are all there."""
    stands = named.pop("standing", standing(base_offset))
    told = CheckedSegment(base_offset, 0, 0, next_offset, -1, (), (), (), {}, (), (), None, 0, True, False)
    return SegmentHistory(stands, told._replace(**named))


def log(*segments: SegmentHistory) -> LogHistory:
    """A partition."""
    return LogHistory(DIRECTORY, segments)
