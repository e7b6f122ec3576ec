"""A failure is told with its place and its cause, whoever raised it."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from cleaner.errors import how_to_install, told
from storage.errors import CorruptBatch, CorruptIndex
from storage.filesystem import FileSystem
from storage.log.roll import create_segment
from storage.stores.paths import StoredPath
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

REMEDY = (
    "if another replica is in sync, move the partition's directory away while the broker is stopped: it then fetches "
    "the partition anew; else restore the file from a backup"
)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            CorruptBatch(Path("/data/x.log"), 7, "CRC-32C mismatch"),
            f"/data/x.log at byte 7: CRC-32C mismatch; {REMEDY}",
        ),
        (
            CorruptBatch(StoredPath("tier://%2Fmnt/orders-0/x.log"), 7, "CRC-32C mismatch"),
            "tier://%2Fmnt/orders-0/x.log at byte 7: CRC-32C mismatch; verify --tier names the file in the tier, and "
            "what to do; if it names none, verify the log dirs",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x.log"), "/data/x.log: Permission denied"),
        (OSError(errno.EXDEV, "Invalid link", "a", None, "b"), "a to b: Invalid link"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (FileExistsError(Path("/data/x.log")), "/data/x.log (FileExistsError)"),
        (FileNotFoundError("/data/x.log"), "/data/x.log (FileNotFoundError)"),
        (KeyError("orders-0"), "'orders-0' (KeyError)"),
        (MemoryError(), "not enough memory"),
        (MemoryError("Unable to allocate 4 GiB"), "Unable to allocate 4 GiB"),
        (ValueError(), "ValueError"),
    ],
)
def test_line_names_the_place_and_the_cause(error: Exception, line: str) -> None:
    assert told(error) == line


def test_in_the_bundle_an_extra_is_to_be_installed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "pip install '.[spark]' in the sources of logcleaner, or 'FILE.whl[spark]'"
    assert how_to_install("spark") == here
    monkeypatch.setitem(sys._xoptions, "bundle", True)
    elsewhere = f"{here}, on a machine with Python 3.11 or newer, because it is not in the bundle"
    assert how_to_install("spark") == elsewhere


def test_segment_that_is_there_already_is_told_with_that_cause(tmp_path: Path) -> None:
    log = tmp_path / f"{10_000:020d}.log"
    log.touch()
    with pytest.raises(FileExistsError) as caught:
        create_segment(FileSystem(), tmp_path, 10_000)
    assert told(caught.value) == f"{log}: a segment begins there already"


def test_segment_that_somebody_rolled_since_the_plan_is_a_change_and_planned_anew(tmp_path: Path) -> None:
    """Once the change failed the partition, and the report named nothing but the path."""

    root = tmp_path / "data"
    partition = PartitionDir(root, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 2 * DAY_MS))
    committed(root, partition)
    cleaner = a_cleaner(root, configured(clicks=EXPIRING))
    plan = cleaner.plan

    def planned(*args: object) -> object:
        made = plan(*args)  # type: ignore[arg-type]
        if not partition.log(1).exists():
            partition.segment(1, keyed(1, "x=2"))
        return made

    cleaner.plan = planned  # type: ignore[method-assign, assignment]
    _, outcome = cleaner.clean(request(delete_delay_ms=0))
    (result,) = outcome.results.values()
    assert (result.error, result.deleted_segments) == (None, 1)
    assert partition.log(1).exists()
    assert not partition.log(0).exists()


@pytest.mark.parametrize(
    ("name", "files"), [("7.index", "it"), ("7.timeindex", "it and 7.index"), ("7.txnindex", "it and 7.index")]
)
def test_damaged_index_is_told_with_what_makes_it_anew(name: str, files: str, tmp_path: Path) -> None:
    remedy = f"move {files} away and start the broker once: it makes the indexes of the segment anew from the log"
    assert told(CorruptIndex(tmp_path / name, 8, "a cause")) == f"{tmp_path / name} at byte 8: a cause; {remedy}"
