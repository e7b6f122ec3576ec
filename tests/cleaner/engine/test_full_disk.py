"""Real disks with 0 bytes free: the segments that retention allows go, no other ones, and the journal lines and
checkpoints follow.
"""

from __future__ import annotations

import shutil

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means, Silent
from policies.config.config_layers import Configured
from policies.plan import Only
from storage.checkpoints import parse_offset_checkpoint
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log import Log, LogConfig
from storage.log.producer_state import ProducerState
from storage.names import JOURNAL_FILE, TopicPartition
from storage.records import Record
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
    latest,
    records_in,
    request,
)
from tests.small_disks import a_small_disk, fill, fill_names, free_bytes

OLD_MS = NOW_MS - 2 * DAY_MS
SEGMENTS, EXPIRED = 240, 220
LAYERS = configured(
    clicks=EXPIRING, gone=EXPIRING, orders=COMPACT, kept={"cleanup.policy": "delete", "retention.ms": "-1"}
)
CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)
VALUE = "v" * 1500


def clicks(log_dir):
    """Two records a segment; a producer snapshot at every base, a leader epoch at every tenth."""
    made = PartitionDir(log_dir, "clicks-0")
    for base in range(0, 2 * SEGMENTS, 2):
        age_ms = OLD_MS if base < 2 * EXPIRED else NOW_MS
        made.segment(base, keyed(base, f"x={VALUE}", "y", timestamp_ms=age_ms))
        (made.path / f"{base:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
    epochs = [f"{number} {base}\n" for number, base in enumerate(range(0, 2 * SEGMENTS, 20))]
    (made.path / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{''.join(epochs)}")
    return made


def a_log_dir(path):
    """Of ``clicks`` most goes, of ``gone`` everything; ``orders`` is compacted, ``kept`` is kept."""
    path.mkdir()
    gone = PartitionDir(path, "gone-0").segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS))
    gone.segment(1, keyed(1, "b=1", timestamp_ms=OLD_MS))
    orders = PartitionDir(path, "orders-0").segment(0, keyed(0, f"a={VALUE}", "b=1")).segment(10, keyed(10, "a=2"))
    kept = PartitionDir(path, "kept-0").segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS)).segment(1, keyed(1, "b=1"))
    committed(path, clicks(path), gone, orders.segment(20, keyed(20, "c=1")), kept)
    (path / "log-start-offset-checkpoint").write_text("0\n2\nclicks 0 3\nelsewhere 0 9\n")
    return path


@pytest.fixture
def log_dir(disk):
    made = a_log_dir(disk / "data")
    (made / ".lock").touch()  # of the broker that the full disk stopped
    fill(disk)
    fill_names(made)
    return made


def offsets(log_dir, name):
    return [record.offset for record in records_in(log_dir / name)]


def checkpoint(log_dir, name):
    return parse_offset_checkpoint((log_dir / name).read_bytes(), log_dir / name)


def test_nothing_can_be_written_before(log_dir):
    with pytest.raises(OutOfSpace):
        FileSystem().replace_file(log_dir / "log-start-offset-checkpoint", b"0\n0\n", Purpose.CHECKPOINT)


def test_retention_without_a_delay_succeeds_with_no_byte_free(log_dir):
    _, outcome = a_cleaner(log_dir, LAYERS).clean(request(delete_delay_ms=0))
    assert outcome.errors == ()
    assert [result.error for result in outcome.results.values() if result.error] == []
    assert offsets(log_dir, "clicks-0") == list(range(2 * EXPIRED, 2 * SEGMENTS))
    assert (offsets(log_dir, "gone-0"), offsets(log_dir, "kept-0")) == ([], [0, 1])
    assert latest(log_dir / "orders-0") == {b"a": b"2", b"b": b"1", b"c": b"1"}
    assert free_bytes(log_dir) > EXPIRED * len(VALUE)


