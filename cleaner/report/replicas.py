"""The report of ``diff --replicas``: text for people, ``logcleaner.replicas/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.report.page import Lines, Page
from policies.reasons import counted

if TYPE_CHECKING:
    from cleaner.engine.replicas.agreement import Agreement, Divergence

SCHEMA: Final = "logcleaner.replicas/1"


@dataclass(frozen=True, slots=True)
class ReplicasReport:
    """The replicas of several places, compared partition by partition."""

    found: Sequence[Agreement]
    single: Sequence[str]
    """The partitions that only one of the places has."""

    @property
    def is_damaged(self) -> bool:
        """Return whether committed records differ, or a replica cannot be read."""
        return any(one.is_damaged for one in self.found)

    @property
    def is_whole(self) -> bool:
        """Return whether all partitions that several places have could be compared."""
        return all(one.not_compared is None for one in self.found)

    def document(self) -> dict[str, Any]:
        """Return what ``diff --replicas --json`` prints."""
        return {
            "schema": SCHEMA,
            "damaged": self.is_damaged,
            "partitions": [_partition(one) for one in self.found],
            "single": list(self.single),
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line for each partition that diverges or was not compared, with -v for each one, and the verdict."""
        for one in self.found:
            if one.is_damaged or one.not_compared or page.view.every_segment:
                for line in _lines(one):
                    page.row(f"{one.topic_partition}: {line}")
        for name in self.single if page.view.every_segment else ():
            page.row(f"{name}: in one place only")
        damaged = sum(one.is_damaged for one in self.found)
        left = sum(not one.is_damaged and one.not_compared is not None for one in self.found)
        agree = len(self.found) - damaged - left
        records = sum(one.records for one in self.found if not one.is_damaged)
        parts = [f"{counted(agree, 'partition')} {'agrees' if agree == 1 else 'agree'}, {counted(records, 'record')}"]
        parts += [f"DAMAGE in {damaged}"] if damaged else []
        parts += [f"{left} not compared"] if left else []
        parts += [f"{counted(len(self.single), 'partition')} in one place only"] if self.single else []
        page.row("; ".join(parts))
        yield page.text


def _lines(one: Agreement) -> Iterator[str]:
    yield from (f"DAMAGE: {error}" for error in one.errors)
    if one.divergence is not None:
        yield f"DAMAGE {_where(one.divergence)}: {one.divergence.cause}; {_groups(one.divergence)}"
    elif one.not_compared is not None:
        yield f"not compared: {one.not_compared}"
    elif one.is_empty:
        yield f"{len(one.places)} replicas are empty"
    elif not one.errors:
        where = f"offsets {one.start_offset} to {one.end_offset - 1}"
        yield f"{len(one.places)} replicas agree on {counted(one.records, 'record')}, {where}"


def _where(divergence: Divergence) -> str:
    if divergence.first_offset == divergence.last_offset:
        return f"at offset {divergence.first_offset}"
    return f"within offsets {divergence.first_offset} to {divergence.last_offset}"


def _groups(divergence: Divergence) -> str:
    told = [" and ".join(group) for group in divergence.groups]
    if len(divergence.groups[0]) > 1:
        return f"{told[0]} agree, {' and '.join(told[1:])} not"
    return f"no two agree: {', '.join(told)}"


def _partition(one: Agreement) -> dict[str, Any]:
    divergence = one.divergence
    return {
        "topic": one.topic_partition.topic,
        "partition": one.topic_partition.partition,
        "places": list(one.places),
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "records": one.records,
        "divergence": None
        if divergence is None
        else {
            "first_offset": divergence.first_offset,
            "last_offset": divergence.last_offset,
            "cause": divergence.cause,
            "groups": [list(group) for group in divergence.groups],
        },
        "errors": list(one.errors),
        "not_compared": one.not_compared,
    }
