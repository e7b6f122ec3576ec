from __future__ import annotations

import json

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from tests.partition_dirs import PartitionDir, committed, keyed


@pytest.fixture
def sides(tmp_path):
    def make(after: bytes, compacted_to: int) -> tuple[str, str]:
        for name, data in (("before", keyed(0, "a=1", "a=2", "b=1")), ("after", after)):
            made = PartitionDir(tmp_path / name).segment(0, data).segment(3, keyed(3, "c=1"))
            committed(tmp_path / name, made)
        (tmp_path / "after/cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {compacted_to}\n")
        return str(tmp_path / "before"), str(tmp_path / "after")

    return make


def test_what_a_cleaning_took_is_told_with_its_causes(sides, capsys):
    assert main(["diff", *sides(keyed(1, "a=2", "b=1"), 3)]) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines() == [
        "orders-0: 3 of 4 records stayed; gone: 1 superseded",
        "1 partitions compared: only superseded, expired and aborted records are gone",
    ]


def test_damage_gives_status_4_and_its_first_offset(sides, capsys):
    assert main(["diff", *sides(keyed(0, "a=1", "a=2"), 3)]) == ExitStatus.DAMAGED
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("orders-0: DAMAGE at offset 2: the record is gone")
    assert last.endswith("DAMAGE in 1 places")


def test_document_for_machines(sides, capsys):
    assert main(["diff", "--json", *sides(keyed(0, "a=1", "a=2"), 3)]) == ExitStatus.DAMAGED
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["damaged"], told["files"]) == ("logcleaner.diff/1", True, [])
    (orders,) = told["partitions"]
    assert (orders["records"], orders["kept"], orders["damaged"], orders["damage"]["offset"]) == (4, 3, 1, 2)


def test_partition_that_is_missing_is_damage(sides, tmp_path, capsys):
    before, after = sides(keyed(1, "a=2", "b=1"), 3)
    (tmp_path / "after/orders-0").rename(tmp_path / "after/other-0")
    assert main(["diff", before, after, "--json"]) == ExitStatus.DAMAGED
    assert json.loads(capsys.readouterr().out)["partitions"][0]["records"] is None
    assert main(["diff", before, after]) == ExitStatus.DAMAGED
    assert "has no such partition" in capsys.readouterr().out
    assert main(["diff", before, after, "--topic", "other"]) == ExitStatus.DONE


def test_place_that_is_no_log_dir_is_wrong_usage(tmp_path, capsys):
    assert main(["diff", str(tmp_path), str(tmp_path)]) == ExitStatus.USAGE
    assert "no partition directory" in capsys.readouterr().err
