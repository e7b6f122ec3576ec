"""The reason why a segment stays or goes: a code, a sentence, and until when; and the format of numbers in a sentence.

A number beside a limit is written in the limit's unit, and so finely that the two never look alike. The limit is shown
as ``show_value`` does. The number is cut off behind some place, always downwards. If it is above the limit, it gets
more places until the sentence shows that; if it is below, cutting off cannot reach the limit. A limit that is whole in
no unit is itself shown cut off: a number that would look like it is shown in bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from policies.config.config_keys import LONG_MAX, Value, ValueUnit
from policies.config.config_values import BINARY, about, exact_scale
from policies.config.policy import Layer, Stated

UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_YEAR_9999_MS: Final = 253_402_300_799_000

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_FAR: Final = 10
"""The factor above or below its limit from which on a number is shown in its own unit, because nobody mistakes
the two.
"""
_LAST: Final = len(UNITS_MS) - 1

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Action(StrEnum):
    """The fate of a segment."""

    KEEP = "keep"
    DELETE = "delete"
    COMPACT = "compact"


class ReasonCode(StrEnum):
    """The closed list of reasons. A new reason takes a minor version, a changed one a major (docs/reasons.md)."""

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
    RECORDS_MISSING = "RECORDS_MISSING"

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
    MAX_UNKEYED_RATIO = "MAX_UNKEYED_RATIO"
    RELOAD_GUARD = "RELOAD_GUARD"


class Limit(NamedTuple):
    """The value of the configuration that a reason rests on, and the number that was compared with it.

    A named tuple of two is cheap: a plan holds many, and all that rest on one value share ``stated``.
    """

    stated: Stated
    actual: float | None = None
    """The compared number, in the unit of the value: an age in ms, below 0 for a time in the future; bytes; a share.

    None if the value is no number.
    """

    @property
    def key(self) -> str:
        """Kafka's topic key, or the broker key if topics do not have the key."""
        return self.stated.key

    @property
    def value(self) -> Value:
        """The value in Kafka's unit."""
        return self.stated.value

    @property
    def layer(self) -> Layer:
        """The layer that stated the value."""
        return self.stated.layer

    @property
    def origin(self) -> str:
        """The place that stated the value, in words."""
        return self.stated.origin

    @property
    def file(self) -> str | None:
        """The file that states the value, or the directory of the cluster metadata; None if no file does."""
        return self.stated.file

    @property
    def line(self) -> int | None:
        """The line of the file, from 1; None if it has no lines."""
        return self.stated.line


class Reason(NamedTuple):
    """A code for scripts, a sentence for people, and the time (epoch ms) from which the reason may no longer hold."""

    code: ReasonCode
    text: str
    until_ms: int | None = None
    limit: Limit | None = None
    """The value of the configuration that the reason rests on; None if it rests on none, or on more than one."""


class Verdict(NamedTuple):
    """The fate of one segment, with its reason. ``size_bytes`` is the size of the ``.log``.

    A named tuple is cheap: a plan holds many verdicts.
    """

    base_offset: int
    size_bytes: int
    action: Action
    reason: Reason


def as_int64(number: int) -> int:
    """Return the number, cut to the range of int64: readers of our JSON, and our kernels, hold no greater number."""
    return max(INT64_MIN, min(number, INT64_MAX))


def moment(time_ms: int) -> str:
    """Return a time as ``2026-11-21T06:03:34Z``; a time that no calendar holds, as its number."""
    if not 0 <= time_ms <= _YEAR_9999_MS:
        return f"{time_ms} ms"
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(span_ms: int) -> str:
    """Return a span in its largest unit, and the rest in the next one: ``3d``, ``3d 4h``, ``250ms``."""
    if span_ms <= 0:
        return "0ms"
    return in_two_units(span_ms, largest_unit(span_ms))


def largest_unit(span_ms: int) -> int:
    """Return the place in ``UNITS_MS`` of the largest unit that fits into a span of at least 1 ms."""
    place = 0  # a plan shows many spans: a loop takes half as long as an expression with next()
    while span_ms < UNITS_MS[place][1]:
        place += 1
    return place


def in_two_units(span_ms: int, place: int) -> str:
    """Return a span in a unit, which must fit into it, and in the next smaller one; the rest is left out."""
    unit, size_ms = UNITS_MS[place]
    whole, rest_ms = divmod(span_ms, size_ms)
    if place + 1 < len(UNITS_MS):
        minor_unit, minor_ms = UNITS_MS[place + 1]
        if rest_ms >= minor_ms:
            return f"{whole}{unit} {rest_ms // minor_ms}{minor_unit}"
    return f"{whole}{unit}"


