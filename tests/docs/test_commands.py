"""Every command in the README and in docs/ is run, on the demo; those that cannot be are listed with the reason.

Those that need Spark are run in tests/spark/test_documents.py, where a session is open.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from cleaner.cli.main import build_parser
from cleaner.cli.parser import commands_of
from cleaner.config.settings import parse_settings
from cleaner.demo import make_demo
from storage.filesystem import FileSystem
from tests.docs.blocks import ROOT, Block, blocks, command_of_all_tests, inline_commands, languages, needs_spark

INSTALLS = "installs packages, which needs the network; tests/test_debian_package.py builds and installs the wheel"
ROOT_OF_A_MACHINE = "changes the machine that it runs on, as root"
BUNDLE = "tests/test_bundle.py makes the bundle, unpacks it and runs it"
TO_ANOTHER_HOST = (
    "ssh root@broker 'mkdir -p /run/tools && mount -t tmpfs -o size=200m tmpfs /run/tools'",
    "zstd -dc logcleaner-*-linux-x86_64.tar.zst | ssh root@broker 'tar -x -C /run/tools'",
    "ssh root@broker '/run/tools/logcleaner/logcleaner free --target 20GiB --log-dir /var/lib/kafka/data'",
)
CANNOT_RUN = {
    "sudo python3 -m venv /opt/logcleaner && sudo /opt/logcleaner/bin/pip install .": ROOT_OF_A_MACHINE,
    "sudo ln -s /opt/logcleaner/bin/logcleaner /usr/local/bin/": ROOT_OF_A_MACHINE,
    "sudo systemd-sysusers": f"{ROOT_OF_A_MACHINE}; tests/test_systemd.py runs it below another root",
    "sudo systemctl daemon-reload": f"{ROOT_OF_A_MACHINE}; tests/test_systemd.py has systemd verify the units",
    "sudo systemctl enable --now logcleaner-clean.timer": f"{ROOT_OF_A_MACHINE}; as the line before",
    "uv build --wheel && packaging/debian-package dist/*.whl dist && sudo apt install ./dist/logcleaner_*.deb": (
        f"{ROOT_OF_A_MACHINE}; tests/test_debian_package.py builds and installs the package"
    ),
    "uv build --wheel && packaging/bundle dist/*.whl dist": BUNDLE,
    "tar --zstd -xf logcleaner-*-linux-x86_64.tar.zst": BUNDLE,
    "logcleaner/logcleaner --help": BUNDLE,
    **dict.fromkeys(TO_ANOTHER_HOST, f"needs a second host; {BUNDLE}"),
    "uv build --wheel && packaging/image dist/*.whl dist": "takes minutes; tests/packaging/test_image.py does the same",
    "skopeo copy oci-archive:dist/logcleaner-0.1.0-oci.tar docker://registry.example.com/logcleaner:0.1.0": (
        "needs a registry"
    ),
    command_of_all_tests(): "runs this very test; .ci/run takes the command from the README and runs it",
    ".venv/bin/uv run --locked python -m tests.benchmarks --gib 4 --rounds 5 --scratch /var/tmp/benchmark "
    "--json results.json": "takes hours and 40 GB; tests/benchmarks/test_command.py runs it on little",
    ".venv/bin/uv run --locked python -m tests.benchmarks.table results.json": (
        "needs the results of the line before; tests/benchmarks/test_table.py runs it on made ones"
    ),
    "python -m tests.benchmarks.spark_read --gib 0.1,1,2,4,8 --scratch /var/tmp --json spark.json": (
        "takes an hour and 9 GB"
    ),
    ".venv/bin/uv run --locked python -m tests.benchmarks.verifying /dev/shm/verify": (
        "takes 2 GB of memory; tests/benchmarks/test_verifying.py runs it on little"
    ),
    ".venv/bin/uv run --locked python -m tests.benchmarks.dumping /dev/shm/dump": (
        "needs a JVM and 1 GB of memory; tests/benchmarks/test_dumping.py runs it on little"
    ),
    "logcleaner fetch s3://bucket/kafka-1 /var/lib/kafka/data/logs": (
        "needs a bucket; tests/storage/stores/test_fetch.py fetches out of one"
    ),
    "pip install '.[remote]'": INSTALLS,
    "pip install '.[spark]'": INSTALLS,
    "python3 -m venv environment && environment/bin/pip install '.[spark]' venv-pack": INSTALLS,
    "environment/bin/venv-pack -p environment -o environment.tar.gz": INSTALLS,
    "export PYSPARK_PYTHON=./environment/bin/python": INSTALLS,
    "environment/bin/spark-submit --master spark://host:7077 --archives environment.tar.gz#environment job.py": (
        "needs a Spark cluster; tests/spark/bulk_on_a_cluster.py starts one for the same means"
    ),
}
"""Command -> why no test runs it."""
NEEDS_A_CLUSTER = re.compile(r"^kubectl |\| kubectl ")
"""What such a command hands in is checked in tests/packaging/test_kubernetes.py, and run in test_image.py."""
ALTERED = (
    ("&& .venv/bin/pip install -q . ", ""),  # the rest of the line is run
    ("python3 -m venv .venv && ", ""),
    (".venv/bin/logcleaner", "logcleaner"),
    ("sudo logcleaner systemd install", "logcleaner systemd install --root {world}/root"),
    ("/var/lib/kafka/data", "{world}/data"),
    ("/var/lib/kafka/restored", "{world}/restored"),
    ("/backup/", "{world}/backup/"),
    ("/disk2/", "{world}/disk2/"),
    ("/etc/logcleaner.toml", "{world}/etc/logcleaner.toml"),
)
"""What a command names -> what stands for that here."""
FIRST = {
    "logcleaner history": "logcleaner clean --log-dir /var/lib/kafka/data",
    "logcleaner diff": "logcleaner clean --log-dir /backup/kafka-1 --output /backup/kafka-1-clean --yes",
    "logcleaner move": "mkdir -p /disk2/kafka && cp /var/lib/kafka/data/meta.properties /disk2/kafka",
    "logcleaner restore --moves": (
        "mkdir -p /disk2/kafka && cp /var/lib/kafka/data/meta.properties /disk2/kafka && "
        "logcleaner move orders-0 --to-dir /disk2/kafka --log-dir /var/lib/kafka/data"
    ),
    "logcleaner digest": (
        "logcleaner digest /var/lib/kafka/data --output broker-2.json && cp broker-2.json broker-3.json"
    ),
}
"""How a block begins -> what has happened before it."""
MAY_FAIL = {"free --target 20GiB": 1}
"""What a command holds -> the exit status that it has on a machine with less space."""
ON_A_BUCKET = "buckets.md"
"""A page whose commands are one way; tests/interop/test_buckets.py goes it, from a broker to a broker."""
DAEMON = re.compile(r"logcleaner run (?!.*--once)")
WAIT_SECONDS = 120.0


@dataclass(frozen=True)
class World:
    """A machine with the demo as its log dir."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a command: ``logcleaner`` is this working copy."""
        paths = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT)}

    def here(self, command: str) -> str:
        """Return a command with what stands for its paths and cluster here."""
        for named, stand_in in ALTERED:
            command = command.replace(named, stand_in)
        return command.replace("{world}", str(self.root))

    def run(self, command: str) -> None:
        """Run a command of a document, and see that it succeeds."""
        if DAEMON.search(command):
            self._run_until_ready(self.here(command))
            return
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self.here(command)],
            check=False, capture_output=True, text=True, cwd=self.root, env=self.environment, timeout=300,
        )  # fmt: skip
        may = {0} | {status for part, status in MAY_FAIL.items() if part in command}
        assert done.returncode in may, f"{command}\n{done.stdout}{done.stderr}"

    def _run_until_ready(self, command: str) -> None:
        """Run the daemon until it says READY, as to systemd, then end it by SIGTERM."""
        log, notified = self.root / "daemon.log", self.root / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages, log.open("w") as stderr:
            messages.bind(str(notified))
            messages.settimeout(WAIT_SECONDS)
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], stderr=stderr, cwd=self.root,
                env=self.environment | {"NOTIFY_SOCKET": str(notified)},
            )  # fmt: skip
            try:
                while b"READY=1" not in messages.recv(4096):
                    assert process.poll() is None, log.read_text()
            finally:
                process.terminate()
                status = process.wait(WAIT_SECONDS)
        notified.unlink()
        assert status == 0, log.read_text()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo-logs"
    make_demo(path, FileSystem(), int(time.time() * 1000), 1)
    return path


