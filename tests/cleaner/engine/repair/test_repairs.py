"""Files derived from a log are made anew: the old file waits, the journal has a line, no record changes."""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from cleaner.engine.inventory import everything
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means, Silent
from cleaner.engine.repair.repairing import RepairRequest, RepairResult, Repairs, plan_of, repair_log_dirs
from cleaner.engine.restore import Restorer
from cleaner.engine.verify.checked import Checked, CheckRequest
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.repairs import DERIVED, RepairCode, RepairKind, RevertCode
from storage.filesystem import FileSystem, NewFile, OutOfSpace, Purpose
from storage.indexes import parse_offset_index
from storage.lock import LogDirLocked
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCH_CHECKPOINT
from tests.crash.acts import TORN, clean, end_logs, tear_ends
from tests.crash.power import power_losses
from tests.crash.scenes import Scene, clicks, payments
from tests.faults import FullDisk
from tests.partition_dirs import FakeClock, a_cleaner, configured, request

LAYERS: Final = configured(
    clicks={"index.interval.bytes": "0"}, payments={"index.interval.bytes": "0"}, accounts={"index.interval.bytes": "0"}
)


def finds(*paths: Path) -> Callable[[Sequence[LogDir], CheckRequest, Means], Checked]:
    """A check that finds something wrong with these files."""
    findings = [
        Finding(
            FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, str(p), "is wrong", "mend it", repair=RepairGroup.DERIVED
        )
        for p in paths
    ]
    return lambda *_: Checked(findings)


def repair(
    log_dir: Path, *paths: Path, kinds: frozenset[RepairKind] = DERIVED, fs: FileSystem | None = None
) -> Repairs:
    """Lock, look, mend."""
    with a_cleaner(log_dir, LAYERS, fs).locked() as opened:
        return repair_log_dirs(opened, RepairRequest(CheckRequest(), kinds), finds(*paths))


def rehearsed(log_dir: Path, *paths: Path, kinds: frozenset[RepairKind] = DERIVED) -> Repairs:
    """What a repair would do."""
    return plan_of(a_cleaner(log_dir, LAYERS).opened(), RepairRequest(CheckRequest(), kinds), finds(*paths))


