"""A clock that jumped pauses everything in a log dir, from recovery to the sweep, until it is confirmed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.engine.clock import SystemClock
from cleaner.engine.journal import Journal, encode_entry, read_journal, read_last_run
from policies.facts import Boot, LastRun
from policies.reasons import ReasonCode
from storage.filesystem import FileSystem
from storage.names import JOURNAL_FILE
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    request,
)

LAYERS = configured("clock.jump.max=30d", clicks=EXPIRING)
LATER_MS = NOW_MS + 40 * DAY_MS
BOOT = Boot("this boot", NOW_MS - DAY_MS)


@pytest.fixture
def clicks(tmp_path: Path) -> PartitionDir:
    """An expired segment, a fresh one, what a crash left, and what an earlier run renamed; all of it of NOW_MS."""
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 2 * DAY_MS))
    made.segment(1, keyed(1, "x=2"))
    committed(tmp_path, made)
    (made.path / f"{9:020d}.log.deleted").touch()
    (made.path / f"{9:020d}.log.cleaned").touch()
    age(tmp_path)
    return made


def age(log_dir: Path) -> None:
    """Give everything in a log dir the time NOW_MS."""
    for path in [*log_dir.rglob("*"), log_dir]:
        os.utime(path, ns=(NOW_MS * 1_000_000,) * 2)


def everything(log_dir: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in log_dir.rglob("*") if path.name != ".lock"}


def test_cold_dir_is_left_as_it_is_also_what_a_crash_or_an_earlier_run_left(tmp_path, clicks):
    before = everything(tmp_path)
    planned, outcome = a_cleaner(tmp_path, LAYERS, clock=FakeClock(LATER_MS)).clean(request(LATER_MS))
    assert everything(tmp_path) == before
    assert planned.log_dirs[0].guard is not None
    assert (outcome.results, outcome.swept_bytes, outcome.errors) == ({}, 0, ())


def test_dry_run_comes_to_the_same_verdict(tmp_path, clicks):
    cleaner = a_cleaner(tmp_path, LAYERS, clock=FakeClock(LATER_MS))
    planned = cleaner.plan(request(LATER_MS))
    assert cleaner.would_do(planned).results == {}
    assert {v.reason.code for v in planned.partitions[0].verdicts} == {ReasonCode.CLOCK_JUMPED}


def test_moment_of_the_run_does_not_get_around_it(tmp_path, clicks):
    planned, _ = a_cleaner(tmp_path, LAYERS, clock=FakeClock(LATER_MS)).clean(request(NOW_MS))
    assert planned.log_dirs[0].guard is not None


def test_choice_of_topics_does_not_hide_what_vouches_for_the_clock(tmp_path, clicks):
    PartitionDir(tmp_path, "live-0").segment(0, keyed(0, "x=1"), mtime_ms=LATER_MS)
    age(tmp_path)
    os.utime(tmp_path / "live-0" / f"{0:020d}.log", ns=(LATER_MS * 1_000_000,) * 2)
    planned = a_cleaner(tmp_path, LAYERS, clock=FakeClock(LATER_MS)).plan(request(LATER_MS, topics=("clicks",)))
    assert planned.log_dirs[0].guard is None


def test_confirmed_it_goes_on_is_journalled_and_not_asked_again(tmp_path, clicks):
    cleaner = a_cleaner(tmp_path, LAYERS, clock=FakeClock(LATER_MS))
    planned, _ = cleaner.clean(request(LATER_MS, confirmed=True))
    assert planned.log_dirs[0].guard is None
    first, *_ = read_journal(tmp_path)
    assert first["what"] == "clock"
    assert "40d later than the newest file" in first["text"]
    assert f"{0:020d}.log" not in file_names(clicks.path)
    age(tmp_path)
    assert cleaner.plan(request(LATER_MS)).log_dirs[0].guard is None


def test_clock_set_back_is_seen_by_the_boot_clock_although_the_files_agree(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS, BOOT)).clean(request(confirmed=True))
    jumped = BOOT._replace(booted_ms=BOOT.booted_ms + 31 * DAY_MS)
    planned = a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS, jumped)).plan(request())
    assert planned.log_dirs[0].guard is not None


def test_last_run_is_the_last_whole_entry_also_of_a_rotated_journal(tmp_path):
    assert read_last_run(tmp_path) is None
    journal = Journal(tmp_path, FileSystem(), BOOT)
    journal.record("delete", NOW_MS)
    journal.close()
    with (tmp_path / JOURNAL_FILE).open("ab") as file:
        file.write(b"12345678 {torn")
    assert read_last_run(tmp_path) == LastRun(NOW_MS, BOOT)
    (tmp_path / JOURNAL_FILE).rename(tmp_path / f"{JOURNAL_FILE}.1")
    (tmp_path / JOURNAL_FILE).touch()
    assert read_last_run(tmp_path) == LastRun(NOW_MS, BOOT)


@pytest.mark.parametrize("entry", [{"what": "x"}, {"time_ms": "1"}, {"time_ms": None, "boot": [1, 2]}])
def test_entry_of_another_shape_is_passed_over(tmp_path, entry):
    whole = encode_entry({"time_ms": 5, "what": "delete", "boot": ["it", "was"]})
    (tmp_path / JOURNAL_FILE).write_bytes(whole + encode_entry(entry))
    assert read_last_run(tmp_path) == LastRun(5, None)


def test_boot_of_the_machine_stays_where_it_was():
    first, *others = [SystemClock().boot() for _ in range(50)]
    assert first
    assert all(other and other.boot_id == first.boot_id for other in others)
    spans_ms = [abs(other.booted_ms - first.booted_ms) for other in others if other]
    assert min(spans_ms) < 1000  # a busy machine may hold up some of them between two looks at clocks
