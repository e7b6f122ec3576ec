"""A copy that lost files since its manifest was written, and one on which a broker ran since."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.copy.manifest import manifest_of_new
from cleaner.engine.copy.moment import CHECKPOINTS
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import MANIFEST_FILE, TopicPartition
from tests.conftest import Samples

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("payments", 0)]
FS = FileSystem()


@pytest.fixture
def copy(samples: Samples, tmp_path: Path) -> Path:
    """A finished copy of two partitions."""
    log_dir = LogDir(samples.copy("before", tmp_path / "logs", [str(name) for name in PARTITIONS]))
    for name in CHECKPOINTS:
        log_dir.write_offsets(name, {one: at for one, at in log_dir.offsets(name).items() if one in PARTITIONS}, FS)
    command = ["clean", "--yes", "--kafka-defaults", "--log-dir", str(log_dir.path)]
    assert main([*command, "--output", str(tmp_path / "copy")]) == ExitStatus.DONE
    return tmp_path / "copy"


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, set[tuple[str, str]]]]:
    """What a command says that a copy lacks: its exit status, and harm and path of each finding."""

    def run(*command: str) -> tuple[int, set[tuple[str, str]]]:
        capsys.readouterr()
        status = main([*command, "--json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return status, {(one["harm"], one["path"]) for one in findings if one["code"] == "COPY_LACKS"}

    return run


def test_manifest_of_a_new_log_dir_names_itself_as_its_original_and_its_logs_as_whole(tmp_path: Path) -> None:
    (log := tmp_path / "orders-0" / f"{0:020}.log").parent.mkdir()
    for path in (log, log.with_suffix(".index"), tmp_path / "meta.properties"):
        path.write_bytes(b"x")
    os.utime(log, ns=(5_000_000, 5_000_000))
    made = json.loads(manifest_of_new({PARTITIONS[0]: 7}, tmp_path, (9, "spark", "1.2"), lambda path: path.suffix))
    assert made == {
        "schema": "logcleaner.manifest/1",
        "tool": "logcleaner 1.2",
        "engine": "spark",
        "now": 9,
        "original": str(tmp_path),
        "left_out": [],
        "partitions": [
            {
                "topic": "orders",
                "partition": 0,
                "error": None,
                "log_start_offset": 0,
                "log_end_offset": 7,
                "high_watermark": 7,
                "last_stable_offset": 7,
                "compacted_to_offset": None,
                "configs": {},
                "segments": [],
                "files": [
                    {"path": f"orders-0/{0:020}.index", "bytes": 1, "sha256": ".index"},
                    {"path": f"orders-0/{0:020}.log", "bytes": 1, "sha256": ".log", "mtime_ms": 5},
                ],
            }
        ],
        "files": [{"path": "meta.properties", "bytes": 1, "sha256": ".properties"}],
    }


def first_log(directory: Path) -> Path:
    return min(directory.glob("*.log"))


def test_verify_and_doctor_tell_each_file_that_a_copy_lost(copy: Path, told: Callable[..., object]) -> None:
    gone, cut, index = first_log(copy / "orders-0"), first_log(copy / "payments-0"), copy / "meta.properties"
    assert told("verify", str(copy)) == told("doctor", str(copy)) == (ExitStatus.DONE, set())
    gone.unlink()
    with cut.open("r+b") as file:
        file.truncate(0)
    index.unlink()
    lost = {("data_lost", str(gone)), ("data_lost", str(cut))}
    everything = lost | {("wrong_answer", str(index))}
    assert told("verify", str(copy)) == told("doctor", str(copy)) == (ExitStatus.DAMAGED, everything)
    one = {("data_lost", str(cut))}
    assert told("verify", "payments-0", "--log-dir", str(copy)) == (ExitStatus.DAMAGED, one)
    assert told("doctor", str(copy), "--topic", "payments") == (ExitStatus.DAMAGED, one)


def test_partition_that_a_copy_lost_is_one_finding(
    copy: Path, told: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(copy / "orders-0")
    lost = (ExitStatus.DAMAGED, {("data_lost", str(copy / "orders-0"))})
    assert told("verify", str(copy)) == told("doctor", str(copy)) == lost
    main(["verify", str(copy)])
    out = " ".join(capsys.readouterr().out.split())
    assert "is not here, and the manifest has " in out
    assert "Make the copy anew (clean --output), or fetch it again" in out


@pytest.mark.parametrize(
    "command",
    [
        ["topics"],
        ["dump", "orders-0"],
        ["explain", "orders-0"],
        ["export", "orders-0", "--to", "jsonl", "{out}.jsonl"],
        ["lookup", "orders-0", "--offset", "0"],
        ["prove-erased", "no such key"],
        ["digest", "--output", "{out}"],
        ["clean", "--dry-run", "--kafka-defaults"],
        ["clean", "--yes", "--kafka-defaults"],
        ["clean", "--yes", "--kafka-defaults", "--output", "{out}"],
        ["free", "--yes", "--kafka-defaults", "--target", "90%"],
        ["delete-records", "orders-0", "--before-offset", "1"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_commands_that_would_take_the_rest_for_the_whole_say_so_and_fail(
    copy: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log, output = first_log(copy / "orders-0"), tmp_path / "out"
    log.unlink()
    capsys.readouterr()
    assert main([one.format(out=output) for one in command] + ["--log-dir", str(copy)]) == ExitStatus.FAILED
    said = " ".join("".join(capsys.readouterr()).split())
    assert f"{log}: is not here, and the manifest has" in said
    assert not (copy / ".lock").exists()
    assert list(tmp_path.glob("out*")) == []


def test_manifest_that_says_nothing_is_a_finding(copy: Path, told: Callable[..., object]) -> None:
    (copy / MANIFEST_FILE).write_bytes(b'{"schema"')
    said = (ExitStatus.DAMAGED, {("wrong_answer", str(copy / MANIFEST_FILE))})
    assert told("verify", str(copy)) == told("doctor", str(copy)) == said


def leave_lock(copy: Path) -> None:
    (copy / ".lock").touch()


def rewrite_checkpoint(copy: Path) -> None:
    """As a clean stop of a broker does, with the same offsets or others."""
    path = copy / "recovery-point-offset-checkpoint"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    later = (copy / MANIFEST_FILE).stat().st_mtime + 1
    os.utime(path, (later, later))


def lose_times(copy: Path) -> None:
    """As a copy of a restored log dir does that keeps no times."""
    path = copy / "log-start-offset-checkpoint"
    path.write_text("0\n1\norders 0 1\n")
    os.utime(path, (1, 1))


def lose_the_mark(copy: Path) -> None:
    (copy / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("work", [leave_lock, rewrite_checkpoint, lose_times, lose_the_mark])
def test_what_a_broker_changed_since_is_no_damage(
    copy: Path, told: Callable[..., object], work: Callable[[Path], None], tmp_path: Path
) -> None:
    """A broker that runs on a restored copy deletes segments."""
    first = first_log(copy / "orders-0")
    for path in first.parent.glob(f"{first.stem}.*"):
        path.unlink()
    work(copy)
    assert told("verify", str(copy))[1] == told("doctor", str(copy))[1] == set()  # type: ignore[index]
    assert main(["diff", str(copy), str(copy)]) == ExitStatus.DONE
    assert main(["fetch", str(copy), str(tmp_path / "fetched")]) == ExitStatus.DONE
    assert not (tmp_path / "fetched" / MANIFEST_FILE).exists()


def test_fetched_copy_is_held_against_the_manifest_that_came_along(
    copy: Path, told: Callable[..., object], tmp_path: Path
) -> None:
    os.utime(copy / "recovery-point-offset-checkpoint")  # uploaded last, and so later than the manifest
    log_dir = tmp_path / "fetched"
    os.utime(copy / MANIFEST_FILE)
    assert main(["fetch", str(copy), str(log_dir)]) == ExitStatus.DONE
    gone = first_log(log_dir / "orders-0")
    gone.unlink()
    assert told("verify", str(log_dir)) == (ExitStatus.DAMAGED, {("data_lost", str(gone))})


def test_copy_of_a_copy_leaves_it_what_its_manifest_tells(
    copy: Path, told: Callable[..., object], tmp_path: Path
) -> None:
    """A ``.lock`` there would mean that somebody worked in it."""
    for name in ("again", "once-more"):
        command = ["clean", "--yes", "--kafka-defaults", "--log-dir", str(copy), "--output", str(tmp_path / name)]
        assert main(command) == ExitStatus.DONE
    gone = first_log(copy / "orders-0")
    gone.unlink()
    assert told("verify", str(copy)) == (ExitStatus.DAMAGED, {("data_lost", str(gone))})
