"""In which order a plan is spent, and what space that takes."""

import pytest

from policies.config.config_keys import DOUBLE_MAX
from policies.config.policy import BrokerPolicy
from policies.facts import LogDirFacts
from policies.plan import Request
from policies.planning import (
    SIDE_BY_SIDE_BYTES_MAX,
    compaction_crews,
    compaction_steps,
    deletion_steps,
    plan,
    scratch_bytes,
    with_oldest_apart,
)
from tests.builders import NOW_MS, a_log, a_policy

DAY_MS = 86_400_000
OLD_MS = NOW_MS - 2 * DAY_MS
EXPIRING = a_policy("delete", retention_ms=DAY_MS)
COMPACTING = a_policy("compact", min_cleanable_dirty_ratio=0.0, segment_bytes=100)


def a_plan(policy, **logs):
    partitions = tuple(log.facts() for log in logs.values())
    facts = LogDirFacts("/data", None, 0, 0, partitions)
    (planned,) = plan([facts], lambda _: policy, Request(NOW_MS)).log_dirs
    return planned


def old(name, *sizes_bytes):
    return a_log(name).segments(*sizes_bytes, newest_ms=OLD_MS)


def told(steps):
    return [(str(s.facts.topic_partition), [d.size_bytes for d in s.deletion.segments]) for s in steps]


def test_smallest_deletion_comes_first():
    planned = a_plan(EXPIRING, a=old("a-0", 50, 50).segment(), b=old("b-0", 30).segment(), c=a_log("c-0").segment())
    assert told(deletion_steps(planned, at_once=False)) == [("b-0", [30]), ("a-0", [50, 50])]


@pytest.mark.parametrize(
    ("at_once", "expected"),
    [
        (False, [("b-0", [5]), ("a-0", [10, 20, 30]), ("c-0", [90])]),
        (True, [("a-0", [10, 20]), ("c-0", [90]), ("b-0", [5]), ("a-0", [30])]),
    ],
)
def test_without_a_delay_what_needs_no_space_comes_first_and_the_newest_segment_of_all_goes_apart(at_once, expected):
    planned = a_plan(EXPIRING, a=old("a-0", 10, 20, 30), b=old("b-0", 5), c=old("c-0", 90).segment())
    assert told(deletion_steps(planned, at_once=at_once)) == expected


def test_two_steps_of_a_partition_say_together_what_the_whole_one_says():
    (whole,) = a_plan(EXPIRING, a=old("a-0", 10, 20, 30)).partitions
    older, newest = deletion_steps(a_plan(EXPIRING, a=old("a-0", 10, 20, 30)), at_once=True)
    assert older.deletion.segments + newest.deletion.segments == whole.deletion.segments
    assert older.deletion.verdicts + newest.deletion.verdicts == whole.deletion.verdicts
    assert (older.deletion.new_log_start_offset, older.deletion.roll_at_offset) == (20, None)
    assert (newest.deletion.new_log_start_offset, newest.deletion.roll_at_offset) == (30, 30)
    assert [v.base_offset for v in newest.verdicts] == [20]
    assert older.facts.log_start_offset == 0
    assert newest.facts.log_start_offset == 20


def test_the_oldest_mebibyte_is_a_step_of_its_own():
    mebibyte = 1 << 20
    (step,) = deletion_steps(a_plan(EXPIRING, a=old("a-0", 9, mebibyte, 5, 7).segment()), at_once=True)
    oldest, rest = with_oldest_apart(step)
    assert told([oldest, rest]) == [("a-0", [9, mebibyte]), ("a-0", [5, 7])]
    assert (oldest.deletion.new_log_start_offset, rest.deletion.new_log_start_offset) == (20, 40)
    assert [v.base_offset for v in rest.verdicts] == [20, 30, 40]
    (step,) = deletion_steps(a_plan(EXPIRING, a=old("a-0", mebibyte, 5).segment()), at_once=True)
    assert told(with_oldest_apart(step)) == [("a-0", [mebibyte]), ("a-0", [5])]
    for sizes_bytes in ((9, mebibyte - 10, 0), (9, mebibyte), (mebibyte,)):
        (small,) = deletion_steps(a_plan(EXPIRING, a=old("a-0", *sizes_bytes).segment()), at_once=True)
        assert with_oldest_apart(small) == (small,)


def test_log_start_inside_the_newest_segment_never_goes_back():
    planned = a_plan(EXPIRING, a=old("a-0", 10, 20, 30).log_start(25))
    older, newest = deletion_steps(planned, at_once=True)
    assert (older.deletion.new_log_start_offset, newest.deletion.new_log_start_offset) == (25, 30)


def test_compaction_of_the_smallest_working_space_comes_first():
    """``a`` is larger, but in more groups: at most 100 bytes are needed at once."""
    planned = a_plan(COMPACTING, a=a_log("a-0").segments(60, 60, 60, 9), b=a_log("b-0").segments(90, 9))
    steps = compaction_steps(planned)
    assert [(str(s.facts.topic_partition), s.compaction.working_bytes) for s in steps] == [("a-0", 60), ("b-0", 90)]


@pytest.mark.parametrize(("at_once", "expected"), [(True, 90), (False, 60 + 60 + 60 + 90)])
def test_scratch_space_is_the_largest_group_or_all_where_the_sources_wait(at_once, expected):
    planned = a_plan(COMPACTING, a=a_log("a-0").segments(60, 60, 60, 9), b=a_log("b-0").segments(90, 9))
    assert scratch_bytes(planned, at_once=at_once) == expected


def test_nothing_to_compact_needs_no_space():
    assert scratch_bytes(a_plan(EXPIRING, a=old("a-0", 10)), at_once=True) == 0


def test_small_compactions_go_side_by_side_and_large_ones_in_turn():
    large = SIDE_BY_SIDE_BYTES_MAX
    logs = {"a": a_log("a-0").segments(60, 30).segment(), "b": a_log("b-0").segments(large, 30).segment()}
    steps = compaction_steps(a_plan(COMPACTING, **logs, c=a_log("c-0").segments(10, 30).segment()))

    def crews(threads, bytes_per_second=DOUBLE_MAX):
        broker = BrokerPolicy(log_cleaner_io_max_bytes_per_second=bytes_per_second)
        found = compaction_crews(steps, threads, broker)
        return tuple([step.facts.topic_partition.topic for step in crew] for crew in found)

    assert crews(2) == (["c", "a"], ["b"])
    assert crews(1) == crews(2, bytes_per_second=1e6) == ([], ["c", "a", "b"])


def test_one_small_compaction_has_all_threads():
    steps = compaction_steps(a_plan(COMPACTING, a=a_log("a-0").segments(60, 30).segment()))
    assert compaction_crews(steps, 2, BrokerPolicy()) == ((), steps)
