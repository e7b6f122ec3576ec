"""A repair is taken back only if both files are what it left."""

from __future__ import annotations

import pytest

from policies.findings.repairs import Content, FoundContent, RepairNote, RevertCode, revert_verdicts

OLD, NEW, OTHER = Content(16, 1), Content(8, 2), Content(8, 3)
INDEX = RepairNote(1, "00000000000000000000.index", "index", OLD, NEW, None, None)
CUT = RepairNote(1, "00000000000000000000.log", "zero-tail", None, None, 300, 100)


@pytest.mark.parametrize(
    ("story", "note", "found", "code"),
    [
        ("as the repair left it", INDEX, FoundContent(NEW, OLD), RevertCode.REVERTIBLE),
        ("written since", INDEX, FoundContent(OTHER, OLD), RevertCode.CHANGED_SINCE),
        ("another file waits", INDEX, FoundContent(NEW, OTHER), RevertCode.CHANGED_SINCE),
        ("nothing waits any more", INDEX, FoundContent(NEW, None), None),
        ("the segment is gone", INDEX, FoundContent(None, OLD), None),
        ("nothing was replaced", INDEX._replace(kept=None), FoundContent(NEW, OLD), None),
        ("cut, and nobody appended", CUT, FoundContent(Content(100, 0), None), RevertCode.REVERTIBLE),
        ("cut, and somebody appended", CUT, FoundContent(Content(101, 0), None), None),
        ("cut, and deleted since", CUT, FoundContent(None, None), None),
    ],
)
def test_verdicts(story: str, note: RepairNote, found: FoundContent, code: RevertCode | None) -> None:
    decided = [verdict.code for verdict in revert_verdicts([(note, found)])]
    assert (story, decided) == (story, [code] if code else [])
