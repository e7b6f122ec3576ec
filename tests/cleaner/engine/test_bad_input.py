"""Log dirs that are damaged, foreign or full: partitions stay as they were, the cause is reported, and the others go
on.
"""

from __future__ import annotations

import os
import stat
import struct

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.executor import Executor
from cleaner.engine.means import Means
from policies.facts import UnreadablePartition
from storage.filesystem import Purpose
from storage.log.producer_state import ProducerState
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.records.v2 import MAGIC_POSITION
from tests.faults import FullDisk
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    records_in,
    request,
)

OLD_MS = NOW_MS - 2 * DAY_MS
LAYERS = configured(
    orders=COMPACT, other=COMPACT, clicks=EXPIRING, mixed={**EXPIRING, **COMPACT, "cleanup.policy": "compact,delete"}
)
ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)


def compactable(log_dir, name, *, oldest_ms=NOW_MS):
    """Of the sealed segments, records 1 and 10 survive; a producer snapshot lies at the active one."""
    made = PartitionDir(log_dir, name).segment(0, keyed(0, "a=1", "b=1", timestamp_ms=oldest_ms))
    (made.path / f"{20:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
    return made.segment(10, keyed(10, "a=2")).segment(20, keyed(20, "c=1"))


@pytest.fixture
def log_dir(tmp_path):
    """``orders-0`` and ``other-0``, the same."""
    return committed(tmp_path, compactable(tmp_path, "orders-0"), compactable(tmp_path, "other-0"))


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def offsets(log_dir, name):
    return [record.offset for record in records_in(log_dir / name)]


def clean(log_dir, fs=None, **options):
    planned, outcome = a_cleaner(log_dir, LAYERS, fs).clean(request(**options))
    return planned, outcome, {key[1]: result.error for key, result in outcome.results.items()}


def log(log_dir, base, name="orders-0"):
    return log_dir / name / f"{base:020d}.log"


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    mtime_ns = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(mtime_ns, mtime_ns))


@pytest.mark.parametrize("base", [0, 10])
@pytest.mark.parametrize("position", [17, 40, -1], ids=["crc", "header", "records"])
def test_corrupt_batch_leaves_its_partition_as_it_was_and_the_others_go_on(log_dir, base, position):
    flip(log(log_dir, base), position)
    before = contents(log_dir / "orders-0")
    _, _, errors = clean(log_dir)
    assert str(log(log_dir, base)) in errors[ORDERS]
    assert "byte 0" in errors[ORDERS]
    assert contents(log_dir / "orders-0") == before
    assert errors[OTHER] is None
    assert offsets(log_dir, "other-0") == [1, 10, 20]


@pytest.mark.parametrize(
    ("position", "value", "cause"),
    [(8, 0x7F, "ends within"), (8, 0xFF, "length"), (16, 0x09, "format"), (57, 0x7F, "count")],
    ids=["too long", "negative", "magic", "count"],
)
def test_impossible_header_leaves_its_partition_as_it_was(log_dir, position, value, cause):
    path = log(log_dir, 10)
    data = bytearray(path.read_bytes())
    data[position] = value
    path.write_bytes(data)
    before = contents(log_dir / "orders-0")
    _, _, errors = clean(log_dir)
    assert f"{path} at byte 0" in errors[ORDERS]
    assert cause in errors[ORDERS]
    assert contents(log_dir / "orders-0") == before
    assert errors[OTHER] is None


def test_impossible_header_that_producer_state_must_be_read_over_is_told(log_dir):
    (log_dir / "orders-0" / f"{20:020d}.snapshot").unlink()
    log(log_dir, 10).write_bytes(b"\xff" * 100)
    before = contents(log_dir / "orders-0")
    planned, _, errors = clean(log_dir)
    (failure,) = planned.failures
    assert f"{log(log_dir, 10)} at byte 0" in failure.error
    assert contents(log_dir / "orders-0") == before
    assert errors == {OTHER: None}


