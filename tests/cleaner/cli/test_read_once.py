"""A configuration that protects when a run is planned protects until the run has acted: it is read again under the
lock.

By ``keep.toml`` topic ``orders`` keeps everything. The cluster metadata says that both topics keep a day. So a run that
loses the file on its way to the lock would take the old segments of ``orders``, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.engine.freeing import Gain, Gauge
from storage.log_dir import LogDir
from tests.metadata_dirs import write_metadata
from tests.partition_dirs import DAY_MS, PartitionDir, committed, keyed

QUIET_DISK = """
import sys
from cleaner.cli.main import main
from cleaner.engine.freeing import Gain, Gauge
Gauge.gain = lambda gauge, expected_bytes: Gain(expected_bytes, expected_bytes)
sys.exit(main(sys.argv[1:]))
"""
"""What other processes write to the disk is not to look as if deleted files freed nothing."""
KEEP = 'retention.ms = "-1"'
TAKE = 'retention.ms = "1d"'
COMMANDS = {
    "clean": ["clean"],
    "free": ["free", "--target", "99%"],
    "copy": ["clean", "--output", "copy"],
    "run": ["run", "--once"],
}


class World:
    """A log dir with two old segments a topic, and the file that protects one topic."""

    def __init__(self, place: Path) -> None:
        self.log_dir, self.config, self.copy = place / "data", place / "keep.toml", place / "copy"
        now_ms = int(time.time() * 1000)
        partitions = [PartitionDir(self.log_dir, f"{topic}-0") for topic in ("clicks", "orders")]
        for partition in partitions:
            for base in (0, 2, 4):
                age_ms = 10 * DAY_MS if base < 4 else 0
                partition.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=now_ms - age_ms), mtime_ms=now_ms)
        write_metadata(self.log_dir, **{topic: {"retention.ms": str(DAY_MS)} for topic in ("clicks", "orders")})
        committed(self.log_dir, *partitions)
        self.say(KEEP)
        self.whole = self.logs(self.log_dir)

    def say(self, line: str) -> None:
        self.config.write_text(f'log.dirs = ["{self.log_dir}"]\n[topics.orders]\n{line}\n')

    def logs(self, log_dir: Path) -> set[str]:
        return {f"{path.parent.name}/{int(path.stem)}" for path in log_dir.glob("[co]*-0/*.log")}

    def options(self, config: object) -> list[str]:
        return ["--config", str(config), "--log-dir", str(self.log_dir)]

    def is_as_planned(self, command: str) -> bool:
        """Whether what the dry run says was done: the old segments of ``clicks`` are gone, and only those."""
        left = self.logs(self.copy if command == "copy" else self.log_dir)
        return left == self.whole - {"clicks-0/0", "clicks-0/2"}

    def is_untouched(self) -> bool:
        return self.logs(self.log_dir) == self.whole and not self.copy.exists()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(Gauge, "gain", lambda _, expected_bytes: Gain(expected_bytes, expected_bytes))
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


def test_the_dry_run_plans_so(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What the cases below are held against, and that they are about something."""
    assert main(["clean", "--dry-run", "--json", *world.options(world.config)]) == 0
    results = {found["topic"]: found["result"] for found in json.loads(capsys.readouterr().out)["partitions"]}
    assert results["clicks"]["deleted_segments"] == 2
    assert results["orders"] is None
    assert main(["clean", *world.options(world.config)]) == 0
    assert world.is_as_planned("clean")
    assert main(["clean", "--log-dir", str(world.log_dir)]) == 0
    assert world.logs(world.log_dir) == {"clicks-0/4", "orders-0/4"}


# What can be read only once: whole processes


def by_pipe(arguments: Callable[[object], list[str]], config: Path) -> subprocess.CompletedProcess[str]:
    """As ``--config <(cat keep.toml)`` of a shell."""
    reading, writing = os.pipe()
    os.write(writing, config.read_bytes())
    os.close(writing)
    try:
        return process(arguments(f"/dev/fd/{reading}"), pass_fds=(reading,))
    finally:
        os.close(reading)


