"""What the daemon says of a compaction while it goes on."""

from __future__ import annotations

from storage.names import TopicPartition
from tests.cleaner.daemon.test_worker import World, in_this_process, log_dir, surveys  # noqa: F401 - fixtures
from tests.partition_dirs import COMPACT, EXPIRING, NOW_MS

STATE = TopicPartition("state", 0)


def percentages(world):
    return [text for text in world.pulse.told if text.endswith("%")]


def test_compaction_of_the_backlog_is_told_in_percent(log_dir):  # noqa: F811
    world = World(log_dir, orders=EXPIRING, state=COMPACT).after(0)
    assert percentages(world)


def test_compaction_that_no_survey_found_is_told_in_percent_too(log_dir):  # noqa: F811
    world = World(log_dir, orders=EXPIRING, state=COMPACT)
    world.worker.want(lambda schedule: schedule.surveyed([(str(log_dir), STATE)], {}, corrections=False))
    world.worker.want(lambda schedule: schedule.began(next(iter(surveys(schedule))), NOW_MS))
    world.after(0)
    assert "segments_compacted" in world.log.names()
    assert percentages(world)