@pytest.mark.parametrize(("topics", "others"), [(("orders",), True), ((), False)])
def test_remedy_of_a_compaction_without_space_is_not_what_was_done_already(disk, topics, others):
    made = a_log_dir(disk / "data")
    for name in ("clicks-0", "gone-0"):  # nothing that retention could delete first
        shutil.rmtree(made / name)
    (made / ".lock").touch()
    (made / JOURNAL_FILE).write_bytes(b"")
    fill(disk)
    fill_names(made)
    _, outcome = a_cleaner(made, LAYERS).clean(request(delete_delay_ms=0, topics=topics))
    (told,) = (result.error for result in outcome.results.values() if result.error)
    assert "--delete-delay" not in told
    assert "free, or" not in told
    assert ("other topics, too (no --topic)" in told) is others
    assert told.endswith("lower a retention, or move something that is not Kafka's off this disk")


def test_what_depends_on_the_log_start_follows(log_dir):
    a_cleaner(log_dir, LAYERS).clean(request(delete_delay_ms=0))
    epochs = (log_dir / "clicks-0" / "leader-epoch-checkpoint").read_text()
    assert epochs == "0\n2\n22 440\n23 460\n"
    assert checkpoint(log_dir, "log-start-offset-checkpoint") == {TopicPartition("elsewhere", 0): 9}
    assert checkpoint(log_dir, "cleaner-offset-checkpoint") == {ORDERS: 20}
    bases = {int(name.partition(".")[0]) for name in file_names(log_dir / "clicks-0") if name[0] == "0"}
    assert min(bases) == 2 * EXPIRED
    for name in ("", "clicks-0", "gone-0", "orders-0"):
        assert {
            found for found in file_names(log_dir / name) if found.endswith((".tmp", ".deleted", ".cleaned"))
        } == set()
    journalled = [(entry["what"], entry["partition"]) for entry in read_journal(log_dir)]
    assert sorted(journalled) == [("compact", "orders-0"), *[("delete", "clicks-0")], *[("delete", "gone-0")] * 2]


def test_our_log_opens_what_is_left_and_goes_on(log_dir):
    a_cleaner(log_dir, LAYERS).clean(request(delete_delay_ms=0))
    for name, start, end in (("clicks-0", 2 * EXPIRED, 2 * SEGMENTS), ("gone-0", 2, 2), ("kept-0", 0, 2)):
        with Log.open(log_dir / name, LogConfig(), FileSystem()) as log:
            assert (log.log_start_offset, log.log_end_offset) == (start, end)
            assert [record.offset for record in log.records()] == list(range(start, end))
            log.append_records([Record(0, NOW_MS, b"k", b"v")], now_ms=NOW_MS)
            assert log.log_end_offset == end + 1


def test_deletion_that_is_to_wait_finds_no_room_for_its_names_and_is_undone(tmp_path):
    """Others fill the disk between the journal's line and the renames."""

    class FillsUp(FileSystem):
        def rename(self, source, target, purpose):
            if source.parent.name == "clicks-0" and free_bytes(disk):
                fill(disk)
            super().rename(source, target, purpose)

    with a_small_disk("ext4", tmp_path) as disk:
        log_dir = a_log_dir(disk / "data")
        before = {path.name: path.read_bytes() for path in (log_dir / "clicks-0").iterdir()}
        _, outcome = a_cleaner(log_dir, LAYERS, fs=FillsUp()).clean(request(only=Only.RETENTION))
        assert "no space" in outcome.results[str(log_dir), CLICKS].error
        assert {path.name: path.read_bytes() for path in (log_dir / "clicks-0").iterdir()} == before
        a_cleaner(log_dir, LAYERS).clean(request(delete_delay_ms=0))
        assert offsets(log_dir, "clicks-0") == list(range(2 * EXPIRED, 2 * SEGMENTS))


def test_journal_lines_that_have_to_wait_are_told(log_dir):
    events = []

    class Listening(Silent):
        def event(self, name, **fields):
            events.append((name, fields))

    Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock(), listener=Listening())).clean(
        request(delete_delay_ms=0)
    )
    (told,) = [fields for name, fields in events if name == "journal_waits" and fields["topic"] == "clicks"]
    assert (told["what"], told["log_start_offset"], len(told["segments"])) == ("delete", 2 * EXPIRED, EXPIRED)
