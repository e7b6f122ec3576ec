"""``max.unkeyed.ratio``: too many records without a key hold a partition back before anything of it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleaner.engine.compactor import Local
from cleaner.engine.journal import encode_entry, read_journal
from cleaner.engine.outcome import Outcome
from cleaner.engine.restore import read_history
from cleaner.engine.undo_notes import journalled_deletions
from cleaner.report.cleaning import CleaningReport
from cleaner.report.history import HistoryReport
from policies.plan import PartitionPlan, Plan
from policies.planning import held_back
from policies.reasons import ReasonCode
from policies.rescue import SpaceTarget
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from storage.records import Record, encode_batch
from tests.cleaner.report.texts import text_of
from tests.legacy_logs import Format
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    latest,
    records_in,
    request,
)

ORDERS, STATE = TopicPartition("orders", 0), TopicPartition("state", 0)
LINE = "MAX_UNKEYED_RATIO: {}/orders-0: compaction would drop 3 of 5 records because they have no key: 0.60, more than "
ALL_ALLOWED = {**COMPACT, "max.unkeyed.ratio": "1"}


def unkeyed(base_offset: int, count: int, timestamp_ms: int = NOW_MS) -> bytes:
    return encode_batch([Record(base_offset + place, timestamp_ms, None, b"click") for place in range(count)])


def mixed(log_dir: Path, name: str = "orders-0") -> PartitionDir:
    """Of the five records below the active segment, three have no key."""
    made = PartitionDir(log_dir, name).segment(0, keyed(0, "a=1"), unkeyed(1, 2))
    return made.segment(3, keyed(3, "a=2"), unkeyed(4, 1)).segment(5, keyed(5, "b=1"))


def all_keyed(log_dir: Path, name: str = "state-0") -> PartitionDir:
    return PartitionDir(log_dir, name).segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))


@pytest.fixture
def log_dir(tmp_path) -> Path:
    return committed(tmp_path / "data", mixed(tmp_path / "data"), all_keyed(tmp_path / "data"))


def cleaner_of(log_dir: Path, keys: dict[str, str] = COMPACT, **options: Any):
    return a_cleaner(log_dir, configured(orders=keys, state=COMPACT), **options)


def seen(directory: Path) -> dict[str, tuple[bytes, int, int]]:
    """What there is in a directory, to the inode and the time of the last change."""
    return {path.name: (path.read_bytes(), path.stat().st_ino, path.stat().st_ctime_ns) for path in directory.iterdir()}


def codes_of(plan: Plan, name: TopicPartition = ORDERS) -> list[tuple[str, str]]:
    (planned,) = (p for p in plan.partitions if p.facts.topic_partition == name)
    return [(verdict.action.value, verdict.reason.code.value) for verdict in planned.verdicts]


def rehearsed(cleaner, plan: Plan, *, exact: bool = False) -> tuple[Plan, Outcome]:
    """What ``clean --dry-run`` shows."""
    outcome = cleaner.would_do(plan, exact=exact)
    return held_back(plan, outcome.guards), outcome


HELD = [("keep", "MAX_UNKEYED_RATIO")] * 2 + [("keep", "ACTIVE_SEGMENT")]


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_of_the_partition_is_written_and_the_others_go_on(log_dir, rounds, threads):
    before = seen(log_dir / "orders-0")
    cleaner = cleaner_of(log_dir, COMPACT, threads=threads)
    plan, outcome = cleaner.clean(request())
    assert seen(log_dir / "orders-0") == before
    assert LogDir(log_dir).offsets(CLEANER_OFFSET_CHECKPOINT) == {STATE: 2}
    assert latest(log_dir / "state-0") == {b"a": b"2", b"b": b"1"}
    assert not any(result.error for result in outcome.results.values())
    assert codes_of(plan) == HELD
    (line,) = plan.guards
    assert line.startswith(LINE.format(log_dir))
    assert "max.unkeyed.ratio=0.5 (logcleaner's default) allows without --yes" in line


@pytest.mark.parametrize(("ratio", "is_held"), [("0.6", False), ("0.5999", True), ("0", True), ("1", False)])
def test_exactly_the_ratio_is_let_through(log_dir, ratio, is_held):
    plan, outcome = cleaner_of(log_dir, {**COMPACT, "max.unkeyed.ratio": ratio}).clean(request())
    assert (codes_of(plan) == HELD) is is_held
    assert set(outcome.guards) == ({(str(log_dir), ORDERS)} if is_held else set())
    assert [record.key for record in records_in(log_dir / "orders-0")].count(None) == (3 if is_held else 0)


def test_ratio_of_zero_lets_through_what_loses_nothing(log_dir):
    none_allowed = {**COMPACT, "max.unkeyed.ratio": "0"}
    plan, _ = a_cleaner(log_dir, configured(orders=none_allowed, state=none_allowed)).clean(request())
    assert len(list(plan.guards)) == 1
    assert latest(log_dir / "state-0") == {b"a": b"2", b"b": b"1"}


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_held_back_too(tmp_path, magic):
    records = [Record(offset, NOW_MS, key, b"v") for offset, key in enumerate((b"a", None, None))]
    made = PartitionDir(tmp_path)
    made.log(0).write_bytes(Format(magic).encode(records))
    committed(tmp_path, made.segment(3, keyed(3, "b=1")))
    before = seen(made.path)
    plan, _ = cleaner_of(tmp_path).clean(request())
    assert "would drop 2 of 3 records" in next(plan.guards)
    assert seen(made.path) == before


# What a person says


def test_yes_lets_it_through(log_dir):
    plan, outcome = cleaner_of(log_dir).clean(request(confirmed=True))
    assert not outcome.guards
    assert not list(plan.guards)
    assert [record.key for record in records_in(log_dir / "orders-0")] == [b"a", b"b"]


def test_the_guard_that_was_shown_can_be_confirmed_and_no_other(log_dir):
    plan, _ = cleaner_of(log_dir).clean(request())
    other, _ = cleaner_of(log_dir).clean(request(confirmed_guards=frozenset({"MAX_UNKEYED_RATIO /data/other-0 why"})))
    assert codes_of(other) == HELD
    cleaner_of(log_dir).clean(request(confirmed_guards=plan.guard_keys))
    assert latest(log_dir / "orders-0") == {b"a": b"2", b"b": b"1"}


# A dry run


def test_exact_dry_run_says_what_the_run_then_does(log_dir):
    cleaner = cleaner_of(log_dir)
    planned = cleaner.plan(request())
    assert codes_of(planned) == [("compact", "DIRTY")] * 2 + [("keep", "ACTIVE_SEGMENT")]
    would, outcome = rehearsed(cleaner, planned, exact=True)
    done, _ = cleaner.clean(request())
    assert (codes_of(would), list(would.guards)) == (codes_of(done), list(done.guards))
    report = text_of(CleaningReport(would, outcome), 200)
    assert "Held back      1 partition by a guard rail; --yes releases it" in report
    assert "keep           0 to 3, 2 segments" in report


def test_dry_run_without_reading_does_not_know(log_dir):
    cleaner = cleaner_of(log_dir)
    would, outcome = rehearsed(cleaner, cleaner.plan(request()))
    report = CleaningReport(would, outcome)
    assert not list(would.guards)
    results = [partition["result"]["records_unkeyed"] for partition in report.document()["partitions"]]
    assert results == [None, None]
    assert text_of(report, 200).count("2 partitions may lose records without a key: --exact counts them.") == 1
    assert text_of(report, 200, every_segment=True).count(", records without a key not counted") == 2


def test_topics_that_kafka_writes_hold_no_record_without_a_key(tmp_path):
    made = all_keyed(tmp_path, "__consumer_offsets-0")
    cleaner = a_cleaner(committed(tmp_path, made), configured(__consumer_offsets=COMPACT))
    plan = cleaner.plan(request())
    assert "without a key" not in text_of(CleaningReport(plan, cleaner.would_do(plan)), every_segment=True)


# The same files again


class NoCompaction(Local):
    def compact(self, round_, means):
        raise AssertionError(round_)


def test_the_same_files_are_not_read_again(log_dir):
    first, _ = cleaner_of(log_dir).clean(request())
    again = cleaner_of(log_dir, compactor=NoCompaction())
    second, outcome = again.clean(request())
    assert list(second.guards) == list(first.guards)
    assert codes_of(second) == HELD
    assert not outcome.results
    known, _ = rehearsed(cleaner_of(log_dir), cleaner_of(log_dir).plan(request()))
    assert list(known.guards) == list(first.guards)


def changed_file(log_dir: Path) -> None:
    os.utime(log_dir / "orders-0" / f"{3:020d}.log", ns=(NOW_MS, NOW_MS))


def another_end(log_dir: Path) -> None:
    made = PartitionDir.__new__(PartitionDir)
    made.path = log_dir / "orders-0"
    made.segment(6, keyed(6, "c=1"))


@pytest.mark.parametrize("change", [changed_file, another_end])
def test_changed_files_are_read_again(log_dir, change):
    cleaner_of(log_dir).clean(request())
    change(log_dir)
    assert codes_of(cleaner_of(log_dir).plan(request()))[:2] == [("compact", "DIRTY")] * 2


def test_another_configuration_is_compared_with_the_known_count(log_dir):
    cleaner_of(log_dir).clean(request())
    assert codes_of(cleaner_of(log_dir, ALL_ALLOWED).plan(request()))[0] == ("compact", "DIRTY")
    lower = cleaner_of(log_dir, {**COMPACT, "max.unkeyed.ratio": "0.1"}).plan(request())
    assert "max.unkeyed.ratio=0.1" in next(lower.guards)


def test_count_of_a_round_as_kafka_made_it_says_nothing(log_dir):
    """An earlier version could end a round where Kafka's offset map is full, and noted so with its count."""
    cleaner_of(log_dir).clean(request())
    journal = log_dir / ".logcleaner-journal"
    entries = list(read_journal(log_dir))
    for rounds, expected in (("full", HELD[0]), ("kafka", ("compact", "DIRTY"))):
        told = [entry | {"rounds": rounds} if entry["what"] == "guarded" else entry for entry in entries]
        journal.write_bytes(b"".join(map(encode_entry, told)))
        assert codes_of(cleaner_of(log_dir).plan(request()))[0] == expected


