from __future__ import annotations

from cleaner.engine.restore import History
from cleaner.report.history import HistoryReport
from tests.cleaner.report.texts import text_of

TIME_MS = 1_795_241_014_999


def an_entry(what: str, **fields: object) -> dict[str, object]:
    return {"time_ms": TIME_MS, "what": what, "partition": "clicks-0", **fields}


def segments(*codes: str) -> list[dict[str, object]]:
    return [{"base_offset": place, "bytes": 9, "code": code} for place, code in enumerate(codes)]


ENTRIES = (
    an_entry("delete", bytes=5 << 20, segments=segments("LOG_START_OFFSET", "RETENTION_TIME", "RETENTION_TIME")),
    an_entry("compact", bytes=1023, first_dirty_offset=100, end_offset=200, groups=[[0, 100]]),
    an_entry("failed", error="0.log at byte 0: CRC-32C mismatch", fingerprint="f"),
    an_entry("recover", files=["a", "b"]),
    an_entry("restore", bytes=5 << 20, segments=segments("", "")),
    an_entry("release"),
    {"time_ms": TIME_MS, "what": "clock", "text": "the clock says so"},
)
GOLDEN = """\
TIME                  WHAT          BYTES  PARTITION: WHY
2026-11-21T06:03:34Z  delete      5.0 MiB  clicks-0: 3 segments,
                                           LOG_START_OFFSET, RETENTION_TIME
2026-11-21T06:03:34Z  compact  1,023 bytes  clicks-0: dirty from 100 to 200
2026-11-21T06:03:34Z  failed            -  clicks-0: 0.log at byte 0: CRC-32C
                                           mismatch
2026-11-21T06:03:34Z  recover           -  clicks-0: finished or undid an
                                           interrupted step
2026-11-21T06:03:34Z  restore     5.0 MiB  clicks-0: 2 segments back, on hold
2026-11-21T06:03:34Z  release           -  clicks-0: no longer on hold
2026-11-21T06:03:34Z  clock             -  all: confirmed with --yes: the clock
                                           says so
skipped 2 damaged lines of the journal: a crash or a full disk cut off their
  ends
"""


def test_table_fits_80_columns_and_counts_what_was_damaged() -> None:
    assert text_of(HistoryReport([History("/data", ENTRIES, 2)])) == GOLDEN
    assert max(map(len, GOLDEN.splitlines())) <= 80


def test_journal_without_an_entry_says_so() -> None:
    assert text_of(HistoryReport([History("/data", (), 0)])) == "The journal has no changes.\n"


def test_several_log_dirs_are_told_apart() -> None:
    told = text_of(HistoryReport([History("/a", ENTRIES[4:5], 0), History("/b", (), 0)]))
    assert [line for line in told.splitlines() if line.startswith("/")] == ["/a", "/b"]


def test_entry_of_another_version_is_shown_as_far_as_it_is_understood() -> None:
    entries = (
        an_entry("delete", bytes="many", segments=7),
        an_entry("delete", segments=[None, {"code": 3}]),
        an_entry("moved", bytes=True),
        an_entry("compact"),
    )
    told = text_of(HistoryReport([History("/data", entries, 0)])).splitlines()
    assert [line.split(None, 2)[2] for line in told[1:]] == [
        "-  clicks-0: 0 segments",
        "-  clicks-0: 1 segment, 3",
        "-  clicks-0: -",
        "-  clicks-0: dirty from None to None",
    ]


def test_control_characters_of_a_journal_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in text_of(HistoryReport([History("/data", (an_entry("\x1b[2J"),), 0)]))


def test_document_holds_the_entries_as_they_are() -> None:
    assert HistoryReport([History("/data", ENTRIES, 2)]).document() == {
        "schema": "logcleaner.history/1",
        "log_dirs": [{"path": "/data", "damaged_lines": 2, "entries": [*ENTRIES]}],
    }


def test_a_compaction_that_the_cleaners_checkpoint_does_not_cover_is_told_as_unfinished() -> None:
    def told(**first_dirty_offsets: int) -> str:
        offsets = {name.replace("_", "-"): offset for name, offset in first_dirty_offsets.items()}
        return " ".join(text_of(HistoryReport([History("/data", ENTRIES[1:2], 0, offsets)])).split())

    unfinished = "dirty from 100 to 200; not finished, a part of it may be done (cleaner-offset-checkpoint: 100)"
    assert unfinished in told(clicks_0=100)
    assert "not finished" not in told(clicks_0=200)
    assert "not finished" not in told(other_0=0)


def test_repair_that_failed_says_so() -> None:
    entries = (an_entry("repair-failed", file="0.index", error="no space left on device"),)
    told = " ".join(text_of(HistoryReport([History("/data", entries, 0)])).split())
    assert "failed - clicks-0: 0.index: the repair failed: no space left on device" in told
