"""``owners`` on drawn internal topics, and on those that a real broker wrote."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from cleaner.engine import owners as owners_module
from cleaner.engine.explain.explaining import PartitionChanged
from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.records import encode_batch, encode_message
from storage.records.v2 import ControlType, parse_header
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch, encode_empty_batch, iter_batches
from tests.coordinator_records import (
    group_key,
    group_value,
    offset_key,
    offset_value,
    records,
    transaction_key,
    transaction_value,
)
from tests.partition_dirs import DAY_MS, NOW_MS, PartitionDir, committed

NAME: Final = TopicPartition("__consumer_offsets", 7)
NOW: Final = str(NOW_MS)
COMPACT: Final = ("--set", "cleanup.policy=compact")


def commits(group: str, count: int, topic: str = "orders") -> list[tuple[bytes | None, bytes | None]]:
    return [(offset_key(group, topic), offset_value())] * count


def drawn(tmp_path: Path, *segments: list[bytes], aborted: bytes = b"") -> Path:
    """A log dir with ``__consumer_offsets-7``; a segment begins where its first batch does."""
    partition = PartitionDir(tmp_path / "data", str(NAME))
    for batches in segments:
        base_offset = next(iter(iter_batches(batches[0], Path("drawn")))).base_offset
        partition.segment(base_offset, *batches, aborted=aborted)
    return committed(tmp_path / "data", partition)


def batch(first_offset: int, *pairs: tuple[bytes | None, bytes | None], **options: Any) -> bytes:
    return encode_batch(records(first_offset, *pairs), **options)


def document(capsys: pytest.CaptureFixture[str], log_dir: Path, *options: str, status: int = 0) -> dict[str, Any]:
    assert main(["owners", "--json", "--now", NOW, "--log-dir", str(log_dir), *options]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def partition_of(capsys: pytest.CaptureFixture[str], log_dir: Path, *options: str, status: int = 0) -> dict[str, Any]:
    (partition,) = document(capsys, log_dir, *options, status=status)["partitions"]
    told = sum(one["bytes"] for one in (*partition["owners"], *partition["others"]))
    assert told == partition["bytes"] == sum(path.stat().st_size for path in (log_dir / str(NAME)).glob("*.log"))
    found: dict[str, Any] = partition
    return found


def shown(capsys: pytest.CaptureFixture[str], log_dir: Path, *options: str, status: int = 0) -> str:
    assert main(["owners", "--now", NOW, "--log-dir", str(log_dir), *options]) == status
    return capsys.readouterr().out


def named(partition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {owner["name"]: owner for owner in partition["owners"]}


def test_each_group_has_its_bytes_records_keys_and_topics(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log_dir = drawn(
        tmp_path,
        [batch(0, *commits("busy", 5), *commits("busy", 1, "clicks"), (group_key("busy"), group_value("m1", "m2")))],
        [batch(7, *commits("idle", 1), (group_key("idle"), group_value()), (offset_key("gone"), None))],
    )
    (log_dir / CLEANER_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint({NAME: 7}))
    found = named(partition_of(capsys, log_dir, *COMPACT))
    busy = found["busy"]
    assert (busy["state"], busy["members"], busy["protocol"]) == ("active", 2, "consumer")
    assert (busy["records"], busy["live_keys"], busy["superseded_records"], busy["dirty_bytes"]) == (7, 3, 4, 0)
    assert {topic["topic"]: topic["records"] for topic in busy["topics"]} == {"orders": 5, "clicks": 1, None: 1}
    assert found["idle"]["state"] == "empty"
    assert found["idle"]["dirty_bytes"] == found["idle"]["bytes"] > 0
    assert (found["gone"]["state"], found["gone"]["tombstones"]) == ("dead", 1)


def test_what_is_superseded_is_what_a_compaction_drops(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pairs = [(offset_key(f"g{n % 7}", partition=n % 3), None if n % 11 == 0 else offset_value()) for n in range(200)]
    log_dir = drawn(tmp_path, [batch(0, *pairs[:90])], [batch(90, *pairs[90:])], [batch(200, *commits("active", 1))])
    before = partition_of(capsys, log_dir)
    options = (
        "--log-dir",
        str(log_dir),
        "--now",
        NOW,
        "--force-compaction",
        *COMPACT,
        "--set",
        "clock.jump.max=9999999d",
    )
    assert main(["clean", "--dry-run", "--exact", "--json", *options]) == 0
    (planned,) = json.loads(capsys.readouterr().out)["partitions"]
    result = planned["result"]
    assert result["records_read"] - result["records_kept"] == before["held"]["superseded_records"]


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_share_out_what_they_take(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, codec: Compression
) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("a", 40), *commits("b", 10), compression=codec)])
    found = named(partition_of(capsys, log_dir))
    assert found["a"]["bytes"] == pytest.approx(4 * found["b"]["bytes"], abs=8)


def test_messages_of_version_1_are_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, [encode_message(record, 1) for record in records(0, *commits("old", 2))])
    assert named(partition_of(capsys, log_dir))["old"]["records"] == 2


def test_aborted_commits_take_bytes_and_are_not_the_latest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    producer = {"producer_id": 9, "producer_epoch": 0}
    marker = encode_control_batch(
        ControlType.ABORT, offset=2, timestamp_ms=NOW_MS, producer_epoch=0, producer_id=9, coordinator_epoch=0
    )
    log_dir = drawn(
        tmp_path,
        [
            batch(0, *commits("g", 1)),
            batch(1, (offset_key("g"), None), base_sequence=0, is_transactional=True, **producer),
            marker,
        ],
        aborted=format_aborted_txn(AbortedTxn(9, 1, 2, 3)),
    )
    partition = partition_of(capsys, log_dir)
    group = named(partition)["g"]
    assert (group["live_keys"], group["tombstones"], group["superseded_records"]) == (1, 0, 1)
    assert [(one["what"], one["records"]) for one in partition["others"]] == [("transaction markers", 1)]


def test_what_lies_below_the_log_start_does_not_count(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("below", 1)), batch(1, *commits("above", 1))])
    (log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint({NAME: 1}))
    found = named(partition_of(capsys, log_dir))
    assert (found["below"]["state"], found["above"]["state"]) == ("dead", "no group")


def test_what_nobody_owns_has_a_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    header = parse_header(batch(3, *commits("g", 1)), 0, Path("drawn"))
    log_dir = drawn(
        tmp_path,
        [
            batch(0, *commits("g", 1), (None, b"unkeyed"), (b"\0\x63what", b"?")),
            encode_empty_batch(header._replace(producer_id=4, producer_epoch=0, base_sequence=0)),
        ],
    )
    partition = partition_of(capsys, log_dir)
    assert [(one["what"], one["records"]) for one in partition["others"]] == [
        ("records without a key", 1), ("keys that cannot be decoded", 1), ("batches without records", 0),
    ]  # fmt: skip
    assert partition["problems"] == ["1 record has a key that cannot be decoded: a key of type 99, which is not known"]
    told = shown(capsys, log_dir)
    assert "Beside them: records without a key" in told
    assert "__consumer_offsets-7: 1 record has a key that cannot be decoded" in told


@pytest.mark.parametrize(
    ("value", "cause"), [(b"\0\x09later", "GroupMetadataValue of version 9 is not known"), (b"", "")]
)
def test_a_value_that_cannot_be_decoded_is_told_and_no_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: bytes, cause: str
) -> None:
    log_dir = drawn(tmp_path, [batch(0, (group_key("g"), value), (offset_key("g"), offset_value()))])
    partition = partition_of(capsys, log_dir)
    assert named(partition)["g"]["state"] == "unknown"
    assert f"1 value cannot be decoded: {cause}" in partition["problems"][0]


def test_a_damaged_batch_is_a_failure_and_the_others_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("a", 1)), batch(1, *commits("b", 1)), batch(2, *commits("c", 1))])
    path = log_dir / str(NAME) / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    partition = partition_of(capsys, log_dir, status=1)
    assert set(named(partition)) == {"a", "c"}
    assert partition["others"][0]["what"] == "damaged batches, and batches without records"
    assert "CRC-32C mismatch" in partition["problems"][0]


def test_a_transactional_id_has_its_state_and_expires(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    partition = PartitionDir(tmp_path / "data", "__transaction_state-3")
    pairs = [(transaction_key("open"), transaction_value(1)), (transaction_key("old"), transaction_value(4, 1))]
    partition.segment(0, batch(0, *pairs, (transaction_key("gone"), None)))
    log_dir = committed(tmp_path / "data", partition)
    (found,) = document(capsys, log_dir)["partitions"]
    states = {owner["name"]: (owner["state"], owner["expired"]) for owner in found["owners"]}
    assert states == {"open": ("ongoing", 0), "old": ("committed", 1), "gone": ("dead", 0)}
    told = shown(capsys, log_dir)
    assert "UNUSED_TRANSACTIONAL_IDS" in told
    assert "transactional.id.expiration.ms=7d" in told


def test_the_retention_of_offsets_is_the_one_in_force(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("node.id=1\noffsets.retention.minutes=10\n")
    log_dir = drawn(tmp_path, [batch(0, (offset_key("g"), offset_value(NOW_MS - 600_000)))])
    options = ("--server-properties", str(properties))
    assert named(partition_of(capsys, log_dir))["g"]["expired"] == 0
    assert named(partition_of(capsys, log_dir, *options))["g"]["expired"] == 1
    told = " ".join(shown(capsys, log_dir, *options).split())
    assert "1 group without members holds 1 offset" in told
    assert f"by offsets.retention.minutes=10 ({properties} line 2)" in told


def test_a_group_that_commits_each_message_is_named_with_a_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    every = [replace(one, timestamp_ms=NOW_MS + one.offset) for one in records(0, *commits("greedy", 1500))]
    log_dir = drawn(tmp_path, [encode_batch(every), batch(1500, *commits("modest", 2))])
    (topic,) = document(capsys, log_dir, *COMPACT)["topics"]
    causes = {cause["code"]: cause for cause in topic["causes"]}
    assert causes["FREQUENT_WRITES"]["text"].startswith("Group greedy wrote 100 % of the records: 1,500 for 1 key")
    assert "auto.commit.interval.ms" in causes["FREQUENT_WRITES"]["remedy"]
    assert "ACTIVE_SEGMENT" in causes


def test_the_report_fits_a_screen_and_says_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    log_dir = drawn(
        tmp_path, [batch(4 * n, *commits(f"group-{n:03d}", 1 + n % 3), (offset_key("x"), None)) for n in range(100)]
    )
    told = shown(capsys, log_dir)
    assert len(told.splitlines()) <= 60
    assert max(map(len, told.splitlines())) <= 80
    assert "more groups" in told
    every = shown(capsys, log_dir, "-v")
    assert re.findall(r"^group-\d+", every, re.MULTILINE) == [
        f"group-{n:03d}" for n in sorted(range(100), key=lambda n: (-(n % 3), n))
    ]
    assert "group-" not in shown(capsys, log_dir, "-q")
    assert "and 98 more groups" in shown(capsys, log_dir, "--limit", "3")
    by_superseded = shown(capsys, log_dir, "--sort", "reclaim", "--limit", "2").splitlines()
    assert by_superseded[2].startswith("x ")


def test_owners_of_all_partitions_are_told_in_one_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    holding = [("b", 1), ("d", 3)], [("a", 1), ("c", 2)]
    made = []
    for number, groups in enumerate(holding):
        partition = PartitionDir(tmp_path / "data", f"__consumer_offsets-{number}")
        pairs = [pair for group, count in groups for pair in commits(group, count)]
        made.append(partition.segment(0, batch(0, *pairs)).segment(len(pairs)))
    told = shown(capsys, committed(tmp_path / "data", *made))
    assert re.findall(r"^([a-d]) ", told, re.MULTILINE) == ["d", "c", "a", "b"]


def test_both_topics_with_many_partitions_fit_a_screen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    drawn_partitions = []
    for number in range(30):
        pairs = [(offset_key(f"g{number}-{n}"), offset_value(NOW_MS - n * DAY_MS)) for n in range(20)]
        offsets = PartitionDir(tmp_path / "data", f"__consumer_offsets-{number}")
        offsets.segment(0, batch(0, *pairs, *pairs, (offset_key("dead"), None))).segment(41)
        ids = [(transaction_key(f"t{number}-{n}"), transaction_value(4, 1)) for n in range(9)]
        states = PartitionDir(tmp_path / "data", f"__transaction_state-{number}").segment(0, batch(0, *ids, *ids))
        drawn_partitions += [offsets, states]
    told = shown(capsys, committed(tmp_path / "data", *drawn_partitions)).splitlines()
    assert len(told) <= 60
    assert sum(line.startswith("  and ") for line in told) >= 4


def test_a_hostile_name_is_escaped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("\x1b[2J\r\n" + "n" * 240, 1))])
    told = shown(capsys, log_dir, "-v")
    assert "\x1b" not in told
    assert "\\x1b[2J\\r\\n" in told


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("__consumer_ofsets", "is in none of the log dirs; did you mean __consumer_offsets?"),
        ("__consumer_offsets-8", "did you mean __consumer_offsets-7?"),
        ("orders", "has no groups and no transactional ids; say __consumer_offsets or __transaction_state"),
    ],
)
def test_a_name_without_owners_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, why: str
) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("g", 1))])
    PartitionDir(log_dir, "orders-0").segment(0)
    assert main(["owners", name, "--log-dir", str(log_dir)]) == 2
    assert why in capsys.readouterr().err


def test_a_log_dir_without_internal_topics_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    PartitionDir(tmp_path / "data", "orders-0").segment(0)
    assert "holds __consumer_offsets or __transaction_state" in shown(capsys, tmp_path / "data")


def test_a_partition_that_changes_meanwhile_is_read_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("g", 1))])
    looks, cut = [], owners_module.cut_partition

    def changing(*given: Any) -> Any:
        looks.append(given)
        if len(looks) < 3:
            raise PartitionChanged(log_dir / str(NAME))
        return cut(*given)

    monkeypatch.setattr(owners_module, "cut_partition", changing)
    assert named(partition_of(capsys, log_dir))["g"]["records"] == 1

    def gone(*given: Any) -> Any:
        raise PartitionChanged(log_dir / str(NAME))

    monkeypatch.setattr(owners_module, "cut_partition", gone)
    (failed,) = document(capsys, log_dir, status=1)["partitions"]
    assert "changed while it was looked at" in failed["error"]


def test_a_partition_alone_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, [batch(0, *commits("g", 1))])
    PartitionDir(log_dir, "__transaction_state-3").segment(0, batch(0, (transaction_key("t"), transaction_value(0))))
    assert main(["owners", "__transaction_state-3", "--json", "--log-dir", str(log_dir)]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (partition["topic"], partition["owners"][0]["state"]) == ("__transaction_state", "unused")
