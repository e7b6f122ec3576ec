"""Write a frame into a store with Spark. The worker of the first attempt is killed when its parts are written."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from cleaner.spark import open_session
from cleaner.spark.table.sink import Part, Write
from cleaner.spark.table.source import KafkaLogSource
from cleaner.spark.table.stored_sink import StoredLogWriter


class KilledWriter(StoredLogWriter):
    """Its first attempt is killed."""

    def parts_of(self, iterator: Iterator[pa.RecordBatch], write: Write) -> tuple[Part, ...]:
        parts = super().parts_of(iterator, write)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return parts


class KilledSource(KafkaLogSource):
    """The sink under another name."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def writer(self, schema: StructType, overwrite: bool) -> KilledWriter:
        return KilledWriter(self.options, schema, self.s3, overwrite=overwrite)


def _write(place: str) -> None:
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = open_session("local[1,2]", local)  # one task at a time, and a second attempt
    spark.dataSource.register(KilledSource)
    frame = spark.range(0, 100, 1, 1).selectExpr("string(id) value", "'orders' topic")
    frame.write.format("killed").mode("append").save(place)
    spark.stop()


if __name__ == "__main__":
    _write(sys.argv[1])
