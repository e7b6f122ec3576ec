"""What start-up does with the leftovers of a crash: the six stages of Kafka's LogCleanerTest.testRecoveryAfterCrash."""

import re
import shutil

import pytest

from storage.errors import CorruptBatch, UnreadableFile
from storage.filesystem import FileSystem
from storage.log import recovery
from storage.log.listing import UnseenSegment, list_partition
from storage.log.recovery import hollow_swaps, plan_recovery, recover
from tests.faults import after_power_loss, crashes
from tests.partition_dirs import PartitionDir, file_names, keyed, records_in

ORIGINAL = [0, 1, 10, 11, 20]
CLEANED = [1, 11, 20]
SOURCES = (0, 10)
KINDS = (".log", ".index", ".timeindex")


def name(base, suffix):
    return f"{base:020d}{suffix}"


@pytest.fixture
def directory(tmp_path):
    """Two sealed segments, an active one; what a compaction of the sealed ones wrote lies in ``.cleaned`` files."""
    return draw(tmp_path)


def draw(tmp_path):
    drawn = PartitionDir(tmp_path, "drawn-0").segment(
        0, keyed(1, "b=2", base_offset=0), keyed(11, "d=4", base_offset=10)
    )
    made = PartitionDir(tmp_path)
    made.segment(0, keyed(0, "a=1", "b=2")).segment(10, keyed(10, "c=3", "d=4")).segment(20, keyed(20, "e=5"))
    for suffix in KINDS:
        (drawn.path / name(0, suffix)).rename(made.path / name(0, f"{suffix}.cleaned"))
    drawn.path.rmdir()
    return made.path


def move(directory, old, new, *suffixes, base=0):
    for suffix in suffixes or KINDS:
        (directory / name(base, suffix + old)).rename(directory / name(base, suffix + new))


def retire_sources(directory):
    for base in SOURCES:
        move(directory, "", ".deleted", base=base)


def recovered_offsets(directory):
    recover(FileSystem(), plan_recovery(list_partition(directory)), directory)
    assert not list_partition(directory).needs_recovery
    return [record.offset for record in records_in(directory)]


def test_stage_1_cleaned_files_alone_are_worth_nothing(directory):
    assert recovered_offsets(directory) == ORIGINAL


def test_stage_2_swap_that_had_not_begun_is_undone(directory):
    move(directory, ".cleaned", ".swap", ".log")
    assert recovered_offsets(directory) == ORIGINAL


def test_stage_3_complete_swap_beside_its_sources_is_finished(directory):
    move(directory, ".cleaned", ".swap")
    assert recovered_offsets(directory) == CLEANED
    assert name(10, ".log") not in file_names(directory)


def test_stage_4_complete_swap_of_retired_sources_is_finished(directory):
    move(directory, ".cleaned", ".swap")
    retire_sources(directory)
    assert recovered_offsets(directory) == CLEANED


def test_stage_5_last_index_takes_its_name(directory):
    retire_sources(directory)
    move(directory, ".cleaned", "", ".log", ".index")
    move(directory, ".cleaned", ".swap", ".timeindex")
    assert recovered_offsets(directory) == CLEANED
    assert name(0, ".timeindex") in file_names(directory)


def test_stage_6_finished_swap_leaves_deleted_files_to_their_delay(directory):
    retire_sources(directory)
    move(directory, ".cleaned", "")
    assert not plan_recovery(list_partition(directory)).is_needed
    assert recovered_offsets(directory) == CLEANED
    assert name(0, ".log.deleted") in file_names(directory)


def test_swap_below_an_unfinished_one_is_finished_and_the_one_above_undone(directory):
    move(directory, ".cleaned", ".swap")
    PartitionDir(directory.parent, "drawn-0").segment(20, keyed(20, "x=9"))
    drawn = directory.parent / "drawn-0"
    (drawn / name(20, ".log")).rename(directory / name(20, ".log.swap"))
    (drawn / name(20, ".index")).rename(directory / name(20, ".index.cleaned"))
    assert recovered_offsets(directory) == CLEANED
    assert b"9" not in [record.value for record in records_in(directory)]


