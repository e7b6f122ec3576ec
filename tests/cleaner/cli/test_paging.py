"""Reports on a terminal go through a pager, as git's do: the child runs on a pseudo-terminal."""

import os
import pty
import signal
import sys
import time
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.cli.showing import page, pager_of
from tests.partition_dirs import PartitionDir, committed, keyed

EVERYTHING = 1 << 20
LONG_AGO_MS = 1_700_000_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    made = PartitionDir(tmp_path / "logs", "clicks-0")
    made.segment(0, keyed(0, "a=1", timestamp_ms=LONG_AGO_MS)).segment(10, keyed(10, "b=1", timestamp_ms=LONG_AGO_MS))
    return committed(tmp_path / "logs", made)


def on_a_terminal(*words: str, **variables: str) -> tuple[int, str]:
    """Run the command on a pseudo-terminal of its own. Return its exit status, and what the terminal got."""
    child, terminal = pty.fork()
    if not child:
        os.environ.update({"TERM": "xterm", "COLUMNS": "80", **variables})
        os.execv(sys.executable, [sys.executable, "-m", "cleaner", *words])
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, EVERYTHING)
        except OSError:  # the terminal ends with its last process
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode(errors="replace")


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"LOGCLEANER_PAGER": "sort", "PAGER": "more"}, "sort"),
        ({"PAGER": "sort -r | uniq"}, "sort -r | uniq"),
        ({"LOGCLEANER_PAGER": "", "PAGER": "sort"}, None),
        ({"PAGER": "cat"}, None),
        ({"PAGER": "there-is-no-such-pager -x"}, None),
    ],
)
def test_pager_is_the_one_that_the_user_names(environment: dict[str, str], command: str | None) -> None:
    assert pager_of({"PATH": os.environ["PATH"], **environment}) == command


def test_without_a_wish_the_pager_is_less_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "less").touch(mode=0o755)
    assert pager_of({"PATH": str(tmp_path)}) == "less"
    assert pager_of({"PATH": str(tmp_path / "empty")}) is None


@pytest.mark.parametrize(
    "words",
    [
        *(("topics",), ("clean", "--dry-run"), ("history",), ("owners",), ("explain", "clicks-0"), ("config", "show")),
        *(("config", "explain", "retention.ms"), ("config", "explain", "retention.ms", "--topic", "clicks")),
    ],
)
def test_reading_commands_and_dry_runs_show_their_report_through_it(words: tuple[str, ...], log_dir: Path) -> None:
    status, shown = on_a_terminal(*words, "--log-dir", str(log_dir), LOGCLEANER_PAGER="sed s/^/PAGED/")
    assert "PAGED" in shown
    assert status in {0, 5}


@pytest.mark.parametrize(
    "words", [("topics", "--no-pager"), ("topics", "--json"), ("clean",), ("--no-pager", "topics")]
)
def test_what_changes_things_is_json_or_wants_no_pager_has_none(words: tuple[str, ...], log_dir: Path) -> None:
    _, shown = on_a_terminal(*words, "--log-dir", str(log_dir), LOGCLEANER_PAGER="sed s/^/PAGED/")
    assert "clicks" in shown
    assert "PAGED" not in shown


def test_a_terminal_without_styles_has_its_pager_too(log_dir: Path) -> None:
    """rich does not take it for a terminal: the pager got an empty text, and the report went past it."""
    words = ("topics", "--log-dir", str(log_dir))
    _, shown = on_a_terminal(*words, LOGCLEANER_PAGER="sed s/^/PAGED/", TTY_COMPATIBLE="0")
    lines = shown.splitlines()
    assert any("clicks-0" in line for line in lines)
    assert all(line.startswith("PAGED") for line in lines)


def test_piped_report_has_no_pager(log_dir: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("LOGCLEANER_PAGER", "sed s/^/PAGED/")
    assert main(["topics", "--log-dir", str(log_dir)]) == 0
    assert "PAGED" not in capsys.readouterr().out


def test_leaving_the_pager_early_keeps_the_exit_status_and_shows_no_traceback(log_dir: Path) -> None:
    words = ("clean", "--dry-run", "--exit-code", "-v", "--set", "cleanup.policy=delete", "--set", "retention.ms=1")
    status, shown = on_a_terminal(*words, "--log-dir", str(log_dir), LOGCLEANER_PAGER="true")
    assert status == 10
    assert all(line.startswith("logcleaner: --set ") for line in shown.splitlines())


def test_pager_gets_the_settings_of_git_unless_the_user_has_some(log_dir: Path, monkeypatch) -> None:
    monkeypatch.delenv("LESS", raising=False)
    pager = "sh -c 'echo \"LESS=$LESS\"'"
    assert "LESS=FRX" in on_a_terminal("topics", "--log-dir", str(log_dir), LOGCLEANER_PAGER=pager)[1]
    assert "LESS=-S\r" in on_a_terminal("topics", "--log-dir", str(log_dir), LOGCLEANER_PAGER=pager, LESS="-S")[1]


def test_report_is_shown_where_the_shell_cannot_start_the_pager(log_dir: Path) -> None:
    status, shown = on_a_terminal("topics", "--log-dir", str(log_dir), LOGCLEANER_PAGER="no-such-pager | cat; exit 127")
    assert "clicks-0" in shown
    assert status == 0


def test_interrupt_belongs_to_the_pager(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        started = page("a report\n", f"trap '' INT; touch {tmp_path / 'up'}; sleep 0.5; touch {tmp_path / 'done'}")
        os._exit(0 if started else 1)
    deadline = time.monotonic() + 120
    while not (tmp_path / "up").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(child, signal.SIGINT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "done").exists()


def test_text_larger_than_a_pipe_that_nobody_reads_is_no_error() -> None:
    assert page("x" * (EVERYTHING * 2), "true")


@pytest.mark.parametrize(
    "words", [("clean",), ("clean", "-v"), ("clean", "-n"), ("clean", "-q"), ("clean", "-n", "-q")]
)
def test_a_terminal_gets_each_failure_once(words: tuple[str, ...], log_dir: Path) -> None:
    (log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("garbled\n")
    status, shown = on_a_terminal(*words, "--no-pager", "--log-dir", str(log_dir))
    assert (status, shown.count("'garbled'")) == (1, 1)


def test_a_failure_is_logged_too_where_the_report_goes_elsewhere(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("garbled\n")
    assert main(["clean", "--log-dir", str(log_dir)]) == 1
    told, logged = capsys.readouterr()
    assert (told.count("'garbled'"), logged.count("'garbled'")) == (1, 1)


@pytest.mark.parametrize("command", [("clean", "-n"), ("topics",), ("config", "show")])
def test_no_color_leaves_no_style_on_a_terminal(log_dir: Path, command: tuple[str, ...]) -> None:
    arguments = (*command, "--log-dir", str(log_dir), "--set", "cleanup.policy=delete", "--set", "retention.ms=1d")
    assert "\x1b[1m" in on_a_terminal(*arguments, LOGCLEANER_PAGER="cat", NO_COLOR="")[1]
    assert "\x1b[" not in on_a_terminal(*arguments, LOGCLEANER_PAGER="cat", NO_COLOR="1")[1]


def test_lines_of_diff_fit_a_terminal(log_dir: Path) -> None:
    _, shown = on_a_terminal("diff", str(log_dir), str(log_dir), LOGCLEANER_PAGER="cat", NO_COLOR="1")
    assert "1 partition compared" in shown
    assert max(map(len, shown.splitlines())) <= 80
