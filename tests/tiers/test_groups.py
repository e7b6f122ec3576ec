"""``restore-tier`` and groups: no committed offset above a log, none with an epoch or a topic id of old."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.as_of.commits import is_as_anew, partition_for, value_anew
from cleaner.engine.as_of.reading import CommittedOffset
from storage.checkpoints import (
    LeaderEpochEntry,
    format_leader_epochs,
    format_offset_checkpoint,
    parse_offset_checkpoint,
)
from storage.names import HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, TopicPartition
from storage.records import encode_batch
from tests.coordinator_records import offset_key, records, text
from tests.partition_dirs import NOW_MS
from tests.tiers.drawn import a_batch, segment_of, write_local
from tests.tiers.test_until import batches_of


def value(offset: int, epoch: int, version: int = 3) -> bytes:
    if version == 3:
        return struct.pack(">hqi", 3, offset, epoch) + text("mine") + struct.pack(">q", NOW_MS)
    topic_id = bytes([1, 0, 16]) + bytes(range(16))  # one tagged field: tag 0, 16 bytes
    return struct.pack(">hqi", 4, offset, epoch) + b"\x05mine" + struct.pack(">q", NOW_MS) + topic_id


def write_log(log_dir: Path, name: str, *batches: bytes, epoch: int = 0) -> Path:
    directory = log_dir / name
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    for suffix in ("index", "timeindex"):
        (directory / f"{0:020d}.{suffix}").touch()
    (directory / LEADER_EPOCH_CHECKPOINT).write_bytes(format_leader_epochs([LeaderEpochEntry(epoch, 0)]))
    return log_dir


def test_committed_offset_above_the_end_of_a_log_gets_that_end_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [a_batch(n, f"value {n}") for n in range(6)]
    tier = write_local(tmp_path / "tier", [segment_of(at, *batches[at : at + 3]) for at in (0, 3)])
    commits = [
        (offset_key("below"), value(6, 0)),
        (offset_key("above"), value(42, 7)),
        (offset_key("x", "no"), value(9, 0)),
    ]
    old = write_log(tmp_path / "old", "__consumer_offsets-0", encode_batch(records(0, *commits)))
    command = ["restore-tier", str(tier), "--log-dir", str(old), "--output", str(tmp_path / "new"), "--json"]
    for more in (["-n"], []):
        assert main([*command, *more]) == ExitStatus.DONE
        (clamped,) = json.loads(capsys.readouterr().out)["clamped"]
        assert clamped == {"group": "above", "topic": "orders", "partition": 0, "offset": 42, "clamped_to": 6}
    last = batches_of(tmp_path / "new" / "__consumer_offsets-0")[-1]
    (record,) = last.records()
    assert (record.offset, record.key, record.value) == (3, offset_key("above"), value(6, -1))
    path = tmp_path / "new" / HIGH_WATERMARK_CHECKPOINT
    assert parse_offset_checkpoint(path.read_bytes(), path)[TopicPartition("__consumer_offsets", 0)] == 4
    assert main(["verify", str(tmp_path / "new")]) == ExitStatus.DONE
    assert len(batches_of(old / "__consumer_offsets-0")) == 1


def test_of_several_replicas_the_one_that_reaches_furthest_is_restored_with_its_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = write_local(tmp_path / "tier", [segment_of(0, a_batch(0, "value"))])
    late = [a_batch(n, f"value {n}", epoch=3) for n in range(3)]
    one = write_log(tmp_path / "one", "plain-0", *late[:2], epoch=3)
    two = write_log(tmp_path / "two", "plain-0", *late, epoch=3)
    early = [a_batch(n, f"value {n}", epoch=2) for n in range(4)]
    three = write_log(tmp_path / "three", "plain-0", *early, epoch=2)
    for log_dir, mark in ((one, 1), (two, 2), (three, 4)):
        checkpoint = format_offset_checkpoint({TopicPartition("plain", 0): mark})
        (log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(checkpoint)
    command = [
        "restore-tier",
        str(tier),
        "--output",
        str(tmp_path / "new"),
        "--log-dir",
        str(one),
        str(two),
        str(three),
    ]
    assert main(command) == ExitStatus.DONE
    assert len(batches_of(tmp_path / "new" / "plain-0")) == 3
    path = tmp_path / "new" / HIGH_WATERMARK_CHECKPOINT
    assert parse_offset_checkpoint(path.read_bytes(), path)[TopicPartition("plain", 0)] == 2


def test_value_for_a_new_topic_has_neither_epoch_nor_topic_id() -> None:
    name = TopicPartition("orders", 0)
    for version in (3, 4):
        found = CommittedOffset("group", name, 5, b"key", value(5, 9, version))
        assert not is_as_anew(found)
        assert value_anew(found, 100) == value(5, -1)
        assert value_anew(found, 2) == value(2, -1)
    assert is_as_anew(CommittedOffset("group", name, 5, b"key", value(5, -1)))


def test_group_is_looked_for_where_java_puts_it() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("console-consumer-\U0001f600", 1) == 0
