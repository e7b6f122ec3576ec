"""Kills of a compaction in waves on a standalone cluster of two workers: one command that goes on where it ended.

    python -m tests.spark.wave_kills --kills 30
    python -m tests.spark.wave_kills --seed 7       # one alone, noted nowhere

Each seed kills a driver, its JVM or an executor with -9 in a phase of a wave, or has executors outlive their driver:
they are stopped, the driver is killed, another run compacts the log dir, and the executors go on. Then the log dir is
compacted again, here or by the cluster. Every seed must end with

- the bytes that this process makes of what the kill left, and of all partitions but one those of a run without a kill;
- no scratch file, which ``doctor`` names in between;
- at no moment more scratch than the sources of one wave take, and no more of the log itself than before the first one.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Final

from policies.config.config_keys import LONG_MAX
from storage.names import is_cluster_scratch
from storage.segment import BLOCK_BYTES
from tests.disk.process import WHOLE
from tests.interop.jvms import QUICK
from tests.interop.kafka_jars import cache_dir
from tests.notes import Notes
from tests.partition_dirs import NOW_MS, latest
from tests.spark.cluster import ROOT, Cluster, children_of, descendants, kill_all, standalone
from tests.spark.rounds import contents, skewed, write_config
from tests.spark.wave_driver import KEYS, OF_JOBS, PARTITIONS_A_WAVE, PHASES, PREPARED, REACHED, REWRITE, SURVEY, SWEEP

PARTITIONS: Final = 4
SEGMENTS: Final = 8
VALUE_BYTES: Final = 4000
SEGMENT_BYTES: Final = 4 << 20
"""Two units a partition."""
DRIVER, EXECUTOR, JVM, OUTLIVED = "driver", "executor", "JVM of the driver", "driver that an executor outlives"
VICTIMS: Final = (DRIVER, EXECUTOR, JVM, DRIVER, EXECUTOR)
STEPS_MAX: Final = {PREPARED: 1, SWEEP: 4}
"""The changes of a wave in a phase, of which one is drawn."""
STEPS_OF_SWAPS: Final = 60
PHASE_SECONDS: Final = {SURVEY: 1.0, KEYS: 4.0, REWRITE: 0.2}
"""How long a phase takes about, the last one from the first segment on; the moment is drawn out of it."""
DEADLINE_SECONDS: Final = 900
"""Far behind what a phase takes on a busy machine."""
OUTLIVES_EVERY: Final = 6
LOOK_SECONDS: Final = 0.02
FAILURES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Kill:
    """What a seed does."""

    seed: int
    victim: str
    phase: str
    wave: int
    step: int
    share: float
    """Of the time that a phase of executors takes."""
    again: str
    """The engine of the next run."""
    is_at_once: bool
    """Whether sources are unlinked at once, or wait."""

    @classmethod
    def of(cls, seed: int) -> Kill:
        dice = random.Random(f"wave {seed}")
        place, phase = divmod(seed, len(PHASES))
        victim = VICTIMS[place % len(VICTIMS)]
        if seed % OUTLIVES_EVERY == PHASES.index(REWRITE) and place in (0, 3):
            victim = OUTLIVED
        wave = dice.randrange(PARTITIONS // PARTITIONS_A_WAVE)
        step = dice.randrange(STEPS_MAX.get(PHASES[phase], STEPS_OF_SWAPS))
        again = "local" if victim == OUTLIVED else dice.choice(("local", "local", "local", "spark"))
        return cls(seed, victim, PHASES[phase], wave, step, dice.random(), again, dice.random() < 0.5)

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.victim}, wave {self.wave}, {self.phase}, again by {self.again}"


@dataclass
class Peak:
    """The most that a log dir ever held, bytes."""

    scratch_bytes: int = 0
    log_bytes: int = 0
    """Without scratch, and without files that wait for their delay."""
    looks: int = 0

    def look(self, log_dir: Path) -> None:
        scratch_bytes = log_bytes = 0
        for path in log_dir.rglob("*.*"):
            try:
                size_bytes = path.stat().st_blocks * BLOCK_BYTES
            except OSError:  # renamed or unlinked
                continue
            if is_cluster_scratch(path.name):
                scratch_bytes += size_bytes
            elif path.suffix != ".deleted":
                log_bytes += size_bytes
        self.scratch_bytes, self.log_bytes = max(self.scratch_bytes, scratch_bytes), max(self.log_bytes, log_bytes)
        self.looks += 1


@contextmanager
def sampled(log_dir: Path) -> Iterator[Peak]:
    """Look at the disk all the time."""
    peak, ended = Peak(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            peak.look(log_dir)

    sampler = threading.Thread(target=look)
    sampler.start()
    try:
        yield peak
    finally:
        ended.set()
        sampler.join()


@dataclass
class Bench:
    """A cluster, a log dir to copy, and what an uninterrupted run makes of it."""

    root: Path
    cluster: Cluster
    drawn: Path
    config: Path
    whole: dict[bool, Path]
    """By whether sources are unlinked at once."""
    done: Counter[str] = field(default_factory=Counter)
    """Kills by phase and victim, as they fell."""

    @classmethod
    def of(cls, root: Path, cluster: Cluster) -> Bench:
        drawn, config = root / "drawn", root / "config.toml"
        skewed(drawn, PARTITIONS, SEGMENTS, value_bytes=VALUE_BYTES)
        write_config(config, {"segment.bytes": str(SEGMENT_BYTES)})
        defaults = "".join(f"{key} {value}\n" for key, value in cluster.config.items())
        (root / "conf").mkdir()
        (root / "conf/spark-defaults.conf").write_text(defaults)
        bench = cls(root, cluster, drawn, config, {})
        for is_at_once in (False, True):
            bench.whole[is_at_once] = path = shutil.copytree(drawn, root / f"whole-{is_at_once}")
            bench.run("local", path, is_at_once=is_at_once)
        return bench

    def words(self, engine: str, log_dir: Path, *, is_at_once: bool) -> list[str]:
        """A command line, behind ``logcleaner``."""
        words = ["clean", "--yes", "--config", str(self.config), "--log-dir", str(log_dir)]
        words += ["--set", f"clock.jump.max={LONG_MAX}"]
        words += ["--delete-delay", "0"] if is_at_once else []
        return words + (["--engine", "spark", "--master", self.cluster.url] if engine == "spark" else [])

    def run(self, engine: str, log_dir: Path, *, is_at_once: bool) -> None:
        """Clean, uninterrupted."""
        words = self.words(engine, log_dir, is_at_once=is_at_once)
        if engine == "spark":
            with self.driving(words, log_dir.with_name("notes"), ("-1", "", "0")) as driver:
                assert driver.wait(DEADLINE_SECONDS) == 0, told_by(driver)
        else:
            self.by_local(words)

    def by_local(self, words: Sequence[str]) -> str:
        """Run a command at the fixed time, and return what it says."""
        command = [sys.executable, "-m", "tests.disk.process", str(NOW_MS), WHOLE, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def driving(
        self, words: Sequence[str], notes: Path, wanted: tuple[str, str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A driver of the cluster; ``wanted`` says before which step it waits."""
        environment = os.environ | {
            "SPARK_CONF_DIR": str(self.root / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": " ".join(QUICK),
        }
        notes.unlink(missing_ok=True)
        notes.touch()
        command = [sys.executable, "-m", "tests.spark.wave_driver", str(notes), *wanted, *words]
        with notes.with_suffix(".told").open("w+b") as out:
            driver = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
            driver.args = str(out.name)
            try:
                yield driver
            finally:
                kill_all([*descendants(driver.pid), driver.pid] if driver.poll() is None else [])
                driver.wait()


def told_by(driver: subprocess.Popen[bytes]) -> str:
    return Path(str(driver.args)).read_text(errors="replace")


def try_kill(bench: Bench, kill: Kill, scratch: Path) -> None:
    """Kill, judge what is left, go on, and judge what comes of it. Raises: AssertionError."""
    log_dir = shutil.copytree(bench.drawn, scratch / "data")
    before = Peak()
    before.look(log_dir)
    words = bench.words("spark", log_dir, is_at_once=kill.is_at_once)
    with sampled(log_dir) as peak:
        with bench.driving(words, scratch / "notes", (str(kill.wave), kill.phase, str(kill.step))) as driver:
            outlived = struck(bench, kill, driver, scratch / "notes", log_dir)
            if kill.victim in (EXECUTOR, JVM):
                status = driver.wait(DEADLINE_SECONDS)
                assert "Traceback" not in told_by(driver), told_by(driver)
                assert kill.victim == JVM or status == 0, told_by(driver)
        if kill.victim == DRIVER:
            awaited(lambda: not bench.cluster.executors(), "the executors end")
        left = scratch_in(log_dir)
        assert not left or kill.victim in (DRIVER, OUTLIVED), left
        told = bench.by_local(["doctor", "--config", str(bench.config), "--log-dir", str(log_dir)])
        assert not left or "scratch file" in told, told
        copied = shutil.copytree(log_dir, scratch / "copied")
        bench.run("local", copied, is_at_once=kill.is_at_once)
        bench.run(kill.again, log_dir, is_at_once=kill.is_at_once)
        if outlived:
            check_survivors(bench, outlived, log_dir, left, kill)
    check_same(log_dir, copied, bench.whole[kill.is_at_once])
    assert not scratch_in(log_dir)
    unit_bytes = SEGMENT_BYTES if kill.victim == EXECUTOR else 0  # of the attempt that was killed
    wave_bytes = PARTITIONS_A_WAVE * before.log_bytes // PARTITIONS
    assert peak.scratch_bytes <= wave_bytes + unit_bytes, (peak, wave_bytes)
    assert peak.log_bytes <= before.log_bytes + wave_bytes, (peak, before)  # a group is there twice as it is swapped in
    print(f"  {peak}, a wave has {wave_bytes} bytes, the log {before.log_bytes}", flush=True)


def struck(bench: Bench, kill: Kill, driver: subprocess.Popen[bytes], notes: Path, log_dir: Path) -> list[int]:
    """Kill the victim at its moment. Return the processes that were stopped before, and live."""
    wanted = f"{kill.wave} {kill.phase if kill.phase in OF_JOBS else REACHED}"
    awaited(lambda: wanted in notes.read_text().splitlines() or driver.poll() is not None, wanted)
    if kill.phase == REWRITE:
        awaited(lambda: list(log_dir.rglob("*.log.*.logcleaner")) or driver.poll() is not None, "a segment is written")
    if kill.phase in OF_JOBS and kill.victim != OUTLIVED:  # who outlives its driver is to be at work
        time.sleep(kill.share * PHASE_SECONDS[kill.phase])
    workers: list[int] = []
    if kill.victim == OUTLIVED:
        for executor in bench.cluster.executors():
            daemons = children_of(executor)
            workers += [pid for daemon in daemons for pid in children_of(daemon)]
            kill_all(workers, SIGSTOP)
            kill_all([executor, *daemons])
    found = notes.read_text().splitlines()
    bench.done[f"{(found or [''])[-1].partition(' ')[2]}, {kill.victim}"] += 1
    assert driver.poll() is None or found[-1].endswith(SWEEP), told_by(driver)
    match kill.victim:
        case "executor":
            executor = random.Random(kill.seed).choice(bench.cluster.executors())
            kill_all([*descendants(executor), executor])
        case "JVM of the driver":
            kill_all(children_of(driver.pid))
        case _:
            kill_all([driver.pid], SIGKILL)
    return workers


def check_survivors(bench: Bench, workers: list[int], log_dir: Path, left: list[Path], kill: Kill) -> None:
    """Executors go on behind a later run: they write scratch under their own run's id, which the next run removes."""
    after = contents(log_dir)
    runs = {run_of(path) for path in left}
    kill_all(workers, SIGCONT)
    awaited(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers), "the survivors end")
    written = scratch_in(log_dir)
    print(f"  {len(workers)} survivors wrote {len(written)} files", flush=True)
    assert {run_of(path) for path in written} <= runs or not runs
    assert {name: held for name, held in contents(log_dir).items() if not is_cluster_scratch(Path(name).name)} == after
    bench.run("local", log_dir, is_at_once=kill.is_at_once)


