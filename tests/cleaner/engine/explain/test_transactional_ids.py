"""The transactional id of a producer, looked up in ``__transaction_state``: the last word of the newest segment."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from cleaner.engine.explain import explaining
from cleaner.engine.explain.explaining import TOPIC, transactional_id_of
from storage.log_dir import LogDir
from storage.names import FileKind, segment_file_name
from storage.records import Record, encode_batch


def write_transaction_state(
    log_dir: Path, partition: int, base_offset: int, *records: tuple[str, int | None], mtime: int
) -> Path:
    """Write a segment with a transactional id and its producer a record, in version 0; without one a tombstone."""
    directory = log_dir / f"{TOPIC}-{partition}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / segment_file_name(base_offset, FileKind.LOG)
    keyed = [
        Record(
            base_offset + place,
            1,
            struct.pack(">hh", 0, len(name)) + name.encode(),
            None if producer_id is None else struct.pack(">hqhibiqq", 0, producer_id, 0, 60_000, 0, -1, 1, 1),
        )
        for place, (name, producer_id) in enumerate(records)
    ]
    path.write_bytes(encode_batch(keyed))
    os.utime(path, (mtime, mtime))
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_transaction_state(tmp_path, 0, 0, ("old", 4), ("other", 5), mtime=1000)
    write_transaction_state(tmp_path, 0, 2, ("first", 4), ("last", 4), ("gone", None), mtime=3000)
    write_transaction_state(tmp_path, 7, 0, ("elsewhere", 6), mtime=2000)
    return tmp_path


@pytest.mark.parametrize(("producer_id", "found"), [(4, "last"), (5, "other"), (6, "elsewhere"), (7, None)], ids=str)
def test_the_newest_record_that_names_the_producer_counts(log_dir: Path, producer_id: int, found: str | None) -> None:
    assert transactional_id_of(producer_id, [LogDir(log_dir)]) == found


def test_a_damaged_segment_is_passed_over(log_dir: Path) -> None:
    newest = log_dir / f"{TOPIC}-0" / segment_file_name(2, FileKind.LOG)
    newest.write_bytes(b"\xff" * newest.stat().st_size)
    os.utime(newest, (3000, 3000))
    assert transactional_id_of(4, [LogDir(log_dir)]) == "old"


def test_no_more_is_read_than_so_many_bytes(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = (log_dir / f"{TOPIC}-0" / segment_file_name(2, FileKind.LOG)).stat().st_size
    monkeypatch.setattr(explaining, "READ_BYTES_MAX", newest)
    assert transactional_id_of(4, [LogDir(log_dir)]) == "last"
    assert transactional_id_of(5, [LogDir(log_dir)]) is None
