"""The daemon as systemd sees it: a real process, a real notify socket, a writer appending meanwhile."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, JOURNAL_FILE, LOCK_FILE, TopicPartition
from storage.records import Record
from tests.daemons import RunningDaemon, running
from tests.partition_dirs import NOW_MS, PartitionDir, committed, file_names, keyed, latest, records_in

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAZQ"
EVERY_SECOND = """
log.retention.check.interval.ms = 1000
log.initial.task.delay.ms = 0
log.cleaner.backoff.ms = 1000
"""
TOPICS = """
[topics.events]
cleanup.policy = "delete"
retention.ms = 3600000
file.delete.delay.ms = 1500
[topics.state]
cleanup.policy = "compact"
min.cleanable.dirty.ratio = 0.1
file.delete.delay.ms = 1500
"""


def configure(place: Path, log_dir: Path, top: str = EVERY_SECOND, topics: str = TOPICS) -> Path:
    """Replaced in one step, as editors do."""
    path, new = place / "logcleaner.toml", place / "new.toml"
    new.write_text(f'log.dirs = ["{log_dir}"]\nclock.jump.max = "100000d"\n{top}\n{topics}')
    return new.rename(path)


class Writer:
    """Appends to a partition as a broker would, timestamps and high watermark too."""

    def __init__(self, log_dir: Path, name: str) -> None:
        self.log_dir, self.topic_partition = log_dir, TopicPartition(*name.rsplit("-", 1)[:1], int(name[-1]))
        config = LogConfig(segment_bytes=4096)
        log_dir.mkdir(exist_ok=True)
        self.log = Log.create(log_dir / name, config, FileSystem(), topic_id=TOPIC_ID)

    def append(self, *keys: str, timestamp_ms: int | None = None, value: bytes = b"v" * 900) -> None:
        now_ms = time.time_ns() // 1_000_000
        at_ms = now_ms if timestamp_ms is None else timestamp_ms
        for key in keys:
            record = Record(0, at_ms, key.encode(), value + b"%d" % self.log.log_end_offset)
            self.log.append_records([record], now_ms=now_ms)
        ends = {
            **LogDir(self.log_dir).offsets(HIGH_WATERMARK_CHECKPOINT),
            self.topic_partition: self.log.log_end_offset,
        }
        LogDir(self.log_dir).write_offsets(HIGH_WATERMARK_CHECKPOINT, ends, FileSystem())

    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.log.directory.glob("*.log"))


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "logs"


def test_a_day_in_the_life(tmp_path, log_dir):
    """Retention, compaction, delayed deletion, reload, refusal, stop, restart: beside a writer."""
    events, state = Writer(log_dir, "events-0"), Writer(log_dir, "state-0")
    events.append(*"abcdefgh", timestamp_ms=1_000)
    expired = events.bases()
    events.log.roll(NOW_MS)
    events.append(*"abcdefgh")  # a live writer's segment must not expire under it
    state.append(*"abcabcabcabc")
    with running(tmp_path, "--config", str(configure(tmp_path, log_dir))) as daemon:
        daemon.wait_for_ready()

        daemon.wait_until(lambda: events.bases()[0] == 8)  # retention took what expired
        assert {line["base_offset"] for line in daemon.events("segment_deleted")} == set(expired)
        daemon.wait_until(lambda: not list(events.log.directory.glob("*.deleted")), 30)  # the delay is over

        daemon.wait_until(lambda: daemon.events("segments_compacted"))
        state.append(*"defdefdefdef")
        daemon.wait_until(lambda: len(daemon.events("segments_compacted")) > 1)
        assert len(records_in(state.log.directory)) < 24
        assert latest(state.log.directory).keys() == set(b"a b c d e f".split())

        assert refuses(daemon, configure(tmp_path, log_dir, topics="[topics.events]\nretention.ms = 'soon'"))
        assert reloads(daemon, configure(tmp_path, log_dir, topics=TOPICS.replace("3600000", "7200000")))
        daemon.wait_until(lambda: daemon.notified().count("WATCHDOG=1") > 3)  # one a second
        daemon.stop()
    assert daemon.process.returncode == 0
    assert LogDir(log_dir).locked_by() is None
    assert_told_in_order(daemon.notified())
    restarts(tmp_path, log_dir, state)


def refuses(daemon: RunningDaemon, _config: Path) -> bool:
    daemon.wait_until(lambda: daemon.events("config_rejected"))
    rejected, *_ = daemon.events("config_rejected")  # told again by each full survey, one a second here
    return "retention.ms" in rejected["error"] and "line" in rejected["error"]


def reloads(daemon: RunningDaemon, _config: Path) -> bool:
    daemon.wait_until(lambda: daemon.events("config_reloaded"))
    (reloaded,) = daemon.events("config_reloaded")
    return reloaded["changes"] == ['[topics."events"] retention.ms: 1h -> 2h']


def assert_told_in_order(messages: list[str]) -> None:
    ready = messages.index("READY=1")
    reload_ = next(place for place, text in enumerate(messages) if text.startswith("RELOADING=1\nMONOTONIC_USEC="))
    assert ready < reload_ < messages.index("READY=1", reload_) < messages.index("STOPPING=1")
    assert messages.count("WATCHDOG=1") > 3
    assert "STATUS=serving 2 partitions" in messages
    assert any(text.startswith("STATUS=compacting state-0") for text in messages)


def restarts(tmp_path: Path, log_dir: Path, state: Writer) -> None:
    state.append(*"ghighighighi")
    with running(tmp_path, "--config", str(tmp_path / "logcleaner.toml"), number=1) as daemon:
        daemon.wait_until(lambda: daemon.events("segments_compacted"))
        daemon.stop(signal.SIGINT)
    assert set(latest(state.log.directory)) == set(b"a b c d e f g h i".split())


def a_large_log(log_dir: Path, megabytes: int) -> Path:
    """Of records that are all kept, so that pass 2 takes a while."""
    drawn = PartitionDir(log_dir, "state-0")
    value = "v" * 60_000
    for place in range(megabytes):
        pairs = [f"{place}-{number}={value}" for number in range(17)]
        drawn.segment(17 * place, keyed(17 * place, *pairs))
    drawn.segment(17 * megabytes, keyed(17 * megabytes, "end=1"))
    return committed(log_dir, drawn)


def test_sigterm_amid_a_compaction_leaves_nothing_half_done(tmp_path, log_dir):
    a_large_log(log_dir, 24)
    before = latest(log_dir / "state-0")
    slow = "log.cleaner.io.max.bytes.per.second = 1000000\n"
    config = configure(tmp_path, log_dir, EVERY_SECOND + slow)
    with running(tmp_path, "--config", str(config)) as daemon:
        daemon.wait_until(lambda: any("compacting state-0: " in text for text in daemon.notified()))
        daemon.stop()
    assert daemon.process.returncode == 0
    assert not [name for name in file_names(log_dir / "state-0") if name.endswith((".cleaned", ".swap"))]
    assert LogDir(log_dir).locked_by() is None
    assert latest(log_dir / "state-0") == before
    assert not daemon.events("job_failed") + daemon.events("worker_died") + daemon.events("partition_backs_off")


def test_a_child_that_is_killed_is_counted_and_the_daemon_goes_on(tmp_path, log_dir):
    a_large_log(log_dir, 24)
    config = configure(tmp_path, log_dir, EVERY_SECOND + "log.cleaner.io.max.bytes.per.second = 1000000\n")
    with running(tmp_path, "--config", str(config)) as daemon:
        daemon.wait_until(lambda: any("compacting state-0: " in text for text in daemon.notified()))
        (child,) = children(daemon.process.pid)
        os.kill(child, signal.SIGKILL)
        daemon.wait_until(lambda: daemon.events("worker_died"))
        (backs_off,) = daemon.events("partition_backs_off")
        assert (backs_off["topic"], backs_off["pause_ms"]) == ("state", 60_000)
        assert "signal 9" in backs_off["error"]
        daemon.wait_until(lambda: LogDir(log_dir).locked_by() is None)
        daemon.send(signal.SIGUSR1)  # what failed is tried again
        daemon.wait_until(lambda: children(daemon.process.pid))
        daemon.stop()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def test_the_daemon_itself_loads_no_kernels(tmp_path, log_dir):
    state = Writer(log_dir, "state-0")
    state.append(*"abcabcabcabc")
    with running(tmp_path, "--config", str(configure(tmp_path, log_dir))) as daemon:
        daemon.wait_until(lambda: daemon.events("segments_compacted"))
        maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
        assert "storage/machine/compiled" not in maps
        daemon.wait_until(lambda: not children(daemon.process.pid))  # it ends when there is no more to compact


def test_while_a_broker_has_the_log_dir_it_is_observed(tmp_path, log_dir):
    events = Writer(log_dir, "events-0")
    events.append(*"abcdefgh", timestamp_ms=1_000)
    events.append(*"abcdefgh")
    with running(tmp_path, "--config", str(configure(tmp_path, log_dir))) as daemon:
        with LogDir(log_dir).lock(FileSystem()):
            daemon.wait_until(lambda: any("is held by" in text for text in daemon.notified()))
            before = file_names(log_dir / "events-0")
            time.sleep(1.5)
            assert not daemon.events("segment_deleted") or before == file_names(log_dir / "events-0")
        daemon.wait_until(lambda: daemon.events("log_dir_free"))
        daemon.wait_until(lambda: daemon.events("segment_deleted"))


def test_observing_changes_nothing_beside_a_live_broker(tmp_path, log_dir):
    events = Writer(log_dir, "events-0")
    events.append(*"abcdefgh", timestamp_ms=1_000)
    events.append(*"abcdefgh")
    before = state_of(log_dir)
    with (
        LogDir(log_dir).lock(FileSystem()),
        running(tmp_path, "--observe", "--config", str(configure(tmp_path, log_dir))) as daemon,
    ):
        daemon.wait_for_ready()
        daemon.wait_until(lambda: len(daemon.events("job_begun")) > 2)
        daemon.stop()
    assert {line["job"] for line in daemon.events("job_begun")} == {"survey"}
    assert state_of(log_dir) == before
    assert "STATUS=observing 1 partitions" in daemon.notified()


def state_of(log_dir: Path) -> dict[str, tuple[int, int]]:
    files = {path: path.stat() for path in log_dir.rglob("*") if path.name != LOCK_FILE}
    return {str(path): (status.st_mtime_ns, status.st_size) for path, status in files.items() if path.is_file()}


def test_what_others_do_is_seen(tmp_path, log_dir):
    events = Writer(log_dir, "events-0")
    events.append(*"abcdefghijkl")
    with running(tmp_path, "--config", str(configure(tmp_path, log_dir))) as daemon:
        daemon.wait_for_ready()
        (events.log.directory / f"{events.bases()[0]:020d}.log").unlink()
        daemon.wait_until(lambda: daemon.events("files_vanished"))
        Writer(log_dir, "state-1").append("a")
        daemon.wait_until(lambda: daemon.events("partition_appeared"))
        (log_dir / "state-1").rename(tmp_path / "taken-away")
        daemon.wait_until(lambda: daemon.events("partition_vanished"))
    (vanished,) = daemon.events("files_vanished")
    assert (vanished["topic"], vanished["partition"], vanished["files"]) == ("events", 0, 1)


class TestOnce:
    def run(self, place: Path, config: Path, *arguments: str) -> RunningDaemon:
        with running(place, "--once", "--config", str(config), *arguments) as daemon:
            daemon.process.wait(60)
        return daemon

    def test_does_one_round_of_everything(self, tmp_path, log_dir):
        drawn = PartitionDir(log_dir, "state-0")
        for base in range(0, 6, 2):
            drawn.segment(base, keyed(base, "a=1", "b=2"))
        old = PartitionDir(log_dir, "events-0").segment(0, keyed(0, "a=1", timestamp_ms=1_000)).segment(1, b"")
        committed(log_dir, drawn, old)
        daemon = self.run(tmp_path, configure(tmp_path, log_dir, "", TOPICS.replace("1500", "60000")))
        assert daemon.process.returncode == 0, daemon.text
        assert [line["job"] for line in daemon.events("job_begun")] == ["retention", "compaction"]
        assert daemon.events("segments_compacted")
        assert daemon.events("segment_deleted")
        assert (log_dir / JOURNAL_FILE).exists()

    def test_says_that_a_log_dir_is_held(self, tmp_path, log_dir):
        committed(log_dir, PartitionDir(log_dir, "state-0").segment(0, keyed(0, "a=1")))
        with LogDir(log_dir).lock(FileSystem()):
            assert self.run(tmp_path, configure(tmp_path, log_dir)).process.returncode == 3

    def test_says_that_something_is_held_back(self, tmp_path, log_dir):
        committed(log_dir, PartitionDir(log_dir, "unknown-0").segment(0, keyed(0, "a=1")))
        daemon = self.run(tmp_path, configure(tmp_path, log_dir))
        assert daemon.process.returncode == 5
        assert [line["topic"] for line in daemon.events("config_unknown")] == ["unknown"]

    def test_says_that_a_partition_failed(self, tmp_path, log_dir):
        drawn = PartitionDir(log_dir, "state-0")
        for base in range(0, 6, 2):
            drawn.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS))
        committed(log_dir, drawn)
        with drawn.log(0).open("r+b") as file:
            file.seek(70)
            file.write(b"\xff")
        daemon = self.run(tmp_path, configure(tmp_path, log_dir))
        assert daemon.process.returncode == 1
        (backs_off,) = daemon.events("partition_backs_off")
        assert "pause_ms" not in backs_off  # it waits until the files change

    def test_a_wrong_configuration_is_told_at_the_start(self, tmp_path, log_dir):
        log_dir.mkdir()
        (log_dir / "cat.jpeg").touch()  # an empty directory may be a mount point, and is status 6
        daemon = self.run(tmp_path, configure(tmp_path, log_dir))
        assert daemon.process.returncode == 2
        assert "holds no Kafka file" in daemon.text
