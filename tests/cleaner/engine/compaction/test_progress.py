"""The progress of a compaction adds up to the bytes that the plan names."""

from __future__ import annotations

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.compaction.key_map import Budget
from cleaner.engine.means import PASSES, Means, Silent
from policies.config.config_layers import Configured
from storage.scan import segments
from tests.partition_dirs import COMPACT, FakeClock, PartitionDir, committed, configured, keyed, request


class Adding(Silent):
    def __init__(self):
        self.steps = []
        self.expected_bytes = 0

    def expect(self, size_bytes):
        self.expected_bytes += size_bytes

    def progress(self, done_bytes):
        self.steps.append(done_bytes)


def a_log(log_dir, *, clean_to):
    """Segments of many batches each, of which all, some or no records stay."""
    made = PartitionDir(log_dir)
    for base in (0, 1000, 2000, 3000):
        pairs = [f"k{n % 90}=v{n}" for n in range(300)] if base != 2000 else [f"u{n}=v" for n in range(300)]
        made.segment(base, *(keyed(base + n, *pairs[n : n + 3]) for n in range(0, 300, 3)))
    committed(log_dir, made.segment(4000, keyed(4000, "z=1")))
    if clean_to:
        (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {clean_to}\n")
    return made.path


@pytest.mark.parametrize("window_bytes", [segments.WINDOW_BYTES, 1500])
@pytest.mark.parametrize("clean_to", [0, 2000, 2150], ids=["all dirty", "half clean", "clean within a segment"])
@pytest.mark.parametrize("segment_bytes", [14, 1 << 30], ids=["a group each", "one group"])
def test_progress_adds_up_to_the_bytes_of_both_passes(
    tmp_path, monkeypatch, window_bytes, clean_to, segment_bytes, rounds
):
    monkeypatch.setattr(segments, "WINDOW_BYTES", window_bytes)
    a_log(tmp_path, clean_to=clean_to)
    layers = configured(orders={**COMPACT, "segment.bytes": str(segment_bytes)})
    check_progress(tmp_path, layers)


@pytest.mark.parametrize("clean_to", [0, 2150])
def test_bytes_that_are_read_again_because_the_map_is_small_are_told_once(tmp_path, monkeypatch, clean_to):
    monkeypatch.setattr("cleaner.engine.compaction.key_map.LOG2_SLOTS_MIN", 5)
    monkeypatch.setattr("cleaner.engine.compaction.round.Budget", lambda *_: Budget(256, 0.9))
    a_log(tmp_path, clean_to=clean_to)
    result = check_progress(tmp_path, configured(orders=COMPACT))
    assert result.map_utilisation == 1


def check_progress(log_dir, layers):
    heard = Adding()
    cleaner = Cleaner(Configured((log_dir,), layers), Means(clock=FakeClock(), listener=heard))
    (planned,) = cleaner.plan(request()).partitions
    _, outcome = cleaner.clean(request())
    assert [result.error for result in outcome.results.values()] == [None]
    assert heard.expected_bytes == planned.compaction.size_bytes
    assert sum(heard.steps) == PASSES * heard.expected_bytes
    assert all(step >= 0 for step in heard.steps)
    return next(iter(outcome.results.values()))
