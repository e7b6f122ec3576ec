"""A round end to end: what is rewritten, merged, copied or left, and what a batch becomes."""

from __future__ import annotations

import os
import struct
from contextlib import nullcontext

import pytest

from cleaner.engine.compaction.draft import Recoder
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem, Purpose
from storage.kernels.status import Status
from storage.log.listing import list_partition
from storage.records import ControlType, Record
from storage.scan import segments
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch, iter_batches
from tests.kafka_rounds import as_kafka
from tests.legacy_logs import Format, segment
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
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

ONE_GROUP = configured(orders=COMPACT)
A_GROUP_EACH = configured(orders={**COMPACT, "segment.bytes": "14"})


def clean(directory, layers=ONE_GROUP, now_ms=NOW_MS, fs=None):
    committed(directory.path.parent, directory)
    _, outcome = a_cleaner(directory.path.parent, layers, fs).clean(request(now_ms))
    (result,) = outcome.results.values()
    assert result.error is None
    return result


def batches_of(path):
    return list(iter_batches(path.read_bytes(), path))


def offsets(directory):
    return [record.offset for record in records_in(directory.path)]


def inode(directory, base):
    return directory.log(base).stat().st_ino


def with_active(directory, base=1000):
    return directory.segment(base, keyed(base, "active=1"))


def test_segment_that_loses_nothing_is_not_rewritten(tmp_path):
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=1", "b=2")))
    before = inode(directory, 0), inode(directory, 10)
    clean(directory, A_GROUP_EACH)
    assert inode(directory, 0) == before[0]
    assert inode(directory, 10) != before[1]
    assert offsets(directory) == [0, 11, 1000]
    assert not list(directory.path.glob(f"{0:020d}*.deleted"))


def test_segments_that_lose_nothing_are_still_merged(tmp_path):
    first, second = keyed(0, "a=1"), keyed(10, "b=1")
    directory = with_active(PartitionDir(tmp_path).segment(0, first).segment(10, second))
    clean(directory)
    assert directory.log(0).read_bytes() == first + second
    assert not directory.log(10).exists()


def test_batches_that_lose_nothing_keep_their_bytes_among_rebuilt_ones(tmp_path):
    kept, cut, last = keyed(0, "a=1", "b=1"), keyed(2, "c=1", "d=1"), keyed(4, "e=1", "c=2")
    directory = with_active(PartitionDir(tmp_path).segment(0, kept, cut, last))
    clean(directory)
    data = directory.log(0).read_bytes()
    assert data.startswith(kept)
    assert data.endswith(last)
    assert offsets(directory) == [0, 1, 3, 4, 5, 1000]


@pytest.mark.parametrize("run_bytes_min", [1, 300, 1 << 20])
def test_long_and_short_runs_of_copies_give_the_same_log(tmp_path, monkeypatch, run_bytes_min):
    monkeypatch.setattr("cleaner.engine.compaction.rewrite.COPY_RUN_BYTES_MIN", run_bytes_min)
    pieces = [keyed(2 * n, f"k{n}=1", f"{'x' if n % 5 == 0 else f'l{n}'}=1") for n in range(40)]
    directory = with_active(PartitionDir(tmp_path).segment(0, *pieces))
    clean(directory)
    assert offsets(directory) == [n for n in range(80) if not (n % 10 == 1 and n != 71)] + [1000]
    untouched = [piece for n, piece in enumerate(pieces) if n % 5 or n == 35]
    data = directory.log(0).read_bytes()
    assert all(piece in data for piece in untouched)


@pytest.mark.parametrize("window_bytes", [64 << 20, 500])
def test_first_change_late_in_a_segment_copies_what_lies_before_it(tmp_path, monkeypatch, window_bytes):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", window_bytes)
    pieces = [keyed(n, f"k{n}=1") for n in range(30)]
    directory = with_active(PartitionDir(tmp_path).segment(0, *pieces, keyed(30, "z=1", "z=2")))
    clean(directory, A_GROUP_EACH)
    assert directory.log(0).read_bytes().startswith(b"".join(pieces))
    assert offsets(directory) == [*range(30), 31, 1000]


