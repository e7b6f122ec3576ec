"""The parts that the printing kernel can print, and the words between them; without numba.

A vocabulary is one array of bytes: each word has a slot of ``SLOT_BYTES``, whose last byte is the length of the word.
So a word is put with one copy of a fixed size, whatever the vocabulary.

Source: Kafka ``DumpLogSegments``, for the words of the text.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, auto, unique
from typing import Final

import numpy as np

from storage.arrays import Bytes

SLOT_BYTES: Final = 32


class Print(IntFlag):
    """The parts to print."""

    BATCHES = 1
    """A line for each batch that has a record."""
    ALL_BATCHES = 2
    """With BATCHES: a line for each batch."""
    RECORDS = 4
    METADATA = 8
    CONTENTS = 16
    HIDE_KEYS = 32
    HIDE_VALUES = 64
    JSON = 128
    """Keys and values as in JSON; goes with ``JSON_WORDS`` and METADATA."""


@unique
class Word(IntEnum):
    """The words. Where the text depends on a number, the words of all numbers follow one another."""

    BATCH = 0
    LAST_OFFSET = auto()
    COUNT = auto()
    BASE_SEQUENCE = auto()
    LAST_SEQUENCE = auto()
    PRODUCER_ID = auto()
    PRODUCER_EPOCH = auto()
    LEADER_EPOCH = auto()
    IS_TRANSACTIONAL = auto()
    IS_CONTROL = auto()
    HORIZON = auto()
    NO_HORIZON = auto()
    HORIZON_VALUE = auto()
    HORIZON_END = auto()
    POSITION = auto()
    CREATE_TIME_OF_BATCH = auto()
    LOG_APPEND_TIME_OF_BATCH = auto()
    MAX_TIMESTAMP = auto()
    SIZE = auto()
    NO_CODEC = auto()
    GZIP = auto()
    SNAPPY = auto()
    LZ4 = auto()
    ZSTD = auto()
    CRC = auto()
    IS_VALID = auto()
    FALSE = auto()
    TRUE = auto()
    RECORD = auto()
    CREATE_TIME = auto()
    LOG_APPEND_TIME = auto()
    BEHIND_CREATE_TIME = auto()
    BEHIND_LOG_APPEND_TIME = auto()
    KEY_SIZE = auto()
    VALUE_SIZE = auto()
    SEQUENCE = auto()
    MARKER = auto()
    ABORT = auto()
    COMMIT = auto()
    INDENT = auto()
    """In front of contents without metadata."""
    HEADERS = auto()
    COMMA = auto()
    HEADER_END = auto()
    HEADERS_END = auto()
    LINE_END = auto()
    KEY = 48
    VALUE = 56
    HEADER_KEY = 64


WORDS: Final = 72
UTF8_END: Final = 1
"""The words of a field, counted from its own: behind text, behind base64, two for null, two for a hidden field."""
BASE64_END: Final = 2
NULL: Final = 3
HIDDEN: Final = 5


def _field(word: Word, text: str, json: str, encoding: str) -> dict[int, tuple[str, str]]:
    encoded = f',"{encoding}":'
    return {
        word: (text, f'{json}"'),
        word + UTF8_END: ("", f'"{encoded}"utf-8"'),
        word + BASE64_END: ("", f'"{encoded}"base64"'),
        word + NULL: ("", f"{json}null"),
        word + NULL + 1: ("", f"{encoded}null"),
        word + HIDDEN: (text, f"{json}null"),
        word + HIDDEN + 1: ("[redacted]", f'{encoded}"redacted"'),
    }


_WORDS: Final[dict[int, tuple[str, str]]] = {
    Word.BATCH: ("baseOffset: ", '{"type":"batch","baseOffset":'),
    Word.LAST_OFFSET: (" lastOffset: ", ',"lastOffset":'),
    Word.COUNT: (" count: ", ',"count":'),
    Word.BASE_SEQUENCE: (" baseSequence: ", ',"baseSequence":'),
    Word.LAST_SEQUENCE: (" lastSequence: ", ',"lastSequence":'),
    Word.PRODUCER_ID: (" producerId: ", ',"producerId":'),
    Word.PRODUCER_EPOCH: (" producerEpoch: ", ',"producerEpoch":'),
    Word.LEADER_EPOCH: (" partitionLeaderEpoch: ", ',"leaderEpoch":'),
    Word.IS_TRANSACTIONAL: (" isTransactional: ", ',"transactional":'),
    Word.IS_CONTROL: (" isControl: ", ',"control":'),
    Word.HORIZON: (" deleteHorizonMs: OptionalLong", ',"deleteHorizon":'),
    Word.NO_HORIZON: (".empty", "null"),
    Word.HORIZON_VALUE: ("[", ""),
    Word.HORIZON_END: ("]", ""),
    Word.POSITION: (" position: ", ',"position":'),
    Word.CREATE_TIME_OF_BATCH: (" CreateTime: ", ',"timestampType":0'),
    Word.LOG_APPEND_TIME_OF_BATCH: (" LogAppendTime: ", ',"timestampType":1'),
    Word.MAX_TIMESTAMP: ("", ',"maxTimestamp":'),
    Word.SIZE: (" size: ", ',"size":'),
    Word.NO_CODEC: (" magic: 2 compresscodec: none", ',"magic":2,"codec":"none"'),
    Word.GZIP: (" magic: 2 compresscodec: gzip", ',"magic":2,"codec":"gzip"'),
    Word.SNAPPY: (" magic: 2 compresscodec: snappy", ',"magic":2,"codec":"snappy"'),
    Word.LZ4: (" magic: 2 compresscodec: lz4", ',"magic":2,"codec":"lz4"'),
    Word.ZSTD: (" magic: 2 compresscodec: zstd", ',"magic":2,"codec":"zstd"'),
    Word.CRC: (" crc: ", ',"crc":'),
    Word.IS_VALID: (" isvalid: ", ',"valid":'),
    Word.FALSE: ("false", "false"),
    Word.TRUE: ("true", "true"),
    Word.RECORD: ("| offset: ", '{"type":"record","offset":'),
    Word.CREATE_TIME: (" CreateTime: ", ',"timestamp":'),
    Word.LOG_APPEND_TIME: (" LogAppendTime: ", ',"timestamp":'),
    Word.BEHIND_CREATE_TIME: ("", ',"timestampType":0'),
    Word.BEHIND_LOG_APPEND_TIME: ("", ',"timestampType":1'),
    Word.KEY_SIZE: (" keySize: ", ',"keySize":'),
    Word.VALUE_SIZE: (" valueSize: ", ',"valueSize":'),
    Word.SEQUENCE: (" sequence: ", ',"sequence":'),
    Word.MARKER: (" endTxnMarker: ", ""),
    Word.ABORT: ("ABORT coordinatorEpoch: ", ""),
    Word.COMMIT: ("COMMIT coordinatorEpoch: ", ""),
    Word.INDENT: ("|", ""),
    Word.HEADERS: (" headerKeys: [", ',"headers":['),
    Word.COMMA: (",", ","),
    Word.HEADER_END: ("", "}"),
    Word.HEADERS_END: ("]", "]"),
    Word.LINE_END: ("\n", "}\n"),
    **_field(Word.KEY, " key: ", ',"key":', "keyEncoding"),
    **_field(Word.VALUE, " payload: ", ',"value":', "valueEncoding"),
    **_field(Word.HEADER_KEY, "", '{"key":', "keyEncoding"),
}
"""In the text, in JSON."""


def _vocabulary(form: int) -> Bytes:
    slots = np.zeros((WORDS, SLOT_BYTES), np.uint8)
    for word, forms in _WORDS.items():
        text = forms[form].encode("ascii")
        assert len(text) < SLOT_BYTES, f"{text!r} is too long for its slot"
        slots[word, : len(text)] = np.frombuffer(text, np.uint8)
        slots[word, -1] = len(text)
    return slots.reshape(-1)


TEXT_WORDS: Final = _vocabulary(0)
JSON_WORDS: Final = _vocabulary(1)
