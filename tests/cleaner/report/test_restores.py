from __future__ import annotations

from dataclasses import replace

from cleaner.engine.repair.reverting import RevertResult
from cleaner.engine.restore import RestoreResult
from cleaner.report.restores import ReleaseReport, RestoreReport, RevertReport
from policies.findings.repairs import Content, FoundContent, RepairNote, revert_verdicts
from policies.restore import RestoreFacts, restoration
from storage.names import TopicPartition
from tests.cleaner.report.texts import text_of
from tests.policies.test_restore import a_deletion, facts, plain, waiting

TIME_MS = 1_800_000_000_000


def a_result(name: str, given: RestoreFacts, **fields: object) -> RestoreResult:
    topic, _, partition = name.rpartition("-")
    given = replace(given, topic_partition=TopicPartition(topic, int(partition)))
    return RestoreResult(given.topic_partition, "/data", restoration(given), **fields)  # type: ignore[arg-type]


WHOLE = a_result("clicks-0", facts(a_deletion(0, 10, 20, end=30), files=waiting(0, 10, 20) | plain(30)))
PART = a_result("orders-1", facts(a_deletion(0, 10, 20, end=30), files=waiting(0, 20) | plain(30)))
HELD = a_result("held-2", facts(files=plain(0)), held_since_ms=TIME_MS)
LAPSED = a_result("again-4", facts(files=plain(0)), lapsed_since_ms=TIME_MS)
FAILED = RestoreResult(TopicPartition("bad", 3), "/data", None, "/data/bad-3: cannot be read")

LISTED = """\
clicks-0
  restorable  offsets 0 to 29, 3 segments, 180 bytes  RESTORABLE
    20: deleted 2027-01-15T08:00:00Z

orders-1
  restorable  offsets 20 to 29, 1 segment, 90 bytes  RESTORABLE
    20: deleted 2027-01-15T08:00:00Z
  kept out    offsets 0 to 9, 1 segment, 30 bytes  GAP
    0: ends at offset 10, the log begins at 20: what lay between cannot come
    back

held-2  on hold since 2027-01-15T08:00:00Z

again-4
  the hold of 2027-01-15T08:00:00Z belonged to another topic of this name, and
    has lapsed

bad-3
  FAILED: /data/bad-3: cannot be read

Restorable: 4 segments of 2 partitions, 270 bytes.
logcleaner restore TOPIC-PARTITION, or --all, brings them back.
"""
DONE = """\
clicks-0  on hold since 2027-01-15T08:00:00Z
  restored    offsets 0 to 29, 3 segments, 180 bytes  RESTORABLE
    20: deleted 2027-01-15T08:00:00Z

Restored: 3 segments of 1 partition, 180 bytes.
Retention and compaction leave these partitions alone until logcleaner restore
--release TOPIC-PARTITION.
"""


def test_list_tells_what_can_come_back_what_cannot_and_why() -> None:
    assert text_of(RestoreReport([WHOLE, PART, HELD, LAPSED, FAILED], dry_run=True)) == LISTED


def test_restore_tells_what_came_back_and_how_the_hold_ends() -> None:
    assert text_of(RestoreReport([replace(WHOLE, is_done=True, held_since_ms=TIME_MS)], dry_run=True)) == DONE


def test_nothing_to_restore_is_said() -> None:
    assert text_of(RestoreReport([], dry_run=True)) == "There is nothing to restore.\n"


def test_released_partitions_are_named() -> None:
    released = [TopicPartition("clicks", 0), TopicPartition("orders", 1)]
    told = "clicks-0: is no longer on hold\norders-1: is no longer on hold\n"
    assert text_of(ReleaseReport(released, dry_run=False)) == told
    assert text_of(ReleaseReport(released, dry_run=True)) == told.replace(" is ", " would be ")
    assert text_of(ReleaseReport([], dry_run=False)) == "Nothing was on hold.\n"


def test_document_has_every_segment_newest_first() -> None:
    found = RestoreReport([replace(PART, is_done=True, held_since_ms=TIME_MS), FAILED], dry_run=False).document()
    assert (found["schema"], found["dry_run"], found["released"]) == ("logcleaner.restore/1", False, [])
    part, failed = found["partitions"]
    assert part["segments"] == [
        {
            "base_offset": 20,
            "end_offset": 30,
            "bytes": 90,
            "deleted_ms": TIME_MS,
            "restored": True,
            "code": "RESTORABLE",
            "text": "deleted 2027-01-15T08:00:00Z",
        },
        {
            "base_offset": 0,
            "end_offset": 10,
            "bytes": 30,
            "deleted_ms": TIME_MS,
            "restored": False,
            "code": "GAP",
            "text": "ends at offset 10, the log begins at 20: what lay between cannot come back",
        },
    ]
    assert failed == {
        "topic": "bad",
        "partition": 3,
        "log_dir": "/data",
        "held_since_ms": None,
        "error": "/data/bad-3: cannot be read",
        "segments": [],
        "log_starts": [],
    }


OLD, NEW = Content(16, 1), Content(8, 2)
INDEX = RepairNote(TIME_MS, f"{0:020d}.index", "index", OLD, NEW, None, None)
LATER = INDEX._replace(file_name=f"{0:020d}.timeindex")
REPAIRS = RevertResult(
    TopicPartition("clicks", 0),
    "/data",
    revert_verdicts([(INDEX, FoundContent(NEW, OLD)), (LATER, FoundContent(OLD, OLD))]),
)
REVERTIBLE = f"""\
clicks-0
  can be taken back  {0:020d}.index  repaired 2027-01-15T08:00:00Z
  kept out           {0:020d}.timeindex  {REPAIRS.verdicts[1].text}
"""


def test_repairs_that_can_be_taken_back_or_were_are_told_file_by_file() -> None:
    found = text_of(RevertReport([REPAIRS], dry_run=True), 200)
    assert found == f"{REVERTIBLE}logcleaner restore --repairs TOPIC-PARTITION, or --all, takes them back.\n"
    failed = replace(REPAIRS, is_done=True, error="/data/clicks-0: cannot be read")
    found = text_of(RevertReport([failed], dry_run=False), 200)
    taken_back = REVERTIBLE.replace("can be taken back", "taken back       ")
    assert found == f"{taken_back}  FAILED: /data/clicks-0: cannot be read\n"
    assert text_of(RevertReport([], dry_run=False)) == "No repair can be taken back.\n"


def test_document_names_what_was_released() -> None:
    assert ReleaseReport([TopicPartition("clicks", 0)], dry_run=True).document()["released"] == ["clicks-0"]
