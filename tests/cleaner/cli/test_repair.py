"""``verify --repair``: asks, mends, says what it did; ``verify`` is silent behind it."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli import main as command_line
from cleaner.cli.look.verify import KINDS
from cleaner.engine.repair.observing import plan_repairs
from cleaner.engine.repair.repairing import mend
from policies.findings.findings import RepairGroup
from storage.filesystem import FileSystem
from storage.log.producer_state import parse_snapshot
from storage.log_dir import LogDir
from tests.cleaner.cli.conftest import on_a_terminal
from tests.conftest import Samples
from tests.flips import staged
from tests.schemas import keys, schema

PARTITIONS = ("orders-0", "payments-0", "ledger-0")


def run(*words: object) -> int:
    return command_line.main([str(word) for word in words])


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def answering(monkeypatch: pytest.MonkeyPatch, word: str = "y", meanwhile: Callable[[], object] = lambda: None) -> None:
    """Have the questions of the command come to a terminal, and somebody answer them after a while."""

    on_a_terminal(monkeypatch, f"{word}\n", meanwhile)


@pytest.fixture
def log_dir(samples: Samples, tmp_path: Path) -> Path:
    """Of a broker that was stopped, with a damaged file of every kind that is derived, and two others."""
    made = staged(samples, tmp_path / "data", "after", PARTITIONS)
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        for path in made.glob(f"*/*{suffix}"):
            if path.parent.name in PARTITIONS and path.stat().st_size:
                path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes()))
    (made / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    (made / "payments-0" / "leader-epoch-checkpoint").write_bytes(b"garbage")
    return made


def test_repair_needs_a_yes_and_then_verify_is_silent(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "--log-dir", log_dir) == 4
    before = {path: path.read_bytes() for path in log_dir.glob("*/*")}
    assert run("verify", "--repair", "--log-dir", log_dir) == 5
    assert run("verify", "--repair", "--dry-run", "--log-dir", log_dir) == 0
    assert {path: path.read_bytes() for path in log_dir.glob("*/*")} == before
    would = capsys.readouterr().out
    assert run("verify", "--repair", "--yes", "--json", "--log-dir", log_dir) == 0
    document = said(capsys)
    assert document["dry_run"] is False
    assert document["remaining"] == 0
    assert {repair["kind"] for repair in document["repairs"]} == {
        "index", "time-index", "txn-index", "snapshot", "leader-epochs"
    }  # fmt: skip
    assert all(repair["repaired"] for repair in document["repairs"])
    assert f"\n{len(document['repairs'])} files would be mended; 0 findings would remain.\n" in would
    assert run("verify", "--json", "--log-dir", log_dir) == 0
    assert said(capsys)["findings"] == []
    logs = [path for path in before if path.suffix == ".log"]
    assert {path: path.read_bytes() for path in logs} == {path: before[path] for path in logs}


def test_the_question_names_every_file_and_no_changes_nothing(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in log_dir.glob("*/*")}
    assert run("verify", "--repair", "--dry-run", "--json", "--log-dir", log_dir) == 0
    would = [one["path"] for one in said(capsys)["repairs"] if one["code"] == "REPAIRABLE"]
    answering(monkeypatch, "n")
    assert run("verify", "--repair", "--log-dir", log_dir) == 5
    told = capsys.readouterr()
    assert f"--repair would mend {len(would)} files:" in told.err
    assert all(path in told.err for path in would)
    assert "index: " in told.err
    assert told.out == ""
    assert {path: path.read_bytes() for path in log_dir.glob("*/*")} == before
    assert not (log_dir / ".lock").exists(), "it was planned without locks"


def test_only_what_the_question_named_is_mended(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("verify", "--repair", "--yes", "--log-dir", log_dir)
    shown, sound, later = (log_dir / name / "leader-epoch-checkpoint" for name in PARTITIONS)
    whole = sound.read_bytes()
    for path in (shown, sound):
        path.with_name(f"{path.name}.deleted").unlink(missing_ok=True)
        path.write_bytes(b"garbage")

    def meanwhile() -> None:
        sound.write_bytes(whole)
        later.write_bytes(b"garbage")

    answering(monkeypatch, "y", meanwhile)
    capsys.readouterr()
    assert run("verify", "--repair", "--json", "--log-dir", log_dir) == 1
    printed = capsys.readouterr()
    results = {Path(one["path"]): one for one in json.loads(printed.out)["repairs"]}
    assert results.keys() == {shown, later}
    assert (results[shown]["repaired"], results[later]["repaired"]) == (True, False)
    assert "needs this only since you were asked" in results[later]["error"]
    assert later.read_bytes() == b"garbage"
    assert f"{sound}: changed since you were asked, and needs no repair by now" in printed.err


def test_file_that_got_another_damage_since_the_question_is_not_called_sound(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = max((log_dir / PARTITIONS[0]).glob("*.log"))
    path.write_bytes(path.read_bytes() + bytes(4096))
    (log_dir / ".kafka_cleanshutdown").touch()

    def meanwhile() -> None:
        path.write_bytes(path.read_bytes() + b"x" * 50)

    answering(monkeypatch, "y", meanwhile)
    capsys.readouterr()
    assert run("verify", "--repair=zero-tail", "--log-dir", log_dir) == 4
    assert f"{path}: changed since you were asked, and is left as it is" in capsys.readouterr().err


def test_nothing_is_asked_where_nothing_may_be_mended(
    samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = staged(samples, tmp_path / "data", "after", PARTITIONS)
    answering(monkeypatch, "n")
    assert run("verify", "--repair", "--log-dir", made) == 0
    assert "0 files would be mended" in capsys.readouterr().out


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_at_the_question_says_that_nothing_was_mended(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "", _interrupt)
    assert run("verify", "--repair", "--log-dir", log_dir) == 130
    assert "nothing was mended; every file is as it was" in capsys.readouterr().err


@pytest.mark.parametrize("files", [0, 1, 3])
def test_ctrl_c_between_two_repairs_says_how_many_files_were_mended(
    log_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    done: list[object] = []

    def mended(*given: Any) -> None:
        mend(*given)
        done.append(given)
        if len(done) == files:
            signal.raise_signal(signal.SIGINT)

    def planned(*given: Any) -> Any:
        if not files:
            signal.raise_signal(signal.SIGINT)
        return plan_repairs(*given)

    monkeypatch.setattr("cleaner.engine.repair.repairing.mend", mended)
    monkeypatch.setattr("cleaner.engine.repair.repairing.plan_repairs", planned)
    assert run("verify", "--repair", "--yes", "--log-dir", log_dir) == 130
    printed = capsys.readouterr()
    was = {0: "nothing was mended", 1: "1 file was mended before that", 3: "3 files were mended before that"}[files]
    assert f"interrupted: {was}" in printed.err
    assert len(done) == files
    assert "Not asked for" not in printed.out
    monkeypatch.undo()
    assert run("verify", "--repair", "--yes", "--log-dir", log_dir) == 0


def test_quiet_tells_the_sum_alone(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "-q", "--log-dir", log_dir) == 4
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run("verify", "-q", "--repair", "-n", "--log-dir", log_dir) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run("doctor", "-q", "--log-dir", log_dir) == 4
    assert len(capsys.readouterr().out.splitlines()) <= 4
    assert run("verify", "-q", "--repair", "--yes", "--log-dir", log_dir) == 0
    assert capsys.readouterr().out.startswith(
        "30 files were mended; 0 findings remain.\nlogcleaner restore --repairs puts"
    )
    for command in ("verify", "doctor"):
        assert run(command, "-q", "-v", "--log-dir", log_dir) == 2


def test_producers_that_no_snapshot_tells_of_come_back(
    samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = staged(samples, tmp_path / "data", "before", PARTITIONS)
    snapshots = sorted((made / "payments-0").glob("*.snapshot"))
    last = parse_snapshot(snapshots[-1].read_bytes(), snapshots[-1])
    assert any(producer.open_txn_first_offset is not None for producer in last)
    for path in snapshots:
        path.unlink()
    assert run("verify", "--json", "payments-0", "--log-dir", made) == 4
    (finding,) = said(capsys)["findings"]
    assert (finding["code"], finding["path"]) == ("SNAPSHOT_MISSING", str(snapshots[-1]))
    assert run("verify", "--repair", "--yes", "--log-dir", made) == 0
    made_anew = parse_snapshot(snapshots[-1].read_bytes(), snapshots[-1])
    assert {one.producer_id: one for one in made_anew} == {one.producer_id: one for one in last}


def test_a_dry_run_says_what_the_run_then_does(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("verify", "--repair", "-n", "--json", "--log-dir", log_dir)
    would = said(capsys)["repairs"]
    run("verify", "--repair", "-y", "--json", "--log-dir", log_dir)
    did = said(capsys)["repairs"]
    assert [{**repair, "repaired": True} for repair in would] == did


def test_other_kinds_only_by_name(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("verify", "--repair", "-y", "--log-dir", log_dir)
    log = sorted((log_dir / "ledger-0").glob("*.log"))[-1]
    healthy, topic_id = log.read_bytes(), (log_dir / "ledger-0" / "partition.metadata").read_bytes()
    log.write_bytes(healthy + bytes(4096))
    (log_dir / "ledger-0" / "partition.metadata").unlink()
    assert run("verify", "--repair", "-y", "--log-dir", log_dir) == 4
    assert log.stat().st_size == len(healthy) + 4096
    said_so = capsys.readouterr().out
    assert "Not asked for, and may mend more: --repair=topic-id, --repair=zero-tail." in said_so
    assert run("verify", "ledger-0", "--repair=zero-tail", "-y", "--log-dir", log_dir) == 4, "the topic id is missing"
    assert log.read_bytes() == healthy
    assert run("verify", "--repair=zero-tail,topic-id", "-y", "--log-dir", log_dir) == 0
    assert (log_dir / "ledger-0" / "partition.metadata").read_bytes() == topic_id
    assert run("verify", "--log-dir", log_dir) == 0
    capsys.readouterr()
    assert run("history", "--log-dir", log_dir, "--json") == 0
    (journal,) = said(capsys)["log_dirs"]
    assert {entry["kind"] for entry in journal["entries"]} >= {"topic-id", "zero-tail", "index"}
    assert run("history", "--log-dir", log_dir) == 0
    assert f"zeros cut off behind byte {len(healthy):,}" in " ".join(capsys.readouterr().out.split())


def test_what_stands_behind_repair_and_is_no_kind_is_a_partition(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", "--log-dir", log_dir, "--repair", "orders-0", "-n", "--json") == 0
    assert {Path(repair["path"]).parent.name for repair in said(capsys)["repairs"]} == {"orders-0"}
    assert run("verify", "--log-dir", log_dir, "--repair=everything", "-n") == 2
    assert "is no KIND: derived, topic-id, zero-tail or log-end" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dry-run", "--yes", "--force-lock"])
def test_options_of_repairs_need_repair(log_dir: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "--log-dir", log_dir, option) == 2
    assert "goes with --repair only" in capsys.readouterr().err


def test_a_broker_at_work_refuses_repairs(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.cli.look.verify.Waiting", lambda: lambda take: take())
    before = {path: path.read_bytes() for path in log_dir.glob("*/*")}
    with LogDir(log_dir).lock(FileSystem()):
        assert run("verify", "--repair", "-y", "--log-dir", log_dir) == 3
    assert {path: path.read_bytes() for path in log_dir.glob("*/*")} == before


def test_repairs_are_taken_back_by_restore(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in log_dir.glob("*/*")}
    run("verify", "--repair", "-y", "--log-dir", log_dir)
    capsys.readouterr()
    assert run("restore", "--repairs", "--log-dir", log_dir, "--json") == 0
    listed = said(capsys)["repairs"]
    assert {repair["code"] for repair in listed} == {"REVERTIBLE"}
    assert run("restore", "orders-0", "--repairs", "--log-dir", log_dir) == 0
    assert run("restore", "orders-0", "--repairs", "--log-dir", log_dir) == 1, "nothing waits any more"
    assert run("restore", "--all", "--repairs", "--log-dir", log_dir) == 0
    assert {path: path.read_bytes() for path in log_dir.glob("*/*")} == before
    assert run("restore", "--all", "--repairs", "--release", "--log-dir", log_dir) == 2


def test_what_a_finding_names_as_its_repair_is_what_the_option_takes() -> None:
    assert tuple(RepairGroup) == KINDS
    for name in ("logcleaner.doctor/1", "logcleaner.verify/1"):
        enum = keys(schema(name))["findings[].repair"].part["enum"]
        assert enum == [*KINDS, None], "each document that the suite makes is held against it"


@pytest.mark.parametrize("words", [("-n",), ("--yes",)])
def test_log_end_behind_an_unclean_stop_says_why_it_mends_nothing(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    log_dir = tmp_path / "data"
    shutil.copytree(demo, log_dir, ignore=shutil.ignore_patterns("[!c_]*-[0-9]", ".kafka_cleanshutdown"))
    log = max((log_dir / "clicks-0").glob("*.log"))
    with log.open("ab") as file:
        file.write(b"cut short")
    before = log.read_bytes()
    assert command_line.main(["verify", "--repair=log-end", str(log_dir), *words]) == 4
    assert f"--repair=log-end leaves {log} as it is: without a clean stop" in capsys.readouterr().err
    assert log.read_bytes() == before
