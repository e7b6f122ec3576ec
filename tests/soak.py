"""The real daemon on the real scheduler, beside a producer that appends through our Log.

    python -m tests.soak --minutes 10                      ten minutes of appends, deletions, compactions
    python -m tests.soak --idle --partitions 2000          what it costs to have nothing to do

The first ends with exit status 1 where a record was lost, a job was missed or done twice, or memory grew; CI runs ten
seconds of it (``tests/test_soak.py``). Both print their figures: docs/survival.md has those of one machine.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, TopicPartition
from storage.records import Record
from tests.benchmarks.processes import memory_bytes
from tests.daemons import RunningDaemon, running
from tests.partition_dirs import NOW_MS, PartitionDir, committed, keyed, latest, records_in

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAZQ"
PARTITIONS = 4
KEYS = 200
CLOCK_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
GROWTH_MAX = 1.10


@dataclass(frozen=True, slots=True)
class Scale:
    """Every interval of the run, in ms."""

    retention_ms: int
    retention_check_ms: int
    survey_ms: int
    delete_delay_ms: int
    segment_ms: int
    slack_ms: int
    """A tick, and how long the job before may take."""


BRIEF = Scale(3_000, 2_000, 1_000, 1_500, 1_000, slack_ms=300_000)
"""It runs beside other tests: what is due must go, however late."""
LONG = Scale(20_000, 5_000, 3_000, 10_000, 2_000, slack_ms=3_000)


Place = tuple[TopicPartition, int]
"""A segment: its partition and base offset."""


@dataclass(slots=True)
class Producer:
    """Appends to ``events`` (deleted by time) and ``state`` (compacted), and remembers what a reader must find."""

    log_dir: Path
    scale: Scale
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    latest: dict[TopicPartition, dict[bytes, bytes]] = field(default_factory=dict)
    newest_ms: dict[Place, int] = field(default_factory=dict)
    """Of each segment: the timestamp of its newest record."""
    appended: int = 0

    def open(self) -> None:
        """Make the partitions."""
        config = LogConfig(segment_ms=self.scale.segment_ms, segment_bytes=1 << 20)
        for topic in ("events", "state"):
            for number in range(PARTITIONS):
                partition = TopicPartition(topic, number)
                path = self.log_dir / str(partition)
                self.logs[partition] = Log.create(path, config, FileSystem(), topic_id=TOPIC_ID)
                self.latest[partition] = {}

    def append(self, chance: random.Random) -> None:
        """A batch to every partition; then, as a broker does now and then, the high watermarks."""
        now_ms = time.time_ns() // 1_000_000
        for partition, log in self.logs.items():
            log.append_records([self._record(partition, now_ms, chance) for _ in range(20)], now_ms=now_ms)
            self.newest_ms[(partition, log.segments[-1].base_offset)] = now_ms
            self.appended += 20
        offsets = {partition: log.log_end_offset for partition, log in self.logs.items()}
        LogDir(self.log_dir).write_offsets(HIGH_WATERMARK_CHECKPOINT, offsets, FileSystem())

    def _record(self, partition: TopicPartition, now_ms: int, chance: random.Random) -> Record:
        key, value = b"k%d" % chance.randrange(KEYS), chance.randbytes(100)
        if chance.random() < 0.02:
            self.latest[partition].pop(key, None)
            return Record(0, now_ms, key, None)
        self.latest[partition][key] = value
        return Record(0, now_ms, key, value)

    def close(self) -> None:
        """Leave the logs as a broker's clean stop does."""
        for log in self.logs.values():
            log.close()


