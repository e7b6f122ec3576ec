"""Log dirs as Spark tables: the data source ``kafka-log``. The only place that imports pyspark, and only when asked.

Nouns: a *slice* is a stretch of one segment that one task reads (``slices``); a *chunk* is what of it lies in memory
at a time, its records' fields located (``chunks``); ``columns`` makes Arrow arrays of it. None of these needs Spark:
``cleaner.export`` uses them too. A *choice* is of partitions, by name. ``source`` plans a batch read, ``stream``
micro-batches, by ``bounds`` that options name; ``reading`` is what their tasks do; ``sink`` writes new partitions, each
in ``parts``.
``bulk`` compacts: ``work`` is what it sends to the ``tasks`` of its executors, ``shuffle`` finds the survivors.

An *analysis* is of a *snapshot*: its tasks hand over *facts* (stretches of batches, keys) and what a compaction would
save (``savings``); ``naming`` makes rows of tables of what Spark aggregated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleaner.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["open_session", "register"]


def register(spark: SparkSession) -> None:
    """Make ``kafka-log`` known to a session, for ``spark.read``, ``readStream`` and ``df.write``.

    Raises: SparkUnavailable.
    """
    source = _source()
    spark.dataSource.register(source)


def open_session(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """A session that knows ``kafka-log``. Its Python workers run this interpreter.

    Args:
        master: where Spark runs.
        config: further settings of Spark; they win over ours.

    Raises: SparkUnavailable: without Java, with a Java that Spark does not run on, without pyspark.
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
        raise SparkUnavailable(f"{error.name} is not installed", "pip install 'logcleaner[spark]'") from error
    return KafkaLogSource
