"""Log dirs that real brokers wrote (``tests/data/README.md``), unpacked once and copied on demand."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, settings

from storage.names import LOCK_FILE
from tests.crash.tally import TALLY as CRASHES
from tests.interop.tally import TALLY as COMPARISONS
from tests.sampled import DAY, day, is_whole
from tests.schemas import hold_to_schemas
from tests.small_disks import MOUNTED
from tests.tier_samples import TierSamples
from tests.workers import add_counts, counted, keep_bytecode, longest_first, make_scheduler

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # how long an example takes says something about the machine alone

os.environ.setdefault("UV_HTTP_RETRIES", "10")  # packages are built of what uv downloads; a registry may pause
os.environ.setdefault("UV_HTTP_TIMEOUT", "300")

DATA = Path(__file__).with_name("data")
TALLIES = {"comparisons": COMPARISONS, "crashes": CRASHES, "disks": MOUNTED}


@dataclass(frozen=True, slots=True)
class Samples:
    """``before``, ``after``, ``before2`` and ``after2``, each a log dir; never to be changed in place."""

    root: Path

    def copy(self, stage: str, to: Path, partitions: Sequence[str] = ()) -> Path:
        """A copy of one stage, file times kept; with ``partitions``, of those alone and the metadata log."""
        wanted = {*partitions, "__cluster_metadata-0"}

        def others(directory: str, names: list[str]) -> list[str]:
            here = Path(directory)
            is_top = here == self.root / stage
            return [n for n in names if is_top and partitions and n not in wanted and (here / n).is_dir()]

        return Path(shutil.copytree(self.root / stage, to, ignore=others))

    def cleaned_at_ms(self, stage: str) -> int:
        """When Kafka's cleaner finished ``after`` or ``after2``, epoch ms."""
        return (self.root / stage / "cleaner-offset-checkpoint").stat().st_mtime_ns // 1_000_000


@pytest.fixture
def as_kafka() -> Iterator[None]:
    """Every round ends where Kafka's offset map is full."""
    from tests.kafka_rounds import as_kafka  # a test that compacts nothing loads no kernels

    with as_kafka():
        yield


@pytest.fixture(params=["full", "kafka"])
def rounds(request: pytest.FixtureRequest) -> str:
    """Rounds that take all keys, and rounds as Kafka makes them."""
    kind: str = request.param
    if kind == "kafka":
        request.getfixturevalue("as_kafka")
    return kind


@pytest.fixture(scope="session", autouse=True)
def locks_settle_at_once() -> Iterator[None]:
    """No broker lets go of a lock just before us here; the tests of the lock set the time themselves."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("storage.lock.SETTLE_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def documents_keep_to_their_schemas() -> Iterator[None]:
    """Every document that a test makes is validated."""
    with pytest.MonkeyPatch.context() as patched:
        hold_to_schemas(patched)
        yield


@pytest.fixture(scope="session", autouse=True)
def hearing_sigint() -> Iterator[None]:
    """Hear SIGINT, and have the processes that tests start hear it: a shell has its background jobs ignore it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Of Kafka 4.3.1."""
    return unpacked("kafka-4.3.1", tmp_path_factory.mktemp("kafka-4.3.1"))


@pytest.fixture(scope="session")
def old_samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Of Kafka 2.8.2, in v0 and v1: ``before`` and ``after`` only."""
    return unpacked("kafka-2.8.2", tmp_path_factory.mktemp("kafka-2.8.2"))


@pytest.fixture(scope="session")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> TierSamples:
    """Return tiers that real brokers wrote."""
    return TierSamples(unpacked("tiers", tmp_path_factory.mktemp("tiers")).root)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``demo`` makes: a real, small log dir; never to be changed in place.

    The file of a log dir's lock is there from the beginning: the first command that takes the lock would leave it for
    all tests behind that one.
    """
    from cleaner.cli.main import main  # most tests need no command

    directory = tmp_path_factory.mktemp("demo") / "data"
    assert main(["demo", str(directory)]) == 0
    (directory / LOCK_FILE).touch()
    return directory


def unpacked(name: str, root: Path) -> Samples:
    """The log dirs of an archive, in an empty directory."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    with (
        (DATA / f"{name}.tar.zst").open("rb") as file,
        decompressor.stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as archive,
    ):
        archive.extractall(root, filter="data")
    return Samples(root)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels if their sources changed, before anything loads them; fix the day of the samples."""
    keep_bytecode()
    if not hasattr(config, "workerinput"):
        day()
        subprocess.run([sys.executable, "-m", "storage.compiler", "--if-needed"], cwd=DATA.parents[1], check=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker of pytest-xdist, begin with what takes longest."""
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have the tests of a file, and all with a Spark session, run by one worker."""
    return make_scheduler(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker, hand over what was counted."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counts"] = counted(TALLIES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker counted; one that crashed says nothing."""
    add_counts(TALLIES, getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried; nothing tried must be seen."""
    terminalreporter.write_line("samples: all of them" if is_whole() else f"samples: {DAY}={day()}")
    for tally in TALLIES.values():
        terminalreporter.write_line(str(tally))
