"""What ``doctor`` tells of one partition or log dir, at the borders of its limits: symptoms in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.explain.observations import OpenTransaction
from policies.findings.diagnosis import (
    EMPTY_BATCHES_MIN,
    FULL_BELOW_BYTES,
    MISSED_MS,
    PRUNED_WITHIN_MS,
    SETTLED_MS,
    SKEW_MS,
    compaction_findings,
    diagnose,
    identity_findings,
    retention_findings,
    transactions_of,
    with_checked,
)
from policies.findings.findings import Finding, FindingCode, Harm, HeaderWalk, Noted
from policies.findings.of_files import EmptiedSegment
from policies.findings.of_history import EpochStart, ReadEpochs
from policies.findings.of_log_dir import LogClaims, PartitionNames, TopicId
from policies.findings.of_partition import epoch_findings, file_findings, missing_record_findings_of
from policies.findings.of_tiering import LATE_MS, index_cache_findings, remote_metadata_findings, tiering_findings
from policies.findings.symptoms import (
    DamagedMetadata,
    EntryKind,
    EntrySymptoms,
    LogDirSymptoms,
    PartitionSymptoms,
    RemoteCopy,
    RemoteMetadata,
    TopicIdentity,
    UnlinkedSymptoms,
)
from storage.anomalies import EpochRun
from storage.checkpoints import LeaderEpochEntry
from storage.names import SCRATCH_SUFFIX, TopicPartition
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy
from tests.policies.explain.cases import drawn
from tests.policies.findings.logs import log, segment

DAY_MS = 86_400_000
TIERED = a_policy(remote_storage_enable=True, retention_ms=30 * DAY_MS, local_retention_ms=DAY_MS)


def seen(builder: LogBuilder, policy: Any = None, /, **others: Any) -> PartitionSymptoms:
    """The symptoms of a partition; beside those of ``PartitionSymptoms``, ``observed`` has those of its explanation."""
    found = drawn(builder, policy or a_policy(), **others.pop("observed", {})).explained()
    named = {"is_live": False, "was_clean": True, "age_ms": 0} | others
    return PartitionSymptoms(found.planned.facts.topic_partition, "/data/orders-0", explained=found, **named)


def codes(found: Any) -> list[str]:
    return [finding.code.value for finding in found]


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize(("ahead_ms", "is_told"), [(SKEW_MS, False), (SKEW_MS + 1, True)])
def test_a_record_of_the_future_is_told_once_it_is_ahead_by_more_than_kafka_takes(
    ahead_ms: int, is_told: bool, tiered: bool
) -> None:
    policy = TIERED if tiered else a_policy(retention_ms=DAY_MS)
    log = a_log().segment(newest_ms=NOW_MS - DAY_MS // 2).segment(newest_ms=NOW_MS + ahead_ms).segment(newest_ms=NOW_MS)
    found = list(retention_findings(seen(log, policy), NOW_MS))
    assert codes(found) == ["FUTURE_TIMESTAMP"] * is_told
    assert all((one.offset, one.harm) == (10, Harm.WASTE) for one in found)
    assert all("local.retention.bytes takes it by size" in one.remedy for one in found if tiered)


@pytest.mark.parametrize(
    ("topic", "oldest_ms", "is_live", "stopped_ms", "is_told"),
    [
        ("__share_group_state-0", NOW_MS - PRUNED_WITHIN_MS, True, NOW_MS, False),
        ("__share_group_state-0", NOW_MS - PRUNED_WITHIN_MS - 1, True, NOW_MS, True),
        ("__share_group_state-0", NOW_MS - PRUNED_WITHIN_MS - 1, True, NOW_MS - 1, True),
        ("__share_group_state-0", NOW_MS - PRUNED_WITHIN_MS - 1, False, NOW_MS - 1, False),
        ("__share_group_state-0", NOW_MS - PRUNED_WITHIN_MS - 2, False, NOW_MS - 1, True),
        ("__share_group_state-0", NOW_MS - PRUNED_WITHIN_MS - 1, False, NOW_MS + 9, True),
        ("orders-0", NOW_MS - 2 * PRUNED_WITHIN_MS, True, NOW_MS, False),
    ],
)
def test_share_group_state_that_nobody_prunes_is_told_after_a_day_of_a_living_broker(
    topic: str, oldest_ms: int, is_live: bool, stopped_ms: int, is_told: bool
) -> None:
    log = a_log(topic).segment(newest_ms=oldest_ms).segment(newest_ms=NOW_MS, mtime_ms=stopped_ms)
    found = list(retention_findings(seen(log, is_live=is_live), NOW_MS))
    assert codes(found) == ["SHARE_STATE_GROWS"] * is_told
    assert all("1 closed segment (" in one.text for one in found)


@pytest.mark.parametrize("as_retention", [False, True])
@pytest.mark.parametrize(
    ("late_ms", "is_live", "stopped_ms", "count"),
    [
        (LATE_MS, True, NOW_MS, 0),
        (LATE_MS + 1, True, NOW_MS, 1),
        (LATE_MS + 1, True, NOW_MS - 1, 1),
        (LATE_MS + 1, False, NOW_MS - 1, 0),
        (LATE_MS + 2, False, NOW_MS - 1, 1),
        (LATE_MS + 1, False, NOW_MS + 9, 1),
    ],
)
def test_a_closed_segment_that_local_retention_left_for_an_hour_is_a_residue(
    late_ms: int, is_live: bool, stopped_ms: int, count: int, as_retention: bool
) -> None:
    limits = {"retention_ms": DAY_MS, "local_retention_ms": -2}
    policy = a_policy(remote_storage_enable=True, **limits) if as_retention else TIERED
    log = a_log().segment(newest_ms=NOW_MS - DAY_MS - late_ms).segment(newest_ms=NOW_MS - DAY_MS)
    log = log.segment(newest_ms=NOW_MS - 2 * DAY_MS, mtime_ms=stopped_ms)
    found = list(tiering_findings(seen(log, policy, is_live=is_live), NOW_MS))
    assert codes(found) == ["TIERED_RESIDUE"] * count
    key = "retention.ms=1d" if as_retention else "local.retention.ms=1d"
    assert all(f" by {key} " in one.text and one.offset == 0 for one in found)


@pytest.mark.parametrize("policy", [replace(TIERED, local_retention_ms=-1), a_policy(retention_ms=1)])
def test_without_a_local_limit_nothing_is_a_residue(policy: Any) -> None:
    log = a_log().segments(50, 50, newest_ms=NOW_MS - 90 * DAY_MS)
    assert list(tiering_findings(seen(log, policy, is_live=True), NOW_MS)) == []


@pytest.mark.parametrize(
    ("first", "epochs", "is_told"), [(10, (), True), (0, (), False), (10, (LeaderEpochEntry(1, 0),), False)]
)
def test_a_replica_that_failed_to_build_its_state_from_remote_storage_is_told(
    first: int, epochs: tuple[LeaderEpochEntry, ...], is_told: bool
) -> None:
    log = a_log().segment(base=first).segment()
    found = list(tiering_findings(seen(log, TIERED, is_live=True, epochs=ReadEpochs(epochs)), NOW_MS))
    assert codes(found) == ["TIERED_RESIDUE"] * is_told


@pytest.mark.parametrize(("age_ms", "is_told"), [(LATE_MS, False), (LATE_MS + 1, True)])
def test_remote_segments_whose_events_do_not_add_up_are_counted_kind_by_kind(age_ms: int, is_told: bool) -> None:
    copies = tuple(
        RemoteCopy(state, name, NOW_MS - age_ms - more_ms)
        for state, name, more_ms in (
            ("COPY_SEGMENT_STARTED", "a-0", 0),
            ("COPY_SEGMENT_STARTED", "b-0", 60_000 * is_told),
            ("unknown", "c-0", 0),
        )
    )
    found = list(remote_metadata_findings(RemoteMetadata("/data/m", 1200, copies), NOW_MS))
    assert [(one.text, one.path, one.kafka_issue) for one in found] == [
        ("2 remote segments of 1,200 began to be uploaded and never were, nor deleted, the first 1h 1m ago, of b-0.",
         "/data/m", "KAFKA-17062"),
        ("1 remote segment of 1,200 have events without the first one, which says what they hold, the first 1h ago, "
         "of c-0.", "/data/m", "KAFKA-15632"),
    ][: 2 * is_told]  # fmt: skip


@pytest.mark.parametrize(
    ("tiered", "size_bytes", "kind", "is_told"),
    [
        ({"a": False}, 1, EntryKind.INDEX_CACHE, True),
        ({"a": False, "b": True}, 1, EntryKind.INDEX_CACHE, False),
        ({}, 1, EntryKind.INDEX_CACHE, False),
        ({"a": False}, 0, EntryKind.INDEX_CACHE, False),
        ({"a": False}, 1, EntryKind.STRAY, False),
    ],
)
def test_the_cache_of_remote_indexes_is_waste_where_no_topic_is_tiered(
    tiered: dict[str, bool], size_bytes: int, kind: EntryKind, is_told: bool
) -> None:
    entry = EntrySymptoms("/data/remote-log-index-cache", kind, size_bytes, 0, 0)
    found = index_cache_findings(LogDirSymptoms("/data", False, entries=(entry,), tiered_topics=tiered))
    assert codes(found) == ["TIERED_RESIDUE"] * is_told


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_oldest_hanging_transaction_is_told_with_the_number_of_those_behind_it(count: int) -> None:
    transactions = tuple(OpenTransaction(40 + n, 2, 5 + n, NOW_MS - 9 * DAY_MS + n) for n in range(count))
    log = a_log().segments(50, 50, newest_ms=NOW_MS).last_stable(5)
    found = list(transactions_of(seen(log, observed={"transactions": transactions}), NOW_MS))
    assert codes(found) == ["TRANSACTION_HANGING"] * (count > 0)
    behind = {2: " 1 more transaction hangs behind it.", 3: " 2 more transactions hang behind it."}
    for one in found:
        assert one.offset == 5
        assert one.text.startswith("Producer 40, epoch 2, began a transaction at offset 5 on 2027-01-06T08:00:00Z, 9d ")
        assert one.text.partition("from there on is compacted.")[2] == behind.get(count, "")


@pytest.mark.parametrize(
    ("late_ms", "is_live", "stopped_ms", "is_told"),
    [
        (MISSED_MS, True, NOW_MS, False),
        (MISSED_MS + 1, True, NOW_MS, True),
        (MISSED_MS + 1, False, NOW_MS - 1, False),
        (MISSED_MS + 2, False, NOW_MS - 1, True),
        (MISSED_MS + 1, False, NOW_MS + 9, True),
    ],
)
def test_a_record_that_waits_longer_for_compaction_than_it_may_is_told_while_somebody_could_clean(
    late_ms: int, is_live: bool, stopped_ms: int, is_told: bool
) -> None:
    at_ms = NOW_MS - DAY_MS - late_ms
    log = a_log().segment(newest_ms=at_ms, first_batch_ms=at_ms).segment(newest_ms=NOW_MS, mtime_ms=stopped_ms)
    policy = a_policy("compact", max_compaction_lag_ms=DAY_MS)
    found = list(compaction_findings(seen(log.log_start(3), policy, is_live=is_live), NOW_MS))
    assert codes(found) == ["LAG_MISSED"] * is_told
    assert all(one.offset == 3 for one in found)


@pytest.mark.parametrize(
    ("empty", "batches", "is_told"),
    [
        (EMPTY_BATCHES_MIN, 2 * EMPTY_BATCHES_MIN, True),
        (EMPTY_BATCHES_MIN, 2 * EMPTY_BATCHES_MIN + 1, False),
        (EMPTY_BATCHES_MIN - 1, EMPTY_BATCHES_MIN, False),
    ],
)
@pytest.mark.parametrize("cleanup", ["compact", "delete"])
def test_empty_batches_of_a_compacted_topic_are_told_where_they_are_many_and_half_of_all(
    empty: int, batches: int, is_told: bool, cleanup: str
) -> None:
    walked = HeaderWalk(batches=batches, empty_batches=empty, empty_bytes=2048)
    found = list(compaction_findings(seen(a_log().segment(), a_policy(cleanup), walked=walked), NOW_MS))
    assert codes(found) == ["EMPTY_BATCHES"] * (is_told and cleanup == "compact")
    assert all(one.text.startswith(f"{empty} batches of {batches} (2.0 KiB) ") for one in found)


@pytest.mark.parametrize("cleanup", ["compact", "delete"])
def test_records_without_a_key_are_told_of_a_compacted_topic_alone(cleanup: str) -> None:
    found = list(compaction_findings(seen(a_log().segment(), a_policy(cleanup), unkeyed_offsets=(7, 9)), NOW_MS))
    assert [(one.code, one.offset) for one in found] == [(FindingCode.UNKEYED_RECORDS, 7)] * (cleanup == "compact")


OWN, OTHER = TopicId("/data/orders-0", TopicPartition("orders", 0), "a"), "b"


@pytest.mark.parametrize(
    ("identity", "is_live", "age_ms", "code"),
    [
        (TopicIdentity(OWN, "a", True), False, 0, None),
        (TopicIdentity(OWN, OTHER, True), False, 0, "TOPIC_ID_FOREIGN"),
        (TopicIdentity(OWN, OTHER, False), False, 0, None),
        (TopicIdentity(None, OTHER, True), False, 0, None),
        (TopicIdentity(OWN, None, True), False, 0, "DIRECTORY_UNOWNED"),
        (TopicIdentity(OWN, None, True), True, SETTLED_MS - 1, None),
        (TopicIdentity(OWN, None, True), True, SETTLED_MS, "DIRECTORY_UNOWNED"),
    ],
)
def test_a_directory_of_another_topic_is_told_once_its_names_are_settled(
    identity: TopicIdentity, is_live: bool, age_ms: int, code: str | None
) -> None:
    symptoms = seen(a_log().segment(), identity=identity, is_live=is_live, age_ms=age_ms)
    assert codes(identity_findings(symptoms)) == [code] * (code is not None)


@pytest.mark.parametrize(
    ("error", "id_error", "epochs_error", "is_told"),
    [
        ("/data/orders-0/partition.metadata: bad", "bad", None, False),
        ("/data/orders-0/partition.metadata: bad", None, None, True),
        ("/data/orders-0/leader-epoch-checkpoint: bad", None, "bad", False),
        ("/data/orders-0/leader-epoch-checkpoint: bad", "bad", None, True),
        ("/data/orders-0: bad", "bad", "bad", True),
    ],
)
def test_an_error_of_a_small_file_is_told_once_by_the_finding_of_that_file(
    error: str, id_error: str | None, epochs_error: str | None, is_told: bool
) -> None:
    identity, epochs = TopicIdentity(OWN._replace(error=id_error)), ReadEpochs(None, epochs_error)
    found = codes(file_findings(seen(a_log().segment(), error=error, identity=identity, epochs=epochs)))
    assert ("PARTITION_UNREADABLE" in found) is is_told
    assert len(found) == is_told + (epochs_error is not None)


@pytest.mark.parametrize(
    ("is_live", "error", "entries", "is_told"),
    [
        (False, None, ((0, 0),), True),
        (True, None, ((0, 0),), False),
        (True, None, ((1, 10),), True),
        (False, None, ((0, 0), (1, 10)), False),
        (False, "unreadable", ((0, 0),), False),
    ],
)
def test_a_broker_writes_the_epoch_of_its_active_segment_a_moment_later(
    is_live: bool, error: str | None, entries: tuple[tuple[int, int], ...], is_told: bool
) -> None:
    segments = [segment(base, base + 10, epochs=(EpochRun(n, base, base + 9, 0),)) for n, base in enumerate((0, 10))]
    epochs = ReadEpochs(tuple(EpochStart(*entry) for entry in entries))
    symptoms = seen(a_log().segment(), is_live=is_live, error=error, epochs=epochs, log=log(*segments))
    assert codes(epoch_findings(symptoms)) == ["EPOCHS_LOST"] * is_told


def test_preflight_tells_what_is_missing_in_a_partition_and_nothing_else() -> None:
    claims = LogClaims("/data/orders-0", 100, noted=Noted(high_watermark=103, first_dirty=104))
    gap, emptied = log(segment(0, 10), segment(30, 40)), (EmptiedSegment(15, f"{15:020d}.index", True),)
    symptoms = seen(a_log().segment(), claims=claims, log=gap, emptied=emptied, deleted_files=1)
    found = list(missing_record_findings_of(symptoms))
    assert codes(found) == ["OFFSET_GAP", "END_BELOW_WATERMARK"]
    assert {one.harm for one in found} == {Harm.DATA_LOST}


@pytest.mark.parametrize("is_live", [False, True])
def test_files_that_wait_are_told_with_who_removes_them(is_live: bool) -> None:
    symptoms = seen(a_log().segment(), is_live=is_live, deleted_files=2, deleted_bytes=2048, unfinished_files=1)
    told = {one.code.value: (one.text, one.remedy) for one in file_findings(symptoms)}
    text, remedy = told.pop("DELETED_LEFT")
    assert text == "The delay of 2 .deleted files (2.0 KiB) is over, and nobody has unlinked them."
    assert remedy == (
        "The broker that holds the lock forgot them; its next start removes them."
        if is_live
        else "The next start of the broker removes them; doctor --sweep does it now, named one by one."
    )
    assert [text.partition(": ")[2] for text, _ in told.values()] == (
        [] if is_live else ["1 .swap or .cleaned file waits to be put in, or thrown away."]
    )


@pytest.mark.parametrize("is_live", [False, True])
def test_segments_that_a_stream_staged_are_told_once_nobody_holds_the_lock(is_live: bool) -> None:
    names = PartitionNames((f"{7:020d}.log.0123456789abcdef.staged{SCRATCH_SUFFIX}",))
    found = list(file_findings(seen(a_log().segment(), is_live=is_live, names=names)))
    text = "A stream of Spark was stopped within a commit, and left 1 staged segment."
    assert [(one.code, one.harm, one.text) for one in found] == [(FindingCode.SWAP_LEFT, Harm.WASTE, text)] * (
        not is_live
    )


@pytest.mark.parametrize("is_live", [False, True])
def test_scratch_of_a_cluster_is_told_once_nobody_holds_the_lock(is_live: bool) -> None:
    scratch = tuple(f"{base:020d}.log.01234567-0123456789abcdef{SCRATCH_SUFFIX}" for base in range(2))
    names = PartitionNames((*scratch, f"{0:020d}.log.from-60{SCRATCH_SUFFIX}"))
    found = list(file_findings(seen(a_log().segment(), is_live=is_live, names=names)))
    assert [(one.code, one.harm, one.text) for one in found] == [
        (
            FindingCode.SWAP_LEFT,
            Harm.WASTE,
            "A compaction on a cluster was interrupted, and left 2 scratch files.",
        )
    ] * (not is_live)


@pytest.mark.parametrize(
    ("free_bytes", "is_told"), [(None, False), (FULL_BELOW_BYTES - 1, True), (FULL_BELOW_BYTES, False)]
)
def test_a_full_disk_and_files_that_a_process_keeps_are_told(free_bytes: int | None, is_told: bool) -> None:
    unlinked = UnlinkedSymptoms(3, 4096, "/data/a-0/0.log", 17, "java") if is_told else None
    found = diagnose([LogDirSymptoms("/data", True, free_bytes=free_bytes, unlinked=unlinked)], NOW_MS).findings
    assert codes(found) == ["DISK_FULL", "UNLINKED_OPEN"] * is_told
    assert all("3 files of this log dir (4.0 KiB)" in one.text and "java (pid 17)" in one.text for one in found[1:])


def test_a_diagnosis_counts_partitions_and_the_bytes_that_were_read_and_left_out() -> None:
    first = seen(a_log("a-0").segment(), walked=HeaderWalk(bytes_read=10, bytes_unread=3))
    second = replace(seen(a_log("b-0").segment(), walked=HeaderWalk(bytes_read=5, bytes_unread=4)), path="/data/b-0")
    found = diagnose([LogDirSymptoms("/data", False, (first, second)), LogDirSymptoms("/other", False)], NOW_MS)
    assert (found.partitions, found.bytes_read, found.bytes_unread, found.bytes_verified) == (2, 15, 7, 0)
    assert (found.log_dirs, found.now_ms, found.start) == (("/data", "/other"), NOW_MS, None)


@pytest.mark.parametrize(
    ("error", "text", "remedy"),
    [
        ("/m at byte 3: bad; fetch it anew", "at byte 3: bad", "Fetch it anew."),
        ("/m is no log", "is no log", "Bring it back from another controller."),
    ],
)
def test_cluster_metadata_that_cannot_be_read_are_told_with_a_remedy(error: str, text: str, remedy: str) -> None:
    (found,) = diagnose([], NOW_MS, DamagedMetadata("/m", error)).findings
    assert (found.code, found.path, found.remedy) == (FindingCode.METADATA_UNREADABLE, "/m", remedy)
    assert found.text.startswith(f"The cluster metadata cannot be read {text}. ")


def test_a_check_of_every_byte_has_the_last_word_where_both_tell_of_one_thing() -> None:
    def finding(code: FindingCode, path: str, text: str) -> Finding:
        return Finding(code, Harm.DATA_LOST, path, text, "")

    glanced = [finding(FindingCode.TORN_TAIL, path, "glanced") for path in ("/a", "/b")]
    glanced.append(finding(FindingCode.ZERO_TAIL, "/a", "glanced"))
    checked = [finding(FindingCode.TORN_TAIL, "/a", "checked"), finding(FindingCode.BATCH_CORRUPT, "/c", "checked")]
    found = with_checked(replace(diagnose([], NOW_MS), findings=tuple(glanced)), checked, 70)
    assert [(one.path, one.code.value, one.text) for one in found.findings] == [
        ("/a", "TORN_TAIL", "checked"), ("/a", "ZERO_TAIL", "glanced"), ("/b", "TORN_TAIL", "glanced"),
        ("/c", "BATCH_CORRUPT", "checked"),
    ]  # fmt: skip
    assert (found.bytes_verified, len(found.damages)) == (70, 4)
