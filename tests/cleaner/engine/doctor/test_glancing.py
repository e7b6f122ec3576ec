"""What the ends of a segment's files show, without a walk over its batches."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from cleaner.engine.doctor.glancing import Glance, LogEnd, glance_at, tail_at_end
from cleaner.engine.explain.explaining import Glanced
from policies.findings.findings import Circumstances
from storage.anomalies import Anomaly, EpochRun
from storage.indexes import RELATIVE_OFFSET_MAX
from storage.log.listing import list_partition
from storage.names import FileKind
from storage.records import Record, encode_batch
from storage.scan.small_segments import SmallSegments
from tests.partition_dirs import NOW_MS, PartitionDir, keyed

CLEAN = Circumstances(is_live=False, is_clean=True, recovery_point=0, log_start_offset=0, was_compacted=False)
ENTRY, ZERO = struct.pack(">qi", NOW_MS, 0), bytes(12)


@pytest.fixture
def made(tmp_path: Path) -> PartitionDir:
    """Offsets 0, 1 and 2, a segment each, and an entry in each time index."""
    made = PartitionDir(tmp_path)
    for base in range(3):
        made.segment(base, keyed(base, f"k{base}=v", partition_leader_epoch=base))
        made.log(base).with_suffix(".timeindex").write_bytes(ENTRY)
    return made


def glance(made: PartitionDir, circumstances: Circumstances = CLEAN, end: LogEnd | None = None, **named: Any) -> Glance:
    """Look twice: as every command does, and as the doctor does, which reads what is small at once."""
    given, listing = {"is_unfinished": False, "keys": None} | named, list_partition(made.path)
    glances = [Glanced.at(listing, small, with_keys=True) for small in (None, SmallSegments())]
    one, other = (glance_at(glanced, circumstances, end or LogEnd(3, 0), **given) for glanced in glances)
    assert one == other
    return one


def test_a_glance_knows_sizes_ends_and_the_first_epoch_of_each_segment(made: PartitionDir) -> None:
    found = glance(made)
    size_bytes = len(keyed(0, "k0=v"))
    assert [(one.base_offset, one.next_offset, one.size_bytes, one.end_position) for one in found.facts] == [
        (base, base + 1, size_bytes, size_bytes) for base in range(3)
    ]
    assert [one.epochs for one in found.facts] == [(EpochRun(base, base, base, 0),) for base in range(3)]
    assert [(one.seen, one.missing, one.events, one.aborted) for one in found.facts] == [((), (), (), ())] * 3
    assert found.unkeyed_offsets == ()


@pytest.mark.parametrize(("tail", "anomaly"), [(b"\0" * 30, Anomaly.ZERO_TAIL), (b"\0" * 29 + b"x", Anomaly.TAIL)])
def test_bytes_behind_the_end_of_the_log_are_told_of_the_active_segment(
    made: PartitionDir, tail: bytes, anomaly: Anomaly
) -> None:
    size_bytes = made.log(2).stat().st_size
    made.log(2).write_bytes(made.log(2).read_bytes() + tail)
    *closed, active = glance(made, end=LogEnd(3, 30)).facts
    assert [one.seen for one in closed] == [(), ()]
    assert [(one.anomaly, one.position) for one in active.seen] == [(anomaly, size_bytes)]
    assert (active.end_position, active.next_offset) == (size_bytes, 3)
    (segment,) = list_partition(made.path).segments[2:]
    assert tail_at_end(segment, 30, 3) == active.seen[0]
    assert tail_at_end(segment, 32, 3).anomaly is Anomaly.TAIL


@pytest.mark.parametrize(
    ("content", "timestamp_ms", "is_unfinished", "told"),
    [
        (None, NOW_MS, False, "missing"),
        (None, NOW_MS, True, None),
        (b"", NOW_MS, False, (Anomaly.TIME_END, 0)),
        (b"", NOW_MS, True, None),
        (b"", 0, False, (Anomaly.TIME_END, 0)),
        (b"", -1, False, None),
        (ENTRY, NOW_MS, False, None),
        (ZERO, NOW_MS, False, (Anomaly.TIMES_ZERO, 0)),
        (ZERO, 1, False, (Anomaly.TIMES_ZERO, 0)),
        (ZERO, 0, False, None),
        (ENTRY + ZERO, NOW_MS, False, (Anomaly.TIMES_ZERO, 12)),
        (ENTRY + ZERO, 0, False, (Anomaly.TIMES_ZERO, 12)),
        (ZERO + ENTRY, NOW_MS, False, None),
        (ENTRY + ZERO[:5], NOW_MS, False, None),
        (ENTRY + ZERO + ZERO[:5], NOW_MS, False, (Anomaly.TIMES_ZERO, 17)),
        (ZERO[:5], NOW_MS, False, None),
    ],
)
def test_a_time_index_that_is_missing_empty_or_ends_with_zeros_is_seen(
    made: PartitionDir, content: bytes | None, timestamp_ms: int, is_unfinished: bool, told: Any
) -> None:
    made.log(0).write_bytes(keyed(0, "k0=v", timestamp_ms=timestamp_ms))
    index = made.log(0).with_suffix(".timeindex")
    index.unlink() if content is None else index.write_bytes(content)
    first, *_ = glance(made, is_unfinished=is_unfinished).facts
    assert first.missing == ((FileKind.TIME_INDEX,) if told == "missing" else ())
    seen = [(one.anomaly, one.position) for one in first.seen]
    assert seen == ([] if told in (None, "missing") else [told])


def test_indexes_of_what_the_next_start_recovers_are_not_looked_at(made: PartitionDir) -> None:
    for base in range(3):
        made.log(base).with_suffix(".timeindex").write_bytes(b"")
    killed = CLEAN._replace(is_clean=False, recovery_point=1)
    assert [bool(one.seen) for one in glance(made, killed).facts] == [True, False, False]
    assert [bool(one.seen) for one in glance(made).facts] == [True] * 3


@pytest.mark.parametrize(("ahead", "is_told"), [(RELATIVE_OFFSET_MAX, False), (RELATIVE_OFFSET_MAX + 1, True)])
def test_an_offset_that_no_index_of_its_segment_can_hold_is_seen(tmp_path: Path, ahead: int, is_told: bool) -> None:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), keyed(ahead, "b=2"))
    made.segment(ahead + 1, keyed(ahead + 1, "c=3"))
    first, _ = glance(made, end=LogEnd(ahead + 2, 0), is_unfinished=True).facts
    assert [(one.anomaly, one.offset) for one in first.seen] == [(Anomaly.OVERFLOW, ahead)] * is_told


def test_segments_that_begin_with_a_record_without_a_key_are_told_if_somebody_asks(made: PartitionDir) -> None:
    unkeyed = encode_batch([Record(1, NOW_MS, b"k", b"v"), Record(2, NOW_MS, None, b"v")])
    made.log(1).write_bytes(unkeyed)
    made.log(2).write_bytes(keyed(2, "k=v") + encode_batch([Record(3, NOW_MS, None, b"v")]))
    assert glance(made, keys=SmallSegments()).unkeyed_offsets == (1,)
    assert glance(made).unkeyed_offsets == ()
