"""Records deleted from a partition: what is on disk then, after a crash at any step, and after a restore."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleaner.engine.delete_records import (
    Counted,
    DeletedRecords,
    UnsurveyedPartition,
    count_in,
    delete_records,
    plan_deletion,
)
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer
from policies.record_deletion import Before, RecordDeletion, RefusedDeletion
from policies.restore import RestoreCode
from storage.checkpoints import format_offset_checkpoint
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HOLDS_FILE,
    JOURNAL_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
)
from storage.records import ControlType
from tests.batches import encode_control_batch
from tests.cleaner.engine.restore.test_restore import CLICKS, contents, data
from tests.faults import FullDisk, crashes
from tests.partition_dirs import (
    DAY_MS,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

LAYERS = configured(clicks={"cleanup.policy": "delete"})
DELAY_MS = 60_000


def a_log_dir(path: Path) -> Path:
    """Four segments of two records and three leader epochs, with snapshots."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    made = PartitionDir(path, "clicks-0")
    for base in range(0, 8, 2):
        made.segment(base, keyed(base, f"a={base}", f"b={base}", timestamp_ms=NOW_MS + base), mtime_ms=NOW_MS)
        if base:
            (made.path / f"{base:020d}.snapshot").write_bytes(b"state at %d" % base)
    (made.path / f"{8:020d}.snapshot").write_bytes(b"state at the end")
    (made.path / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 3\n5 5\n")
    return committed(path, made)


def delete(
    log_dir: Path,
    offset: int | None,
    fs: FileSystem | None = None,
    *,
    time_ms: int | None = None,
    now_ms: int = NOW_MS,
    meanwhile: Callable[[Path], object] = str,
) -> DeletedRecords:
    """Ask, and delete; ``meanwhile`` comes between the question and the deed."""
    cleaner = a_cleaner(log_dir, LAYERS, fs, FakeClock(now_ms))
    asked = replace(request(now_ms), topics=("clicks-0",), confirmed=True)
    agreed = plan_deletion(cleaner, CLICKS, Before(offset, time_ms), asked)
    meanwhile(log_dir / "clicks-0")
    return delete_records(cleaner, CLICKS, Before(offset, time_ms), asked, agreed)


def restore(log_dir: Path, fs: FileSystem | None = None, now_ms: int = NOW_MS) -> Any:
    means = Means(fs or FileSystem(), FakeClock(now_ms), Silent())
    return Restorer([LogDir.open(log_dir)], means).restore(lambda _: True)


def log_start(log_dir: Path) -> int | None:
    return LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT).get(CLICKS)


def logs(log_dir: Path) -> list[int]:
    return sorted(int(path.stem) for path in (log_dir / "clicks-0").glob("*.log"))


def epochs(log_dir: Path) -> list[str]:
    return (log_dir / "clicks-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]


@pytest.mark.parametrize(
    ("offset", "line", "left", "left_epochs"),
    [
        (1, 1, [0, 2, 4, 6], ["0 1", "1 3", "5 5"]),
        (2, None, [2, 4, 6], ["0 2", "1 3", "5 5"]),
        (4, None, [4, 6], ["1 4", "5 5"]),
        (5, 5, [4, 6], ["5 5"]),
        (-1, 8, [6], ["5 8"]),
    ],
)
def test_log_starts_where_it_was_asked_and_what_lies_below_waits(tmp_path, offset, line, left, left_epochs) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    before = {path.name for path in (log_dir / "clicks-0").iterdir()}
    done = delete(log_dir, offset)
    assert done.is_done
    assert (log_start(log_dir), logs(log_dir), epochs(log_dir)) == (line, left, left_epochs)
    assert {path.name.removesuffix(".deleted") for path in (log_dir / "clicks-0").iterdir()} == before
    entry = next(read_journal(log_dir))
    assert (entry["what"], entry["log_start_before"]) == ("delete", 0)


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 8])
def test_restore_takes_it_back_in_every_byte_and_holds_the_partition(tmp_path, offset) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    before = data(log_dir)
    delete(log_dir, offset)
    assert data(log_dir) != before
    (result,) = restore(log_dir)
    assert result.is_done
    assert {name: found for name, found in data(log_dir).items() if name != LOG_START_OFFSET_CHECKPOINT} == before
    assert log_start(log_dir) is None
    assert (log_dir / HOLDS_FILE).exists()
    assert delete(log_dir, offset).decided.code == "HELD"


