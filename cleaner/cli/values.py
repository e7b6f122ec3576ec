"""Parsers for the values of options: moments, time spans, counts, partitions, targets.

Each parser raises ``ArgumentTypeError`` with the reason if it cannot read the text.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.rescue import SpaceTarget
    from storage.names import TopicPartition

Moment = Callable[[int], int]
"""A function from the clock's time to the moment that the user meant, both in epoch ms."""

_EPOCH_MS = re.compile(r"-?\d{1,19}", re.ASCII)
_OFFSET_DIGITS_MAX = 19
_BASE_DIGITS_MAX = 20
_PERCENT = re.compile(r"(100|[1-9]\d?)%", re.ASCII)
_PLAIN_MS_MIN = 100_000_000_000
"""March 1973 in epoch ms; the year 5138 in seconds."""
_PLAIN_BYTES_MIN = 1 << 20
_RELATIVE = re.compile(r"(?P<sign>[+-])(?P<span>\d+\s*(ms|s|m|h|d))", re.ASCII)


def moment(text: str) -> Moment:
    """Parse a moment: epoch ms, ISO 8601 (naive means local time), or ``+7d``, ``-36h`` relative to the clock.

    A moment beyond int64 becomes the nearest int64. A plain number of seconds is refused: as epoch ms, it lies in 1970.
    """
    from policies.reasons import as_int64
    from policies.reasons import moment as told

    if _EPOCH_MS.fullmatch(text):
        epoch_ms = as_int64(int(text))
        if 0 < abs(epoch_ms) < _PLAIN_MS_MIN:
            meant = f"say {text}000 if these are seconds; a time so early has to be in ISO 8601"
            raise ArgumentTypeError(f"{text!r} is epoch ms, and would be {told(epoch_ms)}: {meant}")
        return lambda _: epoch_ms
    if found := _RELATIVE.fullmatch(text):
        distance_ms = span_ms(found["span"]) * (1 if found["sign"] == "+" else -1)
        return lambda now_ms: as_int64(now_ms + distance_ms)
    try:
        absolute_ms = round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError(f"{text!r} is no time: say epoch ms, 2026-11-21T06:00, or +7d") from None
    return lambda _: absolute_ms


def passed_ms(until: Moment, now_ms: int) -> int:
    """Return the moment that ``--until`` names, epoch ms. Raises: InvalidConfig if it lies in the future."""
    from policies.reasons import moment as told
    from storage.errors import InvalidConfig

    until_ms = until(now_ms)
    if until_ms > now_ms:
        raise InvalidConfig("--until", told(until_ms), "lies in the future: name a time that has passed")
    return until_ms


def span_ms(text: str) -> int:
    """Parse a time span as the configuration states it: milliseconds, or ``90s``, ``36h``, ``7d``."""
    from policies.config.config_keys import TOPIC_KEY
    from policies.config.config_values import parse_value

    try:
        value = parse_value(TOPIC_KEY["file.delete.delay.ms"], text, synonym=None, as_broker=False)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from None
    assert isinstance(value, int)
    return value


def at_least_one(text: str) -> int:
    """Parse a count from 1 to 99,999."""
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) > 0):
        raise ArgumentTypeError(f"{text!r} must be a whole number from 1 on")
    return int(text)


def topic_partition(text: str) -> TopicPartition:
    """Parse the name of a partition, such as ``orders-3``."""
    from storage.names import parse_topic_partition

    found = parse_topic_partition(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no partition: say TOPIC-PARTITION, e.g. orders-3")
    return found


def partition_or_text(text: str) -> TopicPartition | str:
    """Parse the name of a partition. Return any other text as it is: a caller that knows the partitions names the
    nearest.
    """
    from storage.names import parse_topic_partition

    return parse_topic_partition(text) or text


def offset(text: str) -> int:
    """Parse an offset: a whole number of at most 19 digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX):
        raise ArgumentTypeError(f"{text!r} is no offset: say a whole number, e.g. 4000")
    return int(text)


def segment(text: str) -> int:
    """Parse a segment's base offset: ``4000``, or the name or path of one of its files."""
    from pathlib import PurePath

    from storage.names import parse_segment_file_name

    if found := parse_segment_file_name(PurePath(text).name):
        return found.base_offset
    if not (text.isascii() and text.isdigit() and len(text) <= _BASE_DIGITS_MAX):
        raise ArgumentTypeError(f"{text!r} is no segment: say its base offset, e.g. 4000, or the name of its .log")
    return int(text)


def target(text: str) -> SpaceTarget:
    """Parse how much must be free: bytes (at least 1 MiB), ``20GiB``, or ``15%`` of the file system."""
    from policies.config.config_keys import TOPIC_KEY, ValueUnit
    from policies.config.config_values import meant_suffix, parse_value
    from policies.rescue import SpaceTarget

    if found := _PERCENT.fullmatch(text):
        return SpaceTarget(int(found[1]), is_percent=True)
    try:
        value = parse_value(TOPIC_KEY["retention.bytes"], text, synonym=None, as_broker=False)
    except ValueError:
        value = 0
    if not isinstance(value, int) or value <= 0:
        raise ArgumentTypeError(f"{text!r} is no size: say bytes, 20GiB, or 15%{meant_suffix(text, ValueUnit.BYTES)}")
    if text.isdigit() and value < _PLAIN_BYTES_MIN:  # the user meant 20GiB or 20%; 20 bytes are always free
        meant = f"{value}GiB or {value}%" if value < 100 else f"{value}KiB"
        raise ArgumentTypeError(f"{text!r} would be {value} bytes: say what it counts, e.g. {meant}")
    return SpaceTarget(value)


def bytes_per_second(text: str) -> float:
    """Parse a rate: bytes, or ``100MiB``; a ``/s`` may follow."""
    from policies.config.config_keys import TOPIC_KEY, ValueUnit
    from policies.config.config_values import meant_suffix, parse_value

    size = text.removesuffix("/s")
    try:
        value = parse_value(TOPIC_KEY["retention.bytes"], size, synonym=None, as_broker=False)
    except ValueError:
        value = 0
    if not isinstance(value, int) or value <= 0:
        raise ArgumentTypeError(
            f"{text!r} is no rate: say bytes a second, or 100MiB{meant_suffix(size, ValueUnit.BYTES)}"
        )
    return float(value)
