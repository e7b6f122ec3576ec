"""What the metrics say of plans, runs and the daemon; read back with prometheus-client's own parser."""

from __future__ import annotations

import gc
import re
import weakref
from collections import Counter
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cleaner.daemon.observer import DaemonState, JobDone, JobKind
from cleaner.engine.outcome import Outcome
from cleaner.metrics import families as names
from cleaner.metrics.registry import LastRunFigures, Metrics
from policies.plan import Plan
from tests.cleaner.report.plans import DAY_MS, MIB, NOW_MS, a_partition, a_plan, a_run, an_empty_partition, unreadable
from tests.docs.parts import DOCS, built

CLICKS = a_partition("clicks-0", 9, 5, 1)
ORDERS = a_partition("orders-3", 4, 3, 2, 0, cleaned=100)
PAGE = built("metrics.md", (DOCS / "metrics.md").read_text("utf-8"))


def values(metrics: Metrics) -> dict[str, float]:
    """``name{label,label}`` without the prefix, labels' values only, in their order -> value."""
    found = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            labels = ",".join(sample.labels.values())
            found[sample.name.removeprefix(names.PREFIX) + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def told(plan: Plan, outcome: Outcome | None = None, *, per_partition: str = "few") -> dict[str, float]:
    metrics = Metrics(per_partition=per_partition)
    metrics.planned(plan, NOW_MS)
    if outcome:
        metrics.ran(plan, outcome, NOW_MS, NOW_MS + 1500)
    return values(metrics)


def test_a_partition_that_retention_shortens() -> None:
    found = told(a_plan(CLICKS), per_partition="all")
    assert {name: value for name, value in found.items() if "clicks" in name} == {
        "partition_size_bytes{/data,clicks,0}": 3 * MIB,
        "partition_segments{/data,clicks,0}": 3,
        "partition_next_expiry_timestamp_seconds{/data,clicks,0}": NOW_MS / 1000,
        "partition_uncleanable{/data,clicks,0}": 0,
        "partition_log_start_offset{/data,clicks,0}": 0,
        "partition_log_end_offset{/data,clicks,0}": 300,
        "partition_oldest_record_timestamp_seconds{/data,clicks,0}": (NOW_MS - 9 * DAY_MS) / 1000,
        "partition_reclaimable_bytes{/data,clicks,0}": 2 * (MIB + 4096),
        "partition_failures_total{/data,clicks,0}": 0,
    }


def test_a_partition_that_is_compacted() -> None:
    found = told(a_plan(ORDERS), per_partition="all")
    assert found["partition_first_dirty_offset{/data,orders,3}"] == 100
    assert found["partition_dirty_ratio{/data,orders,3}"] == pytest.approx(2 / 3)
    assert found["max_dirty_ratio{/data}"] == pytest.approx(2 / 3)
    assert found["reclaimable_bytes{/data,DIRTY}"] == 2 * MIB
    assert "partition_next_expiry_timestamp_seconds{/data,orders,3}" not in found


@pytest.mark.parametrize("partition", [CLICKS, ORDERS, an_empty_partition("empty-0"), unreadable("orders-1", "x")])
def test_few_are_five_a_partition_at_most(partition) -> None:
    found = told(a_plan(partition))
    assert 1 < len([name for name in found if name.startswith("partition_")]) <= 5
    assert len([family for family in names.PARTITION_FAMILIES if family.is_few]) == 5


def test_none_are_told_where_none_are_asked_for_and_the_sums_stay() -> None:
    found = told(a_plan(CLICKS, ORDERS), per_partition="none")
    assert not [name for name in found if name.startswith("partition_")]
    assert found["partitions{/data}"] == 2


def test_a_log_dir_is_summed_up() -> None:
    found = told(a_plan(CLICKS, ORDERS, a_partition("copied-0", 8), unreadable("orders-1", "x"), locked_by="pid 7"))
    assert found["partitions{/data}"] == 4
    assert found["segments{/data}"] == 8
    assert found["uncleanable_partitions{/data}"] == 1
    assert found["partition_uncleanable{/data,orders,1}"] == 1
    assert found["log_dir_locked{/data}"] == 1
    assert found["log_dir_failed{/data}"] == 0
    assert found["log_dir_free_bytes{/data}"] == 1 << 34
    assert found["log_dir_size_bytes{/data}"] == 100 * MIB
    assert found["oldest_record_timestamp_seconds{/data}"] == (NOW_MS - 9 * DAY_MS) / 1000
    assert found["plan_timestamp_seconds"] == NOW_MS / 1000


def test_bytes_are_told_by_reason() -> None:
    found = told(a_plan(CLICKS, a_partition("copied-0", 8)))
    assert found["reclaimable_bytes{/data,RETENTION_TIME}"] == 2 * (MIB + 4096)
    assert found["reclaimable_bytes{/data,RETENTION_SIZE}"] == 0
    assert found["kept_bytes{/data,TIME_NOT_REACHED}"] == MIB
    assert found["kept_bytes{/data,CONFIG_UNKNOWN}"] == MIB


def test_a_log_dir_that_is_itself_damaged() -> None:
    assert told(a_plan(errors=("garbled",)))["log_dir_failed{/data}"] == 1


def test_a_run_is_told_of_and_added_to_the_others() -> None:
    plan = a_plan(CLICKS, ORDERS)
    metrics = Metrics()
    metrics.planned(plan, NOW_MS)
    metrics.ran(plan, a_run(plan), NOW_MS, NOW_MS + 1500)
    metrics.round_ended()
    metrics.ran(plan, replace(a_run(plan), swept_bytes=7), NOW_MS + 2000, NOW_MS + 2500)
    found = values(metrics)
    assert found["last_run_deleted_segments{/data}"] == 2
    assert found["deleted_segments_total{/data}"] == 4
    assert found["deleted_bytes_total{/data}"] == 4 * (MIB + 4096)
    assert found["last_run_compacted_segments{/data}"] == 3
    assert found["last_run_compaction_read_bytes{/data}"] == 3 * MIB
    assert found["compaction_written_bytes_total{/data}"] == 3 * MIB
    assert found["records_kept_total{/data}"] == 2000
    assert found["last_run_duration_seconds"] == 0.5
    assert found["last_run_swept_bytes"] == found["swept_bytes_total"] == 7
    assert found["run_seconds_total"] == 2.0
    assert found["runs_total{done}"] == 2
    assert found["last_success_timestamp_seconds"] == (NOW_MS + 2500) / 1000


def with_error(plan: Plan, error: str | None) -> Outcome:
    done = a_run(plan)
    return replace(done, results={key: replace(result, error=error) for key, result in done.results.items()})


def test_a_partition_that_fails_is_uncleanable_until_it_succeeds() -> None:
    plan, metrics = a_plan(CLICKS), Metrics(per_partition="all")
    metrics.planned(plan, NOW_MS)
    metrics.ran(plan, with_error(plan, "/data/clicks-0: no"), NOW_MS, NOW_MS + 1)
    found = values(metrics)
    assert found["partition_uncleanable{/data,clicks,0}"] == found["uncleanable_partitions{/data}"] == 1
    assert found["partition_failures_total{/data,clicks,0}"] == 1
    assert found["runs_total{failed}"] == 1
    assert "last_success_timestamp_seconds" not in found
    metrics.ran(plan, with_error(plan, None), NOW_MS, NOW_MS + 1)
    metrics.planned(plan, NOW_MS)
    found = values(metrics)
    assert found["partition_uncleanable{/data,clicks,0}"] == found["uncleanable_partitions{/data}"] == 0
    assert found["partition_failures_total{/data,clicks,0}"] == 1


def test_a_partition_that_vanished_fails_no_more() -> None:
    plan, metrics = a_plan(CLICKS), Metrics()
    metrics.ran(plan, with_error(plan, "no"), NOW_MS, NOW_MS + 1)
    metrics.planned(a_plan(ORDERS), NOW_MS)
    metrics.planned(plan, NOW_MS)
    assert values(metrics)["partition_uncleanable{/data,clicks,0}"] == 0


def test_map_utilisation_is_of_the_last_run_that_compacted() -> None:
    plan, metrics = a_plan(CLICKS, ORDERS), Metrics()
    done = a_run(plan)
    used = {key: replace(r, map_utilisation=0.25 if r.compacted_from_bytes else 0) for key, r in done.results.items()}
    metrics.ran(plan, Outcome(False, {}), NOW_MS, NOW_MS + 1)
    assert "map_utilisation_ratio" not in values(metrics)
    metrics.ran(plan, replace(done, results=used), NOW_MS, NOW_MS + 1)
    metrics.ran(plan, Outcome(False, {}), NOW_MS, NOW_MS + 1)
    assert values(metrics)["map_utilisation_ratio"] == 0.25


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Outcome(False, {}, interrupted=True), "interrupted"),
        (Outcome(False, {}, errors=("x",)), "failed"),
        (Outcome(False, {}), "done"),
    ],
)
def test_how_a_run_ended(outcome: Outcome, result: str) -> None:
    found = told(a_plan(CLICKS), outcome)
    assert {name for name, value in found.items() if name.startswith("runs_total") and value} == {
        f"runs_total{{{result}}}"
    }