def run_of(path: Path) -> str:
    found = re.search(r"\.([0-9a-f]{8})-", path.name)
    assert found
    return found[1]


def check_same(log_dir: Path, copied: Path, whole: Path) -> None:
    """The bytes of a run here on what was left; and those of an uninterrupted run, where no swap was interrupted."""
    here, there, uninterrupted = (without_waiting(path) for path in (log_dir, copied, whole))
    assert here == there, {name for name in here | there if here.get(name) != there.get(name)}
    others = {name.partition("/")[0] for name in here | uninterrupted if here.get(name) != uninterrupted.get(name)}
    cut = [name for name in others if name.startswith("skewed-")]
    assert len(cut) <= 1, others
    for name in cut:
        assert latest(log_dir / name) == latest(whole / name), name


def without_waiting(log_dir: Path) -> dict[str, tuple[bytes, int]]:
    return {name: held for name, held in contents(log_dir).items() if not name.endswith(".deleted")}


def scratch_in(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.rglob("*") if is_cluster_scratch(path.name))


def awaited(is_so: object, what: str) -> None:
    """Wait until something is so. Raises: AssertionError."""
    assert callable(is_so)
    until = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < until, f"it never came that {what}"
        time.sleep(LOOK_SECONDS)


@contextmanager
def opened_bench() -> Iterator[Bench]:
    """A bench in a directory that goes with it."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "cluster").mkdir()
        with standalone(Path(directory) / "cluster") as cluster:
            yield Bench.of(Path(directory), cluster)


def main() -> int:
    """Try, print what fell where, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark.wave_kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=30, metavar="N", help="how many seeds, from 0 on (default: 30)")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--notes", type=Path, default=cache_dir() / "waves.json", help="default: %(default)s")
    options = parser.parse_args()
    seeds = range(options.kills) if options.seed is None else [options.seed]
    notes, failed, start_seconds = Notes(options.notes), 0, time.monotonic()
    with opened_bench() as bench:
        for kill in map(Kill.of, seeds):
            if options.seed is None and str(kill) in notes:
                continue
            print(kill, flush=True)
            try:
                with tempfile.TemporaryDirectory(dir=bench.root) as scratch:
                    try_kill(bench, kill, Path(scratch))
            except AssertionError as error:
                print(f"{kill}: BROKEN\n{error}", flush=True)
                failed += 1
                if failed >= FAILURES_MAX:
                    break
            else:
                if options.seed is None:
                    notes.note(str(kill), 1)
        for what, count in sorted(bench.done.items()):
            print(f"{count:4} {what}")
    print(f"{notes.total('seed')} passed, {failed} failed, {time.monotonic() - start_seconds:.0f} s", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
