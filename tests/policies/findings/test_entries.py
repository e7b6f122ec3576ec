"""Directories that are no live partition: which of them are findings, and when."""

from __future__ import annotations

import pytest

from policies.findings.diagnosis import SETTLED_MS, diagnose, entry_findings
from policies.findings.findings import FindingCode
from policies.findings.of_log_dir import NamedEntry
from policies.findings.symptoms import EntryKind, EntrySymptoms, LogDirSymptoms

DELAY_MS = 60_000


def an_entry(kind: EntryKind, age_ms: int = 0) -> EntrySymptoms:
    return EntrySymptoms("/data/x", kind, 4096, age_ms, DELAY_MS)


@pytest.mark.parametrize(
    ("age_ms", "is_live", "is_told"),
    [
        (0, False, True),
        (0, True, False),
        (DELAY_MS + SETTLED_MS, True, False),
        (DELAY_MS + SETTLED_MS + 1, True, True),
    ],
)
def test_directory_of_a_deleted_topic_waits_for_its_delay_beside_a_broker(age_ms, is_live, is_told):
    found = list(entry_findings([an_entry(EntryKind.DELETE, age_ms)], is_live=is_live))
    assert [finding.code for finding in found] == [FindingCode.DELETE_DIRECTORY] * is_told


@pytest.mark.parametrize("is_live", [False, True])
def test_directory_of_a_killed_import_is_no_deleted_topic(is_live):
    found = list(entry_findings([an_entry(EntryKind.IMPORT)], is_live=is_live))
    assert [f.text.startswith("An import that was killed ") for f in found] == [True] * (not is_live)


@pytest.mark.parametrize("is_live", [False, True])
def test_stray_and_strange_directories_are_told_at_once(is_live):
    entries = (an_entry(EntryKind.STRAY), an_entry(EntryKind.INDEX_CACHE))
    names = (NamedEntry("lost+found", is_directory=True),)
    found = diagnose([LogDirSymptoms("/data", is_live, entries=entries, names=names)], DELAY_MS).findings
    assert [finding.code for finding in found] == [FindingCode.NAME_STRANGE, FindingCode.STRAY_DIRECTORY]
