"""Counting by key: every byte once, the latest record of each key, and what does not count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cleaner.engine.owners import shared_out
from storage.kernels.layout import HEADERS_BYTES, KEY_BYTES, LOCATED_FIELDS, ROW, VALUE_BYTES

BATCHES = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.lists(st.tuples(st.integers(-1, 400), st.integers(-1, 10**6)), min_size=1)),
    min_size=1,
    max_size=8,
)


@given(BATCHES)
def test_the_shares_of_a_batch_add_up_to_its_size(batches: list[tuple[int, list[tuple[int, int]]]]) -> None:
    records = [(row, *sizes) for row, (_, held) in enumerate(batches) for sizes in held]
    located = np.zeros((LOCATED_FIELDS, len(records)), np.int64)
    located[ROW], located[KEY_BYTES], located[VALUE_BYTES] = np.array(records).T
    located[HEADERS_BYTES] = 1
    shares = shared_out(np.array([size for size, _ in batches], np.int64), located)
    assert (shares >= 0).all()
    assert np.bincount(located[ROW], shares, len(batches)).astype(np.int64).tolist() == [size for size, _ in batches]


def test_a_larger_record_has_the_larger_share() -> None:
    located = np.zeros((LOCATED_FIELDS, 3), np.int64)
    located[VALUE_BYTES] = [-1, 100, 1000]
    small, middle, large = shared_out(np.array([2000]), located).tolist()
    assert small < middle < large


def test_no_records_have_no_shares() -> None:
    assert shared_out(np.array([], np.int64), np.zeros((LOCATED_FIELDS, 0), np.int64)).size == 0
