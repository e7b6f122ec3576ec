"""Log, LogConfig, Appended, Producer, SpecialTimestamp, TimestampOffset: one partition, opened."""

from storage.log.append import Appended, Producer
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log.lookup import SpecialTimestamp, TimestampOffset
from storage.log.read import AnyBatch

__all__ = ["AnyBatch", "Appended", "Log", "LogConfig", "Producer", "SpecialTimestamp", "TimestampOffset"]