@pytest.fixture
def damaged_active(log_dir, request):
    """The active segment of ``orders-0``: a batch with a damaged header, and the last one, which an index names."""
    directory, path = log_dir / "orders-0", log(log_dir, 20)
    last = keyed(21, "d=1")
    position = path.stat().st_size
    path.write_bytes(path.read_bytes() + last)
    path.with_suffix(".index").write_bytes(struct.pack(">ii", 1, position))
    (directory / f"{22:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (log_dir / name).write_text("0\n2\norders 0 22\nother 0 21\n")
    (log_dir / ".kafka_cleanshutdown").touch()
    data = bytearray(path.read_bytes())
    at, value = request.param if hasattr(request, "param") else (MAGIC_POSITION, 9)
    data[at] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "damaged_active",
    [pytest.param((MAGIC_POSITION, 9), id="version"), pytest.param((9, 0x7F), id="a length that leads behind the end")],
    indirect=True,
)
def test_damage_in_the_active_segment_fails_its_partition_behind_a_clean_stop(log_dir, damaged_active):
    """Neither Kafka nor a round reads there: a snapshot lies at the log end, and the index leads behind the damage."""
    before = contents(log_dir / "orders-0")
    planned, _, errors = clean(log_dir)
    (failure,) = planned.failures
    assert f"{damaged_active} at byte 0" in failure.error
    assert contents(log_dir / "orders-0") == before
    assert errors == {OTHER: None}
    assert offsets(log_dir, "other-0") == [1, 10, 20]


def test_damage_in_the_active_segment_is_told_where_no_round_looks_for_it(tmp_path):
    """Of a log that is only deleted from: the edges of its segments are sound, and the snapshot names no producer."""
    batches = [keyed(1, "a=1"), keyed(2, "b=1"), keyed(3, "c=1")]
    made = PartitionDir(tmp_path).segment(0, keyed(0, "x=1")).segment(1, *batches)
    start = len(batches[0])
    made.log(1).with_suffix(".index").write_bytes(struct.pack(">ii", 2, start + len(batches[1])))
    (made.path / f"{4:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
    committed(tmp_path, made)
    data = bytearray(made.log(1).read_bytes())
    data[start + MAGIC_POSITION] = 9
    made.log(1).write_bytes(data)
    cleaner = a_cleaner(tmp_path, configured(orders=EXPIRING))
    (explained,) = cleaner.explain(cleaner.plan(request(in_place=True)), ORDERS)
    (problem,) = explained.seen.problems
    assert f"{made.log(1)} at byte {start}" in problem


def test_clean_ends_with_status_1_over_damage_in_the_active_segment(log_dir, damaged_active, capsys):
    config = log_dir.parent / "cleaner.toml"
    config.write_text('[topics."*"]\n"cleanup.policy" = "compact"\n"min.cleanable.dirty.ratio" = "0"\n')
    options = ("--log-dir", str(log_dir), "--config", str(config))
    assert main(["clean", "--dry-run", *options]) == ExitStatus.FAILED
    assert f"{damaged_active.name} at byte 0" in "".join(capsys.readouterr())
    assert main(["clean", *options]) == ExitStatus.FAILED
    assert offsets(log_dir, "other-0") == [1, 10, 20]


def test_damage_in_the_active_segment_is_the_end_of_the_log_behind_an_unclean_stop(log_dir, damaged_active):
    (log_dir / ".kafka_cleanshutdown").unlink()
    planned, _, errors = clean(log_dir)
    facts = next(p.facts for p in planned.partitions if p.facts.topic_partition == ORDERS)
    assert (facts.log_end_offset, facts.torn_tail_bytes) == (20, damaged_active.stat().st_size)
    assert errors[ORDERS] is None


def test_corrupt_checkpoint_of_the_cleaner_is_not_advanced_by_a_failed_round(log_dir):
    flip(log(log_dir, 0), -1)
    clean(log_dir)
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\nother 0 20\n"


def test_retention_of_a_partition_with_a_corrupt_batch_still_runs(tmp_path):
    made = PartitionDir(tmp_path, "mixed-0").segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS))
    made.segment(10, keyed(10, "a=2")).segment(20, keyed(20, "a=3")).segment(30, keyed(30, "a=4"))
    committed(tmp_path, made)
    flip(made.log(10), -1)
    _, outcome, errors = clean(tmp_path)
    mixed = TopicPartition("mixed", 0)
    assert str(made.log(10)) in errors[mixed]
    (result,) = outcome.results.values()
    assert result.deleted_segments == 1
    assert not made.log(0).exists()
    assert made.log(10).exists()
    assert made.log(20).exists()


