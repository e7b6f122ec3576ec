"""Calls of machine code from Python."""

from __future__ import annotations

import crc32c as library
import numpy as np
import pytest

from storage.kernels.admit import FACTS, admit
from storage.kernels.crc import crc32c
from storage.kernels.offset_map import shrink_range
from storage.records import Record, encode_batch


def test_a_bound_call_sees_what_its_arrays_hold_now_and_keeps_them() -> None:
    words = np.zeros(8, np.uint64)
    with pytest.raises(TypeError):
        shrink_range.bound(words, words)  # type: ignore[attr-defined]
    batch, plain, facts = np.zeros(61, np.uint8), np.zeros(1, np.uint8), np.zeros(FACTS, np.int64)
    call = admit.bound(batch, plain, facts)  # type: ignore[attr-defined]
    assert call() == 0, "zeros are no batch"
    data = encode_batch([Record(0, 5, b"k", b"v")])
    batch, sent = np.zeros(len(data), np.uint8), np.frombuffer(data, np.uint8)
    call = admit.bound(batch, plain, facts)  # type: ignore[attr-defined]
    batch[:] = sent
    facts[:] = [len(data), -1, 7, 0, 5, 0, 0, len(data), 0, 0, 0, 0, 0, 0, 0]
    del batch
    assert call() == 1
    assert facts[9] == 7


def test_an_array_in_the_place_of_one_that_is_gone_is_read_where_it_lies() -> None:
    data = np.arange(256, dtype=np.uint8)
    for start in range(200):  # each view is freed before the next, which takes its place in memory, and its id
        assert crc32c(data[start:], 0, 8) == library.crc32c(bytes(range(start, start + 8)))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(b"bytes", id="no array"),
        pytest.param(np.zeros(8, np.int8), id="another type"),
        pytest.param(np.zeros((2, 4), np.uint8), id="two dimensions"),
        pytest.param(np.zeros(16, np.uint8)[::2], id="strides"),
    ],
)
def test_what_a_kernel_would_misread_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="wanted"):
        crc32c(wrong, 0, 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 64])
def test_a_number_that_would_wrap_is_refused(number: int) -> None:
    with pytest.raises(OverflowError, match="int64"):
        crc32c(np.zeros(8, np.uint8), number, 8)


@pytest.mark.parametrize("number", [1 << 64, -1])
def test_an_unsigned_number_that_would_wrap_is_refused(number: int) -> None:
    with pytest.raises(OverflowError, match="uint64"):
        shrink_range(np.zeros(4, np.uint64), np.zeros(3, np.int64), number)  # type: ignore[arg-type]
