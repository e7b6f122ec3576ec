"""The options of a dump: what is shown of files, batches and records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from storage.scan.selected import EVERY_RECORD, RecordSelection

INT32_MAX: Final = (1 << 31) - 1
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
    """The decoders of a key or a value, as ``org.apache.kafka.tools.api`` has them."""

    STRING = "string"
    LONG = "long"
    INTEGER = "integer"


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
    selection: RecordSelection = EVERY_RECORD
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
        return (is_asked or self._selects_contents) and not self.only_batches

    @property
    def shows_headers(self) -> bool:
        """Return whether the text shows the values of headers, too, which Kafka's tool does not."""
        return self.shows_contents and self._selects_contents and not (self.print_data_log or self.skip_record_metadata)

    @property
    def _selects_contents(self) -> bool:
        """Return whether records are selected, and so must be shown. Kafka's tool has no selection."""
        return self.selection.key is not None or not (self.selection.takes_all or self.deep_iteration)

    @property
    def shows_records(self) -> bool:
        """Return whether records are shown, and not their batches alone."""
        return (self.deep_iteration or self.shows_contents) and not self.only_batches

    @property
    def reads_records(self) -> bool:
        """Return whether records must be read in order to know what is shown."""
        return self.shows_records or not self.selection.takes_all