def test_swap_of_a_group_that_lost_all_takes_the_place_of_sources_that_are_gone(directory):
    empty_swap(directory)
    retire_sources(directory)
    assert recovered_offsets(directory) == [20]
    assert name(0, ".log") in file_names(directory)


def test_plan_of_a_recovery_shows_the_log_as_it_will_be_and_changes_nothing(directory):
    move(directory, ".cleaned", ".swap")
    before = file_names(directory)
    recovery = plan_recovery(list_partition(directory))
    assert recovery.is_needed
    assert [segment.base_offset for segment in recovery.listing.segments] == [0, 20]
    assert recovery.listing.segments[0].log.path.name == name(0, ".log.swap")
    assert file_names(directory) == before
    assert set(recovery.names) == before - {name(20, suffix) for suffix in KINDS}


def test_unreadable_swap_log_is_an_error_and_nothing_is_done(directory):
    move(directory, ".cleaned", ".swap")
    listing = list_partition(directory)
    (directory / name(0, ".log.swap")).unlink()
    with pytest.raises(UnreadableFile, match="swap"):
        plan_recovery(listing)


def empty_swap(directory):
    move(directory, ".cleaned", ".swap")
    (directory / name(0, ".log.swap")).write_bytes(b"")


def alter_swap(directory, damage=lambda data: data[:-1] + b"?"):
    move(directory, ".cleaned", ".swap")
    swap = directory / name(0, ".log.swap")
    swap.write_bytes(damage(swap.read_bytes()))


STAGES = {
    "undone": (ORIGINAL, lambda d: move(d, ".cleaned", ".swap", ".log", ".index")),
    "finished": (CLEANED, lambda d: move(d, ".cleaned", ".swap")),
    "empty": (ORIGINAL, empty_swap),
    "altered": (ORIGINAL, alter_swap),
}


@pytest.mark.parametrize(("expected", "stage"), STAGES.values(), ids=STAGES)
def test_recovery_cut_short_anywhere_is_finished_by_the_next_one(tmp_path, expected, stage):
    def interrupted(disk):
        shutil.rmtree(tmp_path, ignore_errors=True)
        interrupted.directory = draw(tmp_path)
        stage(interrupted.directory)
        recover(disk, plan_recovery(list_partition(interrupted.directory)), interrupted.directory)

    for disk in crashes(interrupted):
        for left in after_power_loss(interrupted.directory, disk, tmp_path / "left"):
            assert recovered_offsets(left) == expected


INDEXES = (".index", ".timeindex", ".txnindex")
LONE = {
    "below the first segment": (0, b"entries", False),
    "between two": (20, b"entries", True),
    "between two, without an entry": (20, b"", True),
    "behind the last": (50, b"entries", True),
    "behind the last, without an entry": (50, b"", True),
    "at the end, with an entry": (41, b"entries", True),
    "at the end, as a roll leaves it that a power loss stopped": (41, bytes(8192), False),
}


@pytest.mark.parametrize(("base", "content", "stays"), LONE.values(), ids=LONE)
def test_index_files_without_a_log_stay_where_they_tell_of_missing_records(tmp_path, base, content, stays):
    made = PartitionDir(tmp_path).segment(10, keyed(10, "a=1")).segment(40, keyed(40, "b=2"))
    for kind in INDEXES:
        (made.path / name(base, kind)).write_bytes(content)
    (made.path / name(51, ".snapshot")).touch()
    recovery = plan_recovery(list_partition(made.path))
    lone = {name(base, kind) for kind in INDEXES}
    assert {file.file_name for file in recovery.evidence} == (lone if stays else set())
    assert recovery.is_needed is not stays
    assert recovered_offsets(made.path) == [10, 40]
    assert lone & file_names(made.path) == (lone if stays else set())
    assert name(51, ".snapshot") in file_names(made.path)


