"""A plan narrowed to a target: shares of a file system, compactions, what is told of the rest."""

from dataclasses import replace

import pytest

from policies.facts import LogDirFacts
from policies.plan import Request
from policies.planning import plan
from policies.rescue import (
    NOISE_BYTES,
    Gain,
    SpaceTarget,
    Volume,
    expected_bytes,
    narrowed,
    next_compaction,
    restricted,
)
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

OLD_MS = NOW_MS - 200
BOTH = a_policy("compact,delete", retention_ms=100, min_cleanable_dirty_ratio=0.0, segment_bytes=1000)


def a_plan(*logs):
    facts = LogDirFacts("/data", None, 0, 0, tuple(log.facts() for log in logs))
    return plan([facts], lambda _: BOTH, Request(NOW_MS))


def a_volume(free_bytes=0, size_bytes=1000):
    return Volume(("/data",), size_bytes, free_bytes, size_bytes - free_bytes)


@pytest.mark.parametrize(
    ("target", "size_bytes", "free_bytes", "short_bytes"),
    [
        (SpaceTarget(100), 1000, 0, 100),
        (SpaceTarget(100), 1000, 99, 1),
        (SpaceTarget(100), 1000, 100, 0),
        (SpaceTarget(100), 1000, 400, 0),
        (SpaceTarget(15, is_percent=True), 1000, 100, 50),
        (SpaceTarget(15, is_percent=True), 1001, 150, 1),
        (SpaceTarget(100, is_percent=True), 1000, 999, 1),
    ],
)
def test_short_of_a_target(target, size_bytes, free_bytes, short_bytes):
    assert target.short_bytes(a_volume(free_bytes, size_bytes)) == short_bytes


def test_volume_never_gets_more_than_is_used():
    """Files that share blocks, as copies on btrfs do, count them twice."""
    assert a_volume(100, 1000).with_freed(300).free_bytes == 400
    assert a_volume(100, 1000).with_freed(5000) == Volume(("/data",), 1000, 1000, 0)


@pytest.mark.parametrize(
    ("expected_bytes", "measured_bytes", "is_lacking"),
    [
        (10 << 20, 10 << 20, False),
        (10 << 20, 5 << 20, False),
        (10 << 20, (5 << 20) - 1, True),
        (10 << 20, -(1 << 20), True),
        (NOISE_BYTES, 0, False),
        (NOISE_BYTES + 1, 0, True),
        (0, -100, False),
    ],
)
def test_gain_is_lacking_where_it_is_less_than_half_and_more_than_noise(expected_bytes, measured_bytes, is_lacking):
    assert Gain(expected_bytes, measured_bytes).is_lacking == is_lacking


def told(plan_):
    (planned,) = plan_.partitions
    return [f"{v.action} {v.reason.code}" for v in planned.verdicts], planned.compaction is not None


def test_compactions_stay_only_where_deletions_do_not_suffice():
    drawn = a_log().segments(50, 50, newest_ms=OLD_MS).segments(50, 50)
    kept = ["compact DIRTY", "keep ACTIVE_SEGMENT"]
    assert told(narrowed(a_plan(drawn), [a_volume()], SpaceTarget(101))) == (["delete RETENTION_TIME"] * 2 + kept, True)
    spared = ["keep TARGET_MET", "keep ACTIVE_SEGMENT"]
    assert told(narrowed(a_plan(drawn), [a_volume()], SpaceTarget(100))) == (
        ["delete RETENTION_TIME"] * 2 + spared,
        False,
    )
    halved = ["delete RETENTION_TIME", "keep TARGET_MET", *spared]
    assert told(narrowed(a_plan(drawn), [a_volume()], SpaceTarget(50))) == (halved, False)


def test_spared_segment_says_what_would_take_it():
    (planned,) = narrowed(a_plan(a_log().segments(50, newest_ms=OLD_MS)), [a_volume(9)], SpaceTarget(1)).partitions
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


def linked(log, *places):
    facts = log.facts()
    segments = [s._replace(links=2) if place in places else s for place, s in enumerate(facts.segments)]
    return LogBuilder(replace(facts, segments=tuple(segments)))


def codes(plan_, name="orders-0"):
    (planned,) = (p for p in plan_.partitions if str(p.facts.topic_partition) == name)
    return [v.reason.code.value for v in planned.verdicts]


EXPIRED = a_policy("delete", retention_ms=100)


def an_expiring_plan(*logs):
    facts = LogDirFacts("/data", None, 0, 0, tuple(log.facts() for log in logs))
    return plan([facts], lambda _: EXPIRED, Request(NOW_MS))


def test_linked_segment_ends_its_partition_and_the_others_go_on():
    first = linked(a_log("a-0").segments(50, 50, 50, newest_ms=OLD_MS).segments(9), 1)
    chosen = narrowed(
        an_expiring_plan(first, a_log("b-0").segments(70, newest_ms=OLD_MS).segments(9)), [a_volume()], SpaceTarget(500)
    )
    assert codes(chosen, "a-0") == ["RETENTION_TIME", "NO_GAIN", "BEHIND_KEPT_SEGMENT", "TIME_NOT_REACHED"]
    assert codes(chosen, "b-0") == ["RETENTION_TIME", "TIME_NOT_REACHED"]
    assert "has 2 hard links" in chosen.partitions[0].verdicts[1].reason.text
    assert expected_bytes(chosen, a_volume()) == 120


def test_segments_without_blocks_go_only_before_what_gives_something():
    hollow = a_log().segment(newest_ms=OLD_MS, disk_bytes=0).segment(newest_ms=OLD_MS, disk_bytes=7)
    hollow = hollow.segment(newest_ms=OLD_MS, disk_bytes=0).segments(9)
    chosen = narrowed(an_expiring_plan(hollow), [a_volume()], SpaceTarget(500))
    assert codes(chosen) == ["RETENTION_TIME", "RETENTION_TIME", "NO_GAIN", "TIME_NOT_REACHED"]


def test_partition_with_a_linked_segment_is_not_compacted_for_space():
    allowed = a_plan(linked(a_log().segments(50, 50, 50), 1))
    assert allowed.partitions[0].compaction
    (planned,) = narrowed(allowed, [a_volume()], SpaceTarget(500)).partitions
    assert planned.compaction is None
    assert codes(narrowed(allowed, [a_volume()], SpaceTarget(500)))[:2] == ["NO_GAIN", "NO_GAIN"]


def test_working_space_counts_what_other_links_keep():
    by_one = a_policy("compact", min_cleanable_dirty_ratio=0.0, segment_bytes=50)
    facts = LogDirFacts("/data", None, 0, 0, (linked(a_log().segments(50, 40, 30, 9), 0).facts(),))
    (planned,) = plan([facts], lambda _: by_one, Request(NOW_MS)).partitions
    assert [list(group) for group in planned.compaction.round.groups] == [[0], [10], [20]]
    assert planned.compaction.working_bytes == 90
