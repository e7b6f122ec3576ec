"""Every small plan narrowed to every target, against the few sentences that say what a rescue may do.

Worlds: two log dirs on one volume or on two, up to two partitions each, segments of several ages that take more or less
of the disk, or nothing, or have another hard link; all, some or none of them policy lets go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from policies.facts import LogDirFacts
from policies.plan import Plan, Request
from policies.planning import plan
from policies.reasons import Action, ReasonCode
from policies.rescue import Gain, SpaceTarget, Volume, expected_bytes, narrowed, restricted
from storage.names import TopicPartition
from tests.builders import NOW_MS, a_log, a_policy

LIMIT_MS = 100
EXPIRING = a_policy("delete", retention_ms=LIMIT_MS)
AGES_MS = (400, 300, 200, 50)
PLAIN = ((1, 1), (4, 1))
"""Bytes of the disk, hard links."""
HOLE, LINKED = (0, 1), (4, 2)
LAYOUTS = ((("/a", "/b"),), (("/a",), ("/b",)))


Kind = tuple[int, tuple[int, int]]


def every_log() -> list[tuple[Kind, ...]]:
    """Ages and space of the segments; ages may go up and down, for records carry what time they like."""
    kinds = [*product(AGES_MS, PLAIN), *product(AGES_MS[::2], (HOLE, LINKED))]
    return [(), *((kind,) for kind in kinds), *product(kinds, repeat=2)]


def every_plan() -> Iterator[Plan]:
    logs = every_log()
    few = logs[:: len(logs) // 12]
    for first, second in product(logs, few):
        yield planned({"/a": [first, ((300, (2, 1)), (50, (1, 1)))], "/b": [second]})


def planned(log_dirs: dict[str, list[tuple[Kind, ...]]]) -> Plan:
    facts = [
        LogDirFacts(path, None, 0, 0, tuple(a_partition(path, number, log) for number, log in enumerate(logs) if log))
        for path, logs in log_dirs.items()
    ]
    return plan(facts, lambda _: EXPIRING, Request(NOW_MS))


def a_partition(path, number, log):
    drawn = a_log()
    for age_ms, (disk_bytes, links) in log:
        drawn = drawn.segment(bytes=9, newest_ms=NOW_MS - age_ms, disk_bytes=disk_bytes, links=links)
    return replace(drawn.facts(), log_dir=path, topic_partition=TopicPartition("orders", number))


def volumes(layout) -> list[Volume]:
    return [Volume(paths, 1000, 0, 1000) for paths in layout]


def gone(plan_: Plan) -> dict[tuple[str, int, int], tuple[int, int]]:
    """Of every segment that goes: its rank (the greatest age rank up to it) and what it takes on the disk."""
    found = {}
    for p in plan_.partitions:
        rank_ms = 0
        for segment in p.deletion.segments if p.deletion else ():
            rank_ms = max(rank_ms, segment.largest_timestamp_ms)
            found[p.facts.log_dir, p.facts.topic_partition.partition, segment.base_offset] = rank_ms, segment.disk_bytes
    return found


def unlinked(plan_: Plan) -> set[tuple[str, int, int]]:
    """The segments in front of the first one of their partition that has another hard link."""
    found = set()
    for p in plan_.partitions:
        for segment in p.facts.segments:
            if segment.links > 1:
                break
            found.add((p.facts.log_dir, p.facts.topic_partition.partition, segment.base_offset))
    return found


def check(allowed: Plan, layout, wanted_bytes: int, narrow=narrowed) -> None:
    chosen = narrow(allowed, volumes(layout), SpaceTarget(wanted_bytes))
    may_go, goes = gone(allowed), gone(chosen)
    assert goes.items() <= may_go.items()
    alone = unlinked(allowed)
    assert goes.keys() <= alone, "takes what another link keeps"
    for paths in layout:
        here = {key: value for key, value in goes.items() if key[0] in paths}
        gives = {key: may_go[key] for key in may_go.keys() & alone if key[0] in paths and may_go[key][1]}
        left = {key: value for key, value in gives.items() if key not in goes}
        freed_bytes = sum(disk_bytes for _, disk_bytes in here.values())
        assert freed_bytes >= wanted_bytes or not left, "stops too early"
        for log_dir, partition, base_offset in here:
            ends = [key[2] for key in here if key[:2] == (log_dir, partition) and here[key][1]]
            assert ends, "takes what gives nothing"
            assert base_offset <= max(ends), "takes what gives nothing, behind all that gives something"
        if here:
            youngest = max((key for key in here if here[key][1]), key=lambda key: (here[key][0], key))
            assert freed_bytes - here[youngest][1] < wanted_bytes, "goes on although there is enough"
            assert all(rank_ms >= here[youngest][0] for rank_ms, _ in left.values()), "not the oldest first"
    for before, after in zip(allowed.partitions, chosen.partitions, strict=True):
        check_partition(before, after)


def check_partition(before, after) -> None:
    count = len(after.deletion.segments) if after.deletion else 0
    assert after.verdicts[:count] == before.verdicts[:count]
    is_behind_linked = False
    for was, is_, segment in zip(before.verdicts, after.verdicts, before.facts.segments, strict=True):
        if segment.base_offset >= before.facts.upper_offset(count - 1) or not count:
            assert is_.action is Action.KEEP
            assert is_ == was or is_.reason.code is expected_code(segment, is_behind_linked=is_behind_linked)
        is_behind_linked |= segment.links > 1 and was.action is Action.DELETE
    if after.deletion:
        assert after.facts.segments[:count] == after.deletion.segments
        assert after.verdicts[:count] == after.deletion.verdicts
        assert after.deletion.new_log_start_offset == after.facts.upper_offset(count - 1)
        assert (after.deletion.roll_at_offset is None) == (count < len(after.facts.segments))
    assert after.compaction is None


def expected_code(segment, *, is_behind_linked: bool) -> ReasonCode:
    """Of a segment that policy lets go, and that stays."""
    if is_behind_linked:
        return ReasonCode.BEHIND_KEPT_SEGMENT
    return ReasonCode.NO_GAIN if segment.links > 1 or not segment.disk_bytes else ReasonCode.TARGET_MET


def test_every_small_plan_is_narrowed_to_what_has_to_go() -> None:
    worlds = halved = 0
    for allowed, layout, wanted_bytes in product(every_plan(), LAYOUTS, (0, 1, 3, 6, 100)):
        check(allowed, layout, wanted_bytes)
        worlds += 1
        chosen = narrowed(allowed, volumes(layout), SpaceTarget(wanted_bytes))
        halved += 0 < len(gone(chosen)) < len(gone(allowed))
    assert worlds > 15_000
    assert halved > 1_000


def greedy(plan_: Plan, volumes_, target):
    """Broken: whole partitions, as a rescue without a sense of measure would."""
    return plan_ if any(target.short_bytes(volume) for volume in volumes_) else narrowed(plan_, volumes_, target)


def by_name(plan_: Plan, volumes_, target):
    """Broken: all ages are one."""
    flat = replace(
        plan_,
        log_dirs=tuple(replace(d, partitions=tuple(_of_one_age(p) for p in d.partitions)) for d in plan_.log_dirs),
    )
    chosen = narrowed(flat, volumes_, target)
    counts = {p.key: len(p.deletion.segments) for p in chosen.partitions if p.deletion}
    return restricted(plan_, counts, ())


def _of_one_age(p):
    if not p.deletion:
        return p
    segments = tuple(s._replace(newest_record_ms=1) for s in p.deletion.segments)
    return replace(p, deletion=p.deletion._replace(segments=segments))


def by_size(plan_: Plan, volumes_, target):
    """Broken: sizes stand for space, and links are not looked at."""

    def full(segments):
        return tuple(s._replace(disk_bytes=s.size_bytes, links=1) for s in segments)

    def of(p):
        deletion = p.deletion._replace(segments=full(p.deletion.segments)) if p.deletion else None
        return replace(p, deletion=deletion)

    sized = replace(
        plan_, log_dirs=tuple(replace(d, partitions=tuple(of(p) for p in d.partitions)) for d in plan_.log_dirs)
    )
    chosen = narrowed(sized, volumes_, target)
    return restricted(plan_, {p.key: len(p.deletion.segments) for p in chosen.partitions if p.deletion}, ())


def with_gap(plan_: Plan, volumes_, target):
    """Broken: takes segments behind a linked one, and with them the linked one, since a log has no gap."""
    chosen = narrowed(plan_, volumes_, target)
    counts = {p.key: len(p.deletion.segments) for p in chosen.partitions if p.deletion}
    if any(target.short_bytes(volume) for volume in volumes_):
        counts |= {p.key: len(p.deletion.segments) for p in plan_.partitions if p.deletion}
    return restricted(plan_, counts, ())


@pytest.mark.parametrize("broken", [greedy, by_name, by_size, with_gap])
def test_broken_twin_is_caught(broken) -> None:
    def is_caught(allowed: Plan, layout, wanted_bytes: int) -> bool:
        try:
            check(allowed, layout, wanted_bytes, broken)
        except AssertionError:
            return True
        return False

    assert any(is_caught(*world) for world in product(every_plan(), LAYOUTS, (1, 3)))


@pytest.mark.parametrize("wanted_bytes", [0, 3, 100])
def test_expected_bytes_are_those_of_the_chosen_blocks(wanted_bytes: int) -> None:
    for allowed in every_plan():
        (volume,) = volumes(LAYOUTS[0])
        chosen = narrowed(allowed, [volume], SpaceTarget(wanted_bytes))
        assert expected_bytes(chosen, volume) == sum(disk_bytes for _, disk_bytes in gone(chosen).values())


def test_partition_that_gave_too_little_loses_nothing_more_and_the_others_go_on() -> None:
    gain = Gain(1 << 20, 0)
    assert gain.is_lacking
    others = 0
    for allowed in every_plan():
        lacking = {p.key: gain for p in allowed.partitions[:1]}
        chosen = narrowed(allowed, volumes(LAYOUTS[0]), SpaceTarget(3), lacking)
        for before, after in zip(allowed.partitions, chosen.partitions, strict=True):
            if before.key in lacking:
                assert after.deletion is None
                codes = {v.reason.code for v, was in zip(after.verdicts, before.verdicts, strict=True) if v != was}
                assert codes <= {ReasonCode.NO_GAIN}
        others += bool(gone(chosen))
    assert others > 1_000
