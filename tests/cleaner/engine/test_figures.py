"""The figures of a run are what the disk gets: blocks, as ``du`` counts them, of sparse and of linked files, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.engine.outcome import Outcome
from cleaner.report.cleaning import CleaningReport
from cleaner.report.totals import Totals
from policies.plan import Plan
from storage.segment import BLOCK_BYTES
from tests.cleaner.report.texts import text_of
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

MIB = 1 << 20
LAYERS = configured(clicks=EXPIRING, orders={**COMPACT, "min.cleanable.dirty.ratio": "0"})


def test_figures_of_two_runs_add_up_and_an_error_of_both_is_told_once() -> None:
    first, second = (
        Outcome(
            False,
            {},
            size,
            swept_disk_bytes=10 * size,
            seconds=size / 2,
            errors=("both", name),
            full_log_dirs={name: ""},
        )
        for size, name in ((1, "first"), (2, "second"))
    )
    assert first.followed_by(second) == Outcome(
        False,
        {},
        3,
        swept_disk_bytes=30,
        seconds=1.5,
        errors=("both", "first", "second"),
        full_log_dirs={"first": "", "second": ""},
    )


def of_segments(log_dir: Path) -> int:
    """What the blocks of all segments take; one hard link of a file counts."""
    files = {
        (status.st_dev, status.st_ino): status.st_blocks
        for partition in ("clicks-0", "orders-0")
        for path in (log_dir / partition).glob("0*")
        if not path.name.endswith(".snapshot") and (status := path.stat())
    }
    return BLOCK_BYTES * sum(files.values())


def preallocated(partition: PartitionDir, *bases: int) -> None:
    """Make the index files as long as a broker that was killed leaves them: all but their beginning is a hole."""
    for base in bases:
        for kind in ("index", "timeindex"):
            path = partition.path / f"{base:020d}.{kind}"
            os.truncate(path, 10 * MIB if kind == "index" else 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """One expired segment of clicks, and three of orders that a round makes one; all with preallocated indexes."""
    clicks = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 2 * DAY_MS))
    clicks.segment(1, keyed(1, "x=2"))
    orders = PartitionDir(tmp_path, "orders-0")
    for base in range(4):
        orders.segment(2 * base, keyed(2 * base, f"k{base}={'v' * 9000}", f"x={'v' * 9000}"))
    preallocated(clicks, 0)
    preallocated(orders, 0, 2, 4)
    committed(tmp_path, clicks, orders)
    return tmp_path


def a_run(log_dir: Path) -> tuple[Plan, Outcome]:
    return a_cleaner(log_dir, LAYERS).clean(request(delete_delay_ms=0))


def test_what_a_run_says_it_frees_is_what_du_says(log_dir: Path) -> None:
    before = of_segments(log_dir)
    cleaner = a_cleaner(log_dir, LAYERS)
    planned = cleaner.plan(request(delete_delay_ms=0))
    foreseen = Totals.of(planned, cleaner.would_do(planned, exact=True))
    plan, outcome = a_run(log_dir)
    done = Totals.of(plan, outcome)
    assert done.disk_bytes_before == before
    assert done.space.reclaimed_disk_bytes == before - of_segments(log_dir) > 0
    assert done.space.waiting_disk_bytes == 0
    assert foreseen.space == done.space
    assert done.deleted_bytes > 10 * MIB > done.space.left_disk_bytes


def test_text_and_document_tell_blocks(log_dir: Path) -> None:
    before = of_segments(log_dir)
    report = CleaningReport(*a_run(log_dir))
    freed = before - of_segments(log_dir)
    assert report.document()["totals"]["reclaimed_disk_bytes"] == freed < 100_000
    assert report.document()["log_dirs"][0]["disk_bytes"] == before
    assert f"Freed          {freed / 1024:.1f} KiB of {before / 1024:.1f} KiB" in text_of(report)


def test_file_with_another_hard_link_frees_nothing(log_dir: Path) -> None:
    log = log_dir / "clicks-0" / f"{0:020d}.log"
    (log_dir.parent / "kept").hardlink_to(log)
    _, outcome = a_run(log_dir)
    (result,) = (r for (_, name), r in outcome.results.items() if name.topic == "clicks")
    assert result.freed_bytes > 0
    assert result.space.freed_disk_bytes == 0


def test_what_waits_is_not_freed_yet(log_dir: Path) -> None:
    before = of_segments(log_dir)
    plan, outcome = a_cleaner(log_dir, LAYERS).clean(request())
    space = Totals.of(plan, outcome).space
    assert of_segments(log_dir) - before == space.added_disk_bytes > 0
    assert (space.freed_disk_bytes, space.waiting_disk_bytes) == (0, space.left_disk_bytes)


def test_what_is_left_is_what_the_next_plan_finds(log_dir: Path) -> None:
    plan, outcome = a_run(log_dir)
    totals = Totals.of(plan, outcome)
    left = Totals.of(a_cleaner(log_dir, LAYERS).plan(request()), Outcome(True, {}))
    assert totals.bytes_before - totals.reclaimed_bytes == left.bytes_before
    assert totals.space.index_saved_bytes > 19 * MIB


def test_document_tells_what_was_unlinked_of_earlier_runs(log_dir: Path) -> None:
    a_cleaner(log_dir, LAYERS).clean(request())
    waiting = [path.stat() for path in log_dir.glob("*/*.deleted")]
    later = a_cleaner(log_dir, LAYERS, clock=FakeClock(NOW_MS + DAY_MS))
    planned = later.plan(request())
    unlinked = (sum(status.st_size for status in waiting), BLOCK_BYTES * sum(status.st_blocks for status in waiting))
    for plan, outcome in ((planned, later.would_do(planned)), later.clean(request())):
        totals = CleaningReport(plan, outcome).document()["totals"]
        assert (totals["unlinked_bytes"], totals["unlinked_disk_bytes"]) == unlinked
