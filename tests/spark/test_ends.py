"""A trigger looks only at what changed, and misses nothing that did."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cleaner.spark.table.ends import FULL_LOOK_MS, Ends
from cleaner.spark.table.options import parse_options
from cleaner.spark.table.stream import KafkaLogStreamReader
from storage.errors import UnreadableFile
from storage.log.listing import UnseenSegment, list_ends, list_partition
from storage.names import TopicPartition
from storage.scan.partitions import FoundPartition, find_partitions
from storage.stores import opening
from tests.conftest import Samples
from tests.partition_dirs import NOW_MS, FakeClock, PartitionDir, keyed
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import proxying
from tests.storage.stores.servers import configuration, serving, upload, writer

LATER_MS = NOW_MS + 60_000
Change = Callable[[PartitionDir], object]


class Looks:
    """The ends of the partitions of a log dir, and how many partitions were looked at."""

    def __init__(self, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock(LATER_MS)
        self._log_dir, self._ends = log_dir, Ends(self.clock, read_committed=False)
        self._looked: list[str] = []
        look = FoundPartition.open_ends

        def counted(partition: FoundPartition) -> object:
            self._looked.append(str(partition.topic_partition))
            return look(partition)

        monkeypatch.setattr(FoundPartition, "open_ends", counted)

    def now(self) -> tuple[list[int], int]:
        self._looked.clear()
        found = self._ends.of(find_partitions([str(self._log_dir)]))
        return [held.end for held in found.values()], len(self._looked)


@pytest.fixture
def orders(tmp_path: Path) -> PartitionDir:
    for number in (1, 2):
        settled(PartitionDir(tmp_path, f"orders-{number}").segment(0, keyed(0, "a=1")))
    return settled(PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"), keyed(2, "c=1")))


def settled(made: PartitionDir, at_ms: int = NOW_MS) -> PartitionDir:
    os.utime(made.path, ns=(at_ms * 1_000_000,) * 2)
    return made


@pytest.fixture
def looks(orders: PartitionDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks = Looks(tmp_path, monkeypatch)
    assert looks.now() == ([3, 1, 1], 3)
    assert looks.now() == ([3, 1, 1], 0)
    return looks


def append(made: PartitionDir) -> None:
    with made.log(1).open("ab") as log:
        log.write(keyed(3, "d=1"))


def truncate(made: PartitionDir) -> None:
    os.truncate(made.log(1), len(keyed(1, "b=1")))


def write_as_much(made: PartitionDir) -> None:
    made.log(1).write_bytes(keyed(1, "b=1") + keyed(7, "c=1"))
    os.utime(made.log(1), ns=((NOW_MS + 5) * 1_000_000,) * 2)


def roll(made: PartitionDir) -> None:
    settled(made.segment(3, keyed(3, "d=1")), NOW_MS + 5)


def compact_the_last(made: PartitionDir) -> None:
    """Another file of the same size and time has its name."""
    other = made.path / "other"
    other.write_bytes(keyed(1, "b=1") + keyed(8, "c=1"))
    os.utime(other, ns=(NOW_MS * 1_000_000,) * 2)
    other.rename(made.log(1))
    settled(made)


def lose_the_last(made: PartitionDir) -> None:
    for path in made.path.glob(f"{1:020d}.*"):
        path.unlink()
    settled(made, NOW_MS + 5)


@pytest.mark.parametrize(
    ("change", "end"),
    [(append, 4), (truncate, 2), (write_as_much, 8), (roll, 4), (compact_the_last, 9), (lose_the_last, 1)],
)
def test_a_changed_partition_is_looked_at_and_no_other(
    looks: Looks, orders: PartitionDir, change: Change, end: int
) -> None:
    change(orders)
    assert looks.now() == ([end, 1, 1], 1)


def test_a_change_right_behind_a_look_may_have_its_time_and_is_seen(
    orders: PartitionDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(tmp_path, monkeypatch)
    looks.clock.time_ms = NOW_MS + 1
    assert looks.now() == ([3, 1, 1], 3)
    settled(orders.segment(3, keyed(3, "d=1")))
    looks.clock.time_ms = LATER_MS
    assert looks.now() == ([4, 1, 1], 3)
    assert looks.now() == ([4, 1, 1], 0)


@pytest.mark.parametrize("passed_ms", [FULL_LOOK_MS, -1])
def test_now_and_then_everything_is_looked_at_and_when_the_clock_was_set_back(looks: Looks, passed_ms: int) -> None:
    looks.clock.time_ms += passed_ms
    assert looks.now() == ([3, 1, 1], 3)


def test_a_symlink_in_place_of_a_directory_or_a_log_is_not_followed(
    looks: Looks, orders: PartitionDir, tmp_path: Path
) -> None:
    elsewhere = orders.path.rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    (tmp_path / "orders-0").symlink_to(elsewhere)
    assert looks.now() == ([1, 1], 0)
    clicks = PartitionDir(tmp_path, "clicks-0")
    (clicks.path / f"{0:020d}.log").symlink_to(elsewhere / f"{0:020d}.log")
    with pytest.raises(UnseenSegment, match="is a symlink"):
        looks.now()


def test_a_log_that_begins_later_by_its_checkpoint_is_looked_at(looks: Looks, tmp_path: Path) -> None:
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert looks.now() == ([3, 1, 1], 1)


def test_the_ends_of_a_log_are_told_as_by_all_its_files(samples: Samples, old_samples: Samples) -> None:
    compared = 0
    for root in (samples.root, old_samples.root):
        for log_dir in ("before", "after"):
            for one in find_partitions([str(root / log_dir)]) if (root / log_dir).is_dir() else ():
                ends, whole = one.open_ends(), one.open()
                told = [(log.log_start_offset, log.log_end_offset, log.torn_bytes) for log in (ends, whole)]
                assert told[0] == told[1], one.directory
                compared += len(whole.segments) > len(ends.segments)
    assert compared


@pytest.mark.parametrize("name", [f"{1:020d}.log.swap", f"{0:020d}.index.cleaned", f"{2:020d}.log.swap"])
def test_where_a_recovery_is_due_all_files_are_listed(orders: PartitionDir, name: str) -> None:
    orders.segment(5, keyed(5, "e=1"))
    (orders.path / name).write_bytes(keyed(1, "b=1") if ".log" in name else b"")
    assert list_ends(orders.path) == list_partition(orders.path)


def test_only_two_logs_and_an_index_are_listed(orders: PartitionDir) -> None:
    settled(orders.segment(5, keyed(5, "e=1")).segment(6, keyed(6, "f=1")))
    (orders.path / f"{6:020d}.snapshot").touch()
    (orders.path / f"{5:020d}.log.deleted").touch()
    listed = [file.file_name for file in list_ends(orders.path).files]
    assert listed == [f"{0:020d}.log", f"{6:020d}.index", f"{6:020d}.log"]


@pytest.mark.parametrize("name", ["7.log", f"{'x' * 20}.log", f"{'9' * 20}.log"])
def test_where_names_have_no_order_of_offsets_all_files_are_listed(orders: PartitionDir, name: str) -> None:
    orders.segment(5, keyed(5, "e=1"))
    (orders.path / name).write_bytes(keyed(7, "g=1"))
    assert list_ends(orders.path) == list_partition(orders.path)


def test_a_partition_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        list_ends(tmp_path / "none")


def test_an_idle_trigger_asks_a_store_for_its_listing_alone(samples: Samples) -> None:
    with serving() as url:
        upload(samples.root / "before", writer(url, "idle"), "new")
        with proxying(url) as proxy:
            forget_stores()
            opening.configure("s3", configuration(proxy.url))
            options = parse_options({"path": "s3://idle/new"})
            source = KafkaLogStreamReader(options, options.columns)
            begun = source.latestOffset({}, source.getDefaultReadLimit())
            proxy.traffic.clear()
            assert source.latestOffset(begun, source.getDefaultReadLimit()) == begun
            assert [path for _, path, _ in proxy.traffic.requests if path.endswith((".log", "index"))] == []
            assert proxy.traffic.requests
    forget_stores()


def test_partitions_are_told_in_the_order_in_which_they_were_found(looks: Looks, tmp_path: Path) -> None:
    PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1"), keyed(1, "y=1"))
    assert looks.now() == ([2, 3, 1, 1], 1)
    assert TopicPartition("clicks", 0) < TopicPartition("orders", 0)
