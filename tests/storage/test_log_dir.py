"""A log dir: what makes one, its partitions and checkpoints."""

import zlib
from pathlib import Path

import pytest

from storage.checkpoints import CorruptCheckpoint
from storage.errors import NotALogDir, UnreadableFile
from storage.filesystem import FileSystem
from storage.log_dir import CorruptHoldIds, CorruptHolds, LogDir, read_file
from storage.names import CLEANER_OFFSET_CHECKPOINT, HOLD_IDS_FILE, HOLDS_FILE, TopicPartition

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_missing_dir_plain_file_and_foreign_dir_are_no_log_dirs(fs):
    fs.create_dir("/foreign/photos")
    fs.create_file("/file")
    for path, cause in (("/none", "does not exist"), ("/file", "is not a directory"), ("/foreign", "holds no Kafka")):
        with pytest.raises(NotALogDir, match=cause):
            LogDir.open(Path(path))


@pytest.mark.parametrize("mark", ["meta.properties", "replication-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_one_kafka_file_makes_a_log_dir(fs, mark):
    fs.create_file(f"/data/{mark}")
    assert LogDir.open(Path("/data")).path == Path("/data")


def test_one_partition_dir_makes_a_log_dir(fs):
    fs.create_dir("/data/orders-0")
    assert list(LogDir.open(Path("/data")).partitions()) == [(ORDERS, Path("/data/orders-0"))]


def test_only_live_partition_dirs_are_partitions(fs):
    for name in (
        "orders-1",
        "orders-0",
        "__cluster_metadata-0",
        "lost+found",
        "remote-log-index-cache",
        "gone-0.0123456789abcdef0123456789abcdef-delete",
        "moved-0.0123456789abcdef0123456789abcdef-future",
        "lost-0.0123456789abcdef0123456789abcdef-stray",
    ):
        fs.create_dir(f"/data/{name}")
    fs.create_file("/data/file-0")
    fs.create_symlink("/data/link-0", "/data/orders-0")
    assert [str(tp) for tp, _ in LogDir(Path("/data")).partitions()] == ["orders-0", "orders-1"]


def test_absent_checkpoints_are_empty(fs):
    fs.create_dir("/data")
    found = LogDir(Path("/data")).checkpoints()
    assert (found.high_watermarks, found.log_starts, found.cleaned, found.clean_shutdown) == ({}, {}, {}, False)


def test_checkpoints_are_read_from_their_files(fs):
    for name, offset in (
        ("replication-offset-checkpoint", 9),
        ("log-start-offset-checkpoint", 3),
        ("cleaner-offset-checkpoint", 5),
    ):
        fs.create_file(f"/data/{name}", contents=f"0\n1\norders 0 {offset}\n")
    fs.create_file("/data/.kafka_cleanshutdown")
    found = LogDir(Path("/data")).checkpoints()
    assert (found.high_watermarks, found.log_starts, found.cleaned) == ({ORDERS: 9}, {ORDERS: 3}, {ORDERS: 5})
    assert found.clean_shutdown


def test_written_offsets_are_read_back_and_the_same_ones_not_written_again(tmp_path):
    log_dir = LogDir(tmp_path)
    log_dir.write_offsets(CLEANER_OFFSET_CHECKPOINT, {ORDERS: 7}, FileSystem())
    assert log_dir.offsets(CLEANER_OFFSET_CHECKPOINT) == {ORDERS: 7}
    inode = (tmp_path / CLEANER_OFFSET_CHECKPOINT).stat().st_ino
    log_dir.write_offsets(CLEANER_OFFSET_CHECKPOINT, {ORDERS: 7}, FileSystem())
    assert (tmp_path / CLEANER_OFFSET_CHECKPOINT).stat().st_ino == inode


def test_garbled_checkpoint_names_file_and_line(tmp_path):
    (tmp_path / CLEANER_OFFSET_CHECKPOINT).write_bytes(b"0\n1\norders zero 7\n")
    with pytest.raises(CorruptCheckpoint, match="cleaner-offset-checkpoint line 3"):
        LogDir(tmp_path).checkpoints()


def test_holds_are_read_back_and_the_last_one_takes_the_file_along(tmp_path):
    log_dir = LogDir(tmp_path)
    assert log_dir.holds() == {}
    log_dir.write_holds({ORDERS: 1000}, FileSystem())
    assert log_dir.checkpoints().holds == {ORDERS: 1000}
    log_dir.write_holds({}, FileSystem())
    assert list(tmp_path.iterdir()) == []


def test_ids_of_holds_lie_in_a_file_of_their_own_and_go_with_the_last_hold(tmp_path):
    log_dir = LogDir(tmp_path)
    log_dir.write_holds({ORDERS: 1000, CLICKS: 2000}, FileSystem(), {ORDERS: TOPIC_ID})
    assert (tmp_path / HOLDS_FILE).read_bytes() == b"0\n2\norders 0 1000\nclicks 0 2000\n"
    checksum = zlib.crc32(f"orders 0 1000 {TOPIC_ID}".encode())
    assert (tmp_path / HOLD_IDS_FILE).read_text() == f"0\n1\norders 0 1000 {TOPIC_ID} {checksum:08x}\n"
    assert log_dir.checkpoints().hold_ids == {ORDERS: TOPIC_ID}
    log_dir.write_holds({CLICKS: 2000}, FileSystem())
    assert {path.name for path in tmp_path.iterdir()} == {HOLDS_FILE}
    log_dir.write_holds({CLICKS: 2000}, FileSystem(), {CLICKS: TOPIC_ID, ORDERS: TOPIC_ID})
    assert log_dir.checkpoints().hold_ids == {CLICKS: TOPIC_ID}
    log_dir.write_holds({}, FileSystem())
    assert list(tmp_path.iterdir()) == []


def test_id_counts_only_for_the_hold_that_it_was_noted_for(tmp_path):
    log_dir = LogDir(tmp_path)
    log_dir.write_holds({ORDERS: 1000}, FileSystem(), {ORDERS: TOPIC_ID})
    assert log_dir.hold_ids({ORDERS: 1000}) == {ORDERS: TOPIC_ID}
    assert log_dir.hold_ids({ORDERS: 1001}) == log_dir.hold_ids({CLICKS: 1000}) == log_dir.hold_ids({}) == {}


def test_any_other_letter_in_the_ids_of_holds_is_damage(tmp_path):
    log_dir = LogDir(tmp_path)
    log_dir.write_holds({ORDERS: 1000}, FileSystem(), {ORDERS: TOPIC_ID})
    whole = (tmp_path / HOLD_IDS_FILE).read_bytes()
    for place in range(len(whole) - 1):  # blanks at the end of a line mean nothing
        (tmp_path / HOLD_IDS_FILE).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CorruptHoldIds, match=r"logcleaner-hold-ids.*or removed: then a hold counts for every"):
            log_dir.checkpoints()
    for length in range(len(whole) - 1):  # without its last line end it is whole
        (tmp_path / HOLD_IDS_FILE).write_bytes(whole[:length])
        with pytest.raises(CorruptHoldIds):
            log_dir.checkpoints()


def test_garbled_holds_say_what_to_do(tmp_path):
    (tmp_path / HOLDS_FILE).write_bytes(b"0\n1\norders zero 7\n")
    with pytest.raises(CorruptHolds, match=r"logcleaner-holds line 3: .*removed to give up every hold"):
        LogDir(tmp_path).checkpoints()


def test_checkpoint_that_is_a_directory_is_unreadable(tmp_path):
    (tmp_path / CLEANER_OFFSET_CHECKPOINT).mkdir()
    with pytest.raises(UnreadableFile, match="cleaner-offset-checkpoint"):
        LogDir(tmp_path).checkpoints()


def test_absent_file_reads_as_none(tmp_path):
    assert read_file(tmp_path / "none") is None


def test_lock_is_reported_while_it_is_held(tmp_path):
    log_dir = LogDir(tmp_path)
    assert log_dir.locked_by() is None
    with log_dir.lock(FileSystem()):
        assert log_dir.locked_by() is not None
    assert log_dir.locked_by() is None


def test_free_bytes_are_those_of_the_dirs_file_system(tmp_path):
    assert LogDir(tmp_path).space().free_bytes > 0


@pytest.mark.parametrize("data", ["", "0", "0\n", "0\n0\n"])
def test_holds_that_were_cut_short_are_not_taken_for_none(tmp_path, data):
    (tmp_path / ".logcleaner-holds").write_text(data)
    with pytest.raises(CorruptHolds, match="cut short"):
        LogDir(tmp_path).holds()


def test_file_system_of_a_log_dir_is_synced(tmp_path):
    LogDir(tmp_path).sync_file_system()
    with pytest.raises(FileNotFoundError):
        LogDir(tmp_path / "gone").sync_file_system()
