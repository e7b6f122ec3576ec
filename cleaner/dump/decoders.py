"""Keys and values of records as text: as Java shows them, or decoded, for the topics of Kafka's own.

Source: Kafka ``DumpLogSegments.MessageParser`` and its implementations.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from cleaner.dump.java_text import java_text
from cleaner.dump.options import DumpOptions, PlainDecoder
from storage.records import ControlType, Record

_NUMBERS: Final = {PlainDecoder.LONG: struct.Struct(">q"), PlainDecoder.INTEGER: struct.Struct(">i")}


class Contents(NamedTuple):
    """The key and the value of a record as text; None if there is none."""

    key: str | None
    value: str | None


def decode(options: DumpOptions, record: Record) -> Contents:
    """Return what is shown of the key and the value of a record."""
    return Contents(_plain(options.key_decoder, record.key), _plain(options.value_decoder, record.value))


def _plain(decoder: PlainDecoder, field: bytes | None) -> str | None:
    if field is None:
        return None
    layout = _NUMBERS.get(decoder)
    if layout is None:
        return java_text(field)
    if len(field) < layout.size:
        return f"<{len(field)} bytes, no {decoder.value}>"
    return str(layout.unpack_from(field)[0])


def decode_control_message(kind: ControlType, value: bytes) -> dict[str, Any]:
    """Decode the value of a control record of KRaft. Raises: InvalidRecord."""
    raise NotImplementedError


def decode_json(options: DumpOptions, record: Record) -> dict[str, Any]:
    """Return the fields that a decoder adds to the JSON line of a record; none without a decoder."""
    return {}
