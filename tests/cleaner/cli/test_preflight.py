"""``preflight`` on small log dirs; that its predictions come true is for tests/interop/test_preflight.py to show."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.preflight.preflight import Node, predict_start
from policies.findings.findings import OTHER_TOPIC, UNKNOWN_METADATA, UNOWNED, WRITE_TOPIC_ID
from policies.findings.of_files import RECOVER_TAIL
from policies.preflight.start import Start
from policies.reasons import size
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.log_dir import LogDir
from storage.metadata.metadata_encode import encode_feature_level, encode_partition
from storage.metadata.metadata_log import read_cluster_metadata
from tests.metadata_dirs import append_metadata, metadata_log, write_metadata
from tests.partition_dirs import PartitionDir, committed, keyed
from tests.small_disks import a_small_disk

PROPERTIES = "version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=v3qEibE5Br9WpoYilKvjLQ\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log dir that Kafka 2.8 opens as it is: one partition, shut down cleanly."""
    one = PartitionDir(tmp_path, "orders-0")
    one.segment(0, keyed(0, "a", "b"), keyed(2, "c"))
    committed(tmp_path, one)
    (tmp_path / ".kafka_cleanshutdown").touch()
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], log_dir: Path, *words: str) -> tuple[int, dict[str, Any]]:
    status = main(["preflight", "--log-dir", str(log_dir), "--json", *words])
    return status, json.loads(capsys.readouterr().out)


