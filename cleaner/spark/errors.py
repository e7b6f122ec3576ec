"""Errors of Spark."""

from __future__ import annotations

from pathlib import Path

from storage.errors import LogCleanerError


class UnseenLogDir(LogCleanerError):
    """A Spark executor does not see the files that the driver sees."""

    def __init__(self, path: Path, host: str, cause: str) -> None:
        super().__init__(path, host, cause)
        self.path, self.host, self.cause = path, host, cause

    def __str__(self) -> str:
        return (
            f"{self.path}: on the Spark executor at {self.host}: {self.cause}; every executor has to see the log dir "
            f"under the same path: mount it there, or use --engine local"
        )


class SparkJobFailed(LogCleanerError):
    """Spark gave a job up. The job wrote nothing that a broker would see."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"Spark gave the compactions up: {self.cause}; nothing of them was written, run again"


class SparkUnavailable(LogCleanerError):
    """Spark cannot be started here: pyspark or Java is missing, or Spark does not run on this version of Java."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause, remedy)
        self.cause, self.remedy = cause, remedy

    def __str__(self) -> str:
        return f"Spark cannot be started: {self.cause}; {self.remedy}"


class AnalysisFailed(LogCleanerError):
    """Spark gave an analysis up. Faults in the files are no such error: the analysis reports them as problems."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"Spark gave the analysis up: {self.cause}; every executor needs this package, and sees the log dirs"
