"""What people are told of findings: many of one kind as one, and no remedy that a repair would refuse."""

from __future__ import annotations

from policies.findings.findings import REBUILD, Finding, FindingCode, Harm, RepairGroup
from policies.findings.ruled_out import grouped, with_true_remedies

DIRECTORY = "/data/orders-0"
INDEX = f"{DIRECTORY}/{0:020d}.index"
LOG = f"{DIRECTORY}/{0:020d}.log"


def wrong_entry(position: int, path: str = INDEX, text: str = "leads astray: a reader fails.") -> Finding:
    return Finding(
        FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, path, f"Entry {position} {text}", REBUILD, position,
        repair=RepairGroup.DERIVED,
    )  # fmt: skip


def damaged_batch(position: int) -> Finding:
    return Finding(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, LOG, "The CRC is wrong.", "", position)


def remedy_of(*others: Finding, deleted: tuple[str, ...] = ()) -> str:
    return with_true_remedies([wrong_entry(0), *others], deleted)[0].remedy


def test_entries_of_an_index_that_are_wrong_in_one_way_are_one_finding() -> None:
    (found,) = grouped([wrong_entry(16), wrong_entry(0), wrong_entry(8)])
    assert (found.position, found.text) == (
        0, "Entry 0 leads astray: a reader fails. 2 more entries are wrong in the same way."
    )  # fmt: skip
    (found,) = grouped([wrong_entry(0), wrong_entry(8)])
    assert found.text.endswith(" Another entry is wrong in the same way.")
    unindexed = [wrong_entry(at)._replace(code=FindingCode.ABORTED_UNINDEXED) for at in (0, 8, 16)]
    assert grouped(unindexed)[0].text.endswith(" 2 more entries are missing, too.")


def test_what_differs_or_is_of_a_log_is_told_one_by_one() -> None:
    other = wrong_entry(8, text="leads too far: the log end is taken for another.")
    elsewhere = wrong_entry(8, f"{DIRECTORY}/{7:020d}.index")
    told = [wrong_entry(0), other, elsewhere, damaged_batch(0), damaged_batch(99)]
    assert grouped(told) == told


def test_remedy_is_that_of_the_rule_where_nothing_forbids_the_repair() -> None:
    assert remedy_of(damaged_batch(0)) == REBUILD
    assert remedy_of(deleted=(f"{7:020d}.index.deleted",)) == REBUILD


def test_index_that_tells_of_missing_records_is_left() -> None:
    gap = Finding(FindingCode.OFFSET_GAP, Harm.DATA_LOST, LOG, "Records are missing.", "")
    assert "Leave the file as it is" in remedy_of(gap)
    assert remedy_of(gap._replace(harm=Harm.NOTE)) == REBUILD


def test_segment_that_is_no_plain_file_comes_first() -> None:
    strange = Finding(FindingCode.NAME_STRANGE, Harm.WRONG_ANSWER, f"{DIRECTORY}/{7:020d}.log", "No plain file.", "")
    assert remedy_of(strange).startswith(f"First put a plain file in the place of {7:020d}.log")
    assert remedy_of(strange._replace(path=f"{DIRECTORY}/notes.txt")) == REBUILD


def test_name_that_is_taken_is_freed_first() -> None:
    assert remedy_of(deleted=(f"{0:020d}.index.deleted",)).startswith("First run logcleaner clean, which removes")
