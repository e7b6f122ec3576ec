"""The decoder of Kafka's messages: by a ``Message`` of the tables, from bytes to dicts, lists and plain values.

A dict has the fields of its version, in the order of the schema. A uuid is Kafka's text of it, 22 characters of
URL-safe base64; ``bytes`` and ``records`` are bytes. Every length is checked before it is used. Tagged fields that the
table does not know are stepped over, as Kafka does.

Stricter than Kafka: text must be UTF-8, a tagged field must end where it says, and nothing may be left over.

Source: Kafka ``MessageDataGenerator``, ``ByteBufferAccessor``.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from storage.errors import InvalidRecord
from storage.schemas.notation import Field, Message

Fields = dict[str, Any]
"""A message or struct, decoded: names and values in the order of the schema."""

_UVARINT_BYTES_MAX: Final = 5
_UUID_BYTES: Final = 16
NO_UUID: Final = "A" * 22
"""The text of the uuid of zeros, which means that there is no uuid."""


def decode(message: Message, version: int, data: bytes, position: int = 0, *, with_defaults: bool = True) -> Fields:
    """Decode a message.

    Args:
        message: its schema.
        version: the version it was written in.
        data: the bytes; the message ends with them.
        position: where it begins in ``data``.
        with_defaults: whether tagged fields appear that were left out or have their default value. Kafka's own JSON
            leaves these out.

    Raises:
        InvalidRecord: an unknown version, a length that reaches past the end, an impossible value, bytes left over.
    """
    if not message.versions.holds(version):
        known = f"{message.versions.first} to {message.versions.last}"
        raise InvalidRecord(f"{message.name} of version {version} is not known, only of versions {known}")
    cursor = _Cursor(data, position, len(data), with_defaults=with_defaults)
    try:
        found: Fields = _message_reader(message, version)(cursor)
    except InvalidRecord as error:
        cause = f"{message.name} of version {version}: {error.cause} (at byte {cursor.position})"
        raise InvalidRecord(cause) from error
    if cursor.position != len(data):
        left = len(data) - cursor.position
        raise InvalidRecord(f"{message.name} of version {version}: {left} bytes are left behind it")
    return found


class _Cursor:
    """A position in some bytes, of which none behind ``end`` may be read."""

    def __init__(self, data: bytes, position: int, end: int, *, with_defaults: bool) -> None:
        self.data, self.position, self.end, self.with_defaults = data, position, end, with_defaults

    def take(self, size_bytes: int, what: str) -> int:
        """Step over some bytes, and return where they begin."""
        start = self.position
        if size_bytes > self.end - start:
            raise InvalidRecord(f"{what} of {size_bytes} bytes reaches past the end")
        self.position = start + size_bytes
        return start

    def uvarint(self) -> int:
        value = 0
        for place in range(_UVARINT_BYTES_MAX):
            byte = self.data[self.take(1, "an unsigned varint")]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise InvalidRecord(f"an unsigned varint takes more than {_UVARINT_BYTES_MAX} bytes")


_Read = Callable[[_Cursor], Any]


class _Tagged(NamedTuple):
    name: str
    read: _Read
    default: Callable[[], Any]


@cache
def _message_reader(message: Message, version: int) -> _Read:
    is_flexible = message.flexible is not None and message.flexible.holds(version)
    return _struct_reader(message.fields, version, is_flexible=is_flexible)


def _struct_reader(fields: tuple[Field, ...], version: int, *, is_flexible: bool) -> _Read:
    there = [field for field in fields if field.versions.holds(version)]
    names = tuple(field.name for field in there)
    plain = tuple((f.name, _field_reader(f, version, is_flexible=is_flexible)) for f in there if f.tag is None)
    tagged = {
        field.tag: _Tagged(field.name, _field_reader(field, version, is_flexible=True), _default_of(field, version))
        for field in there
        if field.tag is not None
    }

    def read(cursor: _Cursor) -> Fields:
        found: Fields = dict.fromkeys(names) if tagged else {}
        for name, read_field in plain:
            found[name] = read_field(cursor)
        if not is_flexible:
            return found
        seen = _read_tagged(cursor, tagged)
        for tag, (name, _, default) in tagged.items():
            value = found[name] = seen[tag] if tag in seen else default()
            if not cursor.with_defaults and value == default():
                del found[name]
        return found

    return read


def _read_tagged(cursor: _Cursor, known: dict[int, _Tagged]) -> dict[int, Any]:
    """Read the tagged fields at the end of a struct, each of which states its size."""
    seen: dict[int, Any] = {}
    for _ in range(cursor.uvarint()):
        tag, size_bytes = cursor.uvarint(), cursor.uvarint()
        start = cursor.take(size_bytes, "a tagged field")
        if tag not in known:
            continue
        within = _Cursor(cursor.data, start, cursor.position, with_defaults=cursor.with_defaults)
        seen[tag] = known[tag].read(within)
        if within.position != within.end:
            raise InvalidRecord(f"the tagged field {known[tag].name} does not end where it says")
    return seen


def _field_reader(field: Field, version: int, *, is_flexible: bool) -> _Read:
    is_nullable = field.nullable is not None and field.nullable.holds(version)
    is_null_value = is_nullable and not field.is_array  # else the array itself may be null, but not its elements
    if field.kind in _FIXED:
        value = _FIXED[field.kind]
    elif field.kind in _LENGTHS:
        value = _sized_reader(field, is_flexible=is_flexible, is_nullable=is_null_value)
    else:
        value = _struct_reader(field.fields, version, is_flexible=is_flexible)
        value = _or_null(field, value) if is_null_value else value
    if not field.is_array:
        return value
    return _array_reader(field, value, is_flexible=is_flexible, is_nullable=is_nullable)


def _or_null(field: Field, element: _Read) -> _Read:
    """Read a struct that may be null: a byte in front of it says so, a varint in a tagged field."""

    def read(cursor: _Cursor) -> Fields | None:
        is_there = cursor.uvarint() > 0 if field.tag is not None else _read_int8(cursor) >= 0
        found: Fields | None = element(cursor) if is_there else None
        return found

    return read


def _length(cursor: _Cursor, plain: struct.Struct, *, is_flexible: bool) -> int:
    """Read a length or count; -1 stands for null."""
    if is_flexible:
        return cursor.uvarint() - 1
    start = cursor.take(plain.size, "a length")
    length: int = plain.unpack_from(cursor.data, start)[0]
    if length < -1:
        raise InvalidRecord(f"a length of {length}")
    return length


def _array_reader(field: Field, element: _Read, *, is_flexible: bool, is_nullable: bool) -> _Read:
    def read(cursor: _Cursor) -> list[Any] | None:
        count = _length(cursor, _INT32, is_flexible=is_flexible)
        if count < 0 and is_nullable:
            return None
        if count < 0:
            raise InvalidRecord(f"{field.name} is null")
        if count > cursor.end - cursor.position:  # an element takes a byte at the least
            raise InvalidRecord(f"{field.name}: {count} elements reach past the end")
        return [element(cursor) for _ in range(count)]

    return read


def _sized_reader(field: Field, *, is_flexible: bool, is_nullable: bool) -> _Read:
    """Return the reader of a text, of bytes or of records."""
    prefix, is_text, name = _LENGTHS[field.kind], field.kind == "string", field.name

    def read(cursor: _Cursor) -> str | bytes | None:
        length = _length(cursor, prefix, is_flexible=is_flexible)
        if length < 0 and is_nullable:
            return None
        if length < 0:
            raise InvalidRecord(f"{name} is null")
        start = cursor.take(length, name)
        taken = cursor.data[start : cursor.position]
        if not is_text:
            return taken
        try:
            return taken.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"{name} is no UTF-8") from error

    return read


def _fixed_reader(form: struct.Struct, what: str) -> _Read:
    return lambda cursor: form.unpack_from(cursor.data, cursor.take(form.size, what))[0]


def _read_uuid(cursor: _Cursor) -> str:
    start = cursor.take(_UUID_BYTES, "a uuid")
    return base64.urlsafe_b64encode(cursor.data[start : cursor.position]).rstrip(b"=").decode("ascii")


_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_LENGTHS: Final = {"string": _INT16, "bytes": _INT32, "records": _INT32}
"""The types of variable size, and the form of their lengths in versions that are not flexible."""
_FORMS: Final = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
_FIXED: Final[dict[str, _Read]] = {
    **{kind: _fixed_reader(struct.Struct(form), kind) for kind, form in _FORMS.items()},
    "uuid": _read_uuid,
}
_read_int8: Final = _FIXED["int8"]


def _default_of(field: Field, version: int) -> Callable[[], Any]:
    """Return the maker of the value of a tagged field that was left out."""
    if field.default == "null":
        return lambda: None
    if field.is_array:
        return list
    if field.fields:
        makers = {f.name: _default_of(f, version) for f in field.fields if f.versions.holds(version)}
        return lambda: {name: make() for name, make in makers.items()}
    value: object = _DEFAULTS.get(field.kind, 0)
    if field.default is not None:
        value = field.default == "true" if field.kind == "bool" else int(field.default)
    return lambda: value


_DEFAULTS: Final = {"string": "", "bytes": b"", "records": b"", "uuid": NO_UUID, "bool": False}
"""The defaults of the types whose default is no number."""
