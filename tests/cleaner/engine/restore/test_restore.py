"""Deletions taken back: every byte as before, from any crash, and nothing that would not fit."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise

import pytest

from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import Journal, encode_entry, read_journal
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer
from policies import Request
from policies.config.config_layers import Configured
from policies.facts import Boot
from policies.reasons import ReasonCode
from policies.restore import RestoreCode
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.lock import LogDirLocked
from storage.log.end import next_offset_of
from storage.log.listing import list_partition
from storage.log_dir import CorruptHolds, LogDir, read_file
from storage.names import HOLD_IDS_FILE, HOLDS_FILE, JOURNAL_FILE, PARTITION_METADATA_FILE, TopicPartition
from tests.faults import FullDisk, after_power_loss, crashes
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    deleted_from_by_name,
    keyed,
    records_in,
    request,
)

CLICKS = TopicPartition("clicks", 0)
LAYERS = configured(clicks=EXPIRING)
COMPACTED = configured(clicks={**EXPIRING, "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.0"})
OLD_MS = NOW_MS - 2 * DAY_MS
OURS = {JOURNAL_FILE, HOLDS_FILE, HOLD_IDS_FILE, ".lock"}


def a_log_dir(path, *, expired=3, segments=4, newest_snapshot=True):
    """Segments of two records, the oldest ``expired`` of them past retention, with snapshots and three epochs."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    made = PartitionDir(path, "clicks-0")
    for place in range(segments):
        base, time_ms = 2 * place, OLD_MS if place < expired else NOW_MS
        made.segment(base, keyed(base, f"a={base}", f"b={base}", timestamp_ms=time_ms), mtime_ms=time_ms)
        if place:
            (made.path / f"{base:020d}.snapshot").write_bytes(b"state at %d" % base)
    if newest_snapshot:
        (made.path / f"{2 * segments:020d}.snapshot").write_bytes(b"state at the end")
    (made.path / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 3\n5 5\n")
    return committed(path, made)


def contents(log_dir):
    """Bytes and mtime of every file that is not our own, nor what a crash left of a checkpoint's next content."""
    files = [p for p in log_dir.rglob("*") if p.is_file() and p.name not in OURS and p.suffix != ".tmp"]
    return {str(p.relative_to(log_dir)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def data(log_dir):
    """The same without the times: checkpoints are written anew."""
    return {name: content for name, (content, _) in contents(log_dir).items()}


def a_restorer(log_dir, fs=None, now_ms=NOW_MS):
    return Restorer([LogDir.open(log_dir)], Means(fs or FileSystem(), FakeClock(now_ms), Silent()))


def everything(_):
    return True


def clean(log_dir, layers=LAYERS, now_ms=NOW_MS, **options):
    clock = FakeClock(now_ms)
    return a_cleaner(log_dir, layers, clock=clock).clean(request(now_ms, **options))


def restore(log_dir, fs=None):
    return a_restorer(log_dir, fs).restore(everything)


def keep_lines(log_dir, *numbers):
    """Cut the journal to some of its lines, counted from 1; each stays whole."""
    lines = (log_dir / JOURNAL_FILE).read_bytes().splitlines(keepends=True)
    (log_dir / JOURNAL_FILE).write_bytes(b"".join(lines[number - 1] for number in numbers))


def codes(results):
    return [(v.segment.base_offset, v.code) for r in results if r.restoration for v in r.restoration.verdicts]


@pytest.mark.parametrize(
    ("story", "options"),
    [
        ("some segments went", {}),
        ("everything went", {"expired": 4}),
        ("everything went, and the snapshot of the end had to be written", {"expired": 4, "newest_snapshot": False}),
        ("the only segment went", {"expired": 1, "segments": 1}),
    ],
)
def test_restored_partition_is_as_before_the_deletion_in_every_byte(tmp_path, story, options):
    log_dir = a_log_dir(tmp_path / "data", **options)
    before = data(log_dir)
    segment_times = {n: f[1] for n, f in contents(log_dir).items() if n.endswith((".log", "index"))}
    clean(log_dir)
    assert data(log_dir) != before
    (result,) = restore(log_dir)
    assert result.error is None
    (log_dir / "log-start-offset-checkpoint").unlink(missing_ok=True)  # one without an entry may have come to be
    assert data(log_dir) == before, story
    assert {n: f[1] for n, f in contents(log_dir).items() if n in segment_times} == segment_times


def test_index_files_that_tell_of_missing_records_come_back_with_the_segments_around_them(tmp_path):
    path = tmp_path / "data"

    def run(disk):
        log = a_log_dir(path) / "clicks-0" / f"{2:020d}.log"
        log.unlink()
        log.with_suffix(".timeindex").write_bytes(OLD_MS.to_bytes(8, "big") + (1).to_bytes(4, "big"))
        before = data(path)
        clean(path)
        assert log.with_suffix(".timeindex.deleted").exists()
        restore(path, disk)
        return before

    before = run(FileSystem())
    assert data(path) == before
    for _ in crashes(run):
        restore(path)
        assert data(path) == before


def test_of_a_rolled_segment_the_indexes_are_gone_for_good_before_the_log_goes(tmp_path):
    """A log without its indexes would be a segment that recovery has to index anew."""
    steps = []

    class Noting(FileSystem):
        def unlink(self, path, purpose):
            steps.append(path.suffix)
            super().unlink(path, purpose)

        def fsync_dir(self, path, purpose):
            steps.append("fsync")
            super().fsync_dir(path, purpose)

    log_dir = a_log_dir(tmp_path / "data", expired=4)
    clean(log_dir)
    restore(log_dir, Noting())
    end = steps.index(".log")
    assert steps[end - 3 : end + 2] == [".index", ".timeindex", "fsync", ".log", "fsync"]


def test_a_topic_id_that_a_disk_does_not_give_now_stops_the_restore_and_the_deletion(tmp_path, monkeypatch):
    """Else the hold, or the journal's line, would be without the id for good: also true of a topic made again."""
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / "clicks-0" / PARTITION_METADATA_FILE).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")

    def failing(path):
        if path.name == PARTITION_METADATA_FILE:
            raise UnreadableFile(path, "Input/output error")
        return read_file(path)

    before = data(log_dir)
    with monkeypatch.context() as patched:
        patched.setattr("storage.log.leader_epochs.read_file", failing)
        clean(log_dir)
    assert data(log_dir) == before
    clean(log_dir)
    with monkeypatch.context() as patched:
        patched.setattr("storage.log.leader_epochs.read_file", failing)
        (result,) = restore(log_dir)
    assert (result.is_done, "Input/output error" in result.error) == (False, True)
    assert not (log_dir / HOLDS_FILE).exists()
    restore(log_dir)
    assert data(log_dir).keys() == before.keys()
    assert "AAAAAAAAAAAAAAAAAAAAAQ" in (log_dir / HOLD_IDS_FILE).read_text()


def test_log_start_offset_comes_back(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nother 0 7\nclicks 0 1\n")
    before = data(log_dir)
    clean(log_dir)
    assert LogDir(log_dir).offsets("log-start-offset-checkpoint") == {TopicPartition("other", 0): 7}
    restore(log_dir)
    assert data(log_dir) == before


def test_first_dirty_offset_that_a_later_run_corrected_comes_back(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nclicks 0 4\n")
    layers = configured(clicks={**EXPIRING, "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "1.0"})
    clean(log_dir, layers)
    assert LogDir(log_dir).offsets("cleaner-offset-checkpoint") == {CLICKS: 6}
    restore(log_dir)
    assert LogDir(log_dir).offsets("cleaner-offset-checkpoint") == {CLICKS: 4}


def test_first_dirty_offset_that_was_not_there_before_the_deletion_goes(tmp_path):
    """A round of a broker's that failed leaves the log start of its time: what comes back below it was never clean."""
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir)
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n2\nclicks 0 6\nother 0 3\n")
    restore(log_dir)
    assert LogDir(log_dir).offsets("cleaner-offset-checkpoint") == {TopicPartition("other", 0): 3}


@pytest.mark.parametrize("before", [4, 5])
def test_partition_stays_restorable_when_retention_moved_the_first_dirty_offset_up_to_the_log_start(tmp_path, before):
    log_dir = a_log_dir(tmp_path / "data", segments=6)
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\nclicks 0 {before}\n")
    whole = data(log_dir)
    policy = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "1.0"}
    five_segments_bytes = str(5 * list_partition(log_dir / "clicks-0").segments[0].size_bytes)
    clean(log_dir, configured(clicks={**policy, "retention.ms": "-1", "retention.bytes": five_segments_bytes}))
    clean(log_dir, configured(clicks={**policy, "retention.ms": str(DAY_MS)}))
    assert [entry["what"] for entry in read_journal(log_dir)] == ["delete", "delete"]
    assert LogDir(log_dir).offsets("cleaner-offset-checkpoint") == {CLICKS: 6}
    restore(log_dir)
    assert data(log_dir) == whole


def test_several_deletions_come_back_newest_first(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    before = data(log_dir)
    three_segments_bytes = str(3 * list_partition(log_dir / "clicks-0").segments[0].size_bytes)
    clean(log_dir, configured(clicks={"cleanup.policy": "delete", "retention.bytes": three_segments_bytes}))
    assert len(list((log_dir / "clicks-0").glob("*.log.deleted"))) == 1
    clean(log_dir)
    restored = [0, 2, 4]
    assert codes(a_restorer(log_dir).plan(everything)) == [(b, RestoreCode.RESTORABLE) for b in reversed(restored)]
    restore(log_dir)
    assert data(log_dir) == before


def test_deletion_that_a_crash_cut_short_and_the_next_run_finished_comes_back_whole(tmp_path):
    path = tmp_path / "data"

    def delete(disk):
        a_log_dir(path)
        a_cleaner(path, LAYERS, disk).clean(request())

    before = data(a_log_dir(path))
    for _ in crashes(delete):
        clean(path)
        restore(path)
        (path / "log-start-offset-checkpoint").unlink(missing_ok=True)
        assert data(path) == before


@pytest.mark.parametrize("expired", [3, 4])
def test_restore_goes_on_where_a_crash_at_any_step_ended_it(tmp_path, expired):
    path = tmp_path / "data"
    before = data(a_log_dir(path, expired=expired))

    def run(disk):
        a_log_dir(path, expired=expired)
        (path / "log-start-offset-checkpoint").write_text("0\n1\nclicks 0 1\n")
        clean(path)
        restore(path, disk)

    before["log-start-offset-checkpoint"] = b"0\n1\nclicks 0 1\n"
    steps = 0
    for _ in crashes(run):
        assert_no_gap(path / "clicks-0")
        clean(path, now_ms=NOW_MS + DAY_MS)  # what still waits is due, but held, or not yet begun with
        restore(path)
        if LogDir(path).holds():
            assert data(path) == before
        steps += 1
    assert steps > 20


@pytest.mark.parametrize("expired", [3, 4])
def test_power_loss_within_a_restore_leaves_a_log_without_a_gap(tmp_path, expired):
    path = tmp_path / "data"

    def run(disk):
        a_log_dir(path, expired=expired)
        clean(path)
        restore(path, disk)

    partition, orders = path / "clicks-0", 0
    for disk in crashes(run):
        disk.unsynced = [c for c in disk.unsynced if c.path.parent == partition and not c.path.name.endswith(".tmp")]
        for lost in after_power_loss(partition, disk, tmp_path / "lost"):
            assert_no_gap(lost)
            orders += 1
    assert orders > 30


def assert_no_gap(partition):
    """As a broker finds it, which deletes what still waits: the log ends as ever, and each segment where the next
    one begins."""
    segments = list_partition(partition).segments
    for segment, following in pairwise(segments):
        assert next_offset_of(segment) == following.base_offset
    assert next_offset_of(segments[-1]) == 8


class TestHold:
    def test_held_partition_keeps_everything_and_says_so(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        restore(log_dir)
        before = contents(log_dir)
        for layers in (LAYERS, COMPACTED):
            planned, outcome = clean(log_dir, layers, now_ms=NOW_MS + 9 * DAY_MS)
            assert {v.reason.code for v in planned.partitions[0].verdicts} == {ReasonCode.HELD}
            assert "restore --release clicks-0" in planned.partitions[0].verdicts[0].reason.text
            assert (outcome.results, outcome.swept_bytes) == ({}, 0)
        assert contents(log_dir) == before

    def test_hold_outlives_journals(self, tmp_path, monkeypatch):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        restore(log_dir)
        monkeypatch.setattr("cleaner.engine.journal.SIZE_MAX_BYTES", 1)
        for _ in range(3):
            Journal(log_dir, FileSystem()).record("recover", NOW_MS, partition="other-0")
        assert [entry["what"] for entry in read_journal(log_dir)] == ["recover"] * 2
        assert not clean(log_dir)[0].has_work

    def test_released_partition_is_cleaned_again(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        restore(log_dir)
        assert a_restorer(log_dir).release(everything) == (CLICKS,)
        assert not (log_dir / HOLDS_FILE).exists()
        assert [entry["what"] for entry in read_journal(log_dir)] == ["delete", "restore", "release"]
        clean(log_dir)
        assert [r.offset for r in records_in(log_dir / "clicks-0")] == [6, 7]
        assert len(codes(a_restorer(log_dir).plan(everything))) == 3  # and it can be taken back again

    def test_release_leaves_other_holds(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        (log_dir / HOLDS_FILE).write_text("0\n2\nclicks 0 5\ngone 3 6\n")
        assert a_restorer(log_dir).release(lambda tp: tp == CLICKS) == (CLICKS,)
        assert LogDir(log_dir).holds() == {TopicPartition("gone", 3): 6}
        assert a_restorer(log_dir).release(lambda tp: tp == CLICKS) == ()

    def test_second_restore_keeps_the_first_ones_time(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        (log_dir / HOLDS_FILE).write_text("0\n1\nclicks 0 5\n")
        shutil.rmtree(log_dir)
        a_log_dir(log_dir)
        clean(log_dir)
        (log_dir / HOLDS_FILE).write_text("0\n1\nclicks 0 5\n")
        restore(log_dir)
        assert LogDir(log_dir).holds() == {CLICKS: 5}

    def test_garbled_holds_stop_every_run_on_the_dir(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        (log_dir / HOLDS_FILE).write_text("0\n2\nclicks 0 5\n")
        before = contents(log_dir)
        planned, _ = clean(log_dir)
        assert "give up every hold" in planned.log_dirs[0].facts.errors[0]
        with pytest.raises(CorruptHolds):
            restore(log_dir)
        assert contents(log_dir) == before


class TestRefusals:
    def refused(self, log_dir):
        """Codes of what stays, after a restore that must change nothing."""
        before = contents(log_dir)
        (result,) = restore(log_dir)
        assert contents(log_dir) == before
        assert not LogDir(log_dir).holds()
        return [verdict.code for verdict in result.restoration.verdicts]

    def test_file_that_is_gone(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / "clicks-0" / f"{4:020d}.timeindex.deleted").unlink()
        assert self.refused(log_dir) == [RestoreCode.FILE_GONE, RestoreCode.GAP, RestoreCode.GAP]

    def test_file_that_changed(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / "clicks-0" / f"{4:020d}.log.deleted").write_bytes(b"")
        assert self.refused(log_dir) == [RestoreCode.CHANGED_SINCE, RestoreCode.GAP, RestoreCode.GAP]

    def test_file_that_is_there_again(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / "clicks-0" / f"{4:020d}.index").write_bytes(b"")
        assert self.refused(log_dir)[0] is RestoreCode.OVERLAP

    def test_segment_that_the_log_covers_again(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / "clicks-0" / f"{5:020d}.log").write_bytes(b"")
        assert self.refused(log_dir)[0] is RestoreCode.OVERLAP

    def test_log_start_that_moved_on(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nclicks 0 7\n")
        assert self.refused(log_dir)[0] is RestoreCode.CHANGED_SINCE

    def test_leader_epochs_that_are_others(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("0\n1\n4 6\n")
        assert self.refused(log_dir)[0] is RestoreCode.CHANGED_SINCE

    def test_compaction_that_followed(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data", segments=6)
        clean(log_dir, COMPACTED)
        assert [entry["what"] for entry in read_journal(log_dir)] == ["delete", "compact"]
        assert set(self.refused(log_dir)) == {RestoreCode.COMPACTED_SINCE}

    def test_compaction_whose_line_was_cut_off_is_told_by_the_first_dirty_offset(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data", segments=6)
        clean(log_dir, COMPACTED)
        keep_lines(log_dir, 1)
        assert [entry["what"] for entry in read_journal(log_dir)] == ["delete"]
        assert set(self.refused(log_dir)) == {RestoreCode.COMPACTED_SINCE}

    def test_compaction_between_two_deletions_is_told_by_what_the_second_one_noted(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data", segments=6)
        clean(log_dir, COMPACTED)
        clean(log_dir, configured(clicks={"cleanup.policy": "delete", "retention.bytes": "1"}))
        keep_lines(log_dir, 1, 3)
        assert [entry["what"] for entry in read_journal(log_dir)] == ["delete", "delete"]
        found = dict(codes(restore(log_dir)))
        assert {found[base] for base in (0, 2, 4)} == {RestoreCode.COMPACTED_SINCE}
        assert found[6] is RestoreCode.RESTORABLE

    @pytest.mark.parametrize(("checkpoint", "code"), [(True, "COMPACTED_SINCE"), (False, "RESTORABLE")])
    def test_line_that_may_have_told_of_a_compaction(self, tmp_path, checkpoint, code):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        with (log_dir / JOURNAL_FILE).open("ab") as file:
            file.write(b"damaged\n")
        if checkpoint:
            (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nclicks 0 6\n")
        assert {found for _, found in codes(a_restorer(log_dir).plan(everything))} == {code}

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda undo: undo.pop("files"),
            lambda undo: undo["files"][0].pop(),
            lambda undo: undo["files"][0].__setitem__(0, "../../etc/passwd"),
            lambda undo: undo["files"][0].__setitem__(0, f"{0:020d}.log.deleted"),
            lambda undo: undo["files"][0].__setitem__(1, "7"),
            lambda undo: undo.update(files=[]),
            lambda undo: undo.update(end_offset=None),
            lambda undo: undo.update(leader_epochs=[[1]]),
            lambda undo: undo.update(roll_at_offset=True),
            lambda undo: undo.update(topic_id=7),
        ],
    )
    def test_line_that_cannot_be(self, tmp_path, spoil):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (entry,) = read_journal(log_dir)
        spoil(entry["undo"])
        (log_dir / JOURNAL_FILE).write_bytes(encode_entry(entry))
        assert restore(log_dir) == ()

    def test_files_that_no_line_tells_of(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        (log_dir / JOURNAL_FILE).unlink()
        assert restore(log_dir) == ()

    def test_partition_that_cannot_be_read_stops_no_other(self, tmp_path):
        log_dir = a_log_dir(tmp_path / "data")
        clean(log_dir)
        bad = PartitionDir(log_dir, "bad-0").segment(0, keyed(0, "a=1"))
        bad.log(0).rename(bad.path / f"{0:020d}.log.deleted")
        (bad.path / "leader-epoch-checkpoint").write_text("0\nmany\n")
        broken, restored = restore(log_dir)
        assert "leader-epoch-checkpoint" in broken.error
        assert (restored.error, len(restored.restoration.restorable)) == (None, 3)


def test_newest_segments_come_back_where_the_oldest_cannot(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir)
    (log_dir / "clicks-0" / f"{0:020d}.log.deleted").unlink()
    (result,) = restore(log_dir)
    assert codes([result]) == [(4, "RESTORABLE"), (2, "RESTORABLE"), (0, "FILE_GONE")]
    assert [record.offset for record in records_in(log_dir / "clicks-0")] == [2, 3, 4, 5, 6, 7]
    assert (log_dir / "clicks-0" / "leader-epoch-checkpoint").read_text() == "0\n3\n0 2\n1 3\n5 5\n"


def test_segment_that_was_rolled_and_written_to_stays(tmp_path):
    log_dir = a_log_dir(tmp_path / "data", expired=4)
    clean(log_dir)
    (log_dir / "clicks-0" / f"{8:020d}.log").write_bytes(keyed(8, "c=8"))
    restore(log_dir)
    assert [record.offset for record in records_in(log_dir / "clicks-0")] == [*range(9)]


def test_plan_changes_nothing_and_takes_no_lock(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir)
    before = contents(log_dir)
    with LogDir(log_dir).lock(FileSystem()):
        assert len(codes(a_restorer(log_dir).plan(everything))) == 3
        for act in (a_restorer(log_dir).restore, a_restorer(log_dir).release):
            with pytest.raises(LogDirLocked):
                act(everything)
    assert contents(log_dir) == before


def test_other_partitions_than_the_wanted_stay(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir)
    assert a_restorer(log_dir).restore(lambda tp: tp.topic == "orders") == ()
    assert not LogDir(log_dir).holds()


def test_full_disk_stops_a_restore_before_its_first_rename(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir)
    before = contents(log_dir)
    (result,) = restore(log_dir, FullDisk(0, frozenset(Purpose)))
    assert "no space" in result.error
    assert contents(log_dir) == before


def test_journal_tells_what_came_back(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir)
    restore(log_dir)
    deleted, restored = read_journal(log_dir)
    assert (restored["what"], restored["partition"], restored["log_start_offset"]) == ("restore", "clicks-0", 0)
    assert restored["bytes"] == deleted["bytes"]
    assert [s["base_offset"] for s in restored["segments"]] == [4, 2, 0]


def test_line_of_a_restore_vouches_for_no_clock(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    layers = configured("clock.jump.max=30d", clicks=EXPIRING)
    right, wrong = (FakeClock(ms, Boot("this boot", ms - DAY_MS)) for ms in (NOW_MS, NOW_MS + 400 * DAY_MS))
    a_cleaner(log_dir, LAYERS, clock=right).clean(request())
    restorer = Restorer([LogDir.open(log_dir)], Means(FileSystem(), wrong, Silent()))
    assert restorer.restore(everything)[0].is_done
    assert restorer.release(everything) == (CLICKS,)
    planned, _ = a_cleaner(log_dir, layers, clock=wrong).clean(request(wrong.now_ms()))
    assert planned.log_dirs[0].guard.code is ReasonCode.CLOCK_JUMPED


def test_deletion_without_a_delay_notes_nothing_that_could_take_it_back(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    clean(log_dir, delete_delay_ms=0)
    assert ["undo" in entry for entry in read_journal(log_dir)] == [False]
    assert restore(log_dir) == ()


def test_journal_of_a_deletion_stays_json_of_known_keys(tmp_path):
    log_dir = a_log_dir(tmp_path / "data", expired=1)
    clean(log_dir)
    (entry,) = read_journal(log_dir)
    assert json.loads(json.dumps(entry["undo"])) == {
        "files": [[f"{0:020d}{s}", *_facts(log_dir, f"{0:020d}{s}")] for s in (".index", ".log", ".timeindex")],
        "end_offset": 2,
        "log_start_checkpoint": None,
        "cleaner_checkpoint": None,
        "leader_epochs": [[0, 0], [1, 3], [5, 5]],
        "roll_at_offset": None,
        "rolled_snapshot": False,
        "topic_id": None,
    }


def _facts(log_dir, name):
    status = (log_dir / "clicks-0" / f"{name}.deleted").stat()
    return status.st_size, status.st_mtime_ns


RETAINED = ("clicks-0", "sized-0", "mixed-0", "trimmed-0", "single-0")


@pytest.mark.parametrize(("limit", "rolls"), [("retention.bytes=1", False), ("retention.ms=1", True)])
def test_real_log_dir_is_restored_in_every_byte(samples, tmp_path, limit, rolls):
    path = samples.copy("before", tmp_path / "data", RETAINED)
    before, starts = data(path), LogDir(path).offsets("log-start-offset-checkpoint")
    loaded = load_layers(deleted_from_by_name(path), [path], ["retention.ms=-1", limit])
    planned, _ = Cleaner(Configured(loaded.log_dirs, loaded.layers)).clean(Request(samples.cleaned_at_ms("after")))
    deletions = [p.deletion for p in planned.partitions if p.deletion]
    assert len(deletions) >= 4
    assert {deletion.roll_at_offset is not None for deletion in deletions} == {rolls}
    assert [result.error for result in restore(path)] == [None] * len(deletions)
    assert LogDir(path).offsets("log-start-offset-checkpoint") == starts
    nobodys_order = "log-start-offset-checkpoint"
    assert {**data(path), nobodys_order: b""} == {**before, nobodys_order: b""}
