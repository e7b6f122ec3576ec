"""Log dirs as Spark tables: the data source ``kafka-log``. The only place that imports pyspark, and only when asked.

Nouns: an *extent* is the part of one segment that one task reads (an ``Extent`` of ``storage.scan``). A *chunk* is the
part of an extent in memory, with the fields of its records located. ``cleaner.arrow`` makes Arrow columns of a chunk.
None of these needs Spark: ``cleaner.export`` uses them, too. A *choice* selects partitions by name.

``table`` is the data source: ``source`` plans a batch read, ``stream`` plans micro-batches, within ``bounds`` that
options name. ``reading`` is the work of their tasks. ``sink`` writes new partitions, each in parts.
``bulk`` compacts: it sends work to the ``tasks`` of its executors, and ``shuffle`` finds the survivors.

``analysis`` examines a *snapshot*. Its tasks hand over *facts* (stretches of batches, keys) and measure the *savings*
of a compaction. ``analyzing`` makes rows of tables of the figures that Spark aggregates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleaner.errors import how_to_install
from cleaner.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["open_session", "register"]


def register(spark: SparkSession) -> None:
    """Register ``kafka-log`` with a session, for ``spark.read``, ``readStream`` and ``df.write``.

    Raises: SparkUnavailable.
    """
    source = _source()
    spark.dataSource.register(source)


def open_session(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session that knows ``kafka-log``. Its Python workers run this interpreter.

    Args:
        master: the URL of Spark's master.
        config: further settings of Spark; they win over ours.

    Raises: SparkUnavailable: Java or pyspark is missing, or Spark does not run on this Java.
    """
    source = _source()  # before a JVM is started for nothing
    from cleaner.spark.session import start_session  # noqa: PLC0415

    spark = start_session(master, config or {})
    spark.dataSource.register(source)
    return spark


def _source() -> type[DataSource]:
    try:
        from cleaner.spark.table.source import KafkaLogSource  # noqa: PLC0415
    except ImportError as error:
        raise SparkUnavailable(f"{error.name} is not installed", how_to_install("spark")) from error
    return KafkaLogSource
