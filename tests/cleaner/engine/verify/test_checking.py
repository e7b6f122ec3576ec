"""Checks of real log dirs: silent where nothing is wrong, and nothing that a checksum covers goes unseen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from cleaner.cli.main import main
from cleaner.engine.means import Means, Silent
from cleaner.engine.verify.checked import Checked, CheckRequest
from cleaner.engine.verify.checking import check_log_dirs, open_notes
from policies.config.policy import BrokerPolicy
from policies.findings.findings import FindingCode, Harm
from storage.anomalies import Anomaly
from storage.errors import Stopped
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.scan import segment_contents
from storage.scan.segment_contents import read_segment_contents
from storage.scan.walking import Hand
from storage.segment import Segment
from tests.conftest import Samples
from tests.flips import LEGACY_CRC_COVERED, NEW, OLD, SEED, V2_CRC_COVERED, Place, covered, flipped, staged
from tests.partition_dirs import NOW_MS, FakeClock, PartitionDir, committed, keyed

FLIPS = 500
"""Of each generation of formats."""


def check(*log_dirs: Path, notes: Path | None = None, goes_on: bool = False, **named: object) -> Checked:
    request = CheckRequest(**named)  # type: ignore[arg-type]
    found = [LogDir.open(path) for path in log_dirs]
    if notes is None:
        return check_log_dirs(found, request, Means())
    with open_notes(notes, goes_on=goes_on) as opened:
        return check_log_dirs(found, request, Means(), opened)


def codes(checked: Checked) -> list[FindingCode]:
    return [finding.code for finding in checked.findings]


def test_a_meta_properties_that_cannot_be_read_is_told_and_the_rest_is_checked(tmp_path: Path) -> None:
    log_dir = committed(tmp_path / "data", PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1")))
    (log_dir / "meta.properties").mkdir()
    checked = check(log_dir)
    assert (checked.partitions, checked.problems) == (
        1,
        [f"{log_dir}/meta.properties: cannot be read: is no plain file"],
    )


@pytest.mark.parametrize(
    ("stage", "partitions"),
    [
        ("before", (*NEW, "empty-0", "single-0")),
        ("after", (*NEW, "empty-0", "single-0")),
        ("before2", ("ledger-0",)),
        ("after2", ("ledger-0",)),
    ],
)
def test_log_dirs_of_kafka_are_healthy(
    samples: Samples, tmp_path: Path, stage: str, partitions: tuple[str, ...]
) -> None:
    checked = check(staged(samples, tmp_path / "data", stage, partitions), is_deep=True, threads=2)
    assert (checked.findings, checked.problems) == ([], [])
    assert checked.partitions == len(partitions) + 1  # the metadata log, too


@pytest.mark.parametrize("renamed", [1, 2, 3])
def test_a_broker_that_was_killed_between_the_renames_of_a_deletion_leaves_nothing_strange(
    samples: Samples, tmp_path: Path, renamed: int
) -> None:
    log_dir = staged(samples, tmp_path / "data", "before", ("clicks-0",))
    first = sorted((log_dir / "clicks-0").glob("*.log"))[0]
    for kind in ("log", "index", "timeindex")[:renamed]:  # the order of Kafka's LogSegment.changeFileSuffixes
        file = first.with_suffix(f".{kind}")
        file.rename(file.with_name(f"{file.name}.deleted"))
    assert FindingCode.NAME_STRANGE not in codes(check(log_dir, is_deep=True))


def padded_metadata(log_dir: Path) -> Path:
    """The metadata log as Kafka 4.4 leaves it behind a clean stop: its indexes are as they were allocated."""
    directory = log_dir / "__cluster_metadata-0"
    for path, entry_bytes in ((directory / f"{0:020}.index", 8), (directory / f"{0:020}.timeindex", 12)):
        data = path.read_bytes()
        path.write_bytes(data if entry_bytes == 8 else data[:-entry_bytes])  # the last time comes with the next roll
        os.truncate(path, (10 << 20) // entry_bytes * entry_bytes)
    return directory


def test_padded_indexes_of_the_metadata_log_behind_a_clean_stop_are_healthy(samples: Samples, tmp_path: Path) -> None:
    log_dir = staged(samples, tmp_path / "data", "after", NEW)
    padded_metadata(log_dir)
    assert (log_dir / ".kafka_cleanshutdown").exists()
    checked = check(log_dir)
    assert (checked.findings, checked.problems) == ([], [])


def test_no_remedy_for_the_metadata_log_is_a_repair_that_refuses_it(samples: Samples, tmp_path: Path) -> None:
    log_dir = staged(samples, tmp_path / "data", "after", NEW)
    directory = padded_metadata(log_dir)
    (directory / f"{0:020}.timeindex").unlink()
    (directory / f"{0:020}.index").write_bytes(bytes([255] * 15))
    (directory / "leader-epoch-checkpoint").write_text("no checkpoint")
    found = check(log_dir).findings
    assert {finding.harm for finding in found if "index" in finding.path} == {Harm.SLOW_START}
    assert {finding.repair for finding in found} == {None}
    assert [finding for finding in found if "--repair" in finding.remedy] == []


@pytest.mark.parametrize("stage", ["before", "after"])
def test_log_dirs_of_an_old_kafka_are_healthy(old_samples: Samples, tmp_path: Path, stage: str) -> None:
    checked = check(staged(old_samples, tmp_path / "data", stage, OLD), is_deep=True)
    assert (checked.findings, checked.problems) == ([], [])


def test_what_we_compacted_is_healthy(samples: Samples, tmp_path: Path) -> None:
    stage = staged(samples, tmp_path / "data", "before", NEW)
    assert main(["clean", "--log-dir", str(stage), "--kafka-defaults", "--force-compaction", "--yes"]) == 0
    assert check(stage, is_deep=True).findings == []


def test_a_broker_that_was_killed_left_no_damage(samples: Samples, tmp_path: Path) -> None:
    stage = staged(samples, tmp_path / "data", "before", NEW)
    (stage / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for suffix, size_bytes in ((".index", 10_485_760), (".timeindex", 10_485_756)):
        for name in NEW:
            os.truncate(max((stage / name).glob(f"*{suffix}")), size_bytes)
    assert check(stage, is_deep=True).findings == []


@pytest.mark.parametrize(
    ("generation", "first"), [("new", V2_CRC_COVERED), ("old", LEGACY_CRC_COVERED)], ids=["v2", "v0 and v1"]
)
def test_every_flipped_bit_that_a_checksum_covers_is_found(
    samples: Samples, old_samples: Samples, tmp_path: Path, generation: str, first: int
) -> None:
    """A thousand of them in all."""
    is_old = generation == "old"
    stage = (
        staged(old_samples, tmp_path / "a", "before", OLD) if is_old else staged(samples, tmp_path / "a", "after", NEW)
    )
    places, random, hand = covered(stage, first, is_legacy=is_old), Random(SEED), Hand()
    segments = {segment.log.path: (segment, upper) for segment, upper in _segments(stage)}
    missed = []
    for _ in range(FLIPS):
        place, bit = random.choice(places), random.randrange(8)
        segment, upper_offset = segments[place.path]
        with flipped(place, bit):
            seen = read_segment_contents(segment, upper_offset, hand, lambda _: None, is_deep=False).seen
        if not any(one.anomaly in (Anomaly.CRC, Anomaly.UNREADABLE, Anomaly.TAIL, Anomaly.HEADER) for one in seen):
            missed.append((place, bit))
    assert missed == []


def _segments(stage: Path) -> Sequence[tuple[Segment, int | None]]:
    found: list[tuple[Segment, int | None]] = []
    for directory in sorted(stage.glob("[!_]*-[0-9]")):
        segments = list_partition(directory).segments
        uppers = [*(segment.base_offset for segment in segments[1:]), None]
        found += zip(segments, uppers, strict=True)
    return found


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """A log dir with two partitions of two segments."""
    log_dir = tmp_path / "data"
    for name in ("orders-0", "clicks-0"):
        made = PartitionDir(log_dir, name).segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "c=1"))
        (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        committed(log_dir, made)
    (log_dir / ".kafka_cleanshutdown").touch()
    return log_dir


def test_one_partition_is_checked_where_one_is_wanted(drawn):
    (drawn / "clicks-0" / f"{0:020d}.log").write_bytes(b"damaged")
    assert FindingCode.TORN_TAIL in codes(check(drawn))
    assert check(drawn, wants=lambda name: name == TopicPartition("orders", 0), is_whole=False).findings == []


def test_several_threads_find_the_same(samples, tmp_path):
    stage = staged(samples, tmp_path / "data", "after", NEW)
    for log in sorted(stage.glob("[!_]*-0/*.log"))[::3]:
        data = bytearray(log.read_bytes())
        if data:
            data[90] ^= 4
            log.write_bytes(data)
    alone, together = check(stage), check(stage, threads=4)
    assert alone.findings == together.findings
    assert FindingCode.BATCH_CORRUPT in codes(alone)


def test_a_partition_that_cannot_be_read_is_a_problem_and_the_others_are_checked(drawn):
    path = drawn / "clicks-0" / f"{0:020d}.log"
    path.unlink()
    path.mkdir()
    (drawn / "clicks-0" / "leader-epoch-checkpoint").unlink()
    (drawn / "clicks-0" / "leader-epoch-checkpoint").mkdir()
    checked = check(drawn)
    assert any("leader-epoch-checkpoint" in problem for problem in checked.problems)
    assert checked.partitions == 2


def test_findings_beside_a_broker_are_told_if_they_are_found_again(drawn, monkeypatch):
    path = drawn / "orders-0" / f"{2:020d}.log"
    whole = path.read_bytes()
    with LogDir.open(drawn).lock(FileSystem()):
        path.write_bytes(whole[:-9])
        looks = _mending_at_look(2, path, whole, monkeypatch)
        assert codes(check(drawn)) == []
        first = drawn / "orders-0" / f"{0:020d}.log"
        first.write_bytes(first.read_bytes()[:-1] + b"\xff")
        assert codes(check(drawn)) == [FindingCode.BATCH_CORRUPT]
    assert looks


def _mending_at_look(number: int, path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Have a file become whole once some segments were read, as if a broker had finished a write."""
    looks: list[Path] = []
    read = read_segment_contents

    def reading(segment, *args, **kwargs):
        looks.append(segment.log.path)
        if looks.count(path) == number:
            path.write_bytes(whole)
        return read(segment, *args, **kwargs)

    monkeypatch.setattr("cleaner.engine.verify.checking.read_segment_contents", reading)
    assert segment_contents.read_segment_contents is read
    return looks


