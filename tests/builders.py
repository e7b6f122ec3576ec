"""Draws partitions and policies for tests: ``a_log().segments(50, 50).empty_active().high_watermark(20).facts()``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from policies.config.policy import Layer, Stated, TopicPolicy
from policies.facts import NO_TIMESTAMP, MissingRecords, PartitionFacts, SegmentFacts
from storage.names import FileIdentity, TopicPartition

NOW_MS: Final = 1_800_000_000_000
"""2027-01-15T08:00:00Z."""
RECORDS: Final = 10
"""Offsets that a segment spans unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class LogBuilder:
    """A partition being drawn, oldest segment first; each call gives another builder."""

    drawn: PartitionFacts

    def segment(
        self,
        *,
        bytes: int = 50,  # noqa: A002 - reads as the picture it draws
        records: int = RECORDS,
        base: int | None = None,
        newest_ms: int = NOW_MS,
        mtime_ms: int = NOW_MS,
        **others: Any,
    ) -> LogBuilder:
        """Put a segment at the end: it begins at ``base`` (else where the log ends) and spans ``records`` offsets."""
        start = self.drawn.log_end_offset if base is None else base
        identity = FileIdentity(1, len(self.drawn.segments) + 1, bytes, mtime_ms * 1_000_000)
        segment = SegmentFacts(start, bytes, 0, 0, 0, mtime_ms, newest_ms, identity, disk_bytes=bytes)
        first_base = self.drawn.segments[0].base_offset if self.drawn.segments else start
        return self._with(
            segments=(*self.drawn.segments, segment._replace(**others)),
            log_start_offset=first_base,
        ).log_end(start + records)

    def segments(self, *sizes_bytes: int, newest_ms: int = NOW_MS) -> LogBuilder:
        """Put segments of these sizes at the end."""
        log = self
        for size_bytes in sizes_bytes:
            log = log.segment(bytes=size_bytes, newest_ms=newest_ms)
        return log

    def empty_active(self) -> LogBuilder:
        """Put an empty segment at the end: 0 bytes, no timestamp, no offset."""
        return self.segment(bytes=0, records=0, newest_ms=NO_TIMESTAMP)

    def log_end(self, offset: int) -> LogBuilder:
        """The log ends here, all of it committed."""
        return self._with(log_end_offset=offset, high_watermark=offset, last_stable_offset=offset)

    def high_watermark(self, offset: int | None) -> LogBuilder:
        """Where committed records end; None: nobody checkpointed it."""
        return self._with(high_watermark=offset, last_stable_offset=offset)

    def last_stable(self, offset: int | None) -> LogBuilder:
        """Where the oldest open transaction begins."""
        return self._with(last_stable_offset=offset)

    def log_start(self, offset: int) -> LogBuilder:
        """DeleteRecords moved the log start offset here."""
        return self._with(log_start_offset=offset)

    def compacted_to(self, offset: int) -> LogBuilder:
        """The cleaner's checkpoint."""
        return self._with(cleaner_checkpoint=offset)

    def missing(self, offset: int) -> LogBuilder:
        """Have an index file without a ``.log`` tell of records that are missing from an offset on."""
        return self._with(missing=(MissingRecords(offset, f"{offset:020d}.index"),))

    def torn_tail(self, size_bytes: int) -> LogBuilder:
        """Bytes behind the last batch that parses."""
        return self._with(torn_tail_bytes=size_bytes)

    def facts(self) -> PartitionFacts:
        """The finished picture."""
        return self.drawn

    def _with(self, **changes: Any) -> LogBuilder:
        return LogBuilder(replace(self.drawn, **changes))


def a_log(name: str = "orders-0") -> LogBuilder:
    """An empty sheet: no segment, offsets 0, everything committed."""
    topic, _, partition = name.rpartition("-")
    return LogBuilder(PartitionFacts(TopicPartition(topic, int(partition)), "/data", (), 0, 0, 0, 0))


def a_policy(cleanup: str = "delete", /, **values: Any) -> TopicPolicy:
    """What holds for a topic: without values, Kafka's cleanup.policy and no limit. Values are stated by ``--set``."""
    stated = {
        (key := name.replace("_", ".")): Stated(key, value, Layer.SET, "--set", key) for name, value in values.items()
    }
    return TopicPolicy(topic="orders", cleanup_policy=cleanup, stated=stated, **values)
