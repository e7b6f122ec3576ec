"""Key filters never deny a key that they hold, nearly always deny any other key, and show damage."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleaner.engine.compaction.key_filter import (
    About,
    KeyFilter,
    format_key_filter,
    hashes_of,
    parse_about,
    parse_key_filter,
)
from storage.kernels.filter_probe import have_common
from storage.names import FileIdentity
from tests.storage.kernels.strategies import compiled

LOW_WORDS: Final = st.integers(0, 2**64 - 1)
KEYS: Final = 100_000


def words(*low_words):
    return np.array(low_words, np.uint64)


def filter_of(low_words):
    about = About((2**64 - 1, 7), FileIdentity(1, 2**63, 3, -4), 5, -6, 7, low_words.size)
    return KeyFilter.of(about, hashes_of(low_words.copy()))


def parsed(key_filter):
    return parse_key_filter(np.concatenate(format_key_filter(key_filter)))


def drawn(seed, count=KEYS):
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


@compiled
@given(st.lists(LOW_WORDS, max_size=40), st.lists(LOW_WORDS, max_size=40))
def test_it_has_what_was_put_in_and_nothing_else(held, wanted):
    key_filter = parsed(filter_of(words(*held)))
    common = {word >> 16 for word in held} & {word >> 16 for word in wanted}
    assert key_filter.may_have_any(hashes_of(words(*wanted))) == bool(common)


@pytest.mark.parametrize("count", [1, 2, 1000, KEYS])
def test_each_of_many_keys_is_found_among_many_others(count):
    held = drawn(1, count)
    key_filter, others = parsed(filter_of(held)), drawn(2)
    assert not key_filter.may_have_any(hashes_of(others.copy()))
    for word in held[:50]:
        assert key_filter.may_have_any(hashes_of(np.append(others, word)))


def test_what_is_written_is_read_back():
    key_filter = filter_of(drawn(3, 100))
    found = parsed(key_filter)
    assert found.about == key_filter.about
    for name in ("starts", "rests", "sketch"):
        assert np.array_equal(getattr(found, name), getattr(key_filter, name))
    assert parse_about(np.concatenate(format_key_filter(key_filter)).tobytes()[:200]) == key_filter.about


def test_a_damaged_file_is_no_filter():
    data = np.concatenate(format_key_filter(filter_of(drawn(4, 3))))
    for position in [*range(120), data.size // 2, data.size - 1]:
        damaged = data.copy()
        damaged[position] ^= 1 << position % 8
        assert parse_key_filter(damaged) is None
    for size in (0, 1, 15, 16, 90, 97, data.size - 4, data.size - 1):
        assert parse_key_filter(data[:size].copy()) is None
    assert parse_about(b"") is None
    assert parse_about(bytes(200)) is None


@compiled
@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
    st.lists(st.integers(0, 2**32 - 1), max_size=5),
    st.lists(LOW_WORDS, min_size=1, max_size=4),
    st.lists(LOW_WORDS, max_size=5),
)
def test_nonsense_is_not_read_beyond_its_ends(starts, rests, sketch, hashes):
    halves = [np.array(values, np.uint32) for values in (starts, rests)]
    assert have_common(*halves, words(*sketch), words(*hashes)) in {True, False}
