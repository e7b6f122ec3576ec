"""The space that log dirs take, by kind of file: a table with a note where one helps, and fields of JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import repeat
from textwrap import wrap
from typing import Any, Final

from cleaner.engine.space import (
    NOTHING,
    Account,
    Accounts,
    Amount,
    Amounts,
    DirectoryAccount,
    FileSystemAccount,
    Removal,
    SpaceKind,
    UnlinkedFile,
    UnlinkedFiles,
    added_up,
    largest,
)
from cleaner.printable import printable
from cleaner.report.page import ATTENTION, Page, in_columns
from policies.reasons import counted, duration, size

LABELS: Final = {
    SpaceKind.SEGMENTS: "segments (.log)",
    SpaceKind.INDEXES: "index files",
    SpaceKind.SNAPSHOTS: "producer snapshots",
    SpaceKind.DELETED: ".deleted files",
    SpaceKind.CLEANED: ".cleaned files",
    SpaceKind.SWAP: ".swap files",
    SpaceKind.DELETE_DIRS: "-delete directories",
    SpaceKind.STRAY_DIRS: "-stray directories",
    SpaceKind.FUTURE_DIRS: "-future directories",
    SpaceKind.CLUSTER_METADATA: "cluster metadata",
    SpaceKind.METADATA: "checkpoints and such",
    SpaceKind.LOGCLEANER: "logcleaner's files",
    SpaceKind.DIRECTORIES: "directories",
    SpaceKind.OTHERS: "other files",
}
_NOTES: Final = {
    SpaceKind.CLEANED: "of an unfinished compaction",
    SpaceKind.SWAP: "of an unfinished compaction",
    SpaceKind.DELETE_DIRS: "a broker removes them",
    SpaceKind.STRAY_DIRS: "unassigned: remove them by hand",
    SpaceKind.FUTURE_DIRS: "replicas that move here",
}
_COLUMNS: Final = (SpaceKind.SEGMENTS, SpaceKind.INDEXES, SpaceKind.SNAPSHOTS, SpaceKind.DELETED)
"""The kinds that have a column of their own in the table of partitions."""
LARGE_BYTES: Final = 1 << 20
"""The size from which on other files, and unlinked files, are named."""
_NAMED_MAX: Final = 3
_NOTE_MIN: Final = 20
"""The least columns of a note, even if the line gets longer than the page."""


def directory_fields(found: DirectoryAccount | None, removals: Sequence[Removal] = ()) -> dict[str, Any]:
    """Return the JSON fields of one partition directory; null where it was not looked at."""
    if found is None:
        return dict.fromkeys(("files", "apparent_bytes", "disk_bytes", "kinds", "removals"))
    return {
        **_amount(found.total),
        "kinds": _kinds(found.amounts),
        "removals": [{"due_ms": removal.due_ms, **_amount(removal.amount)} for removal in removals],
    }


def accounts_fields(accounts: Accounts) -> dict[str, Any]:
    """Return the JSON fields of log dirs and file systems: sizes in bytes."""
    return {
        "log_dirs": [_log_dir(account) for account in accounts.log_dirs],
        "file_systems": [_file_system(found) for found in accounts.file_systems],
    }


def _log_dir(account: Account) -> dict[str, Any]:
    return {
        "path": account.path,
        "whole": account.is_whole,
        **_amount(account.total),
        "kinds": _kinds(account.amounts),
        "others": [{"name": other.name, **_amount(other.amount)} for other in account.others],
        "unread": list(account.unread),
    }


def _file_system(found: FileSystemAccount) -> dict[str, Any]:
    volume, unlinked = found.volume, found.unlinked
    return {
        "log_dirs": list(volume.log_dirs),
        "size_bytes": volume.size_bytes,
        "used_bytes": volume.used_bytes,
        "free_bytes": volume.free_bytes,
        "unlinked": {
            **_amount(unlinked.total),
            "hidden_processes": unlinked.hidden_processes,
            "largest": [_unlinked(file) for file in unlinked.largest],
        },
    }


def _unlinked(file: UnlinkedFile) -> dict[str, Any]:
    fields = file._asdict()
    del fields["unlinked_ms"]
    return fields


def _amount(amount: Amount) -> dict[str, int]:
    return {"files": amount.files, "apparent_bytes": amount.apparent_bytes, "disk_bytes": amount.disk_bytes}


def _kinds(amounts: Amounts) -> dict[str, dict[str, int]]:
    return {kind.value: _amount(amount) for kind, amount in amounts.items()}


def tell_accounts(accounts: Accounts, now_ms: int, page: Page) -> None:
    """Add a table of kinds, the paths that were not counted, and the other bytes on the file systems.

    Several log dirs are added up, and have a line each. With ``page.every_segment`` each has its own table, and so have
    its partitions.
    """
    log_dirs = accounts.log_dirs
    if not log_dirs:
        return
    groups = [(account,) for account in log_dirs] if page.every_segment else [log_dirs]
    for group in groups:
        page.line()
        page.line(_heading(group), "bold")
        if page.every_segment:
            _tell_partitions(group[0], now_ms, page)
            page.line()
        _tell_kinds(group, now_ms, page)
    _tell_unread([cause for account in log_dirs for cause in account.unread], page)
    if log_dirs[0].is_whole:
        fullest = sorted(accounts.file_systems, key=lambda found: found.volume.free_bytes)
        told = fullest if page.every_segment else fullest[:_NAMED_MAX]
        for found in told:
            _tell_file_system(found, log_dirs, page)
        if more := len(fullest) - len(told):
            page.line(f"and {counted(more, 'more file system')} with more free space; -v shows all")
        _tell_unlinked([file for found in fullest for file in found.unlinked.largest], page)


def _heading(group: Sequence[Account]) -> str:
    scope = "Space in" if group[0].is_whole else "Space of these topics in"
    return f"{scope} {group[0].path if len(group) == 1 else counted(len(group), 'log dir')}"


def _tell_kinds(group: Sequence[Account], now_ms: int, page: Page) -> None:
    """Add a row for each kind, with a note where one helps; then the total, and a row for each of several log dirs."""
    amounts = added_up(account.amounts for account in group)
    notes = {**_NOTES, SpaceKind.DELETED: _when_deleted(group, now_ms), SpaceKind.OTHERS: _named(group)}
    rows = [("KIND", "ON DISK", "SIZE", "FILES")]
    rows += [(LABELS[kind], *_cells(amount)) for kind, amount in amounts.items()]
    rows.append(("total", *_cells(sum(amounts.values(), NOTHING))))
    rows += [(f"  {account.path}", *_cells(account.total)) for account in group if len(group) > 1]
    explained = ["", *(notes.get(kind, "") for kind in amounts), *repeat("", len(group) + 1)]
    styles = {0: "bold", len(amounts) + 1: "bold"}
    for place, (line, note) in enumerate(zip(in_columns(rows, page, range(1, 4), gap=" "), explained, strict=False)):
        told = [line]
        if note:
            columns = max(page.width - len(line) - 2, _NOTE_MIN) if page.shortens else sys.maxsize
            first, *others = wrap(note, columns, break_long_words=False, break_on_hyphens=False)
            told = [f"{line}  {first}", *(" " * (len(line) + 2) + words for words in others)]
        for words in told:
            page.row(words, styles.get(place, ""))


def _tell_partitions(account: Account, now_ms: int, page: Page) -> None:
    """Add a row for each partition directory with its sizes on disk, the largest first."""
    rows: list[tuple[str, ...]] = [
        ("PARTITION", "ON DISK", "SEGMENTS", "INDEX", "SNAPSHOT", ".DELETED", "GOES", "REST")
    ]
    by_size = sorted(account.partitions.items(), key=lambda item: (-item[1].total.disk_bytes, item[0]))
    for topic_partition, found in page.view.first(by_size):
        kinds = [found.amounts.get(kind, NOTHING).disk_bytes for kind in _COLUMNS]
        disk_bytes = found.total.disk_bytes
        removals = account.removals.get(topic_partition, ())
        goes = _when(removals[-1].due_ms, now_ms) if removals else "-"
        sizes = map(size, (disk_bytes, *kinds))
        rows.append((str(topic_partition), *sizes, goes, size(disk_bytes - sum(kinds))))
    for place, line in enumerate(in_columns(rows, page, range(1, len(rows[0])), gap=" ")):
        page.row(line, "" if place else "bold")


def _cells(amount: Amount) -> tuple[str, str, str]:
    return size(amount.disk_bytes), size(amount.apparent_bytes), f"{amount.files:,}"


def _when_deleted(group: Sequence[Account], now_ms: int) -> str:
    """Return when the ``.deleted`` files may go, with their sizes; logcleaner leaves the rest to a broker."""
    listed = [removal for account in group for found in account.removals.values() for removal in found]
    later = [removal for removal in listed if removal.due_ms > now_ms]
    later_bytes = sum(removal.amount.disk_bytes for removal in later)
    now_bytes = sum(removal.amount.disk_bytes for removal in listed) - later_bytes
    all_bytes = sum(account.amounts.get(SpaceKind.DELETED, NOTHING).disk_bytes for account in group)
    parts = []
    if now_bytes > 0:
        parts.append(f"{size(now_bytes)} with the next clean")
    if later:
        parts.append(f"{size(later_bytes)} {_when(max(removal.due_ms for removal in later), now_ms)}")
    if all_bytes > now_bytes + later_bytes:
        parts.append(f"{size(all_bytes - now_bytes - later_bytes)} once a broker starts")
    return f"gone: {', '.join(parts)}" if parts else ""


def _when(due_ms: int, now_ms: int) -> str:
    """Return a moment as ``in 12s``, rounded up to a second."""
    return "now" if due_ms <= now_ms else f"in {duration(-(-(due_ms - now_ms) // 1000) * 1000)}"


def _named(group: Sequence[Account]) -> str:
    found = largest(other for account in group for other in account.others)
    large = [other for other in found if other.amount.disk_bytes >= LARGE_BYTES]
    return ", ".join(f"{printable(other.name)} {size(other.amount.disk_bytes)}" for other in large[:_NAMED_MAX])


def _tell_unread(causes: Sequence[str], page: Page) -> None:
    for cause in causes[:_NAMED_MAX]:
        page.line(f"Not counted: {cause}", ATTENTION, hanging=2)
    if len(causes) > _NAMED_MAX:
        page.line(f"Not counted: {len(causes) - _NAMED_MAX:,} more", ATTENTION)


def _tell_file_system(found: FileSystemAccount, log_dirs: Sequence[Account], page: Page) -> None:
    """Add a line about the free space, and the bytes that take the rest."""
    volume, unlinked = found.volume, found.unlinked
    here = [account for account in log_dirs if account.path in volume.log_dirs]
    here_bytes = sum(account.total.disk_bytes for account in here)
    unlinked_bytes = unlinked.total.disk_bytes
    elsewhere_bytes = volume.used_bytes - here_bytes - unlinked_bytes
    parts = [f"{size(here_bytes)} here"]
    if unlinked_bytes >= LARGE_BYTES:
        parts.append(f"{size(unlinked_bytes)} unlinked but open")
    if elsewhere_bytes > 0:
        parts.append(f"{size(elsewhere_bytes)} elsewhere{_or_unseen(unlinked)}")
    kept_bytes = volume.size_bytes - volume.used_bytes - volume.free_bytes
    kept = f" ({size(kept_bytes)} kept for root)" if kept_bytes * 100 > volume.size_bytes else ""
    whose = "" if len(here) == len(log_dirs) else f" of {', '.join(volume.log_dirs)}"
    page.line(
        f"File system{whose}: {size(volume.free_bytes)} free of {size(volume.size_bytes)}{kept}; "
        f"{size(volume.used_bytes)} used: {', '.join(parts)}.",
        hanging=2,
    )


def _tell_unlinked(files: Sequence[UnlinkedFile], page: Page) -> None:
    """Add a line for each of the largest unlinked files: when its space is free again."""
    large = sorted((file for file in files if file.disk_bytes >= LARGE_BYTES), key=lambda file: -file.disk_bytes)
    for file in large[:_NAMED_MAX]:
        more = f" and {counted(file.processes - 1, 'other')} close" if file.processes > 1 else " closes"
        page.note(
            f"{size(file.disk_bytes)} unlinked, and free once process {file.pid} ({file.command}){more} it: {file.path}"
        )


def _or_unseen(unlinked: UnlinkedFiles) -> str:
    if not unlinked.hidden_processes:
        return ""
    return f" (or unlinked, and open in one of {unlinked.hidden_processes:,} processes that only root may look into)"