def test_what_the_daemon_tells() -> None:
    metrics = Metrics()
    metrics.worker_died()
    metrics.failed(JobKind.SURVEY, "its lock")
    metrics.failed(JobKind.SURVEY, "its lock")
    metrics.state(DaemonState(True, "idle", observing=True))
    found = values(metrics)
    assert found["dead_threads_total"] == 1
    assert found["failures_total{survey}"] == 2
    assert found["failures_total{retention}"] == 0
    assert (found["ready"], found["observing"]) == (1, 1)
    assert found["process_resident_memory_bytes"] > 0


def test_a_run_in_two_parts_has_the_figures_of_both_and_the_end_of_the_second() -> None:
    first = LastRunFigures(1_000, 2.0, 5, {"/a": Counter(segments=1), "/b": Counter(segments=2)})
    second = LastRunFigures(4_000, 0.5, 3, {"/b": Counter(segments=4, bytes=1)})
    assert second.following(first) == LastRunFigures(
        4_000, 2.5, 8, {"/a": Counter(segments=1), "/b": Counter(segments=6, bytes=1)}
    )


def test_a_job_is_told_and_its_last_success_outlives_a_failure() -> None:
    metrics = Metrics()
    metrics.did(JobDone(JobKind.SURVEY, NOW_MS, NOW_MS + 1500, True, True))
    metrics.did(JobDone(JobKind.SURVEY, NOW_MS + 2000, NOW_MS + 2500, False, True))
    found = values(metrics)
    assert (found["job_success{survey}"], found["job_duration_seconds{survey}"]) == (0, 0.5)
    assert found["job_last_success_timestamp_seconds{survey}"] == (NOW_MS + 1500) / 1000
    assert "last_success_timestamp_seconds" not in found


