"""Transaction indexes and producer snapshots held against what the log tells."""

from __future__ import annotations

import pytest

from policies.findings.findings import NOTHING_NOTED, Finding, FindingCode, Harm
from policies.findings.of_history import SnapshotEntry, snapshot_findings, transaction_findings
from policies.findings.of_log_dir import LogClaims, offset_findings
from storage.anomalies import ABORT as ABORTED
from storage.anomalies import COMMIT as COMMITTED
from storage.anomalies import DATA as WRITTEN
from storage.anomalies import LastBatch, TxnEvent
from storage.txn_index import AbortedTxn
from tests.policies.findings.logs import log, segment, standing

DATA = TxnEvent(0, 7, WRITTEN, True, 0)
OTHERS = TxnEvent(3, 8, WRITTEN, True, 100)
ABORT = TxnEvent(5, 7, ABORTED, False, 200)
COMMIT = TxnEvent(9, 8, COMMITTED, False, 300)
STEPS = (DATA, OTHERS, ABORT, COMMIT)
ENTRY = AbortedTxn(7, 0, 5, 3)


def texts(*entries: AbortedTxn, steps: tuple[TxnEvent, ...] = STEPS, **named: object) -> list[str]:
    found = transaction_findings(log(segment(0, 10, events=steps, aborted=entries, **named)))
    assert {one.code for one in found} <= {FindingCode.TXN_INDEX_WRONG, FindingCode.ABORTED_UNINDEXED}
    return [one.text for one in found]


def test_an_entry_for_each_aborted_transaction_is_healthy():
    assert texts(ENTRY) == []
    assert texts(steps=(OTHERS, COMMIT)) == []


def test_an_aborted_transaction_without_entry_reads_as_committed():
    (found,) = transaction_findings(log(segment(0, 10, events=STEPS)))
    assert (found.code, found.kafka_issue, found.offset) == (FindingCode.ABORTED_UNINDEXED, "KAFKA-13727", 5)
    assert found.harm is Harm.WRONG_ANSWER


def test_an_aborted_transaction_without_entry_is_told_with_the_file_that_it_begins_in():
    begins = segment(0, 5, events=(DATA,))
    (found,) = transaction_findings(log(begins, segment(5, 10, events=(DATA._replace(offset=5), ABORT))))
    assert f" that begins at offset 0 in {0:020d}.log, and was aborted at offset 5: " in found.text
    assert found.path.endswith(f"{5:020d}.txnindex")


def test_a_transaction_whose_records_are_gone_needs_no_entry():
    assert texts(steps=(ABORT,)) == []
    assert texts(steps=(DATA._replace(has_records=False), ABORT)) == []


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        (ENTRY._replace(producer_id=9), "names producer 9"),
        (ENTRY._replace(first_offset=2), "begins at offset 2"),
        (ENTRY._replace(first_offset=-4), "begins at offset -4"),
        (ENTRY._replace(last_stable_offset=4), "last stable offset 4"),
        (ENTRY._replace(last_stable_offset=1), "last stable offset 1"),
        (ENTRY._replace(last_offset=9), "was committed"),
        (ENTRY._replace(last_offset=6), "there is none"),
    ],
)
def test_an_entry_that_disagrees_is_told(entry, cause):
    assert any(cause in text for text in texts(entry))


def test_in_a_compacted_log_an_entry_may_begin_before_what_is_left():
    later = DATA._replace(offset=2)
    assert texts(ENTRY, steps=(later, OTHERS, ABORT), is_full=False) == []
    assert len(texts(ENTRY, steps=(later, OTHERS, ABORT))) == 1


def test_behind_damage_nothing_is_judged():
    assert texts(steps=STEPS, is_damaged=True) == []


BATCH = LastBatch(1, 4, 8, 2)
KNOWN = SnapshotEntry(7, 1, 4, 8, 2, None)


def snapshot_texts(
    offset: int, *entries: SnapshotEntry, steps: tuple[TxnEvent, ...] = (), **named: object
) -> list[str]:
    history = log(segment(0, 10, producers={7: BATCH}, events=steps, **named), segment(10, 20))
    found = snapshot_findings(history, {offset: entries})
    return [one.text for one in found if one.code is not FindingCode.SNAPSHOT_MISSING]


def test_a_snapshot_that_agrees_is_healthy():
    assert snapshot_texts(10, KNOWN) == []
    assert snapshot_texts(20, KNOWN) == []
    assert snapshot_texts(0) == []


def test_a_producer_that_the_broker_forgot_is_healthy():
    assert snapshot_texts(10) == []


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        (KNOWN._replace(last_offset=7), "the snapshot names 7"),
        (KNOWN._replace(last_offset=9), "is not in the log"),
        (KNOWN._replace(last_offset=12), "behind the snapshot"),
        (KNOWN._replace(last_sequence=5), "sequence 4"),
        (KNOWN._replace(epoch=2), "epoch 1"),
        (KNOWN._replace(open_first_offset=11), "behind the snapshot"),
    ],
)
def test_a_snapshot_that_disagrees_is_told(entry, cause):
    (text,) = snapshot_texts(10, entry)[:1]
    assert cause in text


