"""The enums that kernels return and take; importable without numba."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The reason why a kernel stopped. All from ``LEGACY_MAGIC`` to ``BAD_HEADERS`` are facts about the bytes."""

    OK = 0
    END_OF_BUFFER = 1  # the batch at the returned position is not there in full
    LEGACY_MAGIC = 2  # a v0 or v1 entry
    BAD_MAGIC = 3
    BAD_SIZE = 4  # smaller than its header, or outside the buffer
    BAD_COUNT = 5  # a record count that is negative, or more than the offsets or bytes allow
    BAD_OFFSETS = 6  # negative, going back, or past the batch's last
    BAD_VARINT = 7  # runs past its end, or is longer than its type
    BAD_LENGTH = 8  # a record, key, value or payload does not end where it says
    BAD_HEADERS = 9  # a record's headers do not parse
    NEEDS_RECORDS = 10  # the batch's records must be decompressed first
    TABLE_FULL = 11
    MAP_FULL = 12
    OUTPUT_FULL = 13
    BITMAP_SHORT = 14  # the batch's ordinals are not all in the bitmap
    BAD_COMPRESSED = 15  # damaged or cut short; ``storage.codecs.compression`` has the last word
    NEEDS_PYTHON = 16  # valid or not: nothing that a codec kernel handles; ask ``storage.codecs.compression``
    BAD_CRC = 17


class BatchFate(IntEnum):
    """The fate of a batch by its header, before its records are read one by one.

    ``policies.retain`` decides it by transaction and producer; the kernels find it in the batch table, as a number.

    Source: Kafka Cleaner.cleanInto, MemoryRecords.filterTo.
    """

    DELETE_EMPTY = 0
    """Each record has its own fate; without a record left, the batch goes."""
    RETAIN_EMPTY = 1
    """Each record has its own fate; without a record left, an empty batch stays."""
    DISCARD = 2
    """All records and the batch go."""
    DISCARD_RETAIN_EMPTY = 3
    """All records go, an empty batch stays."""
    KEEP = 4
    """The batch stays as it is: a control batch, or one beyond the range of the round."""
    KEEP_STAMPED = 5
    """The batch is a marker whose transaction has no data left: it stays, and gets a delete horizon."""


class BatchAction(IntEnum):
    """The decision about one batch."""

    DROP = 0
    COPY = 1  # verbatim
    EMPTY = 2  # its header, without records
    REBUILD = 3  # its kept records, under the horizon it has or none
    STAMP = 4  # its kept records, under a new delete horizon
    UNDECIDED = 5  # its records must be decompressed first