@pytest.fixture
def world(demo: Path, tmp_path: Path) -> World:
    for name in ("data", "backup/kafka-1"):
        shutil.copytree(demo, tmp_path / name)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/logcleaner.toml").write_text(f'log.dirs = ["{tmp_path}/data"]\n')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/logcleaner").write_text(f'#!/bin/sh\nexec {sys.executable} -m cleaner "$@"\n')
    (tmp_path / "bin/logcleaner").chmod(0o755)
    return World(tmp_path)


def command_names() -> set[str]:
    return set(commands_of(build_parser()))


def is_run(command: str) -> bool:
    return command not in CANNOT_RUN and not needs_spark(command) and not NEEDS_A_CLUSTER.search(command)


def with_something_to_run() -> list[Block]:
    return [block for block in blocks("sh") if block.page != ON_A_BUCKET and any(map(is_run, block.commands))]


@pytest.mark.slow
@pytest.mark.parametrize("block", with_something_to_run(), ids=str)
def test_every_command_does_what_it_says(block: Block, world: World) -> None:
    for begins, first in FIRST.items():
        if block.commands[0].startswith(begins):
            world.run(first)
    for command in block.commands:
        if is_run(command):
            world.run(command)


def test_what_is_listed_as_not_run_stands_in_a_document() -> None:
    assert set(CANNOT_RUN) - {command for block in blocks("sh") for command in block.commands} == set()


