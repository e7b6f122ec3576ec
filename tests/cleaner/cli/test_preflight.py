"""``preflight`` on small log dirs; that its predictions come true is for tests/interop/test_preflight.py to show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from tests.metadata_dirs import write_metadata
from tests.partition_dirs import PartitionDir, committed, keyed

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
    assert "no consumer" in capsys.readouterr().out


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
    assert (partition["directory"], partition["fate"]) == ("orders-0", "stray")
    assert main(["preflight", "--log-dir", str(log_dir)]) == ExitStatus.DONE
    assert "set aside as -stray" in capsys.readouterr().out


def test_held_lock_alone_has_its_own_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LogDirLock.acquire(log_dir, FileSystem()):
        status, document = told(capsys, log_dir, "--kafka", "2.8")
    assert status == ExitStatus.LOCKED
    assert document["refusals"][0]["path"].endswith("/.lock")


def test_nothing_is_changed(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "lost+found").mkdir()
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in log_dir.rglob("*")}
    status, document = told(capsys, log_dir, "--kafka", "2.8")
    assert (status, document["refusals"][0]["path"]) == (ExitStatus.DAMAGED, f"{log_dir}/lost+found")
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in log_dir.rglob("*")}


@pytest.mark.parametrize("version", ["2.7", "5.0", "four", "4"])
def test_unknown_version_is_wrong_usage(version: str, log_dir: Path) -> None:
    assert main(["preflight", "--log-dir", str(log_dir), "--kafka", version]) == ExitStatus.USAGE


def test_partition_directory_is_no_log_dir(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--log-dir", str(log_dir / "orders-0")]) == ExitStatus.USAGE
    assert "use its parent" in capsys.readouterr().err
