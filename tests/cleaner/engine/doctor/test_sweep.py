"""``doctor --sweep`` takes the named leftovers by its rules, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from storage.checkpoints import format_offset_checkpoint
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import HOLDS_FILE, TopicPartition
from tests.cleaner.cli.conftest import on_a_terminal
from tests.cleaner.engine.doctor.made import Healthy

UNIQUE = "ab" * 16
STRAY, DELETE = f"old-0.{UNIQUE}-stray", f"old-0.{UNIQUE}-delete"
WAITING = f"clicks-0/{0:020d}.log.deleted"
LATER_MS = 10 * 60_000


@pytest.fixture
def healthy(tmp_path: Path) -> Healthy:
    """A log dir with a leftover of each kind, and a file that is no leftover."""
    made = Healthy(tmp_path / "data")
    (made.log_dir / WAITING).write_bytes(bytes(5000))
    (made.log_dir / f"clicks-0/{0:020d}.log.swap").write_bytes(b"1")
    (made.log_dir / f"clicks-0/{0:020d}.log.cleaned").write_bytes(b"1")
    shutil.copytree(made.log_dir / "orders-0", made.log_dir / STRAY)
    for path in made.log_dir.rglob("*"):
        os.utime(path)  # the clock guard compares them with the clock
    return made


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the clock be ahead by ten minutes from now on: longer than any delay."""
    from cleaner.engine.clock import SystemClock

    now_ms = SystemClock.now_ms
    return lambda: monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) + LATER_MS)


def sweep(capsys: pytest.CaptureFixture[str], log_dir: Path, *names: str) -> tuple[int, list[Any], str]:
    """The exit status, what became of each name, and stderr."""
    status = main(["doctor", "--log-dir", str(log_dir), "--json", "--sweep", *names])
    printed = capsys.readouterr()
    return status, json.loads(printed.out)["leftovers"] if printed.out else [], printed.err


def untouched(log_dir: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and not path.name.startswith(".l")
    }