def test_no_block_has_a_language_that_nothing_checks() -> None:
    """``toml`` is checked here; ``sh`` and ``python`` here, and in tests/spark if they need Spark."""
    assert languages() <= {"sh", "toml", "python", ""}


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_every_configuration_is_valid(block: Block) -> None:
    assert parse_settings(block.text, ROOT / block.page).path == ROOT / block.page


@pytest.mark.parametrize(
    "block", [block for block in blocks("python") if not needs_spark(block.page + block.text)], ids=str
)
def test_every_python_example_without_spark_runs_and_imports_from_cleaner_alone(block: Block, world: World) -> None:
    assert set(re.findall(r"^from (\S+) import", block.text, re.MULTILINE)) == {"pathlib", "cleaner"}
    (world.root / "data").rename(world.root / "demo-logs")
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        check=True, capture_output=True, text=True, cwd=world.root, env=world.environment,
    )  # fmt: skip
    assert "clicks-0" in done.stdout


@pytest.mark.parametrize("command", inline_commands())
def test_every_command_in_running_text_is_one(command: str) -> None:
    program, *arguments = shlex.split(command.replace("<(", "").rstrip(")"))
    if program == "source":
        program, *arguments = arguments
    match program:
        case "logcleaner" if arguments == ["--version"]:
            with pytest.raises(SystemExit, match=r"^0$"):
                build_parser().parse_args(arguments)
        case "logcleaner" if len(arguments) == 1:
            assert arguments[0] in command_names()
        case "logcleaner":
            build_parser().parse_args(arguments)
        case "python":
            assert importlib.util.find_spec(arguments[1]) is not None
        case _:
            assert (program, arguments[0]) in {("pip", "install"), ("pip", "wheel"), ("pipx", "install")}
