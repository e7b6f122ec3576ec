"""What Kafka says of a log, as values: a class for each kind of line that ``Referee.java`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = tuple[str, dict[str, Any]]  # kind and fields


class RefereeError(Exception):
    """A question that failed, or a JVM that ended; the message holds what it said."""


class KafkaRefused(RefereeError):
    """Kafka does not open or read a log."""

    def __init__(self, partition_dir: Path, error: str) -> None:
        super().__init__(partition_dir, error)
        self.partition_dir, self.error = partition_dir, error


@dataclass(frozen=True, slots=True)
class Record:
    """A record as Kafka reads it.

    ``key`` is hexadecimal up to 64 bytes, else ``sha256:…``; ``value`` is its SHA-256; None means null.
    """

    offset: int
    timestamp: int
    sequence: int
    key: str | None
    value: str | None
    value_bytes: int
    headers: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch header as Kafka reads it, after its CRC was checked; ``count`` is None in formats v0 and v1."""

    position: int
    size_bytes: int
    magic: int
    crc: int
    codec: str
    base_offset: int
    last_offset: int
    count: int | None
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    transactional: bool
    control: bool
    delete_horizon_ms: int | None
    timestamp_type: str
    max_timestamp: int
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An entry of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of an opened log; ``largest_timestamp`` as retention sees it."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int
    aborted_txns: tuple[AbortedTransaction, ...]
    batches: list[Batch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LeaderEpoch:
    """An entry of the leader epoch cache."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Producer:
    """State of a producer that has not expired by the clock the question was asked with."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    coordinator_epoch: int
    last_timestamp: int
    current_txn_first_offset: int | None


@dataclass(frozen=True, slots=True)
class Log:
    """A partition as a broker has it after start-up."""

    dir: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epochs: tuple[LeaderEpoch, ...]
    producers: tuple[Producer, ...]
    segments: list[Segment] = field(default_factory=list)

    def batches(self) -> Iterator[Batch]:
        """All batches in offset order."""
        return (batch for segment in self.segments for batch in segment.batches)

    def records(self) -> Iterator[Record]:
        """All records in offset order, control records too."""
        return (record for batch in self.batches() for record in batch.records)


@dataclass(frozen=True, slots=True)
class Digest:
    """SHA-256 over offset, timestamp, key, value and headers of all records, control records too."""

    dir: str
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Round:
    """A round of Kafka's cleaner; the offsets are None when its manager found nothing to clean.

    ``seconds`` is the time in ``Cleaner.doClean`` alone, which fsyncs what it writes.
    """

    dir: str
    first_dirty_offset: int | None
    first_uncleanable_offset: int | None
    end_offset: int | None
    seconds: float
    bytes_read: int
    bytes_written: int
    records_read: int
    records_written: int
    invalid_records: int


@dataclass(frozen=True, slots=True)
class CleanedAll:
    """What Kafka's log cleaner took for several logs: seconds by the clock, and of the processor."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Expired:
    """What Kafka's retention deleted."""

    dir: str
    segments: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Where Kafka begins to read from an offset (``by`` says ``offset``), or what it lists for a time (``time``).

    ``offset`` is the base offset of the batch, or the record's; None if nothing is there.
    """

    dir: str
    by: str
    target: int
    offset: int | None
    timestamp: int | None
    segment: int | None
    position: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Generated:
    """What a log holds after ``generate`` or ``workload``; ``records`` are those just written.

    ``now_ms`` is where the clock stood then, later than every record.
    """

    dir: str
    records: int
    bytes: int
    segments: int
    now_ms: int


def logs_from(lines: Iterable[Line]) -> list[Log]:
    """Logs from the lines of ``read``; consumes them.

    Raises:
        KafkaRefused: at the first log that Kafka does not open or read.
    """
    logs: list[Log] = []
    for kind, line in lines:
        match kind:
            case "refused":
                raise KafkaRefused(Path(line["dir"]), line["error"])
            case "log":
                logs.append(_log(line))
            case "segment":
                aborted = tuple(AbortedTransaction(**entry) for entry in line.pop("aborted_txns"))
                logs[-1].segments.append(Segment(aborted_txns=aborted, **line))
            case "batch":
                logs[-1].segments[-1].batches.append(Batch(**line))
            case "record":
                headers = tuple((name, value) for name, value in line.pop("headers"))
                logs[-1].segments[-1].batches[-1].records.append(Record(headers=headers, **line))
    return logs


def _log(line: dict[str, Any]) -> Log:
    epochs = tuple(LeaderEpoch(**entry) for entry in line.pop("leader_epochs"))
    producers = tuple(Producer(**entry) for entry in line.pop("producers"))
    return Log(leader_epochs=epochs, producers=producers, **line)