def test_a_beginning_of_which_nothing_stays_is_not_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "WINDOW_BYTES", 1)
    began, walk = [], segments.SegmentReader.slices
    monkeypatch.setattr(
        segments.SegmentReader,
        "slices",
        lambda self, **named: (began.append(named.get("start")), walk(self, **named))[1],
    )
    dead = [keyed(n, f"k{n % 3}=1") for n in range(20)]
    directory = with_active(PartitionDir(tmp_path).segment(0, *dead, keyed(20, "z=1", *(f"k{n}=2" for n in range(3)))))
    clean(directory)
    assert offsets(directory) == [20, 21, 22, 23, 1000]
    assert [(start.position, start.ordinal) for start in began] == [(0, 0), (sum(map(len, dead)), 20)]


def test_batch_larger_than_the_window_is_rewritten(tmp_path, monkeypatch):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", 100)
    large = keyed(0, f"a={'x' * 5000}", f"b={'y' * 5000}", "a=1")
    directory = with_active(PartitionDir(tmp_path).segment(0, large))
    clean(directory)
    assert offsets(directory) == [1, 2, 1000]
    assert latest(directory.path)[b"b"] == b"y" * 5000


@pytest.mark.parametrize("codec", Compression)
def test_rebuilt_batch_keeps_its_codec_offsets_and_leader_epoch(tmp_path, codec):
    batch = keyed(0, "a=1", "b=1", "a=2", "c=1", "c=2", compression=codec, partition_leader_epoch=7, last_offset=9)
    directory = with_active(PartitionDir(tmp_path).segment(0, batch))
    clean(directory)
    (rebuilt,) = batches_of(directory.log(0))
    rebuilt.ensure_valid()
    header = rebuilt.header
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (0, 9, 7)
    assert header.compression is codec
    assert [record.offset for record in rebuilt.records()] == [1, 2, 4]


def test_section_before_the_first_dirty_offset_loses_only_superseded_keys(tmp_path):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2", "b=1")).segment(10, keyed(10, "b=2"))
    with_active(directory)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    clean(directory)
    assert offsets(directory) == [0, 1, 10, 1000]


def test_first_dirty_offset_within_a_segment_keeps_what_is_not_superseded_behind_it(tmp_path):
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), keyed(1, "a=2"), keyed(2, "b=1", "b=2")))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    clean(directory)
    assert offsets(directory) == [0, 1, 3, 1000]


def test_log_start_offset_within_a_segment_is_no_reason_to_drop_its_records(tmp_path):
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "c=1"), keyed(3, "a=2")))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    clean(directory)
    assert latest(directory.path) == {b"a": b"2", b"b": b"1", b"c": b"1", b"active": b"1"}