def test_a_partition_that_vanishes_beside_a_broker_is_no_damage(drawn, monkeypatch):
    def vanish(segment, *args, **kwargs):
        if segment.directory.name == "clicks-0":
            shutil.rmtree(segment.directory, ignore_errors=True)
        return read_segment_contents(segment, *args, **kwargs)

    monkeypatch.setattr("cleaner.engine.verify.checking.read_segment_contents", vanish)
    with LogDirLock.acquire(drawn, FileSystem()):
        checked = check(drawn)
    assert (codes(checked), checked.problems, checked.partitions) == ([], [], 1)


def test_a_partition_without_a_directory_is_lost_if_it_had_records(drawn):
    (drawn / ".kafka_cleanshutdown").touch()
    shutil.rmtree(drawn / "clicks-0")
    (found,) = check(drawn).findings
    assert (found.code, found.harm, found.path) == (FindingCode.PARTITION_LOST, Harm.DATA_LOST, f"{drawn}/clicks-0")
    (drawn / ".kafka_cleanshutdown").unlink()
    assert codes(check(drawn)) == [FindingCode.CHECKPOINT_STALE], "a killed broker may have deleted it a moment before"
    (drawn / "clicks-0.0123456789abcdef0123456789abcdef-stray").mkdir()
    (drawn / ".kafka_cleanshutdown").touch()
    assert codes(check(drawn)) == [FindingCode.CHECKPOINT_STALE], "it was set aside"


