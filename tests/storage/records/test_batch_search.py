from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from storage.records import Record, encode_batch, encode_message
from storage.records.batch_search import next_whole_batch

RECORD: Final = Record(7, 1_700_000_000_000, b"key", b"a value")
NOISE: Final = b"torn by a crash, and then a broker went on"
BATCHES: Final = [encode_message(RECORD, 0), encode_message(RECORD, 1), encode_batch([RECORD])]
EACH_VERSION: Final = pytest.mark.parametrize("batch", BATCHES, ids=["v0", "v1", "v2"])


@pytest.fixture
def found(tmp_path: Path) -> Any:
    def find(data: bytes, start: int = 0, **bounds: int) -> int | None:
        path = tmp_path / "a.log"
        path.write_bytes(data)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return next_whole_batch(descriptor, path, start, len(data), **bounds)
        finally:
            os.close(descriptor)

    return find


@EACH_VERSION
@pytest.mark.parametrize("noise", [b"", NOISE, bytes(100), bytes((1 << 20) - 3)], ids=["none", "text", "zeros", "MiB"])
def test_the_first_whole_batch_is_found_at_any_byte(found: Any, noise: bytes, batch: bytes) -> None:
    assert found(noise + batch + batch) == len(noise)
    assert found(noise + batch + batch, len(noise) + 1) == len(noise + batch)
    assert found(noise + batch, len(noise) + 1) is None


@EACH_VERSION
def test_a_batch_that_is_damaged_or_cut_short_is_none(found: Any, batch: bytes) -> None:
    damaged = batch[:-1] + bytes([batch[-1] ^ 1])
    assert found(NOISE + damaged) is None
    assert found(NOISE + batch[:-1]) is None
    assert found(NOISE + damaged + batch) == len(NOISE + damaged)


@pytest.mark.parametrize(
    ("offset", "base_offset", "is_found"),
    [
        (7, 0, True),
        ((1 << 32) + 7, 0, True),
        ((2 << 32) + 7, 0, False),
        (7, 1 << 40, False),
        ((1 << 40) - 1, 1 << 40, False),
        ((1 << 40) + 7, 1 << 40, True),
        ((1 << 40) + (2 << 32), 1 << 40, False),
    ],
)
def test_an_offset_far_from_the_base_counts_only_where_nobody_asks_for_it(
    found: Any, offset: int, base_offset: int, is_found: bool
) -> None:
    batch = encode_batch([replace(RECORD, offset=offset)])
    assert found(batch, base_offset=base_offset) == (0 if is_found else None)
    assert found(batch) == 0


def test_the_search_ends_where_too_much_was_summed_up(found: Any) -> None:
    damaged = BATCHES[2][:-1] + bytes([BATCHES[2][-1] ^ 1])
    assert found(damaged * 3 + BATCHES[2], checked_bytes_max=3 * len(damaged)) is None
    assert found(damaged * 3 + BATCHES[2], checked_bytes_max=4 * len(damaged)) == 3 * len(damaged)