def only(repairs: Repairs) -> RepairResult:
    """The one result."""
    (result,) = repairs.results
    return result


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Transactions, producers, leader epochs; nothing waits as ``.deleted``."""
    drawn = Scene(clean, (payments, clicks)).draw(tmp_path / "data")
    for path in drawn.rglob("*.deleted"):
        path.unlink()
    return drawn


def state_of(log_dir: Path) -> dict[str, bytes]:
    """Every file of partitions."""
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in log_dir.glob("*/*")}


def derived_files(log_dir: Path) -> list[Path]:
    """All that can be made of the logs."""
    return sorted(
        path
        for path in log_dir.glob("*/*")
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot") or path.name == LEADER_EPOCH_CHECKPOINT
    )


def ruined(path: Path) -> bytes:
    """Damage that leaves the size: every byte turned."""
    data = bytes(byte ^ 0x55 for byte in path.read_bytes()) or b"something"
    path.write_bytes(data)
    return data


def test_a_file_that_is_made_anew_has_the_mode_of_the_one_before_or_of_a_log_beside_it(log_dir: Path) -> None:
    index, times = (sorted(log_dir.glob(f"clicks-0/*{suffix}"))[0] for suffix in (".index", ".timeindex"))
    index.with_suffix(".log").chmod(0o640)
    ruined(times)
    times.chmod(0o600)
    index.unlink()
    repairs = repair(log_dir, index, times)
    assert [(one.planned.repair.code, one.error) for one in repairs.results] == [(RepairCode.REPAIRABLE, None)] * 2
    kept = times.with_name(times.name + ".deleted")
    assert [path.stat().st_mode & 0o777 for path in (index, times, kept)] == [0o640, 0o600, 0o600]


def test_every_derived_file_comes_back_as_it_was_and_the_damaged_one_waits(log_dir: Path) -> None:
    files = derived_files(log_dir)
    repair(log_dir, *files)  # a broker that appends, and our Log, make some entries otherwise than recovery does
    for path in log_dir.rglob("*.deleted"):
        path.unlink()
    healthy = state_of(log_dir)
    damaged = {path: ruined(path) for path in files}
    repairs = repair(log_dir, *files)
    assert [r.error for r in repairs.results] == [None] * len(files)
    assert {path: path.with_name(path.name + ".deleted").read_bytes() for path in files} == damaged
    assert {name: data for name, data in state_of(log_dir).items() if not name.endswith(".deleted")} == healthy
    lines = [entry for entry in read_journal(log_dir) if entry["what"] == "repair"]
    assert sum(1 for _ in lines) >= len(files)
    assert not repairs.remaining


def test_missing_files_are_made_and_nothing_waits(log_dir: Path) -> None:
    files = derived_files(log_dir)
    repair(log_dir, *files)
    for path in log_dir.rglob("*.deleted"):
        path.unlink()
    healthy = state_of(log_dir)
    for path in files:
        path.unlink()
    assert all(result.error is None for result in repair(log_dir, *files).results)
    assert {name: data for name, data in state_of(log_dir).items() if data} == {n: d for n, d in healthy.items() if d}


def test_a_dry_run_decides_the_same_and_changes_nothing(log_dir: Path) -> None:
    files = derived_files(log_dir)
    for path in files:
        ruined(path)
    before = state_of(log_dir)
    rehearsal = rehearsed(log_dir, *files)
    assert state_of(log_dir) == before
    done = repair(log_dir, *files)
    assert [r.planned.repair for r in rehearsal.results] == [r.planned.repair for r in done.results]


def test_nothing_is_derived_from_a_damaged_log(log_dir: Path) -> None:
    log = sorted((log_dir / "payments-0").glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    index, later = log.with_suffix(".index"), sorted((log_dir / "payments-0").glob("*.index"))[1]
    before = state_of(log_dir)
    ruined(index), ruined(later)
    codes = {r.planned.path: r.planned.repair.code for r in repair(log_dir, index, later).results}
    assert codes == {index: RepairCode.LOG_DAMAGED, later: RepairCode.REPAIRABLE}, "each segment speaks for itself"
    assert log.read_bytes() == bytes(data)
    txn = sorted((log_dir / "payments-0").glob("*.txnindex"))[-1]
    snapshots = sorted((log_dir / "payments-0").glob("*.snapshot"))
    (log_dir / "payments-0" / LEADER_EPOCH_CHECKPOINT).write_bytes(b"?")
    for snapshot in snapshots:
        ruined(snapshot)
    results = repair(log_dir, txn, *snapshots, log_dir / "payments-0" / LEADER_EPOCH_CHECKPOINT).results
    assert {r.planned.repair.code for r in results} == {RepairCode.LOG_DAMAGED}, "what the damage is part of"
    assert before.keys() <= state_of(log_dir).keys()


def test_a_repair_is_taken_back(log_dir: Path) -> None:
    files = [path for path in derived_files(log_dir) if path.stat().st_size]
    damaged = {path: ruined(path) for path in files}
    made = {r.planned.path for r in repair(log_dir, *files).results if r.is_done}
    assert made == {*files}
    restorer = Restorer([LogDir(log_dir)], Means(FileSystem(), FakeClock(), Silent()))
    assert {v.note.file_name for r in restorer.repairs(everything) for v in r.revertible} == {p.name for p in files}
    results = restorer.revert(everything)
    assert all(result.is_done for result in results)
    assert {path: path.read_bytes() for path in files} == damaged
    assert restorer.repairs(everything) == ()


def test_a_repair_whose_file_changed_since_is_not_taken_back(log_dir: Path) -> None:
    index = derived_files(log_dir)[0]
    ruined(index)
    repair(log_dir, index)
    index.write_bytes(b"written by a broker since")
    restorer = Restorer([LogDir(log_dir)], Means(FileSystem(), FakeClock(), Silent()))
    ((verdict,),) = [result.verdicts for result in restorer.revert(everything)]
    assert verdict.code is RevertCode.CHANGED_SINCE
    assert index.read_bytes() == b"written by a broker since"


def test_what_a_repair_replaced_goes_after_the_delay(log_dir: Path) -> None:
    files = derived_files(log_dir)
    for path in files:
        ruined(path)
    now_ms = time.time_ns() // 1_000_000
    with a_cleaner(log_dir, LAYERS, clock=FakeClock(now_ms)).locked() as opened:
        repair_log_dirs(opened, RepairRequest(CheckRequest(), DERIVED), finds(*files))
    waiting = {*log_dir.rglob("*.deleted")}
    assert {path.name for path in waiting} == {f"{path.name}.deleted" for path in files}
    keeping = configured(clicks={"cleanup.policy": "delete"}, payments={"cleanup.policy": "delete"})
    a_cleaner(log_dir, keeping, clock=FakeClock(now_ms)).clean(request(now_ms))
    assert {*log_dir.rglob("*.deleted")} == waiting, "file.delete.delay.ms is not over"
    later_ms = now_ms + 120_000
    a_cleaner(log_dir, keeping, clock=FakeClock(later_ms)).clean(request(later_ms))
    assert not [*log_dir.rglob("*.deleted")]
    assert Restorer([LogDir(log_dir)], Means()).repairs(everything) == ()


@pytest.mark.parametrize("zeros", [1, 100, 5_000_000])
def test_a_zero_tail_is_cut_and_taken_back(log_dir: Path, zeros: int) -> None:
    log = sorted((log_dir / "payments-0").glob("*.log"))[-1]
    before = log.read_bytes()
    with log.open("ab") as file:
        file.truncate(len(before) + zeros)
    assert not repair(log_dir, log).results
    assert log.stat().st_size == len(before) + zeros, "only when asked for by name"
    assert only(repair(log_dir, log, kinds=frozenset({RepairKind.ZERO_TAIL}))).is_done
    assert log.read_bytes() == before
    (result,) = Restorer([LogDir(log_dir)], Means(clock=FakeClock())).revert(everything)
    assert result.is_done
    assert log.read_bytes() == before + bytes(zeros)


@pytest.mark.parametrize(
    ("story", "code"),
    [
        ("something else than zeros behind the zeros", RepairCode.LOG_DAMAGED),
        ("zeros in front of a batch", RepairCode.LOG_DAMAGED),
        ("zeros in a segment that is not the last, where records were", RepairCode.LOG_DAMAGED),
        ("the high watermark is above the end", RepairCode.RECORDS_MISSING),
        ("a snapshot is above the end", RepairCode.RECORDS_MISSING),
        ("a leader epoch begins above the end", RepairCode.RECORDS_MISSING),
        ("the offset index names a batch within the zeros", RepairCode.RECORDS_MISSING),
        ("no zeros", RepairCode.NOTHING_TO_DO),
    ],
)
def test_no_log_is_cut_where_records_may_have_been(log_dir: Path, story: str, code: RepairCode) -> None:
    directory = log_dir / "payments-0"
    log = sorted(directory.glob("*.log"))[-1]
    match story.split()[:2]:
        case ["something", _]:
            log.write_bytes(log.read_bytes() + bytes(100) + b"x")
        case ["zeros", "in"] if "front" in story:
            data = log.read_bytes()
            log.write_bytes(data + bytes(100) + data)
        case ["zeros", "in"]:
            log = sorted(directory.glob("*.log"))[0]
            log.write_bytes(bytes(log.stat().st_size))
        case ["the", "high"]:
            log.write_bytes(log.read_bytes() + bytes(100))
            marks = dict(LogDir(log_dir).offsets(HIGH_WATERMARK_CHECKPOINT))
            LogDir(log_dir).write_offsets(
                HIGH_WATERMARK_CHECKPOINT, {tp: end + 1 for tp, end in marks.items()}, FileSystem()
            )
        case ["a", "snapshot"]:
            log.write_bytes(log.read_bytes() + bytes(100))
            (directory / f"{10**6:020d}.snapshot").write_bytes(b"")
        case ["a", "leader"]:
            log.write_bytes(log.read_bytes() + bytes(100))
            (directory / LEADER_EPOCH_CHECKPOINT).write_text(f"0\n2\n0 0\n9 {10**6}\n")
        case ["the", "offset"]:
            size = log.stat().st_size
            log.write_bytes(log.read_bytes() + bytes(100))
            log.with_suffix(".index").write_bytes(struct.pack(">ii", 1, size))
    before = state_of(log_dir)
    result = only(repair(log_dir, log, kinds=frozenset({RepairKind.ZERO_TAIL})))
    assert result.planned.repair.code is code, result.planned.repair.text
    assert state_of(log_dir) == before


def test_nothing_is_made_of_a_log_that_ends_below_the_high_watermark(log_dir: Path) -> None:
    marks = dict(LogDir(log_dir).offsets(HIGH_WATERMARK_CHECKPOINT))
    LogDir(log_dir).write_offsets(HIGH_WATERMARK_CHECKPOINT, {tp: end + 1 for tp, end in marks.items()}, FileSystem())
    epochs = log_dir / "payments-0" / LEADER_EPOCH_CHECKPOINT
    snapshot = sorted(epochs.parent.glob("*.snapshot"))[-1]
    damaged = ruined(epochs), ruined(snapshot)
    assert {r.planned.repair.code for r in repair(log_dir, epochs, snapshot).results} == {RepairCode.RECORDS_MISSING}
    assert (epochs.read_bytes(), snapshot.read_bytes()) == damaged


def test_a_power_loss_leaves_the_old_file_or_the_new_one_and_the_old_one_somewhere(
    log_dir: Path, tmp_path: Path
) -> None:
    files = [derived_files(log_dir)[0], log_dir / "clicks-0" / LEADER_EPOCH_CHECKPOINT]
    old = {path: ruined(path) for path in files}
    drawn = shutil.copytree(log_dir, tmp_path / "drawn")
    left = power_losses(log_dir, lambda _, disk: repair(log_dir, *files, fs=disk), 40, Random(1))
    new = {path: path.read_bytes() for path in files}
    assert len(left) > 30
    for step, names in left:
        for path in files:
            found = names[path][0]
            assert found in (old[path], new[path]), step
            assert found == old[path] or names[path.with_name(f"{path.name}.deleted")][0] == old[path], step
        shutil.rmtree(log_dir)
        shutil.copytree(drawn, log_dir)
        for path in {*log_dir.rglob("*")} - names.keys():
            path.unlink() if path.is_file() and path.parent != log_dir else None
        for path, (data, mtime_ns, *_) in names.items():
            path.write_bytes(data)
            os.utime(path, ns=(mtime_ns, mtime_ns))
        assert not repair(log_dir, *files).has_failed, step
        assert {path: path.read_bytes() for path in files} == new, step
        assert not [*log_dir.rglob("*.logcleaner")], step


def test_a_full_disk_leaves_everything_as_it_was(log_dir: Path) -> None:
    files = derived_files(log_dir)
    for path in files:
        ruined(path)
    before = state_of(log_dir)
    for free_steps in range(4):
        repairs = repair(log_dir, *files, fs=FullDisk(free_steps, frozenset({Purpose.REPAIR})))
        assert repairs.has_failed
        assert {name: data for name, data in state_of(log_dir).items() if not name.endswith(".deleted")} == before
    assert repair(log_dir, *files, fs=FullDisk(0, frozenset({Purpose.JOURNAL}))).has_failed
    assert {name: data for name, data in state_of(log_dir).items() if not name.endswith(".deleted")} == before


@pytest.mark.parametrize("step", range(6))
def test_a_log_is_cut_only_once_its_indexes_fit_the_new_end(log_dir: Path, step: int) -> None:
    """A disk is full at one step, and has space again behind it: no index may lead behind the end of a log."""
    tear_ends(log_dir, FileSystem())
    torn = {path: path.stat().st_size for path in log_dir.glob("*/*.log")}
    disk = FullOnce(step)
    end_logs(log_dir, disk)
    assert disk.was_full
    for log, size_bytes in torn.items():
        entries = parse_offset_index(log.with_suffix(".index").read_bytes(), int(log.stem), log.with_suffix(".index"))
        assert log.stat().st_size == size_bytes or all(entry.position < log.stat().st_size for entry in entries), log
    end_logs(log_dir, FileSystem())
    assert all(not path.read_bytes().endswith(TORN) for path in torn)


class FullOnce(FileSystem):
    """Has no space for one new file of a repair."""

    def __init__(self, free_steps: int) -> None:
        self._left, self.was_full = free_steps, False

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        if purpose is Purpose.REPAIR:
            self._left -= 1
            if self._left == -1:
                self.was_full = True
                raise OutOfSpace(path, 0)
        return super().create(path, like, purpose)


def test_a_repair_that_failed_has_a_line_that_says_so(log_dir: Path) -> None:
    index = derived_files(log_dir)[0]
    ruined(index)
    assert repair(log_dir, index, fs=FullDisk(0, frozenset({Purpose.REPAIR}))).has_failed
    begun, failed = read_journal(log_dir)
    assert (begun["what"], failed["what"], failed["file"]) == ("repair", "repair-failed", index.name)


def test_a_file_that_changed_since_it_was_looked_at_is_left(log_dir: Path) -> None:
    index = derived_files(log_dir)[0]
    ruined(index)
    log = index.with_suffix(".log")

    class Appending(FileSystem):
        def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
            if purpose is Purpose.REPAIR:
                log.write_bytes(log.read_bytes() + b"x")
            return super().create(path, like, purpose)

    before = index.read_bytes()
    error = only(repair(log_dir, index, fs=Appending())).error
    assert error is not None
    assert "another size, time or file" in error
    assert index.read_bytes() == before
    assert not [*log_dir.rglob("*.logcleaner")]


def test_nobody_repairs_beside_a_broker(log_dir: Path) -> None:
    index = derived_files(log_dir)[0]
    before = ruined(index)
    with LogDir(log_dir).lock(FileSystem()), pytest.raises(LogDirLocked):
        repair(log_dir, index)
    assert index.read_bytes() == before


def test_a_waiting_file_of_the_same_name_is_not_replaced(log_dir: Path) -> None:
    index = derived_files(log_dir)[0]
    waiting = index.with_name(f"{index.name}.deleted")
    waiting.write_bytes(b"of a deletion")
    before = ruined(index)
    assert only(repair(log_dir, index)).planned.repair.code is RepairCode.NAME_TAKEN
    assert (index.read_bytes(), waiting.read_bytes()) == (before, b"of a deletion")


def test_a_repaired_segment_that_is_deleted_comes_back_repaired(log_dir: Path) -> None:
    index = derived_files(log_dir)[0]
    assert index.parent.name == "clicks-0"
    ruined(index)
    assert only(repair(log_dir, index)).is_done
    made = index.read_bytes()
    clean(log_dir, FileSystem())
    assert not index.exists()
    assert index.with_name(f"{index.name}.deleted").read_bytes() == made
    restorer = Restorer([LogDir(log_dir)], Means(FileSystem(), FakeClock(), Silent()))
    assert restorer.repairs(everything) == ()
    (result,) = (result for result in restorer.restore(everything) if str(result.topic_partition) == "clicks-0")
    assert result.is_done
    assert index.read_bytes() == made
