"""Entries by their directory: no symlink is followed, nothing that is no plain file is waited for."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.directory import holding, open_plain, open_sized, open_to_change, opened, status_of
from storage.errors import PlanOutOfDate, UnreadableFile, UnsafeFile
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.log_dir import LogDir, read_file
from storage.segment import open_to_read


def make_symlink(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_bytes(b"secret")
    path.symlink_to(target)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


STRANGE = {"symlink": make_symlink, "fifo": os.mkfifo, "directory": os.mkdir, "socket": make_socket}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_plain_file_is_neither_read_nor_changed(tmp_path, kind):
    path = tmp_path / "checkpoint"
    STRANGE[kind](path)
    for read in (open_to_read, read_file):
        with pytest.raises(UnreadableFile, match="checkpoint"):
            read(path)
    fs = FileSystem()
    for change in (lambda: fs.open_to_append(path, Purpose.JOURNAL), lambda: fs.truncate(path, 0, Purpose.ROLL)):
        with pytest.raises((OSError, UnsafeFile)):
            change()


def test_file_with_a_second_link_is_read_but_not_changed_in_place(tmp_path):
    (tmp_path / "outside").write_bytes(b"bytes")
    path = tmp_path / "journal"
    path.hardlink_to(tmp_path / "outside")
    assert read_file(path) == b"bytes"
    fs = FileSystem()
    for change in (lambda: fs.open_to_append(path, Purpose.JOURNAL), lambda: fs.truncate(path, 0, Purpose.ROLL)):
        with pytest.raises(UnsafeFile, match="hard link"):
            change()
    fs.replace_file(path, b"new", Purpose.CHECKPOINT)
    assert (tmp_path / "outside").read_bytes() == b"bytes"


@pytest.fixture
def swapped(tmp_path):
    """A partition directory that was moved away, and a symlink to another one in its place."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / f"{0:020d}.log").write_bytes(b"")
    (tmp_path / "orders-0").symlink_to(tmp_path / "outside")
    return tmp_path / "orders-0"


def test_directory_that_became_a_symlink_is_not_entered(swapped):
    log = swapped / f"{0:020d}.log"
    fs = FileSystem()
    for act in (
        lambda: list_partition(swapped),
        lambda: open_to_read(log),
        lambda: read_file(log),
        lambda: status_of(log),
        lambda: open_plain(log),
        lambda: open_to_change(log, os.O_WRONLY),
        lambda: fs.create(swapped / "new", swapped, Purpose.CLEAN),
        lambda: fs.rename(log, swapped / "new", Purpose.RETIRE),
        lambda: fs.unlink(log, Purpose.REMOVE),
        lambda: fs.fsync_dir(swapped, Purpose.REMOVE),
    ):
        with pytest.raises((NotADirectoryError, UnreadableFile, UnsafeFile)):
            act()
    assert os.listdir(swapped) == [log.name]  # noqa: PTH208


def test_entry_of_an_opened_directory_is_that_directory_s_whatever_took_its_place(tmp_path):
    """Handed a descriptor, a path is no more than the name of an entry, and of an error."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "0.log").write_bytes(b"ours")
    with opened(tmp_path / "orders-0") as parent:
        (tmp_path / "orders-0").rename(tmp_path / "moved")
        (tmp_path / "orders-0").mkdir()
        (tmp_path / "orders-0" / "0.log").write_bytes(b"another's")
        descriptor, size_bytes = open_sized(tmp_path / "orders-0" / "0.log", parent)
        assert (os.read(descriptor, 99), size_bytes) == (b"ours", 4)
        os.close(descriptor)


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_entry_of_an_opened_directory_is_not_read(tmp_path, kind):
    STRANGE[kind](tmp_path / "0.log")
    with opened(tmp_path) as parent, pytest.raises(UnreadableFile, match=str(tmp_path / "0.log")):
        open_to_read(tmp_path / "0.log", parent)


def test_log_dir_may_be_named_by_a_symlink_which_is_followed_once(tmp_path):
    (tmp_path / "real" / "orders-0").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    log_dir = LogDir.open(tmp_path / "link")
    assert log_dir.path == tmp_path / "real"
    assert [path for _, path in log_dir.partitions()] == [tmp_path / "real" / "orders-0"]


def test_descriptor_of_a_directory_is_closed_also_after_an_error(tmp_path):
    def enter_and_fail() -> None:
        with opened(tmp_path) as descriptor:
            seen.append(descriptor)
            raise ValueError

    seen: list[int] = []
    with pytest.raises(ValueError):  # noqa: PT011
        enter_and_fail()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(seen[0])


def test_held_directory_is_met_by_this_thread_alone_whatever_took_its_place(tmp_path):
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log, read = directory / "0.log", []
    log.write_bytes(b"ours")

    def act() -> None:
        with holding(directory):
            directory.rename(tmp_path / "moved")
            directory.mkdir()
            log.write_bytes(b"another's")
            read.append(read_file(log))
            FileSystem().rename(log, directory / "1.log", Purpose.RETIRE)
            with ThreadPoolExecutor(1) as pool:
                read.append(pool.submit(read_file, log).result())

    with pytest.raises(PlanOutOfDate, match="took its place"):
        act()
    assert read == [b"ours", b"another's"]
    assert os.listdir(tmp_path / "moved") == ["1.log"]  # noqa: PTH208
    assert read_file(log) == b"another's"


def test_directory_is_held_no_longer_than_asked_also_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="x"), holding(tmp_path), opened(tmp_path) as held:
        raise ValueError("x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held)
    with opened(tmp_path) as descriptor, holding(tmp_path), opened(tmp_path) as again:
        assert os.fstat(descriptor).st_ino == os.fstat(again).st_ino


def test_symlink_is_not_held(swapped):
    with pytest.raises(UnreadableFile), holding(swapped):
        pass
