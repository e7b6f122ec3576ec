"""Control records: what Kafka itself writes into a log.

Source: Kafka ``ControlRecordType``, ``EndTransactionMarker``.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from storage.errors import InvalidRecord

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
CONTROL_BYTES_MAX: Final = 1 << 20
"""The most bytes of a decompressed control batch: it holds one small record, and Kafka does not compress it."""


class ControlType(IntEnum):
    """The kinds of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1
    """A kind that a later Kafka added."""

    @classmethod
    def _missing_(cls, _value: object) -> ControlType:
        return cls.UNKNOWN


class TxnMarker(NamedTuple):
    """The end of a transaction. ``timestamp_ms`` is the record's, epoch ms."""

    type: ControlType
    coordinator_epoch: int
    timestamp_ms: int

    @property
    def is_abort(self) -> bool:
        """Return whether the transaction was aborted."""
        return self.type is ControlType.ABORT


def parse_control_type(key: bytes | None) -> ControlType:
    """Read the key of a control record. Higher versions are read as version 0, and bytes behind are ignored.

    Raises:
        InvalidRecord: no key, one of fewer than 4 bytes, or a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("the key of a control record has fewer than 4 bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"the key of a control record has version {version}")
    return ControlType(kind)


def parse_txn_marker(key: bytes | None, value: bytes | None, timestamp_ms: int) -> TxnMarker:
    """Read a record of a control batch with a producer id.

    Raises:
        InvalidRecord: it is neither ABORT nor COMMIT, or its value is short or of a negative version.
    """
    kind = parse_control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"control record {kind.name} in a batch of a transactional producer")
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecord("the value of a transaction marker has fewer than 6 bytes")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"the value of a transaction marker has version {version}")
    return TxnMarker(kind, coordinator_epoch, timestamp_ms)
