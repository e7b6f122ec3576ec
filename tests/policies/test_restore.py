"""Which deleted segments can come back: stories over hand-drawn facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.restore import (
    DeletionFacts,
    RestoreCode,
    RestoreFacts,
    RetiredFile,
    RetiredSegment,
    restoration,
)
from storage.names import SEGMENT_KINDS, FileIdentity, FileKind, FileState, SegmentFileName, TopicPartition

NOW_MS = 1_800_000_000_000
OK, GONE, GAP, OVERLAP, CHANGED, COMPACTED = (
    RestoreCode.RESTORABLE,
    RestoreCode.FILE_GONE,
    RestoreCode.GAP,
    RestoreCode.OVERLAP,
    RestoreCode.CHANGED_SINCE,
    RestoreCode.COMPACTED_SINCE,
)


def retired(base, end):
    files = (RetiredFile(SegmentFileName(base, kind, FileState.PLAIN), 10 + base, base) for kind in SEGMENT_KINDS[:3])
    return RetiredSegment(base, end, tuple(files))


def a_deletion(*bases, end, **others):
    ends = (*bases[1:], end)
    segments = tuple(retired(base, following) for base, following in zip(bases, ends, strict=True))
    facts = DeletionFacts(NOW_MS, segments, end, None, None, (), None, rolled_snapshot=False)
    return replace(facts, **others)


def in_state(state, *bases):
    """The files of segments, all in one state."""
    return {
        file.name._replace(state=state): FileIdentity(1, 1, file.size_bytes, file.mtime_ns)
        for base in bases
        for file in retired(base, base).files
    }


def waiting(*bases):
    return in_state(FileState.DELETED, *bases)


def plain(*bases):
    return in_state(FileState.PLAIN, *bases)


def facts(*deletions, files, log_start=None, held_since_ms=None, **others):
    return RestoreFacts(TopicPartition("clicks", 0), "/data", deletions, files, log_start, held_since_ms, **others)


def codes(found):
    return [(verdict.segment.base_offset, verdict.code) for verdict in found.verdicts]


TWO = a_deletion(0, 10, end=20)


@pytest.mark.parametrize(
    ("story", "given", "expected"),
    [
        ("both wait", facts(TWO, files=waiting(0, 10) | plain(20)), [(10, OK), (0, OK)]),
        ("one is back already", facts(TWO, files=waiting(0) | plain(10, 20)), [(0, OK)]),
        ("both are back", facts(TWO, files=plain(0, 10, 20)), []),
        ("nothing waits any more", facts(TWO, files=plain(20)), []),
        ("the newer one is gone", facts(TWO, files=waiting(0) | plain(20)), [(0, GAP)]),
        ("the older one is gone", facts(TWO, files=waiting(10) | plain(20)), [(10, OK)]),
        ("the log begins within", facts(TWO, files=waiting(0, 10) | plain(15)), [(10, OVERLAP), (0, GAP)]),
        ("the log begins later", facts(TWO, files=waiting(0, 10) | plain(30)), [(10, GAP), (0, GAP)]),
        ("no log is left", facts(TWO, files=waiting(0, 10)), [(10, GAP), (0, GAP)]),
        (
            "a compaction followed the first of two",
            facts(
                a_deletion(0, end=10, is_compacted_since=True),
                a_deletion(10, end=20),
                files=waiting(0, 10) | plain(20),
            ),
            [(10, OK), (0, COMPACTED)],
        ),
        (
            "it was deleted, restored and deleted again: the second one counts",
            facts(replace(TWO, is_compacted_since=True), TWO, files=waiting(0, 10) | plain(20)),
            [(10, OK), (0, OK)],
        ),
        (
            "leader epochs are others",
            facts(replace(TWO, has_other_epochs=True), files=waiting(0, 10) | plain(20)),
            [(10, CHANGED), (0, CHANGED)],
        ),
    ],
)
def test_segments_come_back_newest_first_where_they_fit(story, given, expected):
    assert codes(restoration(given)) == expected, story


@pytest.mark.parametrize(
    ("story", "now", "before", "left", "code"),
    [
        ("it was never checkpointed", None, None, 20, OK),
        ("its line has gone with the deletion", None, 5, 20, OK),
        ("its line is back from a restore that a crash ended", 5, 5, 20, OK),
        ("it lies within the rest, as it did", 25, 25, 25, OK),
        ("it is where the log begins: as good as none", 20, None, 20, OK),
        ("it moved on since", 25, 5, 20, CHANGED),
        ("it moved on within the rest", 27, 25, 25, CHANGED),
    ],
)
def test_log_start_that_moved_since_refuses(story, now, before, left, code):
    deletion = replace(TWO, log_start_checkpoint=before, log_start_offset=left)
    found = restoration(facts(deletion, files=waiting(0, 10) | plain(20), log_start=now))
    assert codes(found)[0] == (10, code), story
    if code is OK:
        assert found.log_start_checkpoint == before


@pytest.mark.parametrize(
    ("story", "noted", "now", "log_start", "code"),
    [
        ("it was never compacted", None, None, None, OK),
        ("nothing changed", 5, 5, None, OK),
        ("it was clean beyond the deletion, and still is", 25, 25, None, OK),
        ("retention moved it up to the log start", 5, 20, None, OK),
        ("retention moved it up to a log start within a segment", 25, 27, 27, OK),
        ("a round of a broker's that failed left the log start", None, 20, None, OK),
        ("a restore that a crash ended has lowered it", 25, 5, None, OK),
        ("its line was lost with the file", 5, None, None, OK),
        ("it lies beyond both", 5, 21, None, COMPACTED),
        ("there was none before", None, 21, None, COMPACTED),
        ("it moved on from where it was", 25, 26, None, COMPACTED),
        ("it lay outside the log before, and a round has begun anew", 99, 30, None, COMPACTED),
    ],
)
def test_first_dirty_offset_that_no_retention_moved_tells_of_a_compaction(story, noted, now, log_start, code):
    left = {"log_start_checkpoint": log_start, "log_start_offset": log_start} if log_start else {}
    deletion = replace(TWO, cleaner_checkpoint=noted, **left)
    files = waiting(0, 10) | plain(20)
    found = restoration(facts(deletion, files=files, log_start=log_start, cleaner_checkpoint=now))
    assert codes(found)[0] == (10, code), story
    if code is COMPACTED:
        assert str(now) in found.verdicts[0].text


@pytest.mark.parametrize(
    ("story", "noted", "later_noted", "code"),
    [
        ("retention moved it", 5, 10, OK),
        ("nothing moved it", 15, 15, OK),
        ("a compaction moved it", 5, 11, COMPACTED),
        ("the first compaction made it", None, 11, COMPACTED),
    ],
)
def test_first_dirty_offset_that_a_later_deletion_noted_counts_for_the_earlier_one(story, noted, later_noted, code):
    first = a_deletion(0, end=10, cleaner_checkpoint=noted)
    second = a_deletion(10, end=20, cleaner_checkpoint=later_noted)
    given = facts(first, second, files=waiting(0, 10) | plain(20), cleaner_checkpoint=20)
    assert codes(restoration(given)) == [(10, OK), (0, code)], story


@pytest.mark.parametrize(
    ("story", "others", "code"),
    [
        ("a file is gone", lambda files, name: files.pop(name), GONE),
        ("another size", lambda files, name: files.update({name: FileIdentity(1, 1, 99, 10)}), CHANGED),
        ("another time", lambda files, name: files.update({name: FileIdentity(1, 1, 20, 99)}), CHANGED),
        ("it is back already", lambda files, name: files.update({plain_name(name): files.pop(name)}), OK),
        ("it is there twice", lambda files, name: files.update({plain_name(name): files[name]}), OVERLAP),
    ],
)
@pytest.mark.parametrize("kind", [FileKind.INDEX, FileKind.TIME_INDEX])
def test_every_file_of_a_segment_counts(story, others, code, kind):
    files = waiting(10) | plain(20)
    others(files, SegmentFileName(10, kind, FileState.DELETED))
    assert codes(restoration(facts(a_deletion(10, end=20), files=files))) == [(10, code)], story


def plain_name(name):
    return name._replace(state=FileState.PLAIN)


def rolled(size_bytes=0):
    return {SegmentFileName(20, FileKind.LOG, FileState.PLAIN): FileIdentity(1, 1, size_bytes, 0)}


@pytest.mark.parametrize(
    ("story", "files", "held_since_ms", "is_dropped"),
    [
        ("its last segment comes back", waiting(0, 10) | rolled(), None, True),
        ("it was written to", waiting(0, 10) | rolled(1), None, False),
        ("another one follows", waiting(0, 10) | rolled() | plain(30), None, False),
        ("its last segment cannot come back", waiting(0) | rolled(), None, False),
        ("a restore that a crash ended left it", plain(0, 10) | rolled(), 7, True),
        ("nobody restored anything", plain(0, 10) | rolled(), None, False),
    ],
)
def test_empty_segment_that_was_rolled_goes_with_the_reason_for_it(story, files, held_since_ms, is_dropped):
    deletion = replace(TWO, roll_at_offset=20)
    found = restoration(facts(deletion, files=files, held_since_ms=held_since_ms))
    assert (found.emptied is deletion) is is_dropped, story
    assert found.has_work is (is_dropped or bool(found.restorable))


def test_newest_part_of_a_deletion_keeps_the_log_start_only_where_it_is_needed():
    part = replace(TWO, log_start_checkpoint=5)
    found = restoration(facts(part, files=waiting(10) | plain(20)))
    assert (found.log_start_offset, found.log_start_checkpoint, found.is_whole) == (10, None, False)
    found = restoration(facts(part, files=waiting(0, 10) | plain(20)))
    assert (found.log_start_offset, found.log_start_checkpoint, found.is_whole) == (0, 5, True)


def test_every_code_says_why():
    given = facts(TWO, files=waiting(0, 10) | plain(20))
    assert all("deleted 2027-01-15T08:00:00Z" in verdict.text for verdict in restoration(given).verdicts)
    (gap,) = restoration(facts(a_deletion(10, end=20), files=waiting(10) | plain(30))).verdicts
    assert "20" in gap.text
    assert "30" in gap.text
