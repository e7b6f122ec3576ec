"""What the engine of ``preflight`` answers about files; the rules that ask are in tests/policies/starting."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cleaner.engine.starting.contents import DirectoryContents
from policies.starting.facts import KafkaFailure
from tests.partition_dirs import keyed

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TXN_INDEX = "00000000000000000012.txnindex"
BATCHES = (keyed(0, "a", "b"), keyed(2, "c"), keyed(3, "d"))


@pytest.fixture
def contents(tmp_path: Path) -> DirectoryContents:
    """A directory with one log of three batches."""
    (tmp_path / LOG).write_bytes(b"".join(BATCHES))
    (tmp_path / INDEX).write_bytes(b"")
    return DirectoryContents(tmp_path, 4096)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (b"", 4),
        (b"torn", 4),
        (bytes(17), 4),
        (bytes(18), KafkaFailure("CorruptRecordException", f"byte {len(b''.join(BATCHES))}: a batch of 0 bytes")),
        (keyed(4, "e")[:-1], 4),
    ],
)
def test_end_of_a_log_by_what_lies_behind_it(
    tail: bytes, expected: int | KafkaFailure, tmp_path: Path, contents: DirectoryContents
) -> None:
    with (tmp_path / LOG).open("ab") as file:
        file.write(tail)
    assert contents.next_offset(LOG, INDEX, 0) == expected


def test_index_that_points_behind_the_log_makes_its_end_the_base_offset(
    tmp_path: Path, contents: DirectoryContents
) -> None:
    (tmp_path / INDEX).write_bytes(struct.pack(">ii", 2, 1_000_000))
    assert contents.next_offset(LOG, INDEX, 0) == 0


@pytest.mark.parametrize(("flipped", "valid", "end"), [(0, 0, None), (1, 1, 2), (2, 2, 3)])
def test_recovery_ends_at_the_first_batch_with_a_wrong_crc(
    flipped: int, valid: int, end: int | None, tmp_path: Path, contents: DirectoryContents
) -> None:
    data = bytearray(b"".join(BATCHES))
    data[sum(map(len, BATCHES[:flipped])) + 40] ^= 1
    (tmp_path / LOG).write_bytes(data)
    found = contents.recovered(LOG, 0)
    assert (found.valid_bytes, found.next_offset) == (sum(map(len, BATCHES[:valid])), end)
    assert found.cause == "the CRC of the batch is wrong"


def test_offset_below_the_segment_stops_the_recovery(contents: DirectoryContents) -> None:
    failure = contents.recovered(LOG, 1_000).failure
    assert failure
    assert failure.exception == "IllegalArgumentException"


@pytest.mark.parametrize(
    ("entry", "exception"),
    [
        (struct.pack(">hqqqq", 0, 7, 12, 13, 14), None),
        (struct.pack(">hqqqq", 1, 7, 12, 13, 14), None),  # Kafka looks at the first byte of the version alone
        (struct.pack(">hqqqq", 256, 7, 12, 13, 14), "KafkaException"),
        (struct.pack(">hqqqq", 0, 7, 1, 2, 3), "CorruptIndexException"),
        (b"short", None),
    ],
)
def test_sanity_check_of_a_transaction_index(
    entry: bytes, exception: str | None, tmp_path: Path, contents: DirectoryContents
) -> None:
    (tmp_path / TXN_INDEX).write_bytes(entry)
    failure = contents.txn_index_failure(TXN_INDEX, 12)
    assert (failure and failure.exception) == exception
