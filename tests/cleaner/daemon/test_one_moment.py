"""The daemon acts on facts that it read under its lock, and obeys a broker's session between any two of its rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.config.layers import Settings
from cleaner.config.reader import ConfigurationReader
from cleaner.daemon import worker as round_module
from cleaner.daemon.configuration import Configuration
from cleaner.daemon.observer import JobKind
from policies.config.config_keys import LONG_MAX
from storage.filesystem import FileSystem
from storage.lock import holder_of
from storage.log_dir import LogDir
from tests.cleaner.daemon.test_worker import Observed, Recorded, SameProcess, Supervised
from tests.metadata_dirs import alter, metadata_log, session, write_metadata
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, FakeClock, PartitionDir, committed, keyed

TICK_MS = 15_000
TICKS = 24
"""More than retention's interval of five minutes."""
KEEP_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}


class World:
    """A daemon whose configuration is the cluster metadata that lies in its log dir."""

    def __init__(self, log_dir: Path, *set_options: str, reader: ConfigurationReader | None = None) -> None:
        from cleaner.daemon.telling import Teller
        from cleaner.daemon.worker import Worker

        self.log_dir, self.clock, self.log = log_dir, FakeClock(), Recorded()
        self.observer = Observed()
        self.teller = Teller(self.log, self.observer)
        self.teller.begin_round = lambda _number: None  # type: ignore[method-assign]
        options = (f"clock.jump.max={LONG_MAX}", *set_options)
        self.reader = reader or ConfigurationReader(Settings, [log_dir], options)
        self.configuration = Configuration(self.reader.read)
        self.worker = Worker(self.configuration, self.clock, self.teller, Supervised(), observing=False)

    def tick(self) -> None:
        self.worker.tick()
        self.clock.time_ms += TICK_MS
        self.clock.sleep(TICK_MS / 1000)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(round_module, "CompactingChild", SameProcess)


def drawn(path: Path, due_ms: int) -> Path:
    """``orders`` expires, and ``state`` can be compacted, from ``due_ms`` after the start on."""
    orders, state = PartitionDir(path, "orders-0"), PartitionDir(path, "state-0")
    for base in (0, 2, 4):
        orders.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS + due_ms - DAY_MS - 1))
        state.segment(base, keyed(base, "a=1", f"b={base}", timestamp_ms=NOW_MS + due_ms - DAY_MS))
    write_metadata(path, orders=EXPIRING, state={**COMPACT, "min.compaction.lag.ms": str(DAY_MS)})
    return committed(path, orders, state)


def logs(log_dir: Path) -> dict[str, bytes]:
    """Every segment that is part of a log."""
    return {str(path): path.read_bytes() for path in sorted(log_dir.glob("[os]*-0/*.log"))}


def test_without_a_session_both_partitions_lose_something(tmp_path):
    world = World(drawn(tmp_path, 2 * TICK_MS))
    before = logs(tmp_path)
    for _ in range(TICKS):
        world.tick()
    assert {"segment_deleted", "segments_compacted"} <= set(world.log.names())
    assert logs(tmp_path) != before


@pytest.mark.parametrize("hold_max", ["10s", "0"])
@pytest.mark.parametrize("before_tick", range(TICKS))
def test_a_session_between_any_two_rounds_is_obeyed(tmp_path, before_tick, hold_max):
    """What becomes due behind the session must not be done by the configuration of before.

    With ``lock.hold.max`` of 0 each job that changes something is a round of its own.
    """
    world = World(drawn(tmp_path, before_tick * TICK_MS), f"lock.hold.max={hold_max}")
    for number in range(TICKS + 21):
        if number == before_tick:
            kept = logs(tmp_path)
            session(tmp_path, orders=KEEP_ALL, state={"cleanup.policy": "delete", **KEEP_ALL})
        world.tick()
    assert logs(tmp_path) == kept
    assert "config_reloaded" in world.log.names()


