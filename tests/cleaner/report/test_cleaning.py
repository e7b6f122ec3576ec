import json
from dataclasses import replace
from typing import Any

from cleaner.engine.outcome import Outcome
from cleaner.report.cleaning import CleaningReport
from policies.config.policy import Layer, Stated, TopicPolicy
from policies.facts import LogDirFacts
from policies.plan import Only, Plan, Request
from policies.planning import plan
from tests.cleaner.report.plans import (
    DAY_MS,
    MIB,
    NOW_MS,
    a_dry_run,
    a_partition,
    a_plan,
    a_run,
    an_empty_partition,
    unreadable,
)

PARTITION_KEYS = [
    "topic",
    "partition",
    "log_dir",
    "cleanup_policy",
    "bytes",
    "log_start_offset",
    "log_end_offset",
    "high_watermark",
    "last_stable_offset",
    "first_dirty_offset",
    "dirty_ratio",
    "error",
    "segments",
    "result",
]
RESULT_KEYS = [
    "basis",
    "deleted_segments",
    "deleted_bytes",
    "freed_bytes",
    "freed_disk_bytes",
    "reclaimed_disk_bytes",
    "compacted_from_bytes",
    "compacted_to_bytes",
    "records_read",
    "records_kept",
    "seconds",
]
TOTAL_KEYS = [
    "bytes_before",
    "bytes_after",
    "reclaimed_bytes",
    "disk_bytes_before",
    "reclaimed_disk_bytes",
    "freed_disk_bytes",
    "unlinked_bytes",
    "unlinked_disk_bytes",
    "partitions",
    "failed",
    "seconds",
]
SEGMENT_BYTES = MIB + 4096


def document_of(planned: Plan) -> dict[str, Any]:
    return CleaningReport(planned, Outcome(True, {})).document()


def test_document_has_every_key_of_the_schema_in_order() -> None:
    planned = a_plan(a_partition("clicks-0", 9, 1), unreadable("orders-1", "no"))
    found = CleaningReport(planned, a_dry_run(planned)).document()
    assert list(found) == ["schema", "now", "dry_run", "engine", "log_dirs", "partitions", "totals"]
    assert list(found["log_dirs"][0]) == ["path", "locked_by", "free_bytes", "size_bytes", "disk_bytes"]
    assert [list(partition) for partition in found["partitions"]] == [PARTITION_KEYS] * 2
    segment = found["partitions"][0]["segments"][0]
    assert list(segment) == (["base_offset", "last_offset_max", "newest_timestamp_ms", "bytes", "action", "reason"])
    assert list(segment["reason"]) == ["code", "text", "until_ms", "limit"]
    assert list(segment["reason"]["limit"]) == ["key", "value", "layer", "file", "line", "actual"]
    assert list(found["partitions"][0]["result"]) == RESULT_KEYS
    assert list(found["totals"]) == TOTAL_KEYS


def test_head_names_schema_moment_and_engine() -> None:
    planned = a_plan()
    found = CleaningReport(planned, Outcome(True, {})).document()
    assert (found["schema"], found["now"], found["dry_run"], found["engine"]) == (
        "logcleaner.plan/1",
        NOW_MS,
        True,
        "local",
    )


def test_segments_tell_action_and_reason() -> None:
    planned = a_plan(a_partition("clicks-0", 9, 1))
    gone, kept = CleaningReport(planned, a_dry_run(planned)).document()["partitions"][0]["segments"]
    assert (gone["base_offset"], gone["bytes"], gone["action"]) == (0, MIB, "delete")
    assert gone["reason"]["code"] == "RETENTION_TIME"
    assert (kept["action"], kept["reason"]["code"]) == ("keep", "TIME_NOT_REACHED")
    assert kept["reason"]["until_ms"] > NOW_MS


def test_a_segment_tells_its_last_offset_as_far_as_a_file_name_tells_it_and_its_newest_time() -> None:
    facts = a_partition("clicks-0", 9, 8, 1)
    oldest, older, active = facts.segments
    facts = replace(facts, segments=(oldest, older._replace(size_bytes=0, newest_record_ms=-1), active))
    found = document_of(a_plan(facts))["partitions"][0]["segments"]
    assert [(s["last_offset_max"], s["newest_timestamp_ms"]) for s in found] == [
        (99, NOW_MS - 9 * DAY_MS),
        (None, None),
        (299, NOW_MS - DAY_MS),
    ]


