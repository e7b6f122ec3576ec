"""Parse config values into typed values in range, and show values in people's words.

Kafka's own number formats hold everywhere. In a text that a broker also reads, ``7d`` and ``512MiB`` are errors,
because a broker knows no suffixes. Source: Kafka ``ConfigDef.parseType``, ``ConfigDef.ValidList``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import Final

from policies.config.config_keys import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    NO_LIMIT,
    ConfigKey,
    Synonym,
    Value,
    ValueKind,
    ValueUnit,
)

RawValue = str | int | float | bool | Sequence[str]
"""A value as TOML or a line of text states it."""

_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d{1,30}\.?\d{0,30}|\.\d{1,30})([eE][+-]?\d{1,3})?", re.ASCII)
_WITH_SUFFIX = re.compile(r"(\d{1,18})\s*([A-Za-z]+)", re.ASCII)
_MEANT: Final = {
    **{f"{letter}{i}": f"{letter.upper()}iB" for letter in "kmgt" for i in ("", "i", "ib")},
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
"""A suffix of other programs, in small letters -> the suffix that it means."""
BINARY: Final = tuple((factor, unit) for unit, factor in ValueUnit.BYTES.factors.items() if factor & -factor == factor)
"""The units of reports, with their bytes, so that no sentence has kB beside MiB. A user may write other units, too."""
_COUNT_MAX: Final = 10 << 10
"""The greatest count of a unit; nobody reads a larger one at a glance."""
_MAX: Final = {ValueKind.INT: INT_MAX, ValueKind.LONG: LONG_MAX}


def parse_value(key: ConfigKey, raw: RawValue, *, synonym: Synonym | None, as_broker: bool) -> Value:
    """Read one value and check its range.

    Args:
        key: the key that is set.
        raw: the value as it was stated.
        synonym: the broker key that stated the value, if any; its type, unit and range hold.
        as_broker: True if the text is a broker's own (server.properties, metadata log): it has no suffixes, and a list
            may name an item twice, as Kafka allowed before 4.2.

    Raises:
        ValueError: the value is wrong, by its type or otherwise; the text of the error is a reason fit for people.
    """
    kind = (synonym and synonym.kind) or key.kind
    if kind is ValueKind.LIST:
        return _checked_items(key, _items(raw), repeats_allowed=as_broker)
    if kind is ValueKind.STRING:
        return _checked_text(key, raw)
    if kind is ValueKind.BOOL:
        return _boolean(raw)
    in_own_unit = as_broker or (synonym is not None and synonym.factor != 1)
    suffixes = {} if in_own_unit else key.unit.factors
    if kind is ValueKind.DOUBLE:
        return _checked_decimal(key, _decimal(raw, suffixes))
    return _checked_integer(key, synonym, _integer(raw, suffixes, kind))


def show_value(key: ConfigKey, value: Value) -> str:
    """Return a value in people's words: ``7d``, ``512MiB``, ``compact,delete``, ``no limit``, ``off`` for None."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, int) and key.unit is not ValueUnit.NONE:
        return _with_suffix(key.unit, value)
    return "off" if value is None else str(value)


