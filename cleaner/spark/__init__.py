"""Log dirs as Spark tables: the data source ``kafka-log``. The only place that imports pyspark, and only when asked.

Nouns: an *extent* is the part of one segment that one task reads (an ``Extent`` of ``storage.scan``). A *chunk* is the
part of an extent in memory, with the fields of its records located. ``cleaner.arrow`` makes Arrow columns of a chunk.
Extents, chunks and columns need no Spark: ``cleaner.export`` uses them, too. A *choice* selects partitions by name.

``table`` is the data source: ``source`` is a batch read, ``stream`` one in micro-batches, within ``bounds`` that
options name; ``logs`` is the function ``read_logs``. ``planning`` chooses the extents of all of them, and ``reading``
is the work of their tasks. ``sink`` writes new partitions, each in parts; ``stored_sink`` writes them into a store.
``bulk`` compacts: it sends work to the ``tasks`` of its executors, and ``shuffle`` finds the survivors.

``analysis`` examines a *snapshot*. Its tasks send each other *facts* (*figures* of stretches of batches, and *keys*),
and measure the *savings* of a compaction. ``analyzing`` makes tables of the rows that tasks merge of the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING

from cleaner.errors import how_to_install
from cleaner.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession

    from cleaner.spark.table.source import KafkaLogSource

__all__ = ["open_session", "read_logs", "register"]


def read_logs(
    spark: SparkSession,
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    where: Column | str | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Return the records of log dirs as a frame, which reads what these columns and this condition need.

    Args:
        spark: a session; it need not be registered.
        path: a log dir, a partition directory, or a glob of them, here or in a store; or several.
        columns: the columns of the frame, of those of ``kafka-log``; by default those that ``options`` choose.
        where: a condition on any column, as ``DataFrame.where`` takes it. Its topics, partitions, offsets and times
            choose what is read at all; what is not read is not checked for damage.
        options: the options of ``spark.read.format("kafka-log")``.

    Files and their lengths are those of the call. Buckets are read as ``register`` says.

    Raises: SparkUnavailable; InvalidConfig, also for a Spark Connect client; LogCleanerError: a path, offset or file is
    not there, or cannot be read; AnalysisException of Spark for a condition that Spark does not understand.
    """
    with _needing_packages():
        from cleaner.spark.table.logs import frame_of_logs  # noqa: PLC0415
    return frame_of_logs(spark, path, columns, where, options or {})


def register(spark: SparkSession) -> None:
    """Register ``kafka-log`` with a session, for ``spark.read``, ``readStream`` and ``df.write``.

    Buckets are read and written as Hadoop's keys ``fs.s3a.*`` (``spark.hadoop.fs.s3a.*``) say now, else as the
    environment says.

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


@contextmanager
def open_context(master: str) -> Iterator[SparkContext]:
    """Yield a context for commands that need no tables of Spark. Its Python workers run this interpreter.

    Raises: SparkUnavailable: Java or a package is missing, or Spark does not run on this Java.
    """
    with _needing_packages():
        from cleaner.spark.analysis import analyzing  # noqa: F401, PLC0415  (checked before a JVM starts for nothing)
        from cleaner.spark.session import running_context  # noqa: PLC0415
    with running_context(master) as context:
        yield context


def _register(spark: SparkSession, source: type[KafkaLogSource]) -> None:
    from cleaner.spark.table.options import has_jvm, s3_of_session  # noqa: PLC0415

    spark.dataSource.register(source.reading(s3_of_session(spark)) if has_jvm(spark) else source)


def _source() -> type[KafkaLogSource]:
    with _needing_packages():
        from cleaner.spark.table.source import KafkaLogSource  # noqa: PLC0415
    return KafkaLogSource


@contextmanager
def _needing_packages() -> Iterator[None]:
    """Raise SparkUnavailable for a package that is not installed."""
    try:
        yield
    except ImportError as error:
        raise SparkUnavailable(f"{error.name} is not installed", how_to_install("spark")) from error
