"""Files that may not be read, or not be changed: their partition alone fails, once, and no file of it is touched."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner.cli.main import main
from tests.ordinary import run_as_ordinary_user

DELAYS = [(), ("--delete-delay", "0")]


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Iterator[Path]:
    path = shutil.copytree(demo, tmp_path / "data")
    yield path
    subprocess.run(["chattr", "-R", "-i", "-a", path], check=False, capture_output=True)


def second_log(log_dir: Path, partition: str) -> Path:
    return sorted((log_dir / partition).glob("*.log"))[1]


def chattr(flag: str, path: Path) -> None:
    done = subprocess.run(["chattr", flag, path], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT RUN: chattr needs root, and a file system that knows it: {done.stderr}")


def files_of(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_ino for path in directory.rglob("*")}


def failed_in(stderr: str) -> list[str]:
    return sorted(re.findall(r"partition_failed topic=(\S+ partition=\d+)", stderr))


@pytest.mark.parametrize("delay", DELAYS)
def test_unreadable_logs_fail_their_partitions_alike_in_run_and_dry_run(delay, log_dir: Path) -> None:
    """One that is compacted, one that is shortened, one that both befalls."""
    partitions = ("clicks-0", "orders-0", "sessions-0")
    for partition in partitions:
        second_log(log_dir, partition).chmod(0)
    before = {partition: files_of(log_dir / partition) for partition in partitions}
    all_before = files_of(log_dir)
    for dry in (("--dry-run",), ("--dry-run", "--exact"), ()):
        assert files_of(log_dir) == all_before
        done = run_as_ordinary_user("clean", "--log-dir", log_dir, *delay, *dry)
        assert done.returncode == 1
        assert failed_in(done.stderr) == [partition.replace("-", " partition=") for partition in partitions]
        assert all(re.search(rf"FAILED:\s+{log_dir}/{partition}/", done.stdout) for partition in partitions)
        assert {partition: files_of(log_dir / partition) for partition in partitions} == before
    assert files_of(log_dir) != all_before, "the others are cleaned"
    assert not list(log_dir.rglob("*.swap")) + list(log_dir.rglob("*.cleaned"))


@pytest.mark.parametrize("flag", ["+i", "+a"])
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_immutable_files_fail_their_partitions_alike_in_run_and_dry_run(
    suffix: str, delay, flag: str, log_dir: Path, capsys
) -> None:
    """One that is compacted, and one that is shortened."""
    files = {name: second_log(log_dir, name).with_suffix(suffix) for name in ("clicks-0", "orders-0")}
    for file in files.values():
        chattr(flag, file)
    before = {name: files_of(log_dir / name) for name in files}
    for dry in (("--dry-run",), (), ()):
        assert main(["clean", "--log-dir", str(log_dir), *delay, *dry]) == 1
        told = sorted(capsys.readouterr().err.splitlines())
        for line, (name, file) in zip(told, files.items(), strict=True):
            assert f"{file}: is immutable or append-only (lsattr shows it); take that off with chattr -i -a" in line
            assert files_of(log_dir / name) == before[name]
    for file in files.values():
        chattr(flag.replace("+", "-"), file)
    assert main(["clean", "--log-dir", str(log_dir), *delay]) == 0
    assert all(files_of(log_dir / name) != before[name] for name in files)


def test_immutable_directory_fails_its_partition(log_dir: Path, capsys) -> None:
    chattr("+i", log_dir / "orders-0")
    for dry in (("--dry-run",), ()):
        assert main(["clean", "--log-dir", str(log_dir), "--json", *dry]) == 1
        told = json.loads(capsys.readouterr().out)
        errors = {f"{p['topic']}-{p['partition']}": p["error"] for p in told["partitions"] if p["error"]}
        assert list(errors) == ["orders-0"]
        assert errors["orders-0"].startswith(f"{log_dir}/orders-0: is immutable")


def test_immutable_log_dir_in_which_no_lock_can_be_made_is_told_as_one(log_dir: Path, capsys) -> None:
    (log_dir / ".lock").unlink(missing_ok=True)
    chattr("+i", log_dir)
    assert main(["clean", "--log-dir", str(log_dir)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{log_dir}: is immutable or append-only (lsattr shows it); take that off with chattr -i -a" in line


def test_dry_run_leaves_a_failing_partition_out_of_its_figures_as_the_run_does(log_dir: Path, capsys) -> None:
    chattr("+i", second_log(log_dir, "clicks-0"))
    results = []
    for dry in (("--dry-run",), ()):
        assert main(["clean", "--log-dir", str(log_dir), "--only", "retention", "--json", *dry]) == 1
        told = json.loads(capsys.readouterr().out)
        results.append([(p["result"] or {}).get("deleted_bytes") for p in told["partitions"]])
    assert results[0] == results[1]
    assert any(results[0])


def test_immutable_file_that_waits_as_deleted_is_one_failure_with_its_path(log_dir: Path, capsys) -> None:
    assert main(["clean", "--log-dir", str(log_dir), "--only", "retention"]) == 0
    waiting = sorted(log_dir.rglob("*.deleted"))[0]
    chattr("+i", waiting)
    capsys.readouterr()
    assert main(["clean", "--log-dir", str(log_dir), "--only", "retention", "--delete-delay", "0"]) == 1
    told = capsys.readouterr()
    assert told.err.count(str(waiting)) == 1
    assert "Nothing to do" not in told.out
    assert waiting.exists()


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "cleaner-offset-checkpoint", ".logcleaner-journal"])
@pytest.mark.parametrize("command", [("clean",), ("clean", "--dry-run"), ("free", "--target", "100%")])
def test_log_dir_that_fails_is_told_once_and_never_as_nothing_to_do(command, name, log_dir: Path) -> None:
    (log_dir / name).unlink(missing_ok=True)
    (log_dir / name).mkdir()
    done = run_as_ordinary_user(*command, "--log-dir", log_dir)
    assert done.returncode == 1
    failures = [line for line in done.stderr.splitlines() if name in line]
    assert len(failures) == 1
    assert "Nothing to do" not in done.stdout


def test_unreadable_partition_directory_is_told_once(log_dir: Path) -> None:
    (log_dir / "empty-0").chmod(0)
    for dry in (("--dry-run",), ()):
        done = run_as_ordinary_user("clean", "--log-dir", log_dir, *dry)
        assert done.returncode == 1
        assert failed_in(done.stderr) == ["empty partition=0"]
        assert len(done.stderr.splitlines()) == 1
    (log_dir / "empty-0").chmod(0o755)
