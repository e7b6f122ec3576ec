"""``clean --output`` beside a writer that ignores the lock: at every step of the copy, no manifest, and why.

The writer does in one go what a broker's session does. A change behind the last look does not matter: the copy has the
log dir as it was until then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.copy.manifest import damaged_files, read_manifest
from cleaner.engine.locks import LentLocks, LogDirsChange
from cleaner.engine.means import Means
from policies.config.config_layers import Configured
from storage.checkpoints import format_offset_checkpoint
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.names import MANIFEST_FILE, TopicPartition
from tests.faults import SteppingFile, SteppingFileSystem
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    committed,
    configured,
    keyed,
    request,
)
from tests.sampled import is_whole, shuffled
from tests.storage.test_lock import Broker

LAYERS = configured(clicks=EXPIRING, orders=COMPACT)
ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "BBBBBBBBBBBBBBBBBBBBBQ"
OTHER_FILE, GONE, NEW = "another size, time or file", "it is gone", "it was not there"
WRITTEN_TO = "it was written to while it was copied"
OTHER_OFFSETS = "its offsets changed"
CLICKS, ORDERS, METADATA = "clicks-0", "orders-0", "__cluster_metadata-0"
Seen = set[tuple[str, str]]


def log(name: str, base_offset: int, suffix: str = ".log") -> str:
    return f"{name}/{base_offset:020d}{suffix}"


def drawn(root: Path) -> Path:
    """A log to retain, a log to compact, and the metadata log; all four checkpoints."""
    old_ms = NOW_MS - 2 * DAY_MS
    clicks = PartitionDir(root, CLICKS).segment(0, keyed(0, "x=1", timestamp_ms=old_ms)).segment(1, keyed(1, "x=2"))
    orders = PartitionDir(root, ORDERS).segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2", "b"))
    orders.segment(4, keyed(4, "c=1"))
    metadata = PartitionDir(root, METADATA).segment(0, keyed(0, "m=1"))
    for name in (CLICKS, ORDERS):
        with_topic_id(root / name, ID)
        (root / name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (root / "meta.properties").write_text("version=1\n")
    (root / ".lock").touch()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        (root / name).write_bytes(offsets(0))
    return committed(root, clicks, orders, metadata)


def with_topic_id(directory: Path, topic_id: str) -> None:
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def offsets(at: int) -> bytes:
    return format_offset_checkpoint({TopicPartition("orders", 0): at})


def rewrite(path: Path, data: bytes) -> None:
    """As Kafka writes a checkpoint."""
    path.with_suffix(".tmp").write_bytes(data)
    path.with_suffix(".tmp").rename(path)


def append(root: Path) -> None:
    with (root / log(ORDERS, 4)).open("ab") as file:
        file.write(keyed(5, "d=1"))


def roll(root: Path) -> None:
    for suffix in (".timeindex", ".index", ".log"):
        (root / log(CLICKS, 2, suffix)).touch()


def retain(root: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        (root / log(CLICKS, 0, suffix)).rename(root / log(CLICKS, 0, f"{suffix}.deleted"))


def compact(root: Path) -> None:
    """By an engine that takes no lock; the journal it writes is no part of a copy."""
    cleaner = Cleaner(Configured((root,), LAYERS), Means(clock=FakeClock()), locks=LentLocks(lambda _path: None))
    cleaner.clean(request(topics=("orders",), delete_delay_ms=0))


def recreate(root: Path) -> None:
    """The new incarnation may be given the inode numbers of the old one."""
    shutil.rmtree(root / ORDERS)
    PartitionDir(root, ORDERS).segment(0, keyed(0, "n=1"))
    with_topic_id(root / ORDERS, OTHER_ID)


def retouch(root: Path) -> None:
    """Other bytes of the same number, under the old time: only the inode's own time tells."""
    path = root / log(ORDERS, 2)
    status = path.stat()
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def come_and_go(root: Path) -> None:
    """A segment that appears and is gone again: whoever listed in between saw another log."""
    (root / log(ORDERS, 9)).touch()
    (root / log(ORDERS, 9)).unlink()


def make_topic(root: Path) -> None:
    PartitionDir(root, "new-0").segment(0)


def delete_topic(root: Path) -> None:
    (root / CLICKS).rename(root / "clicks-0.0123456789abcdef0123456789abcdef-delete")


def alter_topic(root: Path) -> None:
    with (root / log(METADATA, 0)).open("ab") as file:
        file.write(keyed(1, "m=2"))


