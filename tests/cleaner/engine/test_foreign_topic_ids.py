"""A directory of a topic that was deleted and made again is not under the new one's policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleaner.engine.inventory import ForeignTopicId
from storage.names import TopicPartition
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

OURS, ANOTHER = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
OLD_MS = NOW_MS - 2 * DAY_MS
LAYERS = replace(configured(orders=EXPIRING), topic_ids={"orders": OURS})


@pytest.fixture
def orders(tmp_path):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS), mtime_ms=OLD_MS)
    committed(tmp_path, made.segment(1, keyed(1, "b=1")))
    return made


def written(orders, topic_id):
    (orders.path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def test_directory_with_another_topic_id_fails_and_keeps_everything(orders):
    written(orders, ANOTHER)
    before = {path.name: path.read_bytes() for path in orders.path.iterdir()}
    plan, outcome = a_cleaner(orders.path.parent, LAYERS).clean(request())
    (failure,) = plan.failures
    assert failure.topic_partition == TopicPartition("orders", 0)
    assert failure.error == str(ForeignTopicId(orders.path, ANOTHER, OURS))
    assert outcome.results == {}
    assert {path.name: path.read_bytes() for path in orders.path.iterdir()} == before


@pytest.mark.parametrize("topic_id", [OURS, None], ids=["the same", "none written"])
def test_directory_with_the_topics_id_or_none_is_cleaned(orders, topic_id):
    if topic_id:
        written(orders, topic_id)
    plan, _ = a_cleaner(orders.path.parent, LAYERS).clean(request())
    assert not plan.failures
    assert not orders.log(0).exists()


def test_directory_is_cleaned_if_the_metadata_log_does_not_know_the_topic(orders):
    written(orders, ANOTHER)
    for topic_ids in (None, {}, {"other": OURS}):
        plan = a_cleaner(orders.path.parent, replace(LAYERS, topic_ids=topic_ids)).plan(request())
        assert not plan.failures
        assert plan.has_work
