"""The records of a coordinator's topic: what the framing of its keys and values says, and their fields.

A key begins with its type, an int16; ``apiKey`` in Kafka's schemas. A value begins with its version, an int16.

Source: Kafka ``CoordinatorRecordSerde``, ``CoordinatorRecordType``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from storage.errors import InvalidRecord
from storage.schemas.decoding import Fields, decode
from storage.schemas.notation import Message

_PREFIX_BYTES: Final = 2
_KEY, _VALUE = "Key", "Value"


class DecodedKey(NamedTuple):
    """The key of a record."""

    kind: str
    """The name of its schema without ``Key``: ``OffsetCommit``."""
    fields: Fields


class CoordinatorRecords:
    """The schemas of the records of one topic."""

    def __init__(self, messages: Mapping[str, Message]) -> None:
        """Find the keys by their types.

        Args:
            messages: the table of the topic, with a ``...Key`` and a ``...Value`` of each type.
        """
        self._messages = messages
        self._keys = {
            message.api_key: (name.removesuffix(_KEY), message)
            for name, message in messages.items()
            if name.endswith(_KEY)
        }

    def key(self, data: bytes) -> DecodedKey:
        """Decode a key. Raises: InvalidRecord, also for a type that the table does not have."""
        type_ = _prefix(data, "key")
        if type_ not in self._keys:
            raise InvalidRecord(f"a key of type {type_}, which is not known")
        kind, message = self._keys[type_]
        return DecodedKey(kind, decode(message, message.versions.first, data, _PREFIX_BYTES))

    def value(self, kind: str, data: bytes) -> Fields:
        """Decode the value of a record that has a key of this kind. Raises: InvalidRecord."""
        return decode(self._messages[kind + _VALUE], _prefix(data, "value"), data, _PREFIX_BYTES)


def _prefix(data: bytes, what: str) -> int:
    if len(data) < _PREFIX_BYTES:
        raise InvalidRecord(f"a {what} of {len(data)} bytes")
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
