import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.outcome import Outcome
from policies.plan import Only
from storage.errors import NotALogDir, UnreadableFile
from storage.filesystem import OutOfSpace
from storage.lock import LogDirLocked
from tests.cleaner.cli.conftest import FakeCleaner, a_log_dir, on_a_terminal
from tests.cleaner.report.plans import DAY_MS, NOW_MS, a_partition, a_plan, a_run, unreadable

Run = Callable[..., int]
EXPIRED = a_partition("clicks-0", 9, 1)
YOUNG = a_partition("clicks-0", 1)
UNKNOWN = a_partition("copied-0", 9)
GUARDED = a_partition("guarded-0", 9, 8, 1)
BROKEN = unreadable("orders-1", "/data/orders-1: cannot be read")


@pytest.mark.parametrize(
    ("story", "plan", "options", "status"),
    [
        ("nothing to do", a_plan(YOUNG), (), 0),
        ("something to do, done", a_plan(EXPIRED), (), 0),
        ("something to do, planned", a_plan(EXPIRED), ("--dry-run",), 0),
        ("something to do, asked for", a_plan(EXPIRED), ("--dry-run", "--exit-code"), 10),
        ("nothing to do, asked for", a_plan(YOUNG), ("--dry-run", "--exit-code"), 0),
        ("a partition failed", a_plan(BROKEN, EXPIRED), (), 1),
        ("the dry run's status is the same", a_plan(BROKEN, EXPIRED), ("--dry-run",), 1),
        ("a whole log dir failed", a_plan(errors=("garbled",)), (), 1),
        ("a configuration is unknown", a_plan(UNKNOWN, EXPIRED), (), 5),
        ("also in a dry run", a_plan(UNKNOWN, EXPIRED), ("--dry-run", "--exit-code"), 5),
        ("a guard rail holds a partition back", a_plan(GUARDED, EXPIRED), (), 5),
        ("also in a dry run", a_plan(GUARDED), ("--dry-run", "--exit-code"), 5),
        ("a failure outranks it", a_plan(UNKNOWN, BROKEN), (), 1),
    ],
)
def test_exit_status(story: str, plan, options, status: int, engine: FakeCleaner, run: Run) -> None:
    engine.given = plan
    assert run("clean", *options) == status, story


@pytest.mark.parametrize(
    ("terminals", "options", "is_logged"),
    [
        (("stdout", "stderr"), (), False),
        (("stdout", "stderr"), ("--dry-run", "--no-pager"), False),
        (("stdout", "stderr"), ("--json",), True),
        (("stdout",), (), True),
        (("stderr",), (), True),
    ],
)
def test_a_terminal_that_gets_report_and_log_is_told_of_a_failure_once(
    terminals: tuple[str, ...], options: tuple[str, ...], is_logged: bool, engine, run: Run, monkeypatch, capsys
) -> None:
    for stream in terminals:
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    engine.given = a_plan(BROKEN, EXPIRED)
    assert run("clean", *options) == 1
    said = capsys.readouterr()
    assert BROKEN.error in said.out
    assert ("partition_failed" in said.err) is is_logged


def test_leftovers_that_would_go_are_something_to_do(engine: FakeCleaner, run: Run) -> None:
    engine.given, engine.dry_outcome = a_plan(YOUNG), lambda _: Outcome(True, {}, swept_bytes=5)
    assert run("clean", "--dry-run", "--exit-code") == 10