SESSIONS: dict[str, tuple[Callable[[Path], object], Seen]] = {
    "append": (append, {(log(ORDERS, 4), OTHER_FILE), (log(ORDERS, 4), WRITTEN_TO)}),
    "roll": (roll, {(log(CLICKS, 2, ".index"), NEW)}),
    "retention": (retain, {(log(CLICKS, 0, ".index"), GONE)}),
    "compaction": (compact, {("cleaner-offset-checkpoint", OTHER_OFFSETS), (log(ORDERS, 0, ".index"), OTHER_FILE)}),
    "recreation": (recreate, set()),
    "another topic id": (
        lambda root: with_topic_id(root / ORDERS, OTHER_ID),
        {(f"{ORDERS}/partition.metadata", "another topic id"), (f"{ORDERS}/partition.metadata", WRITTEN_TO)},
    ),
    "another content": (retouch, {(log(ORDERS, 2), "its content, mode, owner or links changed")}),
    "file that comes and goes": (come_and_go, {(ORDERS, "files in it were added or removed")}),
    "log start moved": (
        lambda root: rewrite(root / "log-start-offset-checkpoint", offsets(2)),
        {("log-start-offset-checkpoint", OTHER_OFFSETS)},
    ),
    "high watermark moved": (
        lambda root: rewrite(root / "replication-offset-checkpoint", offsets(5)),
        {("replication-offset-checkpoint", OTHER_OFFSETS)},
    ),
    "cleaner checkpoint moved": (
        lambda root: rewrite(root / "cleaner-offset-checkpoint", offsets(4)),
        {("cleaner-offset-checkpoint", OTHER_OFFSETS)},
    ),
    "recovery point moved": (
        lambda root: rewrite(root / "recovery-point-offset-checkpoint", offsets(4)),
        {("recovery-point-offset-checkpoint", OTHER_OFFSETS)},
    ),
    "checkpoint gone": (
        lambda root: (root / "cleaner-offset-checkpoint").unlink(),
        {("cleaner-offset-checkpoint", GONE)},
    ),
    "checkpoint rewritten as it was": (
        lambda root: rewrite(root / "cleaner-offset-checkpoint", offsets(0)),
        {("cleaner-offset-checkpoint", OTHER_FILE)},
    ),
    "leader epoch": (
        lambda root: rewrite(root / CLICKS / "leader-epoch-checkpoint", b"0\n1\n1 0\n"),
        {(f"{CLICKS}/leader-epoch-checkpoint", OTHER_FILE), (f"{CLICKS}/leader-epoch-checkpoint", WRITTEN_TO)},
    ),
    "topic made": (make_topic, {("new-0", NEW)}),
    "topic deleted": (delete_topic, {(CLICKS, GONE)}),
    "topic altered": (alter_topic, {(log(METADATA, 0), OTHER_FILE), (log(METADATA, 0), WRITTEN_TO)}),
    "meta.properties": (
        lambda root: (root / "meta.properties").write_text("version=1\nnode.id=2\n"),
        {("meta.properties", OTHER_FILE), ("meta.properties", WRITTEN_TO)},
    ),
}


STEPS_TRIED = 16
"""Steps of a copy before which a plain run has a session, and more until each change was told as it must be."""
NAMED = ("append", "roll", "retention", "compaction", "recreation", "log start moved", "checkpoint rewritten as it was")
"""Before every step, of which a plain run tries some; the others before some."""
MEANWHILE = {OTHER_FILE, GONE, WRITTEN_TO}
"""What the copying of a file finds that a session has taken away under it."""
OF_ANOTHER = {(ORDERS, "another directory has its name"), (f"{ORDERS}/partition.metadata", "another topic id")}
"""The file system decides whether a new directory has the inode number of the one before."""


def is_all_told(name: str, told: Seen) -> bool:
    return bool(told & OF_ANOTHER) if name == "recreation" else SESSIONS[name][1] <= told


def assert_told(name: str, told: Seen, *, all_of_it: bool) -> None:
    """Every change is told by the check that is meant for it, or where a file was just being copied, by its path."""
    expected = OF_ANOTHER if name == "recreation" else SESSIONS[name][1]
    assert is_all_told(name, told) or not all_of_it
    directory = {"recreation": ORDERS, "another topic id": ORDERS, "topic deleted": CLICKS}.get(name, "none")
    assert {told for told in told - expected if told[1] not in MEANWHILE or not told[0].startswith(directory)} == set()


class Beside(SteppingFileSystem):
    """Has a session run before one step; notes which step the manifest begins with."""

    def __init__(self, session_step: int, session: Callable[[], object]) -> None:
        self.steps = 0
        self.manifest_step = 0
        self._session_step, self._session = session_step, session

    def step(self, purpose: Purpose) -> None:
        if self.steps == self._session_step:
            self._session()
        self.steps += 1

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        return _Unsynced(super().create(path, like, purpose), self, purpose)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        if path.name.startswith(MANIFEST_FILE):
            self.manifest_step = self.steps
        super().unlink(path, purpose)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        self.step(purpose)  # what a disk would make of it takes its time, a thousand times


class _Unsynced(SteppingFile):
    def fsync(self) -> None:
        self.disk.step(self.purpose)


@dataclass
class Sources:
    """Fresh copies of one log dir, all files with the times of the first."""

    scratch: Path
    count: int = 0

    def __post_init__(self) -> None:
        drawn(self.scratch / "drawn")

    def next(self) -> tuple[Path, Path]:
        """A source and where its copy goes."""
        self.count += 1
        source = self.scratch / f"source-{self.count}"
        shutil.copytree(self.scratch / "drawn", source)
        return source, self.scratch / f"copy-{self.count}"


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def copied(source: Path, to: Path, fs: FileSystem | None = None, **options: object) -> None:
    means = Means(fs=fs or FileSystem(), clock=FakeClock())
    cleaner = Cleaner(Configured((source,), LAYERS), means, **options)  # type: ignore[arg-type]
    cleaner.copy(request(), to, tool_version="1")


