"""The report of ``diff``: text for people, ``logcleaner.diff/1`` for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.report.page import Lines, Page
from policies.reasons import counted, duration, moment

if TYPE_CHECKING:
    from cleaner.engine.diff.comparing import Compared
    from cleaner.engine.diff.record_diff import Difference

SCHEMA: Final = "logcleaner.diff/1"


_CLASSICAL: Final = "superseded, expired and aborted records"
_OTHERS: Final = {
    "expired_between": "{:,} expired in between",
    "unkeyed": "{:,} unkeyed ones",
    "retention": "{:,} below the log start",
}
"""Causes that the conclusion names only if there are such records."""


@dataclass(frozen=True, slots=True)
class DiffReport:
    """Two states of a log dir compared, partition by partition, and the damaged files of a copy."""

    found: Sequence[Compared]
    damaged_files: Sequence[str]

    @property
    def is_damaged(self) -> bool:
        """Return whether a record or a file is missing, or differs without a cause."""
        return bool(self.damaged_files) or any(compared.is_damaged for compared in self.found)

    def document(self) -> dict[str, Any]:
        """Return what ``diff --json`` prints. A partition that cannot be compared has null figures and an error.

        ``gone`` has the sums over all partitions. ``left_out`` names the partitions that a copy's manifest leaves out.
        """
        return {
            "schema": SCHEMA,
            "damaged": self.is_damaged,
            "files": list(self.damaged_files),
            "partitions": [_partition(compared) for compared in self.found if not compared.is_left_out],
            "gone": _gone(self.found),
            "left_out": _left_out(self.found),
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line for each partition, a line for each damaged file, and the verdict; piped, a line stays whole."""
        lines = [f"{compared.name}: {_told(compared)}" for compared in self.found]
        lines += [f"manifest: {line}" for line in self.damaged_files]
        damaged = sum(compared.is_damaged for compared in self.found) + len(self.damaged_files)
        left_out = _left_out(self.found)
        count = len(self.found) - len(left_out)
        verdict = _conclusion(self.found) if not damaged else f"DAMAGE in {counted(damaged, 'place')}"
        without = f"; {len(left_out)} not in the copy, as its manifest says" if left_out else ""
        for line in (*lines, f"{counted(count, 'partition')} compared: {verdict}{without}"):
            page.row(line)
        yield page.text


def _gone(found: Sequence[Compared]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for difference in (compared.difference for compared in found):
        sums.update({cause.value: count for cause, count in difference.gone.items()} if difference else {})
    return dict(sums)


def _left_out(found: Sequence[Compared]) -> list[str]:
    return [compared.name for compared in found if compared.is_left_out]


def _partition(compared: Compared) -> dict[str, Any]:
    difference = compared.difference
    damage = difference.damage if difference else None
    return {
        "partition": compared.name,
        "error": compared.error,
        "records": difference.records if difference else None,
        "kept": difference.kept if difference else None,
        "added": difference.added if difference else None,
        "gone": {cause.value: count for cause, count in difference.gone.items()} if difference else None,
        "damaged": difference.damaged if difference else None,
        "damage": {"offset": damage.offset, "cause": damage.cause} if damage else None,
        "delete_retention_ms": compared.delete_retention_ms,
        "since_ms": compared.since_ms,
    }


def _conclusion(found: Sequence[Compared]) -> str:
    """Name every cause that took a record."""
    if all(compared.is_left_out for compared in found):
        return "there is nothing to compare"
    gone = _gone(found)
    others = [words.format(gone[cause]) for cause, words in _OTHERS.items() if gone.get(cause)]
    if not others:
        return f"only {_CLASSICAL} are gone"
    return f"only {', '.join([_CLASSICAL, *others[:-1]])} and {others[-1]} are gone"


def _told(compared: Compared) -> str:
    difference = compared.difference
    if compared.is_left_out:
        return "not in the copy, as its manifest says"
    if difference is None:
        return f"DAMAGE: {compared.error}"
    if difference.damage:
        damage, others = difference.damage, difference.damaged
        return (
            f"DAMAGE at offset {damage.offset}: {damage.cause}; {others:,} such records. {_sums(compared, difference)}"
        )
    return _sums(compared, difference)


def _sums(compared: Compared, difference: Difference) -> str:
    gone = ", ".join(f"{count:,} {_named(cause.value, compared)}" for cause, count in difference.gone.items() if count)
    added = f", {difference.added:,} added since" if difference.added else ""
    return f"{difference.kept:,} of {difference.records:,} records stayed; gone: {gone or 'none'}{added}"


def _named(cause: str, compared: Compared) -> str:
    """Return the name of a cause, with its evidence if records had no delete horizon."""
    retention_ms, since_ms = compared.delete_retention_ms, compared.since_ms
    if cause != "expired_between" or retention_ms is None or since_ms is None:
        return cause
    passed = f"delete.retention.ms, {duration(retention_ms)}, passed since {moment(since_ms)}"
    return f"expired in between (had no delete horizon; {passed})"
