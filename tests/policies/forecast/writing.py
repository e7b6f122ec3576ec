"""A topic that is written at one rate, rolled as a broker rolls it, and cleaned every hour."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts
from policies.plan import PartitionPlan, Plan, Request
from policies.planning import plan
from tests.builders import NOW_MS, LogBuilder, a_log

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass
class Topic:
    """A partition that grows by the same bytes each hour.

    Attributes:
        bytes_per_hour: what producers write.
        policy: says when a segment is full, or too old, and what goes.
        now_ms: the time of this world.
        segments: size, time of the first record and of the newest, oldest segment first.
    """

    bytes_per_hour: int
    policy: TopicPolicy
    now_ms: int = NOW_MS
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    deleted: int = 0

    def hours(self, count: int) -> Topic:
        """Let so many hours pass."""
        for _ in range(count):
            self.now_ms += HOUR_MS
            if self.bytes_per_hour:
                self._write()
            while self.segments and self._goes():
                del self.segments[0]
                self.deleted += 1
        return self

    def _goes(self) -> bool:
        """Whether the oldest segment goes, by Kafka's two rules; written down again, since the real ones are slow."""
        policy, (size_bytes, _, newest_ms) = self.policy, self.segments[0]
        is_over = 0 <= policy.retention_bytes <= self.size_bytes - size_bytes
        return policy.cleanup_delete and (is_over or 0 <= policy.retention_ms < self.now_ms - newest_ms)

    def _write(self) -> None:
        size_bytes, first_ms, _ = self.segments[-1] if self.segments else (0, 0, 0)
        is_full = size_bytes + self.bytes_per_hour > self.policy.segment_bytes
        if not self.segments or is_full or self.now_ms - first_ms > self.policy.segment_ms:
            self.segments.append((0, self.now_ms, self.now_ms))
            size_bytes, first_ms = 0, self.now_ms
        self.segments[-1] = size_bytes + self.bytes_per_hour, first_ms, self.now_ms

    def facts(self) -> PartitionFacts:
        """The partition as it lies on disk."""
        log: LogBuilder = a_log().log_end(self.deleted * 10)
        for size_bytes, _, newest_ms in self.segments or [(0, self.now_ms, self.now_ms)]:
            log = log.segment(bytes=size_bytes, newest_ms=newest_ms, mtime_ms=newest_ms)
        return log.facts()

    def planned(self) -> PartitionPlan:
        """What a run would do now."""
        (partition,) = a_plan(self).partitions
        return partition

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for size_bytes, *_ in self.segments)


def a_plan(*topics: Topic) -> Plan:
    """The plan of one log dir with these topics, all of the same moment."""
    facts = LogDirFacts("/data", None, 0, 0, tuple(topic.facts() for topic in topics))
    of_facts = {id(log): topic.policy for log, topic in zip(facts.partitions, topics, strict=True)}
    return plan([facts], lambda log: of_facts[id(log)], Request(topics[0].now_ms))