@pytest.mark.parametrize(
    "tail", [b"\0" * 4096, b"\xff" * 70, b"x", keyed(21, "zz=99")[:-3]], ids=["zeros", "garbage", "byte", "cut"]
)
def test_torn_tail_is_told_kept_and_does_not_hinder_the_sealed_segments(log_dir, tail):
    (log_dir / "orders-0" / f"{20:020d}.snapshot").unlink()
    with log(log_dir, 20).open("ab") as file:
        file.write(tail)
    before = log(log_dir, 20).read_bytes()
    planned, _, errors = clean(log_dir)
    facts = next(p.facts for p in planned.partitions if p.facts.topic_partition == ORDERS)
    assert (facts.log_end_offset, facts.torn_tail_bytes) == (21, len(tail))
    assert errors[ORDERS] is None
    assert log(log_dir, 20).read_bytes() == before
    assert log(log_dir, 0).read_bytes() != before


def test_expired_active_segment_with_a_torn_tail_is_not_rolled(tmp_path):
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS))
    committed(tmp_path, made)
    with made.log(0).open("ab") as file:
        file.write(b"torn")
    planned, _, _ = clean(tmp_path)
    assert planned.partitions[0].verdicts[0].reason.code == "TORN_TAIL"
    assert made.log(0).exists()


CHECKPOINTS = ("replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint")
GARBAGE = {
    "text": b"hello\nworld\n",
    "binary": b"\xff\xfe\x00",
    "count": b"0\n7\norders 0 1\n",
    "version": b"9\n0\n",
    "number": b"0\n1\norders 0 many\n",
    "huge": b"0\n1\norders 0 " + b"9" * 400 + b"\n",
}


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbled_checkpoint_stops_everything_in_its_log_dir_and_is_named(log_dir, name, garbage):
    (log_dir / name).write_bytes(garbage)
    before = {path.name: contents(path) for path in log_dir.iterdir() if path.is_dir()}
    planned, _, errors = clean(log_dir)
    assert any(name in error for error in planned.log_dirs[0].facts.errors)
    assert (errors, planned.partitions) == ({}, ())
    assert {path.name: contents(path) for path in log_dir.iterdir() if path.is_dir()} == before
    assert (log_dir / name).read_bytes() == garbage


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_empty_checkpoint_has_no_entries_as_for_a_broker(log_dir, name):
    (log_dir / name).write_bytes(b"")
    planned, _, _ = clean(log_dir)
    assert planned.log_dirs[0].facts.errors == ()
    assert len(planned.partitions) == 2


@pytest.mark.parametrize("garbage", [g for k, g in GARBAGE.items() if k != "count"])
def test_garbled_leader_epochs_stop_their_partition_alone(tmp_path, garbage):
    parts = [
        PartitionDir(tmp_path, f"clicks-{n}")
        .segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS))
        .segment(1, keyed(1, "a=2"))
        for n in range(2)
    ]
    committed(tmp_path, *parts)
    (parts[0].path / "leader-epoch-checkpoint").write_bytes(garbage)
    before = contents(parts[0].path)
    planned, _, errors = clean(tmp_path)
    (failed,) = planned.failures
    assert failed.topic_partition == ("clicks", 0)
    assert "leader-epoch-checkpoint" in failed.error
    assert contents(parts[0].path) == before
    assert errors[TopicPartition("clicks", 1)] is None
    assert not parts[1].log(0).exists()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [b"", b"\x00", b"\x01\x02\x03", bytes(4000)], ids=["empty", "1", "3", "zeros"])
@pytest.mark.parametrize("base", [0, 20])
def test_truncated_or_zeroed_index_does_not_hinder_a_compaction(log_dir, suffix, content, base):
    log(log_dir, base).with_suffix(suffix).write_bytes(content)
    _, _, errors = clean(log_dir)
    assert errors[ORDERS] is None
    assert offsets(log_dir, "orders-0") == [1, 10, 20]


