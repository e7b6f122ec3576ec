from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import keys
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import SECRET
from tests.storage.kernels.calls import window
from tests.storage.kernels.strategies import compiled

_words = st.integers(0, 2**64 - 1)


def _hash(data: bytes, start: int, end: int, secret: tuple[int, int]) -> tuple[int, int]:
    low, high = keys.sip_hash(window(data), start, end, np.uint64(secret[0]), np.uint64(secret[1]))
    return int(low), int(high)


def test_the_empty_key_gives_the_published_vector() -> None:
    low, high = _hash(b"", 0, 0, SECRET)
    assert (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex() == "e77ebcb22788a5befd62db6add303001"


@pytest.mark.parametrize("length", range(34))
@pytest.mark.parametrize("start", [0, 1, 5, 8])
def test_every_length_and_place_agrees_with_the_twin(length: int, start: int) -> None:
    data = bytes(range(100, 100 + start + length))
    assert _hash(data, start, start + length, SECRET) == twin.sip_hash(data[start:], SECRET)


@compiled
@given(st.binary(max_size=300), st.tuples(_words, _words))
def test_any_secret_agrees_with_the_twin(key: bytes, secret: tuple[int, int]) -> None:
    assert _hash(key, 0, len(key), secret) == twin.sip_hash(key, secret)


@pytest.mark.parametrize(("start", "end"), [(5, 2), (0, 99), (-3, 3), (50, 60)])
def test_bounds_outside_the_buffer_are_cut(start: int, end: int) -> None:
    cut = b"abc"[max(start, 0) : end]
    assert _hash(b"abc", start, end, SECRET) == twin.sip_hash(cut, SECRET)
