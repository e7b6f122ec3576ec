import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cleaner import __version__
from cleaner.cli.main import build_parser, main, prepare_streams, status_if_shown
from cleaner.cli.waiting import stopping_on_signals
from tests.partition_dirs import PartitionDir, committed, keyed, latest

ROOT = Path(__file__).parents[3]
NEEDED_ELSEWHERE = {
    *("cleaner.engine.copy.copying", "cleaner.engine.freeing"),
    *("storage.log.log", "storage.metadata.metadata_log", "storage.scan.extents", "storage.scan.partitions"),
    "storage.stores.asking",
    *("concurrent.futures", "importlib.metadata", "logging", "pydantic", "rich", "secrets", "structlog"),
}
HEAVY = {"numba", "numpy", "pyspark", "pandas", "pyarrow", "llvmlite", "pydantic", "structlog", "rich", "lz4"}


def imported_by(*arguments: str, status: int = 0) -> set[str]:
    """Top-level modules that a process of this command line imports; it must end with the status."""
    return {name.partition(".")[0] for name in modules_of(*arguments, status=status)}


def modules_of(*arguments: str, status: int = 0) -> set[str]:
    """Modules that a process of this command line imports; it must end with the status."""
    call = f"from cleaner.cli.main import main; status = main({list(arguments)})"
    script = f"{call}; import sys; print('MODULES', *sys.modules); sys.exit(status)"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == status, done.stderr
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), *((name, "--help") for name in ("clean", "topics", "history", "restore"))],
)
def test_what_only_parses_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments) & HEAVY == set()


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", b"\\xe9"), ("utf-8", "é".encode())])
def test_what_the_streams_cannot_show_is_escaped(
    encoding: str, shown: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name ends the program."""
    streams = {"stdout": io.BytesIO(), "stderr": io.BytesIO()}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding, write_through=True))
    log_dir = tmp_path / "é"
    committed(log_dir, PartitionDir(log_dir, "clicks-0").segment(0, keyed(0, "a=1")))
    assert main(["topics", "--log-dir", str(log_dir)]) == 0
    assert main(["topics", "--log-dir", str(log_dir / "absent")]) == 6
    assert all(b"/" + shown in stream.getvalue() for stream in streams.values())


def test_mistake_loads_nothing_heavy() -> None:
    assert imported_by("clean", "--frob", status=2) & HEAVY == set()


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("clean", "--dry-run", "--json"), set()),
        (("clean", "--dry-run"), set()),
        (("topics",), {"rich"}),
        (("history",), set()),
        (("restore",), set()),
    ],
)
def test_reading_commands_load_no_kernels(arguments: tuple[str, ...], allowed: set[str], demo: Path) -> None:
    assert imported_by(*arguments, "--log-dir", str(demo)) & HEAVY <= allowed


def test_a_clean_that_compacts_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    """Each of these takes a part of the time in which it starts."""
    log_dir = tmp_path / "data"
    state = PartitionDir(log_dir, "state-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"))
    committed(log_dir, state.segment(2, keyed(2, "a=3")))
    policy = ("--kafka-defaults", "--set", "cleanup.policy=compact", "--force-compaction")
    modules = modules_of("clean", "--log-dir", str(log_dir), *policy)
    assert latest(log_dir / "state-0") == {b"a": b"3"}
    assert "storage.kernels.offset_map" in modules
    assert modules & NEEDED_ELSEWHERE == set()


@pytest.mark.parametrize(("command", "is_seldom"), [("topics", True), ("run", False)])
def test_collector_looks_seldom_but_in_the_daemon(
    command: str, is_seldom: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[tuple[int, ...]] = []
    monkeypatch.setattr(gc, "set_threshold", lambda *thresholds: set_to.append(thresholds))
    assert main([command, "--config", "/nowhere"]) == 2
    assert bool(set_to) is is_seldom


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"logcleaner {__version__}\n"


def test_module_runs_as_the_command_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cleaner", "--version"], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (0, f"logcleaner {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("clean", "--frob"),
        ("clean", "--only", "all"),
        ("clean", "--now", "tomorrow"),
        ("clean", "--threads", "0"),
        ("clean", "--dry"),
        ("clean", "--kafka-defaults", "--server-properties", "x"),
    ],
)
def test_mistake_is_one_line_and_status_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "--help" in told


@pytest.mark.parametrize("arguments", [("-v", "clean"), ("clean", "-v")])
def test_verbosity_may_stand_before_and_behind_the_command(arguments: tuple[str, ...]) -> None:
    assert build_parser().parse_args(arguments).verbose == 1


def test_help_of_clean_lists_its_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {status:<4} " in told for status in (0, 1, 2, 3, 5, 6, 10, 130, 143))


COMMANDS = (
    "clean", "free", "run", "topics", "owners", "analyze", "history", "restore", "systemd", "diff", "export", "demo",
)  # fmt: skip


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS), ("systemd", "install")])
def test_help_fits_80_columns(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*arguments, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_script_knows_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "force-compaction" in script
    assert "topics" in script


@pytest.mark.parametrize("options", ["clean --help", "topics --log-dir {demo}"])
def test_reader_that_goes_away_is_no_error(options: str, demo: Path) -> None:
    command = f"{sys.executable} -m cleaner {options.format(demo=demo)} | true"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""


def test_missing_directory_is_not_there_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--log-dir", str(tmp_path / "nowhere")]) == 6
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("clena",), "no such command: clena; did you mean clean?; see logcleaner --help"),
        (("frobnicate",), "no such command: frobnicate; choose from free, clean, delete-records, "),
        (("clean", "--dryrun"), "no such option: --dryrun; did you mean --dry-run?; see logcleaner clean --help"),
        (("clean", "--log-dir", "/d", "--Dry-Run"), "did you mean --dry-run?"),
        (("clean", "--threads", "2", "-dry-run"), "unrecognized arguments: -dry-run; did you mean --dry-run?"),
        (("clean", "-n", "log-dir", "logs"), "no such directory: log-dir; did you mean --log-dir?"),
        (("free", "--targt=20GiB"), "no such option: --targt=20GiB; did you mean --target?; see logcleaner free"),
        (("topics", "--logdir", "x"), "did you mean --log-dir?"),
        (("topics", "--dry-run"), "no such option: --dry-run; see logcleaner topics --help"),
        (("--verison",), "did you mean --version?"),
        (("clean", "--only", "compact"), "argument --only: no such choice: compact; did you mean compaction?"),
        (("export", "orders-0", "x", "--to", "json"), "argument --to: no such choice: json; did you mean jsonl?"),
        (("completion", "bsh"), "did you mean bash?"),
        (("systemd", "instal"), "no such command: instal; did you mean install?"),
        (("systemd", "install", "--perfix", "x"), "did you mean --prefix?; see logcleaner systemd install --help"),
        (("systemd", "print", "logcleaner.servce"), "did you mean logcleaner.service?"),
    ],
)
def test_mistyped_word_is_told_with_the_nearest(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_value_of_an_option_may_begin_with_a_dash_and_a_digit(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["free", "--log-dir", str(demo), "--target", "-5GiB"]) == 2
    assert "argument --target: '-5GiB' is no size" in capsys.readouterr().err
    assert main(["clean", "--log-dir", str(demo), "--delete-delay", "-1d"]) == 2
    assert "argument --delete-delay: '-1d' must be" in capsys.readouterr().err
    assert main(["clean", "--dry-run", "--log-dir", str(demo), "--now", "-36h"]) == 0


def run_in_shell(command: str, demo: Path, variables: str = "") -> subprocess.CompletedProcess[str]:
    line = f"{variables} {sys.executable} -m cleaner {command.format(demo=demo)}"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(["sh", "-c", line], check=False, capture_output=True, text=True, cwd=ROOT, env=buffered)


@pytest.mark.parametrize(
    "command",
    [
        "topics --log-dir {demo}",
        "topics --log-dir {demo} --json",
        "clean --dry-run --log-dir {demo}",
        "history --log-dir {demo}",
        "restore --log-dir {demo}",
        "free --target 100% --dry-run --log-dir {demo}",
        "diff {demo} {demo}",
        "export orders-0 --to jsonl - --log-dir {demo}",
        "completion bash",
        "systemd print",
        "--help",
        "clean --help",
        "--version",
    ],
)
def test_closed_stdout_is_told_in_one_line_and_is_a_failure(command: str, demo: Path) -> None:
    done = run_in_shell(f"{command} >&-", demo)
    *_, line = done.stderr.splitlines()
    assert line.startswith("logcleaner: stdout is closed, so nobody got the result")
    assert "bug" not in done.stderr
    assert done.returncode == 1


SEE_HISTORY = "the run is done, only its report is missing: logcleaner history tells what was changed"


@pytest.mark.parametrize(
    ("written", "status", "has_acted", "shown", "told"),
    [
        ("", 0, True, 0, None),
        ("", 4, False, 4, None),
        ("a result", 0, False, 1, ""),
        ("a result", 0, True, 1, f"; {SEE_HISTORY}"),
        ("a result", 4, False, 4, ""),
    ],
)
def test_closed_stdout_is_a_failure_of_a_command_that_had_something_to_say(
    written: str, status: int, has_acted: bool, shown: int, told: str | None, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    prepare_streams()
    sys.stdout.write(written)
    assert status_if_shown(status, has_acted=has_acted) == shown
    line = f"logcleaner: stdout is closed, so nobody got the result{told}; add >/dev/null if nobody needs it\n"
    assert capsys.readouterr().err == ("" if told is None else line)


@pytest.mark.parametrize("variables", ["", "PYTHONUNBUFFERED=1"])
@pytest.mark.parametrize("command", ["topics --log-dir {demo}", "clean --dry-run --log-dir {demo}", "--help"])
def test_full_stdout_is_told_in_one_line_and_is_a_failure(command: str, variables: str, demo: Path) -> None:
    done = run_in_shell(f"{command} >/dev/full", demo, variables)
    assert done.stderr == "logcleaner: stdout: cannot be written: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("broken", [">/dev/full", ">&-"])
def test_a_run_whose_report_nobody_gets_says_where_to_read_what_it_did(broken: str, demo: Path, tmp_path: Path) -> None:
    log_dir = shutil.copytree(demo, tmp_path / "data")
    done = run_in_shell(f"clean --log-dir {{demo}} {broken}", log_dir)
    *_, line = done.stderr.splitlines()
    assert "the run is done, only its report is missing: logcleaner history tells what was changed" in line
    assert done.returncode == 1
    assert any(log_dir.rglob("*.deleted"))


def test_command_with_closed_stdout_does_its_work_first(demo: Path, tmp_path: Path) -> None:
    log_dir = shutil.copytree(demo, tmp_path / "data")
    assert run_in_shell("clean --log-dir {demo} >&-", log_dir).returncode == 1
    assert any(log_dir.rglob("*.deleted"))


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-"])
def test_other_closed_streams_change_no_result(closed: str, demo: Path) -> None:
    done = run_in_shell(f"topics --json --log-dir {{demo}} {closed}", demo)
    assert done.returncode == 0
    assert json.loads(done.stdout)["partitions"]
    done = run_in_shell(f"topics --log-dir /nowhere {closed}", demo)
    assert (done.returncode, done.stdout) == (6, "")


def test_question_without_stdin_is_refused(demo: Path) -> None:
    done = run_in_shell("clean --assume-committed --log-dir {demo} <&-", demo)
    assert done.returncode == 5
    assert "add --yes" in done.stderr


def test_closed_stream_leaves_its_number_to_no_file(demo: Path) -> None:
    """A child would write into a log that was opened as number 1."""
    program = "import os, sys; from cleaner.cli.main import main; main(['--version']); sys.exit(os.open('/', 0) < 3)"
    line = f'{sys.executable} -c "{program}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", line], check=False, cwd=ROOT).returncode == 0


SLOW_IMPORT = """
import os, signal, sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "cleaner.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
sys.meta_path.insert(0, Slow())
from cleaner.__main__ import run
sys.exit(run())
"""


def test_ctrl_c_while_the_command_line_is_loaded_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW_IMPORT], check=False, capture_output=True, preexec_fn=hearing)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def hearing() -> None:
    """Let a child hear SIGINT, which a shell has its background jobs ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Stubborn:
    def stop(self) -> None:
        pass


def twice(number: signal.Signals) -> None:
    with stopping_on_signals(Stubborn()):  # type: ignore[arg-type]
        signal.raise_signal(number)
        signal.raise_signal(number)


def test_a_second_signal_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        twice(signal.SIGTERM)
    assert "logcleaner history says what was done" in capsys.readouterr().err
