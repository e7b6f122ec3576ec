"""Which partitions count as lost: by the checkpoints they had records, and no directory is here."""

from __future__ import annotations

import pytest

from policies.preflight.lost import LostPartition, SetAside, is_here, lost_partitions, sole_copies
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


@pytest.mark.parametrize(
    ("topic_id", "end_offset", "here", "placed", "noted", "is_sole"),
    [
        ("a", 9, [], {ORDERS: "a"}, [], True),
        (None, 9, [], {ORDERS: "a"}, [], True),
        ("a", 9, [ORDERS], {ORDERS: "a"}, [], False),
        ("a", 0, [], {ORDERS: "a"}, [], False),
        ("of the topic before", 9, [], {ORDERS: "a"}, [ORDERS], False),
        ("a", 9, [], {}, [ORDERS], False),
        ("a", 9, [], None, [ORDERS], True),
        ("a", 9, [], None, [], False),
    ],
)
def test_directory_that_was_set_aside_is_the_only_copy(
    topic_id: str | None,
    end_offset: int,
    here: list[TopicPartition],
    placed: dict[TopicPartition, str] | None,
    noted: list[TopicPartition],
    is_sole: bool,
) -> None:
    aside = SetAside("orders-0.x-stray", ORDERS, topic_id, 0, end_offset)
    assert list(sole_copies([aside], here, placed, noted)) == [aside] * is_sole


@pytest.mark.parametrize(
    ("suffix", "topic_id", "here_id", "here_ends", "lacks_from"),
    [
        ("stray", "a", "a", 0, 0),
        ("stray", "a", "a", 5, 5),
        ("stray", "a", "a", 9, None),
        ("stray", "a", "b", 0, None),
        ("stray", None, "a", 5, None),
        ("stray", None, "a", 0, 0),
        ("delete", "a", "a", 5, None),
        ("delete", "a", "a", 0, 0),
    ],
)
def test_directory_that_was_set_aside_has_what_its_partition_lacks(
    suffix: str, topic_id: str | None, here_id: str, here_ends: int, lacks_from: int | None
) -> None:
    aside = SetAside(f"orders-0.x-{suffix}", ORDERS, topic_id, 0, 9)
    found = aside.lacking_in(SetAside("orders-0", ORDERS, here_id, 0, here_ends))
    assert (found and found.first_offset, found and found.beside) == (lacks_from, None if found is None else "orders-0")


@pytest.mark.parametrize(
    ("directory_id", "known", "expected"),
    [(None, ["x"], True), ("x", ["x"], True), ("y", ["x"], False), ("y", [], True), (f"{'A' * 21}g", ["x"], True)],
)
def test_partition_is_placed_in_one_of_the_log_dirs(directory_id: str | None, known: list[str], expected: bool) -> None:
    assert is_here(directory_id, known) is expected
