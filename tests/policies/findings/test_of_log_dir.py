"""The files of a log dir: checkpoints, topic ids, ``meta.properties``, names."""

from __future__ import annotations

import pytest

from policies.findings.findings import END_LOST, Finding, FindingCode, Harm, Noted
from policies.findings.of_files import RECOVER_TAIL
from policies.findings.of_log_dir import (
    CHECKPOINTS,
    CopyCheck,
    LogClaims,
    NamedEntry,
    OffsetCheckpoint,
    PartitionNames,
    TopicId,
    checkpoint_findings,
    copy_findings,
    log_dir_name_findings,
    meta_findings,
    offset_findings,
    partition_name_findings,
    topic_id_findings,
    twice_findings,
)
from policies.preflight.identity import IdentityBefore
from storage.names import TopicPartition

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
ID, OTHER_ID = "srP01Y2CymOG0sludg6Bmw", "X3qEibE5Br9WpoYilKvjLQ"
META = {"version": "1", "cluster.id": "c", "node.id": "1", "directory.id": ID}


@pytest.mark.parametrize("stated", ["high_watermark", "recovery_point", "log_start", "first_dirty"])
def test_an_offset_up_to_the_end_is_healthy_and_one_behind_it_is_not(stated):
    assert list(offset_findings(LogClaims("/d/orders-0", 100, noted=Noted(**{stated: 100})))) == []
    (found,) = offset_findings(LogClaims("/d/orders-0", 100, noted=Noted(**{stated: 101})))
    is_of_the_end = stated in ("high_watermark", "recovery_point")
    assert found.code is (FindingCode.END_BELOW_WATERMARK if is_of_the_end else FindingCode.CHECKPOINT_BEYOND_END)
    assert found.harm is (Harm.WASTE if stated == "first_dirty" else Harm.DATA_LOST)
    assert found.path == "/d/orders-0"


def test_all_that_says_that_the_log_lost_its_end_is_one_finding():
    noted = Noted(high_watermark=103, recovery_point=90, first_dirty=104)
    (found,) = offset_findings(LogClaims("/d/orders-0", 100, noted=noted, newest_snapshot=107, lone_bases=(40, 102)))
    assert found.text == (
        "The log ends at offset 100, below the high watermark 103, the newest producer snapshot 107: the last 7 offsets"
        " are gone from this replica. 1 segment left index files without a .log: of base offset 102. Do not start the"
        " broker: its start removes these index files, too."
    )
    assert (found.offset, found.remedy) == (100, END_LOST)


@pytest.mark.parametrize(
    ("bases", "told"),
    [
        ((99,), None),
        ((99, 100), "1 segment left index files without a .log: of base offset 100."),
        (tuple(range(100, 130)), "30 segments left index files without a .log: of base offset 100, "),
    ],
)
def test_index_files_without_a_log_are_named_from_the_end_of_the_log_on(bases, told):
    (found,) = offset_findings(LogClaims("/d/orders-0", 100, noted=Noted(high_watermark=101), lone_bases=bases))
    assert found.text.startswith("The log ends at offset 100, below the high watermark 101: the last offset is gone ")
    assert ("index files" in found.text) is (told is not None)
    assert told is None or told in found.text
    assert (" ..., " in found.text or " .... " in found.text) is (len(bases) == 30)


@pytest.mark.parametrize(("counted", "is_torn", "ends_at"), [(80, False, 80), (80, True, 80), (100, True, 100)])
def test_an_end_that_a_start_does_not_find_is_cut_before_anything_else(counted, is_torn, ends_at):
    (found,) = offset_findings(LogClaims("/d/orders-0", 100, counted, is_torn, Noted(high_watermark=101)))
    assert (found.offset, found.remedy) == (ends_at, RECOVER_TAIL)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_that_cannot_be_read_is_told(name):
    (found,) = checkpoint_findings(OffsetCheckpoint("/d/c", name, {}, (), "line 2, no number"), [ORDERS])
    assert found.code is FindingCode.CHECKPOINT_CORRUPT


