"""A driver whose stream dies in the commit of its second batch: ``python -m tests.spark.dying_stream PLACE STEP``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from unittest.mock import patch

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from cleaner.spark import open_session
from cleaner.spark.table import stream_sink
from cleaner.spark.table.source import KafkaLogSource
from cleaner.spark.table.stream_sink import KafkaLogStreamWriter
from tests.crash.stops import FailingAt
from tests.spark.test_stream_sink import start

DRIVER: Final = "STREAM_DRIVER"
STEP: Final = "STREAM_STEP"


class Killing(FailingAt):
    """Ends the process group of the driver, which holds its JVM, then this process."""

    def at(self, number: int) -> None:
        if number == self.number:
            os.killpg(int(os.environ[DRIVER]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


class DyingWriter(KafkaLogStreamWriter):
    """Commits on a disk that kills."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        disk = Killing(int(os.environ[STEP]))
        with patch.object(stream_sink, "FileSystem", lambda: disk):
            super().commit(messages, batchId)


class DyingSource(KafkaLogSource):
    """The data source with such a writer."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:  # noqa: N802
        return DyingWriter(self.options, schema, overwrite=overwrite)


def main() -> None:
    """Run the stream; it does not come to its end."""
    place, step = sys.argv[1:]
    os.environ.update({DRIVER: str(os.getpgrp()), STEP: step})
    config = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = open_session("local[2]", config)
    spark.dataSource.register(DyingSource)
    start(spark, Path(place), 2).awaitTermination()


if __name__ == "__main__":
    main()
