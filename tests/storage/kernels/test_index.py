from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import index
from storage.kernels.layout import WRITTEN, index_state
from storage.kernels.status import Status
from tests.storage.kernels import twin
from tests.storage.kernels.strategies import compiled

_batches = st.lists(st.tuples(st.integers(61, 500), st.integers(1, 9), st.integers(-1, 30)), max_size=40)


def _written(batches: list[tuple[int, int, int]], base_offset: int) -> list[tuple[int, int, int, int]]:
    rows, position, offset = [], 0, base_offset - 1
    for size, step, timestamp in batches:
        offset += step
        rows.append((position, size, offset, timestamp))
        position += size
    return rows


def _indexed(rows, base_offset: int, interval: int, state=None, position: int = 0, room: int | None = None):
    written = np.array([(*row, 1) for row in rows], WRITTEN)
    receivers = np.zeros((4, len(rows) if room is None else room), np.int64)
    state = index_state(base_offset) if state is None else state
    status, row, offsets, times = index.index_batches(
        written, len(rows), position, base_offset, interval, state, *receivers
    )
    found = receivers.tolist()
    pairs = (
        list(zip(found[0], found[1], strict=True))[:offsets],
        list(zip(found[2], found[3], strict=True))[:times],
    )
    return (Status(status), row), *pairs


@compiled
@given(_batches, st.sampled_from([0, 100, 1000]), st.integers(0, 40))
def test_entries_are_the_twins_in_one_call_or_two(batches: list[tuple[int, int, int]], interval: int, cut: int) -> None:
    rows = _written(batches, 7)
    expected = twin.index_entries(rows, 7, interval)
    assert _indexed(rows, 7, interval) == ((Status.OK, len(rows)), *expected)
    state = index_state(7)
    first = _indexed(rows[:cut], 7, interval, state)
    moved = [(position - 1000, *rest) for position, *rest in rows[cut:]]
    second = _indexed(moved, 7, interval, state, position=1000)
    assert (first[1] + second[1], first[2] + second[2]) == expected


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ((0, 61, 6, 1), Status.BAD_OFFSETS),
        ((0, 61, 7 + 2**31, 1), Status.BAD_OFFSETS),
        ((2**31, 61, 7, 1), Status.BAD_SIZE),
        ((2**31 - 1, 61, 6 + 2**31, 1), Status.OK),
    ],
)
def test_what_31_bits_cannot_address_is_refused(row: tuple[int, int, int, int], status: Status) -> None:
    assert _indexed([row], 7, 0)[0][0] == status


def test_receivers_too_short_are_refused() -> None:
    assert _indexed([(0, 61, 7, 1)], 7, 0, room=0)[0] == (Status.TABLE_FULL, 0)
