"""Find the transactional id of a producer in ``__transaction_state``, where the same log dirs hold that topic."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from storage.errors import LogCleanerError
from storage.log.listing import list_partition
from storage.log.read import read_segment
from storage.log_dir import LogDir
from storage.records.header import OFFSET_MAX
from storage.schemas.decoding import decode
from storage.schemas.transactions_topic import TRANSACTIONS_TOPIC
from storage.segment import Segment

TOPIC: Final = "__transaction_state"
READ_BYTES_MAX: Final = 64 << 20
"""The most bytes that are read, newest segments first: a producer that can still end a transaction has written lately.
"""
_KEY: Final = TRANSACTIONS_TOPIC["TransactionLogKey"]
_TYPE_BYTES: Final = 2
"""A key begins with its type."""
_PRODUCER_ID: Final = struct.Struct(">hq")
"""The version of a value, and the producer id, with which each version begins."""


def transactional_id_of(producer_id: int, log_dirs: Iterable[LogDir]) -> str | None:
    """Return the transactional id that a producer has by the newest records; None if none of them names it.

    The function passes over files that cannot be read, because a live broker may delete them meanwhile.
    """
    left_bytes = READ_BYTES_MAX
    for segment in _newest_first(log_dirs):
        left_bytes -= segment.size_bytes
        if left_bytes < 0:
            return None
        if found := _last_id_in(segment, producer_id):
            return found
    return None


def _newest_first(log_dirs: Iterable[LogDir]) -> list[Segment]:
    segments: list[Segment] = []
    for log_dir in log_dirs:
        for topic_partition, directory in log_dir.partitions():
            if topic_partition.topic == TOPIC:
                with suppress(LogCleanerError):
                    segments += list_partition(directory).segments
    return sorted(segments, key=lambda segment: segment.mtime_ms, reverse=True)


def _last_id_in(segment: Segment, producer_id: int) -> str | None:
    """Return the transactional id that the last record of a segment gives a producer."""
    found: str | None = None
    with suppress(LogCleanerError):
        for batch in read_segment(segment, segment.base_offset, OFFSET_MAX):
            for record in batch.records():
                key, value = record.key, record.value
                if key is None or value is None or len(value) < _PRODUCER_ID.size:
                    continue
                if _PRODUCER_ID.unpack_from(value)[1] == producer_id:  # few records are worth decoding
                    found = decode(_KEY, 0, key, _TYPE_BYTES)["transactionalId"]
    return found
