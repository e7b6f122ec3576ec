"""What is due, as a function of schedule and time: exhaustively for one moment, and a day of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import pytest

from cleaner.daemon.due import BACKOFF_MAX_MS, BACKOFF_MIN_MS, Intervals, Job, Opening, Schedule, due, names_of
from cleaner.daemon.observer import JobKind
from cleaner.engine.outcome import Outcome
from policies.config.policy import BrokerPolicy
from policies.plan import PartitionKey
from storage.names import TopicPartition
from tests.cleaner.report.plans import a_partition, a_plan

T0 = 1_800_000_000_000
INTERVALS = Intervals(retention_ms=300_000, survey_ms=15_000, checkpoint_ms=60_000, first_retention_ms=30_000)
FRESH = Schedule(INTERVALS, T0)
QUIET = replace(
    FRESH,
    last_ms={JobKind.RETENTION: T0, JobKind.SURVEY: T0, JobKind.CHECKPOINT: T0},
    last_full_survey_ms=T0,
)
"""Everything was done at T0."""


def key(number: int = 0, topic: str = "orders") -> PartitionKey:
    return "/data", TopicPartition(topic, number)


A, B = key(0), key(1)


def kinds(schedule: Schedule, now_ms: int) -> list[JobKind]:
    return [job.kind for job in due(schedule, now_ms)]


def test_intervals_are_kafkas():
    assert Intervals.of(BrokerPolicy()) == INTERVALS


@pytest.mark.parametrize(
    ("story", "schedule", "after_ms", "expected"),
    [
        ("at the start: a survey", FRESH, 0, ["survey"]),
        ("retention first comes after the initial delay", FRESH, 29_999, ["survey"]),
        ("then it comes before the survey", FRESH, 30_000, ["retention", "survey"]),
        ("nothing right behind a round", QUIET, 0, []),
        ("nothing within every interval", QUIET, 14_999, []),
        ("a survey at its interval", QUIET, 15_000, ["survey"]),
        ("retention at its interval", QUIET, 300_000, ["retention", "survey"]),
        ("a clock set back does not make anything wait", QUIET, -1, ["retention", "survey"]),
        ("observing, only surveys", replace(QUIET, observing=True), 900_000, ["survey"]),
        ("a reload comes first", QUIET.asked_for(JobKind.RELOAD), 300_000, ["reload", "retention", "survey"]),
        ("a reload is taken while observing", replace(QUIET, observing=True).asked_for(JobKind.RELOAD), 0, ["reload"]),
        ("run now", QUIET.asked_for_everything(), 0, ["retention", "survey"]),
        ("a delay that is not over", replace(QUIET, removals_ms={A: T0 + 10}), 9, []),
        ("a delay that is over", replace(QUIET, removals_ms={A: T0 + 10}), 10, ["removal"]),
        ("observing removes nothing", replace(QUIET, observing=True, removals_ms={A: T0}), 10, []),
        ("a correction waits for its interval", replace(QUIET, corrections=True), 1, []),
        ("a correction", replace(QUIET, corrections=True), 60_000, ["survey", "checkpoint"]),
        ("nothing to correct", QUIET, 60_000, ["survey"]),
        ("a backlog", replace(QUIET, backlog=(A, B)), 0, ["compaction", "compaction"]),
        ("observing compacts nothing", replace(QUIET, observing=True, backlog=(A,)), 0, []),
    ],
)
def test_what_is_due(story, schedule, after_ms, expected):
    assert kinds(schedule, T0 + after_ms) == expected, story


def test_the_order_holds_for_every_combination():
    order = list(JobKind)
    rank = {kind: place for place, kind in enumerate(["reload", "retention", "survey", *order[3:]])}
    flags = (False, True)
    for reload_, all_, removal, correction, backlog, late in product(flags, repeat=6):
        schedule = QUIET.asked_for_everything() if all_ else QUIET
        schedule = schedule.asked_for(JobKind.RELOAD) if reload_ else schedule
        schedule = schedule.surveyed([A] if backlog else [], {A: T0} if removal else {}, corrections=correction)
        found = kinds(schedule, T0 + (300_000 if late else 0))
        assert found == sorted(found, key=rank.__getitem__)
        assert ("reload" in found, "removal" in found, "compaction" in found) == (reload_, removal, backlog)
        assert ("retention" in found) == ("survey" in found) == (all_ or late)
        assert ("checkpoint" in found) == (correction and (all_ or late))


@pytest.mark.parametrize("kind", [JobKind.RETENTION, JobKind.SURVEY, JobKind.RELOAD])
def test_a_job_that_was_begun_is_not_due_again(kind):
    schedule = FRESH.asked_for_everything().asked_for(kind)
    (job,) = (job for job in due(schedule, T0) if job.kind is kind)
    assert kind not in kinds(schedule.began(job, T0), T0)


def test_every_job_that_is_begun_empties_what_is_due():
    schedule = FRESH.asked_for_everything().asked_for(JobKind.RELOAD)
    schedule = schedule.surveyed([A, B], {A: T0}, corrections=True)
    done = []
    while jobs := due(schedule, T0):
        done.append(jobs[0].kind)
        schedule = schedule.began(jobs[0], T0).compacted()
    assert done == ["reload", "retention", "removal", "checkpoint", "compaction", "compaction"]


def test_a_removal_is_for_all_whose_delay_is_over():
    schedule = replace(QUIET, removals_ms={B: T0, A: T0, key(2): T0 + 1})
    assert due(schedule, T0) == (Job(JobKind.REMOVAL, (A, B)),)


@pytest.mark.parametrize(("lateness_ms", "next_ms"), [(0, 300_000), (40_000, 260_000), (299_999, 1)])
def test_a_late_retention_does_not_shift_the_next_ones(lateness_ms, next_ms):
    now_ms = T0 + 300_000 + lateness_ms
    schedule = QUIET.began(Job(JobKind.RETENTION), now_ms)
    assert "retention" not in kinds(schedule, now_ms + next_ms - 1)
    assert "retention" in kinds(schedule, now_ms + next_ms)


def test_retentions_that_were_slept_through_are_made_up_for_once():
    now_ms = T0 + 10 * 300_000 + 5
    assert kinds(QUIET, now_ms).count(JobKind.RETENTION) == 1
    assert "retention" not in kinds(QUIET.began(Job(JobKind.RETENTION), now_ms), now_ms)


@pytest.mark.parametrize(
    ("story", "schedule", "after_ms", "is_full"),
    [
        ("the first", FRESH, 0, True),
        ("a look in between", QUIET, 15_000, False),
        ("as often as retention", QUIET, 300_000, True),
        ("asked for", QUIET.asked_for(JobKind.SURVEY), 0, True),
    ],
)
def test_when_a_survey_plans_whatever_has_changed(story, schedule, after_ms, is_full):
    (survey,) = (job for job in due(schedule, T0 + after_ms) if job.kind is JobKind.SURVEY)
    assert survey.is_full == is_full, story


def failed(times: int, kind: JobKind = JobKind.COMPACTION, *, is_corrupt: bool = False) -> Schedule:
    schedule = QUIET
    for _ in range(times):
        schedule = schedule.failed((kind, A), "broken", T0, is_corrupt=is_corrupt)
    return schedule


@pytest.mark.parametrize(("times", "pause_ms"), [(1, BACKOFF_MIN_MS), (2, 120_000), (4, 480_000), (99, BACKOFF_MAX_MS)])
def test_a_partition_that_fails_is_left_alone_twice_as_long_each_time(times, pause_ms):
    schedule = failed(times)
    assert not any(job.kind is JobKind.COMPACTION for job in due(schedule, T0 + pause_ms - 1))
    assert Job(JobKind.COMPACTION, (A,)) in due(schedule, T0 + pause_ms)


def test_a_failing_partition_does_not_hold_up_the_others():
    schedule = replace(failed(1), backlog=(A, B))
    assert due(schedule, T0) == (Job(JobKind.COMPACTION, (B,)),)


def test_retention_leaves_out_what_failed_and_takes_it_up_again():
    schedule = failed(1, JobKind.RETENTION).asked_for(JobKind.RETENTION)
    assert due(schedule, T0)[0].leaving_out == {A}
    assert due(schedule, T0 + BACKOFF_MIN_MS)[0].leaving_out == frozenset()


def test_a_failed_compaction_says_nothing_against_retention():
    schedule = failed(1, JobKind.COMPACTION).asked_for(JobKind.RETENTION)
    assert due(schedule, T0)[0].leaving_out == frozenset()


def test_a_failed_removal_is_tried_again():
    schedule = failed(1, JobKind.REMOVAL)
    assert "removal" not in kinds(schedule, T0 + BACKOFF_MIN_MS - 1)
    assert "removal" in kinds(schedule, T0 + BACKOFF_MIN_MS)


def test_damage_waits_until_it_is_mended():
    schedule = failed(1, is_corrupt=True)
    assert "compaction" not in kinds(schedule, T0 + 100 * BACKOFF_MAX_MS)
    assert "compaction" in kinds(schedule.succeeded((JobKind.COMPACTION, A)), T0)


def test_run_now_tries_again_what_failed():
    assert "compaction" in kinds(failed(3, is_corrupt=True).asked_for_everything(), T0)


@pytest.mark.parametrize("back_ms", [1, 10**9])
def test_a_clock_set_back_ends_a_pause(back_ms):
    assert "compaction" in kinds(failed(5), T0 - back_ms)


def compacting(one: PartitionKey) -> Schedule:
    return replace(QUIET, backlog=(one, B)).began(Job(JobKind.COMPACTION, (one,)), T0)


def test_while_a_partition_is_compacted_the_others_are_served():
    schedule = replace(compacting(A), removals_ms={A: T0, B: T0}, corrections=True).asked_for(JobKind.RELOAD)
    assert due(schedule, T0 + 300_000) == (
        Job(JobKind.RELOAD),
        Job(JobKind.RETENTION, leaving_out=frozenset({A})),
        Job(JobKind.SURVEY, is_full=True),
        Job(JobKind.REMOVAL, (B,)),
    )


def test_nothing_is_removed_of_a_partition_that_is_compacted():
    schedule = replace(compacting(A), removals_ms={A: T0})
    assert due(schedule, T0) == ()
    assert kinds(schedule.compacted(), T0) == ["removal", "compaction"]


def test_a_survey_amid_a_compaction_does_not_ask_for_it_again():
    assert compacting(A).surveyed([A, B], {}, corrections=False).backlog == (B,)


SIMULATED_PARTITIONS = 500
DAY_MS = 86_400_000
TICK_MS = 5_000
SEGMENT_MS = 2_400_000
DELETE_DELAY_MS = 60_000


@dataclass
class World:
    """500 partitions, each of which rolls a segment every 40 minutes; even ones expire, odd ones are to compact."""

    expiries: dict[PartitionKey, list[int]] = field(default_factory=dict)
    renamed: dict[PartitionKey, int] = field(default_factory=dict)
    late_ms: list[int] = field(default_factory=list)
    removal_late_ms: list[int] = field(default_factory=list)
    dirty_since: dict[PartitionKey, int] = field(default_factory=dict)
    compacted: Counter[PartitionKey] = field(default_factory=Counter)
    begun: dict[JobKind, list[int]] = field(default_factory=dict)

    def roll(self, before_ms: int, now_ms: int) -> None:
        for number in range(SIMULATED_PARTITIONS):
            phase = T0 + number * 4_801
            if (now_ms - phase) // SEGMENT_MS > (before_ms - phase) // SEGMENT_MS:
                if number % 2:
                    self.dirty_since.setdefault(key(number), now_ms)
                else:
                    self.expiries.setdefault(key(number), []).append(now_ms)

    def do(self, job: Job, schedule: Schedule, now_ms: int) -> Schedule:
        self.begun.setdefault(job.kind, []).append(now_ms)
        match job.kind:
            case JobKind.RETENTION:
                schedule = self.survey(schedule)
                for one, moments in self.expiries.items():
                    gone = [moment for moment in moments if moment <= now_ms]
                    self.late_ms += [now_ms - moment for moment in gone]
                    self.expiries[one] = [moment for moment in moments if moment > now_ms]
                    if gone:
                        self.renamed[one] = now_ms
            case JobKind.SURVEY:
                return self.survey(schedule)
            case JobKind.REMOVAL:
                for one in job.partitions:
                    self.removal_late_ms.append(now_ms - self.renamed.pop(one) - DELETE_DELAY_MS)
            case JobKind.COMPACTION:
                (one,) = job.partitions
                del self.dirty_since[one]  # a KeyError: it was compacted twice
                self.compacted[one] += 1
                return schedule.compacted()
        return schedule

    def survey(self, schedule: Schedule) -> Schedule:
        removals = {one: at + DELETE_DELAY_MS for one, at in self.renamed.items()}
        return schedule.surveyed(sorted(self.dirty_since), removals, corrections=False)


def test_a_day_of_500_partitions_misses_and_doubles_nothing():
    world, schedule = World(), Schedule(INTERVALS, T0)
    for now_ms in range(T0, T0 + DAY_MS, TICK_MS):
        world.roll(now_ms - TICK_MS, now_ms)
        while jobs := due(schedule, now_ms):
            schedule = world.do(jobs[0], schedule.began(jobs[0], now_ms), now_ms)

    assert len(world.begun[JobKind.RETENTION]) == DAY_MS // INTERVALS.retention_ms
    assert len(world.begun[JobKind.SURVEY]) >= DAY_MS // INTERVALS.survey_ms - len(world.begun[JobKind.RETENTION]) - 1
    assert len(set(world.begun[JobKind.RETENTION])) == len(world.begun[JobKind.RETENTION])
    rolled_a_partition = DAY_MS // SEGMENT_MS
    assert len(world.late_ms) >= (rolled_a_partition - 1) * SIMULATED_PARTITIONS // 2
    assert 0 <= min(world.late_ms) <= max(world.late_ms) <= INTERVALS.retention_ms
    assert not any(moment + INTERVALS.retention_ms < T0 + DAY_MS for m in world.expiries.values() for moment in m)
    assert 0 <= min(world.removal_late_ms) <= max(world.removal_late_ms) <= TICK_MS
    assert {number % 2 for (_, (_, number)) in world.compacted} == {1}
    assert set(world.compacted.values()) <= {rolled_a_partition - 1, rolled_a_partition, rolled_a_partition + 1}


LONGEST_MS = (1 << 63) - 1


@pytest.mark.parametrize("now_ms", [T0, T0 + 10**15, LONGEST_MS])
def test_what_is_never_to_be_done_is_done_at_the_start_alone(now_ms):
    never = Intervals(LONGEST_MS, LONGEST_MS, LONGEST_MS, LONGEST_MS)
    schedule = Schedule(never, T0, removals_ms={A: T0 + LONGEST_MS})
    (survey,) = due(schedule, now_ms)
    assert survey.kind is JobKind.SURVEY
    assert due(schedule.began(survey, T0), now_ms) == ()


@pytest.mark.parametrize("now_ms", [0, T0, LONGEST_MS])
def test_what_is_to_be_done_all_the_time_is_due_again_at_once(now_ms):
    always = Schedule(Intervals(1, 0, 0, 0), now_ms)
    for _ in range(3):
        jobs = due(always, now_ms)
        assert [job.kind for job in jobs][-1] is JobKind.SURVEY
        for job in jobs:
            always = always.began(job, now_ms)


LOG_DIR, OTHER_DIR = Path("/data"), Path("/other")
SEEN = replace(QUIET, states={LOG_DIR: (1,)}, ripe_ms=T0 + 10, recovered=frozenset({LOG_DIR}))


@pytest.mark.parametrize(
    ("story", "job", "states", "after_ms", "expected"),
    [
        ("nothing changed", Job(JobKind.SURVEY), {LOG_DIR: (1,)}, 9, False),
        ("a full survey", Job(JobKind.SURVEY, is_full=True), {LOG_DIR: (1,)}, 9, True),
        ("something changed", Job(JobKind.SURVEY), {LOG_DIR: (2,)}, 9, True),
        ("a log dir is gone", Job(JobKind.SURVEY), {}, 9, True),
        ("time alone made more cleanable", Job(JobKind.SURVEY), {LOG_DIR: (1,)}, 10, True),
    ],
)
def test_when_a_survey_plans_anew(story, job, states, after_ms, expected):
    assert SEEN.needs_plan(job, states, T0 + after_ms) is expected, story


@pytest.mark.parametrize(
    ("story", "schedule", "leaving_out", "unrecovered", "now", "due_now"),
    [
        ("nothing expires", SEEN, (), {}, (), ()),
        ("what expires", replace(SEEN, expiring=frozenset({A})), (), {}, (A,), (A,)),
        ("what failed waits", replace(SEEN, expiring=frozenset({A, B})), (A,), {}, (B,), (B,)),
        ("a log dir that may have leftovers is opened whole", SEEN, (), {LOG_DIR: [A[1], B[1]]}, (A, B), (A, B)),
        ("but for what failed", SEEN, (B,), {LOG_DIR: [A[1], B[1]]}, (A,), (A,)),
        (
            "what an earlier hold left comes first",
            replace(SEEN, expiring=frozenset({A, B}), left=frozenset({B[1]})),
            (),
            {},
            (B,),
            (A, B),
        ),
        (
            "what was left and is not due any more makes nothing wait",
            replace(SEEN, expiring=frozenset({A}), left=frozenset({B[1]})),
            (),
            {},
            (A,),
            (A,),
        ),
    ],
)
def test_what_a_retention_opens(story, schedule, leaving_out, unrecovered, now, due_now):
    job = Job(JobKind.RETENTION, leaving_out=frozenset(leaving_out))
    opening = schedule.opening(job, unrecovered)
    assert (opening.now, opening.due) == (names_of(now), names_of(due_now)), story
    if not unrecovered:
        assert schedule.opens_any(job) is bool(due_now)


def test_retention_has_work_while_a_log_dir_was_not_opened_whole():
    retention = Job(JobKind.RETENTION)
    assert not SEEN.opens_any(retention)
    assert SEEN.away(LOG_DIR).opens_any(retention)
    assert replace(SEEN, states={LOG_DIR: (1,), OTHER_DIR: (1,)}).opens_any(retention)


@pytest.mark.parametrize(
    ("story", "now", "left", "full", "is_asked_again", "is_recovered"),
    [
        ("all had their turn", (A, B), (), (), False, True),
        ("the hold ended before", (A, B), (B,), (), True, True),
        ("only those of an earlier hold had theirs", (B,), (), (), True, False),
        ("the journal found no space", (A, B), (), (LOG_DIR,), False, False),
    ],
)
def test_what_a_retention_leaves_is_due_at_once(story, now, left, full, is_asked_again, is_recovered):
    opening = Opening(names_of(now), names_of((A, B)), frozenset({LOG_DIR}))
    after = replace(SEEN, recovered=frozenset()).opened(opening, names_of(left), frozenset(full))
    assert (JobKind.RETENTION in after.wanted) is is_asked_again, story
    assert (LOG_DIR in after.recovered) is is_recovered, story
    assert after.left == names_of(left)


def test_a_configuration_that_could_not_be_read_makes_retention_due_when_it_can():
    assert QUIET.reconfigured(INTERVALS, was_unreadable=False).wanted == {JobKind.SURVEY}
    assert QUIET.reconfigured(INTERVALS, was_unreadable=True).wanted == {JobKind.SURVEY, JobKind.RETENTION}


def test_a_full_journal_is_no_success_and_takes_the_backlog_of_its_log_dir():
    job, plan = Job(JobKind.COMPACTION, (A,)), a_plan(a_partition("orders-0", 5, 5, 1))
    (partition,) = plan.partitions
    work = JobKind.COMPACTION, partition.key
    failing = replace(QUIET, backlog=(partition.key,)).failed(work, "no", T0)
    log_dir = partition.key[0]
    assert failing.spent(job, plan, Outcome(False, {})).failures == {}
    full = failing.spent(job, plan, Outcome(False, {}, full_log_dirs={log_dir: "no space"}))
    assert (set(full.failures), full.backlog) == ({work}, ())
