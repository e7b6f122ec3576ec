"""The lock of a log dir that is only read: a read lock on ``.lock``, against brokers, cleaners and a real JVM."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, NewFile, OutOfSpace, Purpose, UnsafeOwner
from storage.lock import LogDirLock, LogDirLocked, LogDirReadLock, holder_of
from storage.log_dir import LogDir
from tests.storage.test_lock import Broker

FS = FileSystem()
JVM = """
import java.io.RandomAccessFile;

public class TakeLock {
    public static void main(String[] args) throws Exception {
        var channel = new RandomAccessFile(args[0], "rw").getChannel();  // as Kafka's FileLock opens it
        System.out.println(channel.tryLock() == null ? "refused" : "locked");
        System.out.flush();
        System.in.read();
    }
}
"""


@contextmanager
def a_jvm(directory: Path, source: Path) -> Iterator[str]:
    """Ask for the lock as Kafka does; gives ``locked`` or ``refused``, and keeps what it has."""
    if shutil.which("javac") is None:
        pytest.skip("NOT RUN: there is no JDK here")
    (source / "TakeLock.java").write_text(JVM)
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", source / "TakeLock.java", directory / ".lock"]
    jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert jvm.stdout is not None
    try:
        yield jvm.stdout.readline().strip()
    finally:
        jvm.communicate("\n", timeout=60)


@contextmanager
def read_only(directory: Path) -> Iterator[Path]:
    """A directory again, on a read-only mount of its own."""
    mounted = directory.with_name(f"{directory.name}-ro")
    mounted.mkdir()
    try:
        for options in (["--bind", directory], ["-o", "remount,ro,bind"]):
            subprocess.run(["mount", *options, mounted], check=True, capture_output=True)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("NOT RUN: a read-only mount needs root")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def test_jvm_that_asks_meanwhile_is_refused_and_one_that_holds_the_lock_refuses_us(
    log_dir: Path, tmp_path: Path
) -> None:
    (log_dir / ".lock").touch()
    with LogDirReadLock.acquire(log_dir, FS), a_jvm(log_dir, tmp_path) as answer:
        assert answer == "refused"
    with a_jvm(log_dir, tmp_path) as answer:
        assert answer == "locked"
        with pytest.raises(LogDirLocked):
            LogDirReadLock.acquire(log_dir, FS)


def test_jvm_beside_a_read_only_mount_is_kept_out_through_it(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / ".lock").touch()
    with read_only(log_dir) as mounted:
        with LogDirReadLock.acquire(mounted, FS), a_jvm(log_dir, tmp_path) as answer:
            assert answer == "refused"
        with a_jvm(log_dir, tmp_path), pytest.raises(LogDirLocked):
            LogDirReadLock.acquire(mounted, FS)


def test_other_process_is_kept_out_until_the_release_and_is_named_where_it_holds_the_lock(log_dir: Path) -> None:
    (log_dir / ".lock").touch()
    with LogDirReadLock.acquire(log_dir, FS), Broker(log_dir) as broker:
        assert broker.answer == "refused"
    with Broker(log_dir) as broker, pytest.raises(LogDirLocked) as caught:
        LogDirReadLock.acquire(log_dir, FS)
    assert caught.value.holder_pid == broker.pid


def test_readers_stand_beside_each_other_and_keep_a_cleaner_out(log_dir: Path) -> None:
    with LogDirReadLock.acquire(log_dir, FS):
        with LogDirReadLock.acquire(log_dir, FS), pytest.raises(LogDirLocked):
            LogDirLock.acquire(log_dir, FS)
        assert holder_of(log_dir) is not None
    with LogDirLock.acquire(log_dir, FS), pytest.raises(LogDirLocked):
        LogDirReadLock.acquire(log_dir, FS)


def test_file_that_is_there_is_neither_changed_nor_deleted(log_dir: Path) -> None:
    (log_dir / ".lock").write_text("whose?")
    before = (log_dir / ".lock").stat()
    lock = LogDirReadLock.acquire(log_dir, FS)
    lock.release()
    lock.release()
    after = (log_dir / ".lock").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert holder_of(log_dir) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the dir belongs to another user")
def test_file_that_had_to_be_made_belongs_to_the_owner_of_the_dir_and_stays(log_dir: Path) -> None:
    os.chown(log_dir, 12345, 12346)
    with LogDirReadLock.acquire(log_dir, FS), Broker(log_dir) as broker:
        assert broker.answer == "refused"
    status = (log_dir / ".lock").stat()
    assert (status.st_uid, status.st_gid) == (12345, 12346)


def test_read_only_mount_without_a_lock_file_is_read_without_a_lock(log_dir: Path) -> None:
    with read_only(log_dir) as mounted, LogDirReadLock.acquire(mounted, FS):
        assert list(log_dir.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EROFS, "read-only"),
        PermissionError(errno.EACCES, "denied"),
        OutOfSpace(Path(".lock"), 0),
        UnsafeOwner(Path("data"), 1, 1),
    ],
)
def test_where_no_lock_file_can_be_made_nobody_is_kept_out(log_dir: Path, error: Exception) -> None:
    class Unwilling(FileSystem):
        def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
            assert purpose is Purpose.LOCK
            raise error

    with LogDirReadLock.acquire(log_dir, Unwilling()), Broker(log_dir) as broker:
        assert broker.answer == "locked"


def test_disk_that_fails_otherwise_is_told(log_dir: Path) -> None:
    class Failing(FileSystem):
        def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
            raise OSError(errno.EIO, "input/output error")

    with pytest.raises(UnreadableFile, match=r"\.lock.*input/output error"):
        LogDirReadLock.acquire(log_dir, Failing())


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory"])
def test_lock_file_that_is_no_plain_file_is_an_unreadable_file(log_dir: Path, kind: str) -> None:
    path = log_dir / ".lock"
    make = {"symlink": lambda: path.symlink_to("elsewhere"), "fifo": lambda: os.mkfifo(path), "directory": path.mkdir}
    make[kind]()
    with pytest.raises(UnreadableFile, match=r"\.lock"):
        LogDirReadLock.acquire(log_dir, FS)


def test_file_whose_name_went_meanwhile_is_taken_anew(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = fcntl.fcntl, []
    (log_dir / ".lock").touch()

    def after_the_holder_deleted_it(descriptor: int, *args: object) -> object:
        if not calls:
            (log_dir / ".lock").unlink()
        calls.append(descriptor)
        return real(descriptor, *args)  # type: ignore[call-overload]

    monkeypatch.setattr(fcntl, "fcntl", after_the_holder_deleted_it)
    with LogDirReadLock.acquire(log_dir, FS), Broker(log_dir) as broker:
        assert broker.answer == "refused"
    assert len(calls) == 2


def test_file_system_without_locks_is_read_without_one(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "not here")

    monkeypatch.setattr(fcntl, "fcntl", without_locks)
    with LogDirReadLock.acquire(log_dir, FS), Broker(log_dir) as broker:
        assert broker.answer == "locked"


def test_log_dir_hands_out_the_lock_also_where_other_machines_share_it(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.log_dir.shared_type", lambda path: "nfs4")
    with LogDir(log_dir).lock_to_read(FS), Broker(log_dir) as broker:
        assert broker.answer == "refused"
