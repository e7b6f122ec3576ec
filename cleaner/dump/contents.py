"""Key, value and headers of one record as texts for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cleaner.dump.decoding import control_text, decode_text, parse_control_record
from cleaner.dump.options import DumpOptions, TopicDecoder
from cleaner.export.fields import told
from storage.errors import InvalidRecord
from storage.names import CLUSTER_METADATA_TOPIC
from storage.records import Record

_DECODERS: Final = {
    "__consumer_offsets": TopicDecoder.OFFSETS,
    "__transaction_state": TopicDecoder.TRANSACTIONS,
    "__share_group_state": TopicDecoder.SHARE_GROUP_STATE,
    "__remote_log_metadata": TopicDecoder.REMOTE_LOG_METADATA,
    CLUSTER_METADATA_TOPIC: TopicDecoder.CLUSTER_METADATA,
}


def decoder_of(topic: str) -> TopicDecoder | None:
    """Return the decoder for a topic of Kafka's own; None for any other topic."""
    return _DECODERS.get(topic)


def contents_of(topic: str, record: Record, *, is_control: bool) -> Iterator[tuple[str, str]]:
    """Yield what a record holds, as labels and texts; the texts may hold control characters."""
    if is_control:
        try:
            yield "control", control_text(parse_control_record(record)).strip()
        except InvalidRecord as error:
            yield "control", f"not readable: {error.cause}"
        return
    decoder = decoder_of(topic)
    if decoder is None:
        yield _field("key", record.key)
        yield _field("value", record.value)
    else:
        contents = decode_text(DumpOptions(decoder=decoder), record)
        for label, text in (("key", contents.key), ("value", contents.value)):
            if text is not None:
                yield label, text
    for name, value in record.headers:
        yield "header", f"{_text(name)} = {_text(value)}"


def _field(label: str, data: bytes | None) -> tuple[str, str]:
    return label, _text(data)


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    fields = told("data", data)
    return fields["data"] if fields["dataEncoding"] == "utf-8" else f"base64 {fields['data']}"
