"""One writer at a time: threads that share a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.log import Appended, Log, LogConfig
from tests.storage.log.logs import NOW_MS, a_log, offsets, record, reopened

THREADS = 4
APPENDS = 150


@pytest.fixture
def eager() -> Iterator[None]:
    """Threads that take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager")
def test_threads_get_distinct_offsets_and_every_record_is_there(tmp_path: Path) -> None:
    log = a_log(tmp_path, LogConfig(segment_bytes=5000))

    def append(number: int) -> list[Appended]:
        return [log.append_records([record(f"{number}-{turn}")] * 2, now_ms=NOW_MS) for turn in range(APPENDS)]

    with ThreadPoolExecutor(THREADS) as pool:
        appended = [one for some in pool.map(append, range(THREADS)) for one in some]
    assert sorted(one.first_offset for one in appended) == list(range(0, 2 * THREADS * APPENDS, 2))
    log.close()
    found = reopened(log)
    assert offsets(found) == list(range(2 * THREADS * APPENDS))
    keys = {one.first_offset: next(found.records(one.first_offset)).key for one in appended[:APPENDS]}
    assert list(keys.values()) == [b"0-%d" % turn for turn in range(APPENDS)]


@pytest.mark.usefixtures("eager")
def test_one_thread_may_roll_and_flush_while_another_appends(tmp_path: Path) -> None:
    log = a_log(tmp_path)

    def append(log: Log) -> None:
        for _ in range(APPENDS):
            log.append_records([record()], now_ms=NOW_MS)

    with ThreadPoolExecutor(2) as pool:
        appending = pool.submit(append, log)
        while not appending.done():
            log.roll(NOW_MS)
            log.flush()
        appending.result()
    log.close()
    assert offsets(reopened(log)) == list(range(APPENDS))