def test_deleted_file_goes_once_its_delay_is_over(healthy: Healthy, capsys, later) -> None:
    status, (left,), _ = sweep(capsys, healthy.log_dir, WAITING, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert "its delay (file.delete.delay.ms) ends at" in left["text"]
    later()
    before = untouched(healthy.log_dir)
    status, (gone,), _ = sweep(capsys, healthy.log_dir, WAITING, "--yes")
    assert (status, gone["act"], gone["done"]) == (0, "unlink", True)
    assert untouched(healthy.log_dir) == {name: data for name, data in before.items() if name != WAITING}


def test_file_that_a_repair_replaced_is_a_deleted_file(healthy: Healthy, capsys, later) -> None:
    name = "clicks-0/leader-epoch-checkpoint.deleted"
    (healthy.log_dir / name).write_bytes(b"of an earlier run")
    assert sweep(capsys, healthy.log_dir, name, "--yes")[0] == 1, "its delay runs"
    later()
    status, (gone,), _ = sweep(capsys, healthy.log_dir, name, "--yes")
    assert (status, gone["act"], (healthy.log_dir / name).exists()) == (0, "unlink", False)


def test_hold_keeps_a_deleted_file(healthy: Healthy, capsys, later) -> None:
    later()
    (healthy.log_dir / HOLDS_FILE).write_bytes(format_offset_checkpoint({TopicPartition("clicks", 0): 1}))
    status, (left,), _ = sweep(capsys, healthy.log_dir, WAITING, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert "on hold after a restore" in left["text"]


@pytest.mark.parametrize(
    ("name", "because"),
    [
        (f"clicks-0/{0:020d}.log.swap", "by recovery only"),
        (f"clicks-0/{0:020d}.log.cleaned", "by recovery only"),
        (f"clicks-0/{0:020d}.log", "is no leftover"),
        ("clicks-0", "is no leftover"),
        ("meta.properties", "is no leftover"),
        ("__cluster_metadata-0", "is no leftover"),
        (f"{STRAY}/{0:020d}.log", "is no leftover"),
        (f"clicks-0/../{STRAY}/partition.metadata", "is no leftover"),
        (f"{STRAY}/of/another", "is no leftover"),
    ],
)
def test_what_is_no_leftover_stays(healthy: Healthy, capsys, later, name: str, because: str) -> None:
    later()
    (healthy.log_dir / STRAY / "of" / "another").mkdir(parents=True)
    before = untouched(healthy.log_dir)
    status, (left,), _ = sweep(capsys, healthy.log_dir, name, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert because in left["text"]
    assert untouched(healthy.log_dir) == before


def test_stray_directory_is_renamed_first_and_goes_after_the_delay(healthy: Healthy, capsys, later) -> None:
    files = {path.name: path.read_bytes() for path in (healthy.log_dir / STRAY).iterdir()}
    status, (renamed,), _ = sweep(capsys, healthy.log_dir, STRAY, "--yes")
    assert (status, renamed["act"], renamed["renamed_to"]) == (0, "rename", DELETE)
    assert {path.name: path.read_bytes() for path in (healthy.log_dir / DELETE).iterdir()} == files
    status, (waits,), _ = sweep(capsys, healthy.log_dir, DELETE, "--yes")
    assert (status, waits["act"]) == (1, "leave")
    later()
    status, (gone,), _ = sweep(capsys, healthy.log_dir, DELETE, "--yes")
    assert (status, gone["act"], gone["done"]) == (0, "unlink", True)
    assert not (healthy.log_dir / DELETE).exists()
    assert main(["history", "--log-dir", str(healthy.log_dir)]) == 0
    told = capsys.readouterr().out
    assert f"renamed to {DELETE}" in " ".join(told.split())
    assert f"{DELETE} unlinked" in " ".join(told.split())


def test_stray_directory_whose_new_name_is_taken_stays(healthy: Healthy, capsys) -> None:
    (healthy.log_dir / DELETE).mkdir()
    status, (left,), _ = sweep(capsys, healthy.log_dir, STRAY, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert (healthy.log_dir / STRAY).is_dir()


def test_directory_with_a_foreign_directory_stays(healthy: Healthy, capsys) -> None:
    (healthy.log_dir / STRAY / "mine").mkdir()
    status, (left,), _ = sweep(capsys, healthy.log_dir, STRAY, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert "holds a directory, mine" in left["text"]


def test_symlink_in_the_place_of_a_directory_stays(healthy: Healthy, capsys, later, tmp_path: Path) -> None:
    later()
    shutil.copytree(healthy.log_dir / "orders-0", tmp_path / "elsewhere")
    (healthy.log_dir / DELETE).symlink_to(tmp_path / "elsewhere")
    status, (left,), _ = sweep(capsys, healthy.log_dir, DELETE, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert any((tmp_path / "elsewhere").iterdir())


def test_nothing_is_done_without_a_yes(healthy: Healthy, capsys, monkeypatch) -> None:
    status, _, told = sweep(capsys, healthy.log_dir, STRAY)
    assert status == 5
    assert "add --yes if you mean it" in told
    assert (healthy.log_dir / STRAY).is_dir()
    on_a_terminal(monkeypatch, "no\n")
    assert sweep(capsys, healthy.log_dir, STRAY)[0] == 5
    assert (healthy.log_dir / STRAY).is_dir()


def test_dry_run_only_tells(healthy: Healthy, capsys) -> None:
    before = untouched(healthy.log_dir)
    status, (told,), _ = sweep(capsys, healthy.log_dir, STRAY, "--dry-run")
    assert (status, told["act"], told["done"]) == (0, "rename", False)
    assert untouched(healthy.log_dir) == before
    assert not (healthy.log_dir / ".logcleaner-journal").exists()


def test_log_dir_that_a_broker_holds_is_left_alone(healthy: Healthy, capsys, monkeypatch) -> None:
    monkeypatch.setattr("cleaner.cli.waiting.WAIT_SECONDS", 0.0)
    with LogDir(healthy.log_dir).lock(FileSystem()):
        status, _, _ = sweep(capsys, healthy.log_dir, STRAY, "--yes")
    assert status == 3
    assert (healthy.log_dir / STRAY).is_dir()


def test_clock_that_cannot_be_believed_ends_no_delay(healthy: Healthy, capsys, monkeypatch) -> None:
    for path in healthy.log_dir.rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: 4_000_000_000_000)
    status, (left,), _ = sweep(capsys, healthy.log_dir, WAITING, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert "by this clock no delay counts" in left["text"]


def test_name_that_is_nowhere_is_wrong_usage(healthy: Healthy, capsys) -> None:
    status, _, told = sweep(capsys, healthy.log_dir, "nowhere-0", "--yes")
    assert status == 2
    assert "is in none of the log dirs" in told


def test_whole_path_names_a_leftover_too(healthy: Healthy, capsys) -> None:
    status, (renamed,), _ = sweep(capsys, healthy.log_dir, str(healthy.log_dir / STRAY), "--yes")
    assert (status, renamed["name"], renamed["done"]) == (0, STRAY, True)


@pytest.mark.parametrize("option", ["--yes", "--dry-run", "--force-lock"])
def test_options_of_a_sweep_need_one(healthy: Healthy, capsys, option: str) -> None:
    assert main(["doctor", "--log-dir", str(healthy.log_dir), option]) == 2
    assert f"{option}: goes with --sweep" in capsys.readouterr().err


def test_report_says_what_became_of_each(healthy: Healthy, capsys) -> None:
    assert main(["doctor", "--log-dir", str(healthy.log_dir), "--yes", "--sweep", STRAY, WAITING]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert f"{STRAY}: is renamed to {DELETE}" in told
    assert f"{WAITING}: left as it is: its delay" in told
    assert "1 directory renamed" in told


@pytest.mark.parametrize("known_by", ["checkpoints", "metadata"])
@pytest.mark.parametrize("suffix", ["stray", "delete"])
def test_only_copy_of_a_partition_that_belongs_here_stays(
    healthy: Healthy, capsys, later, suffix: str, known_by: str
) -> None:
    name = f"clicks-0.{UNIQUE}-{suffix}"
    (healthy.log_dir / "clicks-0").rename(healthy.log_dir / name)
    if known_by == "metadata":
        healthy.stopped()
    else:
        shutil.rmtree(healthy.log_dir / "__cluster_metadata-0")
    later()
    before = untouched(healthy.log_dir)
    status, (left,), _ = sweep(capsys, healthy.log_dir, name, "--yes")
    assert (status, left["act"]) == (1, "leave")
    assert "may be the only copy of clicks-0, offsets 0 to 5" in left["text"]
    assert "rename the directory to clicks-0" in left["text"]
    assert untouched(healthy.log_dir) == before


def test_leftover_of_a_partition_that_another_log_dir_has_may_go(healthy: Healthy, tmp_path: Path, capsys) -> None:
    """A move between log dirs ends so."""
    name, other = f"clicks-0.{UNIQUE}-stray", tmp_path / "other"
    other.mkdir()
    shutil.copytree(healthy.log_dir / "clicks-0", other / "clicks-0")
    (healthy.log_dir / "clicks-0").rename(healthy.log_dir / name)
    names = [str(healthy.log_dir), str(other)]
    assert main(["doctor", "--log-dir", *names, "--sweep", name, "-n"]) == 0
    assert main(["doctor", "--log-dir", *names[:1], "--sweep", name, "-n"]) == 1
    capsys.readouterr()
