"""Sizes that stand side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleaner.report.page import size, two_sizes
from cleaner.report.rollup.summary import compacted
from tests.cleaner.report.plans import MIB

SIZES = st.integers(0, 1 << 50)


@given(SIZES, st.one_of(SIZES, st.integers(-5000, 5000)))
def test_two_sizes_look_alike_only_if_they_are(one_bytes: int, other_bytes: int) -> None:
    other_bytes = max(one_bytes + other_bytes if abs(other_bytes) <= 5000 else other_bytes, 0)
    one, other = two_sizes(one_bytes, other_bytes)
    assert (one == other) == (one_bytes == other_bytes)


@pytest.mark.parametrize(
    ("other_bytes", "told"),
    [
        (10 * MIB, ("10.0 MiB", "10.0 MiB")),
        (9 * MIB, ("10.0 MiB", "9.0 MiB")),
        (10 * MIB - 50_000, ("10.00 MiB", "9.95 MiB")),
        (10 * MIB - 1, ("10,485,760 Bytes", "10,485,759 Bytes")),
    ],
)
def test_different_sizes_get_as_many_digits_as_tell_them_apart(other_bytes: int, told: tuple[str, str]) -> None:
    assert two_sizes(10 * MIB, other_bytes) == told
    assert size(10 * MIB) == "10.0 MiB"


def test_a_compaction_that_saves_little_does_not_look_as_if_it_saved_nothing() -> None:
    assert compacted(10 * MIB, 10 * MIB - 1024, 5) == "10.000 MiB to 9.999 MiB"
    assert compacted(10 * MIB, None, 10 * MIB) == "10.0 MiB, all of it dirty"
