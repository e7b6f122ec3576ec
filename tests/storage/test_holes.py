"""Holes: found by SEEK_DATA and SEEK_HOLE, kept by copies, and not counted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.holes import data_bytes, data_extents

FS = FileSystem()
MIB = 1 << 20
Piece = tuple[int, bytes]
SHAPES: dict[str, tuple[int, list[Piece]]] = {
    "empty": (0, []),
    "dense": (5, [(0, b"dense")]),
    "preallocated": (10 * MIB, [(0, b"x" * 5000)]),
    "all hole": (10 * MIB, []),
    "hole first": (4 * MIB + 5, [(4 * MIB, b"dense")]),
    "holes between": (9 * MIB, [(0, b"a" * 4096), (3 * MIB, b"b" * 9000), (6 * MIB + 1, b"c")]),
}


def sparse(path: Path, size_bytes: int, pieces: list[Piece]) -> Path:
    with path.open("wb") as file:
        for position, data in pieces:
            file.seek(position)
            file.write(data)
        file.truncate(size_bytes)
    return path


def blocks_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.fixture(params=SHAPES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return sparse(tmp_path / "source", *SHAPES[request.param])


def copied(source: Path) -> Path:
    target = source.with_name("target")
    with source.open("rb") as file, FS.create(target, source.parent, Purpose.COPY) as new:
        new.copy_sparse(file.fileno(), source.stat().st_size)
        assert new.size_bytes == source.stat().st_size
        new.fsync()
    return target


def test_copy_has_the_bytes_and_the_holes(source: Path) -> None:
    target = copied(source)
    assert target.read_bytes() == source.read_bytes()
    assert blocks_bytes(target) <= blocks_bytes(source) + 4096


@pytest.mark.parametrize("shape", SHAPES)
def test_data_are_counted_without_the_holes(tmp_path: Path, shape: str) -> None:
    size_bytes, pieces = SHAPES[shape]
    with sparse(tmp_path / "source", size_bytes, pieces).open("rb") as file:
        found = data_bytes(file.fileno(), size_bytes)
    written = sum(len(piece) for _, piece in pieces)
    assert written <= found <= min(size_bytes, written + 2 * 4096 * len(pieces))


def test_what_lies_between_the_extents_is_zeros(source: Path) -> None:
    data = source.read_bytes()
    with source.open("rb") as file:
        extents = list(data_extents(file.fileno(), len(data)))
    rebuilt = bytearray(len(data))
    for start, end in extents:
        assert 0 <= start < end <= len(data)
        rebuilt[start:end] = data[start:end]
    assert bytes(rebuilt) == data
    assert extents == sorted(extents)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_file_system_that_knows_no_holes_has_one_extent(
    source: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.lseek

    def seek(descriptor: int, position: int, whence: int) -> int:
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(number, "unknown")
        return real(descriptor, position, whence)

    monkeypatch.setattr(os, "lseek", seek)
    size_bytes = source.stat().st_size
    with source.open("rb") as file:
        assert list(data_extents(file.fileno(), size_bytes)) == ([(0, size_bytes)] if size_bytes else [])
    assert copied(source).read_bytes() == source.read_bytes()


def test_other_errors_are_not_taken_for_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seek(*_: int) -> int:
        raise OSError(errno.EIO, "input/output error")

    path = sparse(tmp_path / "source", *SHAPES["dense"])
    monkeypatch.setattr(os, "lseek", seek)
    with path.open("rb", buffering=0) as file, pytest.raises(OSError, match="input/output error"):
        list(data_extents(file.fileno(), 5))


def test_disk_too_full_for_a_hole_is_out_of_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    path = sparse(tmp_path / "source", *SHAPES["preallocated"])
    monkeypatch.setattr(os, "ftruncate", full)
    with pytest.raises(OutOfSpace, match="target"):
        copied(path)
