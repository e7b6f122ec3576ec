"""Errors of Spark. They are importable without Spark, because one of them says that Spark is not installed."""

from __future__ import annotations

from contextlib import ContextDecorator
from pathlib import Path
from types import TracebackType
from typing import Final

from storage.errors import LogCleanerError


class _WithoutStack(ContextDecorator):
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, LogCleanerError):
            raise error.with_traceback(None) from None


WITHOUT_STACK: Final = _WithoutStack()
"""Drops the stack of an error of ours that leaves a ``with`` or a decorated function.

Spark shows users the whole stack, some forty lines, in front of the line that says what is wrong.
"""


class UnseenLogDir(LogCleanerError):
    """A Spark executor does not see the files that the driver sees."""

    path: Path
    host: str
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path}: on the Spark executor at {self.host}: {self.cause}; every executor has to see the log dir "
            f"under the same path: mount it there, or use --engine local"
        )


class TooLargeForCluster(LogCleanerError):
    """A unit whose records have no places: its number, or its count of records, is too large for an int64."""

    path: Path
    unit: int
    records: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.records:,} records for segment {self.unit:,} of a wave: more than a cluster counts; "
            "use --engine local"
        )


class SparkJobFailed(LogCleanerError):
    """Spark gave a job up. The job wrote nothing that a broker would see."""

    cause: str

    def __str__(self) -> str:
        return f"Spark gave the compactions up: {self.cause}; nothing of them was written, run again"


class SparkUnavailable(LogCleanerError):
    """Spark cannot be started here: pyspark or Java is missing, or Spark does not run on this version of Java."""

    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"Spark cannot be started: {self.cause}; {self.remedy}"


class AnalysisFailed(LogCleanerError):
    """An analysis that Spark gave up. Faults in the files raise no error: the analysis reports them as problems."""

    cause: str

    def __str__(self) -> str:
        return f"Spark gave the analysis up: {self.cause}; every executor needs this package, and sees the log dirs"
