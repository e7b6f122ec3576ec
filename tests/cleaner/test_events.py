import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import cleaner.engine
from cleaner import events
from cleaner.cli.exit_status import complain
from cleaner.cli.main import main
from cleaner.events import Event, EventLog, LogFormat, format_of, format_under


@pytest.mark.parametrize(
    ("verbosity", "told"),
    [(0, {Event.PARTITION_FAILED}), (1, {Event.PARTITION_FAILED, Event.SEGMENT_DELETED}), (7, {*Event})],
)
def test_verbosity_decides_what_is_told(verbosity: int, told: set[Event], capsys: pytest.CaptureFixture[str]) -> None:
    log = EventLog(verbosity)
    for event in told | {Event.SEGMENT_DELETED}:
        log.event(event, topic="orders")
    printed = capsys.readouterr().err
    assert {event for event in Event if re.search(rf"\b{event}\b", printed)} == told


def test_json_line_holds_name_level_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    EventLog(1, LogFormat.JSON).event("segment_deleted", topic="orders", partition=3, bytes=7)
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert next(iter(line)) == "event"  # what a person reads first in a journal
    assert captured.out == ""
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "segment_deleted",
        "level": "info",
        "topic": "orders",
        "partition": 3,
        "bytes": 7,
    }


def test_console_line_is_plain_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    EventLog().event("partition_failed", topic="orders", error="no")
    told = capsys.readouterr().err
    assert "partition_failed" in told
    assert "topic=orders" in told
    assert "\x1b" not in told


def test_auto_is_json_unless_stderr_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, program = os.openpty()
    with os.fdopen(terminal), os.fdopen(program, "w") as on_a_terminal:
        monkeypatch.setattr(sys, "stderr", on_a_terminal)
        assert format_of("auto") is LogFormat.CONSOLE
        assert format_of("json") is LogFormat.JSON
    with Path(os.devnull).open("w") as elsewhere:
        monkeypatch.setattr(sys, "stderr", elsewhere)
        assert format_of("auto") is LogFormat.JSON
        assert format_of("console") is LogFormat.CONSOLE


def test_what_stands_behind_the_command_wins_over_auto_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "orders-0").mkdir()
    command = ["--log-format", "auto", "clean", "--dry-run", "--log-dir", str(tmp_path)]
    main(command)
    assert json.loads(capsys.readouterr().err.splitlines()[0])["event"] == Event.WORLD_WRITABLE
    main([*command, "--log-format", "console"])
    assert not capsys.readouterr().err.startswith("{")


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "a b\rc", "a\u202eb", "a\udc80b"])
def test_no_name_moves_the_cursor(log_format, name, capsys) -> None:
    EventLog(log_format=log_format).event("log_dir_failed", error=name)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_progress_goes_to_the_bar() -> None:
    class Sum:
        done_bytes = 0

        def advance(self, done_bytes: int) -> None:
            self.done_bytes += done_bytes

    bar = Sum()
    log = EventLog(advance=bar.advance)
    log.progress(3)
    log.progress(4)
    EventLog().progress(5)
    assert bar.done_bytes == 7


def test_every_event_that_the_engine_tells_is_listed_and_every_listed_one_described() -> None:
    (folder,) = cleaner.engine.__path__
    sources = "\n".join(path.read_text() for path in Path(folder).rglob("*.py"))
    told = set(re.findall(r'event\(\s*"([a-z_]+)"', sources))
    assert told
    assert told <= {*Event}
    assert all(re.search(rf"^    {event} ", events.__doc__ or "", re.MULTILINE) for event in Event)


def test_levels_are_those_of_the_description() -> None:
    for event in Event:
        level = event.level.name.lower()
        assert re.search(rf"^    {event} +{level} ", events.__doc__ or "", re.MULTILINE), event


def test_what_is_bound_stands_in_every_line_of_the_bound_log_alone(capsys: pytest.CaptureFixture[str]) -> None:
    log = EventLog(1, LogFormat.JSON)
    log.bind(round=7).bind(log_dir="/data").event("log_dir_free", log_dir="/other")
    log.event("segment_rolled")
    bound, plain = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (bound["round"], bound["log_dir"]) == (7, "/other")
    assert "round" not in plain


Heard = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Gives the lines of what is called while a file stands in for the journal's stream."""

    def heard(call: Callable[[], object]) -> list[str]:
        with (tmp_path / "journal").open("w", buffering=1) as stream, monkeypatch.context() as patched:
            patched.setattr("sys.stderr", stream)
            status = (tmp_path / "journal").stat()
            patched.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
            call()
        return (tmp_path / "journal").read_text().splitlines()

    return heard


@pytest.mark.parametrize("log_format", LogFormat)
def test_each_line_tells_the_journal_its_priority(journal: Heard, log_format: LogFormat) -> None:
    log = EventLog(2, log_format)
    events = ("job_begun", "segment_deleted", "held_back", "log_dir_failed")
    lines = journal(lambda: [log.event(event, error="x") for event in events])
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>"]


def test_what_is_no_event_has_its_priority_too(journal: Heard) -> None:
    assert journal(lambda: complain("look at this")) == ["<4>logcleaner: look at this"]
    (line,) = journal(lambda: main(["clean", "--log-dir", "/no/such/dir"]))
    assert line.startswith("<3>logcleaner: /no/such/dir")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--log-dir", "/no/such/dir"], 6, ["/no/such/dir: does not exist"]),
        (
            ["--log-dir", "/tmp", "--set", "retention.ms=soon", "--set", "cleanup.policy=x"],
            2,
            ["retention.ms", "cleanup"],
        ),
    ],
)
def test_a_daemon_that_cannot_start_says_so_as_events(
    journal: Heard, arguments: list[str], status: int, told: list[str]
) -> None:
    lines = journal(lambda: main(["run", *arguments]))
    assert {line[:3] for line in lines} == {"<3>"}
    events = [json.loads(line[3:]) for line in lines]
    assert [(event["event"], event["status"]) for event in events] == [("daemon_failed", status)] * len(told)
    errors = " ".join(event["error"] for event in events)
    assert all(text in errors for text in told)


def test_lines_have_no_priority_where_nobody_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    EventLog(0, LogFormat.JSON).event("held_back")
    complain("look at this")
    assert "<" not in capsys.readouterr().err


def test_lines_are_json_where_stderr_goes_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "journal").open("w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        status = (tmp_path / "journal").stat()
        assert format_under({"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}) is LogFormat.JSON
        assert format_under({"JOURNAL_STREAM": "1:2"}) is LogFormat.CONSOLE
        assert format_under({}) is LogFormat.CONSOLE


def test_an_event_that_cannot_be_written_is_dropped(monkeypatch) -> None:
    """The reader of the pipe is gone; the work goes on."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1) as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        log = EventLog(2, LogFormat.JSON)
        assert [log.event(name, log_dirs=["x"]) for name in ("daemon_started", "daemon_stopped")] == [None, None]
        monkeypatch.undo()
        with suppress(OSError):
            broken.close()


def test_lists_of_a_journals_line_are_json_for_people_too(capsys):
    EventLog(0, LogFormat.CONSOLE).event("journal_waits", what="delete", segments=[{"base_offset": 0, "undo": None}])
    told = capsys.readouterr().err
    assert '[{"base_offset": 0, "undo": null}]' in told
