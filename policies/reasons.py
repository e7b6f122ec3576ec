"""Why a segment stays or goes: one value holds the code, the sentence with its numbers, and until when it holds."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple


class Action(StrEnum):
    """What happens to a segment."""

    KEEP = "keep"
    DELETE = "delete"
    COMPACT = "compact"


class ReasonCode(StrEnum):
    """The closed list of reasons. Adding one is a minor version, changing one a major (docs/reasons.md)."""

    LOG_START_OFFSET = "LOG_START_OFFSET"
    RETENTION_SIZE = "RETENTION_SIZE"
    RETENTION_TIME = "RETENTION_TIME"

    DIRTY = "DIRTY"
    CLEAN_BEFORE = "CLEAN_BEFORE"

    TIME_NOT_REACHED = "TIME_NOT_REACHED"
    FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"
    WITHIN_SIZE = "WITHIN_SIZE"
    NO_LIMIT = "NO_LIMIT"
    BEHIND_KEPT_SEGMENT = "BEHIND_KEPT_SEGMENT"
    ACTIVE_EMPTY = "ACTIVE_EMPTY"
    ABOVE_HIGH_WATERMARK = "ABOVE_HIGH_WATERMARK"
    NO_HIGH_WATERMARK = "NO_HIGH_WATERMARK"
    TORN_TAIL = "TORN_TAIL"

    ACTIVE_SEGMENT = "ACTIVE_SEGMENT"
    NOTHING_DIRTY = "NOTHING_DIRTY"
    DIRTY_RATIO_LOW = "DIRTY_RATIO_LOW"
    MIN_COMPACTION_LAG = "MIN_COMPACTION_LAG"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"

    HELD = "HELD"
    POLICY_EMPTY = "POLICY_EMPTY"
    REMOTE_STORAGE = "REMOTE_STORAGE"
    CONFIG_UNKNOWN = "CONFIG_UNKNOWN"
    CLEANER_DISABLED = "CLEANER_DISABLED"
    NOT_ASKED = "NOT_ASKED"
    TARGET_MET = "TARGET_MET"
    NO_GAIN = "NO_GAIN"

    CLOCK_JUMPED = "CLOCK_JUMPED"
    FOREIGN_CONFIG = "FOREIGN_CONFIG"
    MAX_DELETE_RATIO = "MAX_DELETE_RATIO"


class Reason(NamedTuple):
    """A code for scripts, a sentence for people, and the moment (epoch ms) from which it may no longer hold."""

    code: ReasonCode
    text: str
    until_ms: int | None = None


class Verdict(NamedTuple):
    """What happens to one segment, and why. ``size_bytes`` are those of its ``.log``. Cheap: there are many."""

    base_offset: int
    size_bytes: int
    action: Action
    reason: Reason


_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_YEAR_9999_MS: Final = 253_402_300_799_000


INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


def as_int64(number: int) -> int:
    """Return the number cut to the ends of int64: what reads our JSON, and our kernels, hold no greater one."""
    return max(INT64_MIN, min(number, INT64_MAX))


def moment(time_ms: int) -> str:
    """``2026-11-21T06:03:34Z``; an absurd time is shown as its number."""
    if not 0 <= time_ms <= _YEAR_9999_MS:
        return f"{time_ms} ms"
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(span_ms: int) -> str:
    """The largest unit, and the next one where there is a rest: ``3d``, ``3d 4h``, ``250ms``."""
    if span_ms <= 0:
        return "0ms"
    for place, (unit, size_ms) in enumerate(_UNITS_MS):
        if span_ms >= size_ms:
            whole, rest = divmod(span_ms, size_ms)
            if place + 1 < len(_UNITS_MS) and (minor := rest // _UNITS_MS[place + 1][1]):
                return f"{whole}{unit} {minor}{_UNITS_MS[place + 1][0]}"
            return f"{whole}{unit}"
    raise AssertionError(span_ms)
