"""The options of a dump: which records are wanted, and what is shown of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

INT32_MAX: Final = (1 << 31) - 1
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
MESSAGE_BYTES_MAX: Final = 5 << 20
"""Kafka's default of ``--max-message-size``."""


class Redaction(StrEnum):
    """The parts that can be left out of a dump that is sent to others."""

    KEYS = "keys"
    VALUES = "values"


class TopicDecoder(StrEnum):
    """The topics of Kafka's own whose records can be decoded."""

    OFFSETS = "offsets"
    TRANSACTIONS = "transaction-log"
    CLUSTER_METADATA = "cluster-metadata"
    REMOTE_LOG_METADATA = "remote-log-metadata"
    SHARE_GROUP_STATE = "share-group-state"


class PlainDecoder(StrEnum):
    """The decoders of a key or a value, those of ``org.apache.kafka.tools.api``."""

    STRING = "string"
    LONG = "long"
    INTEGER = "integer"


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """The records that are shown. Both ends of a range are in it."""

    first_offset: int = INT64_MIN
    last_offset: int = INT64_MAX
    since_ms: int = INT64_MIN
    until_ms: int = INT64_MAX
    key: bytes | None = None

    @property
    def takes_all(self) -> bool:
        """Return whether nothing is left out."""
        return self == EVERYTHING

    def may_take(self, base_offset: int, last_offset: int) -> bool:
        """Return whether a record of a batch with these offsets may be shown."""
        return last_offset >= self.first_offset and base_offset <= self.last_offset

    def takes(self, offset: int, timestamp_ms: int, key: bytes | None) -> bool:
        """Return whether a record is shown."""
        if not self.first_offset <= offset <= self.last_offset or not self.since_ms <= timestamp_ms <= self.until_ms:
            return False
        return self.key is None or self.key == key


EVERYTHING: Final = RecordSelection()


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of one dump. Kafka's have Kafka's names."""

    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int = INT32_MAX
    max_message_size: int = MESSAGE_BYTES_MAX
    decoder: TopicDecoder | None = None
    key_decoder: PlainDecoder = PlainDecoder.STRING
    value_decoder: PlainDecoder = PlainDecoder.STRING
    selection: RecordSelection = EVERYTHING
    only_batches: bool = False
    redact: frozenset[Redaction] = frozenset()

    @property
    def hides_keys(self) -> bool:
        """Return whether no key is shown."""
        return Redaction.KEYS in self.redact

    @property
    def hides_values(self) -> bool:
        """Return whether no value is shown."""
        return Redaction.VALUES in self.redact

    @property
    def shows_contents(self) -> bool:
        """Return whether keys and values are shown."""
        decoders = self.decoder, self.key_decoder, self.value_decoder
        is_asked = self.print_data_log or decoders != (None, PlainDecoder.STRING, PlainDecoder.STRING)
        return (is_asked or self.selection.key is not None) and not self.only_batches

    @property
    def shows_records(self) -> bool:
        """Return whether records are shown, and not their batches alone."""
        return (self.deep_iteration or self.shows_contents) and not self.only_batches

    @property
    def reads_records(self) -> bool:
        """Return whether records must be read in order to know what is shown."""
        return self.shows_records or not self.selection.takes_all
