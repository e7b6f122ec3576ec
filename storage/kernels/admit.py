"""The check of one regular v2 batch as Kafka's validator makes it, and the stamp of the fields that the log sets.

The kernel admits a batch, or leaves it to its readable twin, ``storage.log.writing.validation``. The twin also takes
batches that are valid but not regular, and tells the fault of the others. Producers send regular batches: one batch,
records one offset apart, no control records.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers
from storage.kernels.crc import agrees, checksum
from storage.kernels.layout import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME
from storage.kernels.records import parse_record
from storage.kernels.status import Status
from storage.machine.intrinsics import load_be16, load_be32, load_be64, load_u8, store_be16, store_be32, store_be64
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, INTEGERS, OUTPUT

_TRANSACTIONAL: Final = 0x10
_KNOWN: Final = CODEC_MASK | _TRANSACTIONAL
_NO_TIMESTAMP: Final = -1

# Places in the array of facts. The caller fills in the first ones, the kernel the others.
SIZE: Final = 0  # bytes of the batch
PLAIN_BYTES: Final = 1  # bytes of its records, decompressed; -1: they are not compressed and lie in the batch
NEXT_OFFSET: Final = 2
LEADER_EPOCH: Final = 3
NOW_MS: Final = 4
BEFORE_MAX_MS: Final = 5
AFTER_MAX_MS: Final = 6
SIZE_MAX: Final = 7
RULES: Final = 8
LAST_OFFSET: Final = 9
MAX_TIMESTAMP: Final = 10
PRODUCER_ID: Final = 11
PRODUCER_EPOCH: Final = 12
BASE_SEQUENCE: Final = 13
ATTRIBUTES: Final = 14
FACTS: Final = 15


# Bits of RULES.
IS_CLIENT: Final = 1
NEEDS_KEYS: Final = 2
TAKES_LOG_TIME: Final = 4


@kernel()
def _is_regular(batch: Bytes, facts: Integers) -> bool:
    """Return whether header and checksum belong to a regular batch. Source: Kafka LogValidator#validateBatch."""
    size, is_client = facts[SIZE], facts[RULES] & IS_CLIENT
    if size < HEADER_BYTES or size > batch.size or size > facts[SIZE_MAX]:
        return False
    if load_be32(batch, 8) + 12 != size or load_u8(batch, 16) != 2 or load_be64(batch, 0) != 0:
        return False
    attributes, count = load_be16(batch, 21), load_be32(batch, 57)
    if attributes & ~_KNOWN or (attributes & CODEC_MASK == 0) != (facts[PLAIN_BYTES] < 0):
        return False
    if count < 1 or load_be32(batch, 23) != count - 1:
        return False
    if is_client and load_be64(batch, 43) >= 0 and load_be32(batch, 53) < 0:
        return False
    return agrees(batch, 0, size, load_be32(batch, 17) & 0xFFFFFFFF)


@kernel()
def _largest_timestamp(records: Bytes, start: int, end: int, batch: Bytes, facts: Integers) -> tuple[bool, int]:
    """Walk over the records. Return whether all of them are regular and within the rules, and the largest timestamp."""
    base, count = load_be64(batch, 27), load_be32(batch, 57)
    now_ms, before_ms, after_ms = facts[NOW_MS], facts[BEFORE_MAX_MS], facts[AFTER_MAX_MS]
    needs_keys, takes_log_time = facts[RULES] & NEEDS_KEYS, facts[RULES] & TAKES_LOG_TIME
    largest, position = _NO_TIMESTAMP, start
    for place in range(count):
        status, position, delta, _, _, _, key_length, _ = parse_record(records, position, end, place - 1, place)
        if status != Status.OK or (needs_keys and key_length < 0):
            return False, 0
        timestamp = base + delta
        if not takes_log_time and timestamp != _NO_TIMESTAMP:
            age = now_ms - timestamp
            if age > before_ms or -age > after_ms:
                return False, 0
        largest = max(largest, timestamp)
    return position == end, largest


@kernel()
def _stamp(batch: Bytes, largest: int, facts: Integers) -> None:
    """Write the fields that the log sets. Source: Kafka DefaultRecordBatch#setLastOffset, #setMaxTimestamp."""
    store_be64(batch, 0, facts[NEXT_OFFSET])
    store_be32(batch, 12, facts[LEADER_EPOCH])
    attributes = load_be16(batch, 21)
    if facts[RULES] & TAKES_LOG_TIME:
        attributes, largest = attributes | LOG_APPEND_TIME, facts[NOW_MS]
    if attributes != load_be16(batch, 21) or largest != load_be64(batch, 35):
        store_be16(batch, 21, attributes)
        store_be64(batch, 35, largest)
        store_be32(batch, 17, checksum(batch, 21, facts[SIZE]))  # type: ignore[arg-type]
    facts[LAST_OFFSET] = facts[NEXT_OFFSET] + load_be32(batch, 23)
    facts[MAX_TIMESTAMP], facts[ATTRIBUTES] = largest, attributes
    facts[PRODUCER_ID], facts[PRODUCER_EPOCH] = load_be64(batch, 43), load_be16(batch, 51)
    facts[BASE_SEQUENCE] = load_be32(batch, 53)


@kernel(I64(OUTPUT, BYTES, INTEGERS))
def admit(batch: Bytes, plain: Bytes, facts: Integers) -> int:
    """Check a batch, then stamp it in place.

    Args:
        batch: begins with the batch; other bytes may follow it.
        plain: begins with the batch's records, decompressed; not read if ``PLAIN_BYTES`` is negative.
        facts: of ``FACTS`` items.

    Returns:
        1: the batch is stamped, and the facts about it are filled in. 0: the batch is unchanged, and the readable twin
        has to check it.
    """
    if facts.size < FACTS or not _is_regular(batch, facts):
        return 0
    if facts[PLAIN_BYTES] < 0:
        is_so, largest = _largest_timestamp(batch, HEADER_BYTES, facts[SIZE], batch, facts)
    elif facts[PLAIN_BYTES] <= plain.size:
        is_so, largest = _largest_timestamp(plain, 0, facts[PLAIN_BYTES], batch, facts)
    else:
        return 0
    if not is_so:
        return 0
    _stamp(batch, largest, facts)
    return 1
