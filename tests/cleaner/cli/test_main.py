import gc
import subprocess
import sys
from pathlib import Path

import pytest

from cleaner import __version__
from cleaner.cli.main import build_parser, main

ROOT = Path(__file__).parents[3]
HEAVY = {"numba", "numpy", "pyspark", "pandas", "pyarrow", "llvmlite", "pydantic", "structlog", "rich", "lz4"}


def imported_by(*arguments: str, status: int = 0) -> set[str]:
    """Top-level modules that a process of this command line imports; it must end with the status."""
    call = f"from cleaner.cli.main import main; status = main({list(arguments)})"
    script = f"{call}; import sys; print('MODULES', *sys.modules); sys.exit(status)"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == status, done.stderr
    return {name.partition(".")[0] for name in done.stdout.rpartition("MODULES")[2].split()}


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), *((name, "--help") for name in ("clean", "topics", "history", "restore"))],
)
def test_what_only_parses_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments) & HEAVY == set()


def test_mistake_loads_nothing_heavy() -> None:
    assert imported_by("clean", "--frob", status=2) & HEAVY == set()


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("clean", "--dry-run", "--json"), set()),
        (("clean", "--dry-run"), {"rich"}),
        (("topics",), {"rich"}),
        (("history",), {"rich"}),
        (("restore",), {"rich"}),
    ],
)
def test_reading_commands_load_no_kernels(arguments: tuple[str, ...], allowed: set[str], demo: Path) -> None:
    assert imported_by(*arguments, "--log-dir", str(demo)) & HEAVY <= allowed


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
