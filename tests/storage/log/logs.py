"""Small logs on a real disk, and a disk that fills up."""

from __future__ import annotations

import os
from pathlib import Path

from storage.filesystem import FileSystem, NewFile, OutOfSpace, Purpose
from storage.log import Log, LogConfig
from storage.records import Record

FS = FileSystem()
NOW_MS = 1_700_000_000_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAZQ"
ANY_SIZE = LogConfig()


def record(key: str = "k", value: str = "v", timestamp_ms: int = NOW_MS) -> Record:
    return Record(0, timestamp_ms, key.encode(), value.encode())


def a_log(parent: Path, config: LogConfig = ANY_SIZE, fs: FileSystem = FS, name: str = "orders-0") -> Log:
    return Log.create(parent / name, config, fs, topic_id=TOPIC_ID)


def reopened(log: Log, config: LogConfig = ANY_SIZE, log_start_offset: int | None = None) -> Log:
    return Log.open(log.directory, config, FS, log_start_offset=log_start_offset)


def append(log: Log, *timestamps_ms: int) -> None:
    """One batch, a record a timestamp."""
    log.append_records([record(timestamp_ms=at) for at in timestamps_ms or (NOW_MS,)], now_ms=NOW_MS)


def offsets(log: Log) -> list[int]:
    return [one.offset for one in log.records()]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


class FullDisk(FileSystem):
    """A disk that fills up in the middle of an append to a file with ``full_suffix``."""

    full_suffix = ""

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        opened = super().open_to_append(path, purpose)
        return _FillingFile(opened, self)

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        return _FillingFile(super().open_to_write(path, purpose), self)


class _FillingFile(NewFile):
    def __init__(self, opened: NewFile, disk: FullDisk) -> None:
        super().__init__(opened.path, os.dup(opened.descriptor))
        opened.close()
        self._disk = disk

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.path.suffix != self._disk.full_suffix:
            super().write(data)
            return
        super().write(memoryview(data)[: len(data) // 2])
        raise OutOfSpace(self.path, len(data) - len(data) // 2)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        if self.path.suffix != self._disk.full_suffix:
            super().write_at(position, data)
            return
        super().write_at(position, memoryview(data)[: len(data) // 2])
        raise OutOfSpace(self.path, len(data) - len(data) // 2)


def looked_up(log: Log, timestamp_ms: int) -> tuple[int, int] | None:
    """The timestamp and the offset that a lookup finds, without the leader epoch."""
    found = log.lookup_timestamp(timestamp_ms)
    return found and found[:2]
