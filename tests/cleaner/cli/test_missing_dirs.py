"""A log dir that is not mounted (yet): a status of its own, and the others are seen to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner.cli.main import main
from tests.partition_dirs import DAY_MS, PartitionDir, committed, keyed

ROOT = Path(__file__).parents[3]
AS_OTHER_USER = """
import os, sys
from cleaner.cli.main import main
own, *arguments = sys.argv[1:]
at = arguments.index("--log-dir") + 1
main([*arguments[:at], own, *arguments[at + 1 :]])  # load everything, while it can be read
print("AS OTHER USER", file=sys.stderr)
os.setgroups([]); os.setgid(4711); os.setuid(4711)
sys.exit(main(arguments))
"""


def a_log_dir(path: Path, number: int = 0) -> Path:
    """One partition that loses its first segment."""
    orders = PartitionDir(path, f"orders-{number}")
    for base, age_days in ((0, 30), (2, 0)):
        orders.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=time.time_ns() // 1_000_000 - age_days * DAY_MS))
    return committed(path, orders)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return a_log_dir(tmp_path / "there")


@pytest.fixture(params=["missing", "empty", "lost+found"])
def gone(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Missing; a mount point without its file system; a file system that no broker wrote to yet."""
    path = tmp_path / "gone"
    if request.param != "missing":
        path.mkdir()
    if request.param == "lost+found":
        (path / "lost+found").mkdir()
    return path


POLICY = ("--set", "cleanup.policy=delete", "--set", "retention.ms=7d", "--set", "clock.jump.max=100000d")
EXPIRED = f"{0:020d}.log"


def configured(place: Path, *log_dirs: Path, more: str = "") -> str:
    """A configuration file."""
    config = place / "logcleaner.toml"
    dirs = ", ".join(f'"{path}"' for path in log_dirs)
    textfile = f'[metrics]\ntextfile = "{place / "logcleaner.prom"}"\n'
    config.write_text(f"log.dirs = [{dirs}]\n{more}{textfile}")
    return str(config)


def cleaned(
    place: Path, *log_dirs: Path, command: tuple[str, ...] = ("clean", "--delete-delay", "0"), more: str = ""
) -> int:
    return main([*command, "--config", configured(place, *log_dirs, more=more), *POLICY])


NO_METADATA = "cluster.metadata = false\n"
COMMANDS = (
    ("clean",), ("clean", "--dry-run"), ("free", "--target", "1MiB"), ("topics",), ("run", "--once"), ("run",)
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_log_dir_that_is_not_there_yet_has_its_own_status(
    tmp_path: Path, gone: Path, command: tuple[str, ...], capsys
) -> None:
    assert cleaned(tmp_path, gone, command=command) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert str(gone) in line
    assert "mount" in line


def test_a_log_dir_that_can_never_be_one_is_wrong_usage(tmp_path: Path, capsys) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpeg").touch()
    for path in (tmp_path / "photos", tmp_path / "photos/cat.jpeg"):
        assert cleaned(tmp_path, path) == 2


def test_the_others_are_cleaned_and_the_status_says_that_one_failed(
    there: Path, gone: Path, tmp_path: Path, capsys
) -> None:
    assert cleaned(tmp_path, gone, there, more=NO_METADATA) == 1
    assert not (there / "orders-0" / EXPIRED).exists()
    assert capsys.readouterr().err.count(str(gone)) == 1
    metrics = (tmp_path / "logcleaner.prom").read_text()
    assert f'logcleaner_log_dir_failed{{log_dir="{gone}"}} 1.0\n' in metrics
    assert f'logcleaner_log_dir_failed{{log_dir="{there}"}} 0.0\n' in metrics
    assert 'logcleaner_runs_total{result="failed"} 1.0\n' in metrics
    assert "logcleaner_last_success" not in metrics


def test_json_says_why_the_exit_status_is_1(there: Path, gone: Path, tmp_path: Path, capsys) -> None:
    assert cleaned(tmp_path, gone, there, command=("clean", "--json"), more=NO_METADATA) == 1
    told = json.loads(capsys.readouterr().out)
    (error,) = told["errors"]
    assert error.startswith(f"{gone}: ")
    assert told["totals"]["failed"] == 0


@pytest.mark.parametrize(
    "command", [("clean", "--dry-run"), ("free", "--target", "1MiB"), ("topics",), ("run", "--once")]
)
def test_other_commands_go_on_too(tmp_path: Path, there: Path, gone: Path, command: tuple[str, ...], capsys) -> None:
    assert cleaned(tmp_path, gone, there, command=command, more=NO_METADATA) == 1
    assert capsys.readouterr().err.count(str(gone)) >= 1


@pytest.mark.parametrize("command", [("history",), ("restore",)])
def test_what_was_done_in_the_others_can_be_looked_at_and_taken_back(
    tmp_path: Path, there: Path, gone: Path, command: tuple[str, ...], capsys
) -> None:
    cleaned(tmp_path, there, command=("clean",))
    capsys.readouterr()
    assert main([*command, "--config", configured(tmp_path, gone, there)]) == 0
    told = capsys.readouterr()
    assert "orders-0" in told.out
    assert str(gone) in told.err


@pytest.mark.parametrize("command", [("clean",), ("run", "--once"), ("run",)])
def test_where_the_cluster_metadata_may_lie_in_it_nothing_is_touched(
    tmp_path: Path, there: Path, gone: Path, command: tuple[str, ...], capsys
) -> None:
    assert cleaned(tmp_path, gone, there, command=command) == 6
    assert (there / "orders-0" / EXPIRED).exists()
    assert "cluster.metadata = false" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("clean",), ("run", "--once")])
