"""The text and the document of ``diff --replicas``."""

from __future__ import annotations

from cleaner.engine.replicas.agreement import Agreement, Divergence
from cleaner.report.replicas import ReplicasReport
from storage.names import TopicPartition
from tests.cleaner.report.texts import text_of
from tests.schemas import check

THREE = ("a", "b", "c")
AGREES = Agreement(TopicPartition("agrees", 0), THREE, 10, 510, 500)
AT_ONE_OFFSET = Divergence(123, 123, "b lacks the record", (("a", "c"), ("b",)))
IN_A_BLOCK = Divergence(0, 4095, "the records differ", (("a",), ("b",), ("c",)))
DIVERGES = Agreement(TopicPartition("diverges", 0), THREE, 0, 200, 199, AT_ONE_OFFSET)
NOBODY_AGREES = Agreement(TopicPartition("diverges", 1), THREE, 0, 4096, 9, IN_A_BLOCK, ("b: torn",))
UNREAD = Agreement(TopicPartition("unread", 0), THREE, 0, 0, 0, None, ("a: x.log at byte 0: CRC-32C mismatch",))
LEFT = Agreement(TopicPartition("left", 0), THREE, not_compared="no offset is committed in all of them")
EVERY = ReplicasReport([AGREES, DIVERGES, NOBODY_AGREES, UNREAD, LEFT], ["single-0", "single-1"])
DAMAGE = """\
diverges-0: DAMAGE at offset 123: b lacks the record; a and c agree, b not
diverges-1: DAMAGE: b: torn
diverges-1: DAMAGE within offsets 0 to 4095: the records differ; no two agree: a, b, c
unread-0: DAMAGE: a: x.log at byte 0: CRC-32C mismatch
left-0: not compared: no offset is committed in all of them
1 partition agrees, 500 records; DAMAGE in 3; 1 not compared; 2 partitions in one place only
"""


def test_each_difference_has_a_line_and_the_last_line_counts() -> None:
    assert text_of(EVERY, 200) == DAMAGE
    assert EVERY.is_damaged


def test_partitions_that_agree_have_a_line_where_each_is_asked_for() -> None:
    agrees = "agrees-0: 3 replicas agree on 500 records, offsets 10 to 509\n"
    *damage, verdict = DAMAGE.splitlines(keepends=True)
    single = ["single-0: in one place only\n", "single-1: in one place only\n"]
    assert text_of(EVERY, 200, every_segment=True) == "".join([agrees, *damage, *single, verdict])


def test_nothing_else_is_counted_where_all_agree() -> None:
    report = ReplicasReport([AGREES, AGREES], [])
    assert text_of(report) == "2 partitions agree, 1,000 records\n"
    assert not report.is_damaged


def test_document_has_what_each_partition_gave() -> None:
    document = EVERY.document()
    check(document)
    assert [one["topic"] for one in document["partitions"]] == ["agrees", "diverges", "diverges", "unread", "left"]
    assert document["partitions"][1] == {
        "topic": "diverges", "partition": 0, "places": ["a", "b", "c"], "start_offset": 0, "end_offset": 200,
        "records": 199, "errors": [], "not_compared": None, "divergence": {
            "first_offset": 123, "last_offset": 123, "cause": "b lacks the record", "groups": [["a", "c"], ["b"]],
        },
    }  # fmt: skip
    assert (document["damaged"], document["single"]) == (True, ["single-0", "single-1"])
