"""The input of one Spark task."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from storage.scan.extents import Extent


class SlicesInput(InputPartition):
    """The slices that one task reads, on their way to a worker."""

    def __init__(self, slices: tuple[Extent, ...]) -> None:
        super().__init__(slices)
