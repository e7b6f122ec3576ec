"""``.deleted`` files go when their delay is over, by the clock that is handed in."""

import pytest

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.leftovers import Leftovers, sweep
from cleaner.engine.undo_notes import Renamed, retired_file
from policies import Request
from policies.config.config_layers import Configured
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from storage.names import FileKind, FileState
from tests.partition_dirs import NOW_MS, PartitionDir, committed, file_names, keyed

DELAY_MS = 60_000


@pytest.fixture
def directory(tmp_path):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=2"))
    for suffix in (".log", ".index", ".timeindex"):
        path = made.path / f"{0:020d}{suffix}"
        path.rename(path.with_name(f"{path.name}.deleted"))
    return made.path


@pytest.fixture
def renamed_ms(directory):
    return max(file.changed_ns for file in list_partition(directory).files) // 1_000_000


def names(directory, suffix):
    return {name for name in file_names(directory) if name.endswith(suffix)}


def test_leftovers_stay_until_their_delay_is_over(directory, renamed_ms):
    swept = sweep(FileSystem(), Leftovers(None, list_partition(directory), DELAY_MS, {}), renamed_ms - 1_000)
    assert (swept.files, swept.size_bytes) == (0, 0)
    assert len(names(directory, ".deleted")) == 3


def test_leftovers_go_after_their_delay_and_nothing_else_does(directory, renamed_ms):
    size_bytes = sum((directory / name).stat().st_size for name in names(directory, ".deleted"))
    swept = sweep(FileSystem(), Leftovers(None, list_partition(directory), DELAY_MS, {}), renamed_ms + DELAY_MS)
    assert (swept.files, swept.size_bytes) == (3, size_bytes)
    assert file_names(directory) == {f"{1:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}


def test_without_a_delay_they_go_at_once(directory, renamed_ms):
    assert sweep(FileSystem(), Leftovers(None, list_partition(directory), 0, {}), renamed_ms).files == 3


def test_time_of_the_records_does_not_matter_only_that_of_the_rename(directory, renamed_ms):
    import os

    for name in names(directory, ".deleted"):
        os.utime(directory / name, ns=(1, 1))
    assert list(Leftovers(None, list_partition(directory), DELAY_MS, {}).due(renamed_ms - 1_000)) == []


def test_file_that_took_the_name_of_a_leftover_since_the_listing_stays(directory, renamed_ms):
    listing = list_partition(directory)
    log = directory / f"{0:020d}.log.deleted"
    log.unlink()
    log.write_bytes(b"another")
    with pytest.raises(PlanOutOfDate, match="another size, time or file"):
        sweep(FileSystem(), Leftovers(None, listing, 0, {}), renamed_ms)
    assert log.read_bytes() == b"another"


def test_oldest_base_goes_first(tmp_path):
    made = PartitionDir(tmp_path)
    for base in (20, 0, 10):
        made.segment(base).log(base).rename(made.path / f"{base:020d}.log.deleted")
    due = Leftovers(None, list_partition(made.path), 0, {}).due(1 << 60)
    assert [file.name.base_offset for file in due] == [0, 10, 20]


@pytest.mark.parametrize(("option", "files"), [((), 0), (("remote.storage.enable=true",), 3)])
def test_leftovers_of_a_topic_with_remote_storage_stay(tmp_path, option, files):
    log_dir = tmp_path / "data"
    part = PartitionDir(log_dir, "orders-0").segment(0, keyed(0, "a=1"))
    committed(log_dir, part)
    for suffix in (".log", ".index", ".timeindex"):
        (part.path / f"{7:020d}{suffix}.deleted").write_bytes(b"x")
    loaded = load_layers(Settings(), [log_dir], ["cleanup.policy=delete", *option])
    Cleaner(Configured(loaded.log_dirs, loaded.layers)).clean(Request(NOW_MS, delete_delay_ms=0))
    assert len(list(part.path.glob("*.deleted"))) == files


@pytest.mark.parametrize("is_asked", [False, True])
def test_file_waits_as_long_as_an_earlier_run_promised_unless_this_one_is_asked_otherwise(tmp_path, is_asked):
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1"))
    made.log(0).rename(f"{made.log(0)}.deleted")
    listing = list_partition(made.path)
    (file,) = [one for one in listing.in_state(FileState.DELETED) if one.name.kind is FileKind.LOG]
    times = {retired_file(file): Renamed(1_000, until_ms=5_000)}
    left = Leftovers(None, listing, 60, times, is_asked=is_asked)
    assert left.due_ms(file) == (1_060 if is_asked else 5_000)
