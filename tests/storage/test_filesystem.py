"""The operations that change a log dir: owner, mode, durability, full disks."""

import errno
import os
import stat

import pytest

from storage.filesystem import FileSystem, OutOfSpace, Purpose, UnsafeOwner, check_owner, typed

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")
KAFKA_UID, KAFKA_GID = 12345, 12346


@pytest.fixture
def fs():
    return FileSystem()


@pytest.mark.parametrize(("dir_mode", "file_mode"), [(0o755, 0o644), (0o750, 0o640), (0o2770, 0o660)])
def test_created_file_takes_the_mode_of_its_directory_less_x(fs, tmp_path, dir_mode, file_mode):
    tmp_path.chmod(dir_mode)
    fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN).close()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == file_mode


@as_root
def test_created_file_takes_the_owner_of_its_directory(fs, tmp_path):
    os.chown(tmp_path, KAFKA_UID, KAFKA_GID)
    fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN).close()
    status = (tmp_path / "new").stat()
    assert (status.st_uid, status.st_gid) == (KAFKA_UID, KAFKA_GID)


@as_root
@pytest.mark.parametrize("ended_at", ["fchown", "fchmod"])
def test_a_run_that_ends_while_it_creates_leaves_no_file_that_a_broker_may_not_read(
    fs, tmp_path, monkeypatch, ended_at
):
    os.chown(tmp_path, KAFKA_UID, KAFKA_GID)
    found = []
    real = getattr(os, ended_at)
    monkeypatch.setattr(os, ended_at, lambda *given: (found.extend(tmp_path.iterdir()), real(*given)))
    fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN).close()
    assert found == []
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@as_root
def test_file_systems_without_nameless_files_give_the_owner_all_the_same(fs, tmp_path, monkeypatch):
    os.chown(tmp_path, KAFKA_UID, KAFKA_GID)
    monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT | os.O_EXCL)  # "." exists
    fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN).close()
    assert (tmp_path / "new").stat().st_uid == KAFKA_UID
    with pytest.raises(FileExistsError):
        fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN)


def test_file_that_cannot_be_given_away_is_not_left_behind(fs, tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    monkeypatch.setattr(os, "fstat", lambda fd, real=os.fstat: _of_another_user(real(fd)))
    monkeypatch.setattr(os, "fchown", _refuse)
    with pytest.raises(UnsafeOwner):
        fs.create(tmp_path / "new", model, Purpose.CLEAN)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def _of_another_user(status):
    fields = list(status)
    fields[4] += 1
    return os.stat_result(fields)


def _refuse(*_):
    raise PermissionError(errno.EPERM, "not allowed")


def test_the_disk_begins_with_what_was_appended_once_that_is_much(fs, tmp_path, monkeypatch):
    advised = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, start, size, advice: advised.append((start, size, advice)))
    with fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN) as file:
        for _ in range(5):
            file.write(bytes(13 << 20))
            file.write_out()
    assert advised == [(0, 39 << 20, os.POSIX_FADV_DONTNEED)]


def test_what_the_disk_began_with_stays_readable(fs, tmp_path):
    data = os.urandom(33 << 20)
    with fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN) as file:
        file.write(data)
        file.write_out()
        file.write(b"more")
    assert (tmp_path / "new").read_bytes() == data + b"more"


def test_existing_file_is_not_overwritten(fs, tmp_path):
    (tmp_path / "there").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        fs.create(tmp_path / "there", tmp_path, Purpose.CLEAN)
    assert (tmp_path / "there").read_bytes() == b"old"


def test_symlink_is_not_followed(fs, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError, match="link"):
        fs.open_to_append(tmp_path / "link", Purpose.JOURNAL)
    with pytest.raises(FileExistsError):
        fs.create(tmp_path / "link", tmp_path, Purpose.CLEAN)


def test_replaced_file_keeps_owner_and_mode_of_the_old_one(fs, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    path.chmod(0o604)
    fs.replace_file(path, b"new", Purpose.CHECKPOINT)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_stale_temporary_file_does_not_stop_a_replacement(fs, tmp_path):
    (tmp_path / "checkpoint.tmp").write_bytes(b"half")
    fs.replace_file(tmp_path / "checkpoint", b"new", Purpose.CHECKPOINT)
    assert (tmp_path / "checkpoint").read_bytes() == b"new"


def test_full_disk_leaves_the_old_content_and_no_temporary_file(fs, tmp_path, monkeypatch):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "write", _no_space)
    with pytest.raises(OutOfSpace) as caught:
        fs.replace_file(path, b"new", Purpose.CHECKPOINT)
    assert caught.value.wanted_bytes == 3
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_full_disk_at_the_rename_leaves_the_old_content_and_no_temporary_file(tmp_path):
    class NoRoom(FileSystem):
        def rename(self, source, target, purpose):
            raise OutOfSpace(target, 0)

    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    with pytest.raises(OutOfSpace):
        NoRoom().replace_file(path, b"new", Purpose.CHECKPOINT)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("fsync", lambda fs, path: fs.fsync_dir(path.parent, Purpose.RETIRE)),
        ("unlink", lambda fs, path: fs.unlink(path, Purpose.REMOVE)),
        ("rename", lambda fs, path: fs.rename(path, path.with_name("longer"), Purpose.RETIRE)),
        ("open", lambda fs, path: fs.create(path.with_name("new"), path, Purpose.CLEAN)),
        ("fchmod", lambda fs, path: fs.create(path.with_name("new"), path, Purpose.CLEAN)),
        ("utime", lambda fs, path: fs.open_to_append(path, Purpose.CLEAN).set_mtime(1)),
    ],
)
def test_full_disk_has_its_own_error_wherever_it_shows(fs, tmp_path, monkeypatch, call, act):
    path = tmp_path / "there"
    path.write_bytes(b"")
    monkeypatch.setattr(os, call, _no_space_to_change(call))
    with pytest.raises(OutOfSpace):
        act(fs, path)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["there"]


