"""One partition, opened: Log, LogConfig, and what its calls take and return."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log.config import LogConfig
    from storage.log.log import Log
    from storage.log.read import AnyBatch
    from storage.log.search import SpecialTimestamp, TimestampOffset
    from storage.log.writing.validation import Appended, AppendOrigin, Producer

__all__ = [
    "AnyBatch",
    "AppendOrigin",
    "Appended",
    "Log",
    "LogConfig",
    "Producer",
    "SpecialTimestamp",
    "TimestampOffset",
]


_HOMES = {
    "AnyBatch": "storage.log.read",
    "AppendOrigin": "storage.log.writing.validation",
    "Appended": "storage.log.writing.validation",
    "Log": "storage.log.log",
    "LogConfig": "storage.log.config",
    "Producer": "storage.log.writing.validation",
    "SpecialTimestamp": "storage.log.search",
    "TimestampOffset": "storage.log.search",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for: a compaction reads and writes files, and opens no ``Log``."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(name)
