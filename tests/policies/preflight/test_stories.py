"""Whole starts in words, each beside its golden text: every step, file, number and sentence of a prediction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

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
from policies.preflight.identity import (
    Identities,
    IdentityBefore,
    check_identities,
    check_zookeeper_identities,
)
from policies.preflight.metadata import MetadataBefore, MetadataStart, load_metadata
from policies.preflight.prediction import StartSurroundings, predict
from policies.preflight.start import LogStart, Refusal, Start, StartStep, verdict_of
from storage.names import TopicPartition
from tests.policies.preflight.test_loading import KAFKA_4, NODE, ORDERS, SOUND, TOPIC_ID, FakeContents, segment

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "preflight-stories.txt"
LOG, LAST = segment(0, ".log")[0], segment(10, ".log")[0]
SWAP: Final = segment(0, ".log.swap", ".index.swap", ".timeindex.swap", ".txnindex.swap")
TORN: Final = RecoveredLog(60, 6, 6, False, "the CRC of the batch is wrong", zero_bytes=8)
OUT_OF_ORDER: Final = KafkaFailure("InvalidOffsetException", "offset 4 does not follow 7")
OVERFLOW: Final = KafkaFailure("LogSegmentOffsetOverflowException", "offset 4 does not fit")
CORRUPT: Final = KafkaFailure("CorruptIndexException", "marker 3 lies below the segment")
NO_INDEXES: Final = [*segment(0, ".log"), *segment(10, ".log")]
OTHERS: Final = {"hosts": (2, 3)}
NOTHING: Final = FakeContents()

STORIES: Final[dict[str, dict[str, Any]]] = {
    "torn in the first of two segments": {
        "clean": False,
        "recovery_point": 0,
        "contents": FakeContents(found={LOG: TORN}),
    },
    "torn in the last segment": {"clean": False, "recovery_point": 15, "contents": FakeContents(found={LAST: TORN})},
    "recovered whole, with a marker of an abort": {
        "clean": False,
        "contents": FakeContents(found={LAST: RecoveredLog(100, 20, 20, True, None)}),
    },
    "recovered to nothing": {
        "clean": False,
        "contents": FakeContents(found={LAST: RecoveredLog(0, None, None, False, None)}),
    },
    "an offset that does not follow empties a segment": {
        "clean": False,
        "recovery_point": 0,
        "contents": FakeContents(found={LOG: RecoveredLog(60, 6, 6, False, None, OUT_OF_ORDER)}),
    },
    "offsets that do not fit are split": {
        "clean": False,
        "contents": FakeContents(found={LAST: RecoveredLog(60, 16, 16, False, None, OVERFLOW)}),
    },
    "unclean without indexes and snapshots": {"names": NO_INDEXES, "clean": False, "recovery_point": 0},
    "clean without indexes and snapshots": {"names": NO_INDEXES},
    "without the indexes of the last segment": {
        "names": [*segment(0), *segment(10, ".log"), *segment(10, ".snapshot")]
    },
    "without the time index": {"names": [*segment(0, ".log", ".index"), *segment(10)]},
    "indexes alone": {"names": [*segment(0), *segment(10, ".index", ".timeindex", ".txnindex")]},
    "an empty directory": {"names": []},
    "an empty directory whose log start is noted": {"names": [], "log_start": 50},
    "a log that ends before its log start": {"log_start": 50},
    "a log start within the log": {"log_start": 10},
    "snapshots where no segment begins": {
        "names": [*SOUND, *segment(5, ".snapshot"), *segment(7, ".snapshot"), *segment(25, ".snapshot")]
    },
    "damaged snapshots": {
        "contents": FakeContents(broken_snapshots=frozenset(segment(10, ".snapshot") + segment(20, ".snapshot")))
    },
    "leftovers of every kind": {
        "names": [
            *SOUND,
            *SWAP,
            *segment(10, ".log.swap", ".log.cleaned", ".index.cleaned"),
            *segment(0, ".log.deleted"),
            f"{0:020d}-{0:010d}.checkpoint.deleted",
        ],
    },
    "a finished swap": {"names": [*SOUND, *SWAP]},
    "a finished swap over two segments, without its index": {
        "names": [*SOUND, *segment(0, ".log.swap")],
        "contents": FakeContents(ends={f"{LOG}.swap": 20, LOG: 20}),
    },
    "a damaged swap": {"names": [*SOUND, *SWAP], "contents": FakeContents(found={f"{LOG}.swap": TORN})},
    "a swap that nobody can read": {
        "names": [*SOUND, *SWAP],
        "contents": FakeContents(ends={f"{LOG}.swap": KafkaFailure("IOException", "no", is_io=True)}),
    },
    "Kafka 2.8: a swap": {"names": [*SOUND, *SWAP], "release": Release(2, 8)},
    "Kafka 2.8: a damaged swap with an abort": {
        "names": [*SOUND, *segment(0, ".log.swap", ".index.swap"), *segment(0, ".txnindex")],
        "release": Release(2, 8),
        "contents": FakeContents(found={f"{LOG}.swap": TORN._replace(aborts=True)}),
    },
    "Kafka 2.8: a swap over two segments": {
        "names": [*SOUND, *segment(0, ".log.swap")],
        "release": Release(2, 8),
        "contents": FakeContents(found={f"{LOG}.swap": RecoveredLog(100, 20, 20, False, None)}),
    },
    "Kafka 2.8: leftovers of every kind": {
        "names": [*SOUND, *SWAP, *segment(10, ".log.swap", ".log.cleaned"), *segment(0, ".log.deleted")],
        "release": Release(2, 8),
    },
    "Kafka 2.8: a swap that had not begun": {
        "names": [*segment(10), *SWAP, *segment(0, ".log.cleaned")],
        "release": Release(2, 8),
    },
    "Kafka 2.8: unclean": {"clean": False, "recovery_point": 0, "release": Release(2, 8)},
    "a transaction index that is corrupt": {
        "names": [*SOUND, *segment(10, ".txnindex")],
        "contents": FakeContents(txn_failures=dict.fromkeys(segment(10, ".txnindex"), CORRUPT)),
    },
    "a transaction index of another version": {
        "names": [*SOUND, *segment(10, ".txnindex")],
        "contents": FakeContents(
            txn_failures=dict.fromkeys(segment(10, ".txnindex"), KafkaFailure("KafkaException", "version 1"))
        ),
    },
    "zeros behind the log": {
        "contents": FakeContents(ends={LAST: KafkaFailure("CorruptRecordException", "byte 100: a batch of 0 bytes")})
    },
    "bytes behind the last batch": {
        "contents": FakeContents(uncounted={LAST: 7}, found={LAST: RecoveredLog(93, 20, 20, False, "the file ends")})
    },
    "bytes behind the last batch of a log without a topic id": {
        "contents": FakeContents(uncounted={LAST: 7}),
        "topic_id": None,
    },
    "names without 20 digits": {"names": [*SOUND, "5.log", "015.log", "30.index", "0.log"]},
    "a name that is no number": {"names": [*SOUND, "foo.log"]},
    "a deleted topic": {"name": "orders-0.0123456789abcdef0123456789abcdef-delete"},
    "a deleted topic without a segment": {"names": [], "name": "orders-0.0123456789abcdef0123456789abcdef-delete"},
    "set aside before": {"name": "orders-0.0123456789abcdef0123456789abcdef-stray", "topic_id": None},
    "set aside before, and its end cannot be read": {
        "name": "orders-0.0123456789abcdef0123456789abcdef-stray",
        "contents": FakeContents(ends={LAST: KafkaFailure("CorruptRecordException", "byte 0: a batch of 0 bytes")}),
    },
    "a move under way": {"name": "orders-0.0123456789abcdef0123456789abcdef-future"},
    "without a topic id": {"topic_id": None},
    "without a topic id, before Kafka 3.7": {"topic_id": None, "release": Release(3, 6)},
    "of a topic that was made again": {"topic_id": "other"},
    "of another broker": OTHERS,
    "of another broker, before Kafka 3.7": {**OTHERS, "release": Release(3, 6)},
    "leader epochs that do not parse": {"leader_epochs": KafkaFailure("IOException", "malformed line", is_io=True)},
    "Kafka 2.8: leader epochs that do not parse": {
        "leader_epochs": KafkaFailure("IOException", "malformed line", is_io=True),
        "release": Release(2, 8),
    },
    "a topic id that does not parse": {"id_failure": KafkaFailure("IllegalArgumentException", "too short")},
    "a directory that may not be written": {"writable": False, "names": [*SOUND, *segment(0, ".log.deleted")]},
    "a file that may not be read": {"unreadable": LAST},
    "Kafka 2.8: a file that may not be read": {"unreadable": LAST, "release": Release(2, 8)},
    "a log of one record whose snapshot lies behind it": {
        "names": [*segment(0), *segment(5, ".snapshot")],
        "contents": FakeContents(ends={LOG: 1}),
    },
    "beside metadata that are sound": {"metadata": "metadata: sound"},
    "beside metadata without the snapshot that they need": {"metadata": "metadata: a later log without a snapshot"},
    "a file that may not be written": {"unwritable": segment(10, ".index")[0]},
    "an index that is too large": {"sizes": {segment(10, ".index")[0]: (10 << 20) + 1}},
    "an index that is just not too large": {"sizes": {segment(10, ".index")[0]: 10 << 20}},
    "a log that is too large": {"sizes": {LAST: 1 << 31}},
    "a log that is just not too large": {"sizes": {LAST: (1 << 31) - 1}},
}


CHECKPOINTS: Final = {at: f"{at:020d}-{1:010d}.checkpoint" for at in (5, 9, 10, 20, 21)}
LATER: Final = [*segment(10), *segment(10, ".snapshot")]
METADATA_STORIES: Final[dict[str, dict[str, Any]]] = {
    "metadata: sound": {"names": [*SOUND, CHECKPOINTS[5]]},
    "metadata: torn": {"names": [*SOUND, CHECKPOINTS[5]], "contents": FakeContents(found={LAST: TORN})},
    "metadata: a segment of one record": {
        "names": [*segment(0), *segment(1)],
        "contents": FakeContents(found={LOG: RecoveredLog(100, 1, 1, False, None)}),
    },
    "metadata: without a snapshot": {"names": SOUND},
    "metadata: snapshots that go": {
        "names": [
            *LATER,
            *CHECKPOINTS.values(),
            f"{CHECKPOINTS[20]}.part",
            f"{CHECKPOINTS[10]}.deleted",
            f"{20:020d}-{1:010d}-7.checkpoint.part",
        ],
    },
    "metadata: a later log without a snapshot": {"names": LATER},
    "metadata: a later log with an older snapshot": {"names": [*LATER, CHECKPOINTS[9]]},
    "metadata: a later log with the snapshot at its start": {"names": [*LATER, CHECKPOINTS[10]]},
    "metadata: a snapshot at the end": {"names": [*SOUND, CHECKPOINTS[20]]},
    "metadata: a snapshot behind the end": {"names": [*SOUND, CHECKPOINTS[21]]},
    "metadata: a name that is no number": {"names": [*SOUND, "foo.log"]},
    "metadata: another topic": {"names": SOUND, "topic_id": TOPIC_ID},
    "metadata: its own topic": {"names": SOUND, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
    "metadata: a quorum state of version 0": {"quorum": {"data_version": 0, "leaderEpoch": 1, "leaderId": 2}},
    "metadata: a quorum state of version 1": {"quorum": {"data_version": 1, "leaderEpoch": 1, "leaderId": 2}},
    "metadata: a quorum state of version 2": {"quorum": {"data_version": 2, "leaderEpoch": 1, "leaderId": 2}},
    "metadata: a quorum state without a version": {"quorum": {"leaderEpoch": 1, "leaderId": 2}},
    "metadata: a quorum state without an epoch": {"quorum": {"data_version": 0, "leaderId": 2}},
    "metadata: a quorum state without a leader": {"quorum": {"data_version": 0, "leaderEpoch": 1}},
    "metadata: a quorum state that is a list": {"quorum": []},
    "metadata: a quorum state that is garbage": {"quorum": None},
}
A: Final = {"version": "1", "node.id": "1", "cluster.id": "c", "directory.id": "8FgL-MjIRcGBMw212kvxIQ"}
B: Final = {**A, "directory.id": "8FgL-MjIRcGBMw212kvx_Q"}
OLD: Final = {"version": "0", "broker.id": "1", "cluster.id": "c"}
IDENTITIES: Final[dict[str, tuple[dict[str, str] | str | None, ...]]] = {
    "two that fit": (A, B),
    "one that is not formatted": (A, None),
    "none that is formatted": (None, None),
    "one that cannot be read": (A, "no"),
    "that of the metadata cannot be read": ("no", B),
    "another cluster": (A, {**B, "cluster.id": "d"}),
    "another node": (A, {**B, "node.id": "2"}),
    "another cluster and node, beside a third": (A, {**B, "cluster.id": "d", "node.id": "2"}, None),
    "one id twice": (A, A),
    "one without an id": (A, {key: value for key, value in B.items() if key != "directory.id"}),
    "a reserved id": (A, {**B, "directory.id": "AAAAAAAAAAAAAAAAAAAAYw"}),
    "an id that is just not reserved": (A, {**B, "directory.id": "AAAAAAAAAAAAAAAAAAAAZA"}),
    "without ids": ({"version": "0"}, {}),
    "of version 0": (OLD, {**OLD, "directory.id": "8FgL-MjIRcGBMw212kvx_Q"}),
    "no known version": ({**A, "version": "2"}, {**B, "version": "-1"}, {**A, "version": "x"}),
    "no id of the node": ({"version": "1", "cluster.id": "c"}, {**B, "node.id": "x"}, {**A, "node.id": "2147483648"}),
    "ids at the bounds": ({**A, "node.id": "2147483647"}, {**B, "node.id": "-2147483647"}),
    "no id of the cluster": ({"version": "1", "node.id": "1"}, A),
    "no id of 16 bytes": ({**A, "directory.id": "short"}, B),
    "ZooKeeper: the same, and one that is missing": (OLD, None, OLD),
    "ZooKeeper: none": (None, None),
    "ZooKeeper: one that cannot be read": (OLD, "no"),
    "ZooKeeper: one that is malformed": ("malformed: a wrong escape", OLD),
    "ZooKeeper: another line": (OLD, {**OLD, "a": "b"}, OLD),
    "ZooKeeper: another node": ({**OLD, "broker.id": "2"},),
    "ZooKeeper: no number": ({**OLD, "broker.id": "x"},),
    "ZooKeeper: neither version nor id": ({"cluster.id": "c"},),
    "ZooKeeper: of KRaft": (A,),
}


def start_of(
    names: list[str] = SOUND,
    contents: FakeContents = NOTHING,
    *,
    clean: bool = True,
    recovery_point: int = 10,
    log_start: int = 0,
    topic_id: str | None = TOPIC_ID,
    id_failure: KafkaFailure | None = None,
    name: str = "orders-0",
    release: Release = KAFKA_4,
    leader_epochs: KafkaFailure | None = None,
    hosts: tuple[int, ...] = (NODE,),
    writable: bool = True,
    unreadable: str = "",
    unwritable: str = "",
    sizes: dict[str, int] | None = None,
    metadata: str = "",
) -> Start:
    files = tuple(
        FileBefore(one, (sizes or {}).get(one, 100 if ".log" in one else 0), one != unreadable, one != unwritable)
        for one in names
    )
    read_id = ReadTopicId(topic_id, id_failure)
    partition = PartitionBefore(name, ORDERS, files, leader_epochs, read_id, contents, writable)
    watermarks = {ORDERS: 20}
    log_dir = LogDirBefore("/d", clean, {ORDERS: recovery_point}, {ORDERS: log_start}, watermarks, (partition,), ())
    replicas = Replicas(NODE, {(TOPIC_ID, 0): hosts}, {TOPIC_ID: "orders"})
    read = metadata_of(metadata) if metadata else None
    return predict([log_dir], StartSurroundings(release, Identities((), {}, ()), "/d", read, replicas))


def in_words(start: Start) -> Iterator[str]:
    """Each field of a prediction, a line for each step."""
    yield verdict_of(start).text
    yield f"  harm: {start.does_harm}, forbidden: {start.is_forbidden}"
    for kind, refusals in (("refused", start.refusals), ("uncertain", start.uncertain)):
        yield from (f"  {kind}: {_refusal(one)}" for one in refusals)
    yield from (f"  unplaced: {one}" for one in start.unplaced)
    for log_dir in start.log_dirs:
        yield f"  {log_dir.path}: {log_dir.state}, clean: {log_dir.is_clean}"
        yield from (f"    failure: {file}: {failure.exception}: {failure.cause}" for file, failure in log_dir.failures)
        yield from (f"    {_step(step)}" for step in log_dir.steps)
        yield from (f"    lost: {one}" for one in log_dir.lost)
        for log in log_dir.logs:
            yield from _log(log)


def _log(log: LogStart) -> Iterator[str]:
    yield f"    {log.name}: {log.fate}, offsets {log.log_start_offset} to {log.log_end_offset}"
    yield f"      loses records: {log.loses_records}, hides records: {log.hides_records}, cuts: {len(log.cuts)}"
    if log.stray_remedy is not None:
        yield f"      remedy: {log.stray_remedy}"
    yield from (f"      {_step(step)}" for step in log.steps)
    yield f"      after: {', '.join(f'{name} {size}' for name, size in sorted(log.after.items()))}"


def _step(step: StartStep) -> str:
    places = {"at": step.position, "offset": step.offset, "bytes": step.size_bytes, "zeros": step.zero_bytes}
    told = "".join(f", {what} {value}" for what, value in places.items() if value is not None)
    return f"{step.kind} {step.file or '.'}: {step.why}{told}"


def _refusal(refusal: Refusal) -> str:
    remedy = f" ({refusal.remedy})" if refusal.remedy else ""
    return f"{refusal.path}: {refusal.failure.exception}: {refusal.failure.cause}{remedy}"


def told(title: str) -> str:
    """A story, with what is replayed for the producer state; ``~10`` are the 20 digits of an offset."""
    story = STORIES[title]
    contents = replace(story.get("contents", FakeContents()), replayed=[])
    lines = [*in_words(start_of(**{**story, "contents": contents}))]
    lines += [f"  replayed: {log} with {index} from {offset} on" for log, index, offset in contents.replayed]
    return re.sub(r"0{18}(?=\d\d)", "~", "\n".join(lines))


def metadata_of(title: str) -> MetadataStart:
    """What a start does with a metadata log."""
    story = {"names": [*SOUND, CHECKPOINTS[5]], "topic_id": None, **METADATA_STORIES[title]}
    files = tuple(FileBefore(one, 100 if ".log" in one else 0) for one in story["names"])
    name = TopicPartition("__cluster_metadata", 0)
    contents, read_id = story.get("contents", FakeContents()), ReadTopicId(story["topic_id"])
    partition = PartitionBefore(str(name), name, files, None, read_id, contents)
    said = json.dumps(story["quorum"]) if story.get("quorum") is not None else "garbage"
    return load_metadata(MetadataBefore(partition, f"{said}\n".encode() if "quorum" in story else None), "/d")


def told_of_metadata(title: str) -> str:
    """The same in words."""
    found = metadata_of(title)
    lines = [*_log(found.log), f"    failed: {found.log.failed_file}"]
    lines += [f"    refused: {_refusal(found.refusal)}"] if found.refusal else []
    lines += [f"    read up to: {valid}, snapshot: {found.snapshot}" for valid in found.valid_bytes]
    return re.sub(r"0{18}(?=\d\d)", "~", "\n".join(lines))


def told_of_identities(title: str) -> str:
    """What a start does over the ``meta.properties`` of /a, /b and /c."""
    befores = [
        IdentityBefore(path, None, one, one.startswith("malformed"))
        if isinstance(one, str)
        else IdentityBefore(path, one)
        for path, one in zip(("/a", "/b", "/c"), IDENTITIES[title], strict=False)
    ]
    check = (
        check_zookeeper_identities if title.startswith("ZooKeeper") else partial(check_identities, metadata_dir="/a")
    )
    lines = []
    for node_id in (None, 1):
        found = check(befores, node_id)
        lines.append(f"  node {node_id}: rewritten: {', '.join(found.rewritten)}; ids: {dict(found.directory_ids)}")
        lines += [f"    refused: {one.path}: {one.failure.exception}" for one in found.refusals]
        lines += [f"    further: {one.path}: {one.failure.exception}" for one in found.further]
        lines += [
            f"    offline: {path}: {one.exception}, of the disk: {one.is_io}" for path, one in found.offline.items()
        ]
        lines += [f"    {' | '.join(cause)}" for cause in found.causes()]
    return "\n".join(lines)


TOLD: Final[dict[str, Callable[[str], str]]] = {
    **dict.fromkeys(STORIES, told),
    **dict.fromkeys(METADATA_STORIES, told_of_metadata),
    **dict.fromkeys(IDENTITIES, told_of_identities),
}


def golden() -> dict[str, str]:
    """The texts of the golden file, by the titles above them."""
    sections = GOLDEN.read_text().split("\n# ")[1:]
    return {title: text.rstrip("\n") for title, _, text in (section.partition("\n") for section in sections)}


@pytest.mark.parametrize("title", TOLD)
def test_start_reads_as_its_golden_text(title: str) -> None:
    assert TOLD[title](title) == golden()[title]


def test_each_golden_text_is_that_of_a_story() -> None:
    assert list(golden()) == list(TOLD)
