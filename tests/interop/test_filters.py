"""Rounds that pass over segments by their key filters, against Kafka's, which reads and rewrites them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.compaction import filters
from cleaner.engine.compaction.key_map import KeyMap
from cleaner.engine.compaction.passes import Span, Spared
from storage.checkpoints import format_offset_checkpoint
from storage.names import HIGH_WATERMARK_CHECKPOINT
from tests.interop.referee import Referee
from tests.interop.sides import PARTITION, clean_with_ours, copy, partition_dir

pytestmark = pytest.mark.kafka

NOW_MS: Final = 1_800_000_000_000
KEYS: Final = 20_000
SEGMENT_BYTES: Final = 1 << 18
CONFIG: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.bytes": str(SEGMENT_BYTES)}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many segments each round passes over."""
    counts: list[int] = []
    spare = filters.Filters.spare

    def counting(self: filters.Filters, of: Sequence[Span], first_dirty: int, key_map: KeyMap) -> tuple[Spared, ...]:
        counts.append(len(spared := spare(self, of, first_dirty, key_map)))
        return spared

    monkeypatch.setattr(filters.Filters, "spare", counting)
    return counts


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_rounds_over_a_few_of_the_keys(
    referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(filters, "SEGMENT_BYTES_MIN", 1)
    monkeypatch.setattr(filters, "cache_root", lambda: tmp_path / "cache")
    passed_over = counted(monkeypatch)
    ours, end = tmp_path / "ours", 0
    for number, (first_key, keys) in enumerate([(0, KEYS), (0, 100), (9_000, 500), (0, 100), (0, KEYS), (50, 1)]):
        records = KEYS if number == 0 else 5_000
        referee.generate(
            partition_dir(ours), records=records, keys=keys, first_key=first_key, in_order=number == 0,
            value_bytes=100, codec=codec, segment_bytes=SEGMENT_BYTES, seed=number,
        )  # fmt: skip
        end += records
        (ours / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint({PARTITION: end}))
        theirs = copy(ours, f"kafka-{number}")
        referee.clean([partition_dir(theirs)], config=CONFIG, now_ms=NOW_MS, checkpoints=True)
        clean_with_ours(ours, CONFIG, NOW_MS)
        kafka, left = referee.digest([partition_dir(theirs), partition_dir(ours)])
        assert (left.records, left.sha256) == (kafka.records, kafka.sha256), number
    assert sum(passed_over) > 30
