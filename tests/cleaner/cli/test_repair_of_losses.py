"""A repair never makes a wrong file of a log that lacks records: the files that tell of the loss stay, with
status 4.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli import main as command_line
from storage.log.listing import list_partition
from storage.records import iter_headers
from storage.segment import Segment, reading
from tests.conftest import Samples
from tests.flips import staged


@pytest.fixture
def partition(samples: Samples, tmp_path: Path) -> Path:
    """Of transactions, never compacted, as a broker left it that was stopped."""
    return staged(samples, tmp_path / "data", "before", ("payments-0",)) / "payments-0"


def repaired(partition: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """Repair, and return the status and the document."""
    capsys.readouterr()
    status = command_line.main(["verify", "--repair", "--yes", "--json", "--log-dir", str(partition.parent)])
    return status, json.loads(capsys.readouterr().out)


def contents(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()}


def a_log(partition: Path, place: int) -> Path:
    return list_partition(partition).segments[place].log.path


def a_symlink(log: Path) -> None:
    """A broker follows it."""
    target = log.parents[2] / "elsewhere.log"
    log.rename(target)
    log.symlink_to(target)


def a_fifo(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def a_directory(log: Path) -> None:
    log.unlink()
    log.mkdir()


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("made", [a_symlink, a_fifo, a_directory])
def test_nothing_is_derived_where_a_segment_is_no_plain_file(
    partition: Path, capsys: pytest.CaptureFixture[str], made: Callable[[Path], None], place: int
) -> None:
    log = a_log(partition, place)
    made(log)
    ruined = next(path for path in sorted(partition.glob("*.snapshot")) if path.stat().st_size)
    ruined.write_bytes(b"garbage")
    before = contents(partition)
    status, document = repaired(partition, capsys)
    assert status == 4
    found = document["findings"]
    assert {one["code"] for one in found} == {"NAME_STRANGE", "SNAPSHOT_CORRUPT"}, (
        "nothing that is right is called wrong"
    )
    assert {Path(one["path"]).name for one in found} == {log.name, ruined.name}, "its indexes are not without a .log"
    assert {one["code"] for one in document["repairs"]} == {"UNTOUCHABLE"}
    assert contents(partition) == before


def test_a_damaged_index_beside_a_symlink_is_left(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_symlink(a_log(partition, 1))
    a_log(partition, 0).with_suffix(".index").unlink()
    status, document = repaired(partition, capsys)
    assert status == 4
    assert {one["code"] for one in document["repairs"]} == {"UNTOUCHABLE"}


def emptied(segment: Segment) -> None:
    os.truncate(segment.log.path, 0)


def removed(segment: Segment) -> None:
    segment.log.path.unlink()


def all_removed(segment: Segment) -> None:
    for path in segment.directory.glob(f"{segment.base_offset:020d}.*"):
        path.unlink()


def without_its_last_batch(segment: Segment) -> None:
    os.truncate(segment.log.path, starts(segment)[-1])


def without_a_batch(segment: Segment) -> None:
    path, found = segment.log.path, starts(segment)
    data = path.read_bytes()
    path.write_bytes(data[: found[2]] + data[found[3] :])


def starts(segment: Segment) -> list[int]:
    with reading(segment.log.path) as descriptor:
        return [one.position for one in iter_headers(descriptor, segment.log.path, 0)]


LOSSES: Final = (emptied, removed, without_its_last_batch, without_a_batch)


@pytest.mark.parametrize(
    ("lose", "place"), [*product(LOSSES, (0, 1, 2, -1)), (all_removed, 1), (all_removed, 2), (all_removed, -1)]
)
def test_evidence_of_lost_records_stays(
    partition: Path, capsys: pytest.CaptureFixture[str], lose: Callable[[Segment], None], place: int
) -> None:
    segments = list_partition(partition).segments
    lose(segments[place])
    before = contents(partition)
    status, document = repaired(partition, capsys)
    assert status == 4
    mended = {name for name, data in before.items() if contents(partition).get(name) != data}
    own = f"{segments[place].base_offset:020d}"
    assert not [name for name in mended if name.startswith(own) or name.endswith((".snapshot", ".txnindex", "point"))]
    assert {"data_lost"} <= {one["harm"] for one in document["findings"]}
    assert {one["code"] for one in document["repairs"]} <= {"RECORDS_MISSING", "LOG_DAMAGED", "NOTHING_TO_DO"}
