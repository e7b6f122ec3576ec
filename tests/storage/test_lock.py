"""``.lock``: ours against another process's POSIX record lock, which is what a JVM takes."""

import errno
import fcntl
import os
import struct
import subprocess
import sys

import pytest

from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.guarded import Guarded
from storage.lock import LockLost, LogDirLock, LogDirLocked, UnreliableLock, holder_of

POSIX_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "a+")
if sys.argv[2:]:
    print("opened", flush=True)
    sys.stdin.readline()
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
from storage.filesystem import FileSystem
from storage.lock import LogDirLock, LogDirLocked
try:
    LogDirLock.acquire(Path(sys.argv[1]), FileSystem()).release()
except LogDirLocked:
    print("locked out")
else:
    print("acquired")
"""


class Broker:
    """Another process that asks for the lock as a JVM does; its answer is ``locked`` or ``refused``."""

    def __init__(self, directory, *how):
        command = [sys.executable, "-c", POSIX_LOCK, str(directory / ".lock"), *how]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer = self._process.stdout.readline().strip()
        self.pid = self._process.pid

    def go_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.answer = self._process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate("", timeout=120)


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


def test_release_leaves_the_file_and_may_be_repeated(tmp_path, fs):
    lock = LogDirLock.acquire(tmp_path, fs)
    lock.release()
    assert (tmp_path / ".lock").exists()
    with Broker(tmp_path) as broker:
        lock.release()
        assert broker.answer == "locked"
        assert holder_of(tmp_path) is not None


def test_a_broker_that_opened_the_file_before_our_release_and_locks_it_after_keeps_us_out(tmp_path, fs):
    lock = LogDirLock.acquire(tmp_path, fs)
    with Broker(tmp_path, "slow") as broker:
        lock.release()
        broker.go_on()
        assert broker.answer == "locked"
        with pytest.raises(LogDirLocked):
            LogDirLock.acquire(tmp_path, fs)


@pytest.mark.parametrize("settle_seconds", [0.25, 5.0])
def test_a_lock_taken_between_a_brokers_release_and_its_deletion_of_the_file_is_not_believed(
    tmp_path, fs, monkeypatch, settle_seconds
):
    """Source: Kafka FileLock.destroy: it unlocks, then deletes."""
    monkeypatch.setattr("storage.lock.SETTLE_SECONDS", settle_seconds)
    monkeypatch.setattr("storage.lock.time.monotonic", lambda: 1000.0)
    naps = []
    monkeypatch.setattr(
        "storage.lock.time.sleep", lambda seconds: naps.append(seconds) or (tmp_path / ".lock").unlink()
    )
    (tmp_path / ".lock").touch()
    with LogDirLock.acquire(tmp_path, fs) as lock, pytest.raises(LockLost, match=str(tmp_path)):
        lock.ensure_named()
    assert naps == [settle_seconds]


def test_a_lock_on_a_file_that_we_made_is_believed_at_once_and_only_while_it_has_its_name(tmp_path, fs, monkeypatch):
    monkeypatch.setattr("storage.lock.time.sleep", pytest.fail)
    with LogDirLock.acquire(tmp_path, fs) as lock:
        lock.ensure_named()
        (tmp_path / ".lock").rename(tmp_path / "away")
        (tmp_path / ".lock").touch()
        with pytest.raises(LockLost):
            lock.ensure_named()


def test_a_guarded_file_system_changes_nothing_behind_a_lost_lock(tmp_path, fs):
    partition, file = tmp_path / "orders-0", tmp_path / "orders-0" / "x"
    partition.mkdir()
    file.touch()
    with LogDirLock.acquire(tmp_path, fs) as lock:
        guarded = Guarded(fs, {tmp_path: lock})
        guarded.rename(file, partition / "y", Purpose.RETIRE)
        (tmp_path / ".lock").unlink()
        changes = [
            lambda: guarded.rename(partition / "y", file, Purpose.RETIRE),
            lambda: guarded.unlink(partition / "y", Purpose.REMOVE),
            lambda: guarded.create(file, partition, Purpose.CLEAN),
            lambda: guarded.make_dir(tmp_path / "new", tmp_path, Purpose.ROLL),
            lambda: guarded.open_to_append(partition / "y", Purpose.APPEND),
            lambda: guarded.truncate(partition / "y", 0, Purpose.ROLL),
            lambda: guarded.replace_file(tmp_path / "checkpoint", b"", Purpose.CHECKPOINT),
        ]
        for change in changes:
            with pytest.raises(LockLost):
                change()
        guarded.create(tmp_path.parent / f"{tmp_path.name}-other", partition, Purpose.COPY).close()
    assert [path.name for path in partition.iterdir()] == ["y"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders-0"]


def test_a_lock_file_of_several_names_is_replaced_and_its_backup_keeps_no_broker_out(tmp_path, fs):
    """``cp -al`` gives the backup the same file."""
    log_dir, backup = tmp_path / "data", tmp_path / "backup"
    log_dir.mkdir()
    backup.mkdir()
    (log_dir / ".lock").touch()
    (backup / ".lock").hardlink_to(log_dir / ".lock")
    with LogDirLock.acquire(log_dir, fs) as lock:
        lock.ensure_named()
        assert (log_dir / ".lock").stat().st_nlink == 1
        with Broker(log_dir) as broker:
            assert broker.answer == "refused"
    assert sorted(path.name for path in log_dir.iterdir()) == [".lock"]
    with LogDirLock.acquire(backup, fs), Broker(log_dir) as broker:
        assert broker.answer == "locked"


def test_a_lock_file_of_several_names_that_somebody_renewed_meanwhile_is_not_renewed_again(tmp_path, fs, monkeypatch):
    """Else the fresh file would take the name from the one that a broker holds by then."""
    (tmp_path / ".lock").touch()
    (tmp_path / "backup").hardlink_to(tmp_path / ".lock")
    real, brokers = fcntl.fcntl, []

    def after_another_renewed_it(descriptor, *args):
        if not brokers:
            (tmp_path / ".lock").unlink()
            brokers.append(Broker(tmp_path))
        return real(descriptor, *args)

    monkeypatch.setattr(fcntl, "fcntl", after_another_renewed_it)
    with pytest.raises(LogDirLocked):
        LogDirLock.acquire(tmp_path, fs)
    with brokers[0] as broker:
        assert broker.answer == "locked"
        assert holder_of(tmp_path) == f"process {broker.pid}"


def test_a_lock_file_of_several_names_that_a_broker_holds_is_left_alone(tmp_path, fs):
    (tmp_path / ".lock").touch()
    (tmp_path / "backup").hardlink_to(tmp_path / ".lock")
    before = (tmp_path / ".lock").stat().st_ino
    with Broker(tmp_path), pytest.raises(LogDirLocked):
        LogDirLock.acquire(tmp_path, fs)
    assert (tmp_path / ".lock").stat().st_ino == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the dir belongs to another user")
def test_a_lock_file_that_the_owner_of_the_dir_cannot_open_is_given_to_that_owner(tmp_path, fs):
    (tmp_path / ".lock").touch(mode=0o400)
    os.chown(tmp_path, 12345, 12346)
    with LogDirLock.acquire(tmp_path, fs):
        status = (tmp_path / ".lock").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 12346, 0o600)


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


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_a_holder_in_another_container_has_no_pid_here(tmp_path, monkeypatch, pid):
    (tmp_path / ".lock").touch()
    held = struct.Struct("hhqqi4x").pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, pid)
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: held)
    assert holder_of(tmp_path) == ("process 1" if pid == 1 else "a process that cannot be seen from here")


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
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


def test_an_inherited_descriptor_is_checked(tmp_path, fs):
    with LogDirLock.acquire(tmp_path, fs) as lock:
        LogDirLock.inherited(tmp_path, lock.descriptor).ensure_named()
        other = os.open(tmp_path / ".lock", os.O_RDWR)
        with pytest.raises(LogDirLocked):
            LogDirLock.inherited(tmp_path, other)  # of the same file, but it holds nothing
        (tmp_path / ".lock").unlink()
        with pytest.raises(LogDirLocked):
            LogDirLock.inherited(tmp_path, lock.descriptor)  # the name is another file's by now, or nobody's
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
    child.communicate("", timeout=120)
    assert holder_of(tmp_path) is None
