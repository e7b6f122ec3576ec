"""``free`` on real disks: it stops where the target is met, takes no more than policy allows, and says what it did."""

from __future__ import annotations

import os

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means
from policies.config.config_layers import Configured
from policies.plan import Only
from policies.rescue import SpaceTarget
from storage.filesystem import FileSystem
from storage.names import TopicPartition
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    committed,
    configured,
    file_names,
    keyed,
    latest,
    records_in,
    request,
)
from tests.small_disks import a_small_disk, fill, fill_names, free_bytes

LAYERS = configured(clicks=EXPIRING, views=EXPIRING, orders=COMPACT)
LATER = FakeClock((1 << 62) // 1_000_000)
"""By it, every file renamed to ``.deleted`` waits since long ago."""
SEGMENTS, EXPIRED = 40, 30
RETENTION = request(only=Only.RETENTION)
EVERYTHING = SpaceTarget(100, is_percent=True)


def a_topic(log_dir, name, *, hours):
    """Segments of about 20 KiB; of the expired ones the first is ``hours`` over the limit, each later one less."""
    made = PartitionDir(log_dir, name)
    for base in range(SEGMENTS):
        age_ms = DAY_MS + (hours - base) * 3_600_000 if base < EXPIRED else 0
        made.segment(base, keyed(base, "x=" + "v" * 20_000, timestamp_ms=NOW_MS - age_ms))
    return made


def a_log_dir(path):
    path.mkdir()
    return committed(path, a_topic(path, "clicks-0", hours=100), a_topic(path, "views-0", hours=50))


def a_cleaner(*log_dirs, fs=None, layers=LAYERS):
    return Cleaner(Configured(tuple(log_dirs), layers), Means(fs=fs or FileSystem(), clock=LATER))


def offsets(log_dir, name):
    return [record.offset for record in records_in(log_dir / name)]


@pytest.fixture
def log_dir(disk):
    made = a_log_dir(disk / "data")
    fill(disk)
    return made


def test_as_much_goes_as_has_to_and_the_oldest_of_all_partitions_first(log_dir):
    wanted_bytes = 500_000
    rescued = a_cleaner(log_dir).free(RETENTION, SpaceTarget(wanted_bytes))
    assert rescued.is_met
    assert wanted_bytes <= free_bytes(log_dir) < wanted_bytes + 30_000
    assert (offsets(log_dir, "views-0"), offsets(log_dir, "clicks-0")[-1]) == (list(range(SEGMENTS)), SEGMENTS - 1)
    assert 20 <= offsets(log_dir, "clicks-0")[0] <= 24


def test_partitions_take_turns_where_their_ages_meet(log_dir):
    a_cleaner(log_dir).free(RETENTION, SpaceTarget(800_000))
    clicks, views = offsets(log_dir, "clicks-0")[0], offsets(log_dir, "views-0")[0]
    assert clicks == EXPIRED
    assert 2 < views < 12


def test_what_policy_keeps_stays_even_where_the_target_is_missed(log_dir):
    rescued = a_cleaner(log_dir).free(RETENTION, EVERYTHING)
    assert not rescued.is_met
    kept = list(range(EXPIRED, SEGMENTS))
    assert (offsets(log_dir, "clicks-0"), offsets(log_dir, "views-0")) == (kept, kept)
    assert {r.deleted_segments for r in rescued.outcome.results.values()} == {EXPIRED}
    assert all(r.freed_bytes == r.deleted_bytes > 0 for r in rescued.outcome.results.values())
    assert sum(entry["what"] == "delete" for entry in read_journal(log_dir)) == 2


def test_report_holds_what_was_done_and_what_was_spared(log_dir):
    rescued = a_cleaner(log_dir).free(RETENTION, SpaceTarget(500_000))
    verdicts = {p.key[1]: [f"{v.action} {v.reason.code}" for v in p.verdicts] for p in rescued.plan.partitions}
    gone = offsets(log_dir, "clicks-0")[0]
    expected = ["delete RETENTION_TIME"] * gone + ["keep TARGET_MET"] * (EXPIRED - gone)
    assert verdicts[TopicPartition("clicks", 0)][:EXPIRED] == expected
    assert verdicts[TopicPartition("views", 0)][:EXPIRED] == ["keep TARGET_MET"] * EXPIRED
    (before,), (after,) = rescued.before, rescued.after
    assert (before.free_bytes, after.free_bytes) == (0, free_bytes(log_dir))


def test_rehearsal_says_what_the_run_then_does(log_dir):
    rehearsed = a_cleaner(log_dir).would_free(RETENTION, SpaceTarget(500_000))
    assert offsets(log_dir, "clicks-0") == list(range(SEGMENTS))
    rescued = a_cleaner(log_dir).free(RETENTION, SpaceTarget(500_000))
    assert (rehearsed.is_met, rehearsed.plan.log_dirs[0].partitions) == (True, rescued.plan.log_dirs[0].partitions)
    would, did = rehearsed.outcome.results, rescued.outcome.results
    assert {key: r.freed_bytes for key, r in would.items()} == {key: r.freed_bytes for key, r in did.items()}


def test_files_that_wait_for_their_delay_go_before_any_segment(disk):
    log_dir = a_log_dir(disk / "data")
    for base in range(10):
        for suffix in (".log", ".index", ".timeindex"):
            path = log_dir / "views-0" / f"{base:020d}{suffix}"
            path.rename(path.with_name(f"{path.name}.deleted"))
    waiting_bytes = sum(path.stat().st_size for path in (log_dir / "views-0").glob("*.deleted"))
    fill(disk)
    for rescued in (
        a_cleaner(log_dir).would_free(RETENTION, SpaceTarget(150_000)),
        a_cleaner(log_dir).free(RETENTION, SpaceTarget(150_000)),
    ):
        assert (rescued.is_met, dict(rescued.outcome.results)) == (True, {})
        assert 150_000 < rescued.outcome.swept_bytes == waiting_bytes
    assert [name for name in file_names(log_dir / "views-0") if name.endswith(".deleted")] == []
    assert offsets(log_dir, "clicks-0") == list(range(SEGMENTS))


def test_no_more_files_that_wait_go_than_the_target_needs(disk):
    log_dir = a_log_dir(disk / "data")
    for name in ("clicks-0", "views-0"):
        for base in range(10):
            for suffix in (".log", ".index", ".timeindex"):
                path = log_dir / name / f"{base:020d}{suffix}"
                path.rename(path.with_name(f"{path.name}.deleted"))
    fill(disk)
    for rescued in (
        a_cleaner(log_dir).would_free(RETENTION, SpaceTarget(100_000)),
        a_cleaner(log_dir).free(RETENTION, SpaceTarget(100_000)),
    ):
        assert (rescued.is_met, dict(rescued.outcome.results)) == (True, {})
        assert 100_000 < rescued.outcome.swept_bytes < 300_000
    waiting = [name for name in ("clicks-0", "views-0") if any((log_dir / name).glob("*.deleted"))]
    assert waiting == ["views-0"]


def test_target_that_is_met_changes_nothing(disk):
    made = a_log_dir(disk / "data")
    (made / ".lock").touch()
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    rescued = a_cleaner(made).free(RETENTION, SpaceTarget(free_bytes(disk)))
    assert rescued.is_met
    assert not rescued.plan.has_work
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()}.items() <= before.items()


