"""Make rows of tables from figures: add the partition's name for its number, and facts that Spark does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import date, timedelta
from typing import Any, Final

from cleaner.engine.outcome import PartitionResult
from cleaner.report.findings import (
    AnalysisRow,
    Codec,
    CurveStep,
    Day,
    Keys,
    ProducerFigures,
    Savings,
    Sizes,
    Timestamps,
    TopKey,
)  # fmt: skip
from cleaner.spark.analysis.snapshot import PlannedRead
from policies.retention_curve import curve_by_size, curve_by_time
from storage.codecs.compression import Compression
from storage.names import TopicPartition

_EPOCH: Final = date(1970, 1, 1)

Figures = Mapping[str, Any]
"""A row of an aggregation; ``place`` names the partition."""
ByPlace = Mapping[int, Figures]
Rehearsed = Mapping[int, PartitionResult]
"""The results that the partitions' actions would have, by place."""


class Naming:
    """Makes the tables of one snapshot. Rows are in the order of the partitions."""

    def __init__(self, snapshot: PlannedRead) -> None:
        self._snapshot = snapshot

    def of(self, place: int) -> TopicPartition:
        """Return the partition at a place."""
        return self._snapshot.partitions[place].facts.topic_partition

    def sizes(self, sums: ByPlace) -> list[AnalysisRow]:
        """Return the sizes of each partition, with figures from the sums over it."""
        rows: list[AnalysisRow] = []
        for place, planned in enumerate(self._snapshot.partitions):
            facts, policy = planned.facts, planned.policy.cleanup_policy or None
            of_files = {"cleanup_policy": policy, "segments": len(facts.segments), "size_bytes": facts.size_bytes}
            figures = {"place": place, "records": 0, "batches": 0, **sums.get(place, {}), **of_files}
            rows.append(self._row(Sizes, figures))
        return rows

    def days(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the days of each partition, ascending; records without a timestamp come first."""
        ordered = sorted(figures, key=lambda row: (row["place"], row["day"]))
        return [self._row(Day, row, day=_day(row["day"])) for row in ordered]

    def codecs(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the codecs of each partition, in the order of Kafka's numbers for them."""
        ordered = sorted(figures, key=lambda row: (row["place"], row["codec"]))
        return [self._row(Codec, row, codec=Compression(row["codec"]).name.lower()) for row in ordered]

    def timestamps(self, sums: ByPlace) -> list[AnalysisRow]:
        """Return the timestamps of each partition with records."""
        return [self._row(Timestamps, row) for _, row in sorted(sums.items()) if row["records"]]

    def producers(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the producers of each partition, by producer id."""
        return [
            self._row(ProducerFigures, row)
            for row in sorted(figures, key=lambda row: (row["place"], row["producer_id"]))
        ]

    def keys(self, of_keys: ByPlace, sums: ByPlace) -> list[AnalysisRow]:
        """Return the keys of each partition with records."""
        none = {"keys": 0, "duplicates": 0, "deleted_keys": 0}
        both = [
            none | dict(row) | dict(of_keys.get(place, {})) for place, row in sorted(sums.items()) if row["records"]
        ]
        return [self._row(Keys, row) for row in both]

    def top_keys(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the top keys of each partition, by the measure that they lead in and by rank."""
        ordered = sorted(figures, key=lambda row: (row["place"], row["by"], row["rank"]))
        return [self._row(TopKey, row, key=bytes(row["key"])) for row in ordered]

    def savings(self, rehearsed: Rehearsed) -> list[AnalysisRow]:
        """Return the savings of each partition that was rehearsed without an error."""
        rows: list[AnalysisRow] = []
        for place, result in rehearsed.items():
            if result.error is None:
                saved_bytes = result.deleted_bytes + result.compacted_from_bytes - result.compacted_to_bytes
                figures = {"place": place, **asdict(result), "saved_bytes": saved_bytes, "basis": result.basis.value}
                rows.append(self._row(Savings, figures))
        return rows

    def retention(self) -> list[AnalysisRow]:
        """Return the curves of retention. They come from the policies alone, without Spark."""
        rows: list[AnalysisRow] = []
        for place, planned in enumerate(self._snapshot.partitions):
            if not planned.facts.segments:
                continue
            by_time = curve_by_time(planned.facts, planned.policy, self._snapshot.now_ms)
            for key, curve in (("retention.ms", by_time), ("retention.bytes", curve_by_size(planned.facts))):
                rows += [CurveStep(*self._name(place), key, point.limit, point.kept_bytes) for point in curve]
        return rows

    def _name(self, place: int) -> tuple[str, str, int]:
        facts = self._snapshot.partitions[place].facts
        return facts.log_dir, *facts.topic_partition

    def _row(self, table: type[AnalysisRow], figures: Figures, **others: object) -> AnalysisRow:
        """Return a row of a table, filled from figures by the names of its fields."""
        mine = [field.name for field in fields(table)[len(fields(AnalysisRow)) :]]
        given: dict[str, Any] = {name: others.get(name, figures.get(name)) for name in mine}
        return table(*self._name(figures["place"]), **given)


def _day(day: int) -> str | None:
    """Return a day's date; None for records without a timestamp, and for days after the calendar's last year."""
    if day < 0 or day > (date.max - _EPOCH).days:
        return None
    return (_EPOCH + timedelta(days=day)).isoformat()
