"""Files that no directory names any more, and that a process keeps open or mapped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cleaner.engine.space import UnlinkedFile, file_systems_of, unlinked_files
from policies.rescue import Volume
from tests.cleaner.engine.space.du import du

MIB = 1 << 20
HOLDS_OPEN = "import sys; file = open(sys.argv[1], 'rb'); print(flush=True); sys.stdin.read()"
MAPS = """
import mmap, os, sys
mapped = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, access=mmap.ACCESS_READ)
os.closerange(3, 100)
print(flush=True); sys.stdin.read(); os._exit(0)
"""


def seen(directory: Path, proc: Path = Path("/proc")) -> list[UnlinkedFile]:
    """The unlinked files of this test, among those of all processes of the machine."""
    found = unlinked_files(frozenset({directory.stat().st_dev}), proc)[directory.stat().st_dev]
    return [file for file in found.files if file.path.startswith(f"{directory}/")]


@contextmanager
def another_process(path: Path, script: str = HOLDS_OPEN) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=-1, stdout=-1) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.communicate()


def test_open_file_that_is_unlinked_is_seen_and_du_does_not_see_it(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log.deleted"
    path.write_bytes(b"x" * MIB)
    with another_process(path) as process:
        assert seen(tmp_path) == []
        path.unlink()
        assert du(tmp_path)[0] < MIB // 2
        (found,) = seen(tmp_path)
        assert (found.path, found.pid, found.processes) == (str(path), process.pid, 1)
        assert found.command.startswith("python")
        assert found.apparent_bytes == MIB
        assert found.disk_bytes >= MIB
    assert seen(tmp_path) == []


def test_file_that_two_processes_have_open_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "a\tname\\with odd\ncharacters"
    path.write_bytes(b"x" * MIB)
    with another_process(path) as first, another_process(path) as second:
        path.unlink()
        (found,) = seen(tmp_path)
        assert (found.pid, found.processes) == (min(first.pid, second.pid), 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: the kernel tells of mapped files to root alone")
def test_file_that_is_mapped_and_no_longer_open_is_seen(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.index"
    path.write_bytes(b"x" * MIB)
    with another_process(path, MAPS) as process:
        path.unlink()
        (found,) = seen(tmp_path)
        assert (found.path, found.pid, found.apparent_bytes) == (str(path), process.pid, MIB)


def test_file_with_another_name_left_and_one_whose_name_looks_so_are_not_unlinked(tmp_path: Path) -> None:
    linked, odd = tmp_path / "linked", tmp_path / "odd (deleted)"
    for path in (linked, odd):
        path.write_bytes(b"x" * MIB)
    (tmp_path / "other name").hardlink_to(linked)
    with another_process(linked), another_process(odd):
        linked.unlink()
        assert seen(tmp_path) == []


def a_process(proc: Path, pid: int) -> None:
    process = proc / str(pid)
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("java\n")
    (process / "maps").write_text("7f0000000000-7f0000001000 r--s 00000000 fd:00 12 /x/y (deleted)\n")


def test_process_that_ends_meanwhile_and_one_that_may_not_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_process(tmp_path, 1)
    a_process(tmp_path, 2)
    (tmp_path / "3").mkdir()
    (tmp_path / "self").mkdir()
    shut, listdir = f"{tmp_path}/2/fd", os.listdir

    def refused(path: str | Path) -> list[str]:
        if str(path) == shut:
            raise PermissionError(13, "Permission denied", shut)
        return listdir(path)

    monkeypatch.setattr("cleaner.engine.space.os.listdir", refused)
    device = tmp_path.stat().st_dev
    found = unlinked_files(frozenset({device}), tmp_path)[device]
    assert (found.largest, found.total.files, found.hidden_processes) == ((), 0, 1)


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert unlinked_files(frozenset({1}), tmp_path / "proc")[1].hidden_processes is None


def test_file_systems_are_told_each_with_its_own(tmp_path: Path) -> None:
    volume = Volume((str(tmp_path),), 100, 10, 80)
    (found,) = file_systems_of([volume])
    assert found.volume == volume
    assert found.unlinked.hidden_processes is not None
