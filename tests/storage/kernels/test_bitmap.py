from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import bitmap
from tests.storage.kernels.calls import bits_of, ordinals_of
from tests.storage.kernels.strategies import compiled

_bounds = st.integers(-70, 300)


@compiled
@given(st.sets(st.integers(0, 199)), _bounds, _bounds)
def test_counting_a_range_counts_its_set_bits(ordinals: set[int], first: int, last: int) -> None:
    expected = sum(first <= ordinal < last for ordinal in ordinals)
    assert bitmap.count_bits(bits_of(ordinals, 200), first, last) == expected


@compiled
@given(_bounds, _bounds)
def test_setting_a_range_sets_it_and_nothing_else(first: int, last: int) -> None:
    bits = bitmap.new_bitmap(256)
    bitmap.set_range(bits, first, last)
    assert ordinals_of(bits) == set(range(max(first, 0), min(last, 256)))


def test_a_bitmap_of_nothing_counts_nothing() -> None:
    empty = bitmap.new_bitmap(0)
    bitmap.set_range(empty, 0, 1)
    assert bitmap.count_bits(empty, 0, np.iinfo(np.int64).max) == 0