def test_a_checkpoint_that_could_not_be_written_is_a_failure(engine, run: Run, capsys) -> None:
    engine.done_outcome = lambda _: Outcome(False, {}, errors=("/data/x: no space",))
    assert run("clean") == 1
    assert "log_dir_failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotALogDir("/nowhere", "does not exist"), 2),
        (LogDirLocked("/data", 4711), 3),
        (OutOfSpace("/data/x", 10), 1),
        (UnreadableFile("/data", "Permission denied"), 1),
        (PermissionError(13, "Permission denied", "/data/x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_error_gives_its_status_and_one_line(error, status: int, engine, run: Run, capsys) -> None:
    engine.raises = error
    assert run("clean") == status
    told = capsys.readouterr().err
    assert told.count("\n") == (0 if status == 130 else 1)
    assert "Traceback" not in told


def test_bug_is_called_one_and_its_traceback_comes_with_vv(engine, run: Run, capsys) -> None:
    engine.raises = ZeroDivisionError("oops")
    assert run("clean") == 1
    told = capsys.readouterr().err
    assert "bug: ZeroDivisionError: oops" in told
    assert "-vv" in told
    assert "Traceback" not in told
    assert run("clean", "-vv") == 1
    assert "Traceback" in capsys.readouterr().err


def test_every_failure_has_its_line_on_stderr(engine, run: Run, capsys) -> None:
    engine.given = a_plan(BROKEN, unreadable("orders-2", "other"))
    run("clean", "--json")
    lines = capsys.readouterr().err.splitlines()
    assert [("orders" in line, "partition_failed" in line) for line in lines] == [(True, True)] * 2


def test_unknown_configuration_gets_one_line_with_the_remedy(engine, run: Run, capsys) -> None:
    engine.given = a_plan(UNKNOWN, a_partition("copied-1", 9))
    run("clean")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "CONFIG_UNKNOWN" in told
    assert "topic copied was touched" in told
    assert "state it" in told


def test_json_is_one_document_and_nothing_else_on_stdout(engine, run: Run, capsys) -> None:
    engine.given = a_plan(EXPIRED)
    run("clean", "--json", "--dry-run", "-v")
    assert json.loads(capsys.readouterr().out)["dry_run"] is True


def test_dry_run_never_cleans(engine, run: Run, tmp_path) -> None:
    for name in ("orders-0", "prices-0"):
        (tmp_path / name).mkdir()
    run("clean", "--dry-run", "--exact", "--delete-delay", "0", "--topic", "orders", "p*")
    assert engine.asked == [
        ("plan", ("orders", "p*")),
        ("would_do", {"exact": True}),
    ]
    assert engine.requests[0].delete_delay_ms == 0


def test_options_reach_the_engine(engine, run: Run) -> None:
    run("clean", "--only", "compaction", "--force-compaction", "--delete-delay", "2m", "--threads", "3")
    assert engine.asked == [("clean", ())]
    assert engine.requests[0].delete_delay_ms == 120_000
    assert engine.requests[0].only is Only.COMPACTION
    assert engine.requests[0].force_compaction
    assert engine.threads == 3


def test_several_log_dirs_are_opened_together(engine, tmp_path) -> None:
    dirs = [a_log_dir(tmp_path / name) for name in "abc"]
    main(["clean", "--log-dir", *map(str, dirs[:2]), "--log-dir", str(dirs[2])])
    assert list(engine.log_dirs) == dirs


@pytest.mark.parametrize("options", [("--exact",), ("--exit-code",), ("--set", "nonsense"), ("--config", "/no")])
def test_wrong_usage_is_told_before_anything_is_done(options, engine, run: Run, capsys) -> None:
    assert run("clean", *options) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert engine.asked == []


def test_forced_compaction_does_not_go_with_retention_alone(engine, run: Run, capsys) -> None:
    for dry in ((), ("--dry-run",)):
        assert run("clean", "--only", "retention", "--force-compaction", *dry) == 2
        assert "--force-compaction: does not go with --only retention" in capsys.readouterr().err
    assert engine.asked == []
    assert run("clean", "--only", "compaction", "--force-compaction") == 0


def test_every_wrong_setting_has_its_line(engine, run: Run, capsys) -> None:
    assert run("clean", "--set", "retention.msec=1", "--set", "retention.bytes=x") == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 2
    assert "did you mean retention.ms?" in told


def test_log_dirs_come_from_the_configuration_unless_named(engine, tmp_path) -> None:
    config = tmp_path / "logcleaner.toml"
    config.write_text(f'log.dirs = ["{a_log_dir(tmp_path / "configured")}"]')
    a_log_dir(tmp_path)
    assert main(["clean", "--config", str(config)]) == 0
    assert list(engine.log_dirs) == [tmp_path / "configured"]
    assert main(["clean", "--config", str(config), "--log-dir", str(tmp_path)]) == 0
    assert list(engine.log_dirs) == [tmp_path]


def test_brokers_own_properties_name_its_log_dirs(engine, tmp_path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={a_log_dir(tmp_path / 'a')},{a_log_dir(tmp_path / 'b')}")
    assert main(["clean", "--server-properties", str(properties)]) == 0
    assert list(engine.log_dirs) == [tmp_path / "a", tmp_path / "b"]


def test_properties_that_cannot_be_read_are_wrong_usage(engine, run: Run, capsys) -> None:
    assert run("clean", "--server-properties", "/no/such") == 2
    assert "--server-properties" in capsys.readouterr().err


def test_no_log_dir_at_all_is_wrong_usage(capsys) -> None:
    assert main(["clean"]) == 2
    assert "--log-dir" in capsys.readouterr().err


class TestNow:
    def test_a_later_time_needs_a_dry_run(self, engine, run: Run, capsys) -> None:
        assert run("clean", "--now", "+1d") == 2
        assert "--dry-run" in capsys.readouterr().err
        assert engine.asked == []
        assert run("clean", "--now", "+1d", "--dry-run") == 0

    def test_an_earlier_time_is_taken(self, engine, run: Run) -> None:
        run("clean", "--now", "1700000000000")
        assert engine.requests[0].now_ms == 1_700_000_000_000

    def test_without_it_the_clock_holds(self, engine, run: Run, monkeypatch) -> None:
        monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)
        run("clean")
        run("clean", "--dry-run", "--now", "+7d")
        assert [request.now_ms for request in engine.requests] == [NOW_MS, NOW_MS + 7 * DAY_MS]


class TestAssumeCommitted:
    def test_without_a_terminal_it_needs_yes(self, engine, run: Run, capsys) -> None:
        assert run("clean", "--assume-committed") == 5
        assert "--yes" in capsys.readouterr().err
        assert engine.asked == []
        assert run("clean", "--assume-committed", "--yes") == 0
        assert engine.requests[0].assume_committed

    def test_dry_run_endangers_nothing(self, engine, run: Run) -> None:
        assert run("clean", "--assume-committed", "--dry-run") == 0

    @pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("\n", 5), ("no\n", 5), ("", 5)])
    def test_on_a_terminal_it_asks(self, answer: str, status: int, engine, run: Run, monkeypatch, capsys) -> None:
        on_a_terminal(monkeypatch, answer)
        assert run("clean", "--assume-committed") == status
        assert "[y/N]" in capsys.readouterr().err
        assert bool(engine.asked) == (status == 0)


