from __future__ import annotations

import zlib

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import crc
from tests.storage.kernels.bytes_of import Batch, keyed
from tests.storage.kernels.calls import scanned, window
from tests.storage.kernels.strategies import compiled

NOISE = np.random.default_rng(5).integers(0, 256, 20_000, dtype=np.uint8)
AROUND_LANES = [0, 1, 7, 8, 9, 383, 384, 385, 3071, 3072, 3073, 3455, 3456, 3457, 6143, 6144, 19_990]


@pytest.mark.parametrize(
    ("implementation", "standard"),
    [(crc.crc32c, crc32c.crc32c), (crc.crc32c_portable, crc32c.crc32c), (crc.crc32, zlib.crc32)],
)
@pytest.mark.parametrize("length", AROUND_LANES)
@pytest.mark.parametrize("start", [0, 3])
def test_any_length_and_alignment_gives_the_standard_crc(implementation, standard, length: int, start: int) -> None:
    assert implementation(NOISE, start, start + length) == standard(NOISE[start : start + length].tobytes())


@compiled
@given(st.binary(max_size=600), st.integers(-5, 700), st.integers(-5, 700))
def test_bounds_outside_the_buffer_are_cut(data: bytes, start: int, end: int) -> None:
    cut = data[max(start, 0) : max(end, 0)]
    assert crc.crc32c(window(data), start, end) == crc32c.crc32c(cut)
    assert crc.crc32c_portable(window(data), start, end) == crc32c.crc32c(cut)
    assert crc.crc32(window(data), start, end) == zlib.crc32(cut)


def test_the_first_batch_with_a_wrong_crc_is_named() -> None:
    data = b"".join(Batch(keyed("a", "b")).at(2 * i).encode() for i in range(4))
    table = scanned(data).table
    assert crc.first_bad_crc(window(data), table, 0, 4) == -1
    damaged = bytearray(data)
    damaged[int(table["position"][2]) + 30] ^= 1
    damaged[-1] ^= 1
    assert crc.first_bad_crc(window(bytes(damaged)), table, 0, 4) == 2
    assert crc.first_bad_crc(window(bytes(damaged)), table, 3, 4) == 3


@pytest.mark.parametrize(("field", "value"), [("position", -1), ("size", 60), ("size", 2**62), ("position", 2**62)])
def test_a_row_that_is_not_in_the_buffer_is_bad(field: str, value: int) -> None:
    data = Batch(keyed("a")).encode()
    table = scanned(data).table
    table[field] = value
    assert crc.first_bad_crc(window(data), table, 0, 1) == 0