@pytest.mark.parametrize(("succeeded", "is_whole"), [(True, True), (True, False), (False, True)])
def test_a_retention_without_anything_to_do_is_a_success_where_it_could_do_all(succeeded: bool, is_whole: bool) -> None:
    metrics = Metrics()
    metrics.did(JobDone(JobKind.RETENTION, NOW_MS, NOW_MS + 1500, succeeded, is_whole))
    assert values(metrics).get("last_success_timestamp_seconds") == (
        (NOW_MS + 1500) / 1000 if succeeded and is_whole else None
    )


def test_the_configuration_that_was_taken_and_the_one_that_was_refused() -> None:
    metrics = Metrics()
    assert "config_last_reload_successful" not in values(metrics)  # of a one-shot run
    metrics.configured(NOW_MS, succeeded=True)
    assert values(metrics)["config_last_reload_successful"] == 1
    metrics.configured(NOW_MS + 9, succeeded=False)
    found = values(metrics)
    assert found["config_last_reload_successful"] == 0
    assert found["config_last_reload_success_timestamp_seconds"] == NOW_MS / 1000


def test_a_log_dir_that_is_in_no_plan_is_told_and_its_counters_begin_at_zero() -> None:
    metrics = Metrics()
    metrics.log_dirs({"/data": False, "/gone": True})
    metrics.planned(a_plan(CLICKS), NOW_MS)
    found = values(metrics)
    assert (found["log_dir_failed{/data}"], found["log_dir_failed{/gone}"]) == (0, 1)
    for family in names.TOTAL.values():
        assert found[f"{family.name.removeprefix(names.PREFIX)}{{/gone}}"] == 0
    metrics.log_dirs({"/data": False})
    assert "log_dir_failed{/gone}" not in values(metrics)


