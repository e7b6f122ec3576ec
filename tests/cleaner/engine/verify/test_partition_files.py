"""What index files and snapshots say of records that the log lacks, and what a start takes for its end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from cleaner.engine.verify.partition_files import partition_findings, tails_of
from policies.findings.findings import Circumstances, Finding, FindingCode, Harm, Noted, RepairGroup
from policies.findings.of_files import NamedBatch, NamedTime
from storage.anomalies import Anomaly, SeenAnomaly
from storage.log.listing import list_partition
from storage.log.producer_state import BatchMetadata, ProducerEntry, format_snapshot
from storage.names import FileKind, TopicPartition
from storage.scan.segment_contents import read_segment_contents
from storage.scan.walking import Hand
from storage.txn_index import AbortedTxn
from tests.partition_dirs import PartitionDir, keyed
from tests.policies.findings.logs import segment

BASE, NEXT, SIZE = 100, 106, 3
BATCHES = tuple(keyed(BASE + 2 * n, "a=1", "b=2") for n in range(SIZE))
STARTS = tuple(sum(map(len, BATCHES[:n])) for n in range(SIZE + 1))
WRONG = SeenAnomaly(Anomaly.ENTRY_BEYOND, FileKind.INDEX, 0, None, "it is wrong")


@pytest.fixture
def made(tmp_path: Path) -> PartitionDir:
    return PartitionDir(tmp_path).segment(BASE, *BATCHES)


def tail(made: PartitionDir, index: tuple[Any, ...] = (), times: tuple[Any, ...] = (), **named: Any) -> Any:
    """The tail of the one segment; by default the check saw something wrong."""
    made.log(BASE).with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *one) for one in index))
    made.log(BASE).with_suffix(".timeindex").write_bytes(b"".join(struct.pack(">qi", *one) for one in times))
    facts = segment(BASE, NEXT).facts._replace(
        **{"end_position": STARTS[-1], "largest_ms": 9, "size_bytes": STARTS[-1], "seen": (WRONG,), **named}
    )
    return next(tails_of(list_partition(made.path), [facts]), None)


def test_a_segment_whose_indexes_agree_has_no_tail_to_look_at(made: PartitionDir) -> None:
    assert tail(made, seen=()) is None
    other = segment(BASE + 1, NEXT).facts._replace(seen=(WRONG,))
    assert list(tails_of(list_partition(made.path), [other])) == []


def test_entries_behind_the_end_are_named_if_they_can_be(made: PartitionDir) -> None:
    index = ((5, 70), (6, 200), (7, -1), (8, 1 << 30), (9, (1 << 30) - 1), (0, 0))
    times = ((8, 5), (9, 6), (0, 7), (1 << 43, 8), ((1 << 43) - 1, 9))
    aborted = tuple(AbortedTxn(7, BASE, last, BASE) for last in (NEXT - 1, NEXT))
    found = tail(made, index, times, aborted=aborted)
    assert found[:3] == (BASE, STARTS[-1], 9)
    assert found.batches == [NamedBatch(NEXT, 200), NamedBatch(109, (1 << 30) - 1)]
    assert found.times == [NamedTime(9, NEXT), NamedTime((1 << 43) - 1, 109)]
    assert found.aborted == [NEXT]
    assert tail(made, seen=(), aborted=aborted[1:]).aborted == [NEXT]


@pytest.mark.parametrize(
    ("shifts", "shift_bytes"),
    [
        ((0, 0), 0),
        ((61, 61), 61),
        ((0, 61), 61),
        ((61, 0), 0),
        ((61, 62), 0),
        ((-1, -1), 0),
    ],
)
def test_an_index_that_leads_behind_its_batches_alike_tells_how_far(
    made: PartitionDir, shifts: tuple[int, ...], shift_bytes: int
) -> None:
    index = tuple((2 * n + 1, STARTS[n] + shift) for n, shift in enumerate(shifts, 1))
    assert tail(made, index).shift_bytes == shift_bytes
    for named in ({"is_damaged": True}, {"size_bytes": 0}, {"seen": (), "aborted": (AbortedTxn(7, 0, 1, 0),)}):
        assert tail(made, index, **named).shift_bytes == 0


def found_in(made: PartitionDir, **given: Any) -> list[Finding]:
    listing = list_partition(made.path)
    facts = [read_segment_contents(one, None, Hand(), lambda _: None, is_deep=False) for one in listing.segments]
    named = {"is_live": False, "is_clean": True, "recovery_point": 9, "log_start_offset": 0, "was_compacted": False}
    circumstances = Circumstances(**(named | given))
    noted = Noted(recovery_point=circumstances.recovery_point)
    name, rule = TopicPartition("orders", 0), NoCopies()
    return partition_findings(name, listing, facts, noted, circumstances, rule)  # type: ignore[arg-type]


def gaps_in(made: PartitionDir, **given: Any) -> list[Harm]:
    return [one.harm for one in found_in(made, **given) if one.code is FindingCode.OFFSET_GAP]


class NoCopies:
    """No ``.deleted`` log is an only copy."""

    def by_path(self, *_: object) -> tuple[()]:
        return ()


@pytest.fixture
def gap(tmp_path: Path) -> PartitionDir:
    """A log of offsets 0 to 1 and 5 to 8 whose checkpoint of leader epochs is there."""
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=2")).segment(5, keyed(5, "c=3", "d=4"), keyed(7, "e=5"))
    made.log(5).write_bytes(made.log(5).read_bytes() + keyed(8, "f=6"))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return made


@pytest.mark.parametrize(
    ("given", "count"),
    [({}, 1), ({"was_compacted": True}, 0), ({"is_clean": False}, 1), ({"is_live": True}, 1)],
)
def test_a_lone_gap_of_a_log_that_was_never_compacted_is_told(
    gap: PartitionDir, given: dict[str, bool], count: int
) -> None:
    assert len(gaps_in(gap, **given)) == count


def test_of_two_gaps_compaction_is_the_cause(gap: PartitionDir) -> None:
    gap.log(5).write_bytes(keyed(5, "c=3") + keyed(8, "f=6"))
    assert gaps_in(gap) == []


@pytest.mark.parametrize(("last_offset", "is_lost"), [(1, False), (2, True), (4, True), (5, False)])
def test_a_gap_in_which_a_snapshot_has_a_batch_lost_it(gap: PartitionDir, last_offset: int, is_lost: bool) -> None:
    producer = ProducerEntry(7, 0, -1, 5)
    producer.batches.append(BatchMetadata(0, last_offset, 0, 5))
    (gap.path / f"{9:020d}.snapshot").write_bytes(format_snapshot([producer]))
    assert [harm is Harm.DATA_LOST for harm in gaps_in(gap)] == [is_lost]


@pytest.mark.parametrize(
    ("entry", "is_clean", "told"),
    [
        (3, True, [(FindingCode.TORN_TAIL, RepairGroup.LOG_END)]),  # the index is evidence of lost batches
        (7, True, [(FindingCode.OFFSET_INDEX_WRONG, RepairGroup.DERIVED)]),
        (3, False, []),
    ],
)
def test_whole_batches_that_a_start_behind_a_clean_stop_does_not_count_are_told(
    made: PartitionDir, entry: int, is_clean: bool, told: list[tuple[FindingCode, RepairGroup]]
) -> None:
    made.log(BASE).with_suffix(".index").write_bytes(struct.pack(">ii", entry, STARTS[-1]))
    (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 100\n")
    found = found_in(made, is_clean=is_clean, recovery_point=NEXT, log_start_offset=BASE)
    early = [one for one in found if "takes offset 100 for the end" in one.text]
    assert [(one.code, one.repair) for one in early] == told
