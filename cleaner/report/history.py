"""The report of ``history``: a table for people, ``logcleaner.history/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cleaner.engine.restore import History
from cleaner.report.page import Lines, Page
from policies.reasons import counted, moment, size

SCHEMA: Final = "logcleaner.history/1"
_ALWAYS: Final = {"recover": "finished or undid an interrupted step", "release": "no longer on hold"}
_COLUMNS: Final = "{:<20}  {:<7}  {:>10}  "
_WHY_COLUMN: Final = len(_COLUMNS.format("", "", ""))


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The entries of the journals of some log dirs."""

    histories: Sequence[History]

    def document(self) -> dict[str, Any]:
        """Return what ``history --json`` prints: the journal's entries, sizes in bytes, times in epoch ms."""
        log_dirs = [
            {"path": history.log_dir, "damaged_lines": history.damaged_lines, "entries": list(history.entries)}
            for history in self.histories
        ]
        return {"schema": SCHEMA, "log_dirs": log_dirs}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line for each entry, oldest first, and the number of unreadable lines."""
        for history in self.histories:
            if len(self.histories) > 1:
                page.line(history.log_dir)
            _table(history, page)
            if history.damaged_lines:
                lines = counted(history.damaged_lines, "damaged line")
                words = f"skipped {lines} of the journal: a crash or a full disk cut off their ends"
                page.line(words, hanging=2)
        yield page.text


def _table(history: History, page: Page) -> None:
    if not history.entries:
        page.line("The journal has no changes.")
        return
    page.line(_COLUMNS.format("TIME", "WHAT", "BYTES") + "PARTITION: WHY")
    for entry in history.entries:
        size_bytes = entry.get("bytes")
        told_bytes = size(size_bytes) if type(size_bytes) is int else "-"
        what = "failed" if entry["what"] in ("repair-failed", "restore-failed") else entry["what"]
        columns = _COLUMNS.format(moment(entry["time_ms"]), what, told_bytes)
        page.line(
            f"{columns}{entry.get('partition', 'all')}: {_why(entry)}{_unfinished(history, entry)}", hanging=_WHY_COLUMN
        )


def _unfinished(history: History, entry: Mapping[str, Any]) -> str:
    if entry["what"] == "import" and history.is_missing(entry):
        return "; the partition is not there: deleted since, or the import was killed"
    if entry["what"] != "compact" or not history.is_unfinished(entry):
        return ""
    reached = history.first_dirty_offsets[str(entry.get("partition"))]
    return f"; not finished, a part of it may be done (cleaner-offset-checkpoint: {reached})"


def _why(entry: Mapping[str, Any]) -> str:  # noqa: PLR0911, PLR0912 - a table of kinds
    segments = entry.get("segments")
    listed = [s for s in segments if isinstance(s, dict)] if isinstance(segments, list) else []
    match entry["what"]:
        case "delete":
            codes = dict.fromkeys(str(segment.get("code")) for segment in listed)
            moved = f"log start {before} -> {entry.get('log_start_offset')}, " if (before := _moved_from(entry)) else ""
            return moved + ", ".join((counted(len(listed), "segment"), *codes))
        case "compact":
            return f"dirty from {entry.get('first_dirty_offset')} to {entry.get('end_offset')}{_dropped(entry)}"
        case "erase":
            return _erased(entry)
        case "repack":
            bases = " ".join(str(segment.get("base_offset")) for segment in listed)
            return f"batches of segment {bases} merged: {size(entry['bytes'])} -> {size(entry['bytes_after'])}"
        case "dropped":
            return _dropped(entry).removeprefix("; ") or "-"
        case "import" | "append":
            return _added(entry)
        case "move":
            return _carried(entry)
        case "restore":
            return f"{counted(len(listed), 'segment')} back, on hold"
        case "failed" | "guarded":
            return str(entry.get("error", entry.get("text")))
        case "evidence":
            return _kept(entry)
        case "clock":
            return f"confirmed with --yes: {entry.get('text')}"
        case "restore-failed":
            return f"the restore failed, a part of it may be done: {entry.get('error')}"
        case "repair-failed":
            return f"{entry.get('file')}: the repair failed: {entry.get('error')}"
        case "repair" | "revert":
            return f"{entry.get('file')}: {_mended(entry)}"
        case what:
            return _swept(entry) if what == "sweep" else _ALWAYS.get(what, "-")


def _added(entry: Mapping[str, Any]) -> str:
    """Return which records an import or a stream brought."""
    end_offset, records = entry.get("log_end_offset"), entry.get("records")
    if entry["what"] == "append":
        who = f"batch {entry.get('batch')} of query {entry.get('query')}"
        return f"{who}, offsets {entry.get('start_offset')} up to {end_offset}"
    until = f"offsets {entry.get('log_start_offset')} up to {end_offset}"
    return f"{counted(records, 'record') if type(records) is int else 'records'}, {until}"


def _carried(entry: Mapping[str, Any]) -> str:
    """Return between which log dirs a partition was moved."""
    if "from_dir" in entry:
        return f"out of {entry['from_dir']}"
    return f"to {entry.get('to_dir')}; the old directory: {entry.get('renamed_to')}"


def _erased(entry: Mapping[str, Any]) -> str:
    """Return how many records an erasure took out, and whether it came to its end."""
    records, left = entry.get("records"), entry.get("unfinished")
    number = counted(records, "record") if type(records) is int else "records"
    unfinished = f"; not finished, {counted(left, 'segment')} as before" if type(left) is int else ""
    return f"{number} of some keys, offsets {entry.get('first_offset')} to {entry.get('last_offset')}{unfinished}"


def _kept(entry: Mapping[str, Any]) -> str:
    """Return which files stayed, and the offsets that they have or name."""
    files = entry.get("kept")
    named = [f for f in files if isinstance(f, dict)] if isinstance(files, list) else []
    words = [f"{f.get('name')} (offsets {f.get('first')} to {f.get('last')})" for f in named]
    return f"kept, since records are missing: {', '.join(words)}"


def _moved_from(entry: Mapping[str, Any]) -> str:
    """Return the log start offset before ``delete-records``; an empty text if it did not move."""
    before = entry.get("log_start_before")
    return str(before) if type(before) is int and before != entry.get("log_start_offset") else ""


def _dropped(entry: Mapping[str, Any]) -> str:
    """Return how many records a compaction lost because they have no key; empty if it lost none."""
    unkeyed = entry.get("records_unkeyed")
    return f"; dropped {counted(unkeyed, 'record')} without a key" if type(unkeyed) is int else ""


def _swept(entry: Mapping[str, Any]) -> str:
    renamed_to = entry.get("renamed_to")
    return f"{entry.get('name')} {f'renamed to {renamed_to}' if renamed_to else 'unlinked'}"


def _mended(entry: Mapping[str, Any]) -> str:
    if entry["what"] == "revert":
        return "as before its repair"
    size_bytes = entry.get("bytes")
    if entry.get("kind") == "log-end" and isinstance(size_bytes, int):
        return f"cut behind its last whole batch, at byte {size_bytes:,}"
    if entry.get("kind") != "zero-tail":
        return "made anew"
    return f"zeros cut off behind byte {size_bytes:,}" if isinstance(size_bytes, int) else "zeros cut off"
