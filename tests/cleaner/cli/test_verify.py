"""``verify`` on small log dirs: what it prints, what it refuses, how it is interrupted and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.machine.library import KernelsUnusable
from tests.cleaner.cli.test_main import ROOT
from tests.metadata_dirs import write_metadata
from tests.partition_dirs import PartitionDir, committed, keyed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("CACHE_DIRECTORY", str(path))
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two healthy partitions."""
    path = tmp_path / "data"
    for name in ("orders-0", "clicks-0"):
        made = PartitionDir(path, name).segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "c=1"))
        (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        committed(path, made)
    (path / ".kafka_cleanshutdown").touch()
    return path


def damage(log_dir: Path, name: str = "orders-0") -> Path:
    path = log_dir / name / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    return path


def test_a_healthy_log_dir_is_told_in_a_line(log_dir, capsys):
    assert main(["verify", str(log_dir)]) == ExitStatus.DONE
    told = capsys.readouterr()
    assert told.out.startswith("2 partitions, 4 segments, ")
    assert told.out.endswith(": nothing is wrong\n")
    assert (told.out.count("\n"), told.err) == (1, "")


def test_damage_gives_status_4_with_place_harm_and_remedy_at_80_columns(log_dir, capsys):
    path = damage(log_dir)
    assert main(["verify", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Records are lost, or will be: 1 finding"
    assert "BATCH_CORRUPT" in lines[1]
    assert any(str(path) in line for line in lines[1:3])
    assert any("the checksum of the batch of offset 0" in line.lower() for line in lines)
    assert any("another replica" in line for line in lines)
    assert lines[-1].endswith("1 finding")
    assert [line for line in lines if len(line) > 80 and str(path) not in line] == []


def test_document_for_machines(log_dir, capsys):
    path = damage(log_dir)
    assert main(["verify", str(log_dir), "--json"]) == ExitStatus.DAMAGED
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["damaged"], told["totals"]["partitions"]) == ("logcleaner.verify/1", True, 2)
    (found,) = told["findings"]
    assert (found["code"], found["harm"], found["path"], found["position"], found["offset"], found["repair"]) == (
        "BATCH_CORRUPT", "data_lost", str(path), 0, 0, None,
    )  # fmt: skip


def test_a_note_is_no_damage(log_dir, capsys):
    (log_dir / "notes.txt").touch()
    assert main(["verify", str(log_dir)]) == ExitStatus.DONE
    told = capsys.readouterr().out
    assert told.startswith("This is unusual: 1 finding\n")
    assert told.endswith("1 finding, no damage\n")


@pytest.mark.parametrize(
    ("operands", "status"),
    [
        (("orders-0", "--log-dir", "{}"), ExitStatus.DAMAGED),
        (("clicks-0", "--log-dir", "{}"), ExitStatus.DONE),
        (("{}/orders-0",), ExitStatus.DAMAGED),
        (("{}/clicks-0",), ExitStatus.DONE),
        (("{}/clicks-0", "{}/orders-0"), ExitStatus.DAMAGED),
        (("--topic", "clicks", "--log-dir", "{}"), ExitStatus.DONE),
        (("{}",), ExitStatus.DAMAGED),
    ],
)
def test_what_is_named_is_verified(log_dir, operands, status):
    damage(log_dir)
    assert main(["verify", *(operand.replace("{}", str(log_dir)) for operand in operands)]) == status


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ordres-0", "--log-dir", "{}"), "did you mean orders-0?"),
        (("{}", "{}/orders-0"), "name one kind at a time"),
        (("--topic", "nothing", "--log-dir", "{}"), "matches no topic"),
        (("{}", "--rate", "0"), "is no rate"),
        (("{}", "--rate", "fast"), "is no rate"),
        (("{}", "--threads", "0"), "must be a whole number"),
        (("{}", "--resume"), "no check of these log dirs was interrupted"),
        (("{}", "--notes", "{}/missing/notes"), "its directory does not exist"),
        ((), "no log dir is named"),
    ],
)
def test_wrong_usage_is_told_in_a_line(log_dir, arguments, said, capsys):
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(log_dir.parent)
        try:
            status = main(["verify", *(argument.replace("{}", str(log_dir)) for argument in arguments)])
        except SystemExit as exit_:
            status = int(exit_.code or 0)
    assert status == ExitStatus.USAGE
    told = capsys.readouterr()
    assert said in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


def test_what_cannot_be_read_gives_status_1(log_dir, capsys):
    path = log_dir / "orders-0" / "leader-epoch-checkpoint"
    path.unlink()
    path.mkdir()
    assert main(["verify", str(log_dir)]) == ExitStatus.FAILED
    told = capsys.readouterr()
    assert f"logcleaner: {path}: cannot be read" in told.err
    assert told.out.replace("\n", " ").endswith(": 1 place could not be read; nothing is wrong with the rest ")