@pytest.mark.parametrize("suffix", ["stray", "delete"])
def test_a_partition_whose_only_directory_was_set_aside_is_lost(drawn, suffix):
    (drawn / ".kafka_cleanshutdown").touch()
    aside = drawn / f"clicks-0.0123456789abcdef0123456789abcdef-{suffix}"
    (drawn / "clicks-0").rename(aside)
    (found,) = check(drawn).findings
    assert (found.code, found.harm, found.path) == (FindingCode.PARTITION_LOST, Harm.DATA_LOST, str(aside))
    assert "rename the directory to clicks-0" in found.remedy


def test_the_rate_is_kept(drawn):
    big = PartitionDir(drawn, "big-0").segment(0, keyed(0, f"k={'x' * 3_000_000}"))
    (big.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    clock = FakeClock(NOW_MS)
    means = Means(clock=clock, broker=BrokerPolicy(log_cleaner_io_max_bytes_per_second=1_000_000.0))
    check_log_dirs([LogDir.open(drawn)], CheckRequest(), means)
    assert 3 <= clock.slept_seconds <= 5


def test_a_wish_to_stop_ends_the_check(drawn):
    with pytest.raises(Stopped):
        check_log_dirs([LogDir.open(drawn)], CheckRequest(threads=3), Means(stopping=lambda: True))


class Stopping(Silent):
    """Wants to stop once some bytes were read."""

    def __init__(self, after_bytes: int) -> None:
        self.left_bytes = after_bytes

    def progress(self, done_bytes: int) -> None:
        self.left_bytes -= done_bytes


def test_an_interrupted_check_goes_on_and_finds_what_the_first_one_met(drawn, tmp_path):
    value = "x" * 1_500_000
    made = PartitionDir(drawn, "big-0")
    for base_offset in range(4):
        made.segment(base_offset, keyed(base_offset, f"k={value}"))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    damaged = made.path / f"{0:020d}.log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    whole = check(drawn)
    listener = Stopping(4_000_000)
    notes = tmp_path / "notes"
    with open_notes(notes, goes_on=False) as opened, pytest.raises(Stopped):
        check_log_dirs(
            [LogDir.open(drawn)],
            CheckRequest(),
            Means(listener=listener, stopping=lambda: listener.left_bytes < 0),
            opened,
        )
    with notes.open("ab") as file:
        file.write(b'{"key": "cut off')
    resumed = check(drawn, notes=notes, goes_on=True)
    assert resumed.noted_bytes > 1_000_000
    assert (resumed.findings, resumed.size_bytes) == (whole.findings, whole.size_bytes)


def test_a_file_that_changed_since_is_read_again(drawn, tmp_path):
    made = PartitionDir(drawn, "big-0").segment(0, keyed(0, f"k={'x' * 1_500_000}"))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    notes = tmp_path / "notes"
    assert check(drawn, notes=notes).noted_bytes == 0
    assert check(drawn, notes=notes, goes_on=True).noted_bytes > 1_500_000
    assert check(drawn, notes=notes, goes_on=True, is_deep=True).noted_bytes == 0
    log = made.path / f"{0:020d}.log"
    before = log.stat()
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))  # its ctime tells
    checked = check(drawn, notes=notes, goes_on=True)
    assert (checked.noted_bytes, codes(checked)) == (0, [FindingCode.BATCH_CORRUPT])


