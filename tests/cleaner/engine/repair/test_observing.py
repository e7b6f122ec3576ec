"""What a repair would do with each file of small partitions, and what it takes into account."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from cleaner.engine.repair.observing import PlannedRepair, Surroundings, in_order, look, plan_repairs, tail_of
from policies.findings.repairs import Repair, RepairCode, RepairKind, Target
from storage.log_dir import LogDir
from tests.partition_dirs import PartitionDir, committed, configured, keyed

BATCH = keyed(2, "c=1", "d=1")


@pytest.fixture
def made(tmp_path: Path) -> PartitionDir:
    """Offsets 0 to 3 in two segments, both batches indexed."""
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "b=1")).segment(2, BATCH)
    committed(tmp_path / "data", made)
    return made


def name(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


def target(made: PartitionDir, file: str, kind: RepairKind) -> Target:
    return Target(str(made.path / file), kind, ("X",))


def planned(made: PartitionDir, file: str, kind: RepairKind, **keys: str) -> list[PlannedRepair]:
    settings = {"index.interval.bytes": "0"} | {key.replace("_", "."): value for key, value in keys.items()}
    around = Surroundings([LogDir.open(made.path.parent)], configured(orders=settings))
    return list(plan_repairs([target(made, file, kind)], around))


def only(made: PartitionDir, file: str, kind: RepairKind, **keys: str) -> PlannedRepair:
    (found,) = planned(made, file, kind, **keys)
    return found


INDEX, EPOCHS = (name(0, ".index"), RepairKind.INDEX), ("leader-epoch-checkpoint", RepairKind.LEADER_EPOCHS)


def test_an_index_is_made_of_its_own_segment_and_any_other_file_of_all(made: PartitionDir) -> None:
    index, times = only(made, *INDEX), only(made, name(2, ".timeindex"), RepairKind.TIME_INDEX)
    assert [path.name for path, _ in index.sources] == [name(0, ".log")]
    assert [path.name for path, _ in times.sources] == [name(2, ".log")]
    others = (EPOCHS, (name(2, ".snapshot"), RepairKind.SNAPSHOT), (name(0, ".txnindex"), RepairKind.TXN_INDEX))
    for file, kind in others:
        found = only(made, file, kind)
        assert [path.name for path, _ in found.sources] == [name(0, ".log"), name(2, ".log")]
        assert [identity for _, identity in found.sources] == [look(made.log(0)), look(made.log(2))]
        assert (str(found.topic_partition), found.path, found.needs) == ("orders-0", made.path / file, ())


def test_a_file_that_waits_under_the_name_is_in_the_way_unless_it_is_the_same(made: PartitionDir) -> None:
    path, waiting = made.path / INDEX[0], made.path / f"{INDEX[0]}.deleted"
    path.write_bytes(b"damaged!")
    found = only(made, *INDEX)
    assert (found.repair.code, found.repair.size_bytes, found.identity) == (RepairCode.REPAIRABLE, 8, look(path))
    waiting.write_bytes(b"damaged!")
    assert only(made, *INDEX).repair.code is RepairCode.REPAIRABLE
    waiting.write_bytes(b"another!")
    assert only(made, *INDEX).repair.code is RepairCode.NAME_TAKEN
    path.unlink()
    missing = only(made, *INDEX)
    assert (missing.repair.size_bytes, missing.identity) == (None, None)
    assert (missing.repair.code, missing.content) == (RepairCode.NOTHING_TO_DO, b"")  # an empty one does no harm


def test_what_is_as_it_would_be_made_is_left(made: PartitionDir) -> None:
    content = only(made, *EPOCHS).content
    assert content is not None
    (made.path / EPOCHS[0]).write_bytes(content)
    assert only(made, *EPOCHS).repair.code is RepairCode.NOTHING_TO_DO


@pytest.mark.parametrize(
    ("file", "text", "is_evidence"),
    [
        ("replication-offset-checkpoint", "0\n1\norders 0 5\n", True),
        ("replication-offset-checkpoint", "0\n1\norders 0 4\n", False),
        ("replication-offset-checkpoint", "0\n1\nother 0 5\n", False),
        ("recovery-point-offset-checkpoint", "0\n1\norders 0 5\n", True),
        (f"orders-0/{name(5, '.snapshot')}", "x", True),
        (f"orders-0/{name(4, '.snapshot')}", "x", False),
    ],
)
def test_offsets_above_the_end_of_the_log_keep_what_is_made_of_all_of_it(
    made: PartitionDir, file: str, text: str, is_evidence: bool
) -> None:
    (made.path / EPOCHS[0]).write_text("damaged")
    (made.path / INDEX[0]).write_text("damaged")
    (made.path.parent / file).write_text(text)
    code = RepairCode.RECORDS_MISSING if is_evidence else RepairCode.REPAIRABLE
    assert only(made, *EPOCHS).repair.code is code
    assert only(made, *INDEX).repair.code is RepairCode.REPAIRABLE


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (name(0, ".log.swap"), "an interrupted compaction left files here"),
        (name(9, ".log/"), f"{name(9, '.log')} is no plain file"),
    ],
)
def test_a_partition_that_is_not_as_a_broker_leaves_it_is_not_touched(made: PartitionDir, file: str, told: str) -> None:
    path = made.path / file.rstrip("/")
    path.mkdir() if file.endswith("/") else path.write_bytes(BATCH)
    found = only(made, *INDEX).repair
    assert found.code is RepairCode.UNTOUCHABLE
    assert found.text.startswith(told)


def test_only_partitions_that_a_broker_serves_are_mended(made: PartitionDir) -> None:
    aside = made.path.rename(made.path.with_name(f"orders-0.{'ab' * 16}-stray"))
    (path := aside / INDEX[0]).write_bytes(b"damaged!")
    around = Surroundings([LogDir.open(aside.parent)], configured())
    elsewhere = Target("/nowhere/orders-0/leader-epoch-checkpoint", RepairKind.LEADER_EPOCHS, ("X",))
    first, second = plan_repairs([elsewhere, Target(str(path), RepairKind.INDEX, ("X",))], around)
    assert {one.repair.text for one in (first, second)} == {
        "only partitions that a broker serves are mended, and never the cluster metadata"
    }
    told = {one.path: (one.repair.size_bytes, str(one.topic_partition)) for one in (first, second)}
    assert told == {path: (8, "orders-0"), Path(elsewhere.path): (None, "orders-0")}


ZEROS = (name(2, ".log"), RepairKind.ZERO_TAIL)


@pytest.mark.parametrize(
    ("index", "watermark", "code"),
    [
        ((), 4, RepairCode.REPAIRABLE),
        ((), 5, RepairCode.RECORDS_MISSING),
        ((1, 0), 4, RepairCode.REPAIRABLE),
        ((1, len(BATCH) - 1), 4, RepairCode.REPAIRABLE),
        ((1, len(BATCH)), 4, RepairCode.RECORDS_MISSING),
    ],
)
def test_zeros_behind_the_last_batch_are_cut_where_nothing_speaks_of_more(
    made: PartitionDir, index: tuple[int, ...], watermark: int, code: RepairCode
) -> None:
    made.log(2).write_bytes(BATCH + bytes(100))
    made.log(2).with_suffix(".index").write_bytes(struct.pack(f">{len(index)}i", *index))
    (made.path.parent / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {watermark}\n")
    found = only(made, *ZEROS)
    assert (found.repair.code, found.repair.made_bytes, found.sources) == (code, len(BATCH), ())
    assert (found.content, found.tail_copy) == (None, None)


def test_targets_are_mended_by_offset_the_snapshot_first_and_cuts_last(made: PartitionDir) -> None:
    wanted = [
        ("leader-epoch-checkpoint", RepairKind.LEADER_EPOCHS),
        (name(0, ".index"), RepairKind.INDEX),
        (name(2, ".snapshot"), RepairKind.SNAPSHOT),
        (name(2, ".index"), RepairKind.INDEX),
        (name(2, ".txnindex"), RepairKind.TXN_INDEX),
        (name(0, ".log"), RepairKind.ZERO_TAIL),
        (name(2, ".log"), RepairKind.LOG_END),
    ]
    targets = [target(made, *one) for one in wanted]
    assert in_order(reversed(targets)) == targets


@pytest.mark.parametrize(
    ("kind", "made_bytes", "copy"),
    [
        (RepairKind.LOG_END, 60, f"{name(2, '.log')}.from-60"),
        (RepairKind.LOG_END, 0, f"{name(2, '.log')}.from-0"),
        (RepairKind.LOG_END, 100, None),
        (RepairKind.LOG_END, None, None),
        (RepairKind.ZERO_TAIL, 60, None),
    ],
)
def test_a_cut_at_the_end_of_a_log_keeps_what_it_cuts_off(
    made: PartitionDir, kind: RepairKind, made_bytes: int | None, copy: str | None
) -> None:
    decided = Repair(target(made, name(2, ".log"), kind), RepairCode.REPAIRABLE, "", 100, made_bytes)
    found: Any = PlannedRepair(decided, None, made.log(2)).tail_copy
    assert (found is None) is (copy is None)
    assert copy is None or found.name.startswith(copy)
    assert tail_of(made.log(2), len(BATCH) - 7) == BATCH[-7:]
    assert look(made.path / "missing") is None
