"""The files that a log keeps open: how many, for how long, and for which listing of a segment."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import pytest

from storage.log import Log, LogConfig
from storage.log.fetching import open_segments
from tests.storage.log.logs import FS, NOW_MS, a_log, append, bases, looked_up, reopened

SMALL = LogConfig(segment_bytes=200, index_interval_bytes=1)


def filled(tmp_path: Path, batches: int = 30) -> Log:
    with a_log(tmp_path, SMALL) as log:
        for place in range(batches):
            append(log, NOW_MS + place)
    return reopened(log, SMALL)


def open_files(log: Log) -> int:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(link.readlink())
    return sum(path.parent == log.directory for path in found)


def test_a_segment_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)
    looked_up(log, NOW_MS)
    monkeypatch.setattr(open_segments, "OpenSegment", None)
    assert looked_up(log, NOW_MS) == (NOW_MS, 0)


def test_the_one_not_used_for_the_longest_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_segments, "_READERS_MAX", 3)
    log = filled(tmp_path)
    assert len(bases(log)) > 6
    for offset in [*range(30), 0, 29, 15]:
        assert looked_up(log, NOW_MS + offset) == (NOW_MS + offset, offset)
        assert open_files(log) <= 3


def test_indexes_beyond_what_memory_they_may_take_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_segments, "_INDEX_BYTES_MAX", 0)
    log = filled(tmp_path)
    for offset in range(30):
        looked_up(log, NOW_MS + offset)
    assert open_files(log) <= 2


def test_closing_lets_go_of_all_files_and_reading_opens_them_again(tmp_path: Path) -> None:
    log = filled(tmp_path)
    append(log)
    for offset in range(30):
        looked_up(log, NOW_MS + offset)
    log.close()
    assert open_files(log) == 0
    assert looked_up(log, NOW_MS + 29)
    assert open_files(log) > 0
    log.close()
    assert open_files(log) == 0


def test_a_log_that_nobody_closed_lets_go_when_it_is_forgotten(tmp_path: Path) -> None:
    log = filled(tmp_path)
    looked_up(log, NOW_MS)
    kept = reopened(log)
    del log
    gc.collect()
    assert open_files(kept) == 0


def test_what_is_appended_and_rolled_meanwhile_is_found(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=1)
    for place in range(1, 40):
        append(log, NOW_MS + place)
        for offset in (0, place // 2, place):
            assert looked_up(log, NOW_MS + offset) == (NOW_MS + offset, offset)
        assert looked_up(log, NOW_MS + place + 1) is None
    log.close()
    assert len(bases(log)) > 6


def test_another_listing_of_a_segment_gets_another_reader(tmp_path: Path) -> None:
    log = filled(tmp_path)
    first = log.segments[0]
    again = Log.open(log.directory, SMALL, FS).segments[0]
    opened = open_segments.OpenSegments()
    reader = opened.reader(first)
    assert opened.reader(first) is reader
    assert opened.reader(again) is not reader
    assert opened.first_as_late(log.segments, NOW_MS + 29) == len(log.segments) - 1
    assert opened.first_as_late(log.segments[1:], NOW_MS) == 0
    assert opened.first_as_late(log.segments, NOW_MS + 30) == len(log.segments)
    opened.close()
