"""What ``diff`` calls superseded, expired, aborted or gone by retention, and what it calls damage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from cleaner.engine.compaction.key_map import Budget
from cleaner.engine.diff import record_diff as diff_module
from cleaner.engine.diff.comparing import ComparedDir, compared
from cleaner.engine.diff.record_diff import Cause
from cleaner.engine.diff.two_states import State
from cleaner.engine.journal import encode_entry
from storage.codecs.compression import Compression
from storage.errors import NotALogDir
from storage.log.listing import Listing
from storage.names import JOURNAL_FILE, MANIFEST_FILE
from tests.partition_dirs import COMPACT, NOW_MS, PartitionDir, a_cleaner, committed, configured, keyed, request

LAYERS = configured(orders=COMPACT)


@dataclass
class Pair:
    """Two log dirs with one partition each."""

    root: object

    def __post_init__(self):
        self.before, self.after = (PartitionDir(self.root / name) for name in ("before", "after"))

    def found(self, compacted_to=None, now_ms=NOW_MS, log_start=None):
        committed(self.root / "before", self.before)
        committed(self.root / "after", self.after)
        for name, offset in (("cleaner-offset", compacted_to), ("log-start-offset", log_start)):
            if offset is not None:
                (self.root / "after" / f"{name}-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")
        (only,) = compared(ComparedDir.open(self.root / "before"), ComparedDir.open(self.root / "after"), now_ms)
        return only

    def difference(self, *args, **options):
        found = self.found(*args, **options)
        assert found.error is None
        return found.difference

    def gone(self, *args, **options):
        difference = self.difference(*args, **options)
        assert difference.damage is None, difference.damage
        return {cause: count for cause, count in difference.gone.items() if count}

    def damage(self, *args, **options):
        return self.difference(*args, **options).damage


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path)


def test_equal_states_lack_nothing(pair):
    for state in (pair.before, pair.after):
        state.segment(0, keyed(0, "a=1", "b")).segment(2, keyed(2, "a=2"))
    difference = pair.difference()
    assert (difference.records, difference.kept, difference.added, difference.damage) == (3, 3, 0, None)
    assert sum(difference.gone.values()) == 0


def test_superseded_record_may_be_gone_as_far_as_the_log_was_compacted(pair):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2")).segment(3, keyed(3, "c=1"))
    pair.after.segment(0, keyed(1, "b=1"), keyed(2, "a=2")).segment(3, keyed(3, "c=1"))
    assert pair.gone(3) == {Cause.SUPERSEDED: 1}


@pytest.mark.parametrize("compacted_to", [None, 0])
def test_record_gone_where_nothing_was_compacted_is_damage(pair, compacted_to):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "b=2"))
    pair.after.segment(0, keyed(0, "a=1")).segment(2, keyed(2, "b=2"))
    assert (pair.damage(compacted_to).offset, pair.difference(compacted_to).damaged) == (1, 1)


def test_record_superseded_only_behind_what_was_compacted_is_damage(pair):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2"))
    pair.after.segment(0, keyed(1, "b=1")).segment(2, keyed(2, "a=2"))
    assert pair.damage(2).offset == 0


def test_last_record_of_a_key_gone_is_damage(pair):
    pair.before.segment(0, keyed(0, "a=1", "b=1", "c=1")).segment(3, keyed(3, "d=1"))
    pair.after.segment(0, keyed(0, "a=1")).segment(3, keyed(3, "d=1"))
    assert (pair.damage(3).offset, pair.difference(3).damaged) == (1, 2)


@pytest.mark.parametrize(("horizon_ms", "is_damage"), [(NOW_MS, False), (NOW_MS + 1, True), (None, True)])
def test_tombstone_may_be_gone_once_its_horizon_has_come(pair, horizon_ms, is_damage):
    pair.before.segment(0, keyed(0, "a", delete_horizon_ms=horizon_ms)).segment(1, keyed(1, "b=1"))
    pair.after.segment(1, keyed(1, "b=1"))
    pair.after.segment(0)
    assert (pair.damage(1) is not None) is is_damage
    if not is_damage:
        assert pair.gone(1) == {Cause.EXPIRED: 1}


def test_records_below_the_new_log_start_went_by_retention(pair):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "c=1", "d=1"))
    pair.after.segment(2, keyed(2, "c=1", "d=1"))
    assert pair.gone(log_start=3) == {Cause.RETENTION: 2}


@pytest.mark.parametrize(
    "changed",
    [
        keyed(0, "a=1", "b=2", "c=1"),
        keyed(0, "a=1", "B=1", "c=1"),
        keyed(0, "a=1", "b", "c=1"),
        keyed(0, "a=1", "c=1") + keyed(2, "c=1"),
        keyed(0, "a=1") + keyed(1, "b=1", timestamp_ms=NOW_MS + 1) + keyed(2, "c=1"),
        keyed(0, "a=1") + keyed(1, "b=1", producer_id=7, producer_epoch=0, base_sequence=0) + keyed(2, "c=1"),
    ],
    ids=["value", "key", "tombstone", "record", "timestamp", "producer"],
)
def test_changed_record_is_damage(pair, changed):
    pair.before.segment(0, keyed(0, "a=1", "b=1", "c=1"))
    pair.after.segment(0, changed)
    assert pair.damage(3).offset == 1
    assert "was changed" in pair.damage(3).cause


def test_record_that_was_not_there_is_damage_but_behind_the_end_it_was_appended(pair):
    pair.before.segment(0, keyed(0, "a=1"), keyed(5, "b=1"))
    pair.after.segment(0, keyed(0, "a=1"), keyed(3, "x=1"), keyed(5, "b=1", "c=1"))
    difference = pair.difference()
    assert (difference.damage.offset, difference.damaged, difference.added) == (3, 1, 1)


def test_offset_that_moved_is_damage(pair):
    pair.before.segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"), keyed(2, "c=1"))
    pair.after.segment(0, keyed(0, "a=1")).segment(1, keyed(2, "b=1"))
    assert pair.damage(1).offset == 1


@pytest.mark.parametrize("codec", list(Compression))
def test_batch_that_was_compressed_otherwise_holds_the_same_records(pair, codec):
    pair.before.segment(0, keyed(0, "a=1", "b=1"), keyed(2, "c=1"))
    pair.after.segment(0, keyed(0, "a=1", "b=1", compression=codec), keyed(2, "c=1"))
    assert pair.gone() == {}


def test_keys_that_outgrow_the_map_are_done_in_further_passes(pair, monkeypatch):
    monkeypatch.setattr(diff_module, "BUDGET", Budget(1 << 15, 0.9))
    names = [f"{number}=1" for number in range(5000)]
    pair.before.segment(0, keyed(0, *names), keyed(5000, *names)).segment(10_000, keyed(10_000, "z=1"))
    pair.after.segment(0, keyed(5000, *names)).segment(10_000, keyed(10_000, "z=1"))
    assert pair.gone(10_000) == {Cause.SUPERSEDED: 5000}


def test_torn_tail_of_either_side_is_not_looked_at(pair):
    pair.before.segment(0, keyed(0, "a=1"), keyed(1, "b=1")[:-3])
    pair.after.segment(0, keyed(0, "a=1"))
    pair.after.log(0).write_bytes(pair.after.log(0).read_bytes() + bytes(40))
    assert pair.gone() == {}


def test_damaged_batch_of_either_side_is_an_error_with_its_place(pair):
    pair.before.segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    pair.after.segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    data = bytearray(pair.after.log(0).read_bytes())
    data[-1] ^= 1
    pair.after.log(0).write_bytes(data)
    found = pair.found()
    assert found.is_damaged
    assert "CRC-32C mismatch" in found.error


def test_partition_that_the_later_place_lacks_is_damage(pair):
    pair.before.segment(0, keyed(0, "a=1"))
    pair.after.path.rename(pair.root / "after" / "other-0")
    assert "no such partition" in pair.found().error


def test_single_partition_directories_are_compared_whatever_their_names(tmp_path):
    before = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"))
    after = PartitionDir(tmp_path, "copy-7").segment(0).segment(1, keyed(1, "a=2"))
    before.segment(2, keyed(2, "z=1"))
    after.segment(2, keyed(2, "z=1"))
    (found,) = compared(ComparedDir.open(before.path), ComparedDir.open(after.path), NOW_MS)
    assert (found.name, found.difference.gone[Cause.SUPERSEDED], found.is_damaged) == ("orders-0", 1, False)


def test_place_that_is_neither_is_refused(tmp_path):
    with pytest.raises(NotALogDir, match="no partition directory with segments either"):
        ComparedDir.open(tmp_path)


def test_copy_is_held_against_its_manifest(tmp_path):
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))
    committed(tmp_path / "data", made)
    a_cleaner(tmp_path / "data", LAYERS).copy(request(), tmp_path / "copy", tool_version="1")
    before, after = ComparedDir.open(tmp_path / "data"), ComparedDir.open(tmp_path / "copy")
    (found,) = compared(before, after, NOW_MS)
    assert (found.difference.gone[Cause.SUPERSEDED], found.is_damaged) == (1, False)
    assert list(after.damaged_files()) == list(before.damaged_files()) == []
    (tmp_path / "copy/orders-0/00000000000000000002.index").write_bytes(b"12345678")
    assert [line.split(": ")[1] for line in after.damaged_files()] == ["has 8 bytes, 0 in the manifest"]
    assert (tmp_path / "copy" / MANIFEST_FILE).exists()


@pytest.mark.parametrize(
    ("kafka", "before", "after"),
    [("samples", "before", "after"), ("samples", "before2", "after2"), ("old_samples", "before", "after")],
)
def test_what_kafkas_own_cleaner_took_is_accounted_for(kafka, before, after, request):
    root = request.getfixturevalue(kafka).root
    whole = ["orders", "payments", "ledger", "log-*"]  # the others hold holes (tests/data/README.md)
    earlier, later = ComparedDir.open(root / before, whole), ComparedDir.open(root / after)
    shipped = {str(tp) for tp, path in later.partitions.items() if any(path.glob("*.log"))}
    found = [each for each in compared(earlier, later, NOW_MS) if each.name in shipped]
    assert [compared.name for compared in found if compared.is_damaged] == []
    gone = {cause for compared in found for cause, count in compared.difference.gone.items() if count}
    assert Cause.SUPERSEDED in gone


def begun(pair, time_ms=NOW_MS, end_offset=4, what="compact", partition="orders-0"):
    """The journal of the later state knows of a compaction; its checkpoint was not written."""
    entry = {
        "time_ms": time_ms,
        "what": what,
        "partition": partition,
        "first_dirty_offset": 0,
        "end_offset": end_offset,
    }
    (pair.root / "after" / JOURNAL_FILE).write_bytes(encode_entry(entry))


def test_what_the_done_part_of_an_unfinished_compaction_took_is_accounted_for(pair):
    """The first group is swapped, the second as it was, no checkpoint: superseded by what both states hold."""
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2", "b=2")).segment(4, keyed(4, "c=1"))
    pair.after.segment(0).segment(2, keyed(2, "a=2", "b=2")).segment(4, keyed(4, "c=1"))
    assert pair.damage().offset == 0
    begun(pair)
    assert pair.gone() == {Cause.SUPERSEDED: 2}


@pytest.mark.parametrize(
    "unrelated",
    [{"time_ms": NOW_MS - 1}, {"end_offset": 2}, {"what": "delete"}, {"partition": "orders-1"}],
    ids=lambda unrelated: next(iter(unrelated)),
)
def test_an_unfinished_compaction_excuses_nothing_that_it_cannot_have_done(pair, unrelated):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2", "b=2")).segment(4, keyed(4, "c=1"))
    pair.after.segment(0).segment(2, keyed(2, "a=2", "b=2")).segment(4, keyed(4, "c=1"))
    begun(pair, **unrelated)
    assert pair.damage().offset == 0


def test_the_last_record_of_a_key_stays_damage_beside_an_unfinished_compaction(pair):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2", "c=2")).segment(4, keyed(4, "c=1"))
    pair.after.segment(0).segment(2, keyed(2, "a=2", "c=2")).segment(4, keyed(4, "c=1"))
    begun(pair)
    assert (pair.damage().offset, pair.difference().damaged) == (1, 1)


def test_a_state_without_segments_was_never_written(tmp_path: Path) -> None:
    assert State(Listing(tmp_path, ()), 0, 0).newest_write_ms == 0