@pytest.mark.parametrize(
    ("base_offset", "is_full", "lost_batch", "earlier_begin"),
    [(0, True, True, True), (0, False, False, False), (5, True, False, True), (5, False, False, False)],
)
def test_what_is_not_in_the_log_is_wrong_only_where_nothing_is_gone(base_offset, is_full, lost_batch, earlier_begin):
    """Retention takes batches, and so does compaction: then the snapshot may know more than the log."""

    def texts(entry: SnapshotEntry, **named: object) -> list[str]:
        found = snapshot_findings(log(segment(base_offset, 10, is_full=is_full, **named)), {10: (entry,)})
        return [one.text for one in found if one.code is not FindingCode.SNAPSHOT_MISSING]

    assert any("is not in the log" in text for text in texts(KNOWN)) is lost_batch
    begins = DATA._replace(offset=6)
    opened = texts(KNOWN._replace(open_first_offset=5), producers={7: BATCH}, events=(begins,))
    assert any("begins at offset 6" in text for text in opened) is earlier_begin


def test_open_transactions_are_compared():
    still_open, over = KNOWN._replace(open_first_offset=0), KNOWN
    assert snapshot_texts(10, still_open, steps=(DATA,)) == []
    assert "none open" in snapshot_texts(10, over, steps=(DATA,))[0]
    assert "is over" in snapshot_texts(10, still_open, steps=(DATA, ABORT), aborted=(ENTRY,))[0]
    assert "does not know" in snapshot_texts(10, steps=(DATA,))[0]
    assert "begins at offset 0" in snapshot_texts(10, KNOWN._replace(open_first_offset=3), steps=(DATA,))[0]


def test_snapshot_within_a_segment_is_judged_by_what_is_known_below_it():
    """A clean stop leaves one, and a repair of the next one goes on from it."""

    def codes(offset: int, *entries: SnapshotEntry, last: LastBatch = BATCH) -> list[str]:
        steps = (DATA, ABORT._replace(offset=16))
        first = segment(0, 2, producers={7: LastBatch(1, 1, 1, 1)}, events=steps[:1])
        history = log(first, segment(2, 20, producers={7: last}, events=steps[1:]))
        found = snapshot_findings(history, {offset: entries})
        return [str(one.offset) for one in found if one.code is FindingCode.SNAPSHOT_WRONG]

    still_open = KNOWN._replace(open_first_offset=0)
    assert codes(10, still_open) == [], "it agrees"
    assert codes(10) == ["10"], "it does not know the open transaction"
    assert codes(10, KNOWN) == ["10"], "it has none open"
    assert codes(17) == [], "the transaction is over"
    assert codes(17, still_open) == ["17"], "the transaction is over"
    assert codes(10, still_open._replace(last_offset=7)) == ["10"], "the last batch below it is another one"
    behind = BATCH._replace(last_offset=12)
    assert codes(10, still_open, last=behind) == [], "which batch was the last one below it is not known"
    assert codes(10, still_open._replace(last_offset=0), last=behind) == ["10"], "an earlier segment has a later batch"


def test_a_snapshot_behind_the_end_says_that_the_log_lost_its_end():
    history = log(segment(0, 10))
    (found,) = offset_findings(LogClaims.of(history, NOTHING_NOTED, 10, None)._replace(newest_snapshot=30))
    assert (found.code, found.harm, found.offset) == (FindingCode.END_BELOW_WATERMARK, Harm.DATA_LOST, 10)
    assert snapshot_findings(history, {30: ()}) == [], "the snapshot itself is not wrong: it stays as evidence"


def test_a_snapshot_that_cannot_be_read_is_told():
    (found,) = snapshot_findings(log(segment(0, 10)), {10: "CRC-32C mismatch"})
    assert (found.code, found.harm) == (FindingCode.SNAPSHOT_CORRUPT, Harm.SLOW_START)


LAST = standing(0, is_last=True)


def with_a_producer(**named: object) -> list[Finding]:
    """What is found of a log of offsets 0 to 10 with one producer, whose last batch ends at offset 8."""
    snapshots = named.pop("snapshots", {})
    history = log(segment(0, 10, **{"standing": LAST, "producers": {7: BATCH}, **named}))
    return snapshot_findings(history, snapshots)


def test_a_clean_stop_leaves_a_snapshot_at_the_end_of_a_log_with_producers():
    (found,) = with_a_producer()
    assert (found.code, found.harm, found.repair) == (FindingCode.SNAPSHOT_MISSING, Harm.WRONG_ANSWER, "derived")
    assert found.path.endswith("/00000000000000000010.snapshot")
    (slow,) = with_a_producer(snapshots={5: ()})
    assert (slow.code, slow.harm) == (FindingCode.SNAPSHOT_MISSING, Harm.SLOW_START)
    assert with_a_producer(snapshots={9: (KNOWN,)}) == [], "nothing but what has no producer follows"
    assert with_a_producer(snapshots={10: (KNOWN,)}) == []
    assert with_a_producer(producers={}) == [], "nobody is forgotten"
    (marker,) = with_a_producer(producers={}, events=(ABORT,))
    assert marker.harm is Harm.WRONG_ANSWER


def test_without_a_clean_stop_the_log_is_read_anyway():
    assert with_a_producer(standing=standing(0, is_last=True, is_live=True)) == []
    assert with_a_producer(standing=standing(0, is_last=True, is_recovered=True)) == []
    last = segment(10, 20, standing=standing(10, is_last=True, is_recovered=True))
    (found,) = snapshot_findings(log(segment(0, 10, producers={7: BATCH}), last), {})
    assert (found.code, found.harm, found.repair) == (FindingCode.SNAPSHOT_MISSING, Harm.NOTE, None)
    assert snapshot_findings(log(segment(0, 10), last), {}) == []
