"""Files that nobody may rename are found, whether or not one call of the kernel tells their flags."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.directory import ImmutableFile, ensure_none_immutable, opened

NAME = "00000000000000000000.index"


def known_by_nobody(*_: object) -> int:
    return 0


def refused(*_: object) -> int:
    return -1


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / NAME).touch()
    yield tmp_path
    subprocess.run(["chattr", "-R", "-i", "-a", tmp_path], check=False, capture_output=True)


def look(directory: Path, name: str = NAME) -> None:
    with opened(directory) as parent:
        ensure_none_immutable(parent, directory, [name], [])


ANSWERS = pytest.mark.parametrize("statx", [None, known_by_nobody, refused], ids=["absent", "silent", "refused"])


@pytest.mark.parametrize("flag", ["+i", "+a"])
def test_an_immutable_file_is_refused(directory: Path, flag: str) -> None:
    set_flag(directory / NAME, flag)
    with pytest.raises(ImmutableFile, match=NAME):
        look(directory)


@ANSWERS
def test_an_immutable_file_is_refused_where_statx_does_not_tell(
    directory: Path, statx: Callable[..., int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.directory.STATX", statx)
    set_flag(directory / NAME, "+i")
    with pytest.raises(ImmutableFile, match=NAME):
        look(directory)


def test_a_changeable_file_that_statx_tells_of_is_not_opened(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_flag(directory / NAME, "+i")
    set_flag(directory / NAME, "-i")
    with opened(directory) as parent:
        monkeypatch.setattr("os.open", lambda *_args, **_named: pytest.fail("opened"))
        ensure_none_immutable(parent, directory, [NAME], [])


def test_a_file_that_has_gone_is_passed_over(directory: Path) -> None:
    look(directory, "00000000000000000042.index")
    assert [path.name for path in directory.iterdir()] == [NAME]


def set_flag(path: Path, flag: str) -> None:
    done = subprocess.run(["chattr", flag, path], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT RUN: chattr needs root, and a file system that knows it: {done.stderr}")