def test_worst_comes_first(drawn):
    (drawn / "orders-0" / f"{0:020d}.log").write_bytes(keyed(0, "a=1", "b=1")[:-1] + b"\xff")
    (drawn / "orders-0" / f"{2:020d}.timeindex").write_bytes(b"")
    (drawn / "notes.txt").touch()
    checked = check(drawn)
    harms = [finding.harm for finding in checked.findings]
    assert (harms, checked.is_damaged) == (sorted(harms), True)
    assert harms[-1] is Harm.NOTE


def test_a_gap_in_a_log_that_was_never_compacted_is_a_note(drawn):
    made = PartitionDir(drawn, "holed-0").segment(0, keyed(0, "a=1")).segment(9, keyed(9, "a=1"))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    found = [finding for finding in check(drawn).findings if finding.code is FindingCode.OFFSET_GAP]
    assert [(Path(one.path).parent.name, one.offset, one.harm) for one in found] == [("holed-0", 1, Harm.NOTE)]
    (drawn / "cleaner-offset-checkpoint").write_text("0\n1\nholed 0 9\n")
    assert FindingCode.OFFSET_GAP not in codes(check(drawn))


def test_flips_are_taken_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with flipped(Place(path, 1), 3):
        assert path.read_bytes() == b"ajc"
    assert path.read_bytes() == b"abc"


def test_a_log_whose_name_has_not_20_digits_is_named_alone(drawn):
    shutil.copy(drawn / "clicks-0" / f"{2:020d}.log", drawn / "clicks-0" / "9.log")
    (found,) = check(drawn).findings
    assert (found.code, found.path) == (FindingCode.NAME_STRANGE, f"{drawn}/clicks-0/9.log")
    assert "makes an empty one there" in found.text


@pytest.mark.parametrize(
    ("text", "so"),
    [("garbage\n", "takes the log dir offline"), ("version: 0\ntopic_id: short\n", "does not start")],
)
def test_garbage_in_partition_metadata_says_what_the_start_does(drawn, text, so):
    (drawn / "clicks-0" / "partition.metadata").write_text(text)
    (found,) = check(drawn).findings
    assert (found.code, found.harm) == (FindingCode.PARTITION_METADATA, Harm.NO_START)
    assert found.text.endswith(f"the broker {so}.")


def test_an_emptied_log_has_one_finding_a_file(samples: Samples, tmp_path: Path) -> None:
    stage = staged(samples, tmp_path / "data", "before", ("orders-0",))
    log = max((stage / "orders-0").glob("*.log"), key=lambda path: path.stat().st_size)
    os.truncate(log, 0)
    found = [one for one in check(stage).findings if Path(one.path).stem == log.stem]
    assert len({(one.path, one.code) for one in found}) == len(found) <= 4
    assert any("more entries are wrong in the same way" in one.text for one in found)
    assert all("verify --repair does not touch it" in one.remedy for one in found if one.repair)


def test_a_first_compaction_beside_a_broker_is_no_gap(drawn, monkeypatch):
    """The broker writes its checkpoint behind the swap: the first look at the checkpoints came before both."""
    made = PartitionDir(drawn, "holed-0").segment(0, keyed(0, "a=1")).segment(9, keyed(9, "a=1"))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")

    def compacted(segment, *args, **kwargs):
        (drawn / "cleaner-offset-checkpoint").write_text("0\n1\nholed 0 9\n")
        return read_segment_contents(segment, *args, **kwargs)

    monkeypatch.setattr("cleaner.engine.verify.checking.read_segment_contents", compacted)
    with LogDirLock.acquire(drawn, FileSystem()):
        assert FindingCode.OFFSET_GAP not in codes(check(drawn))