class TestGuards:
    def test_without_a_terminal_what_they_hold_is_told_and_the_rest_done(self, engine, run: Run, capsys) -> None:
        engine.given = a_plan(GUARDED, EXPIRED)
        assert run("clean") == 5
        (line,) = capsys.readouterr().err.splitlines()
        assert "MAX_DELETE_RATIO: /data/guarded-0: 2 of 3 segments" in line
        assert "add --yes" in line
        assert [what for what, _ in engine.asked] == ["clean"]
        assert not engine.requests[0].confirmed

    @pytest.mark.parametrize("options", [("--yes",), ("--yes", "--dry-run")])
    def test_yes_reaches_the_plan(self, options, engine, run: Run) -> None:
        run("clean", *options)
        assert engine.requests[0].confirmed

    @pytest.mark.parametrize(("answer", "status"), [("y\n", 5), ("\n", 5)])
    def test_on_a_terminal_they_ask_before_anything_is_done(self, answer, status, engine, run, monkeypatch) -> None:
        engine.given = a_plan(GUARDED)
        on_a_terminal(monkeypatch, answer)
        assert run("clean") == status  # the plan handed out here stays a guarded one
        confirmed = [request.confirmed_guards for request in engine.requests]
        assert confirmed == ([frozenset(), engine.given.guard_keys] if answer == "y\n" else [frozenset()])
        assert not any(request.confirmed for request in engine.requests)

    def test_on_a_terminal_nothing_is_asked_where_nothing_is_held(self, engine, run: Run, monkeypatch, capsys) -> None:
        on_a_terminal(monkeypatch, "no\n")
        engine.given = a_plan(EXPIRED)
        assert run("clean") == 0
        assert "[y/N]" not in capsys.readouterr().err


class TestSignals:
    @pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_signal_stops_the_run_between_steps(self, number, status: int, engine, run: Run, capsys) -> None:
        engine.given = a_plan(EXPIRED)
        engine.while_cleaning = lambda: os.kill(os.getpid(), number)
        engine.done_outcome = lambda _: Outcome(False, {}, interrupted=True)
        assert run("clean") == status
        assert engine.stopped
        assert "Interrupted" in capsys.readouterr().out

    @pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_second_signal_ends_it_at_once(self, number, status: int, engine, run: Run) -> None:
        engine.while_cleaning = lambda: [os.kill(os.getpid(), number) for _ in range(2)]
        assert run("clean") == status

    def test_handlers_are_put_back(self, engine, run: Run) -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        run("clean")
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    def test_signal_behind_the_last_step_changes_nothing(self, engine, run: Run) -> None:
        engine.while_cleaning = lambda: os.kill(os.getpid(), signal.SIGINT)
        engine.done_outcome = lambda plan: replace(a_run(plan), interrupted=False)
        assert run("clean") == 0


def test_output_asks_for_a_copy_and_says_nothing_of_files_that_wait(run, engine, capsys, tmp_path):
    assert run("clean", "--output", str(tmp_path / "copy")) == ExitStatus.DONE
    assert [what for what, _ in engine.asked] == ["copy", "output"]
    assert engine.asked[-1] == ("output", tmp_path / "copy")
    assert ".deleted" not in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--dry-run"], ["--delete-delay", "0"]])
def test_output_does_not_go_with_what_makes_no_sense_there(run, engine, option, tmp_path, capsys):
    assert run("clean", "--output", str(tmp_path / "copy"), *option) == ExitStatus.USAGE
    assert f"does not go with {option[0]}" in capsys.readouterr().err
    assert engine.asked == []


def test_output_goes_with_one_log_dir(run, engine, tmp_path, capsys):
    other = str(a_log_dir(tmp_path / "other"))
    assert run("clean", "--output", str(tmp_path / "copy"), "--log-dir", other) == ExitStatus.USAGE
    assert "needs exactly one log dir" in capsys.readouterr().err