def configuration(place: Path, log_dir: Path, scale: Scale) -> Path:
    """The daemon's configuration file."""
    path = place / "soak.toml"
    path.write_text(
        f"""
log.dirs = ["{log_dir}"]
log.retention.check.interval.ms = {scale.retention_check_ms}
log.initial.task.delay.ms = 0
log.cleaner.backoff.ms = {scale.survey_ms}
[defaults]
file.delete.delay.ms = {scale.delete_delay_ms}
[topics.events]
cleanup.policy = "delete"
retention.ms = {scale.retention_ms}
[topics.state]
cleanup.policy = "compact"
min.cleanable.dirty.ratio = 0.2
"""
    )
    return path


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of a run. Nothing may be lost, missed, doubled or late."""

    seconds: float
    appended: int
    rounds: Mapping[str, int]
    deleted: int
    late_ms_max: int
    lost: int
    missed: int
    doubled: int
    too_often: int
    """Retentions beyond one an interval. Where others take the processor, one that was cut short has its turn again."""
    rss_bytes: tuple[int, ...]
    """Of the daemon, a sample a second."""

    @property
    def growth(self) -> float:
        """Memory at the end, in terms of what it was once warm: medians of the last and the second fifth."""
        fifth = max(1, len(self.rss_bytes) // 5)
        warm, end = sorted(self.rss_bytes[fifth : 2 * fifth]), sorted(self.rss_bytes[-fifth:])
        return end[len(end) // 2] / warm[len(warm) // 2]

    def lines(self) -> Iterator[str]:
        """For people."""
        jobs = ", ".join(f"{count} {kind}" for kind, count in sorted(self.rounds.items()))
        yield f"{self.seconds:.0f} s, {self.appended} records appended; jobs: {jobs}"
        yield f"segments deleted by retention: {self.deleted}, the latest {self.late_ms_max} ms after its time"
        yield f"records lost: {self.lost}; segments missed: {self.missed}; doubled: {self.doubled}"
        yield f"retentions beyond one an interval: {self.too_often}"
        peak = max(self.rss_bytes) >> 20
        yield f"daemon's memory: {self.rss_bytes[-1] >> 20} MiB at the end, {peak} at most, growth {self.growth:.3f}"

    @property
    def is_good(self) -> bool:
        """Whether all held."""
        return not (self.lost or self.missed or self.doubled) and self.growth <= GROWTH_MAX

    @property
    def is_punctual(self) -> bool:
        """Whether it did no more than it should, as it can on a machine of its own."""
        return not self.too_often


def soak(place: Path, seconds: float, scale: Scale) -> Findings:
    """Run the daemon beside a producer for so long."""
    log_dir = place / "logs"
    log_dir.mkdir()
    producer, chance = Producer(log_dir, scale), random.Random(8)
    producer.open()
    producer.append(chance)
    with running(place, "--config", str(configuration(place, log_dir, scale))) as daemon:
        daemon.wait_until(lambda: producer.append(chance) or "READY=1" in daemon.notified())
        started, rss_bytes = time.monotonic(), [memory_bytes(daemon.process.pid, "VmRSS")]
        while time.monotonic() - started < seconds:
            producer.append(chance)
            if time.monotonic() - started >= len(rss_bytes):
                rss_bytes.append(memory_bytes(daemon.process.pid, "VmRSS"))
            time.sleep(0.05)
        produced_ms = time.time_ns() // 1_000_000
        daemon.wait_until(lambda: producer.append(chance) or "compaction" in _begun(daemon), 300)
        daemon.wait_until(lambda: producer.append(chance) or not _due(producer, produced_ms), 300)
        ended_ms = time.time_ns() // 1_000_000
        daemon.stop()
        producer.close()
        return _findings(daemon, producer, ended_ms, time.monotonic() - started, tuple(rss_bytes))


def _findings(
    daemon: RunningDaemon, producer: Producer, ended_ms: int, seconds: float, rss_bytes: tuple[int, ...]
) -> Findings:
    scale, log_dir = producer.scale, producer.log_dir
    deletions = list(_deletions(daemon))
    due_ms = {place: newest + scale.retention_ms for place, newest in producer.newest_ms.items()}
    bound_ms = scale.retention_check_ms + scale.slack_ms
    lates = [done_ms - due_ms[place] for place, done_ms in deletions]
    doubled = sum(count - 1 for count in Counter(place for place, _ in deletions).values())
    missed = sum(not 0 <= late <= bound_ms for late in lates)
    missed += sum(due + bound_ms < ended_ms and _is_there(log_dir, place) for place, due in due_ms.items())
    missed += _leftovers(log_dir, ended_ms - scale.slack_ms - scale.survey_ms, scale)
    rounds = _begun(daemon)
    begun_ms = [_time_ms(line) for line in daemon.events("job_begun") if line["job"] == "retention"]
    begun_ms = [time_ms for time_ms in begun_ms if time_ms <= ended_ms]  # its end may take a while
    missed += sum(later - before > bound_ms for before, later in pairwise([*begun_ms, ended_ms]))
    too_often = max(0, len(begun_ms) - (ended_ms - begun_ms[0]) // scale.retention_check_ms - 1)
    late_ms_max, lost = max(lates, default=0), _lost(producer)
    return Findings(
        seconds, producer.appended, rounds, len(deletions), late_ms_max, lost, missed, doubled, too_often, rss_bytes
    )


def _deletions(daemon: RunningDaemon) -> Iterator[tuple[Place, int]]:
    """Segments, and when they were deleted, epoch ms."""
    for line in daemon.events("segment_deleted"):
        yield (TopicPartition(line["topic"], line["partition"]), line["base_offset"]), _time_ms(line)


def _time_ms(line: Mapping[str, Any]) -> int:
    return round(datetime.fromisoformat(line["timestamp"]).timestamp() * 1000)


def _begun(daemon: RunningDaemon) -> Counter[str]:
    """How many jobs of each kind began."""
    return Counter(line["job"] for line in daemon.events("job_begun"))


def _due(producer: Producer, at_ms: int) -> list[Place]:
    """Segments that should have been gone by now, and are not."""
    retention_ms = producer.scale.retention_ms
    due = (place for place, newest_ms in producer.newest_ms.items() if newest_ms + retention_ms < at_ms)
    return [place for place in due if _is_there(producer.log_dir, place)]


def _is_there(log_dir: Path, place: Place) -> bool:
    partition, base_offset = place
    return partition.topic == "events" and (log_dir / str(partition) / f"{base_offset:020d}.log").exists()


def _leftovers(log_dir: Path, before_ms: int, scale: Scale) -> int:
    """``.deleted`` files whose delay was over before."""
    files = [path.stat() for path in log_dir.glob("*/*.deleted")]
    return sum(file.st_ctime_ns // 1_000_000 + scale.delete_delay_ms < before_ms for file in files)


def _lost(producer: Producer) -> int:
    """Keys whose value is not the newest one; offsets missing between a log's first record and its end."""
    lost = 0
    for partition, log in producer.logs.items():
        directory = producer.log_dir / str(partition)
        if partition.topic == "state":
            found = latest(directory)
            lost += sum(found.get(key) != value for key, value in producer.latest[partition].items())
            lost += len(found.keys() - producer.latest[partition].keys())
        else:
            offsets = [record.offset for record in records_in(directory)]
            lost += log.log_end_offset - offsets[0] - len(offsets)
    return lost