def test_lines_of_partitions_that_are_not_there_are_a_note():
    checkpoint = OffsetCheckpoint("/d/c", CHECKPOINTS[0], {ORDERS: 1, CLICKS: 1})
    (found,) = checkpoint_findings(checkpoint, [ORDERS])
    assert (found.code, found.harm) == (FindingCode.CHECKPOINT_STALE, Harm.NOTE)
    assert list(checkpoint_findings(checkpoint, None)) == []


def test_two_lines_and_negative_offsets_are_told():
    checkpoint = OffsetCheckpoint("/d/c", CHECKPOINTS[0], {ORDERS: -3}, (ORDERS,))
    assert [one.code for one in checkpoint_findings(checkpoint, [ORDERS])] == [FindingCode.CHECKPOINT_CORRUPT] * 2


def test_partitions_of_a_topic_have_one_id():
    ids = [TopicId(f"/d/t-{number}", TopicPartition("t", number), ID) for number in range(2)]
    assert list(topic_id_findings(ids, None)) == []
    assert list(topic_id_findings(ids, {"t": ID})) == []
    assert {one.code for one in topic_id_findings(ids, {"t": OTHER_ID})} == {FindingCode.TOPIC_ID_FOREIGN}
    foreign = [*ids, TopicId("/d/t-2", TopicPartition("t", 2), OTHER_ID)]
    assert [one.path for one in topic_id_findings(foreign, None)] == ["/d/t-2/partition.metadata"]


def test_a_missing_id_is_told_where_somebody_knows_it():
    missing = [TopicId("/d/orders-0", ORDERS, None)]
    assert list(topic_id_findings(missing, None)) == []
    (found,) = topic_id_findings(missing, {"orders": ID})
    assert (found.code, found.kafka_issue) == (FindingCode.TOPIC_ID_MISSING, "KAFKA-16814")


def test_an_id_that_cannot_be_read_is_told():
    (found,) = topic_id_findings([TopicId("/d/orders-0", ORDERS, None, "no topic id")], None)
    assert found.code is FindingCode.PARTITION_METADATA


@pytest.mark.parametrize(
    ("values", "is_healthy"),
    [
        (META, True),
        ({"version": "0", "broker.id": "1"}, True),
        ({**META, "version": "2"}, False),
        ({**META, "node.id": "x"}, False),
        ({**META, "cluster.id": ""}, True),
        ({**META, "directory.id": "short"}, False),
        ({**META, "directory.id": f"{ID}=="}, True),
        ({**META, "directory.id": "AAAAAAAAAAAAAAAAAAAAAQ"}, False),
        ({"version": "1", "cluster.id": "c"}, False),
        ({"version": "0", "broker.id": "x"}, False),
        ({}, True),
    ],
    ids=str,
)
def test_meta_properties(values, is_healthy):
    """With real starts: Kafka 4.4 takes an empty cluster.id; Kafka 2.8, beside a ZooKeeper, an empty file."""
    found = list(meta_findings([IdentityBefore("/d", values)], None))
    assert [(one.code, one.path) for one in found] == (
        [] if is_healthy else [(FindingCode.META_PROPERTIES, "/d/meta.properties")]
    )
    assert all(one.text.endswith("; the broker does not start.") for one in found)


@pytest.mark.parametrize("values", [{}, None])
def test_meta_properties_of_a_node_with_the_metadata_log_has_ids(values):
    (found,) = meta_findings([IdentityBefore("/d", values)], "/d")
    assert found.remedy.startswith("Restore the file")


def test_one_of_several_meta_properties_that_cannot_be_read_takes_its_log_dir_offline():
    sound = IdentityBefore("/a", META)
    broken = IdentityBefore("/b", {**META, "version": "2"})
    (found,) = meta_findings([sound, broken], "/a")
    assert (found.path, found.text) == (
        "/b/meta.properties", "Version '2' is neither 0 nor 1; the broker takes the log dir offline."
    )  # fmt: skip
    (found,) = meta_findings([sound, broken], "/b")
    assert found.text.endswith("; the broker does not start.")