def test_two_deletions_are_taken_back_at_once(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    before = data(log_dir)
    for offset in (1, 3, 3, 7, 8):
        delete(log_dir, offset)
    assert (log_start(log_dir), logs(log_dir)) == (8, [6])
    restore(log_dir)
    assert {name: found for name, found in data(log_dir).items() if name != LOG_START_OFFSET_CHECKPOINT} == before


def test_log_start_before_is_put_back_too(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint({CLICKS: 1}))
    before = data(log_dir)
    delete(log_dir, 6)
    restore(log_dir)
    assert data(log_dir) == before


@pytest.mark.parametrize(("late_ms", "is_back"), [(DELAY_MS, True), (DELAY_MS + 1, False)])
def test_without_a_segment_it_is_taken_back_within_the_delay_only(tmp_path, late_ms, is_back) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    delete(log_dir, 1)
    results = restore(log_dir, now_ms=NOW_MS + late_ms)
    assert (bool(results), log_start(log_dir)) == (is_back, None if is_back else 1)


def test_where_a_broker_took_the_segments_the_rest_comes_back(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    delete(log_dir, 5)
    for path in (log_dir / "clicks-0").glob("*.deleted"):
        path.unlink()
    (result,) = restore(log_dir)
    assert result.is_done
    assert (log_start(log_dir), logs(log_dir), epochs(log_dir)) == (None, [4, 6], ["1 4", "5 5"])


def test_what_a_compaction_followed_stays_out(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    delete(log_dir, 1)
    checkpoint = format_offset_checkpoint({CLICKS: 6})
    (log_dir / CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoint)
    (result,) = restore(log_dir)
    assert [move.code for move in result.restoration.moves] == [RestoreCode.COMPACTED_SINCE]
    assert log_start(log_dir) == 1


def test_crash_at_any_step_loses_only_what_was_asked_for_and_the_next_run_finishes(tmp_path) -> None:
    """Before the checkpoint nothing has gone, and behind it all is unreadable."""
    work, starts = tmp_path / "work", []
    for _ in crashes(lambda disk: delete(a_log_dir(work), 5, disk)):
        starts.append(max(log_start(work) or 0, min(logs(work))))
        assert {4, 6} <= set(logs(work))
        delete(work, 5)
        assert (log_start(work), logs(work), epochs(work)) == (5, [4, 6], ["5 5"])
        restore(work)
        assert (log_start(work), logs(work), epochs(work)) == (None, [0, 2, 4, 6], ["0 0", "1 3", "5 5"])
    assert set(starts) == {0, 5}
    assert starts == sorted(starts)


def test_crash_at_any_step_of_a_restore_is_gone_on_with(tmp_path) -> None:
    work = tmp_path / "work"

    def run(disk: FileSystem) -> None:
        delete(a_log_dir(work), 1)
        restore(work, disk)

    before = data(a_log_dir(tmp_path / "before"))
    for _ in crashes(run):
        assert log_start(work) in (1, None)
        restore(work)
        found = {name: content for name, content in data(work).items() if name != LOG_START_OFFSET_CHECKPOINT}
        assert (found, log_start(work)) == (before, None)
        assert CLICKS in LogDir(work).holds()


def test_full_disk_leaves_the_partition_as_it_was(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    before = contents(log_dir)
    with pytest.raises(OutOfSpace):
        delete(log_dir, 5, FullDisk(1, frozenset({Purpose.RETIRE})))
    assert log_start(log_dir) is None
    assert {n: f for n, f in contents(log_dir).items() if n != LOG_START_OFFSET_CHECKPOINT} == before
    assert list(read_journal(log_dir)) == [], "history would tell of what was not done"


@pytest.mark.parametrize("earlier", [False, True])
def test_journal_has_no_line_of_a_deletion_or_restore_that_changed_nothing(tmp_path, earlier) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    if earlier:
        delete(log_dir, 1)
    journal = list(read_journal(log_dir))
    with pytest.raises(OutOfSpace):
        delete(log_dir, 5, FullDisk(0, frozenset({Purpose.CHECKPOINT})))
    assert list(read_journal(log_dir)) == journal
    delete(log_dir, 5)
    journal = list(read_journal(log_dir))
    (result,) = restore(log_dir, FullDisk(0, frozenset({Purpose.CHECKPOINT})))
    assert result.error
    assert list(read_journal(log_dir)) == journal
    for free_steps in range(1, 9):  # as soon as there is space for the hold
        (result,) = restore(log_dir, FullDisk(free_steps, frozenset({Purpose.CHECKPOINT})))
        assert result.error
        if (log_dir / HOLDS_FILE).exists():
            break
    assert [entry["what"] for entry in read_journal(log_dir)][len(journal) :] == ["restore", "restore-failed"]
    restore(log_dir)
    assert (log_start(log_dir), logs(log_dir)) == (None, [0, 2, 4, 6])


def test_nothing_is_done_without_a_line_in_the_journal(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    before = contents(log_dir)
    with pytest.raises(Exception, match="no space for the journal"):
        delete(log_dir, 5, FullDisk(0, frozenset({Purpose.JOURNAL})))
    assert contents(log_dir) == before


def log_of(directory: Path, place: int) -> Path:
    return sorted(directory.glob("*.log"))[place]


def another_topic(directory: Path) -> None:
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBQ\n")


def another_file(directory: Path) -> None:
    """With the same bytes and times."""
    log = log_of(directory, 1)
    copied = log.with_suffix(".copied")
    shutil.copy2(log, copied)
    copied.replace(log)


def another_time(directory: Path) -> None:
    os.utime(log_of(directory, 0), ns=(1, 1))


def another_size(directory: Path) -> None:
    with log_of(directory, -1).open("ab") as file:
        file.write(b"0")


def first_gone(directory: Path) -> None:
    log_of(directory, 0).unlink()


def middle_gone(directory: Path) -> None:
    log_of(directory, 1).unlink()


def one_more(directory: Path) -> None:
    log_of(directory, -1).with_name(f"{100:020d}.log").touch()


MEANWHILE = {
    another_topic: "its partition.metadata has BBBBBBBBBBBBBBBBBBBBBQ now, and had no topic id that can be read",
    another_file: "segment 2 is another file",
    another_time: "segment 0 was written to",
    another_size: r"segment 6 has \d+ bytes, and had \d+",
    first_gone: "the log now starts at offset 2, and not at 0",
    middle_gone: "segment 2 is gone",
    one_more: "segment 100 is new",
}


@pytest.mark.parametrize(("meanwhile", "told"), MEANWHILE.items(), ids=[one.__name__ for one in MEANWHILE])
def test_what_the_user_did_not_see_is_not_done(tmp_path, meanwhile, told) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    seen: dict[str, bytes] = {}

    def change(directory: Path) -> None:
        meanwhile(directory)
        seen.update(contents(log_dir))

    with pytest.raises(PlanOutOfDate, match=told):
        delete(log_dir, 5, meanwhile=change)
    assert contents(log_dir) == seen
    assert not (log_dir / JOURNAL_FILE).exists()


@pytest.mark.parametrize(("time_ms", "offset"), [(NOW_MS - 1, 0), (NOW_MS + 3, 4), (NOW_MS + 6, 6), (NOW_MS + 7, None)])
def test_time_leads_to_the_first_record_at_or_behind_it(tmp_path, time_ms, offset) -> None:
    cleaner = a_cleaner(a_log_dir(tmp_path / "data"), LAYERS)
    decided = plan_deletion(cleaner, CLICKS, Before(time_ms=time_ms), replace(request(), topics=("clicks-0",))).decided
    if offset is None:
        assert isinstance(decided, RefusedDeletion)
        assert decided.code == "NO_RECORD_AT_TIME"
    else:
        assert isinstance(decided, RecordDeletion)
        assert decided.log_start_offset == offset


@pytest.mark.parametrize(("offset", "records"), [(1, 1), (2, 2), (5, 5), (8, 8)])
def test_records_are_counted_also_within_a_batch(tmp_path, offset, records) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    decided = plan_deletion(a_cleaner(log_dir, LAYERS), CLICKS, Before(offset), request()).decided
    assert isinstance(decided, RecordDeletion)
    seen: list[int] = []
    assert count_in(log_dir / "clicks-0", decided, lambda _: None, seen.append) == Counted(records)
    assert sum(seen) > 0


@pytest.mark.parametrize("txn_index", [struct.pack(">hqqqq", version, 7, 0, 2, 3) for version in (0, 1)])
def test_records_of_an_aborted_transaction_are_counted_and_its_marker_is_not(tmp_path, txn_index) -> None:
    partition = PartitionDir(tmp_path / "data", "clicks-0")
    of_one = {"producer_id": 7, "producer_epoch": 0}
    data = keyed(0, "a=1", "b=1", base_sequence=0, is_transactional=True, **of_one)
    marker = encode_control_batch(ControlType.ABORT, offset=2, timestamp_ms=NOW_MS, coordinator_epoch=0, **of_one)
    log_dir = committed(tmp_path / "data", partition.segment(0, data, marker, keyed(3, "c=1"), aborted=txn_index))
    decided = plan_deletion(a_cleaner(log_dir, LAYERS), CLICKS, Before(4), request()).decided
    assert isinstance(decided, RecordDeletion)
    assert count_in(partition.path, decided, lambda _: None, lambda _: None) == Counted(3)


def test_what_cannot_be_counted_is_not_told_as_a_number(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    decided = plan_deletion(a_cleaner(log_dir, LAYERS), CLICKS, Before(8), request()).decided
    assert isinstance(decided, RecordDeletion)
    path = log_dir / "clicks-0" / f"{2:020d}.log"
    path.write_bytes(bytes([path.read_bytes()[0], *(b ^ 0x55 for b in path.read_bytes()[1:])]))
    counted = count_in(log_dir / "clicks-0", decided, lambda _: None, lambda _: None)
    assert counted.records is None
    assert counted.damage is not None
    assert counted.damage.startswith(f"{path} at byte 0: ")


def test_partition_without_a_segment_has_nothing_to_delete(tmp_path) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / "clicks-1").mkdir()
    with pytest.raises(UnsurveyedPartition, match="holds no segment"):
        plan_deletion(a_cleaner(log_dir, LAYERS), TopicPartition("clicks", 1), Before(1), request())


def at_time(log_dir: Path, time_ms: int) -> RecordDeletion | RefusedDeletion:
    asked = replace(request(), topics=("clicks-0",))
    return plan_deletion(a_cleaner(log_dir, LAYERS), CLICKS, Before(time_ms=time_ms), asked).decided


@pytest.mark.parametrize(("time_ms", "offset"), [(NOW_MS, 0), (NOW_MS + 2, 2), (NOW_MS + 3, 4), (NOW_MS + 6, 6)])
@pytest.mark.parametrize("wrong", [0, 2, 4])
def test_time_index_that_contradicts_the_log_costs_no_record(tmp_path, time_ms, offset, wrong) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    index = log_dir / "clicks-0" / f"{wrong:020d}.timeindex"
    index.write_bytes(struct.pack(">qi", NOW_MS - 2 * DAY_MS, 1))
    decided = at_time(log_dir, time_ms)
    assert isinstance(decided, RecordDeletion)
    assert decided.log_start_offset == offset
    done = delete(log_dir, None, time_ms=time_ms)
    assert isinstance(done.decided, RecordDeletion)
    assert (done.decided.log_start_offset, done.before.time_ms) == (offset, time_ms)


@pytest.mark.parametrize("place", [35, -1], ids=["the largest timestamp", "the records"])
@pytest.mark.parametrize("base", [0, 2, 4])
def test_batch_with_a_wrong_checksum_decides_nothing(tmp_path, base, place) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    path = log_dir / "clicks-0" / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[place if place > 0 else len(data) - 1] ^= 1
    path.write_bytes(data)
    before = contents(log_dir)
    with pytest.raises(UnsurveyedPartition, match=f"{path} at byte 0: "):
        delete(log_dir, None, time_ms=NOW_MS + 4)
    assert contents(log_dir) == before


@pytest.mark.parametrize("late_ms", [6, 7])
def test_header_that_nobody_can_read_is_not_told_as_no_record(tmp_path, late_ms) -> None:
    log_dir = a_log_dir(tmp_path / "data")
    path = log_dir / "clicks-0" / f"{6:020d}.log"
    data = bytearray(path.read_bytes())
    data[16] = 77  # the format of the batch
    path.write_bytes(data)
    with pytest.raises(UnsurveyedPartition, match=f"{path} at byte 0: "):
        delete(log_dir, None, time_ms=NOW_MS + late_ms)
