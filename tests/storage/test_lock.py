"""``.lock``: ours against another process's POSIX record lock, which is what a JVM takes."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from storage.errors import LogDirLocked, UnreadableFile, UnreliableLock
from storage.filesystem import FileSystem
from storage.lock import LogDirLock, check_inherited, holder_of

POSIX_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "a+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""

OUR_LOCK = """
import sys
from pathlib import Path
from storage.errors import LogDirLocked
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
try:
    LogDirLock.acquire(Path(sys.argv[1]), FileSystem()).release()
except LogDirLocked:
    print("locked out")
else:
    print("acquired")
"""


class Broker:
    """Another process that asks for the lock as a JVM does; its answer is ``locked`` or ``refused``."""

    def __init__(self, directory):
        command = [sys.executable, "-c", POSIX_LOCK, str(directory / ".lock")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer = self._process.stdout.readline().strip()
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate("", timeout=20)


@pytest.fixture
def fs():
    return FileSystem()


def test_lock_of_another_process_excludes_us_and_its_pid_is_named(tmp_path, fs):
    with Broker(tmp_path) as broker:
        assert broker.answer == "locked"
        with pytest.raises(LogDirLocked) as caught:
            LogDirLock.acquire(tmp_path, fs)
        assert caught.value.holder_pid == broker.pid
        assert f"process {broker.pid}" in str(caught.value)
        assert holder_of(tmp_path) == f"process {broker.pid}"
    with LogDirLock.acquire(tmp_path, fs):
        pass


def test_our_lock_excludes_another_process_until_it_is_released(tmp_path, fs):
    with LogDirLock.acquire(tmp_path, fs), Broker(tmp_path) as broker:
        assert broker.answer == "refused"
    with Broker(tmp_path) as broker:
        assert broker.answer == "locked"


def test_closing_another_descriptor_of_the_file_does_not_drop_our_lock(tmp_path, fs):
    with LogDirLock.acquire(tmp_path, fs):
        (tmp_path / ".lock").read_bytes()
        assert holder_of(tmp_path) is not None
        with Broker(tmp_path) as broker:
            assert broker.answer == "refused"


def test_second_lock_of_our_own_process_is_refused_without_a_pid(tmp_path, fs):
    with LogDirLock.acquire(tmp_path, fs):
        with pytest.raises(LogDirLocked) as caught:
            LogDirLock.acquire(tmp_path, fs)
        assert caught.value.holder_pid is None
        assert "None" not in str(caught.value)


def test_file_is_deleted_on_release_and_release_may_be_repeated(tmp_path, fs):
    lock = LogDirLock.acquire(tmp_path, fs)
    assert (tmp_path / ".lock").exists()
    lock.release()
    (tmp_path / ".lock").touch()  # a broker's, by now
    lock.release()
    assert (tmp_path / ".lock").exists()


def test_lock_on_a_file_whose_name_went_meanwhile_is_taken_anew(tmp_path, fs, monkeypatch):
    real, calls = fcntl.fcntl, []

    def after_the_holder_deleted_it(descriptor, *args):
        if not calls:
            (tmp_path / ".lock").unlink()
        calls.append(descriptor)
        return real(descriptor, *args)

    monkeypatch.setattr(fcntl, "fcntl", after_the_holder_deleted_it)
    with LogDirLock.acquire(tmp_path, fs) as lock:
        assert os.fstat(lock.descriptor).st_ino == (tmp_path / ".lock").stat().st_ino
    assert len(calls) == 2


def test_nobody_holds_a_lock_file_that_was_only_left_behind(tmp_path):
    assert holder_of(tmp_path) is None
    (tmp_path / ".lock").touch()
    assert holder_of(tmp_path) is None


def test_lock_file_that_is_a_directory_or_symlink_is_an_unreadable_file(tmp_path, fs):
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile, match=r"\.lock"):
        LogDirLock.acquire(tmp_path, fs)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()
    with pytest.raises(UnreadableFile, match=r"\.lock"):
        LogDirLock.acquire(tmp_path, fs)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the dir belongs to another user")
def test_lock_file_belongs_to_the_owner_of_the_dir(tmp_path, fs):
    os.chown(tmp_path, 12345, 12346)
    with LogDirLock.acquire(tmp_path, fs):
        status = (tmp_path / ".lock").stat()
        assert (status.st_uid, status.st_gid) == (12345, 12346)


def test_full_disk_without_room_for_the_lock_file_says_so(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(UnreadableFile, match=r"the disk is too full to create it"):
        LogDirLock.acquire(tmp_path, FileSystem())


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_system_without_locks_is_refused_unless_forced(tmp_path, fs, monkeypatch, code):
    def without_locks(*_):
        raise OSError(code, "not here")

    monkeypatch.setattr(fcntl, "fcntl", without_locks)
    with pytest.raises(UnreliableLock, match="--force-lock"):
        LogDirLock.acquire(tmp_path, fs)
    with LogDirLock.acquire(tmp_path, fs, forced=True):
        assert holder_of(tmp_path) is None
    assert not (tmp_path / ".lock").exists()


def test_forced_lock_is_no_way_past_a_holder(tmp_path, fs):
    with Broker(tmp_path), pytest.raises(LogDirLocked):
        LogDirLock.acquire(tmp_path, fs, forced=True)


def test_lock_file_opened_and_closed_again_by_us_keeps_other_cleaners_out(tmp_path, fs):
    with LogDirLock.acquire(tmp_path, fs):
        for flags in (os.O_RDONLY, os.O_RDWR):
            os.close(os.open(tmp_path / ".lock", flags))
        assert asked_by_another_process(tmp_path) == "locked out"
    assert asked_by_another_process(tmp_path) == "acquired"


def asked_by_another_process(directory):
    command = [sys.executable, "-c", OUR_LOCK, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


def test_lock_whose_file_cannot_be_deleted_is_let_go(tmp_path, fs):
    class Stubborn(FileSystem):
        def unlink(self, path, purpose):
            raise PermissionError(1, "not permitted", str(path))

    lock = LogDirLock.acquire(tmp_path, Stubborn())
    with pytest.raises(PermissionError):
        lock.release()
    LogDirLock.acquire(tmp_path, fs).release()


def test_an_inherited_descriptor_is_checked(tmp_path, fs):
    with LogDirLock.acquire(tmp_path, fs) as lock:
        check_inherited(tmp_path, lock.descriptor)
        other = os.open(tmp_path / ".lock", os.O_RDWR)
        with pytest.raises(LogDirLocked):
            check_inherited(tmp_path, other)  # of the same file, but it holds nothing
        (tmp_path / ".lock").unlink()
        with pytest.raises(LogDirLocked):
            check_inherited(tmp_path, lock.descriptor)  # the name is another file's by now, or nobody's
    os.close(other)


def test_a_lock_lasts_as_long_as_a_descendant_has_its_descriptor(tmp_path, fs):
    lock = LogDirLock.acquire(tmp_path, fs)
    command = [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[lock.descriptor], text=True
    )
    assert child.stdout.readline() == "here\n"
    os.close(lock.descriptor)  # as if we were killed
    assert holder_of(tmp_path) is not None
    child.communicate("", timeout=20)
    assert holder_of(tmp_path) is None
