"""Write a number as it stands beside a limit: in the limit's unit, and so finely that the two never look alike.

The limit is shown as ``show_value`` does. The number is cut off behind some place, always downwards. If it is above the
limit, it gets more places until the sentence shows that; if it is below, cutting off cannot reach the limit. A limit
that is whole in no unit is itself shown cut off: a number that would look like it is shown in bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from policies.config.config_keys import LONG_MAX, ValueUnit
from policies.config.config_values import BINARY, about, exact_scale
from policies.reasons import UNITS_MS, duration, in_two_units, largest_unit

_FAR: Final = 10
"""A number this many times above or below its limit is shown in its own unit, because nobody mistakes the two."""
_LAST: Final = len(UNITS_MS) - 1


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