def test_index_files_of_a_partition_without_any_log_stay(tmp_path):
    made = PartitionDir(tmp_path)
    for base in (0, 40):
        (made.path / name(base, ".index")).write_bytes(b"entries")
    recovery = plan_recovery(list_partition(made.path))
    assert (recovery.is_needed, len(recovery.evidence)) == (False, 2)


def test_index_files_of_a_source_that_lost_all_its_records_go_with_the_swap(directory):
    """Where a full disk takes no longer name, sources are unlinked, the ``.log`` first."""
    move(directory, ".cleaned", ".swap")
    for kind in INDEXES:
        (directory / name(15, kind)).write_bytes(b"entries")
    recovery = plan_recovery(list_partition(directory))
    assert not recovery.evidence
    assert recovered_offsets(directory) == CLEANED
    assert not {found for found in file_names(directory) if found.startswith(f"{15:020d}")}


def test_index_files_whose_log_waits_wait_with_it(tmp_path):
    made = PartitionDir(tmp_path)
    for base in (10, 20, 30):
        made.segment(base, keyed(base, "a=1"))
    made.log(20).rename(made.path / name(20, ".log.deleted"))
    recovery = plan_recovery(list_partition(made.path))
    assert not recovery.evidence
    assert recovered_offsets(made.path) == [10, 30]
    assert {name(20, kind) for kind in (".log.deleted", ".index.deleted", ".timeindex.deleted")} < file_names(made.path)


def test_a_partition_with_a_log_that_is_a_symlink_is_not_recovered(directory):
    for cleaned in KINDS:
        (directory / name(0, f"{cleaned}.cleaned")).unlink()
    (directory / name(30, ".index")).touch()
    (directory / name(30, ".log")).symlink_to(directory / name(0, ".log"))
    with pytest.raises(UnseenSegment, match="is a symlink"):
        plan_recovery(list_partition(directory))


def test_snapshot_that_an_interrupted_deletion_had_not_come_to_waits_with_its_log(tmp_path):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=2")).segment(20)
    made.log(0).rename(made.path / name(0, ".log.deleted"))
    for base in (0, 5, 10, 20):
        (made.path / name(base, ".snapshot")).write_bytes(b"")
    assert recovered_offsets(made.path) == [10]
    snapshots = {found for found in file_names(made.path) if ".snapshot" in found}
    assert snapshots == {name(0, ".snapshot.deleted"), name(10, ".snapshot"), name(20, ".snapshot")}


def test_newest_snapshot_stays_though_its_log_waits(tmp_path):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=2"))
    made.log(0).rename(made.path / name(0, ".log.deleted"))
    (made.path / name(0, ".snapshot")).write_bytes(b"")
    recovered_offsets(made.path)
    assert name(0, ".snapshot") in file_names(made.path)


def test_snapshots_that_clean_stops_of_a_broker_left_within_a_segment_are_no_leftovers(tmp_path):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=2", "c=3"))
    for offset in (1, 2, 3):
        (made.path / name(offset, ".snapshot")).write_bytes(b"")
    assert not plan_recovery(list_partition(made.path)).is_needed


