"""File and directory names."""

import pytest

from storage.names import (
    DirState,
    FileKind,
    FileState,
    SegmentFileName,
    TopicPartition,
    parse_partition_dir_name,
    parse_segment_file_name,
    parse_topic_partition,
    segment_file_name,
)


@pytest.mark.parametrize("kind", FileKind)
@pytest.mark.parametrize("state", FileState)
def test_segment_file_name_is_read_back(kind, state):
    name = segment_file_name(42, kind, state)
    assert parse_segment_file_name(name) == SegmentFileName(42, kind, state)
    assert str(SegmentFileName(42, kind, state)) == name


def test_suffix_of_the_state_comes_last():
    assert segment_file_name(42, FileKind.LOG, FileState.CLEANED) == "00000000000000000042.log.cleaned"


@pytest.mark.parametrize(
    "name",
    [
        "foo.log",
        ".log",
        "42",
        "00000000000000000042.log.tmp",
        "00000000000000000042.log.deleted.deleted",
        "00000000000000000042-0000000001.checkpoint",
        "-0000000000000000042.log",
        "99999999999999999999.log",  # above 2^63-1
        "٤٢.log",  # digits, but not ASCII ones
        "00000000000000000042.log\n",
        "leader-epoch-checkpoint",
    ],
)
def test_other_names_are_no_segment_files(name):
    assert parse_segment_file_name(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-3", TopicPartition("orders", 3)),
        ("a-b-0", TopicPartition("a-b", 0)),
        ("-1-0", TopicPartition("-1", 0)),
        ("orders", None),
        ("orders-", None),
        ("-3", None),
        ("orders-x", None),
        ("orders-²", None),
        ("orders-03", None),  # would be taken for orders-3
        ("orders-4294967296", None),
        ("two words-0", None),
        ("orders 0 999\nclicks-0", None),  # would be two lines of a checkpoint
        ("..-0", None),
        ("x" * 250 + "-0", None),
        ("lost+found", None),
    ],
)
def test_topic_partition_is_split_at_the_last_dash(name, expected):
    assert parse_topic_partition(name) == expected


@pytest.mark.parametrize(
    ("name", "topic_partition", "state"),
    [
        ("orders-3", ("orders", 3), DirState.LIVE),
        ("orders-3.0123456789abcdef0123456789abcdef-delete", ("orders", 3), DirState.DELETE),
        ("orders-3.0123456789abcdef0123456789abcdef-future", ("orders", 3), DirState.FUTURE),
        ("a.b-c-3.0123456789abcdef0123456789abcdef-stray", ("a.b-c", 3), DirState.STRAY),
    ],
)
def test_partition_dir_name_tells_its_state(name, topic_partition, state):
    assert parse_partition_dir_name(name) == (topic_partition, state)


@pytest.mark.parametrize("name", ["remote-log-index-cache", "orders-delete", "x.0123-delete", "lost+found", ""])
def test_other_directories_are_no_partitions(name):
    assert parse_partition_dir_name(name) is None