def test_missing_indexes_do_not_hinder_a_compaction(log_dir):
    for path in (log_dir / "orders-0").glob("*index"):
        path.unlink()
    _, _, errors = clean(log_dir)
    assert errors[ORDERS] is None
    assert offsets(log_dir, "orders-0") == [1, 10, 20]


@pytest.mark.parametrize(
    "content", [b"\x00\x09" + bytes(32), b"\x00\x00" + b"\xff" * 32, b"odd"], ids=["version", "negative", "torn"]
)
def test_damaged_transaction_index_leaves_its_partition_as_it_was(log_dir, content):
    log(log_dir, 0).with_suffix(".txnindex").write_bytes(content)
    before = contents(log_dir / "orders-0")
    _, _, errors = clean(log_dir)
    if errors[ORDERS] is None:
        assert offsets(log_dir, "orders-0") == [1, 10, 20]  # a torn last entry does not count
    else:
        assert "txnindex" in errors[ORDERS]
        assert contents(log_dir / "orders-0") == before
    assert errors[OTHER] is None


def test_unknown_files_and_directories_stay(log_dir):
    foreign = {"README", "0.log.bak", "00000000000000000000.checkpoint", ".hidden", "00000000000000000000.log.tmp"}
    for name in foreign:
        (log_dir / "orders-0" / name).write_bytes(b"mine")
    (log_dir / "lost+found").mkdir()
    (log_dir / "notes.txt").write_bytes(b"mine")
    clean(log_dir)
    assert {n for n in foreign if (log_dir / "orders-0" / n).read_bytes() == b"mine"} == foreign
    assert (log_dir / "notes.txt").read_bytes() == b"mine"
    assert (log_dir / "lost+found").is_dir()
    assert offsets(log_dir, "orders-0") == [1, 10, 20]


def test_a_partition_with_a_log_that_is_a_symlink_is_left_alone(log_dir, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_bytes(log(log_dir, 0).read_bytes())
    log(log_dir, 0).unlink()
    log(log_dir, 0).symlink_to(target)
    before = target.read_bytes(), contents(log_dir / "orders-0")
    planned, _, _ = clean(log_dir)
    (unreadable,) = [found for found in planned.failures if found.topic_partition == ORDERS]
    assert f"{log(log_dir, 0)}: is a symlink" in unreadable.error
    assert (target.read_bytes(), contents(log_dir / "orders-0")) == before
    assert log(log_dir, 0).is_symlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_file_without_permission_is_told_by_name(log_dir):
    log(log_dir, 20).chmod(0)
    planned, _, _ = clean(log_dir)
    (failure,) = planned.failures
    assert isinstance(failure, UnreadablePartition)
    assert str(log(log_dir, 20)) in failure.error


def test_file_that_vanishes_between_plan_and_execution_is_told(log_dir):
    cleaner = a_cleaner(log_dir, LAYERS)
    planned = cleaner.plan(request())
    log(log_dir, 10).unlink()
    executor = Executor(LogDir(log_dir), Means(clock=FakeClock()), planned.request)
    executor.compact(planned.log_dirs[0])
    errors = {key[1]: result.error for key, result in executor.results.items()}
    assert "it is gone" in errors[ORDERS]
    assert errors[OTHER] is None


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
@pytest.mark.parametrize("partition", ["orders-0", "clicks-0"])
def test_file_that_changed_between_plan_and_execution_leaves_its_partition_alone_until_the_next_run(
    tmp_path, partition, suffix
):
    expired = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=OLD_MS))
    expired.segment(1, keyed(1, "x=2"))
    log_dir = committed(tmp_path, expired, compactable(tmp_path, "orders-0"))
    cleaner = a_cleaner(log_dir, LAYERS)
    planned = cleaner.plan(request())
    os.utime(log_dir / partition / f"{0:020d}{suffix}")
    before = contents(log_dir / partition)
    executor = Executor(LogDir(log_dir), Means(clock=FakeClock()), planned.request)
    executor.delete(planned.log_dirs[0])
    executor.compact(planned.log_dirs[0])
    errors = {str(key[1]): result.error for key, result in executor.results.items()}
    assert "changed since the plan was made" in errors.pop(partition)
    assert not any(errors.values())
    assert contents(log_dir / partition) == before
    _, outcome = cleaner.clean(request())
    assert [result.error for result in outcome.results.values()] == [None]


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: needs root to give the log dir to another user")
def test_run_as_root_gives_every_new_file_the_owner_and_mode_of_its_dir(tmp_path):
    expired = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS))
    committed(tmp_path, compactable(tmp_path, "orders-0"), expired)
    (expired.path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 1\n")
    before = set(tmp_path.rglob("*"))
    for path in (tmp_path, *before):
        os.chown(path, 12345, 12346)
        if path.is_dir():
            path.chmod(0o750)
    clean(tmp_path)
    created = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith(".deleted")]
    assert {".logcleaner-journal", "cleaner-offset-checkpoint", f"{1:020d}.log", f"{1:020d}.snapshot"} <= {
        path.name for path in created
    }
    for path in created:
        status = path.stat()
        assert (status.st_uid, status.st_gid) == (12345, 12346), path
        if path not in before:
            assert stat.S_IMODE(status.st_mode) == 0o640, path


