"""Log dirs as Spark tables: the data source ``kafka-log``. The only place that imports pyspark, and only when asked.

Nouns: an *extent* is the part of one segment that one task reads (an ``Extent`` of ``storage.scan``). A *chunk* is the
part of an extent in memory, with the fields of its records located. ``cleaner.arrow`` makes Arrow columns of a chunk.
Extents, chunks and columns need no Spark: ``cleaner.export`` uses them, too. A *choice* selects partitions by name.

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

    from cleaner.spark.table.source import KafkaLogSource

__all__ = ["open_session", "register"]


def register(spark: SparkSession) -> None:
    """Register ``kafka-log`` with a session, for ``spark.read``, ``readStream`` and ``df.write``.

    Buckets are read as Hadoop's keys ``fs.s3a.*`` (``spark.hadoop.fs.s3a.*``) say now, else as the environment says.

    Raises: SparkUnavailable.
    """
    _register(spark, _source())


def open_session(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session that knows ``kafka-log``. Its Python workers run this interpreter.

    Args:
        master: the URL of Spark's master.
        config: further settings of Spark; they override ours.

    Raises: SparkUnavailable: Java or pyspark is missing, or Spark does not run on this Java.
    """
    source = _source()  # check first, before a JVM is started for nothing
    from cleaner.spark.session import start_session  # noqa: PLC0415

    spark = start_session(master, config or {})
    _register(spark, source)
    return spark


def _register(spark: SparkSession, source: type[KafkaLogSource]) -> None:
    from cleaner.spark.table.options import s3_of  # noqa: PLC0415

    try:
        hadoop = spark.sparkContext._jsc.hadoopConfiguration().get
    except (AttributeError, NotImplementedError):  # Spark Connect has no JVM here
        return spark.dataSource.register(source)
    return spark.dataSource.register(source.reading(s3_of(hadoop)))


def _source() -> type[KafkaLogSource]:
    try:
        from cleaner.spark.table.source import KafkaLogSource  # noqa: PLC0415
    except ImportError as error:
        raise SparkUnavailable(f"{error.name} is not installed", how_to_install("spark")) from error
    return KafkaLogSource