def test_tombstone_gets_a_horizon_and_goes_past_it(tmp_path):
    layers = configured(orders={**COMPACT, "delete.retention.ms": str(DAY_MS)})
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a", "b=1")))
    clean(directory, layers)
    (batch,) = batches_of(directory.log(0))
    assert batch.header.delete_horizon_ms == NOW_MS + DAY_MS
    assert [record.timestamp_ms for record in batch.records()] == [NOW_MS, NOW_MS]
    for now_ms, expected in ((NOW_MS + DAY_MS - 1, [1, 2]), (NOW_MS + DAY_MS, [2])):
        again = PartitionDir(tmp_path / str(now_ms))
        again.segment(0, directory.log(0).read_bytes()).segment(3, keyed(3, "c=1"))
        with_active(again)
        (again.path.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")
        clean(again, layers, now_ms)
        assert offsets(again) == [*expected, 3, 1000]


def test_last_batch_of_the_round_stays_as_an_empty_one(tmp_path):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2", "b=2"))
    directory.segment(4, keyed(4, "active=1"))
    clean(directory, A_GROUP_EACH)
    assert directory.log(0).read_bytes() == b""
    first = PartitionDir(tmp_path / "again").segment(0, keyed(0, "a=1"), keyed(1, "b=1")).segment(2, keyed(2, "c=1"))
    clean(first)
    assert [batch.header.record_count for batch in batches_of(first.log(0))] == [1, 1]


def producer(base_offset, *pairs, id_=7, sequence=0, txn=True):
    return keyed(base_offset, *pairs, producer_id=id_, producer_epoch=0, base_sequence=sequence, is_transactional=txn)


def marker(kind, offset, id_=7):
    return encode_control_batch(
        kind, offset=offset, timestamp_ms=NOW_MS, producer_id=id_, producer_epoch=0, coordinator_epoch=0
    )


def test_aborted_records_go_and_the_marker_stays_with_its_index_entry(tmp_path):
    aborted = format_aborted_txn(AbortedTxn(7, 1, 2, 3))
    directory = PartitionDir(tmp_path).segment(
        0, keyed(0, "a=1"), producer(1, "a=2"), marker(ControlType.ABORT, 2), aborted=aborted
    )
    directory.segment(3, producer(3, "active=1", sequence=1), marker(ControlType.COMMIT, 4))
    clean(directory)
    assert latest(directory.path)[b"a"] == b"1"
    assert [batch.header.is_control for batch in batches_of(directory.log(0))] == [False, True]
    assert directory.log(0).with_suffix(".txnindex").read_bytes() == aborted


@pytest.mark.parametrize(
    ("rounds", "segments", "indexed", "left"),
    [
        ("full", [(0, 5)], 2, [1, 3, 4]),
        ("kafka", [(0, 5)], 2, [1, 2, 3, 4]),
        ("kafka", [(0, 5)], 1, [1, 3, 4]),
        ("kafka", [(0, 5)], 3, [1, 3, 4]),
        ("kafka", [(0, 2), (2, 5)], None, [1, 3, 4]),
    ],
    ids=["default", "marker skipped", "marker scanned", "no index entry so low", "marker in the segment before"],
)
def test_kafkas_map_leaves_out_what_its_scan_meets_behind_an_abort_marker_that_it_skips(
    tmp_path, rounds, segments, indexed, left
):
    batches = [producer(0, "x=1"), marker(ControlType.ABORT, 1), producer(2, "a=1", sequence=1)]
    batches += [producer(3, "a", sequence=2), marker(ControlType.COMMIT, 4)]
    directory, aborted = PartitionDir(tmp_path), format_aborted_txn(AbortedTxn(7, 0, 1, 2))
    for base, end in segments:
        directory.segment(base, *batches[base:end], aborted=b"" if base else aborted)
    if indexed is not None:
        entry = struct.pack(">ii", indexed, sum(map(len, batches[:indexed])))
        directory.log(0).with_suffix(".index").write_bytes(entry)
    with_active(directory)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    with as_kafka() if rounds == "kafka" else nullcontext():
        clean(directory)
    assert offsets(directory) == [*left, 1000]
    found = {batch.header.base_offset: batch.header for batch in batches_of(directory.log(0))}
    assert found[3].delete_horizon_ms == NOW_MS + DAY_MS


def test_last_batch_of_an_active_producer_stays_as_an_empty_one(tmp_path):
    directory = with_active(
        PartitionDir(tmp_path).segment(0, producer(0, "a=1", "a=1", txn=False), keyed(2, "a=2"), keyed(3, "z=1"))
    )
    clean(directory)
    empty, *_ = batches_of(directory.log(0))
    header = empty.header
    assert (header.record_count, header.size_bytes, header.last_offset, header.last_sequence) == (0, 61, 1, 1)
    assert offsets(directory) == [2, 3, 1000]


def test_merged_segment_takes_base_of_its_first_and_time_of_its_last_source(tmp_path):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), mtime_ms=1_000)
    directory.segment(10, keyed(10, "a=2"), mtime_ms=2_000).segment(20, keyed(20, "b=1"), mtime_ms=3_000)
    with_active(directory)
    clean(directory)
    for suffix in (".log", ".index", ".timeindex"):
        assert directory.log(0).with_suffix(suffix).stat().st_mtime_ns == 3_000 * 1_000_000
    assert [segment.base_offset for segment in list_partition(directory.path).segments] == [0, 1000]