def test_an_empty_log_has_no_last_offset() -> None:
    (segment,) = document_of(a_plan(an_empty_partition("empty-0")))["partitions"][0]["segments"]
    assert segment["last_offset_max"] is None


def test_a_reason_tells_the_value_that_it_rests_on_as_fields() -> None:
    gone, kept = document_of(a_plan(a_partition("clicks-0", 9, 1)))["partitions"][0]["segments"]
    limit = {"key": "retention.ms", "value": 3 * DAY_MS, "layer": "Kafka's default", "file": None, "line": None}
    assert gone["reason"]["limit"] == {**limit, "actual": 9 * DAY_MS}
    assert kept["reason"]["limit"] == {**limit, "actual": DAY_MS}


def test_a_list_is_one_text_as_in_kafka_and_what_is_no_number_is_compared_with_nothing() -> None:
    stated = Stated("cleanup.policy", ("compact",), Layer.TOPICS_NAME, "c.toml line 3", "cleanup.policy", "c.toml", 3)
    policy = TopicPolicy(topic="orders", cleanup_policy="compact", stated={"cleanup.policy": stated})
    facts = LogDirFacts("/data", None, 1, 1, (a_partition("orders-0", 1),))
    made = plan([facts], lambda _: policy, Request(NOW_MS, only=Only.RETENTION))
    (segment,) = document_of(made)["partitions"][0]["segments"]
    assert segment["reason"]["limit"] == {
        "key": "cleanup.policy",
        "value": "compact",
        "layer": "[topics], by name",
        "file": "c.toml",
        "line": 3,
        "actual": None,
    }


def test_totals_add_deletions_and_compactions() -> None:
    planned = a_plan(a_partition("clicks-0", 9, 1), a_partition("orders-0", 9, 8, 1))
    totals = CleaningReport(planned, a_run(planned)).document()["totals"]
    assert totals["reclaimed_bytes"] == SEGMENT_BYTES + MIB
    assert totals["bytes_before"] - totals["bytes_after"] == totals["reclaimed_bytes"]
    assert (totals["partitions"], totals["failed"]) == (2, 0)


def test_compacted_partition_tells_its_dirty_section() -> None:
    planned = a_plan(a_partition("orders-0", 9, 8, 1, cleaned=100))
    partition = CleaningReport(planned, a_dry_run(planned)).document()["partitions"][0]
    assert (partition["first_dirty_offset"], partition["dirty_ratio"]) == (100, 0.5)


def test_unreadable_partition_is_an_error_with_nulls_and_counts_as_failed() -> None:
    planned = a_plan(unreadable("orders-1", "cannot be read"))
    found = CleaningReport(planned, Outcome(True, {})).document()
    partition = found["partitions"][0]
    assert (partition["error"], partition["result"], partition["segments"]) == ("cannot be read", None, [])
    assert partition["bytes"] == 5 * MIB
    assert found["totals"]["failed"] == 1


def test_partition_without_work_has_no_result() -> None:
    planned = a_plan(a_partition("clicks-0", 1))
    assert CleaningReport(planned, a_dry_run(planned)).document()["partitions"][0]["result"] is None


def test_document_is_json_whatever_a_file_is_called() -> None:
    planned = a_plan(unreadable("orders-1", "/data/\udcff"))
    assert json.loads(json.dumps(CleaningReport(planned, Outcome(True, {})).document()))


def test_what_failed_beside_the_partitions_is_told_and_absent_if_nothing_did() -> None:
    planned = a_plan(errors=("/data/cleaner-offset-checkpoint line 2: garbled",))
    found = CleaningReport(planned, Outcome(True, {}, errors=("/gone: does not exist",))).document()
    assert found["errors"] == ["/data/cleaner-offset-checkpoint line 2: garbled", "/gone: does not exist"]
    assert found["totals"]["failed"] == 0
    assert "errors" not in document_of(a_plan())