# What the journal says of it


def test_history_tells_that_it_was_held_back_and_no_compaction(log_dir):
    cleaner_of(log_dir).clean(request(topics=("orders",)))
    assert [entry["what"] for entry in read_journal(log_dir)] == ["compact", "guarded"]
    history = read_history(LogDir(log_dir), lambda _: True)
    assert [entry["what"] for entry in history.entries] == ["guarded"]
    text = text_of(HistoryReport([history]), 200)
    assert "orders-0: compaction would drop 3 of 5 records because they have no key" in text
    assert "not finished" not in text


def lines(*what: str) -> Iterator[dict[str, Any]]:
    for place, kind in enumerate(what):
        yield {"time_ms": NOW_MS + place, "what": kind, "partition": "orders-0"}


def expiring(tmp_path: Path) -> Path:
    """A log of both policies: its first segment expired, the next two have more records without a key than with one."""
    old_ms = NOW_MS - 2 * DAY_MS
    made = PartitionDir(tmp_path / "data").segment(0, unkeyed(0, 1, old_ms), mtime_ms=old_ms)
    made.segment(1, unkeyed(1, 2)).segment(3, keyed(3, "a=1")).segment(4, keyed(4, "b=1"))
    return committed(tmp_path / "data", made)


BOTH = {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)}


