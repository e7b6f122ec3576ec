"""``max.unkeyed.ratio`` on the command line: what is told, what is asked, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from policies.config.config_keys import LONG_MAX
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT
from tests.cleaner.cli.test_clean import on_a_terminal
from tests.cleaner.engine.test_unkeyed_guard import all_keyed, mixed, seen, unkeyed
from tests.partition_dirs import DAY_MS, NOW_MS, PartitionDir, committed, keyed, latest

Run = Callable[..., int]
GUARD = "MAX_UNKEYED_RATIO: {}/orders-0: compaction would drop 3 of 5 records because they have no key: 0.60, more than"
COMPACTED = {b"a": b"2", b"b": b"1"}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return committed(tmp_path / "data", mixed(tmp_path / "data"), all_keyed(tmp_path / "data"))


def command(log_dir: Path, *arguments: str, policy: str = "compact") -> int:
    settings = (f"cleanup.policy={policy}", "min.cleanable.dirty.ratio=0", f"clock.jump.max={LONG_MAX}")
    options = [option for setting in settings for option in ("--set", setting)]
    return main([*arguments, "--log-dir", str(log_dir), *options])


@pytest.fixture
def run(log_dir: Path) -> Run:
    return lambda *arguments, **options: command(log_dir, *arguments, **options)


def test_without_a_terminal_it_is_told_in_one_line_and_the_rest_done(log_dir, run, capsys):
    before = seen(log_dir / "orders-0")
    assert run("clean") == ExitStatus.REFUSED
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "RATIO" in line)
    assert line.startswith(f"logcleaner: {GUARD.format(log_dir)} max.unkeyed.ratio=0.5 (logcleaner's default)")
    assert line.endswith("add --yes if you mean it; with cleanup.policy=delete the topic keeps these records")
    assert seen(log_dir / "orders-0") == before
    assert latest(log_dir / "state-0") == COMPACTED


@pytest.mark.parametrize("options", [("--yes",), ("--set", "max.unkeyed.ratio=1"), ("--set", "max.unkeyed.ratio=0.6")])
def test_who_means_it_says_so(log_dir, run, options):
    assert run("clean", *options) == ExitStatus.DONE
    assert latest(log_dir / "orders-0") == COMPACTED


@pytest.mark.parametrize("ratio", ["1.1", "-0.1", "off", "50%"])
def test_ratio_is_a_share(run, ratio, capsys):
    assert run("clean", "--set", f"max.unkeyed.ratio={ratio}") == ExitStatus.USAGE
    assert "max.unkeyed.ratio" in capsys.readouterr().err


def test_exact_dry_run_has_the_verdicts_and_the_status_of_the_run(log_dir, run, capsys):
    assert run("clean", "--dry-run", "--json") == ExitStatus.DONE  # nobody knows yet
    capsys.readouterr()
    assert run("clean", "--dry-run", "--exact", "--json") == ExitStatus.REFUSED
    said = json.loads(capsys.readouterr().out)
    assert run("clean", "--json") == ExitStatus.REFUSED
    done = json.loads(capsys.readouterr().out)
    assert [p["segments"] for p in said["partitions"]] == [p["segments"] for p in done["partitions"]]
    codes = [segment["reason"]["code"] for segment in done["partitions"][0]["segments"]]
    assert codes == ["MAX_UNKEYED_RATIO", "MAX_UNKEYED_RATIO", "ACTIVE_SEGMENT"]
    assert run("clean", "--dry-run", "--exit-code") == ExitStatus.REFUSED  # by now it is known without reading
    assert run("clean", "--dry-run", "--yes", "--exit-code") == ExitStatus.WORK_TO_DO


# On a terminal


@pytest.mark.parametrize("threads", ["1", "2"])
def test_it_asks_once_it_has_counted_and_compacts_then(log_dir, run, monkeypatch, capsys, threads):
    on_a_terminal(monkeypatch, "y\n")
    assert run("clean", "--threads", threads) == ExitStatus.DONE
    told = capsys.readouterr()
    assert told.err.count("Do it anyway? [y/N]") == 1
    assert GUARD.format(log_dir) in told.err
    assert latest(log_dir / "orders-0") == COMPACTED
    assert LogDir(log_dir).offsets(CLEANER_OFFSET_CHECKPOINT).keys() == {("orders", 0), ("state", 0)}
    assert "Compacted      2 partitions" in told.out
    assert "Held back" not in told.out
    assert "Dropped        3 records without a key" in told.out


def test_who_says_no_has_the_others_done(log_dir, run, monkeypatch, capsys):
    on_a_terminal(monkeypatch, "\n")
    before = seen(log_dir / "orders-0")
    assert run("clean") == ExitStatus.REFUSED
    assert "Held back      1 partition" in capsys.readouterr().out
    assert seen(log_dir / "orders-0") == before
    assert latest(log_dir / "state-0") == COMPACTED


def test_who_said_no_is_asked_before_the_next_run(log_dir, run, monkeypatch, capsys):
    on_a_terminal(monkeypatch, "\n")
    run("clean")
    capsys.readouterr()
    assert run("clean") == ExitStatus.REFUSED
    assert "not confirmed; nothing was done" in capsys.readouterr().err
    on_a_terminal(monkeypatch, "y\n")
    assert run("clean") == ExitStatus.DONE
    assert capsys.readouterr().err.count("[y/N]") == 1
    assert latest(log_dir / "orders-0") == COMPACTED


def test_json_stays_one_document_with_the_figures_of_both_runs(tmp_path, monkeypatch, capsys):
    old_ms = NOW_MS - 3650 * DAY_MS
    made = PartitionDir(tmp_path).segment(0, unkeyed(0, 1, old_ms), mtime_ms=old_ms)
    made.segment(1, unkeyed(1, 2)).segment(3, keyed(3, "a=1")).segment(4, keyed(4, "b=1"))
    committed(tmp_path, made)
    on_a_terminal(monkeypatch, "yes\n")
    both = ("clean", "--json", "--set", "retention.ms=30d")
    assert command(tmp_path, *both, policy="compact,delete") == ExitStatus.DONE
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert [s["action"] for s in partition["segments"]] == ["delete", "compact", "compact", "keep"]
    result = partition["result"]
    figures = ("deleted_segments", "records_read", "records_kept", "records_unkeyed")
    assert [result[name] for name in figures] == [1, 3, 1, 2]


def test_a_broker_that_starts_meanwhile_keeps_the_second_run_out_and_the_first_is_told(
    log_dir, run, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    taken = []

    def answer() -> str:
        taken.append(LogDir(log_dir).lock(FileSystem()))
        return "y\n"

    monkeypatch.setattr("sys.stdin.readline", answer, raising=False)
    assert run("clean") == ExitStatus.FAILED
    told = capsys.readouterr()
    assert "Held back      1 partition" in told.out
    assert f"{log_dir}: held by" in told.err
    assert latest(log_dir / "state-0") == COMPACTED
    taken[0].release()


def test_dry_run_and_copy_ask_nothing(log_dir, tmp_path, run, monkeypatch, capsys):
    on_a_terminal(monkeypatch, "y\n")
    assert run("clean", "--dry-run", "--exact") == ExitStatus.REFUSED
    assert run("clean", "--output", str(tmp_path / "copy")) == ExitStatus.REFUSED
    assert "[y/N]" not in capsys.readouterr().err


# The other commands that compact


def test_copy_has_it_as_it_is_and_is_whole(log_dir, tmp_path, run, capsys):
    assert run("clean", "--output", str(tmp_path / "copy")) == ExitStatus.REFUSED
    told = capsys.readouterr()
    assert "the copy is complete, with its manifest" in told.out
    assert GUARD.format(log_dir) in told.err
    assert run("clean", "--yes", "--output", str(tmp_path / "other")) == ExitStatus.DONE
    assert latest(tmp_path / "other" / "orders-0") == COMPACTED


def test_rescue_tells_it(log_dir, run, capsys):
    assert run("free", "--target", "1000TiB", "--compact") == ExitStatus.REFUSED
    assert GUARD.format(log_dir) in capsys.readouterr().err
    assert latest(log_dir / "state-0") == COMPACTED


def test_history_says_why_nothing_was_compacted(log_dir, run, capsys):
    run("clean", "--topic", "orders")
    capsys.readouterr()
    assert main(["history", "--log-dir", str(log_dir)]) == ExitStatus.DONE
    told = " ".join(capsys.readouterr().out.split())
    assert "guarded - orders-0: compaction would drop 3 of 5 records because they have no key" in told
    assert "not finished" not in told


def test_history_says_how_many_records_without_a_key_a_compaction_dropped(log_dir, run, capsys):
    assert run("clean", "--yes") == ExitStatus.DONE
    capsys.readouterr()
    assert main(["history", "--log-dir", str(log_dir)]) == ExitStatus.DONE
    told = " ".join(capsys.readouterr().out.split())
    assert "orders-0: dirty from 0 to 5; dropped 3 records without a key" in told
    assert "dropped" not in told.partition("state-0")[2].partition("20")[0]
    assert main(["history", "--log-dir", str(log_dir), "--json"]) == ExitStatus.DONE
    (found,) = json.loads(capsys.readouterr().out)["log_dirs"]
    counts = {entry["partition"]: entry.get("records_unkeyed") for entry in found["entries"]}
    assert counts == {"orders-0": 3, "state-0": None}
    assert {entry["what"] for entry in found["entries"]} == {"compact"}


# What explain says is what clean does


def explained(log_dir: Path, capsys, *options: str, name: str = "orders-0") -> str:
    capsys.readouterr()
    assert command(log_dir, "explain", name, *options) == ExitStatus.DONE
    return " ".join(capsys.readouterr().out.split())


def test_explanation_says_that_nobody_counted_and_with_exact_what_clean_does(log_dir, capsys):
    told = explained(log_dir, capsys)
    assert "Now clean compacts 2 segments" in told
    assert "Records without a key were not counted: --exact counts them. More than max.unkeyed.ratio=0.5" in told
    told = explained(log_dir, capsys, "--exact")
    assert "Now a guard rail holds clean back here" in told
    assert "Compaction would drop 3 of 5 records because they have no key" in told
    assert "not counted" not in told
    assert "Compaction drops no record without a key" in explained(log_dir, capsys, "--exact", name="state-0")


def test_explanation_counts_what_the_guard_rail_lets_through(log_dir, capsys):
    let = ("--exact", "--set", "max.unkeyed.ratio=1")
    assert "Compaction drops 3 records without a key" in explained(log_dir, capsys, *let)
    (partition,) = json.loads(explained(log_dir, capsys, "--json", *let))["partitions"]
    assert partition["records_unkeyed"] == 3
    (partition,) = json.loads(explained(log_dir, capsys, "--json"))["partitions"]
    assert partition["records_unkeyed"] is None


def test_dry_run_says_that_a_guard_rail_may_hold_the_run_back(run, capsys):
    assert run("clean", "--dry-run") == ExitStatus.DONE
    assert "A run leaves partitions alone that would lose more than max.unkeyed.ratio." in " ".join(
        capsys.readouterr().out.split()
    )
