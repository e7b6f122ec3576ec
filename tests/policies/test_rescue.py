"""A plan narrowed to a target: shares of a file system, compactions, what is told of the rest."""

import pytest

from policies.facts import LogDirFacts
from policies.plan import Request, plan
from policies.rescue import Target, Volume, narrowed, next_compaction, restricted
from tests.builders import NOW_MS, a_log, a_policy

OLD_MS = NOW_MS - 200
BOTH = a_policy("compact,delete", retention_ms=100, min_cleanable_dirty_ratio=0.0, segment_bytes=1000)


def a_plan(*logs):
    facts = LogDirFacts("/data", None, 0, 0, tuple(log.facts() for log in logs))
    return plan([facts], lambda _: BOTH, Request(NOW_MS))


def a_volume(free_bytes=0, size_bytes=1000):
    return Volume(("/data",), size_bytes, free_bytes, 1)


@pytest.mark.parametrize(
    ("target", "size_bytes", "free_bytes", "short_bytes"),
    [
        (Target(100), 1000, 0, 100),
        (Target(100), 1000, 99, 1),
        (Target(100), 1000, 100, 0),
        (Target(100), 1000, 400, 0),
        (Target(15, is_percent=True), 1000, 100, 50),
        (Target(15, is_percent=True), 1001, 150, 1),
        (Target(100, is_percent=True), 1000, 999, 1),
    ],
)
def test_short_of_a_target(target, size_bytes, free_bytes, short_bytes):
    assert target.short_bytes(a_volume(free_bytes, size_bytes)) == short_bytes


def test_files_take_whole_blocks():
    facts = a_log().segment(bytes=5, companions_bytes=7, index_bytes=1, time_index_bytes=4).facts()
    assert Volume((), 0, 0, 4).on_disk_bytes(facts.active) == 8 + 4 + 4 + 4


def told(plan_):
    (planned,) = plan_.partitions
    return [f"{v.action} {v.reason.code}" for v in planned.verdicts], planned.compaction is not None


def test_compactions_stay_only_where_deletions_do_not_suffice():
    drawn = a_log().segments(50, 50, newest_ms=OLD_MS).segments(50, 50)
    kept = ["compact DIRTY", "keep ACTIVE_SEGMENT"]
    assert told(narrowed(a_plan(drawn), [a_volume()], Target(101))) == (["delete RETENTION_TIME"] * 2 + kept, True)
    spared = ["keep TARGET_MET", "keep ACTIVE_SEGMENT"]
    assert told(narrowed(a_plan(drawn), [a_volume()], Target(100))) == (["delete RETENTION_TIME"] * 2 + spared, False)
    halved = ["delete RETENTION_TIME", "keep TARGET_MET", *spared]
    assert told(narrowed(a_plan(drawn), [a_volume()], Target(50))) == (halved, False)


def test_spared_segment_says_what_would_take_it():
    (planned,) = narrowed(a_plan(a_log().segments(50, newest_ms=OLD_MS)), [a_volume(9)], Target(1)).partitions
    assert planned.verdicts[0].reason.text == "RETENTION_TIME would delete it, but enough is free without that"


def test_checkpoint_is_not_corrected_by_the_way():
    drawn = a_log().segments(50).compacted_to(500)
    allowed = a_plan(drawn)
    assert allowed.partitions[0].checkpoint_offset is not None
    assert restricted(allowed, {}, {allowed.partitions[0].key}).partitions[0].checkpoint_offset is None


def compactions(*logs):
    return [p for p in a_plan(*logs).partitions if p.compaction]


def test_next_compaction_gains_most_for_its_working_space():
    half_dirty = a_log("a-0").segments(100, 100, 1).compacted_to(10)
    all_dirty = a_log("b-0").segments(30, 30, 1)
    in_groups = a_log("c-0").segments(900, 900, 1)
    left = compactions(half_dirty, all_dirty, in_groups)
    order = []
    while (step := next_compaction(left, 10_000)) is not None:
        left.remove(step)
        order.append(str(step.facts.topic_partition))
    assert order == ["c-0", "b-0", "a-0"]


@pytest.mark.parametrize(("free_bytes", "expected"), [(59, None), (60, "b-0"), (899, "b-0"), (900, "c-0")])
def test_next_compaction_fits_into_what_is_free(free_bytes, expected):
    left = compactions(a_log("b-0").segments(30, 30, 1), a_log("c-0").segments(900, 900, 1))
    step = next_compaction(left, free_bytes)
    assert (str(step.facts.topic_partition) if step else None) == expected
