"""Transactions that a round leaves unresolved: their markers behind it must say what the transaction index says."""

from __future__ import annotations

import pytest

from cleaner.engine.compaction import fates
from cleaner.engine.compaction.fates import Fates, resolve
from policies.retain import AbortedTransaction
from storage.errors import CorruptIndex
from storage.log.listing import list_partition
from storage.records import ControlType
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    latest,
    request,
)

LAYERS = configured(orders=COMPACT)
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def data(base_offset, *pairs, id_=7, sequence=0, **batch):
    producer = {"producer_id": id_, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    return keyed(base_offset, *pairs, **producer, **batch)


def marker(kind, offset, id_=7):
    return encode_control_batch(
        kind, offset=offset, timestamp_ms=NOW_MS, producer_id=id_, producer_epoch=0, coordinator_epoch=0
    )


def entry(first, last, id_=7):
    return format_aborted_txn(AbortedTxn(id_, first, last, last + 1))


def crossing(log_dir, kind, *entries, before=(), behind=()):
    """``a=2``, the second record of a transaction, replaces ``a=1`` or is aborted by a marker in the active segment."""
    made = PartitionDir(log_dir).segment(0, keyed(0, "a=1"), *before, data(10, "b=1"), data(11, "a=2", sequence=1))
    made.segment(20, *behind, marker(kind, 30), keyed(31, "c=1"), aborted=b"".join(entries))
    committed(log_dir, made)
    return made


def clean(log_dir, layers=LAYERS, **options):
    _, outcome = a_cleaner(log_dir, layers).clean(request(**options))
    ((_, result),) = outcome.results.items()
    return result


def logs(directory):
    return {path.name: path.read_bytes() for path in directory.path.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("story", "kind", "entries"),
    [
        ("the entry is missing", ABORT, []),
        ("there is one of what was committed", COMMIT, [entry(10, 30)]),
        ("it begins too late", ABORT, [entry(11, 30)]),
        ("it ends too early", ABORT, [entry(10, 29)]),
        ("it ends too late", ABORT, [entry(10, 31)]),
        ("it ends behind the log", COMMIT, [entry(10, 99)]),
        ("it names another producer", ABORT, [entry(10, 30, id_=8)]),
    ],
)
def test_a_marker_behind_the_round_that_contradicts_the_index_leaves_the_partition_untouched(
    tmp_path, story, kind, entries
):
    directory = crossing(tmp_path, kind, *entries)
    before = logs(directory)
    error = clean(tmp_path).error
    assert error is not None, story
    assert f"{20:020d}.txnindex at byte 0: " in error
    assert f"move it and {20:020d}.index away and start the broker once" in error
    assert logs(directory) == before


@pytest.mark.parametrize(("kind", "entries", "left"), [(ABORT, [entry(10, 30)], b"1"), (COMMIT, [], b"2")])
def test_a_marker_behind_the_round_that_agrees_with_the_index_lets_it_go_on(tmp_path, kind, entries, left, rounds):
    directory = crossing(tmp_path, kind, *entries)
    assert clean(tmp_path).error is None
    assert latest(directory.path)[b"a"] == left


def walked(directory, sources, *aborted):
    """A walk over the first segment."""
    walk = Fates(list(aborted), {}, 20, NOW_MS)
    for slice_ in sources(directory)[0].slices(checksums=Checksums.BY_CALLER):
        walk.dispose(slice_)
    return walk


def test_where_nothing_lies_behind_what_has_no_marker_is_left_at_that(tmp_path, sources):
    directory = PartitionDir(tmp_path).segment(0, data(20, "a=2")).segment(21)
    assert resolve_up_to_21(walked(directory, sources), directory) == []


def resolve_up_to_21(walk, directory):
    """Resolve a walk in a log that ends at 21. Return the bytes of every slice read for that."""
    spent: list[int] = []
    resolve([walk], list_partition(directory.path).segments, 21, spent.append, is_locked=True)
    return spent


def test_where_the_index_says_aborted_and_no_marker_is_found_up_to_the_log_end_it_is_contradicted(tmp_path, sources):
    directory = PartitionDir(tmp_path).segment(0, data(10, "a=2")).segment(20, keyed(20, "c=1"))
    walk = walked(directory, sources, AbortedTransaction(7, 10, 25, 26))
    with pytest.raises(CorruptIndex, match="producer 7 has no abort marker at offset 25"):
        resolve_up_to_21(walk, directory)


@pytest.mark.parametrize("tail", [bytes(4096), b"torn" * 5, b""], ids=["preallocated", "torn", "whole"])
def test_what_follows_the_log_end_is_not_looked_at(tmp_path, sources, tail):
    directory = PartitionDir(tmp_path).segment(0, data(10, "a=2")).segment(20, keyed(20, "c=1"))
    walk, size_bytes = walked(directory, sources), directory.log(20).stat().st_size
    with directory.log(20).open("ab") as active:
        active.write(tail)
    assert resolve_up_to_21(walk, directory) == [size_bytes]


def test_markers_of_other_producers_and_later_transactions_are_passed_over(tmp_path):
    others = [data(20, "x=1", id_=8), marker(ABORT, 21, id_=8), marker(COMMIT, 22, id_=9)]
    directory = crossing(tmp_path, COMMIT, entry(20, 21, id_=8), entry(32, 33), behind=others)
    with directory.log(20).open("ab") as active:
        active.write(data(32, "y=1", sequence=2) + marker(ABORT, 33))
    directory.end_offset = 34
    committed(tmp_path, directory)
    assert clean(tmp_path).error is None
    assert latest(directory.path)[b"a"] == b"2"


def test_transaction_from_the_clean_part_into_the_dirty_section_is_looked_up_before_anything_is_written(tmp_path):
    directory = PartitionDir(tmp_path).segment(0, data(0, "a=1", "a=2")).segment(10, keyed(10, "b=1", "b=2"))
    directory.segment(20, keyed(20, "c=1"), marker(ABORT, 21)).segment(30, keyed(30, "d=1"))
    committed(tmp_path, directory)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    before = logs(directory)
    error = clean(tmp_path, configured(orders={**COMPACT, "segment.bytes": "14"})).error
    assert error is not None
    assert f"{20:020d}.txnindex" in error
    assert logs(directory) == before


def test_a_dry_run_that_reads_everything_tells_it_too(tmp_path):
    crossing(tmp_path, ABORT)
    cleaner = a_cleaner(tmp_path, LAYERS)
    (result,) = cleaner.would_do(cleaner.plan(request()), exact=True).results.values()
    assert result.error is not None
    assert "txnindex" in result.error


def test_retention_of_a_partition_whose_index_is_contradicted_still_runs(tmp_path):
    old_ms = NOW_MS - 2 * DAY_MS
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "z=1", timestamp_ms=old_ms), mtime_ms=old_ms)
    directory.segment(10, data(10, "a=1", "a=2")).segment(20, marker(ABORT, 20))
    committed(tmp_path, directory)
    result = clean(tmp_path, configured(orders={**EXPIRING, **COMPACT, "cleanup.policy": "compact,delete"}))
    assert "txnindex" in (result.error or "")
    assert (result.deleted_segments, directory.log(0).exists()) == (1, False)
    assert directory.log(10).exists()


