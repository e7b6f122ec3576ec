"""What Kafka's own retention and cleaner set aside is no only copy, wherever a kill left it; what a person does is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.only_copies import OnlyCopies
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from tests.interop.crash_leftovers import Tried, drawn, try_log
from tests.interop.referee import Referee
from tests.interop.sides import PARTITION, partition_dir

pytestmark = pytest.mark.kafka

SEEDS: Final = range(6)
STATES_MIN: Final = 200
GAPS_MIN: Final = 100


def test_no_crash_state_of_kafkas_retention_and_cleaner_is_held_back(referee: Referee, tmp_path: Path) -> None:
    tried = Tried()
    held = [told for seed in SEEDS for told in try_log(referee, tmp_path / str(seed), seed, tried)]
    assert not held, "\n".join(held)
    assert tried.states >= STATES_MIN
    assert tried.gaps >= GAPS_MIN, "states that retention alone explains prove little"


def test_a_segment_that_a_person_sets_aside_in_a_compacted_log_is_held_back(referee: Referee, tmp_path: Path) -> None:
    drawn(referee, tmp_path, 0)
    directory = partition_dir(tmp_path)
    segment = list_partition(directory).segments[-2]
    assert segment.size_bytes
    older_ns = max(file.changed_ns for file in list_partition(directory).files)
    retired = segment.log.path.rename(segment.log.path.with_name(f"{segment.log.file_name}.deleted"))
    while retired.stat().st_ctime_ns <= older_ns:  # the clock of a file system ticks coarsely
        retired.touch()
    kept = OnlyCopies(LogDir(tmp_path)).of(PARTITION, list_partition(directory))
    assert list(kept.copies) == [segment.base_offset]
