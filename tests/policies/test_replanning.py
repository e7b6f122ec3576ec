"""What a run did in the end, where a partition was planned twice."""

from policies.facts import LogDirFacts, UnreadablePartition
from policies.plan import Request
from policies.planning import limited_to, plan, replanned, without_compactions
from storage.names import TopicPartition
from tests.builders import NOW_MS, a_log, a_policy

DAY_MS = 86_400_000
EXPIRING = a_policy("delete", retention_ms=DAY_MS)
GARBLED = UnreadablePartition(TopicPartition("garbled", 0), "/data", "no index")


def old(name, *sizes_bytes):
    return a_log(name).segments(*sizes_bytes, newest_ms=NOW_MS - 2 * DAY_MS)


def a_plan(*found):
    partitions = tuple(p if isinstance(p, UnreadablePartition) else p.facts() for p in found)
    return plan([LogDirFacts("/data", None, 0, 0, partitions)], lambda _: EXPIRING, Request(NOW_MS))


def key_of(name):
    return "/data", TopicPartition(name, 0)


def told(planned):
    return {
        p.facts.topic_partition.topic: ([v.size_bytes for v in p.verdicts], len(p.deletion.segments))
        for p in planned.partitions
    }


FIRST = a_plan(old("a-0", 10, 20).segment(), old("b-0", 30).segment(), GARBLED)


def test_limited_plan_has_the_named_partitions_alone():
    assert list(told(limited_to(FIRST, {key_of("a"), key_of("garbled")}))) == ["a"]
    assert not limited_to(FIRST, {key_of("garbled")}).failures


def test_a_plan_without_its_compactions_keeps_deletions_verdicts_and_failures():
    facts = (a_log("a-0").segments(10, 20).segment().facts(), old("b-0", 30).segment().facts(), GARBLED)
    policies = {"a": a_policy("compact"), "b": EXPIRING}
    request = Request(NOW_MS, force_compaction=True)
    planned = plan([LogDirFacts("/data", None, 0, 0, facts)], lambda p: policies[p.topic_partition.topic], request)
    left = without_compactions(planned)
    assert [bool(p.compaction) for p in planned.partitions] == [True, False]
    assert [(bool(p.compaction), bool(p.deletion)) for p in left.partitions] == [(False, False), (False, True)]
    assert [p.verdicts for p in left.partitions] == [p.verdicts for p in planned.partitions]
    assert left.failures == planned.failures


def test_second_plan_takes_the_place_of_the_first():
    again = a_plan(old("a-0", 15).segment())
    joined = replanned(FIRST, again, {key_of("a"): 0})
    sizes, deletions = told(joined)["a"]
    assert (sizes[0], deletions) == (15, 1)
    assert told(joined)["b"] == told(FIRST)["b"]
    assert joined.failures == FIRST.failures


def test_what_the_first_plan_deleted_stays_in_front():
    again = a_plan(old("a-0", 20).segment())
    (joined, *_) = replanned(FIRST, again, {key_of("a"): 1}).partitions
    assert [v.size_bytes for v in joined.verdicts][:2] == [10, 20]
    assert [(s.size_bytes, v.size_bytes) for s, v in joined.deletion.decided] == [(10, 10), (20, 20)]
    assert len(joined.facts.segments) == len(joined.verdicts) == 3