def test_without_kernels_nothing_is_verified(log_dir, monkeypatch, capsys):
    def unusable() -> None:
        raise KernelsUnusable(Path("compiled"), "no kernels here", "install logcleaner again")

    monkeypatch.setattr("storage.kernels.check_usable", unusable)
    assert main(["verify", str(log_dir)]) == ExitStatus.FAILED
    assert "no kernels here" in capsys.readouterr().err


def test_nothing_is_changed_and_no_notes_are_left(log_dir, cache):
    before = _state(log_dir)
    assert main(["verify", str(log_dir), "--deep", "--threads", "2"]) == ExitStatus.DONE
    assert _state(log_dir) == before
    assert list((cache / "verify").iterdir()) == []


def test_without_a_cache_the_check_is_done_and_says_so(log_dir, monkeypatch, capsys):
    monkeypatch.setenv("CACHE_DIRECTORY", "/dev/null/cache")
    assert main(["verify", str(log_dir)]) == ExitStatus.DONE
    assert "cannot go on" in capsys.readouterr().err
    assert main(["verify", str(log_dir), "--resume"]) == ExitStatus.USAGE


def _state(log_dir: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path): (path.stat().st_ino, path.stat().st_size, path.stat().st_ctime_ns)
        for path in [log_dir, *log_dir.rglob("*")]
    }


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "cleaner", "verify", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_cache_that_cannot_be_made_is_named_and_stops_no_check(tmp_path, log_dir, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CACHE_DIRECTORY", str(tmp_path / "file" / "cache"))
    assert main(["verify", str(log_dir)]) == ExitStatus.DONE
    told = capsys.readouterr().err
    assert f"logcleaner: {tmp_path}/file/cache: Not a directory; so an interrupted check cannot go on" in told


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_signal_ends_it_soon_and_it_goes_on(tmp_path, log_dir, number, status, threads):
    """At this rate the rest would take half a minute; on an idle machine it ends within half a second."""
    made = PartitionDir(log_dir, "big-0")
    for base_offset in range(24):
        made.segment(base_offset, keyed(base_offset, f"k={'x' * 1_200_000}"))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    notes = tmp_path / "notes"
    slowly = ("--notes", notes, "--threads", threads, "--rate", "1MiB")
    with started(log_dir, *map(str, slowly)) as process:
        until = time.monotonic() + 120
        while not (notes.exists() and notes.read_bytes().count(b"\n") >= 2):
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (status, "")
    assert err == "logcleaner: interrupted: the same command with --resume goes on from here\n"
    with started(log_dir, "--notes", notes, "--resume") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "by an earlier\ncheck" in out
    assert not notes.exists()


def test_a_symlinked_partition_is_a_place_that_was_not_read(log_dir, tmp_path, capsys):
    (log_dir / "clicks-0").rename(tmp_path / "clicks-0")
    (log_dir / "clicks-0").symlink_to(tmp_path / "clicks-0")
    assert main(["verify", "--log-dir", str(log_dir), "--json"]) == ExitStatus.FAILED
    told = capsys.readouterr()
    document = json.loads(told.out)
    (problem,) = document["problems"]
    assert problem.startswith(f"{log_dir / 'clicks-0'}: is a symlink, ")
    assert told.err.count("is a symlink") == 1
    assert not [found for found in document["findings"] if found["code"] == "CHECKPOINT_STALE"]


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_file_of_the_log_dir_that_cannot_be_read_hides_no_damage(name, log_dir, capsys):
    (log_dir / name).unlink(missing_ok=True)
    (log_dir / name).mkdir()
    path = damage(log_dir)
    assert main(["verify", "--log-dir", str(log_dir), "--json"]) == ExitStatus.DAMAGED
    document = json.loads(capsys.readouterr().out)
    assert [problem for problem in document["problems"] if str(log_dir / name) in problem]
    assert str(path) in {found["path"] for found in document["findings"]}


def test_garbage_checkpoint_takes_the_log_dir_offline_as_preflight_says(log_dir, capsys):
    (log_dir / "recovery-point-offset-checkpoint").write_text("garbage")
    assert main(["verify", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    assert "takes the log dir offline" in " ".join(capsys.readouterr().out.split())


def test_missing_meta_properties_of_a_kraft_node_is_damage(log_dir, capsys):
    write_metadata(log_dir, orders={})
    (log_dir / "meta.properties").unlink(missing_ok=True)
    assert main(["verify", "--log-dir", str(log_dir)]) == ExitStatus.DAMAGED
    assert "META_PROPERTIES" in capsys.readouterr().out
