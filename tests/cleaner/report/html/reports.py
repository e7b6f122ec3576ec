"""Reports for pages: a large plan, and one of which every name is hostile."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from cleaner.engine.outcome import Outcome
from cleaner.report.cleaning import CleaningReport
from cleaner.report.overview.making import overview_of
from cleaner.report.overview.provenance import ConfigurationFile, Provenance
from policies import Plan, Request, plan
from policies.config.policy import Layer, Stated, TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.forecast.runway import runway
from policies.rescue import Volume
from storage.names import FileIdentity, TopicPartition
from tests.cleaner.report.plans import NOW_MS, a_dry_run

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
GIB: Final = 1 << 30


def report_of(planned: Plan, outcome: Outcome | None = None, **changes: Any) -> CleaningReport:
    """A dry run of a plan, or another outcome of it, with its overview."""
    outcome = outcome or a_dry_run(planned)
    paths = tuple(log_dir.facts.path for log_dir in planned.log_dirs)
    runways = [runway(Volume(paths, 1 << 44, 1 << 41, 1 << 43), planned)]
    files = (ConfigurationFile("/etc/kafka/server.properties", "ab" * 32),)
    provenance = Provenance("9.9.9", ("logcleaner", "clean", "--dry-run"), NOW_MS, paths, files)
    return CleaningReport(
        planned, outcome, overview=overview_of(planned, outcome, provenance, runways=runways, **changes)
    )


def a_large_plan(topics: int = 500, partitions: int = 10, segments: int = 20) -> Plan:
    """Segments of about a GiB that differ in all that can differ; half of the topics state limits of their own."""
    chance = random.Random(26)
    found = [
        _partition(f"topic-{topic:04}", number, segments, chance)
        for topic in range(topics)
        for number in range(partitions)
    ]
    size_bytes = sum(log.size_bytes for log in found)
    facts = LogDirFacts("/data", None, 1 << 41, size_bytes, tuple(found), (), disk_bytes=size_bytes)
    policies = {f"topic-{topic:04}": _policy(topic) for topic in range(topics)}
    return plan([facts], lambda log: policies[log.topic_partition.topic], Request(NOW_MS))


def _policy(topic: int) -> TopicPolicy:
    name, retention_ms = f"topic-{topic:04}", (3 + topic % 5) * DAY_MS
    if topic % 10 == 9:
        return TopicPolicy(topic=name, cleanup_policy="compact")
    origin = f"cluster metadata, topic {name}" if topic % 2 else "server.properties line 5"
    stated = Stated("retention.ms", retention_ms, Layer.TOPIC_METADATA, origin, "retention.ms", "/etc/kafka/a", 5)
    return TopicPolicy(topic=name, cleanup_policy="delete", retention_ms=retention_ms, stated={"retention.ms": stated})


def _partition(topic: str, number: int, segments: int, chance: random.Random) -> PartitionFacts:
    offset, found = chance.randrange(10**9), []
    newest_ms = NOW_MS - segments * 8 * HOUR_MS
    for place in range(segments):
        size_bytes = GIB - chance.randrange(1 << 20)
        newest_ms += chance.randrange(4 * HOUR_MS, 12 * HOUR_MS)
        newest_ms = min(newest_ms, NOW_MS)
        identity = FileIdentity(1, place, size_bytes, newest_ms * 1_000_000)
        found.append(
            SegmentFacts(offset, size_bytes, 4096, 2048, 2048, newest_ms, newest_ms, identity, disk_bytes=size_bytes)
        )
        offset += chance.randrange(500_000, 2_000_000)
    start = found[0].base_offset
    return PartitionFacts(TopicPartition(topic, number), "/data", tuple(found), start, offset, offset, offset, start)


HOSTILE: Final = (
    "<script>alert(1)</script>",
    "<b>bold",
    "</script><script>alert(2)",
    "\"'onmouseover=alert(3) x='",
    "{{ 7 * 7 }}{% raw %}",
    "a&amp;b&lt;",
    "line\nbreak\ttab\x1b[31m",
    "\u202egnp.exe",
    "\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627",
    "\u2066isolate",
    "\U0001f4be\u0301\u0301\u0301",
    "bytes\udcff\udc80",
    "x" * 249,
    "<" * 249,
    "-".join("&" * 100),
    "]]>--><!--",
    "=1+1",
    "",
)
"""Names that no broker makes; but whoever can write to a log dir can make such directories."""


def a_hostile_plan() -> Plan:
    """A plan of which every name is hostile: topics, log dir, the origin of a limit, an error."""
    stated = Stated("retention.ms", DAY_MS, Layer.SET, "<i>line</i> 7\u202e", "retention.ms", "/etc/<u>\udcff", 7)
    logs = []
    for number, topic in enumerate(HOSTILE):
        log = _partition("t", 0, 4, random.Random(number))
        logs.append(replace(log, topic_partition=TopicPartition(topic, number), log_dir="/data/<s>&\u202e"))
    far = tuple(logs[0].segments[place]._replace(base_offset=(1 << 60) + 3 * place) for place in range(2))
    logs[-1] = replace(logs[-1], segments=far, log_start_offset=1 << 60, log_end_offset=1 << 61, high_watermark=1 << 61)
    broken = UnreadablePartition(
        TopicPartition("<img src=x>", 0), "/data/<s>&\u202e", "<img src=x onerror=alert(4)>", 7, 8
    )
    facts = LogDirFacts(
        "/data/<s>&\u202e", "<em>a broker</em>", 1 << 41, 1 << 40, (*logs, broken), (), disk_bytes=1 << 40
    )

    def policy_of(log: PartitionFacts) -> TopicPolicy:
        name = log.topic_partition.topic
        return TopicPolicy(topic=name, cleanup_policy="delete", retention_ms=DAY_MS, stated={"retention.ms": stated})

    return plan([facts], policy_of, Request(NOW_MS))
