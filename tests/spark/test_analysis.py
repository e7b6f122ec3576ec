"""Every figure of an analysis, against the same counted by a plain loop over the readable reader's records.

One analysis by Spark, of real Kafka's log dir and of one drawn here, is all that this module runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from errno import ENOSPC
from functools import partial
from itertools import groupby, pairwise
from os import strerror
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from cleaner.config.layers import Settings, build_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.errors import UnwritableFile
from cleaner.report.findings import TABLES, Analysis, AnalysisRow, CurveStep, Savings
from cleaner.spark.analysis import analyzing, figures, keys, task_facts
from cleaner.spark.analysis.analyzing import PlannedRead, analyze, take_snapshot, write_tables
from cleaner.spark.analysis.figures import Growing
from cleaner.spark.analysis.keys import TOP_KEYS
from cleaner.spark.analysis.task_facts import answer_of, facts_of
from cleaner.spark.errors import AnalysisFailed
from cleaner.spark.session import cause_of
from policies import Plan, Request
from policies.config.config_layers import Configured
from policies.config.config_sources import Said
from policies.plan import path_of
from policies.reasons import Action
from policies.retention import retention
from storage.codecs.compression import Compression, decompress
from storage.log.listing import list_partition
from storage.records import Batch, ControlType, LegacyBatch, Record, encode_batch
from tests.batches import encode_control_batch, iter_batches
from tests.conftest import Samples
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, PartitionDir, committed, keyed

REAL = ("orders-0", "ledger-0", "payments-0", "empty-0")
DRAWN = ("odd-0", "txns-0", "days-0")
OF_KAFKA_2 = ("log-upgraded-0", "log-v0-gzip-0")
COMPACTED = ("orders", "ledger", "txns")


@dataclass(frozen=True)
class Analyzed:
    plan: Plan
    snapshot: PlannedRead
    analysis: Analysis
    cleaner: Cleaner

    def rows(self, table: str, name: str) -> list[AnalysisRow]:
        return [row for row in self.analysis.tables[table] if f"{row.topic}-{row.partition}" == name]

    def row(self, table: str, name: str) -> Any:
        (row,) = self.rows(table, name)
        return row


def drawn(path: Path) -> Path:
    """Timestamps out of order, missing, of the future, and days within a batch; transactions; damage."""
    odd = [
        Record(o, ms, key, b"v") for o, (ms, key) in enumerate([(9, b"a"), (5, None), (-1, b"a"), (NOW_MS + 1, b"b")])
    ]
    days = [Record(o, ms, b"k", None) for o, ms in enumerate([DAY_MS - 1, DAY_MS, 3 * DAY_MS, 3 * DAY_MS + 1, DAY_MS])]
    txn = {"producer_id": 7, "producer_epoch": 2, "is_transactional": True}
    marker = partial(encode_control_batch, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=2, coordinator_epoch=0)
    damaged = bytearray(keyed(1, "b=2"))
    damaged[-1] ^= 1
    partitions = (
        PartitionDir(path, "odd-0").segment(0, encode_batch(odd[:1]), encode_batch(odd[1:])).segment(4),
        PartitionDir(path, "days-0").segment(0, encode_batch(days, compression=Compression.GZIP)),
        PartitionDir(path, "txns-0")
        .segment(0, keyed(0, "a=1", "b=2", base_sequence=0, **txn), marker(ControlType.COMMIT, offset=2))
        .segment(3, keyed(3, "a=3", base_sequence=2, **txn), marker(ControlType.ABORT, offset=4))
        .segment(5, keyed(5, "a=4", base_sequence=3, **txn), keyed(6, "b", "c=9")),
        PartitionDir(path, "damaged-0").segment(0, keyed(0, "a=1"), bytes(damaged), keyed(2, "c=3")).segment(3),
        PartitionDir(path, "gone-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=2")),
    )
    return committed(path, *partitions)


@pytest.fixture(scope="module")
def analyzed(spark: Any, samples: Samples, old_samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    root = tmp_path_factory.mktemp("analyzed")
    real = samples.copy("before", root / "real", REAL)
    old = old_samples.copy("before", root / "old", OF_KAFKA_2)
    log_dirs = [real, old, drawn(root / "drawn")]
    compacted = dict.fromkeys(COMPACTED, COMPACT) | {"days": EXPIRING}
    said = {topic: {key: Said(value, "test") for key, value in keys.items()} for topic, keys in compacted.items()}
    cleaner = Cleaner(Configured(tuple(log_dirs), build_layers(Settings(topics=said))))
    plan = cleaner.plan(Request(NOW_MS, force_compaction=True, confirmed=True))
    snapshot = take_snapshot(plan)
    (root / "drawn" / "gone-0" / f"{0:020d}.log").unlink()
    steps: list[str] = []
    broker = build_layers(Settings()).broker_policy()
    analysis = analyze(spark.sparkContext, snapshot, broker, steps.append)
    assert steps == ["reading", "measuring compactions"]
    return Analyzed(plan, snapshot, analysis, cleaner)


@dataclass(frozen=True)
class Read:
    """A batch, and its records from the log start on."""

    batch: Batch | LegacyBatch
    records: list[Record]

    @property
    def is_control(self) -> bool:
        return self.batch.header.is_control

    @property
    def codec(self) -> Compression:
        return self.batch.header.compression


def batches_of(analyzed: Analyzed, name: str) -> list[Read]:
    facts = next(p.facts for p in analyzed.plan.partitions if str(p.facts.topic_partition) == name)
    found = []
    for segment in list_partition(Path(path_of(facts))).segments:
        for batch in iter_batches(segment.log.path.read_bytes(), segment.log.path):
            records = [record for record in batch.records() if record.offset >= facts.log_start_offset]
            found += [Read(batch, records)] if records else []
    return found


def data_records(analyzed: Analyzed, name: str) -> list[Record]:
    return [record for read in batches_of(analyzed, name) if not read.is_control for record in read.records]


every_partition = pytest.mark.parametrize("name", [*REAL, *OF_KAFKA_2, *DRAWN])


@every_partition
def test_sizes(analyzed: Analyzed, name: str) -> None:
    row, batches = analyzed.row("sizes", name), batches_of(analyzed, name)
    sizes = sorted(read.batch.header.size_bytes for read in batches)
    assert (row.records, row.batches) == (len(data_records(analyzed, name)), len(batches))
    if sizes:
        median = sizes[(len(sizes) - 1) // 2]
        assert (row.batch_min_bytes, row.batch_median_bytes, row.batch_max_bytes) == (sizes[0], median, sizes[-1])
    directory = Path(row.log_dir, name)
    assert row.size_bytes == sum(path.stat().st_size for path in directory.glob("*.log"))
    assert row.segments == len(list(directory.glob("*.log")))


def day_of(ms: int) -> str | None:
    return None if ms < 0 else datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()


@every_partition
def test_days(analyzed: Analyzed, name: str) -> None:
    records: Counter[str | None] = Counter()
    sizes: Counter[str | None] = Counter()
    for read in batches_of(analyzed, name):
        size, before = read.batch.header.size_bytes, 0
        for day, group in groupby(read.records, lambda record: day_of(record.timestamp_ms)):
            count = len(list(group))
            records[day] += 0 if read.is_control else count
            sizes[day] += size * (before + count) // len(read.records) - size * before // len(read.records)
            before += count
    told = {row.day: (row.records, row.size_bytes) for row in analyzed.rows("days", name)}
    assert told == {day: (records[day], sizes[day]) for day in records}


def plain_bytes(read: Read) -> int | None:
    header = read.batch.header
    if header.compression is Compression.NONE:
        return header.size_bytes
    if isinstance(read.batch, LegacyBatch):
        return None
    return 61 + len(decompress(header.compression, bytes(read.batch.data)[61:], 1 << 30))


@every_partition
def test_codecs(analyzed: Analyzed, name: str) -> None:
    by_codec: defaultdict[Compression, list[Read]] = defaultdict(list)
    for read in batches_of(analyzed, name):
        by_codec[read.codec].append(read)
    assert [row.codec for row in analyzed.rows("codecs", name)] == [codec.name.lower() for codec in sorted(by_codec)]
    for row in analyzed.rows("codecs", name):
        reads = by_codec[Compression[row.codec.upper()]]
        sizes = [read.batch.header.size_bytes for read in reads]
        records = sum(len(read.records) for read in reads if not read.is_control)
        assert (row.batches, row.records, row.size_bytes) == (len(reads), records, sum(sizes))
        known = [read for read in reads if plain_bytes(read) is not None]
        plain = sum(plain_bytes(read) or 0 for read in known)
        stored = sum(read.batch.header.size_bytes for read in known)
        assert row.ratio == (pytest.approx(plain / stored) if known else None)


@every_partition
def test_keys(analyzed: Analyzed, name: str) -> None:
    records = data_records(analyzed, name)
    if not records:
        assert analyzed.rows("keys", name) == []
        return
    row, keyed_records = analyzed.row("keys", name), [record for record in records if record.key is not None]
    latest = {record.key: record.value for record in keyed_records}
    assert (row.keys, row.duplicates) == (len(latest), len(keyed_records) - len(latest))
    assert row.tombstones == sum(record.value is None for record in keyed_records)
    assert row.deleted_keys == sum(value is None for value in latest.values())
    assert row.without_key == len(records) - len(keyed_records)


@every_partition
def test_top_keys(analyzed: Analyzed, name: str) -> None:
    counts: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    for record in data_records(analyzed, name):
        if record.key is not None:
            counts[record.key] += 1
            sizes[record.key] += len(record.key) + len(record.value or b"")
    for by, measured in (("hottest", counts), ("largest", sizes)):
        expected = sorted(measured, key=lambda key: (-measured[key], key))[:TOP_KEYS]
        told: list[Any] = [row for row in analyzed.rows("top_keys", name) if getattr(row, "by", None) == by]
        assert [(row.rank, row.key) for row in told] == list(enumerate(expected, 1))
        assert [(row.records, row.size_bytes) for row in told] == [(counts[key], sizes[key]) for key in expected]


@every_partition
def test_timestamps(analyzed: Analyzed, name: str) -> None:
    times = [record.timestamp_ms for record in data_records(analyzed, name)]
    if not times:
        assert analyzed.rows("timestamps", name) == []
        return
    row, known = analyzed.row("timestamps", name), [ms for ms in times if ms >= 0]
    assert (row.oldest_ms, row.newest_ms) == ((min(known), max(known)) if known else (None, None))
    assert row.future == sum(ms > NOW_MS for ms in times)
    assert row.missing == sum(ms < 0 for ms in times)
    assert row.out_of_order == sum(0 <= ms < before for before, ms in pairwise(times))


@every_partition
def test_producers_and_transactions(analyzed: Analyzed, name: str) -> None:
    by_id: defaultdict[int, list[Read]] = defaultdict(list)
    for read in batches_of(analyzed, name):
        if read.batch.header.producer_id >= 0:
            by_id[read.batch.header.producer_id].append(read)
    rows: list[Any] = analyzed.rows("producers", name)
    assert [row.producer_id for row in rows] == sorted(by_id)
    for row in rows:
        reads = by_id[row.producer_id]
        markers = [read.records[0].key[3] for read in reads if read.is_control]  # type: ignore[index]
        assert (row.committed, row.aborted) == (markers.count(1), markers.count(0))
        assert (row.batches, row.records) == (len(reads), sum(len(r.records) for r in reads if not r.is_control))
        last_marker = max((read.records[0].offset for read in reads if read.is_control), default=-1)
        behind = [r for r in reads if r.records[0].offset > last_marker and r.batch.header.is_transactional]
        assert row.open_since_offset == min((r.records[0].offset for r in behind), default=None)


def test_an_open_transaction_is_told(analyzed: Analyzed) -> None:
    row = analyzed.row("producers", "txns-0")
    assert (row.committed, row.aborted, row.open_since_offset, row.producer_epoch) == (1, 1, 5, 2)


def test_savings_are_those_of_an_exact_dry_run(analyzed: Analyzed) -> None:
    outcome = analyzed.cleaner.would_do(analyzed.plan, exact=True)
    rows = [row for row in analyzed.analysis.tables["savings"] if isinstance(row, Savings)]
    measured = ("deleted_bytes", "compacted_from_bytes", "compacted_to_bytes", "records_read", "records_kept")
    told = {(row.log_dir, (row.topic, row.partition)): [getattr(row, name) for name in measured] for row in rows}
    sound = {key: result for key, result in outcome.results.items() if result.error is None}
    assert told == {key: [getattr(result, name) for name in measured] for key, result in sound.items()}
    assert {row.topic for row in rows} >= {"orders", "ledger", "days"}
    assert all(row.basis == "exact" and row.saved_bytes > 0 for row in rows if row.topic in ("orders", "ledger"))


def test_the_retention_curve_is_that_of_policies(analyzed: Analyzed) -> None:
    planned = next(p for p in analyzed.plan.partitions if p.facts.topic_partition.topic == "orders")
    name = str(planned.facts.topic_partition)
    steps = [row for row in analyzed.rows("retention", name) if isinstance(row, CurveStep)]
    for key in ("retention.ms", "retention.bytes"):
        for step in (step for step in steps if step.key == key and step.limit is not None):
            limit = {key.replace(".", "_"): step.limit}
            policy = replace(planned.policy, cleanup_policy="delete", **limit)  # type: ignore[arg-type]
            verdicts = retention(planned.facts, policy, NOW_MS).verdicts
            assert step.kept_bytes == sum(v.size_bytes for v in verdicts if v.action is Action.KEEP)
        assert steps[-1].limit is None


def test_what_is_damaged_or_gone_is_told_and_the_rest_is_counted(analyzed: Analyzed) -> None:
    problems = sorted(analyzed.analysis.problems)
    assert [Path(problem.partition(".log")[0]).parent.name for problem in problems] == ["damaged-0", "gone-0", "txns-0"]
    assert "CRC-32C mismatch" in problems[0]
    assert "deleted or compacted away before it was read" in problems[1]
    assert problems[2].startswith("txns-0: ")  # its transaction index lacks what was aborted: nothing is compacted
    assert [analyzed.row("sizes", name).records for name in ("damaged-0", "gone-0")] == [2, 1]


def test_no_table_is_without_rows(analyzed: Analyzed) -> None:
    assert [name for name in TABLES if not analyzed.analysis.tables[name]] == []


def test_tables_as_parquet_are_the_tables(analyzed: Analyzed, tmp_path: Path) -> None:
    for analysis in (analyzed.analysis, replace(analyzed.analysis, now_ms=NOW_MS + DAY_MS)):
        write_tables(analysis, tmp_path)
    for name, rows in analyzed.analysis.tables.items():
        found = parquet.read_table(tmp_path / name).to_pylist()
        moments = [row.pop("analyzed_at").timestamp() * 1000 for row in found]
        assert found == [asdict(row) for row in rows] * 2
        assert sorted(set(moments)) == [NOW_MS, NOW_MS + DAY_MS]


def test_many_tasks_find_what_one_finds(spark: Any, analyzed: Analyzed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzing, "packed", lambda extents, _: ((extent,) for extent in extents))
    broker = build_layers(Settings()).broker_policy()
    again = analyze(spark.sparkContext, analyzed.snapshot, broker, lambda _: None)
    assert (again.tables, again.problems) == (analyzed.analysis.tables, analyzed.analysis.problems)


def test_a_task_that_sends_its_keys_early_sends_the_same(analyzed: Analyzed, monkeypatch: pytest.MonkeyPatch) -> None:
    packs = analyzing.packs_of(analyzed.snapshot)
    late = [list(facts_of(pack, NOW_MS)) for pack in packs]
    expected = [answer for sent in late for answer in answer_of(sent)]
    monkeypatch.setattr(keys, "PENDING_BYTES_MIN", 0)
    monkeypatch.setattr(task_facts, "KEYS_SENT_BYTES", 0)
    monkeypatch.setattr(figures, "ROWS_PENDING_MIN", 0)
    early = [list(facts_of(pack, NOW_MS)) for pack in packs]
    assert sum(map(len, early)) > sum(map(len, late))
    assert [answer for sent in early for answer in answer_of(reversed(sent))] == expected


@pytest.mark.parametrize("seed", range(20))
def test_tables_merge_in_any_grouping_to_the_same(seed: int) -> None:
    drawn, whole = Random(seed), Growing()
    rows = [
        {
            name: {column: np.array([drawn.randint(-1, 3)]) for column in (*table.by, *table.columns)}
            | ({"first_offset": np.array([number])} if table.ordered_by else {})
            for name, table in figures.TABLES.items()
        }
        for number in range(12)
    ]
    for row in rows:
        whole.add(row)
    parts, first = [], 0
    while first < len(rows):
        part, count = Growing(), drawn.randint(1, 4)
        for row in rows[first : first + count]:
            part.add(row)
        parts.append(part.merge())
        first += count
    again = Growing()
    for tables in drawn.sample(parts, len(parts)):
        again.add(tables)
    assert {name: {c: v.tolist() for c, v in table.items()} for name, table in again.merge().items()} == {
        name: {c: v.tolist() for c, v in table.items()} for name, table in whole.merge().items()
    }


def test_a_table_that_cannot_be_written_is_told(analyzed: Analyzed, tmp_path: Path) -> None:
    (tmp_path / "sizes").write_text("")
    with pytest.raises(UnwritableFile, match="sizes"):
        write_tables(analyzed.analysis, tmp_path)


def test_a_table_that_cannot_be_written_whole_leaves_nothing(
    analyzed: Analyzed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_table: Any, path: Path) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(ENOSPC, strerror(ENOSPC))

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(UnwritableFile, match="No space left on device"):
        write_tables(analyzed.analysis, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_job_that_fails_is_told_in_one_line(spark: Any, analyzed: Analyzed) -> None:
    def fail(_step: str) -> None:
        spark.sql("SELECT no_such_column")

    with pytest.raises(AnalysisFailed, match="no_such_column") as told:
        analyze(
            spark.sparkContext, replace(analyzed.snapshot, extents=()), build_layers(Settings()).broker_policy(), fail
        )
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("An error occurred\n: java.lang.Exception: no such host\n at x", "java.lang.Exception: no such host"),
        (
            "Task failed\nTraceback\nModuleNotFoundError: No module named 'cleaner'\n",
            "ModuleNotFoundError: No module named 'cleaner'",
        ),
        (
            "failed\n: SparkException: Job aborted\n at x\nCaused by: java.net.ConnectException: refused\n at y",
            "java.net.ConnectException: refused",
        ),
        (
            ": IllegalStateException: Cannot call methods on a stopped SparkContext.",
            "no master answered, or the master ended the application",
        ),
        ("[CODE] what it is\nmore", "[CODE] what it is"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_says_most_is_told(text: str, cause: str) -> None:
    assert cause_of(ValueError(text)) == cause