def test_snapshots_of_the_bases_that_were_merged_go(tmp_path):
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=1")))
    from storage.log.producer_state import ProducerState

    for base in (10, 1000, 1001):
        (directory.path / f"{base:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
    clean(directory)
    assert [s.name.base_offset for s in list_partition(directory.path).snapshots] == [1000, 1001]


def test_stale_cleaned_files_of_an_earlier_run_do_not_get_in_the_way(tmp_path):
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2")))
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (directory.path / f"{0:020d}{suffix}.cleaned").write_bytes(b"stale")
    clean(directory)
    assert offsets(directory) == [1, 1000]
    assert not directory.log(0).with_suffix(".txnindex").exists()


@pytest.mark.parametrize("refused", range(3))
def test_swap_whose_first_renames_fail_is_undone_by_the_next_run(tmp_path, refused):
    class Failing(FileSystem):
        def rename(self, source, target, purpose):
            if purpose is Purpose.SWAP_IN and target.suffix == ".swap":
                self.renames = getattr(self, "renames", -1) + 1
                if self.renames == refused:
                    raise OSError(5, "I/O error", str(source))
            super().rename(source, target, purpose)

    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2")))
    committed(tmp_path, directory)
    _, outcome = a_cleaner(tmp_path, ONE_GROUP, Failing()).clean(request())
    (result,) = outcome.results.values()
    assert "I/O error" in result.error
    left = list_partition(directory.path)
    from storage.log.recovery import plan_recovery, recover

    recover(FileSystem(), plan_recovery(left), directory.path)
    assert offsets(directory) == [0, 1, 1000]
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= file_names(directory.path)


def test_time_index_of_a_cleaned_segment_ends_with_its_newest_record(tmp_path):
    directory = PartitionDir(tmp_path).segment(
        0, keyed(0, "a=1", timestamp_ms=NOW_MS + 5), keyed(1, "b=1"), keyed(2, "b=2")
    )
    with_active(directory)
    clean(directory)
    (segment, _) = list_partition(directory.path).segments
    assert segment.newest_record_ms() == NOW_MS + 5


@pytest.mark.parametrize(("kernel", "magic"), [("rewrite", 2), ("rewrite_messages", 1), ("rewrite_messages", 0)])
def test_a_batch_that_a_kernel_refuses_to_write_fails_the_partition(tmp_path, monkeypatch, kernel, magic):
    directory = PartitionDir(tmp_path / "data")
    segment(directory, 0, Format(magic).encode([Record(0, NOW_MS, b"a", b"1"), Record(1, NOW_MS, b"a", b"2")]))
    with_active(directory)
    committed(tmp_path / "data", directory)
    before = file_names(directory.path)

    def refused(_arena, _slice, row, _last, _keep, out):
        return Status.BAD_COUNT, row, out[1], out[3]

    monkeypatch.setattr(Recoder, kernel, refused)
    _, outcome = a_cleaner(tmp_path / "data", ONE_GROUP).clean(request())
    (result,) = outcome.results.values()
    assert str(result.error).startswith(f"{directory.log(0)} at byte 0: impossible record count")
    assert file_names(directory.path) == before


def test_owner_may_not_be_lost_by_a_mask(tmp_path):
    directory = with_active(PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2")))
    directory.path.chmod(0o750)
    old = os.umask(0o077)
    try:
        clean(directory)
    finally:
        os.umask(old)
    assert directory.log(0).stat().st_mode & 0o777 == 0o640