def test_no_label_is_one_that_prometheus_sets_itself() -> None:
    assert not {label for family in names.ALL for label in family.labels} & {"job", "instance"}


def test_growth_is_seen_from_plan_to_plan() -> None:
    plan, metrics = a_plan(CLICKS), Metrics()
    metrics.planned(plan, NOW_MS)
    (log_dir,) = plan.log_dirs
    fuller = replace(log_dir, facts=replace(log_dir.facts, free_bytes=(1 << 34) - 7200))
    metrics.planned(replace(plan, log_dirs=(fuller,)), NOW_MS + 7_200_000)
    found = values(metrics)
    assert found["log_dir_growth_bytes_per_second{/data}"] == 1
    assert found["log_dir_growth_observed_seconds{/data}"] == 7200
    assert found["log_dir_runway_seconds{/data}"] == (1 << 34) - 7200


def test_a_path_with_quotes_is_escaped() -> None:
    plan = a_plan(CLICKS)
    (log_dir,), path = plan.log_dirs, 'a"b\\c\nd'
    partitions = tuple(replace(p, facts=replace(p.facts, log_dir=path)) for p in plan.partitions)
    renamed = replace(log_dir, facts=replace(log_dir.facts, path=path), partitions=partitions)
    found = told(replace(plan, log_dirs=(renamed,)))
    assert found[f"partition_segments{{{path},clicks,0}}"] == found[f"segments{{{path}}}"] == 3


def test_a_plan_is_read_once_and_then_let_go() -> None:
    class Kept(Plan):
        """A plan that takes a weak reference."""

    metrics, made = Metrics(), a_plan(CLICKS)
    plan = Kept(made.request, made.log_dirs)
    metrics.planned(plan, NOW_MS)
    kept = weakref.ref(plan)
    del plan
    assert kept() is not None
    assert b"clicks" in metrics.text()
    gc.collect()
    assert kept() is None
    assert b"clicks" in metrics.text()


def test_nothing_is_told_that_is_not_listed() -> None:
    plan = a_plan(CLICKS, ORDERS)
    found = told(plan, a_run(plan), per_partition="all")
    listed = {family.name.removeprefix(names.PREFIX) for family in names.ALL}
    assert {name.partition("{")[0] for name in found if not name.startswith("process_")} <= listed


def test_names_are_those_of_prometheus() -> None:
    assert len({family.name for family in names.ALL}) == len(names.ALL)
    for family in names.ALL:
        assert re.fullmatch(r"logcleaner_[a-z_]+", family.name)
        assert family.kind == ("counter" if family.name.endswith("_total") else "gauge")
        assert family.help.endswith(".")


def test_the_page_of_metrics_lists_every_one_as_it_is() -> None:
    listed = re.findall(r"^\| `(logcleaner_\w+)`( \(`all`\))? \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    labels = {names.PARTITION: ""}
    assert listed == [
        (
            family.name,
            "" if family.is_few else " (`all`)",
            labels.get(family.labels, ", ".join(family.labels)),
            family.help,
        )
        for family in names.ALL
    ]
