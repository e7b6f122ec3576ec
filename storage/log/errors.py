"""The refusals of an append, a roll or a new log start: one class for each exception of Kafka.

``kafka_name`` is the class that Kafka throws in its place. ``CorruptBatch`` is Kafka's CorruptRecordException.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from storage.errors import CorruptBatch, LogCleanerError

__all__ = ["CorruptBatch", "LogRefusal"]


class LogRefusal(LogCleanerError):
    """A refusal, as Kafka's log would refuse; the content of the log stays as it was. ``path`` is the partition."""

    kafka_name: ClassVar[str]

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


class InvalidRecords(LogRefusal):
    """Batches or records of an append that Kafka's validator refuses.

    ``record_errors`` has the place of each refused record in the append, with the cause; none where a batch is refused.
    """

    kafka_name = "InvalidRecordException"

    record_errors: tuple[tuple[int, str], ...] = ()


class InvalidTimestamp(InvalidRecords):
    """Records whose timestamps the topic does not take: too early, too late, or of the log's own type."""

    kafka_name = "InvalidTimestampException"


class OffsetIndexed(LogRefusal):
    """A batch without records, at an offset that the index has already. Kafka writes such a batch, and then fails."""

    kafka_name = "InvalidOffsetException"


class IllegalRecords(LogRefusal):
    """Records that Kafka's code stumbles over: of an unknown codec, or with a negative time that it has to rewrite."""

    kafka_name = "IllegalArgumentException"


class InvalidLeaderEpoch(LogRefusal):
    """A leader epoch below 0, or one that begins below offset 0: of an append, or of a batch that keeps its own."""

    kafka_name = "IllegalArgumentException"


class UndecompressableRecords(LogRefusal):
    """Compressed records that do not decompress."""

    kafka_name = "KafkaException"


class UnevenOffsets(LogRefusal):
    """A compressed batch whose records are not one offset apart: Kafka fails when it rewrites such a batch."""

    kafka_name = "UnsupportedOperationException"


class BatchTooLarge(LogCleanerError):
    """A batch beyond a limit of the topic. ``limit_key`` is Kafka's name of the limit."""

    kafka_name: ClassVar[str] = "RecordTooLargeException"

    path: Path
    size_bytes: int
    limit_key: str
    limit_bytes: int

    def __str__(self) -> str:
        return f"{self.path}: {self.size_bytes} bytes to append are more than {self.limit_key} = {self.limit_bytes}"


class RecordBatchTooLarge(BatchTooLarge):
    """An append that no segment can hold."""

    kafka_name = "RecordBatchTooLargeException"


class OutOfOrderSequence(LogRefusal):
    """A batch that does not follow the last one of its producer."""

    kafka_name = "OutOfOrderSequenceException"


class InvalidProducerEpoch(LogRefusal):
    """A batch or marker of a producer whose id lives on with a higher epoch."""

    kafka_name = "InvalidProducerEpochException"


class InvalidTxnState(LogRefusal):
    """A plain batch of a producer that has a transaction open."""

    kafka_name = "InvalidTxnStateException"


class TransactionCoordinatorFenced(LogRefusal):
    """A marker of a coordinator that another coordinator has replaced."""

    kafka_name = "TransactionCoordinatorFencedException"


class OffsetsOutOfOrder(LogRefusal):
    """Batches that keep their offsets, although these do not rise."""

    kafka_name = "OffsetsOutOfOrderException"


class UnexpectedAppendOffset(LogRefusal):
    """Batches that keep their offsets, and begin below the log end."""

    kafka_name = "UnexpectedAppendOffsetException"

    first_offset: int
    last_offset: int


class OffsetOutOfRange(LogRefusal):
    """An offset that the log does not have, or may not begin at."""

    kafka_name = "OffsetOutOfRangeException"


class CannotRoll(LogRefusal):
    """A new segment that would begin at or below the active segment."""

    kafka_name = "KafkaException"
