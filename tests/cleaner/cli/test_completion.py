"""What a shell offers at TAB: commands, options, keys, and the topics and partitions of the log dirs on the line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cleaner.cli.main import main
from policies.config.config_keys import TOPIC_KEYS

ROOT = Path(__file__).parents[3]
SHELLS = ("bash", "zsh", "fish", "tcsh")
TRY = """
source "$SCRIPT"
COMP_LINE="$LINE" COMP_POINT=${#LINE}
read -ra COMP_WORDS <<< "$LINE"
[[ "$LINE" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_logcleaner
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the command, and the script for bash."""
    path = tmp_path_factory.mktemp("shell")
    (path / "logcleaner").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m cleaner "$@"\n')
    (path / "logcleaner").chmod(0o755)
    script = subprocess.run([path / "logcleaner", "completion", "bash"], check=True, capture_output=True)
    (path / "script").write_bytes(script.stdout)
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    for name in ("clicks-0", "clicks-1", "click.stream-0", "orders-0", "orders-7", "__consumer_offsets-3"):
        (path / name).mkdir(parents=True)
    for name in ("gone-0.0123456789abcdef0123456789abcdef-delete", "$(touch owned)-0", "notes", "__cluster_metadata-0"):
        (path / name).mkdir()
    (path / "file-0").touch()
    return path


def completed(shell: Path, line: str, cwd: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{shell}:{os.environ['PATH']}", "SCRIPT": str(shell / "script"), "LINE": line}
    command = ["bash", "--norc", *options, "-c", TRY]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=cwd)


def offered(shell: Path, line: str, cwd: Path | None = None) -> list[str]:
    """What bash completes at the end of a line; anything on stderr is a failure."""
    done = completed(shell, line, cwd)
    assert done.stderr == ""
    return [word.rstrip() for word in done.stdout.splitlines() if word]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("topics --log-dir {dir} --topic ", ["__consumer_offsets", "click.stream", "clicks", "orders"]),
        ("topics --log-dir={dir} --topic cl", ["click.stream", "clicks"]),
        ("topics --log-dir /nowhere {dir} --topic or", ["orders"]),
        ("topics --log-dir {dir} --topic clicks", ["clicks", "clicks-0", "clicks-1"]),
        ("topics --log-dir {dir} --topic orders-", ["orders-0", "orders-7"]),
        ("config explain retention.ms --log-dir {dir} --topic or", ["orders"]),
        ("history --config {dir}/config.toml or", ["orders-0", "orders-7"]),
        ("export --config {dir}/nested.toml or", ["orders-0", "orders-7"]),
        ("restore --config {dir}/names.toml --topic or", ["orders"]),
        ("clean --server-properties {dir}/server.properties --topic or", ["orders"]),
        ("clean --config {dir}/wrong.toml --topic ", []),
        ("clean --log-dir /nowhere --topic ", []),
        ("clean --topic ", []),
        ("clean --log-dir {dir} --topic 'or", []),
    ],
)
def test_names_are_those_of_the_log_dirs_on_the_line(shell: Path, log_dir: Path, line: str, names: list[str]) -> None:
    (log_dir / "config.toml").write_text(f'log.dirs = ["{log_dir}"]\n')
    (log_dir / "nested.toml").write_text(f'server.properties = "x"\n[log]\ndirs = "/nowhere, {log_dir}"\n')
    (log_dir / "names.toml").write_text('server.properties = "server.properties"\n')
    (log_dir / "wrong.toml").write_text("log.dirs = [")
    (log_dir / "server.properties").write_text(f"log.dir={log_dir}\n")
    assert offered(shell, f"logcleaner {line.format(dir=log_dir)}", log_dir) == names
    assert not (log_dir / "owned").exists(), "a shell expands what it is offered"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("config explain retention.", ["retention.bytes", "retention.future.timestamps", "retention.ms"]),
        ("config explain log.retention.h", ["log.retention.hours"]),
        ("clean --set retention.", ["retention.bytes=", "retention.future.timestamps=", "retention.ms="]),
        ("config sh", ["show"]),
        ("con", ["config"]),
        ("config check --conf", ["--config"]),
    ],
)
def test_keys_and_commands_are_in_the_script(shell: Path, line: str, words: list[str]) -> None:
    assert offered(shell, f"logcleaner {line}") == words


def test_a_name_more_takes_four_commands_of_the_shell_and_no_process(shell: Path, log_dir: Path) -> None:
    line, found, steps, in_processes = f"logcleaner topics --log-dir {log_dir} --topic topic-1", [], [], []
    for count in (20, 2_000):
        for number in range(count):
            (log_dir / f"topic-{number}-0").mkdir(exist_ok=True)
        done = completed(shell, line, None, "-x")
        found.append(len(offered(shell, line)))
        steps.append(len(re.findall(r"^\+", done.stderr, re.MULTILINE)))
        in_processes.append(len(re.findall(r"^\+\+", done.stderr, re.MULTILINE)))
    assert found == [12, 1_112]
    assert steps[1] - steps[0] <= 4 * (found[1] - found[0])
    assert in_processes[1] == in_processes[0]


def test_what_does_not_answer_is_given_up_in_silence(shell: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    assert offered(shell, f"logcleaner topics --config {tmp_path}/config.toml --topic ") == []


@pytest.mark.parametrize("name", SHELLS)
def test_every_shell_is_told_the_keys_and_asks_for_the_rest(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", name]) == 0
    script = capsys.readouterr().out
    assert {key.name for key in TOPIC_KEYS if key.name not in script} == set()
    assert "--offer" in script


@pytest.mark.parametrize("name", [name for name in SHELLS if shutil.which(name)])
def test_every_shell_of_this_machine_can_read_its_script(shell: Path, name: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(
        subprocess.run([shell / "logcleaner", "completion", name], check=True, capture_output=True).stdout
    )
    flags = {"tcsh": ("-f", "-n"), "fish": ("--no-execute",)}.get(name, ("-n",))
    done = subprocess.run([name, *flags, script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
