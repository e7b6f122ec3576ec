"""A stream over a log that is appended to and that a real daemon retains meanwhile, across a restart."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cleaner.daemon.test_daemon import Writer, configure
from tests.daemons import RunningDaemon, running

RECORDS = 480
RECORDS_KEPT = 150
AHEAD_MAX = 60
"""Records that nobody has read yet: less than retention keeps, so none of them may go."""
OFTEN = """
log.retention.check.interval.ms = 100
log.initial.task.delay.ms = 0
"""
TOPIC = f"""
[topics.events]
cleanup.policy = "delete"
retention.bytes = {RECORDS_KEPT * 1000}
file.delete.delay.ms = 200
"""
SECONDS_MAX = 240
Interval = tuple[float, float]


def test_no_record_is_missed_or_doubled_while_a_daemon_retains_within_micro_batches_and_across_a_restart(
    spark: Any, tmp_path: Path
) -> None:
    log_dir, to = tmp_path / "logs", tmp_path / "out"
    events = Writer(log_dir, "events-0")
    with running(tmp_path, "--config", str(configure(tmp_path, log_dir, OFTEN, TOPIC))) as daemon:
        daemon.wait_for_ready()
        first_life = Reader(spark, log_dir, to)
        first_life.follow(events, until=RECORDS // 2)  # what was appended by then is not all read
        second_life = Reader(spark, log_dir, to, first_life.read_to)
        second_life.follow(events, until=RECORDS)
        assert not [line for line in daemon.events() if line["level"] in ("warning", "error")]
        for life in (first_life, second_life):
            assert deletions_within(daemon, life.micro_batches) > 2
    offsets = sorted(row.offset for row in spark.read.parquet(str(to / "table")).collect())
    assert offsets == list(range(RECORDS))


class Reader:
    """A query that goes on from its checkpoint, stopped wherever it is by then."""

    def __init__(self, spark: Any, log_dir: Path, to: Path, read_to: int = 0) -> None:
        source = spark.readStream.format("kafka-log").option("columns", "offset").option("maxOffsetsPerTrigger", "30")
        frame = source.option("startingOffsets", "earliest").load(str(log_dir))
        sink = frame.writeStream.format("parquet").option("checkpointLocation", str(to / "checkpoint"))
        self._query = sink.start(str(to / "table"))
        self.read_to = read_to
        self.micro_batches: list[Interval] = []

    def follow(self, events: Writer, until: int) -> None:
        """Append as long as there is not too much unread, until so much was read."""
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while self._look() < until:
                assert time.monotonic() < deadline, f"{self.read_to} of {until} read"
                if events.log.log_end_offset < min(self.read_to + AHEAD_MAX, RECORDS):
                    events.append(*"abcd")
                else:
                    time.sleep(0.01)
            self.micro_batches = [interval_of(progress) for progress in self._query.recentProgress]
        finally:
            self._query.stop()

    def _look(self) -> int:
        if failure := self._query.exception():
            raise failure
        if progress := self._query.lastProgress:
            self.read_to = json.loads(progress["sources"][0]["endOffset"])["events"]["0"]
        return self.read_to


def interval_of(progress: Any) -> Interval:
    begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return begun, begun + progress["durationMs"]["triggerExecution"] / 1000


def deletions_within(daemon: RunningDaemon, micro_batches: list[Interval]) -> int:
    times = [datetime.fromisoformat(line["timestamp"]).timestamp() for line in daemon.events("segment_deleted")]
    return sum(any(begun <= at <= ended for begun, ended in micro_batches) for at in times)
