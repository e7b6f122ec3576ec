"""Sizes that stand side by side, and lines that are wrapped."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleaner.report.page import Page, two_sizes, wrapped
from cleaner.report.rollup.listing import compacted
from policies import reasons
from policies.reasons import size
from tests.cleaner.report.plans import MIB

SIZES = st.integers(0, 1 << 50)


@pytest.mark.parametrize("size_bytes", [0, 1, 512, 1023])
def test_a_few_bytes_are_written_alike_in_tables_and_sentences(size_bytes: int) -> None:
    assert size(size_bytes) == reasons.size(size_bytes) == two_sizes(size_bytes, size_bytes)[0]


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
        (10 * MIB - 1, ("10,485,760 bytes", "10,485,759 bytes")),
    ],
)
def test_different_sizes_get_as_many_digits_as_tell_them_apart(other_bytes: int, told: tuple[str, str]) -> None:
    assert two_sizes(10 * MIB, other_bytes) == told
    assert size(10 * MIB) == "10.0 MiB"


def test_a_compaction_that_saves_little_does_not_look_as_if_it_saved_nothing() -> None:
    assert compacted(10 * MIB, 10 * MIB - 1024, 5) == "10.000 MiB to 9.999 MiB"
    assert compacted(10 * MIB, None, 10 * MIB) == "10.0 MiB, all of it dirty"


WORDS = st.lists(
    st.tuples(st.text("ab-", min_size=1, max_size=12), st.sampled_from([" ", " ", "  ", "   "])), min_size=1
)


@given(WORDS, st.integers(0, 6), st.integers(0, 6), st.integers(18, 40))
def test_a_line_is_wrapped_as_textwrap_does_it(
    words: list[tuple[str, str]], begin: int, indent: int, columns: int
) -> None:
    line = " " * begin + "".join(word + gap for word, gap in words).rstrip()
    as_textwrap = textwrap.fill(
        line, columns, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    assert wrapped(line, columns, indent) == as_textwrap


def test_a_word_that_is_too_long_is_not_broken_and_an_indent_that_is_too_wide_goes() -> None:
    assert wrapped("  " + "a" * 12 + " b", 10, 4) == "  " + "a" * 12 + "\n    b"
    assert wrapped(" " * 12 + "a b", 10, 2) == "  a b"


def test_a_fate_colours_its_word_alone() -> None:
    page = Page(width=20)
    page.fate("delete", "  3 segments, 4.0 MiB", "red")
    styled = page.text.styled()
    assert [(styled.plain[span.start : span.end], span.style) for span in styled.spans if span.style] == [
        ("  delete", "red")
    ]
    assert page.text.plain == "  delete  3\n    segments, 4.0\n    MiB\n"
