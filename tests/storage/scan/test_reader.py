"""The one reader of batches in bulk: windows of any size, and a file that is shorter than was said."""

from __future__ import annotations

import numpy as np
import pytest

from storage.arrays import Bytes
from storage.kernels.layout import BATCH
from storage.kernels.status import Status
from storage.scan.reader import BatchReader, Found
from tests.partition_dirs import keyed

BATCHES = tuple(keyed(number, f"k{number}={'v' * (number % 5 * 40)}") for number in range(12))
DATA = b"".join(BATCHES)


def reader_of(data: bytes, said_bytes: int, window_bytes: int) -> BatchReader:
    def window(start: int, end: int) -> tuple[Bytes, int]:
        return np.frombuffer(data[start:end], np.uint8), start

    return BatchReader(window, 0, said_bytes, np.zeros(5, BATCH), window_bytes)


def read_on(reader: BatchReader) -> Found:
    found = reader.read()
    assert found is not None
    return found


@pytest.mark.parametrize("window_bytes", [1, 16, 17, 61, 200, 1 << 20])
def test_batches_are_the_same_whatever_the_windows(window_bytes: int) -> None:
    reader, offsets = reader_of(DATA, len(DATA), window_bytes), []
    while (found := reader.read()) is not None:
        offsets += found.table["base_offset"].tolist()
    assert (offsets, reader.position, reader.next_offset) == (list(range(12)), len(DATA), 12)


@pytest.mark.parametrize("window_bytes", [1, 200, 1 << 20])
def test_what_stands_behind_the_batches_is_told_and_the_asker_says_where_to_go_on(window_bytes: int) -> None:
    data = BATCHES[0] + bytes(30) + BATCHES[1]
    reader = reader_of(data, len(data), window_bytes)
    assert read_on(reader).table.size == 1
    found = read_on(reader)
    assert (found.table.size, found.status, found.position) == (0, Status.BAD_SIZE, len(BATCHES[0]))
    reader.go_on(found.position + 30, 1)
    assert read_on(reader).table["base_offset"].tolist() == [1]
    assert reader.read() is None


@pytest.mark.parametrize("window_bytes", [1, 200, 1 << 20])
def test_a_file_that_shrank_ends_where_its_bytes_do(window_bytes: int) -> None:
    reader, rows = reader_of(DATA[:-1], len(DATA), window_bytes), 0
    while (found := reader.read()) is not None and found.table.size:
        rows += found.table.size
    assert (rows, reader.position) == (11, len(DATA) - len(BATCHES[-1]))
    assert found is not None
    assert found.status == Status.END_OF_BUFFER
