"""The replacement of a file: which file a path means, and which paths mean none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.replacing import replace_file, target_of


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link, first = tmp_path / "real" / "a", tmp_path / "link", tmp_path / "first"
    real.write_text("old")
    link.symlink_to("real/a")
    first.symlink_to(link)
    with real.open() as still_read:
        replace_file(first, b"new")
        assert still_read.read() == "old"
    assert (link.is_symlink(), first.is_symlink(), real.read_text()) == (True, True, "new")
    assert list((tmp_path / "real").iterdir()) == [real]


def test_a_link_to_nothing_gets_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/null", "/dev/full", "/dev/none", "/dev/fd/1", "/proc/self/fd/1"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to(path)
    for refused in (Path(path), tmp_path / "link"):
        with pytest.raises(OSError, match="it is no regular file"):
            target_of(refused)


def test_pipes_directories_and_rings_of_links_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "ring").symlink_to("ring")
    for name in ("pipe", "ring", "."):
        with pytest.raises(OSError, match=r"no regular file|Symlink loop|Too many"):
            replace_file(tmp_path / name, b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "ring"]