def kafka_text(value: Value) -> str | None:
    """Return a value as ``kafka-configs --describe`` writes it; None if the key is not set. Source: Java's toString."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if value == DOUBLE_MAX:
        return "1.7976931348623157E308"
    return str(value)


@lru_cache(maxsize=1024)  # every segment of a topic shows the same limit
def _with_suffix(unit: ValueUnit, number: int) -> str:
    if number in (NO_LIMIT, LONG_MAX):
        return "no limit"
    if unit is ValueUnit.BYTES and number > 0:
        scale = exact_scale(number)
        return f"{number // scale[0]}{scale[1]}" if scale else f"{number}B ({about(number)})"
    exact = [(factor, suffix) for suffix, factor in unit.factors.items() if number and number % factor == 0]
    factor, suffix = max(exact, default=(1, unit.value))
    return f"{number // factor}{suffix}"


def exact_scale(size_bytes: int) -> tuple[int, str] | None:
    """Return the largest unit that divides a size, and its bytes; None if there are too many units to read."""
    factor, suffix = max(scale for scale in BINARY if size_bytes % scale[0] == 0)
    return (factor, suffix) if size_bytes < factor * _COUNT_MAX or factor == BINARY[-1][0] else None


def about(size_bytes: int) -> str:
    """Return a size cut off behind two digits, in the largest unit: ``2.38MiB`` for 2500000."""
    factor, suffix = max(scale for scale in BINARY if scale[0] <= size_bytes)
    whole, part = divmod(size_bytes * 100 // factor, 100)
    return f"{whole}.{part:02}{suffix}"


def _boolean(raw: RawValue) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and (word := raw.strip().lower()) in ("true", "false"):
        return word == "true"
    raise ValueError("must be true or false")


def _integer(raw: RawValue, suffixes: Mapping[str, int], kind: ValueKind) -> int:
    number = _number_of_text(raw.strip(), suffixes) if isinstance(raw, str) else raw
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"must be {kind.value}{_or_with_suffix(suffixes)}{_meant(raw, suffixes)}")  # noqa: TRY004
    if not -_MAX[kind] - 1 <= number <= _MAX[kind]:
        raise ValueError(f"is out of range for {kind.value}")
    return number


def _number_of_text(text: str, suffixes: Mapping[str, int]) -> int | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    found = _WITH_SUFFIX.fullmatch(text)
    if found is None or found[2] not in suffixes:
        return None
    return int(found[1]) * suffixes[found[2]]


def _or_with_suffix(suffixes: Mapping[str, int]) -> str:
    return f", or one with {', '.join(suffixes)}" if suffixes else ""


def meant_suffix(text: str, unit: ValueUnit) -> str:
    """Return ``; did you mean 20GiB?`` for ``20G``; an empty text unless the text is a number with such a suffix."""
    return _meant(text, unit.factors)


def _meant(raw: RawValue, suffixes: Mapping[str, int]) -> str:
    found = _WITH_SUFFIX.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if found is None:
        return ""
    word = found[2].lower()
    right = _MEANT.get(word) or next((suffix for suffix in suffixes if suffix.lower() == word), None)
    return f"; did you mean {found[1]}{right}?" if right in suffixes else ""


def _decimal(raw: RawValue, suffixes: Mapping[str, int]) -> float:
    if isinstance(raw, str):
        text = raw.strip()
        whole = _number_of_text(text, suffixes)
        if whole is not None or _DECIMAL.fullmatch(text):
            return float(text if whole is None else whole)
    elif isinstance(raw, int | float) and not isinstance(raw, bool):
        return float(raw)
    raise ValueError(f"must be a number{_or_with_suffix(suffixes)}{_meant(raw, suffixes)}")


def _checked_decimal(key: ConfigKey, number: float) -> float:
    if isnan(number):  # NaN would pass every comparison with a range
        raise ValueError("must be a number")
    _check_range(key, number)
    return number


def _checked_integer(key: ConfigKey, synonym: Synonym | None, number: int) -> int:
    if synonym and synonym.negative_is_no_limit:
        if number == 0:
            raise ValueError("a broker refuses 0; say -1 for no limit, or at least 1")
        return NO_LIMIT if number < 0 else number * synonym.factor
    if synonym and synonym.low is not None and number < synonym.low:
        raise ValueError(f"must be at least {synonym.low}")
    scaled = number * synonym.factor if synonym else number
    _check_range(key, scaled)
    return scaled


def _check_range(key: ConfigKey, number: float) -> None:
    if number in key.besides:
        return
    if key.low is not None and number < key.low:
        raise ValueError(f"must be at least {key.low}")
    if key.high is not None and number > key.high:
        raise ValueError(f"must be at most {key.high}")


def _checked_text(key: ConfigKey, raw: RawValue) -> str:
    if not isinstance(raw, str):
        raise ValueError("must be a text")  # noqa: TRY004
    if key.choices and raw not in key.choices:
        raise ValueError(f"must be one of {', '.join(key.choices)}")
    return raw


def _items(raw: RawValue) -> tuple[str, ...]:
    if isinstance(raw, str):
        return tuple(item.strip() for item in raw.split(",")) if raw.strip() else ()
    if isinstance(raw, Sequence) and all(isinstance(item, str) for item in raw):
        return tuple(item.strip() for item in raw)
    raise ValueError("must be a list of texts, or one text with commas")


def _checked_items(key: ConfigKey, items: tuple[str, ...], *, repeats_allowed: bool) -> tuple[str, ...]:
    if "" in items:
        raise ValueError("has a blank item")
    if strange := [item for item in items if key.choices and item not in key.choices]:
        raise ValueError(f"{', '.join(strange)}: each item must be one of {', '.join(key.choices)}, in lower case")
    once = tuple(dict.fromkeys(items))
    if len(once) < len(items) and not repeats_allowed:
        raise ValueError("names an item twice")
    return once
