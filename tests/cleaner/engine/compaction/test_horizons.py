"""Delete horizons at the ends of int64: "forever" is a ``delete.retention.ms`` that people set."""

from __future__ import annotations

import pytest

from policies.config.config_keys import LONG_MAX
from policies.retain import new_delete_horizon_ms
from storage.codecs.compression import Compression
from storage.records import ControlType, Record, encode_message
from tests.batches import encode_control_batch, iter_batches
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    records_in,
    request,
)

ROUNDS_MS = (NOW_MS, NOW_MS + 1, NOW_MS + (1 << 40))
LARGEST_MS = LONG_MAX - NOW_MS
"""The longest retention of which the first round's horizon is an int64."""


def cleaned(directory: PartitionDir, retention_ms: int, now_ms: int, **others: str) -> None:
    """One round over all that lies before a new active segment."""
    base = directory.end_offset
    directory.segment(base, keyed(base, f"x{base}=1")).segment(base + 1, keyed(base + 1, f"active{base}=1"))
    committed(directory.path.parent, directory)
    layers = configured(orders={**COMPACT, "delete.retention.ms": str(retention_ms), **others})
    _, outcome = a_cleaner(directory.path.parent, layers).clean(request(now_ms, delete_delay_ms=0))
    assert [result.error for result in outcome.results.values()] == [None]


def tombstones(directory: PartitionDir) -> list[int]:
    return [record.offset for record in records_in(directory.path) if record.value is None]


def horizons(directory: PartitionDir) -> set[int | None]:
    batches = [b for p in sorted(directory.path.glob("*.log")) for b in iter_batches(p.read_bytes(), p)]
    return {batch.header.delete_horizon_ms for batch in batches if batch.base_offset < 10}


@pytest.mark.parametrize(
    ("now_ms", "retention_ms", "horizon_ms"),
    [
        (NOW_MS, 0, NOW_MS),
        (NOW_MS, LARGEST_MS, LONG_MAX),
        (NOW_MS, LARGEST_MS + 1, None),
        (NOW_MS, LONG_MAX, None),
        (LONG_MAX, 0, LONG_MAX),
        (LONG_MAX, LONG_MAX, None),
        (0, LONG_MAX, LONG_MAX),
        (-1, 0, None),
        (-1, 1, 0),
        (-(1 << 63), LONG_MAX, None),
    ],
)
def test_a_horizon_is_set_unless_it_is_no_int64_or_before_the_epoch(
    now_ms: int, retention_ms: int, horizon_ms: int | None
) -> None:
    assert new_delete_horizon_ms(now_ms, retention_ms) == horizon_ms


def test_delete_retention_counts_from_the_wall_clock_where_the_run_takes_an_earlier_time(tmp_path) -> None:
    """``--now`` in the past: the tombstones must not go early at the next run, which takes the wall clock."""
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a", "b=2"))
    cleaned(directory, DAY_MS, NOW_MS - 400 * DAY_MS)
    assert horizons(directory) == {None, NOW_MS + DAY_MS}
    cleaned(directory, DAY_MS, NOW_MS + DAY_MS - 1)
    assert tombstones(directory) == [2]
    cleaned(directory, DAY_MS, NOW_MS + DAY_MS)
    assert tombstones(directory) == []


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4, Compression.GZIP])
@pytest.mark.parametrize(
    ("retention_ms", "horizon_ms"),
    [(LARGEST_MS, LONG_MAX), (LARGEST_MS + 1, None), (1 << 62, 1 << 62), (LONG_MAX, None)],
)
def test_tombstones_that_are_kept_for_ever_stay(
    tmp_path, rounds: str, compression: Compression, retention_ms: int, horizon_ms: int | None
) -> None:
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a", "b", "c=1", compression=compression))
    for now_ms in ROUNDS_MS:
        cleaned(directory, retention_ms, now_ms)
        assert tombstones(directory) == [1, 2]
    expected = horizon_ms + NOW_MS if horizon_ms == 1 << 62 else horizon_ms
    assert expected in horizons(directory)
    assert [record.timestamp_ms for record in records_in(directory.path)][:3] == [NOW_MS] * 3


@pytest.mark.parametrize("retention_ms", [LARGEST_MS + 1, LONG_MAX])
def test_a_marker_of_an_emptied_transaction_that_is_kept_for_ever_stays(tmp_path, retention_ms: int) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "timestamp_ms": NOW_MS - 2 * DAY_MS}  # not active any more
    data = keyed(0, "a=1", base_sequence=0, is_transactional=True, **producer)
    marker = encode_control_batch(ControlType.COMMIT, offset=1, coordinator_epoch=0, **producer)
    directory = PartitionDir(tmp_path).segment(0, data, marker, keyed(2, "a=2"))
    for now_ms in ROUNDS_MS:
        cleaned(directory, retention_ms, now_ms)
    path = directory.log(0)
    (found,) = [batch for batch in iter_batches(path.read_bytes(), path) if batch.header.is_control]
    assert found.header.delete_horizon_ms is None
    assert found.data == marker


@pytest.mark.parametrize("upgrades", ["true", "false"])
@pytest.mark.parametrize("retention_ms", [LARGEST_MS + 1, LONG_MAX])
def test_old_tombstones_that_are_kept_for_ever_stay(tmp_path, retention_ms: int, upgrades: str) -> None:
    pairs = ((b"a", b"1"), (b"a", None), (b"b", None), (b"c", b"1"))
    messages = [encode_message(Record(offset, NOW_MS, *pair), 1) for offset, pair in enumerate(pairs)]
    directory = PartitionDir(tmp_path).segment(0, *messages)
    for now_ms in ROUNDS_MS:
        cleaned(directory, retention_ms, now_ms, **{"compaction.upgrade.format": upgrades})
        assert tombstones(directory) == [1, 2]