def test_retention_goes_on_where_the_compaction_is_held_back(tmp_path):
    log_dir = expiring(tmp_path)
    plan, outcome = cleaner_of(log_dir, BOTH).clean(request())
    assert codes_of(plan)[:3] == [("delete", "RETENTION_TIME"), *HELD[:2]]
    (result,) = outcome.results.values()
    assert (result.deleted_segments, result.compacted_from_bytes) == (1, 0)
    assert "would drop 2 of 3 records" in next(plan.guards)
    assert [record.offset for record in records_in(log_dir / "orders-0")] == [1, 2, 3, 4]


def test_restore_is_not_kept_from_bringing_back_what_was_deleted_before(tmp_path):
    """The journal has a line of the compaction, but nothing was compacted."""
    log_dir = expiring(tmp_path)
    cleaner_of(log_dir, BOTH).clean(request())
    assert [entry["what"] for entry in read_journal(log_dir)] == ["delete", "compact", "guarded"]
    (deletion,) = journalled_deletions(log_dir, [ORDERS], [ORDERS])[ORDERS]
    assert not deletion.is_compacted_since


def test_compaction_before_the_one_that_was_held_back_counts(tmp_path):
    log_dir = expiring(tmp_path)
    cleaner_of(log_dir, {**BOTH, "max.unkeyed.ratio": "1"}).clean(request())
    with (log_dir / ".logcleaner-journal").open("ab") as file:
        file.writelines(map(encode_entry, lines("compact", "guarded")))
    (deletion,) = journalled_deletions(log_dir, [ORDERS], [ORDERS])[ORDERS]
    assert deletion.is_compacted_since


