"""Checkpoint files: what a broker reads, and what takes its log dir offline."""

from pathlib import Path

import pytest

from storage.checkpoints import (
    CorruptCheckpoint,
    LeaderEpochEntry,
    format_leader_epochs,
    format_offset_checkpoint,
    parse_hold_ids,
    parse_leader_epochs,
    parse_offset_checkpoint,
    parse_partition_metadata,
    truncate_from_end,
    truncate_from_start,
)
from storage.names import TopicPartition

PATH = Path("checkpoint")
EPOCHS = [LeaderEpochEntry(0, 0), LeaderEpochEntry(2, 100), LeaderEpochEntry(5, 200)]


def test_offset_checkpoint_comes_back():
    entries = {TopicPartition("orders", 3): 42, TopicPartition("a-b", 0): (1 << 63) - 1}
    assert parse_offset_checkpoint(format_offset_checkpoint(entries), PATH) == entries


def test_offset_checkpoint_is_written_as_kafka_writes_it():
    assert format_offset_checkpoint({TopicPartition("orders", 3): 42}) == b"0\n1\norders 3 42\n"


@pytest.mark.parametrize("data", [b"", b"0\n", b"0"])
def test_a_file_that_ends_before_its_count_has_no_entries(data):
    assert parse_offset_checkpoint(data, PATH) == {}


@pytest.mark.parametrize("data", [b"0\n1\na  0\t7 \n", b"0\r\n1\r\na 0 7\r\n", b"0\n1\na 0 7", b"0\n+1\na 0 +7\n"])
def test_blanks_and_line_ends_that_java_takes_are_taken(data):
    assert parse_offset_checkpoint(data, PATH) == {TopicPartition("a", 0): 7}


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"1\n0\n", 1),
        (b"x\n0\n", 1),
        (b" 0\n0\n", 1),
        (b"0\nx\n", 2),
        (b"0\n2\na 0 7\n", 2),
        (b"0\n0\na 0 7\n", 2),
        (b"0\n2\na 0 7\n\n", 4),
        (b"0\n1\na 0\n", 3),
        (b"0\n1\na 0 7 8\n", 3),
        (b"0\n1\n a 0 7\n", 3),
        (b"0\n1\na x 7\n", 3),
        (b"0\n1\na 0 7.5\n", 3),
        (b"0\n1\na 2147483648 7\n", 3),
        (b"0\n1\na 0 9223372036854775808\n", 3),
        (b"0\n1\na 0 " + b"9" * 10_000 + b"\n", 3),
        (b"0\n1\n\xff 0 7\n", 0),
    ],
)
def test_what_a_broker_would_not_read_is_corrupt_and_its_line_is_named(data, line):
    with pytest.raises(CorruptCheckpoint) as caught:
        parse_offset_checkpoint(data, PATH)
    assert caught.value.line == line


def test_leader_epochs_come_back_in_ascending_order():
    assert parse_leader_epochs(format_leader_epochs(reversed(EPOCHS)), PATH) == EPOCHS


@pytest.mark.parametrize(
    ("start_offset", "kept"),
    [
        (0, EPOCHS),
        (50, [(0, 50), (2, 100), (5, 200)]),
        (100, [(2, 100), (5, 200)]),
        (150, [(2, 150), (5, 200)]),
        (900, [(5, 900)]),
    ],
)
def test_truncated_from_start_the_epoch_of_the_new_start_begins_there(start_offset, kept):
    assert truncate_from_start(EPOCHS, start_offset) == kept


def test_truncated_below_all_epochs_nothing_changes():
    assert truncate_from_start(EPOCHS[1:], 50) == EPOCHS[1:]


@pytest.mark.parametrize(("end_offset", "count"), [(0, 0), (1, 1), (100, 1), (101, 2), (900, 3)])
def test_truncated_from_end_epochs_that_begin_at_or_behind_it_go(end_offset, count):
    assert truncate_from_end(EPOCHS, end_offset) == EPOCHS[:count]


def test_topic_id_is_read():
    assert parse_partition_metadata(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", PATH) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"version: 0\n", 2),
        (b"version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", 1),
        (b"version: one\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", 1),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        (b"version: 0\ntopic_id: AAAA", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA+Q", 2),
        (b"version: 0\ntopic: AAAAAAAAAAAAAAAAAAAAAQ", 2),
    ],
)
def test_partition_metadata_without_a_topic_id_is_corrupt(data, line):
    with pytest.raises(CorruptCheckpoint) as caught:
        parse_partition_metadata(data, PATH)
    assert caught.value.line == line


def test_ids_of_holds_that_were_cut_short_are_told_by_the_path_alone() -> None:
    with pytest.raises(CorruptCheckpoint) as caught:
        parse_hold_ids(b"0\n0\n", Path("/data/.logcleaner-hold-ids"))
    assert str(caught.value).startswith("/data/.logcleaner-hold-ids: names no partition: it was cut short")
