"""What ``diff`` found, for people and for machines: ``logcleaner.diff/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cleaner.engine.comparing import Compared
    from cleaner.engine.diff import Difference

SCHEMA: Final = "logcleaner.diff/1"


def document(found: Sequence[Compared], damaged_files: Sequence[str]) -> dict[str, Any]:
    """What ``diff --json`` prints. What could not be compared has null figures and an error."""
    return {
        "schema": SCHEMA,
        "damaged": bool(damaged_files) or any(compared.is_damaged for compared in found),
        "files": list(damaged_files),
        "partitions": [_partition(compared) for compared in found],
    }


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
    }


def lines(found: Sequence[Compared], damaged_files: Sequence[str]) -> list[str]:
    """A line a partition, a line for each damaged file, and the verdict."""
    told = [f"{compared.name}: {_told(compared)}" for compared in found]
    told += [f"manifest: {line}" for line in damaged_files]
    damaged = sum(compared.is_damaged for compared in found) + len(damaged_files)
    verdict = "only superseded, expired and aborted records are gone" if not damaged else f"DAMAGE in {damaged} places"
    return [*told, f"{len(found)} partitions compared: {verdict}"]


def _told(compared: Compared) -> str:
    difference = compared.difference
    if difference is None:
        return f"DAMAGE: {compared.error}"
    if difference.damage:
        damage, others = difference.damage, difference.damaged
        return f"DAMAGE at offset {damage.offset}: {damage.cause}; {others:,} such records. {_sums(difference)}"
    return _sums(difference)


def _sums(difference: Difference) -> str:
    gone = ", ".join(f"{count:,} {cause.value}" for cause, count in difference.gone.items() if count)
    added = f", {difference.added:,} added since" if difference.added else ""
    return f"{difference.kept:,} of {difference.records:,} records stayed; gone: {gone or 'none'}{added}"