DAMAGES = {
    "empty": lambda _: b"",
    "cut in the first batch": lambda data: data[:50],
    "cut in the last batch": lambda data: data[:-1],
    "altered": lambda data: data[:-1] + b"?",
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_swap_log_takes_the_place_of_nothing(directory, damage):
    sources = {path: path.read_bytes() for path in directory.iterdir() if not path.name.endswith(".cleaned")}
    alter_swap(directory, damage)
    (hollow,) = hollow_swaps(list_partition(directory))
    assert (hollow.path, hollow.replaced) == (directory / name(0, ".log.swap"), directory / name(0, ".log"))
    assert recovered_offsets(directory) == ORIGINAL
    assert {path: path.read_bytes() for path in directory.iterdir()} == sources


@pytest.mark.parametrize("suffixes", [(".log",), KINDS], ids=["log alone", "with indexes"])
def test_empty_swap_log_within_a_segment_is_undone(directory, suffixes):
    for kind in KINDS:
        (directory / name(0, f"{kind}.cleaned")).unlink()
    for kind in suffixes:
        (directory / name(1, f"{kind}.swap")).write_bytes(b"")
    assert recovered_offsets(directory) == ORIGINAL
    assert [segment.base_offset for segment in list_partition(directory).segments] == [0, 10, 20]


def test_empty_swap_log_where_no_record_is_takes_its_place(directory):
    for kind in KINDS:
        (directory / name(0, f"{kind}.cleaned")).unlink()
    (directory / name(5, ".log.swap")).write_bytes(b"")
    assert hollow_swaps(list_partition(directory)) == []
    assert recovered_offsets(directory) == ORIGINAL
    assert name(5, ".log") in file_names(directory)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_swap_log_is_refused_where_a_source_of_a_gap_waits(directory, damage):
    """A power loss may keep a later rename and lose an earlier one: the first source is back, the second is not."""
    alter_swap(directory, damage)
    move(directory, "", ".deleted", base=10)
    refused(directory)


def test_deleted_files_of_an_earlier_round_are_no_sources_of_a_gap(directory):
    empty_swap(directory)
    (directory / name(1, ".log.deleted")).write_bytes(b"of an earlier round")
    assert recovered_offsets(directory) == ORIGINAL


@pytest.mark.parametrize("damage", [d for what, d in DAMAGES.items() if what != "empty"])
@pytest.mark.parametrize("gone", [SOURCES, SOURCES[:1]], ids=["both sources wait", "the first one waits"])
def test_damaged_swap_log_is_refused_while_its_sources_wait(directory, damage, gone):
    alter_swap(directory, damage)
    for base in gone:
        move(directory, "", ".deleted", base=base)
    refused(directory)


def test_damaged_swap_log_is_refused_beside_a_damaged_source(directory):
    alter_swap(directory)
    log = directory / name(0, ".log")
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    refused(directory)


def refused(directory):
    before = {path: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(CorruptBatch):
        plan_recovery(list_partition(directory))
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex", ".snapshot", ".timeindex.swap"])
def test_a_partition_with_any_segment_file_that_is_a_symlink_is_not_recovered(tmp_path, kind):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    (made.path / name(0, kind)).unlink(missing_ok=True)
    (made.path / name(0, kind)).symlink_to(tmp_path)
    with pytest.raises(UnseenSegment, match="is a symlink, and it is not read"):
        plan_recovery(list_partition(made.path))


def test_torn_tail_stays_while_a_swap_is_finished(directory):
    log = directory / name(20, ".log")
    torn = log.read_bytes() + b"torn"
    log.write_bytes(torn)
    move(directory, ".cleaned", ".swap")
    recover(FileSystem(), plan_recovery(list_partition(directory)), directory)
    assert (directory / name(0, ".log")).exists()
    assert not (directory / name(10, ".log")).exists()
    assert log.read_bytes() == torn


def test_each_point_in_which_ours_is_stricter_names_a_test_that_is_there():
    named = set(re.findall(r"\btest_\w+", recovery.__doc__))
    assert named <= {name for name in globals() if name.startswith("test_")}
    assert len(named) >= recovery.__doc__.count("* ")


def test_what_a_cluster_left_goes_and_what_a_repair_kept_stays(tmp_path):
    partition = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).path
    of_a_cluster = [
        f"{name(0, '.log')}.0123abcd-0123456789abcdef.logcleaner",
        "7.bitmap.0123abcd-0123456789abcdef.logcleaner",
    ]
    others = [f"{name(0, '.log')}.from-4711.logcleaner", "notes.0123abcd-0123456789abcdef.logcleaner"]
    before = file_names(partition)
    for each in (*of_a_cluster, *others):
        (partition / each).touch()
    directory = partition / "8.bitmap.0123abcd-0123456789abcdef.logcleaner"
    directory.mkdir()
    planned = plan_recovery(list_partition(partition))
    assert planned.names == sorted(of_a_cluster)
    recover(FileSystem(), planned, partition)
    assert file_names(partition) == {*before, *others, directory.name}
    assert not plan_recovery(list_partition(partition)).is_needed
