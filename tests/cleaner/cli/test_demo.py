from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cleaner.cli.setup import demo
from cleaner.demo import MadeTopic, make_demo
from cleaner.errors import UnwritableFile
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem, OutOfSpace
from storage.log import Log, LogConfig
from storage.log_dir import LogDir
from storage.metadata.metadata_log import read_cluster_metadata
from storage.names import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, TopicPartition

NOW_MS = 1_760_000_000_000
DAY_MS = 86_400_000
FS = FileSystem()


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    return demo.run(parser.parse_args(words))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[LogDir, list[MadeTopic]]:
    directory = tmp_path_factory.mktemp("demo")
    topics = make_demo(directory, FS, NOW_MS, seed=1)
    return LogDir.open(directory), topics


@pytest.fixture(scope="module")
def logs(made: tuple[LogDir, list[MadeTopic]]) -> dict[str, Log]:
    return {str(name): Log.open(path, LogConfig(), FS) for name, path in made[0].partitions()}


def test_each_topic_lies_there_as_after_a_clean_stop(
    made: tuple[LogDir, list[MadeTopic]], logs: dict[str, Log]
) -> None:
    log_dir, _ = made
    ends = {name: log.log_end_offset for name, log in logs.items()}
    assert sorted(ends) == [
        "audit-0",
        "clicks-0",
        "empty-0",
        "future-0",
        *(f"orders-{n}" for n in range(3)),
        "sessions-0",
    ]
    for checkpoint in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        assert {str(name): offset for name, offset in log_dir.offsets(checkpoint).items()} == ends
    assert log_dir.checkpoints().clean_shutdown
    assert all(log.torn_bytes == 0 for log in logs.values())


def test_configs_come_from_the_cluster_metadata(made: tuple[LogDir, list[MadeTopic]]) -> None:
    log_dir, topics = made
    found = read_cluster_metadata(log_dir.path / "__cluster_metadata-0")
    assert found.topic_configs == {one.topic.name: one.topic.configs for one in topics}
    assert found.topic_configs["sessions"]["cleanup.policy"] == "compact,delete"
    for name, path in log_dir.partitions():
        assert (path / "partition.metadata").read_text().endswith(found.topic_ids[name.topic])


def test_it_is_small(made: tuple[LogDir, list[MadeTopic]]) -> None:
    log_dir, topics = made
    on_disk = sum(path.stat().st_size for path in log_dir.path.rglob("*") if path.is_file())
    assert sum(one.size_bytes for one in topics) < on_disk < 60 << 20


def test_clicks_and_sessions_reach_beyond_their_retention_and_into_it(logs: dict[str, Log]) -> None:
    for name, retention_ms in (("clicks-0", 3 * DAY_MS), ("sessions-0", 2 * DAY_MS)):
        newest = [segment.newest_record_ms() for segment in logs[name].segments]
        assert newest[1] < NOW_MS - retention_ms < newest[-2], name
    assert all(record.key is None for record in logs["clicks-0"].records(0, end_offset=100))


def test_orders_hold_updates_tombstones_headers_and_all_codecs(logs: dict[str, Log]) -> None:
    for partition in range(3):
        log = logs[f"orders-{partition}"]
        records = list(log.records())
        assert len({record.key for record in records}) < len(records) / 2
        assert any(record.is_tombstone for record in records)
        assert all(record.headers for record in records)
        assert {batch.header.compression for batch in log.read()} == set(Compression)
        assert len(log.segments) > 2, "only segments behind the active one can be compacted"


def test_audit_is_larger_than_its_limit_and_younger_than_none(
    made: tuple[LogDir, list[MadeTopic]], logs: dict[str, Log]
) -> None:
    (audit,) = (one.topic for one in made[1] if one.topic.name == "audit")
    assert logs["audit-0"].size_bytes > int(audit.configs["retention.bytes"]) + audit.segment_bytes
    assert audit.configs["retention.ms"] == "-1"


def test_one_record_of_future_pins_what_would_have_gone(logs: dict[str, Log]) -> None:
    log = logs["future-0"]
    ahead = [record for record in log.records() if record.timestamp_ms > NOW_MS]
    assert [record.timestamp_ms for record in ahead] == [NOW_MS + 400 * DAY_MS]
    pinned, behind = ((s.base_offset, s.newest_record_ms()) for s in log.segments[1:3])
    assert pinned[0] <= ahead[0].offset < behind[0]
    others = [r.timestamp_ms for r in log.records(pinned[0], end_offset=behind[0]) if r != ahead[0]]
    assert max(others) < NOW_MS - 3 * DAY_MS, "without that record the segment would go"


def test_the_same_seed_and_time_make_the_same_bytes(tmp_path: Path, made: tuple[LogDir, list[MadeTopic]]) -> None:
    make_demo(tmp_path / "again", FS, NOW_MS, seed=1)
    first, again = (
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (made[0].path, tmp_path / "again")
    )
    assert first == again


def test_the_command_says_what_it_made_and_what_to_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "a demo"
    assert run(str(directory)) == 0
    told = capsys.readouterr().out
    assert f"logcleaner clean --dry-run --log-dir '{directory}'" in told
    assert "orders" in told
    assert LogDir.open(directory).offsets(HIGH_WATERMARK_CHECKPOINT)[TopicPartition("clicks", 0)] == 20_000


@pytest.mark.parametrize("found", ["not empty", "a file", "no parent"])
def test_a_directory_that_will_not_do_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], found: str
) -> None:
    directory = tmp_path / "no" / "parent" if found == "no parent" else tmp_path / "taken"
    if found == "not empty":
        directory.mkdir()
        (directory / "precious").touch()
    elif found == "a file":
        directory.touch()
    assert run(str(directory)) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sum(1 for _ in tmp_path.rglob("*")) == {"not empty": 2, "a file": 1, "no parent": 0}[found]


def test_full_disk_is_told_without_advice_that_is_for_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OutOfSpace(tmp_path / "demo/orders-0", 70)

    monkeypatch.setattr("cleaner.demo.make_demo", full)
    with pytest.raises(UnwritableFile, match=r"orders-0: .*: no space; name a directory on another disk"):
        run(str(tmp_path / "demo"))