def test_sound_log_dir_starts(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    (partition,) = document["log_dirs"][0]["partitions"]
    assert (status, document["starts"], document["kafka"]) == (ExitStatus.DONE, True, "2.8")
    assert (partition["fate"], partition["log_end_offset"]) == ("served", 3)


def test_torn_tail_after_a_crash_is_told_with_its_place(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    log = log_dir / "orders-0" / "00000000000000000000.log"
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b"torn")
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    steps = document["log_dirs"][0]["partitions"][0]["steps"]
    (cut,) = [step for step in steps if step["kind"] == "truncate"]
    assert status == ExitStatus.DAMAGED
    assert (cut["position"], cut["offset"], cut["bytes"]) == (size, 3, 4)
    assert main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    assert "at byte" in capsys.readouterr().out


def test_torn_tail_after_a_clean_shutdown_is_harm(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_dir / "orders-0" / "00000000000000000000.log"
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b"torn")
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    steps = document["log_dirs"][0]["partitions"][0]["steps"]
    (step,) = [step for step in steps if step["kind"] == "append-behind"]
    assert status == ExitStatus.DAMAGED
    assert (step["kind"], step["position"], step["offset"], step["bytes"]) == ("append-behind", size, 3, 4)
    assert main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    assert "consumers never get the new records" in " ".join(capsys.readouterr().out.split())


def test_garbage_offsets_of_the_cleaner_take_the_log_dir_offline_if_the_cleaner_is_on(
    log_dir: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_dir / "cleaner-offset-checkpoint").write_text("garbage\n")
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    (failure,) = document["log_dirs"][0]["failures"]
    assert (status, failure["file"]) == (ExitStatus.DAMAGED, "cleaner-offset-checkpoint")
    properties = tmp_path_factory.mktemp("etc") / "server.properties"
    properties.write_text(f"log.dirs={log_dir}\nlog.cleaner.enable=false\n")
    assert told(capsys, log_dir, "--kafka", "2.8", "--server-properties", str(properties))[0] == ExitStatus.DONE


def test_log_dir_of_zookeeper_is_refused_by_kafka_4(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = told(capsys, log_dir)
    assert (status, document["starts"]) == (ExitStatus.DAMAGED, False)
    assert document["refusals"][0]["exception"] == "RuntimeException"


def test_partition_that_the_metadata_do_not_know_is_set_aside(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_dir / "meta.properties").write_text(PROPERTIES)
    write_metadata(log_dir, other={})
    _, document = told(capsys, log_dir)
    (_, partition) = document["log_dirs"][0]["partitions"]
    assert (partition["directory"], partition["fate"], partition["remedy"]) == ("orders-0", "stray", UNOWNED)
    assert main(["preflight", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    text = " ".join(capsys.readouterr().out.split())
    assert "set aside as -stray: nobody will read their records:" in text
    assert UNOWNED in text
    assert UNKNOWN_METADATA not in text
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    main(["preflight", "--log-dir", str(log_dir)])
    assert UNKNOWN_METADATA in " ".join(capsys.readouterr().out.split())


def test_partition_without_its_topic_id_is_set_aside_with_the_remedy_of_the_doctor(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(log_dir)
    (log_dir / "orders-0" / "partition.metadata").unlink()
    status, document = told(capsys, log_dir)
    (_, partition) = document["log_dirs"][0]["partitions"]
    assert (status, partition["fate"], partition["remedy"]) == (ExitStatus.DAMAGED, "stray", WRITE_TOPIC_ID)
    main(["doctor", "--json", "--log-dir", str(log_dir)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["remedy"] for one in findings if one["code"] == "TOPIC_ID_MISSING"] == [WRITE_TOPIC_ID]


def test_torn_end_is_cut_before_the_topic_id_is_written(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed(log_dir)
    (log_dir / "orders-0" / "partition.metadata").unlink()
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    log = max((log_dir / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"torn" * 20)
    _, document = told(capsys, log_dir)
    (_, partition) = document["log_dirs"][0]["partitions"]
    assert partition["remedy"] == f"{RECOVER_TAIL} {WRITE_TOPIC_ID}"


def test_partition_of_a_topic_that_was_made_again_is_set_aside_with_the_remedy_of_the_doctor(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(log_dir)
    (log_dir / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: v3qEibE5Br9WpoYilKvjLQ\n")
    status, document = told(capsys, log_dir)
    assert status == ExitStatus.DAMAGED
    assert document["log_dirs"][0]["partitions"][1]["remedy"] == OTHER_TOPIC


def test_partition_that_another_broker_has_or_that_is_empty_is_set_aside_without_harm(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(log_dir)
    topic_id = read_cluster_metadata(metadata_log(log_dir).parent).topic_ids["orders"]
    append_metadata(log_dir, [encode_partition(topic_id, 0, 2, "v3qEibE5Br9WpoYilKvjLQ", 0)])
    status, document = told(capsys, log_dir)
    assert (status, document["log_dirs"][0]["partitions"][1]["fate"]) == (ExitStatus.DONE, "stray")
    append_metadata(log_dir, [encode_partition(topic_id, 0, 1, "v3qEibE5Br9WpoYilKvjLQ", 0)])
    (log_dir / "orders-0" / "partition.metadata").unlink()
    for path in (log_dir / "orders-0").glob("*"):
        path.unlink()
    (log_dir / "replication-offset-checkpoint").unlink()
    status, document = told(capsys, log_dir)
    assert (status, document["log_dirs"][0]["partitions"][1]["fate"]) == (ExitStatus.DONE, "stray")


@pytest.mark.parametrize(
    ("kafka", "feature", "level", "exception", "cause"),
    [
        ("4.3", "metadata.version", 33, "IllegalArgumentException",
         "No MetadataVersion with feature level 33. Valid feature levels are from 7 to 31."),
        ("4.3", "metadata.version", 6, "IllegalArgumentException",
         "No MetadataVersion with feature level 6. Valid feature levels are from 7 to 31."),
        ("4.3", "share.version", 2, "RuntimeException",
         "share.version has the level 2, and Kafka 4.3 only supports versions 0-1"),
        ("4.0", "streams.version", 1, "RuntimeException",
         "streams.version has the level 1, and Kafka 4.0 only supports versions 0"),
    ],
)  # fmt: skip
def test_feature_level_that_the_kafka_does_not_know_refuses_the_start(
    kafka: str, feature: str, level: int, exception: str, cause: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(log_dir)
    append_metadata(log_dir, [encode_feature_level(feature, level)])
    status, document = told(capsys, log_dir, "--kafka", kafka)
    refusal = {"path": f"{log_dir}/__cluster_metadata-0", "exception": exception, "cause": cause}
    assert (status, document["starts"], document["refusals"]) == (ExitStatus.DAMAGED, False, [refusal])


def test_held_lock_alone_has_its_own_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LogDirLock.acquire(log_dir, FileSystem()):
        status, document = told(capsys, log_dir, "--kafka", "2.8")
    assert status == ExitStatus.LOCKED
    assert document["refusals"][0]["path"].endswith("/.lock")


def test_held_lock_hides_no_damage(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    log = log_dir / "orders-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + b"torn")
    with LogDirLock.acquire(log_dir, FileSystem()):
        assert told(capsys, log_dir, "--kafka", "2.8")[0] == ExitStatus.DAMAGED


def test_batch_that_a_running_broker_is_writing_is_no_damage(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    log = log_dir / "orders-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    log.write_bytes(whole + b"half of a batch")

    def predicted(*args: Any) -> Start:
        found = predict_start(*args)
        log.write_bytes(whole)  # the rest of the batch has come
        return found

    monkeypatch.setattr("cleaner.engine.preflight.preflight.predict_start", predicted)
    with LogDirLock.acquire(log_dir, FileSystem()):
        assert told(capsys, log_dir, "--kafka", "2.8")[0] == ExitStatus.LOCKED


def test_torn_swap_is_told_and_is_damage(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "meta.properties").write_text(PROPERTIES)
    write_metadata(log_dir, orders={})
    log = log_dir / "orders-0" / "00000000000000000000.log"
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes()[:-5])
    status, document = told(capsys, log_dir)
    kinds = [step["kind"] for partition in document["log_dirs"][0]["partitions"] for step in partition["steps"]]
    assert (status, "take-damaged" in kinds) == (ExitStatus.DAMAGED, True)
    assert main(["preflight", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    assert "take a damaged .swap file for a segment" in capsys.readouterr().out


def test_log_of_an_odd_name_is_told_and_is_damage(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "orders-0" / "1.log").touch()
    assert told(capsys, log_dir, "--kafka", "2.8")[0] == ExitStatus.DAMAGED
    assert main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    assert "over the records of the offsets 1 to 2" in " ".join(capsys.readouterr().out.split())


def test_index_interval_of_a_topic_comes_from_the_configuration(
    log_dir: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def predicted(log_dirs: object, node: Node) -> Start:
        assert node.intervals is not None
        seen.append(node.intervals("orders"))
        return predict_start([log_dir], node)

    monkeypatch.setattr("cleaner.engine.preflight.preflight.predict_start", predicted)
    properties = tmp_path_factory.mktemp("etc") / "server.properties"
    properties.write_text(f"log.dirs={log_dir}\nlog.index.interval.bytes=200\n")
    main(["preflight", "--kafka", "2.8", "--server-properties", str(properties)])
    assert seen == [200]


def test_nothing_is_changed(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "lost+found").mkdir()
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in log_dir.rglob("*")}
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    assert (status, document["refusals"][0]["path"]) == (ExitStatus.DAMAGED, f"{log_dir}/lost+found")
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in log_dir.rglob("*")}


@pytest.mark.parametrize(("series", "newest"), [("2.x", "2.8"), ("3.x", "3.9"), ("4.x", "4.4"), ("4.0.1", "4.0")])
def test_series_means_its_newest_version(
    series: str, newest: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, log_dir, "--kafka", series)[1]["kafka"] == newest


@pytest.mark.parametrize("version", ["2.7", "5.0", "four", "4"])
def test_unknown_version_is_wrong_usage(version: str, log_dir: Path) -> None:
    assert main(["preflight", "--log-dir", str(log_dir), "--kafka", version]) == ExitStatus.USAGE


def test_partition_directory_is_no_log_dir(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--log-dir", str(log_dir / "orders-0")]) == ExitStatus.USAGE
    assert "use its parent" in capsys.readouterr().err


def test_disk_that_is_too_full_is_told_first(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    space = LogDir(log_dir).space()
    monkeypatch.setattr(LogDir, "space", lambda _: space._replace(free_bytes=0))
    assert main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "Kafka 2.8 will not start well on these log dirs: a disk is too full."
    assert "the disk is too full: the start needs about" in " ".join(line.strip() for line in others)


def placed(log_dir: Path) -> None:
    """``orders-0`` belongs on node 1 by the cluster metadata."""
    (log_dir / "meta.properties").write_text(PROPERTIES)
    write_metadata(log_dir, orders={})
    topic_id = read_cluster_metadata(metadata_log(log_dir).parent).topic_ids["orders"]
    (log_dir / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    values = [encode_partition(topic_id, 0, 1, "v3qEibE5Br9WpoYilKvjLQ", 0)]
    append_metadata(log_dir, values)


def shown(capsys: pytest.CaptureFixture[str], log_dir: Path) -> str:
    main(["preflight", "--log-dir", str(log_dir)])
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("file", ["leader-epoch-checkpoint", "partition.metadata"])
def test_partition_that_refuses_does_not_begin_empty(
    file: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(log_dir)
    (log_dir / "orders-0" / file).write_text("garbage")
    text = shown(capsys, log_dir)
    assert "will not start" in text
    assert "begin empty" not in text


def test_log_dir_that_is_offline_begins_no_partition(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed(log_dir)
    (log_dir / "recovery-point-offset-checkpoint").write_text("garbage")
    assert "begin empty" not in shown(capsys, log_dir)


def test_without_meta_properties_nobody_knows_what_is_stray(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed(log_dir)
    (log_dir / "meta.properties").unlink()
    text = shown(capsys, log_dir)
    assert "no readable meta.properties" in text
    assert "-stray" not in text
    assert "node -1" not in text


def test_log_dir_whose_id_is_none_is_named_by_its_path(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "meta.properties").write_text(PROPERTIES.replace("EibE5", "Eib+5"))
    write_metadata(log_dir, orders={})
    _, document = told(capsys, log_dir)
    assert [refusal["path"] for refusal in document["refusals"]] == [str(log_dir / "meta.properties"), str(log_dir)]
    text = " ".join(shown(capsys, log_dir).split())
    assert text.count("directory.id 'v3qEib+5Br9WpoYilKvjLQ' is no id of 16 bytes") == 1


def test_partition_that_had_records_and_is_not_here_is_named(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed(log_dir)
    assert told(capsys, log_dir)[0] == ExitStatus.DONE
    shutil.rmtree(log_dir / "orders-0")
    status, document = told(capsys, log_dir)
    (lost,) = document["log_dirs"][0]["lost"]
    assert (status, lost["topic"], lost["end_offset"]) == (ExitStatus.DAMAGED, "orders", 3)
    assert "lost: 1 partition with records in the checkpoints and no directory here: orders-0" in shown(capsys, log_dir)


@pytest.mark.parametrize("suffix", ["stray", "delete"])
def test_only_copy_that_was_set_aside_is_lost(suffix: str, log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed(log_dir)
    name = f"orders-0.{'ab' * 16}-{suffix}"
    (log_dir / "orders-0").rename(log_dir / name)
    status, document = told(capsys, log_dir)
    (lost,) = document["log_dirs"][0]["lost"]
    assert (status, lost["set_aside"], lost["end_offset"]) == (ExitStatus.DAMAGED, name, 3)
    text = shown(capsys, log_dir)
    assert f"{name} to orders-0" in text
    assert "its topic was deleted" not in text


def test_end_below_the_high_watermark_is_told_and_is_damage(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = PartitionDir(log_dir, "clicks-0").segment(0, keyed(0, "a", "b")).segment(2, keyed(2, "c"))
    committed(log_dir, one)
    assert told(capsys, log_dir, "--kafka", "2.8")[0] == ExitStatus.DONE
    for path in one.path.glob("00000000000000000002.*"):
        path.unlink()
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    (missing,) = document["log_dirs"][0]["missing"]
    assert (status, missing["code"], missing["offset"]) == (ExitStatus.DAMAGED, "END_BELOW_WATERMARK", 2)
    main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)])
    text = " ".join(capsys.readouterr().out.split())
    assert "records are missing already, before the start: clicks-0: The log ends at offset 2, below" in text


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda log: log.write_bytes(b""), "OFFSET_GAP"),
        (lambda log: log.unlink(), "OFFSET_GAP"),
        (lambda log: log.write_bytes(log.read_bytes()[:-5]), "TORN_TAIL"),
        (lambda log: log.rename(f"{log}.deleted"), "OFFSET_GAP"),
    ],
    ids=["emptied", "removed", "cut", "the only copy is .deleted"],
)
def test_closed_log_that_lost_records_is_told_and_is_damage(
    damage: Callable[[Path], object], code: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = PartitionDir(log_dir, "clicks-0")
    for base in (0, 2, 4):
        one.segment(base, keyed(base, "a", "b"))
        one.log(base).with_suffix(".index").write_bytes(struct.pack(">ii", 1, 0))
    committed(log_dir, one)
    assert told(capsys, log_dir, "--kafka", "2.8")[0] == ExitStatus.DONE
    damage(one.log(2))
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    assert status == ExitStatus.DAMAGED
    assert code in {missing["code"] for missing in document["log_dirs"][0]["missing"]}


def test_zeros_that_are_cut_are_no_records(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    log = log_dir / "orders-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(4096))
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    (cut,) = [step for step in document["log_dirs"][0]["partitions"][0]["steps"] if step["kind"] == "truncate"]
    assert (status, cut["bytes"], cut["zero_bytes"]) == (ExitStatus.DONE, 4096, 4096)
    log.write_bytes(whole + b"torn" + bytes(4096))
    assert told(capsys, log_dir, "--kafka", "2.8")[0] == ExitStatus.DAMAGED
    main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)])
    text = capsys.readouterr().out
    assert "cut, and lose 4 bytes of records" in text
    assert "cut 4.0 KiB of zeros, which are no records" in text


def test_advice_on_a_torn_tail_is_that_of_the_doctor(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_dir / "orders-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + b"torn")
    main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)])
    text = " ".join(capsys.readouterr().out.split())
    assert RECOVER_TAIL in text
    assert "the start takes offset 3 for the end of the log" in text


def test_partition_behind_a_symlink_is_predicted_as_kafka_follows_it(
    log_dir: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path_factory.mktemp("disk") / "orders-0"
    before = told(capsys, log_dir, "--kafka", "2.8")
    shutil.move(log_dir / "orders-0", elsewhere)
    (log_dir / "orders-0").symlink_to(elsewhere)
    after = told(capsys, log_dir, "--kafka", "2.8")
    assert (after[0], after[1]["log_dirs"][0]["partitions"]) == (before[0], before[1]["log_dirs"][0]["partitions"])


def test_user_is_named_and_files_of_others_get_a_remedy(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown_2() -> str:
        main(["preflight", "--kafka", "2.8", "--log-dir", str(log_dir)])
        return " ".join(capsys.readouterr().out.split())

    if os.geteuid():
        assert f"({os.geteuid()}), who owns a log dir" in shown_2()
        return
    assert "as root, who owns all log dirs" in shown_2()
    os.chown(log_dir, 54321, 54321)
    assert "as user 54321, who owns a log dir" in shown_2()
    assert told(capsys, log_dir, "--kafka", "2.8")[1]["uid"] == 54321
    (log_dir / "orders-0" / "00000000000000000000.log").chmod(0o600)
    assert f"give that user all files of the log dirs: chown -R 54321:54321 {log_dir}" in shown_2()


@pytest.mark.parametrize("command", ["preflight", "doctor"])
def test_a_read_only_file_system_has_one_answer(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with a_small_disk("tmpfs", tmp_path, 24 << 20) as disk:
        log_dir = disk / "data"
        shutil.copytree(demo, log_dir, ignore=shutil.ignore_patterns("[!c_]*-[0-9]"))
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert main([command, "--log-dir", str(log_dir)]) == 4
        assert "its file system is read-only" in " ".join(capsys.readouterr().out.split())


def test_a_directory_that_goes_has_one_size(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "old-0.0123456789abcdef0123456789abcdef-delete"
    directory = log_dir / name
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(bytes(range(256)) * 64)
    with (directory / f"{0:020d}.index").open("wb") as file:
        file.truncate(10 << 20)
    taken = sum(path.lstat().st_blocks * 512 for path in (directory, *directory.iterdir()))
    main(["preflight", "--json", "--log-dir", str(log_dir)])
    (log_dir_start,) = json.loads(capsys.readouterr().out)["log_dirs"]
    (log,) = [log for log in log_dir_start["partitions"] if log["directory"] == name]
    main(["doctor", "--sweep", name, "-n", "--json", "--log-dir", str(log_dir)])
    (leftover,) = json.loads(capsys.readouterr().out)["leftovers"]
    main(["doctor", "--json", "--log-dir", str(log_dir)])
    (found,) = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["path"].endswith(name)]
    assert [step["bytes"] for step in log["steps"]] == [taken]
    assert leftover["bytes"] == taken
    assert size(taken) in found["text"]
