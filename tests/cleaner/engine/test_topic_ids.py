"""Holds and journal lines belong to a topic id: a topic that is deleted and made again under its name has another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import encode_entry, read_journal
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer, RestoreResult
from policies.reasons import ReasonCode
from policies.restore import RestoreCode
from storage.filesystem import FileSystem
from storage.log_dir import CorruptHoldIds, LogDir
from storage.names import HOLD_IDS_FILE, HOLDS_FILE, JOURNAL_FILE, PARTITION_METADATA_FILE, TopicPartition
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    records_in,
    request,
)

CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)
OLD_ID, NEW_ID, ORDERS_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw"
LAYERS = configured(clicks=EXPIRING, orders=EXPIRING)
OLD_MS = NOW_MS - 2 * DAY_MS


def a_partition(log_dir: Path, topic_id: str | None = OLD_ID, name: str = "clicks-0") -> PartitionDir:
    """Two expired segments and one that is not."""
    made = PartitionDir(log_dir, name)
    for base, time_ms in ((0, OLD_MS), (2, OLD_MS), (4, NOW_MS)):
        made.segment(base, keyed(base, "a=1", "b=1", timestamp_ms=time_ms), mtime_ms=time_ms)
    identify(made.path, topic_id)
    return made


def identify(partition: Path, topic_id: str | None) -> None:
    path = partition / PARTITION_METADATA_FILE
    path.unlink(missing_ok=True)
    if topic_id:
        path.write_text(f"version: 0\ntopic_id: {topic_id}\n")


def a_log_dir(path: Path, topic_id: str | None = OLD_ID, others: tuple[str, ...] = ()) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return committed(path, a_partition(path, topic_id), *(a_partition(path, ORDERS_ID, name) for name in others))


def recreated(log_dir: Path, topic_id: str | None = NEW_ID) -> Path:
    """The topic was deleted and made again, and has as much in it as before."""
    shutil.rmtree(log_dir / "clicks-0")
    a_partition(log_dir, topic_id)
    return log_dir


def held(path: Path, topic_id: str | None = OLD_ID) -> Path:
    """A log dir whose partition was cleaned and restored."""
    log_dir = a_log_dir(path, topic_id)
    clean(log_dir)
    restore(log_dir)
    return log_dir


def a_restorer(log_dir: Path, fs: FileSystem | None = None, now_ms: int = NOW_MS) -> Restorer:
    return Restorer([LogDir.open(log_dir)], Means(fs or FileSystem(), FakeClock(now_ms), Silent()))


def everything(_: TopicPartition) -> bool:
    return True


def restore(log_dir: Path, fs: FileSystem | None = None, now_ms: int = NOW_MS) -> tuple[RestoreResult, ...]:
    return a_restorer(log_dir, fs, now_ms).restore(everything)


def clean(log_dir: Path) -> None:
    a_cleaner(log_dir, LAYERS).clean(request())


def offsets(log_dir: Path) -> list[int]:
    return [record.offset for record in records_in(log_dir / "clicks-0")]


def is_held(log_dir: Path, name: str = "clicks-0") -> bool:
    """As a run finds it."""
    cleaner: Cleaner = a_cleaner(log_dir, LAYERS)
    (planned,) = (p for p in cleaner.plan(request()).partitions if str(p.facts.topic_partition) == name)
    codes = {verdict.reason.code for verdict in planned.verdicts}
    assert (ReasonCode.HELD in codes) == (codes == {ReasonCode.HELD})
    return ReasonCode.HELD in codes


class TestHold:
    def test_it_ends_with_its_topic(self, tmp_path: Path) -> None:
        log_dir = held(tmp_path / "data")
        assert is_held(log_dir)
        clean(recreated(log_dir))
        assert offsets(log_dir) == [4, 5]

    def test_it_counts_again_when_the_topic_it_belongs_to_is_put_back(self, tmp_path: Path) -> None:
        log_dir = held(tmp_path / "data")
        shutil.copytree(log_dir / "clicks-0", tmp_path / "backup")
        clean(recreated(log_dir))
        shutil.rmtree(log_dir / "clicks-0")
        (tmp_path / "backup").rename(log_dir / "clicks-0")
        assert is_held(log_dir)

    @pytest.mark.parametrize(
        ("story", "when_held", "now"),
        [
            ("the same topic", OLD_ID, OLD_ID),
            ("a dir without an id", OLD_ID, None),
            ("a hold of a dir that had no id", None, NEW_ID),
            ("neither has one", None, None),
        ],
    )
    def test_it_lapses_only_if_both_ids_are_there_and_differ(
        self, tmp_path: Path, story: str, when_held: str | None, now: str | None
    ) -> None:
        log_dir = recreated(held(tmp_path / "data", when_held), now)
        assert is_held(log_dir), story
        clean(log_dir)
        assert offsets(log_dir) == [0, 1, 2, 3, 4, 5], story

    @pytest.mark.parametrize("content", [b"", b"version: 0\n", b"version: 0\ntopic_id: short\n", b"\xff"])
    def test_an_id_that_cannot_be_read_lets_nothing_go(self, tmp_path: Path, content: bytes) -> None:
        log_dir = held(tmp_path / "data")
        (log_dir / "clicks-0" / PARTITION_METADATA_FILE).write_bytes(content)
        assert is_held(log_dir)

    def test_one_of_an_older_version_has_no_id_and_stays(self, tmp_path: Path) -> None:
        log_dir = recreated(a_log_dir(tmp_path / "data"))
        (log_dir / HOLDS_FILE).write_text("0\n1\nclicks 0 5\n")
        assert is_held(log_dir)

    def test_id_of_another_hold_of_the_same_name_does_not_count(self, tmp_path: Path) -> None:
        """An older version released the hold and made another, and knows nothing of ids."""
        log_dir = recreated(held(tmp_path / "data"))
        (log_dir / HOLDS_FILE).write_text(f"0\n1\nclicks 0 {NOW_MS + 1}\n")
        assert is_held(log_dir)

    def test_an_older_version_reads_what_it_always_did(self, tmp_path: Path) -> None:
        log_dir = held(tmp_path / "data")
        assert (log_dir / HOLDS_FILE).read_text() == f"0\n1\nclicks 0 {NOW_MS}\n"

    def test_release_leaves_no_file(self, tmp_path: Path) -> None:
        log_dir = held(tmp_path / "data")
        assert {HOLDS_FILE, HOLD_IDS_FILE} <= {path.name for path in log_dir.iterdir()}
        assert a_restorer(log_dir).release(everything) == (CLICKS,)
        assert {HOLDS_FILE, HOLD_IDS_FILE}.isdisjoint(path.name for path in log_dir.iterdir())

    def test_one_that_has_lapsed_is_listed_and_can_be_released(self, tmp_path: Path) -> None:
        log_dir = recreated(held(tmp_path / "data"))
        (found,) = a_restorer(log_dir).plan(everything)
        assert (found.held_since_ms, found.lapsed_since_ms) == (None, NOW_MS)
        assert a_restorer(log_dir).release(everything) == (CLICKS,)
        assert LogDir(log_dir).holds() == {}
        assert a_restorer(log_dir).plan(everything) == ()

    def test_restore_of_the_new_topic_puts_it_on_a_hold_of_its_own(self, tmp_path: Path) -> None:
        log_dir = recreated(held(tmp_path / "data"))
        clean(log_dir)
        assert not is_held(log_dir)
        restore(log_dir, now_ms=NOW_MS + 7)
        assert LogDir(log_dir).holds() == {CLICKS: NOW_MS + 7}
        assert is_held(log_dir)
        identify(log_dir / "clicks-0", OLD_ID)
        assert not is_held(log_dir)

    def test_second_restore_gives_a_hold_without_an_id_that_of_the_topic(self, tmp_path: Path) -> None:
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / HOLDS_FILE).write_text("0\n1\nclicks 0 5\n")
        restore(log_dir)
        assert LogDir(log_dir).holds() == {CLICKS: 5}
        assert is_held(log_dir)
        assert not is_held(recreated(log_dir))

    def test_ids_that_are_garbled_stop_every_run_on_the_dir(self, tmp_path: Path) -> None:
        log_dir = held(tmp_path / "data")
        damaged = (log_dir / HOLD_IDS_FILE).read_text().replace(OLD_ID, NEW_ID)
        (log_dir / HOLD_IDS_FILE).write_text(damaged)
        planned = a_cleaner(log_dir, LAYERS).plan(request())
        assert "counts for every topic of its name" in planned.log_dirs[0].facts.errors[0]
        for act in (a_restorer(log_dir).plan, a_restorer(log_dir).restore, a_restorer(log_dir).release):
            with pytest.raises(CorruptHoldIds):
                act(everything)

    def test_copy_of_a_log_dir_has_its_holds_and_their_ids(self, tmp_path: Path) -> None:
        log_dir = held(tmp_path / "data")
        a_cleaner(log_dir, LAYERS).copy(request(), tmp_path / "copy", tool_version="test")
        assert is_held(tmp_path / "copy")
        shutil.rmtree(tmp_path / "copy")
        a_cleaner(recreated(log_dir), LAYERS).copy(request(), tmp_path / "copy", tool_version="test")
        assert not is_held(tmp_path / "copy")
        assert offsets(tmp_path / "copy") == [4, 5]


class TestJournal:
    @pytest.mark.parametrize(
        ("story", "when_deleted", "now", "code"),
        [
            ("the same topic", OLD_ID, OLD_ID, RestoreCode.RESTORABLE),
            ("another topic of that name", OLD_ID, NEW_ID, RestoreCode.CHANGED_SINCE),
            ("a dir without an id", OLD_ID, None, RestoreCode.RESTORABLE),
            ("a line of a dir that had no id", None, NEW_ID, RestoreCode.RESTORABLE),
        ],
    )
    def test_what_waits_comes_back_unless_both_ids_are_there_and_differ(
        self, tmp_path: Path, story: str, when_deleted: str | None, now: str | None, code: RestoreCode
    ) -> None:
        log_dir = a_log_dir(tmp_path / "data", when_deleted)
        clean(log_dir)
        identify(log_dir / "clicks-0", now)
        (result,) = restore(log_dir)
        assert result.restoration is not None
        assert {verdict.code for verdict in result.restoration.verdicts} == {code}, story
        assert offsets(log_dir) == ([0, 1, 2, 3, 4, 5] if code is RestoreCode.RESTORABLE else [4, 5]), story
        if code is not RestoreCode.RESTORABLE:
            assert all(id_ in result.restoration.verdicts[0].text for id_ in (OLD_ID, NEW_ID))
            assert LogDir(log_dir).holds() == {}

    def test_empty_segment_that_another_topic_of_that_name_rolled_stays(self, tmp_path: Path) -> None:
        """Nothing comes back, but a hold and the plain files look as if a crash had ended a restore behind its last
        segment."""
        log_dir = a_log_dir(tmp_path / "data")
        clean_all = configured(clicks={**EXPIRING, "retention.ms": "0"})
        a_cleaner(log_dir, clean_all).clean(request(NOW_MS + 1))
        partition = log_dir / "clicks-0"
        for path in partition.glob("*.deleted"):
            path.rename(path.with_suffix(""))
        (log_dir / HOLDS_FILE).write_text("0\n1\nclicks 0 5\n")
        identify(partition, NEW_ID)
        assert (partition / f"{6:020d}.log").stat().st_size == 0
        restore(log_dir)
        assert (partition / f"{6:020d}.log").exists()

    def test_line_of_an_older_version_restores(self, tmp_path: Path) -> None:
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (entry,) = read_journal(log_dir)
        assert entry["undo"].pop("topic_id") == OLD_ID
        (log_dir / JOURNAL_FILE).write_bytes(encode_entry(entry))
        restore(log_dir)
        assert offsets(log_dir) == [0, 1, 2, 3, 4, 5]

    def test_partition_metadata_that_is_garbled_stops_no_deletion_and_no_restore(self, tmp_path: Path) -> None:
        log_dir = a_log_dir(tmp_path / "data")
        (log_dir / "clicks-0" / PARTITION_METADATA_FILE).write_bytes(b"garbled")
        clean(log_dir)
        assert [entry["undo"]["topic_id"] for entry in read_journal(log_dir)] == [None]
        restore(log_dir)
        assert offsets(log_dir) == [0, 1, 2, 3, 4, 5]
