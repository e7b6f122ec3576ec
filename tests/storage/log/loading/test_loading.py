"""After Kafka's LogLoaderTest, in our own words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, parse_offset_checkpoint
from storage.log import Log, LogConfig, Producer
from storage.log.active import TornTail
from storage.log.errors import LoadingFailed
from storage.log.leader_epochs import read_leader_epochs
from storage.names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, FileKind, segment_file_name
from tests.storage.log.logs import ANY_SIZE, FS, NOW_MS, a_log, append, bases, offsets, record

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_index_bytes=1000)


def loaded(directory: Path, config: LogConfig = SMALL, *, is_clean: bool = False, **terms: int) -> Log:
    return Log.load(directory, config, FS, now_ms=NOW_MS, had_clean_shutdown=is_clean, **terms)


def killed(parent: Path, batches: int = 9, config: LogConfig = SMALL) -> Path:
    """A log of one-record batches whose process died."""
    log = a_log(parent, config)
    for place in range(batches):
        append(log, NOW_MS + place)
    log.kill()
    return log.directory


def names(directory: Path, pattern: str = "*") -> list[str]:
    return sorted(path.name for path in directory.glob(pattern))


def path_of(directory: Path, base: int, kind: FileKind = FileKind.LOG) -> Path:
    return directory / segment_file_name(base, kind)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_log_that_was_killed_comes_back_whole(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    log = loaded(directory)
    assert offsets(log) == list(range(9))
    assert log.cuts == ()
    append(log)
    log.close()
    assert offsets(loaded(directory, is_clean=True)) == list(range(10))


def test_a_recovered_log_is_the_one_that_a_clean_stop_would_have_left(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    loaded(directory).close()
    closed = a_log(tmp_path, SMALL, name="closed-0")
    for place in range(9):
        append(closed, NOW_MS + place)
    closed.close()
    found, expected = contents(directory), contents(closed.directory)
    for written in (found, expected):
        written.pop("partition.metadata")
    assert found == expected


@pytest.mark.parametrize("damage", ["a torn batch", "a wrong CRC", "zeros", "a length of 3"])
def test_an_unclean_load_cuts_at_the_first_batch_that_is_none_and_all_behind_it(tmp_path: Path, damage: str) -> None:
    directory = killed(tmp_path)
    second = sorted(directory.glob("*.log"))[1]
    base, data = int(second.stem), bytearray(second.read_bytes())
    first_bytes = len(data) // 4
    if damage == "a torn batch":
        del data[first_bytes + 10 :]
    elif damage == "a wrong CRC":
        data[first_bytes + 40] ^= 1
    elif damage == "zeros":
        data[first_bytes:] = bytes(len(data) - first_bytes)
    else:
        data[first_bytes + 8 : first_bytes + 12] = (3).to_bytes(4, "big")
    second.write_bytes(data)
    log = loaded(directory)
    assert (offsets(log), log.log_end_offset) == (list(range(base + 1)), base + 1)
    assert log.cuts[0][:2] == (base, first_bytes)
    assert len(log.cuts) == 2, "the segment behind it went, too"
    assert bases(log) == [0, base]
    assert any(name.endswith(".log.deleted") for name in names(directory))
    append(log)
    assert offsets(log) == [*range(base + 1), base + 1]


def test_what_lies_below_the_recovery_point_is_not_checked(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    first = path_of(directory, 0)
    data = bytearray(first.read_bytes())
    data[30] ^= 1
    first.write_bytes(data)
    last = int(sorted(directory.glob("*.log"))[-1].stem)
    log = loaded(directory, recovery_point=last)
    assert (log.log_start_offset, log.log_end_offset, log.cuts) == (0, 9, ())


def test_a_clean_load_cuts_nothing(tmp_path: Path) -> None:
    with a_log(tmp_path, SMALL) as log:
        append(log)
    with path_of(log.directory, 0).open("ab") as file:
        file.write(b"torn")
    before = path_of(log.directory, 0).read_bytes()
    opened = loaded(log.directory, is_clean=True)
    assert opened.torn_bytes == 4
    with pytest.raises(TornTail):
        append(opened)
    assert path_of(log.directory, 0).read_bytes() == before


def test_a_segment_whose_offsets_do_not_fit_is_left_as_it_is(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log)
    log.kill()
    data = bytearray(path_of(log.directory, 0).read_bytes())
    data[0:8] = (1 << 32).to_bytes(8, "big")
    path_of(log.directory, 0).write_bytes(data)
    with pytest.raises(LoadingFailed) as raised:
        loaded(log.directory)
    assert raised.value.exception == "LogSegmentOffsetOverflowException"
    assert path_of(log.directory, 0).read_bytes() == data


def test_a_recovery_point_is_written_by_a_flush_for_this_partition_alone(tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n2\nothers 3 17\norders 0 1\n")
    log = a_log(tmp_path)
    append(log, NOW_MS, NOW_MS)
    log.flush()
    noted = parse_offset_checkpoint((tmp_path / RECOVERY_POINT_CHECKPOINT).read_bytes(), tmp_path)
    assert {str(key): offset for key, offset in noted.items()} == {"others-3": 17, "orders-0": 2}
    append(log)
    log.kill()
    assert Log.load(log.directory, ANY_SIZE, FS, now_ms=NOW_MS, had_clean_shutdown=False).recovery_point == 2


def test_a_load_reads_the_checkpoints_of_the_log_dir(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_bytes(b"0\n1\norders 0 5\n")
    log = loaded(directory)
    assert (log.log_start_offset, log.log_end_offset) == (5, 9)
    log.close()
    assert (tmp_path / LOG_START_OFFSET_CHECKPOINT).read_bytes() == b"0\n1\norders 0 5\n"


@pytest.mark.parametrize("kind", [FileKind.INDEX, FileKind.TIME_INDEX])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_missing_index_is_made_anew(tmp_path: Path, kind: FileKind, is_clean: bool) -> None:
    with a_log(tmp_path, SMALL) as log:
        for place in range(9):
            append(log, NOW_MS + place)
    for base in bases(log):
        path_of(log.directory, base, kind).unlink()
    expected = contents(log.directory)
    found = loaded(log.directory, is_clean=is_clean)
    found.close()
    assert offsets(found) == list(range(9))
    if kind is FileKind.INDEX or not is_clean:
        assert all(path_of(log.directory, base, kind).stat().st_size >= 0 for base in bases(log))
        assert {name: data for name, data in contents(log.directory).items() if name in expected} == expected
    else:
        assert path_of(log.directory, 0, kind).read_bytes() == b"", "a start makes it empty, and does not rebuild it"


def test_damaged_indexes_are_rebuilt_by_an_unclean_load(tmp_path: Path) -> None:
    with a_log(tmp_path, SMALL) as log:
        for place in range(9):
            append(log, NOW_MS + place)
    expected = contents(log.directory)
    for base in bases(log):
        for kind in (FileKind.INDEX, FileKind.TIME_INDEX):
            path_of(log.directory, base, kind).write_bytes(b"\xff" * 24)
    loaded(log.directory, recovery_point=0).close()
    assert contents(log.directory) == expected


def test_leftovers_go_as_at_a_start(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    last = bases(loaded(directory, is_clean=False))[-1]
    segment = path_of(directory, 0).read_bytes()
    for name in ("7.index", f"{last:020d}.log.cleaned", f"{last:020d}.log.swap", f"{3:020d}.log.deleted"):
        (directory / name).write_bytes(segment)
    (directory / f"{1:020d}.index").write_bytes(b"")
    (directory / f"{1:020d}.snapshot").write_bytes(b"")
    log = loaded(directory)
    assert offsets(log) == list(range(9))
    assert not [name for name in names(directory) if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert not path_of(directory, 1, FileKind.INDEX).exists()
    assert not path_of(directory, 1, FileKind.SNAPSHOT).exists()


def test_a_swap_that_had_begun_is_finished(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    log = loaded(directory)
    log.close()
    first, second = bases(log)[:2]
    shutil.copy(path_of(directory, first), directory / f"{first:020d}.log.swap")
    shutil.copy(path_of(directory, first, FileKind.INDEX), directory / f"{first:020d}.index.swap")
    found = loaded(directory)
    assert bases(found)[:2] == [first, second]
    assert offsets(found) == list(range(9))
    assert not names(directory, "*.swap")


def test_a_log_that_ends_before_its_start_begins_anew_there(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    log = loaded(directory, log_start_offset=50)
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([50], 50, 50)
    assert not names(directory, "*.snapshot")
    append(log)
    assert offsets(log) == [50]


def test_an_empty_directory_becomes_an_empty_log_at_its_checkpointed_start(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    log = loaded(tmp_path / "orders-0", log_start_offset=7)
    assert (bases(log), log.log_end_offset) == ([7], 7)
    assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_bytes() == b""


def test_leader_epochs_are_cut_at_both_ends(tmp_path: Path) -> None:
    directory = killed(tmp_path)
    stated = [LeaderEpochEntry(0, 0), LeaderEpochEntry(1, 2), LeaderEpochEntry(2, 4), LeaderEpochEntry(3, 9)]
    (directory / "leader-epoch-checkpoint").write_bytes(format_leader_epochs(stated))
    loaded(directory, log_start_offset=3).close()
    assert read_leader_epochs(directory) == [(1, 3), (2, 4)]


def test_an_epoch_that_only_the_batches_know_is_learned_by_a_recovery(tmp_path: Path) -> None:
    log = a_log(tmp_path, SMALL)
    for place, epoch in enumerate((0, 0, 1, 1, 4, 4)):
        log.append_records([record(timestamp_ms=NOW_MS + place)], now_ms=NOW_MS, leader_epoch=epoch)
    log.kill()
    (log.directory / "leader-epoch-checkpoint").write_bytes(format_leader_epochs([LeaderEpochEntry(0, 0)]))
    loaded(log.directory)
    assert read_leader_epochs(log.directory) == [(0, 0), (1, 2), (4, 4)]


def test_producers_are_rebuilt_without_a_snapshot_and_with_a_damaged_one(tmp_path: Path) -> None:
    log = a_log(tmp_path, SMALL)
    for sequence in range(9):
        log.append_records([record(timestamp_ms=NOW_MS)], now_ms=NOW_MS, producer=Producer(77, 1, sequence))
    log.close()
    expected = contents(log.directory)
    newest = max(log.directory.glob("*.snapshot"))
    newest.write_bytes(b"damaged")
    found = loaded(log.directory)
    entry = found.producer_state(NOW_MS).producers[77]
    assert entry.batches[-1].last_sequence == 8
    found.close()
    assert contents(log.directory) == expected
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    loaded(log.directory).close()
    assert names(log.directory, "*.snapshot") == [
        f"{offset:020d}.snapshot" for offset in (*bases(found)[1:], found.log_end_offset)
    ]


def test_after_a_clean_stop_a_log_without_snapshots_is_not_replayed(tmp_path: Path) -> None:
    with a_log(tmp_path, SMALL) as log:
        for sequence in range(9):
            log.append_records([record(timestamp_ms=NOW_MS)], now_ms=NOW_MS, producer=Producer(77, 1, sequence))
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    assert loaded(log.directory, is_clean=True).producer_state(NOW_MS).producers == {}
    assert names(log.directory, "*.snapshot") == [f"{offset:020d}.snapshot" for offset in (*bases(log)[-2:], 9)]


def test_a_plain_batch_within_a_transaction_ends_the_load(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    transactional = Producer(5, 0, 0, is_transactional=True)
    log.append_records([record()], now_ms=NOW_MS, producer=transactional)
    data = path_of(log.directory, 0).read_bytes()
    log.kill()
    from crc32c import crc32c

    plain = bytearray(data)
    plain[0:8] = (1).to_bytes(8, "big")
    plain[22] &= ~0x10
    plain[17:21] = crc32c(bytes(plain[21:])).to_bytes(4, "big")
    path_of(log.directory, 0).write_bytes(data + plain)
    before = path_of(log.directory, 0).read_bytes()
    with pytest.raises(LoadingFailed) as raised:
        loaded(log.directory, ANY_SIZE)
    assert raised.value.exception == "InvalidTxnStateException"
    assert path_of(log.directory, 0).read_bytes() == before


def test_a_killed_preallocated_log_loses_its_zeros_and_nothing_else(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1000, preallocate=True)
    directory = killed(tmp_path, 20, config)
    last = max(directory.glob("*.log"))
    assert last.stat().st_size == 1000
    log = loaded(directory, config)
    assert offsets(log) == list(range(20))
    assert 0 < last.stat().st_size < 1000


def test_a_start_that_wrongly_believes_in_a_clean_stop_takes_zeros_for_entries_of_full_indexes(tmp_path: Path) -> None:
    directory = killed(tmp_path, 3, LogConfig(segment_index_bytes=1000, index_interval_bytes=100))
    assert path_of(directory, 0, FileKind.INDEX).stat().st_size == 1000
    log = loaded(directory, LogConfig(segment_index_bytes=1000), is_clean=True)
    append(log)
    assert (bases(log), offsets(log)) == ([0, 3], [0, 1, 2, 3])


def test_opening_and_loading_forget_the_idle_producers_of_a_snapshot_alone(tmp_path: Path) -> None:
    """Those of the batches behind it go later, by ``expire_producers``, as by a broker's thread."""
    with a_log(tmp_path) as log:
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(1, 0, 0))
        log.roll(NOW_MS)
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(2, 0, 0))
    path_of(log.directory, 2, FileKind.SNAPSHOT).unlink()
    later_ms = NOW_MS + ANY_SIZE.producer_id_expiration_ms
    opened = Log.open(log.directory, ANY_SIZE, FS)
    assert set(opened.producer_state(later_ms).producers) == {2}
    opened.expire_producers(later_ms)
    assert opened.producer_state(later_ms).producers == {}
    again = Log.load(log.directory, ANY_SIZE, FS, now_ms=later_ms, had_clean_shutdown=True)
    assert set(again.producer_state(later_ms).producers) == {2}
    again.kill()


def test_first_batch_that_is_torn_is_a_torn_tail_after_a_clean_stop(tmp_path: Path) -> None:
    with a_log(tmp_path, LogConfig(index_interval_bytes=1)) as log:
        for _ in range(5):
            append(log)
    path = path_of(log.directory, 0)
    data = bytearray(path.read_bytes())
    data[9] ^= 0x40
    path.write_bytes(data)
    opened = Log.open(log.directory, ANY_SIZE, FS)
    with pytest.raises(TornTail):
        append(opened)


def test_magic_above_two_is_not_taken_for_two(tmp_path: Path) -> None:
    """No checksum covers the byte. Kafka takes it for 2, and goes on."""
    with a_log(tmp_path) as log:
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(1, 0, 0))
    path = path_of(log.directory, 0)
    data = bytearray(path.read_bytes())
    data[16] = 3
    path.write_bytes(data)
    with pytest.raises(LoadingFailed, match="magic 3"):
        Log.load(log.directory, ANY_SIZE, FS, now_ms=NOW_MS, had_clean_shutdown=False)
    assert path.read_bytes() == data
