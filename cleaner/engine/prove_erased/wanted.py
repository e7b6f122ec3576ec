"""The wanted keys: the text that a person wrote, and the bytes that a producer writes for it."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from storage.errors import InvalidConfig
from storage.records.v2 import write_varint

_INT64: Final = struct.Struct(">q")
_INT64_RANGE: Final = range(-(1 << 63), 1 << 63)
_SPACINGS: Final = ((",", ":"), (", ", ": "))


class KeyEncoding(StrEnum):
    """The ways to write a key on the command line (docs/prove-erased.md)."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"
    AVRO_WIRE = "avro-wire"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class WantedKey:
    """One key."""

    given: str
    """The key as a person wrote it."""
    forms: tuple[bytes, ...]
    """The byte strings that count as this key."""
    payloads: tuple[bytes, ...] = ()
    """The bytes behind a zero byte and the four bytes of a schema id, whichever that is."""


def wanted_keys(given: Iterable[str], encoding: KeyEncoding) -> tuple[WantedKey, ...]:
    """Read keys. A repeated key counts once. Raises: InvalidConfig for a key that the encoding cannot have."""
    return tuple(_READERS[encoding](text) for text in dict.fromkeys(given))


def _text(text: str) -> WantedKey:
    return WantedKey(text, (text.encode("utf-8", "surrogateescape"),))


def _hex(text: str) -> WantedKey:
    try:
        return WantedKey(text, (bytes.fromhex(text.removeprefix("0x")),))
    except ValueError:
        raise _wrong(text, KeyEncoding.HEX, "pairs of hexadecimal digits, e.g. 0a1b") from None


def _base64(text: str) -> WantedKey:
    try:
        plain = text.translate({ord("-"): "+", ord("_"): "/"})
        return WantedKey(text, (base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True),))
    except (binascii.Error, ValueError):
        raise _wrong(text, KeyEncoding.BASE64, "base64, e.g. YWxpY2U=") from None


def _json(text: str) -> WantedKey:
    """Return the forms of a JSON value: as it is written, and as the usual serializers write it: compact or spaced,
    escaped or not.
    """
    try:
        value = json.loads(text)
    except ValueError:
        raise _wrong(text, KeyEncoding.JSON, f"JSON, in which a text has quotes, e.g. {json.dumps(text)}") from None
    forms = [text]
    for is_ascii in (False, True):
        forms += [json.dumps(value, ensure_ascii=is_ascii, separators=spacing) for spacing in _SPACINGS]
    return WantedKey(text, tuple(dict.fromkeys(form.encode("utf-8", "surrogatepass") for form in forms)))


def _avro_wire(text: str) -> WantedKey:
    """Return the forms of a text as an Avro string; of a whole number also as an Avro int or long, which look alike."""
    data = text.encode("utf-8", "surrogateescape")
    payloads, number = [_varint(len(data)) + data], _whole_number(text)
    if number is not None:
        payloads.append(_varint(number))
    return WantedKey(text, (), tuple(payloads))


def _varint(number: int) -> bytes:
    """Write a number as Avro does, and Kafka: zigzag, seven bits a byte, the low ones first."""
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def _long(text: str) -> WantedKey:
    number = _whole_number(text)
    if number is None:
        raise _wrong(text, KeyEncoding.LONG, "a whole number of 64 bits, e.g. 4711")
    return WantedKey(text, (_INT64.pack(number),))


def _whole_number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and int(text) in _INT64_RANGE):
        return None
    return int(text)


def _wrong(text: str, encoding: KeyEncoding, expected: str) -> InvalidConfig:
    return InvalidConfig("RECORD-KEY", text, f"is not {expected} (--encoding {encoding.value})")


_READERS: Final[Mapping[KeyEncoding, Callable[[str], WantedKey]]] = {
    KeyEncoding.TEXT: _text,
    KeyEncoding.HEX: _hex,
    KeyEncoding.BASE64: _base64,
    KeyEncoding.JSON: _json,
    KeyEncoding.AVRO_WIRE: _avro_wire,
    KeyEncoding.LONG: _long,
}
