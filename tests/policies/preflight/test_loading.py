"""Stories of one partition directory that Kafka loads: given its files and what is in them, the steps and the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from policies.preflight.facts import (
    FileBefore,
    KafkaFailure,
    LogDirBefore,
    PartitionBefore,
    ReadTopicId,
    RecoveredLog,
    Release,
    Replicas,
)
from policies.preflight.files import Files
from policies.preflight.identity import Identities
from policies.preflight.loading import Loading
from policies.preflight.prediction import StartSurroundings, predict
from policies.preflight.start import LogStart, PartitionFate, Start, StartStepKind
from storage.names import TopicPartition

TOPIC_ID = "8FgL-MjIRcGBMw212kvxIQ"
ORDERS = TopicPartition("orders", 0)
NODE = 1
KAFKA_4 = Release(4, 3)


@dataclass
class FakeContents:
    """Contents that a story states; what it leaves out is sound: each segment ends where the next begins."""

    ends: Mapping[str, int | KafkaFailure] = field(default_factory=dict)
    found: Mapping[str, RecoveredLog] = field(default_factory=dict)
    broken_snapshots: frozenset[str] = frozenset()
    txn_failures: Mapping[str, KafkaFailure] = field(default_factory=dict)
    replay_failure: KafkaFailure | None = None
    uncounted: Mapping[str, int] = field(default_factory=dict)
    replayed: list[tuple[str, str | None, int]] = field(default_factory=list)

    def next_offset(self, log: str, index: str | None, base_offset: int) -> int | KafkaFailure:
        return self.ends.get(log, base_offset + 10)

    def uncounted_bytes(self, log: str, index: str | None, base_offset: int) -> int:
        return self.uncounted.get(log, 0)

    def recovered(self, log: str, base_offset: int) -> RecoveredLog:
        return self.found.get(log, RecoveredLog(100, base_offset + 10, base_offset + 10, False, None))

    def replay(self, log: str, index: str | None, base_offset: int, start_offset: int) -> KafkaFailure | None:
        self.replayed.append((log, index, start_offset))
        return self.replay_failure

    def snapshot_is_valid(self, name: str) -> bool:
        return name not in self.broken_snapshots

    def txn_index_failure(self, name: str, base_offset: int) -> KafkaFailure | None:
        return self.txn_failures.get(name)


def segment(base: int, *kinds: str) -> list[str]:
    return [f"{base:020d}{kind}" for kind in kinds or (".log", ".index", ".timeindex")]


SOUND = [*segment(0), *segment(10), *segment(10, ".snapshot"), *segment(20, ".snapshot")]


def started(
    names: list[str],
    contents: FakeContents | None = None,
    *,
    clean: bool = True,
    recovery_point: int = 20,
    log_start: int = 0,
    topic_id: str | None = TOPIC_ID,
    name: str = "orders-0",
    release: Release = KAFKA_4,
    leader_epochs: KafkaFailure | None = None,
    hosts: tuple[int, ...] = (NODE,),
) -> Start:
    files = tuple(FileBefore(one, 100 if one.endswith((".log", ".swap")) else 0) for one in names)
    partition = PartitionBefore(name, ORDERS, files, leader_epochs, ReadTopicId(topic_id), contents or FakeContents())
    log_dir = LogDirBefore("/data", clean, {ORDERS: recovery_point}, {ORDERS: log_start}, {}, (partition,), ())
    replicas = Replicas(NODE, {(TOPIC_ID, 0): hosts}, {TOPIC_ID: "orders"})
    return predict([log_dir], StartSurroundings(release, Identities((), {}, ()), "/data", None, replicas))


def log_of(start: Start) -> LogStart:
    (log,) = start.log_dirs[0].logs
    return log


def steps(start: Start, *kinds: StartStepKind) -> list[str]:
    return [step.file for step in log_of(start).steps if step.kind in kinds]


def test_sound_partition_after_a_clean_shutdown_is_left_as_it_is() -> None:
    start = started(SOUND)
    assert log_of(start).steps == ()
    assert (log_of(start).fate, log_of(start).log_end_offset) == (PartitionFate.SERVED, 20)


def test_unclean_shutdown_recovers_the_segments_from_the_recovery_point_on() -> None:
    assert steps(started(SOUND, clean=False), StartStepKind.RECOVER) == segment(10, ".log")
    assert steps(started(SOUND, clean=False, recovery_point=0), StartStepKind.RECOVER) == [
        *segment(0, ".log"),
        *segment(10, ".log"),
    ]


def test_cut_segment_takes_all_later_segments_with_it() -> None:
    cut = FakeContents(found={segment(0, ".log")[0]: RecoveredLog(60, 6, 6, False, "the CRC of the batch is wrong")})
    start = started(SOUND, cut, clean=False, recovery_point=0)
    first, second = log_of(start).truncations
    assert (first.file, first.position, first.offset, first.size_bytes) == (segment(0, ".log")[0], 60, 6, 40)
    assert (second.file, second.position) == (segment(10, ".log")[0], 0)
    assert steps(start, StartStepKind.DELETE_LATER) == segment(10)
    assert log_of(start).log_end_offset == 6


def test_the_same_damage_after_a_clean_shutdown_is_not_seen() -> None:
    cut = FakeContents(found={segment(0, ".log")[0]: RecoveredLog(60, 6, 6, False, "the CRC of the batch is wrong")})
    assert log_of(started(SOUND, cut)).steps == ()


def test_torn_tail_after_a_clean_shutdown_stays_and_records_are_appended_behind_it() -> None:
    last = segment(10, ".log")[0]
    torn = FakeContents(uncounted={last: 7}, found={last: RecoveredLog(93, 20, 20, False, "the file ends")})
    start = started(SOUND, torn)
    (step,) = log_of(start).steps
    assert (step.kind, step.position, step.offset, step.size_bytes) == (StartStepKind.APPEND_BEHIND, 93, 20, 7)
    assert log_of(start).hides_records
    assert not log_of(started(SOUND, torn, clean=False, recovery_point=10)).hides_records
    set_aside = log_of(started(SOUND, torn, topic_id=None)).steps
    assert [step.kind for step in set_aside] == [StartStepKind.SET_ASIDE]  # nobody appends


def test_missing_index_below_the_recovery_point_is_rebuilt_and_later_segments_stay() -> None:
    names = [name for name in SOUND if name != segment(0, ".index")[0]]
    start = started(names)
    assert steps(start, StartStepKind.REBUILD) == segment(0, ".index")
    assert steps(start, StartStepKind.DELETE_LATER) == []


def test_missing_time_index_is_made_empty_and_not_rebuilt() -> None:
    names = [name for name in SOUND if name != segment(0, ".timeindex")[0]]
    assert steps(started(names), StartStepKind.CREATE) == segment(0, ".timeindex")
    assert steps(started(names), StartStepKind.RECOVER, StartStepKind.REBUILD) == []


def test_log_that_ends_before_its_checkpointed_start_is_deleted() -> None:
    start = started(SOUND, log_start=50)
    assert steps(start, StartStepKind.DELETE_LATER) == [*segment(0), *segment(10), *segment(10, ".snapshot")]
    assert (log_of(start).log_start_offset, log_of(start).log_end_offset) == (50, 50)


@pytest.mark.parametrize(
    ("with_cleaned", "deleted", "renamed"),
    [
        (False, segment(0, ".index", ".log", ".timeindex"), segment(0, ".log.swap")),
        (True, [*segment(0, ".log.swap"), *segment(0, ".log.cleaned")], []),
    ],
)
def test_swap_is_finished_unless_a_cleaned_file_says_that_it_had_not_begun(
    with_cleaned: bool, deleted: list[str], renamed: list[str]
) -> None:
    cleaned = segment(0, ".log.cleaned") if with_cleaned else []
    start = started([*SOUND, *segment(0, ".log.swap"), *cleaned])
    assert set(steps(start, StartStepKind.DELETE)) >= set(deleted)
    assert [name for name in steps(start, StartStepKind.RENAME) if ".log" in name] == renamed


def test_kafka_2_recovers_the_swapped_segment_and_has_its_sources_wait() -> None:
    start = started([*SOUND, *segment(0, ".log.swap")], release=Release(2, 8))
    assert steps(start, StartStepKind.RECOVER)[-1] == segment(0, ".log.swap")[0]
    assert segment(0, ".log")[0] in steps(start, StartStepKind.DELETE_LATER)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_kafka_2_deletes_the_index_files_of_a_segment_at_a_swap_of_any_of_its_files(suffix: str) -> None:
    indexes = segment(0, ".index", ".timeindex", ".txnindex")
    start = started([*SOUND, *segment(0, ".txnindex", f"{suffix}.swap")], release=Release(2, 8))
    told = {one.file for one in log_of(start).steps if one.why == "a swap of its segment was interrupted"}
    assert told == set(indexes)


def test_kafka_2_makes_the_transaction_index_of_a_swap_that_has_an_aborted_transaction() -> None:
    swap, txn_index = segment(0, ".log.swap", ".txnindex")
    contents = FakeContents(found={swap: RecoveredLog(100, 10, 10, True, None)})
    assert txn_index in log_of(started([*SOUND, swap], contents, release=Release(2, 8))).after


def test_zeros_behind_the_log_stop_a_broker_that_was_shut_down_cleanly() -> None:
    zeros = FakeContents(ends={segment(10, ".log")[0]: KafkaFailure("CorruptRecordException", "a batch of 0 bytes")})
    start = started(SOUND, zeros)
    (refusal,) = start.refusals
    assert (refusal.path, refusal.failure.exception) == (
        f"/data/orders-0/{segment(10, '.log')[0]}",
        "CorruptRecordException",
    )


def test_error_of_the_disk_takes_the_log_dir_offline_and_stops_kafka_2() -> None:
    failure = KafkaFailure("IOException", "malformed line", is_io=True)
    assert started(SOUND, leader_epochs=failure).offline == ["/data"]
    assert log_of(started(SOUND, leader_epochs=failure)).fate is PartitionFate.TAKES_OFFLINE
    assert log_of(started(SOUND, leader_epochs=failure, release=Release(2, 8))).fate is PartitionFate.REFUSES


def test_partition_without_a_topic_id_is_set_aside_and_begins_anew() -> None:
    start = started(SOUND, topic_id=None)
    assert log_of(start).fate is PartitionFate.STRAY
    assert [step.file for step in start.log_dirs[0].steps] == ["orders-0"]


@pytest.mark.parametrize(("release", "fate"), [(KAFKA_4, PartitionFate.STRAY), (Release(3, 6), PartitionFate.DELETED)])
def test_partition_of_another_broker_is_set_aside_and_was_deleted_before_kafka_3_7(
    release: Release, fate: PartitionFate
) -> None:
    assert log_of(started(SOUND, hosts=(2, 3), release=release)).fate is fate


def test_directory_of_a_deleted_topic_goes_whole() -> None:
    start = started(SOUND, name="orders-0.0123456789abcdef0123456789abcdef-delete")
    assert (log_of(start).fate, [step.kind for step in log_of(start).steps]) == (
        PartitionFate.DELETED,
        [StartStepKind.DELETE_LATER],
    )


def test_damaged_snapshot_goes_and_an_older_one_is_taken() -> None:
    newest = segment(20, ".snapshot")[0]
    start = started(SOUND, FakeContents(broken_snapshots=frozenset({newest})))
    assert log_of(start).steps == ()  # deleted, and written again from the older one
    assert newest in log_of(start).after


def test_batches_that_no_snapshot_stands_for_are_replayed_and_one_that_cannot_be_stops_the_broker() -> None:
    contents = FakeContents(replay_failure=KafkaFailure("InvalidRecordException", "the batch has no records"))
    log, index = segment(10, ".log", ".index")
    halfway = [*segment(0), *segment(10), *segment(5, ".snapshot"), *segment(10, ".snapshot")]
    (refusal,) = started(halfway, contents).refusals
    assert (refusal.path, refusal.failure) == (f"/data/orders-0/{log}", contents.replay_failure)
    assert contents.replayed == [(log, index, 10)]
    for sound in (
        started(SOUND, contents),
        started([*segment(0), *segment(10)], contents),  # a clean shutdown without snapshots: no producer was there
        started(halfway, contents, clean=False, recovery_point=10),  # the recovery has read them
    ):
        assert sound.is_started
    assert len(contents.replayed) == 1


def test_file_with_a_suffix_and_no_offset_stops_the_broker() -> None:
    (refusal,) = started([*SOUND, "foo.log"]).refusals
    assert refusal.failure.exception == "NumberFormatException"


def test_damaged_swap_takes_the_place_of_what_it_replaces_and_is_told() -> None:
    swap, log = segment(0, ".log.swap", ".log")
    torn = FakeContents(found={swap: RecoveredLog(60, 6, 6, False, "the CRC of the batch is wrong")})
    start = started([*SOUND, swap], torn)
    (step,) = [one for one in log_of(start).steps if one.kind is StartStepKind.TAKE_DAMAGED]
    assert (step.file, step.position, step.offset, step.size_bytes) == (swap, 60, 6, 40)
    assert log in steps(start, StartStepKind.DELETE)
    assert log_of(start).loses_records
    assert not log_of(started([*SOUND, swap])).loses_records


def test_swap_of_kafka_2_is_cut_and_one_whose_offsets_do_not_fit_stops_the_broker() -> None:
    (swap,) = segment(0, ".log.swap")
    torn = FakeContents(found={swap: RecoveredLog(60, 6, 6, False, "the CRC of the batch is wrong")})
    assert steps(started([*SOUND, swap], torn, release=Release(2, 8)), StartStepKind.TRUNCATE) == [swap]
    overflow = KafkaFailure("LogSegmentOffsetOverflowException", "offset 4 does not fit")
    unsplit = KafkaFailure("IllegalArgumentException", "no split is possible")
    found = RecoveredLog(0, None, None, False, None, overflow, unsplit)
    (refusal,) = started([*SOUND, swap], FakeContents(found={swap: found}), release=Release(2, 8)).refusals[:1]
    assert refusal.failure == overflow
    (log,) = segment(0, ".log")
    (refusal,) = started(SOUND, FakeContents(found={log: found}), clean=False, recovery_point=0).refusals[:1]
    assert refusal.failure == unsplit


@pytest.mark.parametrize("release", [KAFKA_4, Release(2, 8)])
def test_empty_swap_in_the_place_of_records_is_told(release: Release) -> None:
    swap, log = segment(0, ".log.swap", ".log")
    files = [FileBefore(one, 0 if one == swap else 100 if one.endswith(".log") else 0) for one in [*SOUND, swap]]
    empty = FakeContents({swap: 0}, {swap: RecoveredLog(0, None, None, False, None)})
    partition = PartitionBefore("orders-0", ORDERS, tuple(files), None, ReadTopicId(TOPIC_ID), empty)
    log_dir = LogDirBefore("/data", True, {ORDERS: 20}, {}, {}, (partition,), ())
    start = predict([log_dir], StartSurroundings(release, Identities((), {}, ()), "/data", None, None))
    (step,) = [one for one in log_of(start).steps if one.kind is StartStepKind.TAKE_DAMAGED]
    assert (step.file, step.size_bytes) == (swap, 100)
    assert log_of(start).after[log] == 0
    assert log_of(start).after[segment(10, ".log")[0]] == 100, "nothing else is replaced"


def test_log_whose_name_has_not_20_digits_is_not_read_and_covers_records() -> None:
    start = started([*SOUND, "5.log"])
    (step,) = [one for one in log_of(start).steps if one.kind is StartStepKind.COVER]
    assert (step.file, step.offset) == ("5.log", 5)
    assert "over the records of the offsets 5 to 9" in step.why
    assert segment(5, ".log")[0] in steps(start, StartStepKind.CREATE)
    assert log_of(start).hides_records
    assert not log_of(started([*SOUND, "0.log"])).hides_records, "the segment of offset 0 is there: nothing happens"


def test_what_is_set_aside_keeps_the_files_that_wait_for_their_deletion() -> None:
    start = started(SOUND, log_start=50, topic_id="other")
    assert log_of(start).fate is PartitionFate.STRAY
    assert segment(0, ".log.deleted")[0] in log_of(start).after
    assert segment(0, ".log.deleted")[0] not in log_of(started(SOUND, log_start=50)).after


def two_partitions(**changes: object) -> Start:
    """``orders-0``, which belongs nowhere, beside ``clicks-0``, in one log dir of two."""
    stray, other = log_dir_of("orders-0", topic_id="other"), log_dir_of("clicks-0", topic_id=TOPIC_ID)
    (broken,) = other.partitions
    if changes.pop("clicks_fails", False):
        broken = broken._replace(leader_epochs=KafkaFailure("IOException", "malformed line", is_io=True))
    first = stray._replace(path="/first", partitions=())
    second = stray._replace(path="/second", partitions=(*stray.partitions, broken), **changes)
    replicas = Replicas(NODE, {(TOPIC_ID, 0): (NODE,)}, {TOPIC_ID: "clicks"})
    return predict([first, second], StartSurroundings(KAFKA_4, Identities((), {}, ()), "/first", None, replicas))


def log_dir_of(name: str, *, topic_id: str) -> LogDirBefore:
    files = tuple(FileBefore(one, 100 if one.endswith(".log") else 0) for one in SOUND)
    topic_partition = TopicPartition(name[:-2], 0)
    partition = PartitionBefore(name, topic_partition, files, None, ReadTopicId(topic_id), FakeContents())
    return LogDirBefore("/data", True, {topic_partition: 20}, {}, {}, (partition,), ())


def test_stray_in_a_log_dir_that_went_offline_before_stops_the_broker() -> None:
    garbage = KafkaFailure("IOException", "malformed line", is_io=True)
    (refusal,) = two_partitions(recovery_points=garbage).refusals
    assert (refusal.path, refusal.failure.exception) == ("/second/orders-0", "KafkaStorageException")
    late = two_partitions(high_watermarks=garbage)
    assert (late.is_started, late.uncertain, late.offline) == (True, (), ["/second"])


def test_stray_beside_a_partition_that_takes_the_log_dir_offline_may_stop_the_broker() -> None:
    start = two_partitions(clicks_fails=True)
    assert (start.is_started, start.offline) == (True, ["/second"])
    assert [one.path for one in start.uncertain] == ["/second/orders-0"]
    assert two_partitions().uncertain == ()


@pytest.mark.parametrize(
    ("assigned", "garbage", "here", "anywhere"),
    [
        ("a", None, ["/first"], []),
        ("b", None, ["/second"], []),
        ("b", "recovery_points", [], []),
        ("unknown", None, [], ["orders-0"]),
        ("unknown", "recovery_points", [], []),
        ("unknown", "high_watermarks", [], ["orders-0"]),  # read with the first partition that is served
        (None, "recovery_points", [], ["orders-0"]),
    ],
)
def test_partition_without_a_directory_begins_in_the_log_dir_that_the_metadata_state(
    assigned: str | None, garbage: str | None, here: list[str], anywhere: list[str]
) -> None:
    failure = KafkaFailure("IOException", "malformed line", is_io=True)
    dirs = [LogDirBefore(path, True, {}, {}, {}, (), ()) for path in ("/first", "/second")]
    if garbage:
        dirs[1] = dirs[1]._replace(**{garbage: failure})
    directories = {(TOPIC_ID, 0): (assigned,)} if assigned else {}
    replicas = Replicas(NODE, {(TOPIC_ID, 0): (NODE,)}, {TOPIC_ID: "orders"}, directories)
    identities = Identities((), {}, (), {"/first": "a", "/second": "b"})
    start = predict(dirs, StartSurroundings(KAFKA_4, identities, "/first", None, replicas))
    assert [one.path for one in start.log_dirs if one.steps] == here
    assert [str(one) for one in start.unplaced] == anywhere


def a_loading(names: Sequence[str], recovery_point: int, *, is_clean: bool) -> Loading:
    files = tuple(FileBefore(name, 100) for name in names)
    before = PartitionBefore("orders-0", ORDERS, files, None, ReadTopicId(TOPIC_ID), FakeContents())
    return Loading(before, is_clean=is_clean, recovery_point=recovery_point, log_start=0)


class Ascending(list[int]):
    """Base offsets that nobody may compare one by one: with n segments there would be n * n comparisons."""

    def __contains__(self, _: object) -> bool:
        raise AssertionError("every segment is compared with every other")


def test_the_loading_of_very_many_segments_compares_none_with_every_other() -> None:
    names = [name for base in (10, 0, 20, 30) for name in segment(base)]
    loading = a_loading([*names, *segment(10, ".snapshot"), "+00000000000000000020.log"], 40, is_clean=True)
    loading.bases = Ascending()
    loading.run()
    assert loading.bases == [0, 10, 20, 30]


class Looks(list[int]):
    """Base offsets, and how often somebody looked at all of them."""

    count = 0

    def __iter__(self) -> Iterator[int]:
        self.count += 1
        return super().__iter__()


def looks_at_all(segments: int, monkeypatch: pytest.MonkeyPatch, *, is_clean: bool) -> tuple[int, int]:
    """Return how often a loading that recovers each segment looks at all names, and at all segments."""
    suffixes = (".log", ".timeindex", ".snapshot") if is_clean else (".log", ".index", ".timeindex", ".snapshot")
    names = [name for base in range(0, segments * 10, 10) for name in segment(base, *suffixes)]
    asked: list[Files] = []
    names_of = Files.names
    monkeypatch.setattr(Files, "names", lambda self: asked.append(self) or names_of(self))
    loading = a_loading(names, 0, is_clean=is_clean)
    loading.bases = bases = Looks()
    loading.run()
    assert [step.file for step in loading.files.steps if step.kind is StartStepKind.RECOVER] == [
        name for name in names if name.endswith(".log")
    ]
    monkeypatch.undo()
    return len(asked), bases.count


@pytest.mark.parametrize("is_clean", [True, False])
def test_recovery_of_very_many_segments_looks_at_all_of_them_no_more_often(
    monkeypatch: pytest.MonkeyPatch, is_clean: bool
) -> None:
    """Somebody removed every ``.index``, or the recovery point is lost: each segment is recovered."""
    assert looks_at_all(60, monkeypatch, is_clean=is_clean) == looks_at_all(6, monkeypatch, is_clean=is_clean)


def test_snapshots_of_a_directory_are_told_after_every_step() -> None:
    files = Files([FileBefore(name, 1) for name in (*segment(10, ".snapshot"), *segment(30, ".snapshot"), "x.log")])
    files.write_snapshot(20, "why")
    files.write_snapshot(20, "why")
    files.delete(*segment(10, ".snapshot"), "why")
    files.delete(*segment(40, ".snapshot"), "why")
    assert files.snapshots() == [20, 30]
    files.retire(*segment(30, ".snapshot"), "why")
    assert files.snapshots() == [20]
    assert [step.kind for step in files.steps] == [
        StartStepKind.WRITE, StartStepKind.DELETE, StartStepKind.DELETE_LATER
    ]  # fmt: skip
    odd = Files([FileBefore(name, 1) for name in ("+5.snapshot", *segment(5, ".snapshot"), *segment(7, ".snapshot"))])
    odd.delete(*segment(5, ".snapshot"), "why")
    assert odd.snapshots() == [5, 7]