def test_full_disk_during_a_compaction_leaves_the_partition_as_it_was(tmp_path):
    for free_steps in range(100):
        path = tmp_path / str(free_steps)
        committed(path, compactable(path, "orders-0"))
        before = contents(path / "orders-0")
        disk = FullDisk(free_steps, frozenset({Purpose.CLEAN}))
        _, _, errors = clean(path, disk)
        if not disk.refused:
            break
        assert "no space" in errors[ORDERS]
        assert contents(path / "orders-0") == before
    assert free_steps >= 6
    assert offsets(path, "orders-0") == [1, 10, 20]


@pytest.mark.parametrize(("delete_delay_ms", "is_deleted"), [(0, True), (None, False), (1, False)])
def test_full_disk_for_the_journal_does_not_hinder_a_deletion_that_makes_space(tmp_path, delete_delay_ms, is_deleted):
    made = (
        PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS)).segment(1, keyed(1, "b=1"))
    )
    committed(tmp_path, made)
    disk = FullDisk(0, frozenset({Purpose.JOURNAL}))
    a_cleaner(tmp_path, LAYERS, disk).clean(request(delete_delay_ms=delete_delay_ms))
    assert made.log(0).exists() == (not is_deleted)


FULL_FOR_A_DELETION = frozenset({Purpose.RETIRE, Purpose.CHECKPOINT, Purpose.ROLL})


@pytest.mark.parametrize("segments", [2, 3], ids=["one stays", "all go"])
def test_full_disk_during_a_deletion_leaves_the_partition_as_it_was(tmp_path, segments):
    for free_steps in range(100):
        path = tmp_path / str(free_steps)
        made = PartitionDir(path, "clicks-0")
        for base in range(3):
            old_ms = OLD_MS if base < segments else NOW_MS
            made.segment(base, keyed(base, "a=1", timestamp_ms=old_ms), aborted=b"")
            (made.path / f"{base:020d}.snapshot").write_bytes(b"")
        (made.path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 1\n")
        committed(path, made)
        before = contents(made.path)
        disk = FullDisk(free_steps, FULL_FOR_A_DELETION)
        _, _, errors = clean(path, disk)
        if not disk.refused:
            break
        assert "no space" in errors[TopicPartition("clicks", 0)]
        assert contents(made.path) == before
    assert free_steps >= 6
    assert offsets(path, "clicks-0") == [2][: 3 - segments]


def test_full_disk_for_checkpoints_is_told_and_no_temporary_file_stays(log_dir):
    _, outcome, errors = clean(log_dir, FullDisk(0, frozenset({Purpose.CHECKPOINT})))
    assert any("cleaner-offset-checkpoint" in error for error in outcome.errors)
    assert errors == {ORDERS: None, OTHER: None}
    assert [name for name in file_names(log_dir) if name.endswith(".tmp")] == []
