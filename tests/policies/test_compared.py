"""A number beside a limit: in its unit, and never so coarse that the sentence contradicts itself."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.config.config_keys import LONG_MAX, TOPIC_KEY, ValueUnit
from policies.config.config_values import show_value
from policies.reasons import age_beside, share_beside, size_beside

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
WORD = re.compile(r"([\d.]+)([A-Za-z]+)")


def meant(words: str, unit: ValueUnit) -> Fraction:
    """The number that the words say."""
    found = [WORD.fullmatch(word) for word in words.split()]
    return sum((Fraction(word[1]) * unit.factors[word[2]] for word in found if word), Fraction(0))


def sign(difference: float | Fraction) -> int:
    return (difference > 0) - (difference < 0)


NUMBERS = st.one_of(st.integers(0, 5000), st.integers(0, 10**9), st.integers(0, LONG_MAX))
LIMITS = st.one_of(
    NUMBERS,
    st.builds(
        lambda count, unit: count * unit,
        st.integers(0, 400),
        st.sampled_from(sorted({*ValueUnit.MS.factors.values(), *ValueUnit.BYTES.factors.values()})),
    ),
)
PAIRS = st.one_of(
    st.tuples(NUMBERS, LIMITS),
    st.builds(lambda limit, more: (max(limit + more, 0), limit), LIMITS, st.integers(-5000, 5000)),
)


@given(PAIRS)
@example((LONG_MAX, LONG_MAX))
def test_an_age_is_shown_on_the_side_of_the_limit_where_it_is(pair: tuple[int, int]) -> None:
    age_ms, limit_ms = pair
    words, limit = age_beside(age_ms, limit_ms), show_value(TOPIC_KEY["retention.ms"], limit_ms)
    shown = meant(words, ValueUnit.MS)
    assert limit == "no limit" or meant(limit, ValueUnit.MS) == limit_ms
    assert limit == "no limit" or sign(shown - limit_ms) == sign(age_ms - limit_ms)
    assert (words == limit) <= (age_ms == limit_ms)
    assert shown <= age_ms
    assert age_ms - shown <= age_ms * Fraction(1, 12)  # two units say it: 1d 0h 59m is 1d


@given(PAIRS)
@example((LONG_MAX, LONG_MAX))
def test_a_size_is_shown_on_the_side_of_the_limit_where_it_is(pair: tuple[int, int]) -> None:
    size_bytes, limit_bytes = pair
    words, limit = size_beside(size_bytes, limit_bytes), show_value(TOPIC_KEY["retention.bytes"], limit_bytes)
    shown = meant(words, ValueUnit.BYTES)
    exact, _, about = limit.removesuffix(")").partition(" (")
    assert limit == "no limit" or meant(exact, ValueUnit.BYTES) == limit_bytes
    if not about or size_bytes != limit_bytes:
        assert limit == "no limit" or sign(shown - limit_bytes) == sign(size_bytes - limit_bytes)
    assert (words in (limit, about)) <= (size_bytes == limit_bytes)
    assert shown <= size_bytes
    near = 0 < limit_bytes < LONG_MAX and size_bytes < 10 * limit_bytes <= 100 * size_bytes
    assert not near or words.lstrip("0123456789.") in {(about or exact).lstrip("0123456789."), "B"}
    assert re.search(r"\b[\d.]+(kB|MB|GB|TB)", f"{words} {limit}") is None  # beside MiB


@given(st.floats(0, 1), st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])))
def test_a_share_is_shown_on_the_side_of_the_limit_where_it_is(share: float, limit: float) -> None:
    words = share_beside(share, limit)
    assert sign(float(words) - limit) == sign(share - limit)
    assert abs(float(words) - share) <= 0.005


@given(st.sampled_from([0.1, 0.25, 0.5, 0.9]), st.integers(1, 10**12))
def test_a_share_next_to_a_limit_never_looks_like_it(limit: float, part: int) -> None:
    for share in (limit - 1 / part / 20, limit + 1 / part / 20):
        if share != limit:
            assert float(share_beside(share, limit)) != limit


@pytest.mark.parametrize(
    ("age_ms", "limit_ms", "words"),
    [
        (3 * DAY_MS, 3 * DAY_MS, "3d"),
        (3 * DAY_MS + 1, 3 * DAY_MS, "3d 1ms"),
        (3 * DAY_MS + 5_000, 3 * DAY_MS, "3d 5s"),
        (3 * DAY_MS + 5 * HOUR_MS + 1, 3 * DAY_MS, "3d 5h"),
        (3 * DAY_MS - 1, 3 * DAY_MS, "2d 23h"),
        (40 * HOUR_MS, 36 * HOUR_MS, "40h"),
        (36 * HOUR_MS + 90_000, 36 * HOUR_MS, "36h 1m"),
        (30 * DAY_MS, 36 * HOUR_MS, "30d"),
        (5 * HOUR_MS, 3 * DAY_MS, "5h"),
        (5 * HOUR_MS, DAY_MS, "5h"),
        (0, DAY_MS, "0ms"),
        (5, 0, "5ms"),
        (DAY_MS, LONG_MAX, "1d"),
        (1_600, 1_500, "1600ms"),
    ],
)
def test_an_age_beside_a_limit_of_age(age_ms: int, limit_ms: int, words: str) -> None:
    assert age_beside(age_ms, limit_ms) == words


@pytest.mark.parametrize(
    ("size_bytes", "limit_bytes", "words"),
    [
        (4_936_240, 4 << 20, "4.7MiB"),
        (3_897_006, 4 << 20, "3.7MiB"),
        (2_600_123, 2_500_000, "2.4MiB"),
        (2_500_000, 2_500_000, "2.3MiB"),
        (2_499_999, 2_500_000, "2.3MiB"),
        (2_500_001, 2_500_000, "2.384186MiB"),
        (1_918_500, 2_500_000, "1.8MiB"),
        (2_600_123, 2_621_440, "2539.1KiB"),
        ((4 << 20) + 1, 4 << 20, "4.0000009MiB"),
        (2_600_123, 2_500_001, "2.4MiB"),
        (6_100, 6_000, "6100B"),
        (1_048_580, 1_048_588, "1048580B"),
        (100, 4 << 20, "100B"),
        (90_000_000_000, 2_500_000, "83.8GiB"),
        (90 << 30, 4 << 20, "90GiB"),
        (0, 4 << 20, "0B"),
        (12 << 20, 0, "12MiB"),
    ],
)
def test_a_size_beside_a_limit_of_size(size_bytes: int, limit_bytes: int, words: str) -> None:
    assert size_beside(size_bytes, limit_bytes) == words


@pytest.mark.parametrize(
    ("share", "limit", "words"),
    [(0.31, 0.5, "0.31"), (0.5, 0.5, "0.50"), (0.4996, 0.5, "0.4996"), (0.50001, 0.5, "0.50001"), (1.0, 0.9, "1.00")],
)
def test_a_share_beside_a_limit(share: float, limit: float, words: str) -> None:
    assert share_beside(share, limit) == words