def test_each_file_system_is_brought_to_the_target(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    for directory in (first, second):
        directory.mkdir()
    with a_small_disk("tmpfs", first) as one, a_small_disk("tmpfs", second) as other:
        log_dirs = [a_log_dir(one / "data"), a_log_dir(other / "data")]
        fill(one)
        rescued = a_cleaner(*log_dirs).free(RETENTION, SpaceTarget(5, is_percent=True))
        assert rescued.is_met
        assert offsets(log_dirs[0], "clicks-0")[0] > 10
        assert offsets(log_dirs[1], "clicks-0")[0] == 0


def test_two_log_dirs_of_one_file_system_share_what_is_free(disk):
    log_dirs = [a_log_dir(disk / "a"), a_log_dir(disk / "b")]
    fill(disk)
    a_cleaner(*log_dirs).free(RETENTION, SpaceTarget(500_000))
    gone = [offsets(log_dir, "clicks-0")[0] for log_dir in log_dirs]
    assert 20 <= sum(gone) <= 25
    assert abs(gone[0] - gone[1]) <= 1


def test_partition_that_fails_is_passed_over(log_dir):
    class Stubborn(FileSystem):
        def unlink(self, path, purpose):
            if path.parent.name == "clicks-0":
                raise PermissionError(1, "not permitted", str(path))
            super().unlink(path, purpose)

    rescued = a_cleaner(log_dir, fs=Stubborn()).free(RETENTION, SpaceTarget(300_000))
    assert rescued.is_met
    assert "not permitted" in rescued.outcome.results[str(log_dir), TopicPartition("clicks", 0)].error
    assert offsets(log_dir, "clicks-0") == list(range(SEGMENTS))
    assert offsets(log_dir, "views-0")[0] > 10


def test_files_with_holes_count_by_their_blocks(disk):
    """Their size promises 40 MB, their blocks hold 40 KiB."""
    made = a_log_dir(disk / "data")
    for base in range(10):
        os.truncate(made / "clicks-0" / f"{base:020d}.index", 4_000_000)
    fill(disk)
    rehearsed = a_cleaner(made).would_free(RETENTION, SpaceTarget(500_000))
    rescued = a_cleaner(made).free(RETENTION, SpaceTarget(500_000))
    assert (rehearsed.is_met, rescued.is_met) == (True, True)
    assert rehearsed.after[0].free_bytes < 530_000
    assert 20 < offsets(made, "clicks-0")[0] < 25
    assert len([entry for entry in read_journal(made) if entry["what"] == "delete"]) == 1


def test_rehearsal_never_promises_more_than_the_disk(disk):
    made = a_log_dir(disk / "data")
    for name in ("clicks-0", "views-0"):
        for base in range(EXPIRED):
            os.truncate(made / name / f"{base:020d}.index", 2 << 20)
    fill(disk)
    rehearsed = a_cleaner(made).would_free(RETENTION, EVERYTHING)
    rescued = a_cleaner(made).free(RETENTION, EVERYTHING)
    promised, kept = rehearsed.after[0].free_bytes, rescued.after[0].free_bytes
    assert promised < rehearsed.after[0].size_bytes
    assert abs(promised - kept) < 60_000


def codes_of(rescued, topic):
    (planned,) = (p for p in rescued.plan.partitions if p.facts.topic_partition.topic == topic)
    return [verdict.reason.code.value for verdict in planned.verdicts[:EXPIRED]]


def linked_to(backup, directory, bases):
    """What ``cp -al`` makes."""
    backup.mkdir()
    for path in [path for base in bases for path in directory.glob(f"{base:020d}.*")]:
        os.link(path, backup / path.name)


def test_segments_with_another_hard_link_stay_and_the_other_partitions_go_on(disk):
    made = a_log_dir(disk / "data")
    linked_to(disk / "backup", made / "clicks-0", range(5, 10))
    fill(disk)
    rehearsed = a_cleaner(made).would_free(RETENTION, EVERYTHING)
    rescued = a_cleaner(made).free(RETENTION, EVERYTHING)
    assert (offsets(made, "clicks-0")[0], offsets(made, "views-0")[0]) == (5, EXPIRED)
    spared = ["NO_GAIN", *["BEHIND_KEPT_SEGMENT"] * (EXPIRED - 6)]
    for told in (rehearsed, rescued):
        assert codes_of(told, "clicks") == ["RETENTION_TIME"] * 5 + spared
        assert codes_of(told, "views") == ["RETENTION_TIME"] * EXPIRED
    assert rescued.lacking == {}
    assert abs(rehearsed.after[0].free_bytes - rescued.after[0].free_bytes) < 60_000


def test_waiting_files_with_another_hard_link_stay(disk):
    made = a_log_dir(disk / "data")
    for base in range(2):
        for suffix in (".log", ".index", ".timeindex"):
            path = made / "views-0" / f"{base:020d}{suffix}"
            path.rename(path.with_name(f"{path.name}.deleted"))
    linked_to(disk / "backup", made / "views-0", [1])
    fill(disk)
    wanted = SpaceTarget(15_000)
    for rescued in (a_cleaner(made).would_free(RETENTION, wanted), a_cleaner(made).free(RETENTION, wanted)):
        assert rescued.is_met
        assert 20_000 < rescued.outcome.swept_bytes < 25_000
    left = {name for name in file_names(made / "views-0") if name.endswith(".deleted")}
    assert left == {f"{1:020d}{suffix}.deleted" for suffix in (".log", ".index", ".timeindex")}


LARGE = 270_000


def a_larger_log_dir(path):
    """``clicks`` has the older ones of segments of about 270 KB, ``views`` the younger ones."""
    path.mkdir()
    made = []
    for name, hours in (("clicks-0", 100), ("views-0", 50)):
        topic = PartitionDir(path, name)
        for base in range(10):
            age_ms = DAY_MS + (hours - base) * 3_600_000 if base < 9 else 0
            topic.segment(base, keyed(base, "x=" + "v" * LARGE, timestamp_ms=NOW_MS - age_ms))
        made.append(topic)
    return committed(path, *made)


def test_partition_that_gives_too_little_back_is_stopped_and_the_others_go_on(disk):
    """A process that has the files open keeps their blocks, as a snapshot would."""
    log_dir, clock = a_larger_log_dir(disk / "data"), FakeClock(LATER.time_ms)
    descriptors = [os.open(path, os.O_RDONLY) for path in (log_dir / "clicks-0").iterdir()]
    try:
        rescued = Cleaner(Configured((log_dir,), LAYERS), Means(clock=clock)).free(RETENTION, EVERYTHING)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    key = str(log_dir), TopicPartition("clicks", 0)
    assert (offsets(log_dir, "clicks-0")[0], offsets(log_dir, "views-0")[0]) == (4, 9)
    assert codes_of(rescued, "clicks")[:9] == ["RETENTION_TIME"] * 4 + ["NO_GAIN"] * 5
    assert rescued.lacking.keys() == {key}
    assert rescued.lacking[key].expected_bytes > 4 * LARGE
    assert abs(rescued.lacking[key].measured_bytes) < 30_000
    assert 10 <= clock.slept_seconds < 11
    assert rescued.deleted_disk_bytes[str(log_dir)] > 13 * LARGE


def test_partition_that_loses_everything_counts_among_what_was_deleted(disk):
    """Its last segment goes once an empty one has taken its place."""
    log_dir = disk / "data"
    log_dir.mkdir()
    made = PartitionDir(log_dir, "clicks-0")
    for base in range(2):
        made.segment(base, keyed(base, "x=" + "v" * LARGE, timestamp_ms=NOW_MS - 2 * DAY_MS))
    committed(log_dir, made)
    fill(disk)
    rescued = a_cleaner(log_dir).free(RETENTION, EVERYTHING)
    assert offsets(log_dir, "clicks-0") == []
    assert 2 * LARGE < rescued.deleted_disk_bytes[str(log_dir)] < 2 * LARGE + 40_000


def test_space_that_comes_late_counts(disk):
    log_dir = a_larger_log_dir(disk / "data")
    descriptors = [os.open(path, os.O_RDONLY) for path in (log_dir / "clicks-0").iterdir()]

    class Late(FakeClock):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.slept_seconds > 5:
                while descriptors:
                    os.close(descriptors.pop())

    clock = Late(LATER.time_ms)
    rescued = Cleaner(Configured((log_dir,), LAYERS), Means(clock=clock)).free(RETENTION, EVERYTHING)
    assert not descriptors
    assert (offsets(log_dir, "clicks-0")[0], offsets(log_dir, "views-0")[0]) == (9, 9)
    assert rescued.lacking == {}
    assert 5 <= clock.slept_seconds < 6


def compactable(log_dir, name, *, segments, value_bytes):
    """Every segment but the active one is superseded by the next."""
    made = PartitionDir(log_dir, name)
    for base in range(segments):
        made.segment(base, keyed(base, "a=" + f"{base}" * (value_bytes // len(str(base)))))
    return made


def test_compactions_follow_where_deletions_do_not_suffice_and_fit(disk):
    """``large-0`` needs more working space than the deletions and ``orders-0`` can give."""
    path = disk / "data"
    path.mkdir()
    layers = configured(clicks=EXPIRING, orders=COMPACT, large={**COMPACT, "segment.bytes": "8388608"})
    clicks = PartitionDir(path, "clicks-0").segment(0, keyed(0, "x=" + "v" * 99_000, timestamp_ms=NOW_MS - 2 * DAY_MS))
    clicks.segment(1, keyed(1, "y=1"))
    orders = compactable(path, "orders-0", segments=5, value_bytes=15_000)
    large = compactable(path, "large-0", segments=4, value_bytes=1_000_000)
    committed(path, clicks, orders, large)
    fill(disk)
    before = {name: (large.path / name).read_bytes() for name in file_names(large.path)}
    rescued = Cleaner(Configured((path,), layers), Means(clock=LATER)).free(request(), EVERYTHING)
    assert not rescued.is_met
    assert {key[1].topic for key in rescued.outcome.results} == {"clicks", "orders"}
    assert len(offsets(path, "orders-0")) == 2
    assert latest(path / "orders-0")[b"a"] == b"4" * 15_000
    assert {name: (large.path / name).read_bytes() for name in file_names(large.path)} == before
    assert free_bytes(disk) > 99_000 + 40_000


def test_compactions_are_not_begun_where_deletions_suffice(disk):
    path = disk / "data"
    path.mkdir()
    clicks = PartitionDir(path, "clicks-0").segment(0, keyed(0, "x=" + "v" * 99_000, timestamp_ms=NOW_MS - 2 * DAY_MS))
    orders = compactable(path, "orders-0", segments=5, value_bytes=15_000)
    committed(path, clicks.segment(1, keyed(1, "y=1")), orders)
    fill(disk)
    assert a_cleaner(path).free(request(), SpaceTarget(50_000)).is_met
    assert offsets(path, "orders-0") == list(range(5))


def test_partition_that_loses_everything_waits_for_the_space_that_another_log_dir_makes(disk):
    """Its empty segment is written, and its own deletion comes too late for that."""
    layers = configured(gone=EXPIRING, clicks=EXPIRING)
    first, second = disk / "a", disk / "b"
    for log_dir in (first, second):
        log_dir.mkdir()
        (log_dir / ".lock").touch()  # a broker leaves it
    old = {"timestamp_ms": NOW_MS - 2 * DAY_MS}
    gone = PartitionDir(first, "gone-0").segment(0, keyed(0, "x=" + "v" * 9_000, **old))
    clicks = PartitionDir(second, "clicks-0").segment(0, keyed(0, "x=" + "v" * 9_000, **old))
    committed(first, gone)
    committed(second, clicks.segment(1, keyed(1, "y=1")))
    fill(disk)
    for directory in (first, second, gone.path):
        fill_names(directory)
    _, outcome = a_cleaner(first, second, layers=layers).clean(request(delete_delay_ms=0))
    assert [result.error for result in outcome.results.values()] == [None, None]
    assert (offsets(first, "gone-0"), offsets(second, "clicks-0")) == ([], [1])
    assert (gone.path / f"{1:020d}.log").exists()