class FullFrom(FileSystem):
    """The journal finds no space from its so manieth line on."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self._lines_left = line

    def open_to_append(self, path, purpose):
        return self._counted(super().open_to_append(path, purpose))

    def create(self, path, like, purpose):
        file = super().create(path, like, purpose)
        return self._counted(file) if purpose is Purpose.JOURNAL else file

    def _counted(self, file):
        write = file.write

        def counted(data):
            self._lines_left -= 1
            if self._lines_left <= 0:
                raise OutOfSpace(file.path, len(data))
            write(data)

        file.write = counted
        return file


def test_line_that_finds_no_space_is_told_and_holds_back_all_the_same(log_dir):
    before = seen(log_dir / "orders-0")
    plan, outcome = cleaner_of(log_dir, fs=FullFrom(2)).clean(request(topics=("orders",)))
    assert codes_of(plan) == HELD
    assert seen(log_dir / "orders-0") == before
    assert "no space for the journal" in outcome.errors[0]


# The other commands that compact


def test_copy_has_the_partition_as_it_is(log_dir, tmp_path):
    plan, outcome = cleaner_of(log_dir).copy(request(), tmp_path / "copy", tool_version="1")
    assert codes_of(plan) == HELD
    assert set(outcome.guards) == {(str(log_dir), ORDERS)}
    for path in (log_dir / "orders-0").iterdir():
        assert (tmp_path / "copy" / "orders-0" / path.name).read_bytes() == path.read_bytes()
    assert latest(tmp_path / "copy" / "state-0") == {b"a": b"2", b"b": b"1"}
    manifest = json.loads((tmp_path / "copy" / "logcleaner-manifest.json").read_text())
    told = {partition["topic"]: [s["code"] for s in partition["segments"]] for partition in manifest["partitions"]}
    assert told["orders"] == ["MAX_UNKEYED_RATIO"] * 2 + ["ACTIVE_SEGMENT"]
    assert not read_history(LogDir(log_dir), lambda _: True).entries


def test_copy_has_what_retention_leaves(tmp_path):
    plan, _ = cleaner_of(expiring(tmp_path), BOTH).copy(request(), tmp_path / "copy", tool_version="1")
    assert codes_of(plan)[:3] == [("delete", "RETENTION_TIME"), *HELD[:2]]
    assert f"{0:020d}.log" not in file_names(tmp_path / "copy" / "orders-0")
    assert [record.offset for record in records_in(tmp_path / "copy" / "orders-0")] == [1, 2, 3, 4]


def test_rescue_leaves_it_and_compacts_the_next_one(log_dir):
    before = seen(log_dir / "orders-0")
    rescued = cleaner_of(log_dir).free(request(), SpaceTarget(1 << 60))
    assert seen(log_dir / "orders-0") == before
    assert codes_of(rescued.plan) == HELD
    assert latest(log_dir / "state-0") == {b"a": b"2", b"b": b"1"}
    assert LINE.format(log_dir) in next(rescued.plan.guards)


def test_rescue_that_is_confirmed_compacts_it(log_dir):
    cleaner_of(log_dir).free(request(confirmed=True), SpaceTarget(1 << 60))
    assert latest(log_dir / "orders-0") == {b"a": b"2", b"b": b"1"}


def test_plan_of_an_unreadable_journal_touches_nothing(log_dir):
    cleaner_of(log_dir, clock=FakeClock()).clean(request())
    journal = log_dir / ".logcleaner-journal"
    journal.unlink()
    journal.mkdir()
    (planned,) = cleaner_of(log_dir).plan(request()).log_dirs
    assert not [p for p in planned.partitions if isinstance(p, PartitionPlan)]
    assert str(journal) in planned.facts.errors[0]
    assert ReasonCode.MAX_UNKEYED_RATIO not in str(planned.facts.errors)
