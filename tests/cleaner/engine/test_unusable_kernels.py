"""Kernels that do not run here: told once a run, before anything is done; deletions go on, compactions are left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means
from cleaner.report.cleaning import CleaningReport
from cleaner.report.runs import runs_of
from policies.config.config_layers import Configured
from policies.plan import Only
from policies.rescue import SpaceTarget
from storage.errors import InvalidConfig
from storage.machine import library
from storage.machine.library import KernelsUnusable
from storage.names import MANIFEST_FILE, TopicPartition
from tests.cleaner.engine.test_executor import CLICKS, LAYERS, ORDERS, Listening, a_log_dir, checkpoint, offsets
from tests.partition_dirs import FakeClock, PartitionDir, keyed, request

LINE = "compiled: the kernels are not compiled; install logcleaner again"
ALL_ORDERS = [0, 1, 10, 20, 30]
EVERYTHING = SpaceTarget(100, is_percent=True)


@pytest.fixture
def log_dir(tmp_path):
    return a_log_dir(tmp_path / "data")


@pytest.fixture
def asked(monkeypatch):
    """Kernels do not run. Gives a list with an entry for each time that somebody asked."""
    asked = []

    def check():
        asked.append(1)
        raise KernelsUnusable(Path("compiled"), "the kernels are not compiled", "install logcleaner again")

    monkeypatch.setattr(library, "check", check)
    return asked


@pytest.fixture
def wrong_level(monkeypatch):
    """A level that this CPU lacks, in a process that has loaded no library yet."""
    monkeypatch.setenv(library.LEVEL_VARIABLE, "x86-64-v9")
    monkeypatch.setattr(library, "check", library.level_name)


@pytest.fixture
def heard():
    return Listening()


def a_cleaner(log_dir, heard):
    return Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock(), listener=heard))


def told(heard):
    """The names of the events but those of segments; the first one, with its fields, has the line."""
    assert heard.events[0] == ("kernels_unusable", {"error": LINE})
    return [name for name, _ in heard.events if name != "segment_deleted"]


def is_left_out(plan, outcome):
    (orders,) = (p for p in plan.partitions if p.facts.topic_partition == ORDERS)
    words = {run.word for run in runs_of(orders, outcome) if run.verdict.action == "compact"}
    return orders.compaction is not None and orders.key not in outcome.results and words == {"not compacted"}


def test_a_run_deletes_and_tells_once_why_it_does_not_compact(log_dir, asked, heard):
    plan, outcome = a_cleaner(log_dir, heard).clean(request())
    assert told(heard) == ["kernels_unusable"]
    assert (outcome.errors, outcome.no_kernels) == ((LINE,), LINE)
    assert is_left_out(plan, outcome)
    assert [result.error for result in outcome.results.values()] == [None]
    assert (offsets(log_dir, "clicks-0"), offsets(log_dir, "orders-0")) == ([2], ALL_ORDERS)
    assert checkpoint(log_dir, "cleaner-offset-checkpoint") == {}
    assert len(asked) == 1


def test_a_first_dirty_offset_outside_its_log_is_corrected_all_the_same(log_dir, asked, heard):
    PartitionDir(log_dir, "orders-1").segment(5, keyed(5, "a=1"))
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 1 2\n")
    a_cleaner(log_dir, heard).clean(request())
    assert checkpoint(log_dir, "cleaner-offset-checkpoint") == {TopicPartition("orders", 1): 5}
    assert told(heard) == ["kernels_unusable"]


@pytest.mark.parametrize("exact", [False, True])
def test_a_dry_run_tells_it_as_the_run_would(log_dir, asked, heard, exact):
    cleaner = a_cleaner(log_dir, heard)
    plan = cleaner.plan(request())
    outcome = cleaner.would_do(plan, exact=exact)
    assert told(heard) == ["kernels_unusable"]
    assert (outcome.errors, outcome.no_kernels) == ((LINE,), LINE)
    assert is_left_out(plan, outcome)
    assert {key[1]: result.deleted_segments for key, result in outcome.results.items()} == {CLICKS: 2}
    document = CleaningReport(plan, outcome).document()
    assert [found["result"] is None for found in document["partitions"]] == [False, True]


def test_a_run_that_compacts_nothing_asks_nothing(log_dir, asked, heard):
    cleaner = a_cleaner(log_dir, heard)
    assert cleaner.would_do(cleaner.plan(request(only=Only.RETENTION))).errors == ()
    assert cleaner.clean(request(only=Only.RETENTION))[1].errors == ()
    assert asked == []


def test_a_second_plan_for_what_changed_asks_no_second_time(log_dir, asked, heard, monkeypatch):
    def planning(self, request):
        plan = planned(self, request)
        index = log_dir / "clicks-0/00000000000000000000.index"
        index.write_bytes(index.read_bytes() + b"x")
        return plan

    planned = Cleaner.plan
    monkeypatch.setattr(Cleaner, "plan", planning)
    _, outcome = a_cleaner(log_dir, heard).clean(request())
    assert told(heard)[:2] == ["kernels_unusable", "partition_changed"]
    assert outcome.errors == (LINE,)
    assert len(asked) == 1


def test_free_deletes_and_leaves_compactions_out(log_dir, asked, heard):
    cleaner = a_cleaner(log_dir, heard)
    would = cleaner.would_free(request(), EVERYTHING)
    done = cleaner.free(request(), EVERYTHING)
    for rescued in (would, done):
        assert (rescued.outcome.errors, rescued.outcome.no_kernels) == ((LINE,), LINE)
        assert is_left_out(rescued.plan, rescued.outcome)
    assert (offsets(log_dir, "clicks-0"), offsets(log_dir, "orders-0")) == ([2], ALL_ORDERS)
    assert [name for name, _ in heard.events].count("kernels_unusable") == 2


def test_a_copy_has_the_deletions_and_says_what_was_not_compacted(log_dir, asked, heard, tmp_path):
    copy = tmp_path / "copy"
    plan, outcome = a_cleaner(log_dir, heard).copy(request(), copy, tool_version="1")
    assert told(heard) == ["kernels_unusable"]
    assert is_left_out(plan, outcome)
    assert outcome.errors == (LINE,)
    assert (offsets(copy, "clicks-0"), offsets(copy, "orders-0")) == ([2], ALL_ORDERS)
    clicks, orders = json.loads((copy / MANIFEST_FILE).read_bytes())["partitions"]
    assert [segment["code"] for segment in clicks["segments"]][:2] == ["RETENTION_TIME"] * 2
    assert [(s["action"], s["code"]) for s in orders["segments"]][:3] == [("keep", "FAILED")] * 3
    assert orders["segments"][0]["text"].startswith("was not compacted, because the kernels do not run")
    assert (clicks["compacted_to_offset"], orders["compacted_to_offset"]) == (None, None)


def test_a_wrong_level_ends_the_run_before_anything_is_done(log_dir, wrong_level, heard, tmp_path):
    cleaner = a_cleaner(log_dir, heard)
    acts = [
        lambda: cleaner.would_do(cleaner.plan(request())),
        lambda: cleaner.clean(request()),
        lambda: cleaner.free(request(), EVERYTHING),
        lambda: cleaner.would_free(request(), EVERYTHING),
        lambda: cleaner.copy(request(), tmp_path / "copy", tool_version="1"),
    ]
    for act in acts:
        with pytest.raises(InvalidConfig, match="LOGCLEANER_CPU_LEVEL = 'x86-64-v9': unset it, or name one of: "):
            act()
    assert heard.events == []
    assert (offsets(log_dir, "clicks-0"), offsets(log_dir, "orders-0")) == ([0, 1, 2], ALL_ORDERS)
    assert not (tmp_path / "copy").exists()


CLEAN = ["clean", "--kafka-defaults", "--set", "cleanup.policy=compact", "--force-compaction"]
COMMANDS = {
    "clean": CLEAN,
    "dry run": [*CLEAN, "--dry-run"],
    "exact": [*CLEAN, "--dry-run", "--exact"],
    "what if": [*CLEAN, "--dry-run", "--exact", "--what-if", "delete.retention.ms=1h,2h"],
    "export": ["export", "orders-0", "--to", "jsonl", "-"],
    "free": ["free", "--compact", "--target", "100%", "--set", "cleanup.policy=compact", "--dry-run"],
}


def without_overrides(errors):
    """Return the lines but those about topics that ``--set`` overrides, which come before anything is read."""
    return [line for line in errors.splitlines() if not line.startswith("logcleaner: --set ")]


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_command_tells_it_in_one_line(log_dir, asked, arguments, capsys):
    log_dir_option = ["--log-dir", str(log_dir)]
    assert main([*arguments, *log_dir_option]) == ExitStatus.FAILED
    errors = without_overrides(capsys.readouterr().err)
    assert [line for line in errors if LINE in line] == errors[:1]
    assert len(asked) == 1


@pytest.mark.parametrize("arguments", [*COMMANDS.values(), ["run", "--once"]], ids=[*COMMANDS, "daemon"])
def test_a_wrong_level_is_wrong_usage_of_each_command(log_dir, wrong_level, arguments, capsys):
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file() and path.name != ".lock"}
    assert main([*arguments, "--log-dir", str(log_dir)]) == ExitStatus.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    (error,) = without_overrides(told.err)
    assert error.startswith("logcleaner: environment: LOGCLEANER_CPU_LEVEL = 'x86-64-v9': unset it, or name one of:")
    after = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


def test_the_daemon_that_only_observes_needs_no_kernels(log_dir, wrong_level, capsys):
    assert main(["run", "--once", "--observe", "--log-dir", str(log_dir)]) == ExitStatus.REFUSED  # CONFIG_UNKNOWN
    assert "CPU_LEVEL" not in capsys.readouterr().err
