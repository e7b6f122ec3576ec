"""The answers to ``--what-if``, told: by topic, what changes first, never wider than the page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cleaner.engine.rehearsal.what_if import Answer, Answered
from cleaner.report.page import View
from cleaner.report.what_if import WhatIfReport
from policies import Plan, Request, plan
from policies.config.policy import Layer, Stated, TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts
from policies.forecast.runway import runway
from policies.forecast.what_if import Question, questions_of
from policies.rescue import Volume
from tests.builders import NOW_MS, a_log
from tests.cleaner.report.plans import DAY_MS, MIB, a_dry_run
from tests.cleaner.report.texts import text_of

GOLDEN = Path(__file__).parents[3] / "golden"
TOPICS = {
    "clicks": {"retention.ms": 7 * DAY_MS},
    "audit": {"retention.ms": 7 * DAY_MS},
    "idle": {},
    "orders": {"cleanup.policy": ("compact",)},
    "copied": {},
    "guarded": {"retention.ms": 7 * DAY_MS},
}


def a_partition(name: str, *ages_days: float) -> PartitionFacts:
    log = a_log(name)
    for age in ages_days:
        log = log.segment(bytes=MIB, newest_ms=NOW_MS - round(age * DAY_MS), companions_bytes=4096)
    return log.facts()


PARTITIONS = (
    a_partition("clicks-0", 6, 5, 4, 3, 2, 0),
    a_partition("clicks-1", 6, 0),
    a_partition("audit-0", 9, 2, 0),
    a_partition("idle-0", 30),
    a_partition("orders-0", 3, 2, 0),
)


def a_policy(topic: str, question: Stated | None) -> TopicPolicy:
    """What the topic states, and above it the value asked for, where that may state it."""
    said = {"cleanup.policy": ("delete",), **TOPICS.get(topic, {"retention.ms": 7 * DAY_MS})}
    stated = {key: Stated(key, said[key], Layer.TOPIC_METADATA, "test", key) for key in said}
    kafkas = {"retention.ms": -1, "retention.bytes": -1, "min.cleanable.dirty.ratio": 0.5}
    stated = {**{key: Stated(key, value, Layer.KAFKA_DEFAULT, "test", key) for key, value in kafkas.items()}, **stated}
    if question and not topic.startswith("__"):
        stated[question.key] = question
    policy = TopicPolicy(
        topic=topic,
        cleanup_policy=stated["cleanup.policy"].shown,
        retention_ms=stated["retention.ms"].value,  # type: ignore[arg-type]
        retention_bytes=stated["retention.bytes"].value,  # type: ignore[arg-type]
        min_cleanable_dirty_ratio=stated["min.cleanable.dirty.ratio"].value,  # type: ignore[arg-type]
        segment_bytes=MIB,
        max_delete_ratio=0.5 if topic == "guarded" else None,
        stated=stated,
    )
    return replace(policy, cleanup_policy="", unknown_because="state it by name") if topic == "copied" else policy


def a_plan(question: Stated | None, partitions: Sequence[PartitionFacts]) -> Plan:
    facts = LogDirFacts("/data", None, 1 << 34, 0, tuple(partitions))
    return plan([facts], lambda log: a_policy(log.topic_partition.topic, question), Request(NOW_MS))


def an_answer(question: Stated | None, partitions: Sequence[PartitionFacts], volumes: Sequence[Volume]) -> Answer:
    planned = a_plan(question, partitions)
    outcome = replace(a_dry_run(planned), runways=tuple(runway(volume, planned) for volume in volumes))
    return Answer(question or Stated("", 0, Layer.SET, "", ""), planned, outcome)


def a_report(
    *options: str, partitions: Sequence[PartitionFacts] = PARTITIONS, free_bytes: int = 3 * MIB, log_dirs: int = 1
) -> WhatIfReport:
    volumes = [Volume((f"/data{i or ''}",), 1 << 40, free_bytes, 1 << 30) for i in range(log_dirs)]
    in_force = an_answer(None, partitions, volumes)

    def answered(question: Question) -> Answered:
        return Answered(question, tuple(an_answer(value, partitions, volumes) for value in question.values))

    questions = questions_of(options, is_exact=False)
    return WhatIfReport(in_force.plan, in_force.outcome, answered=tuple(map(answered, questions)))


def test_it_reads_as_its_golden_file() -> None:
    report = a_report("retention.ms=1d,7d,-1", "min.cleanable.dirty.ratio=1")
    assert text_of(report) == (GOLDEN / "what-if.txt").read_text()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "option",
    [
        *("retention.ms=1d,3d,400d", "retention.bytes=1,21990232555520", "min.cleanable.dirty.ratio=0.001,0.25"),
        "cleanup.policy=[compact,delete],delete,compact,[]",
    ],
)
def test_no_line_is_wider_than_the_page(option: str, width: int) -> None:
    name = "a-topic-with-a-name-that-nobody-would-want-to-write-out-in-full"
    many = [a_partition(f"{name}-{number}-0", 9, 2, 0) for number in range(9)]
    report = a_report(option, partitions=[*many, *PARTITIONS], log_dirs=2)
    lines = text_of(report, width, is_terminal=True).splitlines()
    assert max(map(len, lines)) <= width
    shown = [line for line in lines if line.startswith("a-topic")]
    assert any("..." in line for line in shown) == bool(shown and (width == 80 or "cleanup" in option))
    assert [line for line in text_of(report).splitlines() if "..." in line] == []  # names are in full where it is piped


def test_three_hundred_topics_fit_a_page_and_what_changes_most_comes_first() -> None:
    many = [a_partition(f"t{number:03d}-0", *[2.0] * (number + 1), 0) for number in range(40)]
    many += [a_partition(f"quiet{number:03d}-0", 0.5, 0) for number in range(260)]
    lines = text_of(a_report("retention.ms=1d,3d,30d", partitions=many)).splitlines()
    assert len(lines) <= 60
    shown = [line.split()[0] for line in lines if line.startswith("t0")]
    assert shown == [f"t{number:03d}" for number in range(39, 30, -1)]
    (rest,) = [line for line in lines if line.startswith("and ")]
    assert re.fullmatch(r"and 291 more topics, \S+ GiB, that change less; -v lists all", rest)


def test_the_view_says_how_many_topics_are_listed() -> None:
    many = [a_partition(f"t{number:03d}-0", 2, 0) for number in range(90)]
    report = a_report("retention.ms=1d", partitions=many)
    assert text_of(report, view=View(limit=3)).count("\nt0") == 3
    totals = text_of(report, view=View(summary_only=True))
    assert totals.count("\nt0") == totals.count("more topic") == 0
    assert "\nall 90 topics" in totals


def test_v_lists_every_topic() -> None:
    many = [a_partition(f"t{number:03d}-0", 2, 0) for number in range(90)]
    lines = text_of(a_report("retention.ms=1d,3d", partitions=[*many, a_partition("orders-0", 1)]), every_segment=True)
    assert sum(line.startswith("t0") for line in lines.splitlines()) == 90
    assert sum(line.startswith("orders") for line in lines.splitlines()) == 1


def test_what_it_does_not_answer_is_said() -> None:
    partitions = [
        *(a_partition("copied-0", 9, 0), a_partition("guarded-0", 6, 5, 4, 0), a_partition("orders-0", 3, 2, 0)),
        a_partition("__consumer_offsets-0", 9, 0),
    ]
    text = " ".join(text_of(a_report("retention.ms=1d,30d", partitions=partitions)).split())
    assert "1d: a guard rail holds 1 partition back; --yes releases it" in text
    assert "as now; 1d; 30d: 1 partition not touched (CONFIG_UNKNOWN): state it by name" in text
    assert "Not hit: 1 topic named __*, which take it only from the cluster metadata" in text
    assert "FREED leaves out what compactions would free: add --exact." in text
    assert "* without the partitions whose long run is not known: compacted, not touched, or written" in text


def test_where_values_compact_more_or_less_there_is_a_column_for_it() -> None:
    text = text_of(a_report("min.cleanable.dirty.ratio=0,1"))
    assert re.search(r"FREED +COMPACTED +KEPT", text)
    assert "COMPACTED is what a run would read and rewrite." in text


def test_the_runway_is_that_of_each_value() -> None:
    assert re.search(
        r"Runway: as now: never full by the growth of 4 of 5 partitions; "
        r"1d: never full by the growth of 4 of 5 .*; no limit: full in 2d 10h",
        " ".join(text_of(a_report("retention.ms=1d,-1")).split()),
    )
    of_two = " ".join(text_of(a_report("retention.ms=1d", log_dirs=2, free_bytes=1 << 40)).split()) + " "
    assert (
        "Runway of /data: as now: never full by the growth of 4 of 5 partitions; "
        "1d: never full by the growth of 4 of 5 partitions " in of_two
    )
    assert "Runway of /data1: as now: not known; 1d: not known " in of_two


def test_json_has_the_plan_as_it_is_and_the_answers_beside_it() -> None:
    report = a_report("retention.ms=1d", "cleanup.policy=[compact,delete]")
    document = json.loads(json.dumps(report.document()))
    plain = super(WhatIfReport, report).document()
    assert {key: document[key] for key in plain} == json.loads(json.dumps(plain))
    assert document.keys() - plain.keys() == {"what_if"}
    first, second = document["what_if"]
    assert [answer["value"] for answer in first["answers"]] == [None, DAY_MS]
    assert [answer["value"] for answer in second["answers"]] == [None, "compact,delete"]
    in_force, asked = first["answers"]
    assert asked["totals"] == {
        "partitions": 5,
        "bytes": 15 * (MIB + 4096),
        "freed_bytes": 10 * MIB + 9 * 4096,
        "kept_bytes": 5 * MIB + 6 * 4096,
        "disk_bytes": 15 * MIB,
        "freed_disk_bytes": 10 * MIB,
        "compacted_from_bytes": 2 * MIB,
        "basis": "estimate",
        "long_run_bytes": 4427321,
        "long_run_growing_bytes_per_day": 0,
        "long_run_unknown_partitions": 1,
        "held_back": 0,
        "unknown": 0,
        "failed": 0,
    }
    (clicks,) = [topic for topic in asked["topics"] if topic["topic"] == "clicks"]
    assert (clicks["value"], clicks["freed_bytes"], clicks["basis"]) == (DAY_MS, 6 * (MIB + 4096), "exact")
    (orders,) = [topic for topic in in_force["topics"] if topic["topic"] == "orders"]
    assert (orders["value"], orders["long_run_bytes"]) == (-1, None)
    runway = in_force["runway"][0]
    assert (runway["fills"], runway["partitions"], runway["partitions_left_out"]) == (None, 4, 1)
