"""A file read in ranges: few requests, each byte once, little memory, and never two versions."""

from __future__ import annotations

import pickle
import random
import threading

import obstore
import pytest

from storage.names import TopicPartition
from storage.scan.extents import Extent
from storage.scan.files import read_in_turn
from storage.scan.partitions import OffsetRange
from storage.stores.errors import ObjectChanged
from storage.stores.paths import StoredPath
from storage.stores.stored_file import BLOCK_BYTES, WINDOW_BYTES, WINDOWS_AHEAD, StoredFile
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import SCHEME, writer

LARGE_BYTES = 50 << 20


@pytest.fixture(scope="module")
def large(server: str) -> tuple[StoredPath, bytes]:
    data = random.Random(7).randbytes(LARGE_BYTES)
    obstore.put(writer(server, "large"), "d/large", data)
    return StoredPath(f"{SCHEME}://large/d/large"), data


def test_long_read_takes_each_byte_once(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    start, end = 12_345, LARGE_BYTES - 77
    file = StoredFile.open(path)
    through.traffic.clear()
    file.read_ahead(start, end)
    at = start
    while at < end:  # as batches are read: the window after begins where the last whole batch ended
        until = min(at + (1 << 20), end)
        assert file.pread(until - at, at) == data[at:until]
        at = until - 100 if until < end else end
    assert through.traffic.body_bytes == end - start
    assert len(through.traffic.requests) == -(-(end - start) // WINDOW_BYTES)
    file.close()


def test_window_may_be_larger_than_what_is_fetched_at_once(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    file = StoredFile.open(path)
    file.read_ahead(0, LARGE_BYTES)
    assert file.pread(100, 0) == data[:100]
    assert file.pread(20 << 20, 50) == data[50 : 50 + (20 << 20)]
    file.close()


def test_what_is_skipped_or_lies_behind_is_read_all_the_same(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    file = StoredFile.open(path)
    file.read_ahead(1 << 20, 40 << 20)
    for at in (1 << 20, 30 << 20, 2 << 20, 45 << 20, 31 << 20):
        assert file.pread(1000, at) == data[at : at + 1000]
    file.close()


def test_windows_on_their_way_are_few(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, _ = large
    file = StoredFile.open(path)
    through.traffic.clear()
    file.read_ahead(0, LARGE_BYTES)
    file.pread(1000, 0)
    settled = threading.Event()
    settled.wait(0.3)
    assert len(through.traffic.requests) <= 1 + WINDOWS_AHEAD
    file.close()


def test_files_read_in_turn_are_on_their_way_before_their_turn(server: str, through: Proxy) -> None:
    files, bytes_of_each = 9, 300_000
    data, store = random.Random(5).randbytes(files * bytes_of_each), writer(server, "in-turn")
    for number in range(files):
        obstore.put(store, f"d/{number}", data[number * bytes_of_each : (number + 1) * bytes_of_each])
    path = StoredPath(f"{SCHEME}://in-turn/d")
    inodes = [(path / str(number)).stat().st_ino for number in range(files)]
    planned = [
        Extent(TopicPartition("d", 0), path, str(number), inode, 0, 10, bytes_of_each, OffsetRange(0, 1), None, ())
        for number, inode in enumerate(inodes)
    ]
    through.traffic.clear()
    read, most = b"", 0
    for extent, file in read_in_turn(planned):
        assert file is not None
        window, at = file.window(10, extent.end)
        threading.Event().wait(0.2)
        read, most = read + bytes(window), max(most, len(through.traffic.requests) - planned.index(extent))
        assert at == 10
        file.close()
    parts = [data[number * bytes_of_each + 10 : (number + 1) * bytes_of_each] for number in range(files)]
    assert read == b"".join(parts)
    assert most == 1 + WINDOWS_AHEAD
    assert through.traffic.body_bytes == len(read), "each byte once"


def test_small_reads_fetch_little(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    file = StoredFile.open(path)
    through.traffic.clear()
    for at in (10 << 20, (10 << 20) + 61, (10 << 20) + 4096, LARGE_BYTES - 8, LARGE_BYTES - 4096):
        assert file.pread(8, at) == data[at : at + 8]
    assert len(through.traffic.requests) == 2
    assert through.traffic.body_bytes == 2 * BLOCK_BYTES


def test_blocks_that_follow_each_other_grow(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    file = StoredFile.open(path)
    through.traffic.clear()
    at = 0
    while at < 4 << 20:
        assert file.pread(4096, at) == data[at : at + 4096]
        at += 4000
    assert len(through.traffic.requests) < 12
    assert through.traffic.body_bytes < 6 << 20


def test_file_ends_where_it_ends(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    file = StoredFile.open(path)
    assert file.pread(100, LARGE_BYTES - 3) == data[-3:]
    assert file.pread(100, LARGE_BYTES) == b""
    assert file.pread(0, 5) == b""


def test_planned_version_is_told_by_its_number(server: str, through: Proxy) -> None:
    made, path = writer(server, "planned"), StoredPath(f"{SCHEME}://planned/x")
    obstore.put(made, "x", b"first")
    inode = path.stat().st_ino
    assert bytes(StoredFile(path, 5, inode=inode).pread(5, 0)) == b"first"
    obstore.put(made, "x", b"other")
    with pytest.raises(ObjectChanged) as raised:
        StoredFile(path, 5, inode=inode).pread(5, 0)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_version_that_changes_within_a_long_read_ends_it(through: Proxy, large: tuple[StoredPath, bytes]) -> None:
    path, data = large
    file = StoredFile.open(path)
    asked = iter(range(100))
    through.fault = lambda _method, _path: Fault.REPLACED if next(asked) >= 3 else Fault.NONE
    file.read_ahead(0, LARGE_BYTES)
    read = 0

    def read_on() -> None:
        nonlocal read
        while read < LARGE_BYTES:
            assert file.pread(1 << 20, read) == data[read : read + (1 << 20)]
            read += 1 << 20

    with pytest.raises(ObjectChanged):
        read_on()
    assert read < LARGE_BYTES
    file.close()


def test_directory_is_no_file(through: Proxy, bucket: str) -> None:
    with pytest.raises(IsADirectoryError):
        StoredFile.open(StoredPath(f"{bucket}/new"))
