"""Leader epochs of batches, and the checkpoint held against them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policies.findings.findings import FindingCode, RepairGroup
from policies.findings.of_history import EpochStart, checkpoint_findings, forgotten_start_finding, order_findings
from storage.anomalies import EpochRun
from storage.checkpoints import parse_offset_checkpoint
from storage.names import TopicPartition
from tests.policies.findings.logs import log, segment, standing

HEALTHY = log(
    segment(0, 20, epochs=(EpochRun(0, 0, 19, 0),)),
    segment(20, 40, epochs=(EpochRun(0, 20, 29, 0), EpochRun(3, 30, 39, 900))),
)


def test_epochs_that_rise_are_healthy():
    assert order_findings(HEALTHY) == []
    assert order_findings(log()) == []


def test_of_two_epochs_the_one_that_stands_apart_is_told():
    too_new = log(segment(0, 30, epochs=(EpochRun(0, 0, 9, 0), EpochRun(8, 10, 10, 61), EpochRun(0, 11, 29, 122))))
    too_old = log(segment(0, 30, epochs=(EpochRun(4, 0, 9, 0), EpochRun(1, 10, 10, 61), EpochRun(4, 11, 29, 122))))
    assert [(one.code, one.position) for one in order_findings(too_new)] == [(FindingCode.EPOCH_BACKWARDS, 61)]
    assert [one.position for one in order_findings(too_old)] == [61]


def test_batches_without_an_epoch_are_passed_over():
    rewritten = log(segment(0, 30, epochs=(EpochRun(2, 0, 9, 0), EpochRun(-1, 10, 19, 61), EpochRun(2, 20, 29, 122))))
    assert order_findings(rewritten) == []
    assert checkpoint_findings(rewritten, [EpochStart(2, 0)], 0) == []


LOST, WRONG = [FindingCode.EPOCHS_LOST], [FindingCode.EPOCHS_WRONG]


@pytest.mark.parametrize(
    ("entries", "codes"),
    [
        ([(0, 0), (3, 30)], []),
        ([(0, 0), (3, 30), (5, 40)], []),
        ([(0, 0), (1, 12), (3, 30)], WRONG),
        ([(0, 0), (3, 31)], LOST),
        ([(0, 0), (3, 25)], WRONG),
        ([(0, 0)], LOST),
        ([(0, 0), (3, 30), (5, 41)], WRONG),
        ([(0, 0), (3, 30), (5, 30)], WRONG),
        ([(-1, 0), (3, 30)], LOST),
        ([(0, 0), (2, 30)], LOST),
        ([], LOST),
        (None, LOST),
    ],
)
def test_a_checkpoint_agrees_with_every_batch(entries, codes):
    given = None if entries is None else [EpochStart(*entry) for entry in entries]
    found = checkpoint_findings(HEALTHY, given, 0)
    assert [one.code for one in found] == codes
    assert {one.repair for one in found} <= {RepairGroup.DERIVED}


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([(0, 0), (3, 30), (5, 41)], "Leader epoch 5 begins at offset 41, and the log ends at 40."),
        ([(0, 0), (3, 30), (5, 30)], "Leader epoch 5 begins at offset 30, and epoch 3 at 30."),
        ([(0, 0), (3, 30), (5, 29)], "Leader epoch 5 begins at offset 29, and epoch 3 at 30."),
        ([(-1, 0), (0, 0), (3, 30)], "The entry of epoch -1, offset 0, is negative."),
        ([(0, -1), (3, 30)], "The entry of epoch 0, offset -1, is negative."),
        ([(0, 0), (1, 19), (3, 30)], "Leader epoch 1 begins at offset 19, and the batch of offset 19 is of epoch 0."),
        ([(0, 0), (1, 20), (3, 30)], "The batch of offset 20 has leader epoch 0, and the file has epoch 1 there."),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said_in_a_sentence(entries, text):
    (found,) = checkpoint_findings(HEALTHY, [EpochStart(*entry) for entry in entries], 0)
    assert (found.code, found.text) == (FindingCode.EPOCHS_WRONG, text)


@pytest.mark.parametrize(("log_start_offset", "codes"), [(39, LOST), (40, [])])
def test_batches_that_end_below_the_log_start_need_no_epoch(log_start_offset, codes):
    assert [one.code for one in checkpoint_findings(HEALTHY, [EpochStart(0, 0)], log_start_offset)] == codes


def test_a_checkpoint_begins_at_the_log_start():
    entries = [EpochStart(0, 7), EpochStart(3, 30)]
    assert checkpoint_findings(HEALTHY, entries, 7) == []


@pytest.mark.parametrize(("entries", "start"), [([(0, 7), (3, 30)], 0), ([(0, 7), (3, 30)], 5), ([(3, 35)], 0)])
def test_a_checkpoint_that_begins_within_an_epoch_tells_of_a_log_start_that_is_forgotten(entries, start):
    (found,) = checkpoint_findings(HEALTHY, [EpochStart(*entry) for entry in entries], start)
    assert (found.code, found.offset, found.repair) == (FindingCode.EPOCHS_WRONG, entries[0][1], None)
    assert "makes the deleted records readable again" in found.text
    assert f" 0 {entries[0][1]}'" in found.remedy


def test_a_checkpoint_that_begins_with_a_later_epoch_lost_the_earlier_ones():
    (found,) = checkpoint_findings(HEALTHY, [EpochStart(3, 30)], 0)
    assert (found.code, found.repair) == (FindingCode.EPOCHS_LOST, RepairGroup.DERIVED)


def test_where_a_broker_was_killed_the_log_start_may_be_older_than_the_entries():
    killed = log(segment(0, 20, epochs=(EpochRun(0, 0, 19, 0),), standing=standing(0, is_recovered=True)))
    assert checkpoint_findings(killed, [EpochStart(0, 7)], 0) == []


def test_a_log_without_epochs_needs_no_checkpoint():
    assert checkpoint_findings(log(segment(0, 20)), None, 0) == []


def test_remedy_of_a_forgotten_log_start_gives_the_whole_file():
    finding = forgotten_start_finding("/d/trimmed-0/leader-epoch-checkpoint", EpochStart(0, 3333))
    (content,) = re.findall("whole content is '([^']*)'", finding.remedy)
    data = content.replace("\\n", "\n").encode()
    assert parse_offset_checkpoint(data, Path("x")) == {TopicPartition("trimmed", 0): 3333}