def age_beside(age_ms: int, limit_ms: int) -> str:
    """Return an age as it stands beside a limit of age: ``3d 5s`` beside ``3d``, ``40h`` beside ``36h``."""
    near_ms, far_ms, place = _age_scale_of(limit_ms)
    if not near_ms <= age_ms < far_ms:
        return duration(age_ms)
    place = max(place, largest_unit(age_ms))
    if age_ms <= limit_ms or age_ms - age_ms % UNITS_MS[min(place + 1, _LAST)][1] > limit_ms:
        return in_two_units(age_ms, place)
    words, rest_ms = [], age_ms
    for unit, size_ms in UNITS_MS[place:]:
        number, rest_ms = divmod(rest_ms, size_ms)
        if number:
            words.append(f"{number}{unit}")
        if age_ms - rest_ms > limit_ms:
            break
    return " ".join(words)


def size_beside(size_bytes: int, limit_bytes: int) -> str:
    """Return a size as it stands beside a limit of size: ``4.7MiB`` beside ``4MiB``, ``2.4MiB`` beside ``2500000B``."""
    near_bytes, far_bytes, suffix, told = _size_scale_of(limit_bytes)
    if not near_bytes <= size_bytes < far_bytes:
        suffix = _unit_of(size_bytes)
    factor = ValueUnit.BYTES.factors[suffix]
    parts, digits = 10, 1
    while size_bytes > limit_bytes and size_bytes * parts // factor * factor <= limit_bytes * parts:
        parts, digits = parts * 10, digits + 1
    whole, part = divmod(size_bytes * parts // factor, parts)
    words = f"{whole}.{part:0{digits}}{suffix}" if part else f"{whole}{suffix}"
    return f"{size_bytes}B" if words == told else words


def share_beside(share: float, limit: float) -> str:
    """Return a share as it stands beside another: ``0.4996`` beside ``0.5``, ``0.31`` beside ``0.5``."""
    for digits in range(2, 17):
        shown = float(words := f"{share:.{digits}f}")
        if (shown > limit) - (shown < limit) == (share > limit) - (share < limit):
            return words
    return repr(share)


def size(size_bytes: int, digits: int = 1) -> str:
    """Return a size for people, such as ``1.2 GiB``, with so many digits behind the point."""
    if abs(size_bytes) < 1 << 10:
        return counted(size_bytes, "byte")
    scaled = float(size_bytes)
    for unit in _UNITS:
        scaled /= 1 << 10
        if abs(scaled) < 1024 - 0.5 / 10**digits or unit == _UNITS[-1]:
            return f"{scaled:.{digits}f} {unit}"
    raise AssertionError(size_bytes)


def offsets(start: int, end: int) -> str:
    """Return the offsets from ``start`` up to, but not including, ``end``: ``offsets 0 to 49``."""
    return f"offsets {start} to {end - 1}" if end > start else f"no records, next offset {end}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 segment``, ``1,200 segments``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


@lru_cache(maxsize=1024)  # every segment of a topic has the same limit
def _age_scale_of(limit_ms: int) -> tuple[int, int, int]:
    """Return the ages from and below which an age takes the limit's unit, and the place of that unit."""
    if not 0 < limit_ms < LONG_MAX:
        return 0, 0, _LAST
    place = next(place for place, (_, size_ms) in enumerate(UNITS_MS) if limit_ms % size_ms == 0)
    return -(-limit_ms // _FAR), _FAR * limit_ms, place


@lru_cache(maxsize=1024)
def _size_scale_of(limit_bytes: int) -> tuple[int, int, str, str]:
    """Return the sizes from and below which a size takes the limit's unit, that unit, and a limit that is cut off."""
    if not 0 < limit_bytes < LONG_MAX:
        return 0, 0, "B", ""
    near_bytes, far_bytes = -(-limit_bytes // _FAR), _FAR * limit_bytes
    if scale := exact_scale(limit_bytes):
        return near_bytes, far_bytes, scale[1], ""
    suffix = _unit_of(limit_bytes)
    return near_bytes, far_bytes, suffix, about(limit_bytes).removesuffix(suffix).rstrip("0").rstrip(".") + suffix


def _unit_of(size_bytes: int) -> str:
    return max((scale for scale in BINARY if scale[0] <= size_bytes), default=BINARY[0])[1]