def test_log_dirs_of_one_broker_agree():
    one, other = IdentityBefore("/a", META), IdentityBefore("/b", {**META, "directory.id": OTHER_ID})
    assert list(meta_findings([one, other], None)) == []
    assert [found.text for found in meta_findings([one, one._replace(path="/b")], None)] == [
        "The directory.id is also that of /a; the broker does not start."
    ]
    strange = [other._replace(path=path, properties={**META, "directory.id": OTHER_ID, key: "7"})
               for path, key in (("/b", "cluster.id"), ("/c", "node.id"))]  # fmt: skip
    assert [(found.path, found.remedy.partition(" broker")[0]) for found in meta_findings([one, *strange], None)] == [
        ("/b/meta.properties", "Find out which"), ("/c/meta.properties", "Find out which")
    ]  # fmt: skip


OF_ZOOKEEPER = {"version": "0", "broker.id": "1", "cluster.id": "c"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((META, OF_ZOOKEEPER), []),
        ((OF_ZOOKEEPER, META), []),
        ((META, None), ["/1/meta.properties"]),
        ((OF_ZOOKEEPER, None), []),
        ((OF_ZOOKEEPER, {**OF_ZOOKEEPER, "broker.id": "2"}), ["/0/meta.properties"]),
    ],
)
def test_one_formatted_log_dir_makes_all_of_them_those_of_a_node_without_zookeeper(values, told):
    found = meta_findings([IdentityBefore(f"/{place}", one) for place, one in enumerate(values)], None)
    assert [one.path for one in found] == told


def test_names_in_a_log_dir():
    known = [
        *(NamedEntry(name, True) for name in ("orders-0", f"orders-0.{'0' * 32}-delete", "remote-log-index-cache")),
        *(NamedEntry(name, False) for name in (".lock", "meta.properties", *CHECKPOINTS, ".logcleaner-journal")),
        NamedEntry("cleaner-offset-checkpoint.tmp", False),
    ]
    assert list(log_dir_name_findings("/d", known)) == []
    found = list(log_dir_name_findings("/d", [NamedEntry("lost+found", True), NamedEntry("notes.txt", False)]))
    assert [one.harm for one in found] == [Harm.NO_START, Harm.NOTE]


def names_told(*others: str, orphans: tuple[str, ...] = (), told: tuple[Finding, ...] = ()) -> list[Finding]:
    return list(partition_name_findings("/d/orders-0", PartitionNames(others, orphans), ORDERS, told))


@pytest.mark.parametrize("name", ["x-+5", "x-007", "a b-0"])
def test_a_directory_whose_name_kafka_takes_though_it_gives_none_stops_nothing(name):
    """``tests/interop/test_preflight.py`` starts Kafka on such names."""
    (found,) = log_dir_name_findings("/d", [NamedEntry(name, True)])
    assert (found.code, found.harm) == (FindingCode.NAME_STRANGE, Harm.NOTE)


def test_index_files_that_tell_of_lost_records_are_not_told_by_their_names():
    orphans = tuple(f"{base:020d}.index" for base in (3, 9, 12))
    assert len(names_told(orphans=orphans)) == 3
    lost = tuple(offset_findings(LogClaims("/d/orders-0", 9, noted=Noted(high_watermark=20))))
    gap = Finding(FindingCode.OFFSET_GAP, Harm.DATA_LOST, f"/d/orders-0/{3:020d}.log", "", "")
    assert [one.path[-8:] for one in names_told(orphans=orphans, told=lost)] == ["03.index"]
    assert names_told(orphans=orphans, told=(gap, *lost)) == []