class Idle(NamedTuple):
    """What a daemon costs that has nothing to do: the share of one core is the machine's, too; wake-ups are its own."""

    share: float
    wake_ups_per_second: float
    rss_bytes: int


def idle(place: Path, partitions: int, seconds: float) -> Idle:
    """What a daemon costs at default intervals that has nothing to do.

    Measured from the end of its first retention on; the next ones come every five minutes.
    """
    log_dir = place / "logs"
    drawn = [_quiet(log_dir, f"{'state' if n % 2 else 'events'}-{n // 2}") for n in range(partitions)]
    committed(log_dir, *drawn)
    path = place / "idle.toml"
    path.write_text(
        f"""
log.dirs = ["{log_dir}"]
clock.jump.max = "10000d"
log.initial.task.delay.ms = 1000
[topics.events]
cleanup.policy = "delete"
[topics.state]
cleanup.policy = "compact"
min.cleanable.dirty.ratio = 1.0
"""
    )
    with running(place, "--config", str(path)) as daemon:
        daemon.wait_until(lambda: any(line["job"] == "retention" for line in daemon.events("job_begun")))
        daemon.wait_until(lambda: f"STATUS=serving {partitions} partitions" in daemon.notified()[-1:])
        pid = daemon.process.pid
        before, woken, started = _cpu_seconds(pid), _wake_ups(pid), time.monotonic()
        time.sleep(seconds)
        cpu, wake_ups, passed = _cpu_seconds(pid) - before, _wake_ups(pid) - woken, time.monotonic() - started
        return Idle(cpu / passed, wake_ups / passed, memory_bytes(pid, "VmRSS"))


def _quiet(log_dir: Path, name: str) -> PartitionDir:
    drawn = PartitionDir(log_dir, name)
    for base in (0, 2, 4):
        drawn.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS))
    return drawn


def _cpu_seconds(pid: int) -> float:
    """Return user and system time of a process without ended children, of which there are none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_A_SECOND


def _wake_ups(pid: int) -> int:
    """How often threads of a process that are there now waited for something, and got it."""
    states = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(state.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for state in states)


def main() -> int:
    """Run one of the two and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long --idle measures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if args.idle:
            cost = idle(Path(place), args.partitions, args.seconds)
            print(f"{args.partitions} partitions, {args.seconds:.0f} s: {cost.share:.2%} of a core,", end=" ")
            print(f"{cost.wake_ups_per_second:.0f} wake-ups a second, {cost.rss_bytes >> 20} MiB")
            return 0
        findings = soak(Path(place), args.minutes * 60, LONG)
    print(*findings.lines(), sep="\n")
    return 0 if findings.is_good and findings.is_punctual else 1


if __name__ == "__main__":
    sys.exit(main())