@pytest.mark.parametrize("before_tick", range(0, TICKS, 2))
def test_metadata_that_cannot_be_read_changes_nothing_until_it_can(tmp_path, before_tick):
    world = World(drawn(tmp_path, before_tick * TICK_MS))
    for number in range(TICKS + 21):
        if number == before_tick:
            kept, whole = logs(tmp_path), metadata_log(tmp_path).read_bytes()
            metadata_log(tmp_path).write_bytes(damaged(whole))
        world.tick()
    assert logs(tmp_path) == kept
    (told,) = {fields["error"] for name, fields in world.log.events if name == "config_rejected"}
    assert told.endswith("nothing is changed until it can be read")
    metadata_log(tmp_path).write_bytes(whole)
    for _ in range(3):
        world.tick()
    assert {"segment_deleted", "segments_compacted"} <= set(world.log.names())


def test_what_the_journal_names_is_removed_also_while_the_metadata_cannot_be_read(tmp_path):
    """The decision was made when the configuration could be read; the space may be what a broker waits for."""
    world = World(drawn(tmp_path, 0))
    while "segment_deleted" not in world.log.names():
        world.tick()
    foreign = tmp_path / "orders-0" / f"{77:020d}.log.deleted"
    foreign.write_bytes(b"x")
    kept, whole = logs(tmp_path), metadata_log(tmp_path).read_bytes()
    metadata_log(tmp_path).write_bytes(damaged(whole))
    for _ in range(TICKS):
        world.tick()
    assert "files_removed" in world.log.names()
    assert [path.name for path in (tmp_path / "orders-0").glob("*.deleted")] == [foreign.name]
    assert logs(tmp_path) == kept


def damaged(whole: bytes) -> bytes:
    """A bit of the first of two batches has changed: no torn tail."""
    return whole[:70] + bytes([whole[70] ^ 1]) + whole[71:]


def test_a_torn_tail_of_the_metadata_can_be_read(tmp_path):
    world = World(drawn(tmp_path, 0))
    alter(tmp_path, orders=KEEP_ALL)
    with metadata_log(tmp_path).open("ab") as file:
        file.write(b"\0\0\0\0")
    for _ in range(5):
        world.tick()
    assert "config_rejected" not in world.log.names()
    assert "segments_compacted" in world.log.names()
    assert "segment_deleted" not in world.log.names()


def test_a_removal_does_not_delete_by_a_limit_that_was_taken_back(tmp_path):
    """The job that unlinks what waited long enough applies retention, too."""
    orders = PartitionDir(tmp_path, "orders-0")
    for base, due_ms in ((0, 0), (2, 4 * TICK_MS), (4, DAY_MS)):
        orders.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS + due_ms - DAY_MS - 1))
    world = World(write_metadata(committed(tmp_path, orders), orders={**EXPIRING, "file.delete.delay.ms": "60000"}))
    while "segment_deleted" not in world.log.names():
        world.tick()
    kept = logs(tmp_path)
    session(tmp_path, orders=KEEP_ALL)
    while "files_removed" not in world.log.names():
        world.tick()
    assert logs(tmp_path) == kept


def test_the_metadata_is_read_again_only_after_a_change(tmp_path, monkeypatch):
    readings = []
    from storage.metadata import metadata_log

    read = metadata_log.read_cluster_metadata
    monkeypatch.setattr(metadata_log, "read_cluster_metadata", lambda path: readings.append(path) or read(path))
    world = World(drawn(tmp_path, 0))
    for _ in range(TICKS):
        world.tick()
    assert len(readings) == 1
    session(tmp_path, orders={"retention.bytes": "5"})
    for _ in range(TICKS):
        world.tick()
    assert len(readings) == 2


def test_a_round_that_locked_other_log_dirs_than_are_named_by_now_changes_nothing(tmp_path):
    """The lock of the new one is taken by the next round."""
    one, other = drawn(tmp_path / "one", 0), drawn(tmp_path / "other", 0)
    dirs = [one]
    reader = ConfigurationReader(Settings, [one], [f"clock.jump.max={LONG_MAX}"])
    read = reader.read
    reader.read = lambda: read()._replace(log_dirs=tuple(dirs))  # type: ignore[method-assign]
    world = World(one, reader=reader)
    before = logs(one)

    def taken(self, *args, **kwargs):
        dirs[:] = [other]
        (one / "__cluster_metadata-0" / "quorum-state").touch()  # what was read is stale
        return lock(self, *args, **kwargs)

    lock = LogDir.lock
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogDir, "lock", taken)
        world.worker.tick()
    assert logs(one) == before
    for _ in range(TICKS):
        world.tick()
    assert logs(one) == before
    assert "segments_compacted" in world.log.names()