def steps_of_a_copy(sources: Sources) -> tuple[Beside, Path]:
    """A copy at rest."""
    source, to = sources.next()
    disk = Beside(-1, lambda: None)
    copied(source, to, fs=disk)
    return disk, to


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes of every file but the manifest, and the times of segment files."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.name != MANIFEST_FILE)
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns if path.name[0] == "0" else 0)
        for path in files
    }


def found(caught: pytest.ExceptionInfo[PlanOutOfDate], source: Path) -> tuple[str, str]:
    return caught.value.path.relative_to(source).as_posix(), caught.value.cause


@pytest.mark.parametrize("name", SESSIONS)
def test_session_at_any_step_leaves_no_manifest_and_the_change_is_told(sources: Sources, name: str) -> None:
    quiet, _ = steps_of_a_copy(sources)
    session, told = SESSIONS[name][0], Seen()
    assert quiet.manifest_step > 40
    steps = range(quiet.manifest_step) if name in NAMED else range(len(name), quiet.manifest_step, 9)
    for tried, step in enumerate(shuffled(steps)):
        if tried >= STEPS_TRIED and is_all_told(name, told) and not is_whole():
            break
        source, to = sources.next()
        with pytest.raises(PlanOutOfDate) as caught:
            copied(source, to, fs=Beside(step, lambda source=source: session(source)))  # type: ignore[misc]
        assert not (to / MANIFEST_FILE).exists()
        told.add(found(caught, source))
    assert_told(name, told, all_of_it=name in NAMED)


@pytest.mark.parametrize("name", SESSIONS)
def test_session_while_the_plan_is_made_leaves_no_copy(sources: Sources, name: str) -> None:
    for place in range(2):
        source, to = sources.next()
        asked: list[TopicPartition] = []

        def wanted(topic_partition: TopicPartition) -> bool:
            if len(asked) == place:  # noqa: B023 - called within this turn
                SESSIONS[name][0](source)  # noqa: B023
            asked.append(topic_partition)  # noqa: B023
            return True

        with pytest.raises(PlanOutOfDate) as caught:
            copied(source, to, wanted=wanted)
        assert_told(name, {found(caught, source)}, all_of_it=False)
        assert not to.exists()


@pytest.mark.parametrize("name", ["append", "recreation", "log start moved"])
def test_what_changes_behind_the_last_look_is_no_part_of_the_copy(sources: Sources, name: str) -> None:
    quiet, expected = steps_of_a_copy(sources)
    assert quiet.steps > quiet.manifest_step + 4
    for step in range(quiet.manifest_step, quiet.steps):
        source, to = sources.next()
        copied(source, to, fs=Beside(step, lambda source=source: SESSIONS[name][0](source)))  # type: ignore[misc]
        assert contents(to) == contents(expected)
        assert list(damaged_files(to, read_manifest(to).files)) == []


@pytest.mark.parametrize("name", ["append", "recreation", "topic altered"])
def test_session_while_the_configuration_is_read_leaves_no_copy(sources: Sources, name: str) -> None:
    source, to = sources.next()

    def read_again() -> Configured:
        SESSIONS[name][0](source)
        return Configured((source,), LAYERS)

    with pytest.raises(PlanOutOfDate) as caught:
        copied(source, to, read_again=read_again)
    assert_told(name, {found(caught, source)}, all_of_it=False)
    assert not to.exists()


def test_copy_is_made_by_the_configuration_that_is_read_under_the_lock(sources: Sources) -> None:
    source, to = sources.next()

    def read_again() -> Configured:
        with Broker(source) as broker:
            assert broker.answer == "refused"
        return Configured((source,), configured(clicks={"cleanup.policy": "delete", "retention.ms": "-1"}))

    copied(source, to, read_again=read_again)
    assert (to / log(CLICKS, 0)).exists()
    assert (to / log(ORDERS, 0)).exists()


def test_copy_is_of_the_log_dir_that_the_configuration_names_under_the_lock(sources: Sources) -> None:
    (source, to), (moved, _) = sources.next(), sources.next()
    append(moved)
    copied(source, to, read_again=lambda: Configured((moved,), LAYERS))
    assert (to / log(ORDERS, 4)).read_bytes() == (moved / log(ORDERS, 4)).read_bytes()
    with Broker(source) as broker:
        assert broker.answer == "locked"


def test_log_dirs_that_change_with_every_reading_are_given_up(sources: Sources) -> None:
    (source, to), (other, _) = sources.next(), sources.next()
    turns = cycle([other, source])
    with pytest.raises(LogDirsChange):
        copied(source, to, read_again=lambda: Configured((next(turns),), LAYERS))
    assert not to.exists()