def _no_space_to_change(call):
    """A directory can be opened on a full disk."""
    real = getattr(os, call)

    def refusing(*args, **options):
        return real(*args, **options) if call == "open" and not args[1] & os.O_CREAT else _no_space()

    return refusing


def test_used_up_quota_of_the_new_owner_is_no_matter_of_permissions(fs, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fstat", lambda fd, real=os.fstat: _of_another_user(real(fd)))
    monkeypatch.setattr(os, "fchown", _no_quota)
    with pytest.raises(OutOfSpace):
        fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN)


def _no_quota(*_):
    raise OSError(errno.EDQUOT, "quota")


def _no_space(*_):
    raise OSError(errno.ENOSPC, "no space")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, OutOfSpace), (errno.EDQUOT, OutOfSpace), (errno.EIO, OSError)]
)
def test_only_a_full_disk_or_quota_is_out_of_space(tmp_path, number, kind):
    assert type(typed(OSError(number, "x"), tmp_path, 1)) is kind


def test_unlinking_what_is_gone_is_no_error_and_removes_nothing_else(fs, tmp_path):
    (tmp_path / "there").touch()
    for _ in range(2):
        fs.unlink(tmp_path / "gone", Purpose.REMOVE)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("by_kernel", [True, False], ids=["copy_file_range", "read and write"])
def test_copy_takes_just_the_asked_bytes(fs, tmp_path, monkeypatch, by_kernel):
    if not by_kernel:
        monkeypatch.setattr(os, "copy_file_range", _other_device, raising=False)
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 8)
    with source.open("rb") as file, fs.create(tmp_path / "copy", tmp_path, Purpose.CLEAN) as copy:
        copy.write(b"head")
        copy.copy_from(file.fileno(), 100, 1000)
        assert copy.size_bytes == 1004
    assert (tmp_path / "copy").read_bytes() == b"head" + source.read_bytes()[100:1100]


@pytest.mark.parametrize("by_kernel", [True, False], ids=["copy_file_range", "read and write"])
def test_copy_beyond_the_end_of_the_source_fails(fs, tmp_path, monkeypatch, by_kernel):
    if not by_kernel:
        monkeypatch.setattr(os, "copy_file_range", _other_device, raising=False)
    (tmp_path / "source").write_bytes(b"short")
    with (
        (tmp_path / "source").open("rb") as file,
        fs.create(tmp_path / "copy", tmp_path, Purpose.CLEAN) as copy,
        pytest.raises(EOFError),
    ):
        copy.copy_from(file.fileno(), 0, 6)


def _other_device(*_, **__):
    raise OSError(errno.EXDEV, "other device")


def test_appended_file_grows_at_its_end(fs, tmp_path):
    (tmp_path / "journal").write_bytes(b"one\n")
    with fs.open_to_append(tmp_path / "journal", Purpose.JOURNAL) as file:
        file.write(b"two\n")
        assert file.size_bytes == 8
    assert (tmp_path / "journal").read_bytes() == b"one\ntwo\n"


def test_file_time_is_set_to_the_nanosecond(fs, tmp_path):
    with fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN) as file:
        file.write(b"x")
        file.set_mtime(1_600_000_000_123_456_789)
    assert (tmp_path / "new").stat().st_mtime_ns == 1_600_000_000_123_456_789


@pytest.mark.parametrize(
    ("uid", "gids", "is_safe"),
    [(0, [], True), (KAFKA_UID, [KAFKA_GID], True), (KAFKA_UID, [1], False), (1, [KAFKA_GID], False)],
)
def test_directory_of_another_owner_is_refused_unless_root(tmp_path, monkeypatch, uid, gids, is_safe):
    fields = list(tmp_path.stat())
    fields[4], fields[5] = KAFKA_UID, KAFKA_GID
    monkeypatch.setattr(type(tmp_path), "stat", lambda self, **_: os.stat_result(fields))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: 99)
    monkeypatch.setattr(os, "getgroups", lambda: gids)
    if is_safe:
        check_owner(tmp_path)
    else:
        with pytest.raises(UnsafeOwner, match="12345"):
            check_owner(tmp_path)


def test_a_time_is_set_before_the_fsync_that_makes_it_last(fs, tmp_path):
    with fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN) as file:
        file.write(b"x")
        file.fsync()
        with pytest.raises(AssertionError, match="a power cut would lose"):
            file.set_mtime(1)