def test_names_in_a_partition():
    known = ["leader-epoch-checkpoint", "partition.metadata", "partition.metadata.tmp", "x.logcleaner"]
    assert list(names_told(*known)) == []
    strange = ["foo.log", "notes.txt", f"{0:020d}.log"]
    found = list(names_told(*strange, orphans=(f"{9:020d}.index",)))
    assert [one.harm for one in found] == [Harm.WRONG_ANSWER, Harm.NO_START, Harm.NOTE, Harm.WASTE]
    metadata, of_metadata = TopicPartition("__cluster_metadata", 0), ("quorum-state", f"{7:020d}-{1:010d}.checkpoint")
    assert list(partition_name_findings("/d/m", PartitionNames(of_metadata), metadata, ())) == []


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("foo.log.deleted", Harm.WASTE),
        (".deleted", Harm.WASTE),
        ("foo.checkpoint.deleted", Harm.NOTE),
        ("foo.swap", Harm.NO_START),
        (".timeindex", Harm.NO_START),
        ("99999999999999999999.snapshot", Harm.NO_START),
        ("+5.log", Harm.WRONG_ANSWER),
        ("00000000000000000005.foo.log", Harm.WRONG_ANSWER),
        ("-1.log", Harm.WRONG_ANSWER),
        ("+5.snapshot", Harm.WRONG_ANSWER),
        ("+5.index", Harm.WASTE),
        ("9.foo.cleaned", Harm.WASTE),
        ("log", Harm.NOTE),
        ("foo.log.1", Harm.NOTE),
    ],
)
def test_a_strange_name_does_the_harm_that_a_start_does(name, harm):
    """``tests/interop/test_strange_names.py`` asks Kafka."""
    (found,) = names_told(name)
    assert (found.code, found.harm) == (FindingCode.NAME_STRANGE, harm)


def test_what_a_repair_keeps_is_not_strange():
    kept = ["leader-epoch-checkpoint.deleted", "partition.metadata.deleted"]
    assert list(names_told(*kept)) == []


@pytest.mark.parametrize(
    ("path", "harm"),
    [
        (f"orders-0/{0:020d}.log", Harm.DATA_LOST),
        ("orders-0", Harm.DATA_LOST),
        (f"orders-0/{0:020d}.index", Harm.WRONG_ANSWER),
        ("meta.properties", Harm.WRONG_ANSWER),
    ],
)
def test_what_a_copy_lacks_is_lost_data_if_it_held_records(path, harm):
    (found,) = copy_findings("/copy", CopyCheck(lacking=((path, "is gone"),)))
    assert (found.code, found.harm, found.path, found.text) == (
        FindingCode.COPY_LACKS, harm, f"/copy/{path}", "It is gone."
    )  # fmt: skip


def test_a_manifest_that_says_nothing_or_of_another_state_is_told():
    (damaged,) = copy_findings("/copy", CopyCheck(error="it is cut short"))
    (changed,) = copy_findings("/copy", CopyCheck(changed="orders-0/0.log"))
    assert {damaged.path, changed.path} == {"/copy/logcleaner-manifest.json"}
    assert (damaged.harm, changed.harm) == (Harm.WRONG_ANSWER, Harm.NOTE)
    assert damaged.text == "It says nothing, so nobody knows what is missing: it is cut short."
    assert "orders-0/0.log shows that a broker or a cleaner worked here since" in changed.text
    assert list(copy_findings("/copy", CopyCheck())) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, None),
        (2, "orders-0 lies in 2 log dirs: a broker refuses to start. The other: /1/orders-0."),
        (3, "orders-0 lies in 3 log dirs: a broker refuses to start. The other: /1/orders-0, /2/orders-0."),
    ],
)
def test_a_partition_in_several_log_dirs_is_one_finding(count, text):
    found = list(twice_findings([(ORDERS, f"/{place}/orders-0") for place in range(count)] + [(CLICKS, "/0/clicks-0")]))
    assert [(one.path, one.text, one.harm) for one in found] == ([("/0/orders-0", text, Harm.NO_START)] if text else [])
