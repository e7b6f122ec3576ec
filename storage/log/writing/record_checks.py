"""The checks of each record of an append.

Source: Kafka LogValidator.validateRecord, ``validateKey``, ``validateTimestamp``, ``processRecordErrors``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import InvalidRecord
from storage.log.config import LogConfig, TimestampType
from storage.log.errors import InvalidRecords, InvalidTimestamp
from storage.records import BatchHeader, Record
from storage.records.record import NO_TIMESTAMP
from storage.records.varint import read_varint, read_varlong, wrapped_int64

_SHOWN_MAX: Final = 3


class Sighting(NamedTuple):
    """The fields of one record that the checks look at; ``record`` is all of it, where all was read."""

    offset: int
    timestamp_ms: int
    has_key: bool
    record: Record | None = None

    @classmethod
    def of(cls, record: Record) -> Sighting:
        """Return what the checks look at in a record."""
        return cls(record.offset, record.timestamp_ms, record.key is not None, record)


class RecordChecks:
    """Checks the records of one append, then says what was wrong with them."""

    def __init__(self, path: Path, config: LogConfig, now_ms: int) -> None:
        self._path, self._config, self._now_ms = path, config, now_ms
        self._errors: list[tuple[int, str]] = []
        self._is_a_matter_of_time = False

    def refuse(self, place: int, cause: str) -> None:
        """Note what is wrong with the record of this number."""
        self._errors.append((place, cause))

    def is_good(self, place: int, found: Sighting, has_log_append_time: bool) -> bool:
        """Check the key and the timestamp of the record of this number, in a batch that has this timestamp type."""
        if self._config.is_compacted and not found.has_key:
            self.refuse(place, "a record without a key in a compacted topic")
            return False
        if self._config.timestamp_type is TimestampType.CREATE_TIME and found.timestamp_ms != NO_TIMESTAMP:
            age_ms = wrapped_int64(self._now_ms - found.timestamp_ms)
            before_ms, after_ms = self._config.timestamp_before_max_ms, self._config.timestamp_after_max_ms
            if age_ms > before_ms or wrapped_int64(-age_ms) > after_ms:
                first, last = self._now_ms - before_ms, self._now_ms + after_ms
                self._refuse_time(place, f"timestamp {found.timestamp_ms} is not within {first} to {last}")
                return False
        elif has_log_append_time:
            self._refuse_time(place, "only the log itself gives records the time of their append")
            return False
        return True

    def _refuse_time(self, place: int, cause: str) -> None:
        self._is_a_matter_of_time = True
        self.refuse(place, cause)

    def finish(self) -> None:
        """Raise what the records of one batch amount to. Raises: InvalidRecords, InvalidTimestamp."""
        if self._errors:
            shown = "; ".join(f"record {place}: {cause}" for place, cause in self._errors[:_SHOWN_MAX])
            kind = InvalidTimestamp if self._is_a_matter_of_time else InvalidRecords
            raise kind(self._path, f"{len(self._errors)} records are refused, {shown}", tuple(self._errors))


def sightings(data: memoryview, header: BatchHeader) -> Iterator[Sighting]:
    """Read the decompressed records of a batch that is written as it is: keys and values are skipped.

    The length that a record states is not looked at, as in Kafka.

    Raises: InvalidRecord.
    Source: Kafka DefaultRecord.readPartiallyFrom.
    """
    position, end = 0, len(data)
    for _ in range(header.record_count):
        _, position = read_varint(data, position, end)
        timestamp_delta, position = read_varlong(data, position + 1, end)  # behind the attributes
        offset_delta, position = read_varint(data, position, end)
        key_bytes, position = read_varint(data, position, end)
        position = _skipped(data, position, key_bytes)
        value_bytes, position = read_varint(data, position, end)
        position = _skip_headers(data, _skipped(data, position, value_bytes))
        time_ms = wrapped_int64(header.base_timestamp_ms + timestamp_delta)
        timestamp_ms = header.max_timestamp_ms if header.is_log_append_time else time_ms
        yield Sighting(header.base_offset + offset_delta, timestamp_ms, key_bytes >= 0)
    if header.record_count and position != end:
        raise InvalidRecord(f"{end - position} bytes behind the last of {header.record_count} records")


def _skipped(data: memoryview, position: int, size_bytes: int) -> int:
    after = position + max(size_bytes, 0)
    if after > len(data):
        raise InvalidRecord(f"field of {size_bytes} bytes with {len(data) - position} left")
    return after


def _skip_headers(data: memoryview, position: int) -> int:
    count, position = read_varint(data, position, len(data))
    if count < 0:
        raise InvalidRecord(f"{count} headers")
    for _ in range(count):
        key_bytes, position = read_varint(data, position, len(data))
        if key_bytes < 0:
            raise InvalidRecord("null header key")
        value_bytes, position = read_varint(data, _skipped(data, position, key_bytes), len(data))
        position = _skipped(data, position, value_bytes)
    return position


def largest_timestamp(found: Sequence[Sighting]) -> int:
    """Return the largest timestamp; -1 if there is none."""
    return max([NO_TIMESTAMP, *(one.timestamp_ms for one in found)])
