import json

from cleaner.engine.outcome import Outcome
from cleaner.report.cleaning import CleaningReport
from tests.cleaner.report.plans import MIB, NOW_MS, a_dry_run, a_partition, a_plan, a_run, unreadable

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
    "compacted_from_bytes",
    "compacted_to_bytes",
    "records_read",
    "records_kept",
    "seconds",
]
SEGMENT_BYTES = MIB + 4096


def test_document_has_every_key_of_the_schema_in_order() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1), unreadable("orders-1", "no"))
    found = CleaningReport(plan, a_dry_run(plan)).document()
    assert list(found) == ["schema", "now", "dry_run", "engine", "log_dirs", "partitions", "totals"]
    assert list(found["log_dirs"][0]) == ["path", "locked_by", "free_bytes", "size_bytes"]
    assert [list(partition) for partition in found["partitions"]] == [PARTITION_KEYS] * 2
    assert list(found["partitions"][0]["segments"][0]) == ["base_offset", "bytes", "action", "reason"]
    assert list(found["partitions"][0]["segments"][0]["reason"]) == ["code", "text", "until_ms"]
    assert list(found["partitions"][0]["result"]) == RESULT_KEYS
    assert list(found["totals"]) == (
        ["bytes_before", "bytes_after", "reclaimed_bytes", "partitions", "failed", "seconds"]
    )


def test_head_names_schema_moment_and_engine() -> None:
    plan = a_plan()
    found = CleaningReport(plan, Outcome(True, {})).document()
    assert (found["schema"], found["now"], found["dry_run"], found["engine"]) == (
        "logcleaner.plan/1",
        NOW_MS,
        True,
        "local",
    )


def test_segments_tell_action_and_reason() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1))
    gone, kept = CleaningReport(plan, a_dry_run(plan)).document()["partitions"][0]["segments"]
    assert (gone["base_offset"], gone["bytes"], gone["action"]) == (0, MIB, "delete")
    assert gone["reason"]["code"] == "RETENTION_TIME"
    assert (kept["action"], kept["reason"]["code"]) == ("keep", "TIME_NOT_REACHED")
    assert kept["reason"]["until_ms"] > NOW_MS


def test_totals_add_deletions_and_compactions() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1), a_partition("orders-0", 9, 8, 1))
    totals = CleaningReport(plan, a_run(plan)).document()["totals"]
    assert totals["reclaimed_bytes"] == SEGMENT_BYTES + MIB
    assert totals["bytes_before"] - totals["bytes_after"] == totals["reclaimed_bytes"]
    assert (totals["partitions"], totals["failed"]) == (2, 0)


def test_compacted_partition_tells_its_dirty_section() -> None:
    plan = a_plan(a_partition("orders-0", 9, 8, 1, cleaned=100))
    partition = CleaningReport(plan, a_dry_run(plan)).document()["partitions"][0]
    assert (partition["first_dirty_offset"], partition["dirty_ratio"]) == (100, 0.5)


def test_unreadable_partition_is_an_error_with_nulls_and_counts_as_failed() -> None:
    plan = a_plan(unreadable("orders-1", "cannot be read"))
    found = CleaningReport(plan, Outcome(True, {})).document()
    partition = found["partitions"][0]
    assert (partition["error"], partition["result"], partition["segments"]) == ("cannot be read", None, [])
    assert partition["bytes"] == 5 * MIB
    assert found["totals"]["failed"] == 1


def test_partition_without_work_has_no_result() -> None:
    plan = a_plan(a_partition("clicks-0", 1))
    assert CleaningReport(plan, a_dry_run(plan)).document()["partitions"][0]["result"] is None


def test_document_is_json_whatever_a_file_is_called() -> None:
    plan = a_plan(unreadable("orders-1", "/data/\udcff"))
    assert json.loads(json.dumps(CleaningReport(plan, Outcome(True, {})).document()))