def test_a_file_that_does_not_validate_leaves_the_running_configuration_in_force_beside_new_metadata(tmp_path):
    from cleaner.config.settings import read_settings

    log_dir, file = drawn(tmp_path / "data", 0), tmp_path / "c.toml"
    file.write_text('[topics."other"]\nretention.ms = 5\n')
    reader = ConfigurationReader(
        lambda: read_settings(file), [log_dir], [f"clock.jump.max={LONG_MAX}"], keeps_settings=True
    )
    world = World(log_dir, reader=reader)
    file.write_text('[topics."other"]\nretention.ms = "soon"\n')
    session(log_dir, orders=KEEP_ALL)
    for _ in range(TICKS):
        world.tick()
    assert "segments_compacted" in world.log.names()
    assert "segment_deleted" not in world.log.names()
    (told,) = {fields["error"] for name, fields in world.log.events if name == "config_rejected"}
    assert "retention.ms" in told
    assert told.endswith("the one before it stays in force")
    assert (JobKind.RETENTION, True) in [(job.kind, job.succeeded) for job in world.observer.jobs]


def test_the_lock_is_free_between_the_rounds(tmp_path):
    world = World(drawn(tmp_path, 0))
    for _ in range(4):
        world.tick()
        assert holder_of(tmp_path) is None
        with LogDir(tmp_path).lock(FileSystem()):
            pass
    assert {"segment_deleted", "segments_compacted"} <= set(world.log.names())


@pytest.mark.parametrize("gone", ["__cluster_metadata-0", "."])
def test_metadata_that_was_read_and_is_gone_changes_nothing(tmp_path, gone):
    """The broker made it after the daemon started, or a disk died: what the topics state is not known any more."""
    log_dir, meta = drawn(tmp_path / "data", 5 * TICK_MS), tmp_path / "meta"
    meta.mkdir()
    (log_dir / "__cluster_metadata-0").rename(meta / "__cluster_metadata-0")
    options = [f"clock.jump.max={LONG_MAX}", f"log.dirs={log_dir},{meta}", "retention.ms=1000"]
    world = World(log_dir, reader=ConfigurationReader(Settings, [log_dir], options))
    kept = logs(log_dir)
    (meta / gone).rename(tmp_path / "away")
    for _ in range(TICKS):
        world.tick()
    assert logs(log_dir) == kept
    assert "config_rejected" in world.log.names()


def test_a_file_that_was_rejected_is_tried_again_although_it_did_not_change(tmp_path):
    """The file names a server.properties that is written later."""
    from cleaner.config.settings import read_settings

    log_dir, file = drawn(tmp_path / "data", 25 * TICK_MS), tmp_path / "c.toml"
    file.write_text("")
    reader = ConfigurationReader(
        lambda: read_settings(file), [log_dir], [f"clock.jump.max={LONG_MAX}"], keeps_settings=True
    )
    world = World(log_dir, reader=reader)
    stays = 'cleanup.policy = "delete"\nretention.ms = -1\n'
    file.write_text(f'server.properties = "sp"\n[topics."orders"]\n{stays}[topics."state"]\n{stays}')
    world.tick()
    (tmp_path / "sp").write_text("listeners=PLAINTEXT://:9092\n")
    kept = logs(log_dir)
    for _ in range(3 * TICKS):
        world.tick()
    assert logs(log_dir) == kept
    assert "config_rejected" in world.log.names()
    assert "config_reloaded" in world.log.names()


def test_a_file_that_is_mended_back_to_what_is_in_force_is_told(tmp_path):
    """The last line about it must not be an error."""
    from cleaner.config.settings import read_settings

    log_dir, file = drawn(tmp_path / "data", 25 * TICK_MS), tmp_path / "c.toml"
    file.write_text("")
    reader = ConfigurationReader(lambda: read_settings(file), [log_dir], [], keeps_settings=True)
    world = World(log_dir, reader=reader)
    for text in ("nonsense = 1", ""):
        file.write_text(text)
        world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
        world.tick()
    told = [(name, fields.get("changes")) for name, fields in world.log.events if name.startswith("config_re")]
    assert (told[0], told[-1]) == (("config_rejected", None), ("config_reloaded", []))
