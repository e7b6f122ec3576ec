"""What a message advises: the remedy for its cause, and none that destroys."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.names import HIGH_WATERMARK_CHECKPOINT
from tests.ordinary import run_as_ordinary_user
from tests.partition_dirs import PartitionDir, committed, keyed


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A log dir without cluster metadata."""
    made = PartitionDir(tmp_path / "data", "clicks-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"))
    return committed(tmp_path / "data", made)


@pytest.mark.parametrize("command", [("clean",), ("clean", "--dry-run"), ("free", "--target", "100%")], ids=" ".join)
def test_an_unknown_topic_is_advised_to_find_the_metadata_and_never_a_policy_for_all(command, unknown, capsys) -> None:
    assert main([*command, "--log-dir", str(unknown)]) == ExitStatus.REFUSED
    told = capsys.readouterr().err
    assert "--set cleanup.policy" not in told
    assert '[topics."clicks"]' in told
    assert re.search(r"metadata\.log\.dir.*\[topics", told)


def test_free_names_the_limits_that_nobody_stated(log_dir: Path, capsys) -> None:
    assert main(["free", "--dry-run", "--target", "100%", "--log-dir", str(log_dir), "--topic", "clicks"]) == 1
    told = capsys.readouterr().err
    assert "lower a retention" in told
    only_delete = ("--set", "cleanup.policy=delete")
    made = PartitionDir(log_dir.parent / "other", "clicks-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"))
    committed(log_dir.parent / "other", made)
    assert (
        main(["free", "--dry-run", "--target", "100%", "--log-dir", str(log_dir.parent / "other"), *only_delete]) == 1
    )
    told = capsys.readouterr().err
    unlimited = "nobody stated a limit for 1 partition with cleanup.policy=delete (NO_LIMIT: clicks-0)"
    assert f"{unlimited}; name the broker's --server-properties FILE" in told
    assert "--kafka-defaults" in told


@pytest.mark.parametrize("stated", ["retention.ms=-1", "retention.bytes=-1"])
def test_a_limit_that_somebody_lifted_is_none_that_nobody_stated(tmp_path: Path, capsys, stated: str) -> None:
    made = PartitionDir(tmp_path / "data", "clicks-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"))
    committed(tmp_path / "data", made)
    options = ("--set", "cleanup.policy=delete", "--set", stated)
    assert main(["free", "--dry-run", "--target", "100%", "--log-dir", str(tmp_path / "data"), *options]) == 1
    told = capsys.readouterr().err
    assert "policy allows no more; lower a retention" in told
    assert "nobody stated" not in told


def test_partitions_without_a_limit_are_named_so_that_compacted_ones_are_not_taken_for_them(tmp_path, capsys) -> None:
    names = ("state-0", *(f"plain-{partition}" for partition in range(5)))
    log_dir, config = tmp_path / "data", tmp_path / "logcleaner.toml"
    made = [PartitionDir(log_dir, name).segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2")) for name in names]
    committed(log_dir, *made)
    config.write_text('[topics.plain]\ncleanup.policy = "delete"\n[topics.state]\ncleanup.policy = "compact"\n')
    assert main(["free", "-n", "--target", "100%", "--log-dir", str(log_dir), "--config", str(config)]) == 1
    said, told = capsys.readouterr()
    assert re.search(r"^state.* compact .*NO_LIMIT$", said, re.MULTILINE)
    first = "plain-0, plain-1, plain-2, ..."
    assert f"nobody stated a limit for 5 partitions with cleanup.policy=delete (NO_LIMIT: {first})" in told


def test_a_missing_high_watermark_is_told_with_its_remedy(log_dir: Path, capsys) -> None:
    (log_dir / HIGH_WATERMARK_CHECKPOINT).unlink()
    assert main(["clean", "--log-dir", str(log_dir)]) == ExitStatus.DONE
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "NO_HIGH_WATERMARK" in line]
    assert "--assume-committed" in line
    options = ("--target", "100%", "--kafka-defaults")
    assert main(["free", "--dry-run", "--log-dir", str(log_dir), *options]) == ExitStatus.FAILED
    assert "(NO_HIGH_WATERMARK); start the broker and stop it" in capsys.readouterr().err


def test_a_target_beyond_the_disk_says_how_large_the_disk_is(log_dir: Path, capsys) -> None:
    assert main(["free", "--dry-run", "--target", "100000TiB", "--log-dir", str(log_dir)]) == ExitStatus.FAILED
    assert re.search(r"the file system has .* in all; ask for less", capsys.readouterr().err)


def test_a_lock_without_a_pid_names_the_service(log_dir: Path, capsys) -> None:
    with LogDirLock.acquire(log_dir, FileSystem()):
        assert main(["clean", "--log-dir", str(log_dir)]) == ExitStatus.LOCKED
    assert "systemctl stop logcleaner" in capsys.readouterr().err


def test_a_lock_file_that_this_user_cannot_make_names_the_owner(log_dir: Path) -> None:
    (log_dir / ".lock").unlink(missing_ok=True)  # another test may have left one in the demo
    log_dir.chmod(0o555)
    told = run_as_ordinary_user("clean", "--log-dir", log_dir).stderr
    log_dir.chmod(0o755)
    assert f"{log_dir}/.lock: cannot be made or written: {log_dir} belongs to uid 0" in told
    assert "kafka-user.conf" in told


def test_server_properties_in_place_of_the_configuration_file_are_told_apart(tmp_path: Path, capsys) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=1\nlog.dirs=/x\n")
    assert main(["topics", "--config", str(path)]) == ExitStatus.USAGE
    assert "--server-properties FILE" in capsys.readouterr().err


def test_a_forgotten_table_is_suggested(tmp_path: Path, capsys) -> None:
    path = tmp_path / "logcleaner.toml"
    path.write_text('retention.ms = "7d"\n')
    assert main(["topics", "--config", str(path)]) == ExitStatus.USAGE
    assert "[defaults]" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "lists_it"), [("clean", False), ("free", False), ("diff", True)])
def test_only_diff_lists_the_exit_status_of_damage(command: str, lists_it: bool, capsys) -> None:
    assert main([command, "--help"]) == 0
    assert bool(re.search(r"^  4 ", capsys.readouterr().out, re.MULTILINE)) is lists_it
