"""The options of ``dump`` and ``export`` that select records."""

from __future__ import annotations

import argparse
import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cleaner.cli.parser import CommaSeparated
from cleaner.cli.values import moment
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.dump.options import Redaction
    from storage.scan.selected import RecordSelection

_RANGE: Final = ".."
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_LONG_BYTES: Final = 8
ENCODINGS: Final = ("text", "hex", "base64", "long")


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--offset``, ``--timestamp``, ``--key``, ``--key-encoding`` and ``--redact``."""
    group = parser.add_argument_group("selection of records")
    group.add_argument("--offset", metavar="A..B", help="only these offsets, both ends included: 7, 5..9, 5.., ..9")
    group.add_argument(
        "--timestamp", metavar="A..B", help="only these times, both ends included: epoch ms, ISO 8601, -2h; as --offset"
    )
    group.add_argument("--key", metavar="KEY", help="only the records with this key: all versions of it")
    group.add_argument("--key-encoding", choices=ENCODINGS, default=ENCODINGS[0], help="how --key is written")
    group.add_argument(
        "--redact",
        action=CommaSeparated,
        choices=("values", "keys"),
        default=[],
        help="leave out what others must not see; both with a comma, or repeated",
    )


def selection_of(args: argparse.Namespace) -> tuple[RecordSelection, frozenset[Redaction]]:
    """Return which records the user wants to see, and which parts of a record must not be shown.

    Raises: InvalidConfig.
    """
    from cleaner.dump.options import Redaction
    from cleaner.engine.clock import SystemClock
    from storage.scan.selected import RecordSelection

    def time_ms(text: str) -> int:
        return moment(text)(SystemClock().now_ms())

    selection = RecordSelection(
        *_range("--offset", args.offset, _offset),
        *_range("--timestamp", args.timestamp, time_ms),
        None if args.key is None else _key(args.key, args.key_encoding),
    )
    return selection, frozenset(map(Redaction, args.redact))


def _range(option: str, text: str | None, parse: Callable[[str], int]) -> tuple[int, int]:
    """Return both ends of a range; one value is both."""
    if text is None:
        return _INT64_MIN, _INT64_MAX
    first, dots, last = text.partition(_RANGE)
    try:
        low = parse(first) if first else _INT64_MIN
        high = parse(last) if last else (_INT64_MAX if dots else low)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise InvalidConfig(option, text, str(error)) from error
    if not first and not last:
        raise InvalidConfig(option, text, "names no end: say A..B, A.. or ..B")
    if low > high:
        raise InvalidConfig(option, text, "begins behind its end")
    return low, high


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_INT64_MAX))):
        raise ValueError(f"{text!r} is no offset: say a whole number")
    return min(int(text), _INT64_MAX)


def _key(text: str, encoding: str) -> bytes:
    """Return the bytes of a key. Raises: InvalidConfig."""
    try:
        match encoding:
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return base64.b64decode(text, validate=True)
            case "long":
                return int(text).to_bytes(_LONG_BYTES, "big", signed=True)
        return text.encode(errors="surrogateescape")
    except (ValueError, OverflowError, binascii.Error) as error:
        raise InvalidConfig("--key", text, f"is not {encoding}: {error}") from error