def test_a_metadata_log_dir_that_is_not_there_yet_is_no_wrong_configuration(
    tmp_path: Path, there: Path, gone: Path, command: tuple[str, ...]
) -> None:
    assert cleaned(tmp_path, there, command=command, more=f'metadata.log.dir = "{gone}"\n') == 6
    assert (there / "orders-0" / EXPIRED).exists()


def test_metadata_in_a_log_dir_that_is_there_is_enough(tmp_path: Path, gone: Path, demo: Path) -> None:
    log_dir = shutil.copytree(demo, tmp_path / "demo")
    before = {path.name for path in log_dir.rglob("*.log")}
    assert (log_dir / "__cluster_metadata-0").is_dir()
    assert cleaned(tmp_path, gone, log_dir) == 1
    assert {path.name for path in log_dir.rglob("*.log")} < before


@pytest.mark.parametrize("command", [("clean", "--dry-run"), ("run", "--once"), ("history",), ("restore",)])
def test_what_the_command_line_names_must_all_be_there(there: Path, command: tuple[str, ...], capsys) -> None:
    slip = there.parent / "slip"
    policy = POLICY if command[0] in ("clean", "run") else ()
    assert main([*command, "--log-dir", str(there), str(slip), *policy]) == 6
    assert str(slip) in capsys.readouterr().err
    assert (there / "orders-0" / EXPIRED).exists()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: needs root to be another user")


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter; pytest shuts its own ones."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place).resolve()


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
@pytest.mark.parametrize("command", ["clean", "run"])
def test_another_user_is_told_the_drop_in(public: Path, mode: int, command: str) -> None:
    brokers = a_log_dir(public / "brokers")
    brokers.chmod(mode)
    arguments = ["--log-dir", str(brokers), *POLICY, *(["--once"] if command == "run" else [])]
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER_USER, str(a_log_dir(public / "own")), command, *arguments],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 1
    told = done.stderr.partition("AS OTHER USER")[2]
    assert "kafka-user.conf" in told
    assert f"{brokers}: belongs to uid 0" in told


@needs_root
def test_a_dry_run_of_another_user_says_that_the_run_would_be_refused(public: Path) -> None:
    brokers = a_log_dir(public / "brokers")
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER_USER, str(a_log_dir(public / "own")), "clean", "--dry-run", "--log-dir",
         str(brokers), *POLICY],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    told = done.stderr.partition("AS OTHER USER")[2]
    assert f"a run without --dry-run would be refused: {brokers}: belongs to uid 0" in told


@needs_root
@pytest.mark.parametrize("command", ["clean", "run", "topics", "preflight"])
def test_another_user_is_told_the_drop_in_where_the_directory_above_is_shut(public: Path, command: str) -> None:
    (public / "kafka").mkdir(0o700)
    brokers = a_log_dir(public / "kafka" / "data")
    arguments = ["--log-dir", str(brokers), *(POLICY if command in ("clean", "run") else ())]
    arguments += ["--once"] if command == "run" else []
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER_USER, str(a_log_dir(public / "own")), command, *arguments],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 1
    told = done.stderr.partition("AS OTHER USER")[2]
    assert "kafka-user.conf" in told
    assert f"{brokers}: {public / 'kafka'} belongs to uid 0" in told


def test_where_none_of_several_is_there_all_are_named(tmp_path: Path, capsys) -> None:
    options = [part for name in ("a", "b") for part in ("--log-dir", str(tmp_path / name))]
    assert main(["clean", *options]) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "a") in line
    assert str(tmp_path / "b") in line