def read_by(monkeypatch):
    """Base offsets of the segments that are opened to look for markers."""
    opened = []

    def noted(segment, *rest, **options):
        opened.append(segment.base_offset)
        return open_segment(segment, *rest, **options)

    monkeypatch.setattr(fates, "open_segment", noted)
    return opened


def test_without_a_transaction_open_at_its_end_nothing_behind_the_round_is_read(tmp_path, monkeypatch):
    opened = read_by(monkeypatch)
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2"), data(2, "b=1"), marker(COMMIT, 3))
    committed(tmp_path, directory.segment(20, keyed(20, "c=1")))
    assert clean(tmp_path).error is None
    assert opened == []


def test_nothing_is_read_behind_the_last_marker(tmp_path, monkeypatch):
    opened = read_by(monkeypatch)
    old_ms = NOW_MS - DAY_MS
    directory = PartitionDir(tmp_path).segment(
        0, keyed(0, "a=1", timestamp_ms=old_ms), data(1, "a=2", timestamp_ms=old_ms), mtime_ms=old_ms
    )
    directory.segment(10, keyed(10, "x=1"), marker(COMMIT, 11)).segment(20, keyed(20, "y=1"))
    committed(tmp_path, directory)
    assert clean(tmp_path, configured(orders={**COMPACT, "min.compaction.lag.ms": "1000"})).error is None
    assert opened == [10]