def by_stdin(arguments: Callable[[object], list[str]], config: Path) -> subprocess.CompletedProcess[str]:
    return process(arguments("/dev/stdin"), input=config.read_text())


def by_fifo(arguments: Callable[[object], list[str]], config: Path) -> subprocess.CompletedProcess[str]:
    fifo, text = config.with_suffix(".fifo"), config.read_text()
    os.mkfifo(fifo)
    threading.Thread(target=fifo.write_text, args=(text,), daemon=True).start()  # waits for the one who reads
    return process(arguments(fifo))


def process(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", QUIET_DISK, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("way", [by_pipe, by_stdin, by_fifo])
def test_what_can_be_read_only_once_counts_as_read_under_the_lock(
    world: World, command: str, way: Callable[[Callable[[object], list[str]], Path], subprocess.CompletedProcess[str]]
) -> None:
    done = way(lambda path: [*COMMANDS[command], *world.options(path)], world.config)
    assert done.returncode == (1 if command == "free" else 0), done.stderr  # 99 % is more than policy allows
    assert world.is_as_planned(command)


# What changes between the plan and the lock


def replaced(world: World) -> None:
    world.config.rename(world.config.with_suffix(".old"))
    world.say(TAKE)


def emptied(world: World) -> None:
    world.config.write_text("")


def truncated(world: World) -> None:
    """In the middle of a line: what is left is another value of the same key."""
    world.say('retention.ms = "1d"  # not yet written')


def unreadable(world: World) -> None:
    world.config.unlink()
    world.config.mkdir()  # as root, a file without permissions could be read


def swapped_back(world: World) -> None:
    """A file that protects as it did, written anew: a run may go on."""
    world.config.rename(world.config.with_suffix(".old"))
    world.say(f"# the same\n{KEEP}")


@pytest.fixture
def before_the_lock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """Functions to call when a lock is about to be taken, each once."""
    waiting: list[Callable[[], None]] = []
    for name in ("lock", "lock_to_read"):
        taken = getattr(LogDir, name)

        def take(log_dir: LogDir, *given: object, taken: Callable[..., object] = taken, **options: object) -> object:
            while waiting:
                waiting.pop()()
            return taken(log_dir, *given, **options)

        monkeypatch.setattr(LogDir, name, take)
    yield waiting
    assert not waiting


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "run"])
@pytest.mark.parametrize("change", [replaced, emptied, truncated, unreadable])
def test_a_file_that_protects_less_by_then_ends_the_run(
    world: World,
    command: str,
    change: Callable[[World], None],
    before_the_lock: list[Callable[[], None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before_the_lock.append(lambda: change(world))
    status = main([*COMMANDS[command], *world.options(world.config)])
    told = capsys.readouterr().err
    assert status == (2 if change is unreadable else 5), told
    assert world.is_untouched()
    if change is unreadable:
        assert f"--config = '{world.config}': cannot be read" in told
    else:
        assert "retention.ms=1d" in told
        assert f"before retention.ms=no limit ({world.config} line 3), for topic orders" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_protects_as_before_lets_the_run_go_on(
    world: World, command: str, before_the_lock: list[Callable[[], None]]
) -> None:
    before_the_lock.append(lambda: swapped_back(world))
    assert main([*COMMANDS[command], *world.options(world.config)]) == (1 if command == "free" else 0)
    assert world.is_as_planned(command)


def test_the_daemon_goes_on_with_the_file_before_while_it_cannot_be_read(
    world: World, before_the_lock: list[Callable[[], None]]
) -> None:
    before_the_lock.append(lambda: unreadable(world))
    assert main(["run", "--once", *world.options(world.config)]) == 1
    assert world.is_as_planned("run")
