"""Which partitions count as lost: by the checkpoints they had records, and no directory is here."""

from __future__ import annotations

import pytest

from policies.starting.lost import LostPartition, lost_partitions
from storage.names import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("watermark", "point", "log_start", "present", "assigned", "is_clean", "is_lost"),
    [
        (9, 9, 0, [], [ORDERS], False, True),
        (0, 9, 0, [], [ORDERS], False, True),
        (9, 9, 0, [ORDERS], [ORDERS], False, False),
        (9, 9, 9, [], [ORDERS], False, False),
        (0, 0, 0, [], [ORDERS], True, False),
        (9, 9, 0, [], [], True, False),
        (9, 9, 0, [], None, True, True),
        (9, 9, 0, [], None, False, False),
    ],
)
def test_lost(
    watermark: int,
    point: int,
    log_start: int,
    present: list[TopicPartition],
    assigned: list[TopicPartition] | None,
    is_clean: bool,
    is_lost: bool,
) -> None:
    ends = {ORDERS: watermark}, {ORDERS: point}
    found = list(lost_partitions(ends, {ORDERS: log_start}, present, assigned, is_clean=is_clean))
    assert found == ([LostPartition(ORDERS, log_start, 9)] if is_lost else [])
