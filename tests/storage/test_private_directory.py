"""Directories that no other user can change: what is refused, and that nothing behind it is touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from storage.private_directory import PrivateDirectory, cache_root


def opened(root: Path, *names: str) -> Path:
    with PrivateDirectory.open(root, *names) as directory:
        assert os.path.samestat(os.fstat(directory.descriptor), directory.path.stat())
        return directory.path


@pytest.fixture
def as_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the test's directory belongs to another user than the one who asks, and not to root."""
    real = os.fstat

    def of_another(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        if not Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path):
            return found
        fields = list(found)
        fields[stat.ST_UID] = 54_321
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", of_another)


def test_missing_levels_are_made_for_this_user_alone(tmp_path: Path) -> None:
    assert opened(tmp_path / "a" / "b", "c", "d") == tmp_path / "a" / "b" / "c" / "d"
    for path in (tmp_path / "a", *(tmp_path / "a").rglob("*")):
        assert path.stat().st_mode & 0o777 == 0o700


def test_a_level_that_cannot_be_read_can_be_passed(tmp_path: Path) -> None:
    made = opened(tmp_path / "a" / "b")
    made.parent.chmod(0o100)
    assert opened(made) == made
    made.parent.chmod(0o700)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, as_somebody_else: None) -> None:
    with pytest.raises(PermissionError, match="belongs to another user"):
        PrivateDirectory.open(tmp_path / "cache")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
@pytest.mark.parametrize("level", ["home", "home/cache", "home/cache/keys"])
def test_a_level_that_others_can_write_to_is_refused(tmp_path: Path, level: str, mode: int) -> None:
    opened(tmp_path / "home" / "cache", "keys")
    (tmp_path / level).chmod(mode)
    with pytest.raises(PermissionError, match=f"{level} can be written by another user"):
        PrivateDirectory.open(tmp_path / "home" / "cache", "keys")


def test_a_sticky_level_is_passed_but_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    assert opened(tmp_path / "tmp" / "cache") == tmp_path / "tmp" / "cache"
    with pytest.raises(PermissionError):
        PrivateDirectory.open(tmp_path / "tmp")


@pytest.mark.parametrize("names", [("keys",), ("keys", "one")])
def test_a_symlink_below_the_cache_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    link = opened(tmp_path / "cache", *names[:-1]) / names[-1]
    link.symlink_to(target)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        PrivateDirectory.open(tmp_path / "cache", *names)


@pytest.mark.parametrize("target", ["private/cache", "../{}/private/cache", "/{}"])
def test_a_symlink_to_the_cache_is_followed_from_a_directory_of_this_user(tmp_path: Path, target: str) -> None:
    """As systemd's with DynamicUser=: /var/cache/logcleaner is one."""
    (tmp_path / "private").mkdir(mode=0o700)
    filled = target.format(tmp_path.name) if target.startswith("..") else target.format(tmp_path / "private" / "cache")
    (tmp_path / "cache").symlink_to(filled)
    with PrivateDirectory.open(tmp_path / "cache", "keys"):
        assert (tmp_path / "private" / "cache" / "keys").is_dir()


def test_a_symlink_in_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    (tmp_path / "target").mkdir(mode=0o700)
    (home / "cache").symlink_to(tmp_path / "target")
    with pytest.raises(PermissionError):
        PrivateDirectory.open(home / "cache")
    assert not list((tmp_path / "target").iterdir())


def test_symlinks_that_lead_nowhere_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        PrivateDirectory.open(tmp_path / "a" / "cache")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def cut() -> list[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with PrivateDirectory.open(tmp_path / "cache") as directory:
        directory.write("a", [b"one ", b"two"])
        with pytest.raises(OSError, match="No space"):
            directory.write("a", cut())
        with directory.open_to_read("a") as file:
            assert file.read() == b"one two"
        assert directory.names() == ["a"]


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory", "writable", "another's"])
def test_only_a_plain_file_of_this_user_alone_is_read(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    with PrivateDirectory.open(tmp_path / "cache") as directory:
        path = directory.path / "a"
        match kind:
            case "symlink":
                (tmp_path / "target").touch(mode=0o600)
                path.symlink_to(tmp_path / "target")
            case "fifo":
                os.mkfifo(path)
            case "directory":
                path.mkdir()
            case _:
                path.touch(mode=0o600)
        if kind == "writable":
            path.chmod(0o620)
        if kind == "another's":
            request.getfixturevalue("as_somebody_else")
        with pytest.raises(OSError, match=r"alone|Too many levels"):
            directory.open_to_read("a")


def test_a_temporary_file_leaves_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for has_tmpfile in (True, False):
        if not has_tmpfile:
            monkeypatch.setattr(os, "O_TMPFILE", os.O_TMPFILE | os.O_CREAT)  # refused, as on a file system without them
        with PrivateDirectory.open(tmp_path / "cache") as directory, directory.temporary() as file:
            file.write(b"content")
            file.seek(0)
            assert file.read() == b"content"
            assert not directory.names()


def open_below(root: Path) -> list[Path]:
    """Return what is open of a directory and below it."""
    found = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [target for target in found if target.is_relative_to(root)]


def test_descriptors_are_closed(tmp_path: Path) -> None:
    opened(tmp_path / "cache", "keys")
    (tmp_path / "cache" / "keys").chmod(0o777)
    (tmp_path / "link").symlink_to("cache")
    for root in (tmp_path / "cache", tmp_path / "link", tmp_path / "cache" / "keys" / "below"):
        with pytest.raises(PermissionError):
            PrivateDirectory.open(root, "keys")
    assert not open_below(tmp_path)


def test_systemds_cache_directory_wins_over_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHE_DIRECTORY", "/var/cache/logcleaner:/var/cache/other")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/var/cache/logcleaner")
    monkeypatch.delenv("CACHE_DIRECTORY")
    assert cache_root() == Path("/xdg/logcleaner")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache" / "logcleaner"
