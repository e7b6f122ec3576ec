"""What reads the small files, and the readable reader of batches: a value or a typed error for any bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage.checkpoints import (
    parse_hold_ids,
    parse_leader_epochs,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from storage.errors import LogCleanerError
from storage.indexes import parse_offset_index, parse_time_index
from storage.log.producer_state import parse_snapshot
from storage.metadata.metadata_log import parse_metadata_record
from storage.properties import parse_properties
from storage.schemas.coordinator import CoordinatorRecords
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.txn_index import parse_txn_index
from tests.batches import iter_batches

_COORDINATOR_RECORDS: Final = CoordinatorRecords(OFFSETS_TOPIC)
_PATH: Final = Path(f"{0:020d}.log")


def _parse_batches(data: bytes) -> None:
    for batch in iter_batches(data, _PATH):
        with suppress(LogCleanerError):
            batch.ensure_valid()
        with suppress(LogCleanerError):
            batch.records(1 << 20)


def _parse_coordinator_record(data: bytes) -> None:
    """Take the bytes for a key, and for the value of every kind."""
    with suppress(LogCleanerError):
        _COORDINATOR_RECORDS.key(data)
    for name in OFFSETS_TOPIC:
        with suppress(LogCleanerError):
            _COORDINATOR_RECORDS.value(name.removesuffix("Key").removesuffix("Value"), data)


PARSERS: Final[dict[str, Callable[[bytes], object]]] = {
    ".log": _parse_batches,
    ".index": lambda data: parse_offset_index(data, 0, _PATH),
    ".timeindex": lambda data: parse_time_index(data, 0, _PATH),
    ".txnindex": lambda data: parse_txn_index(data, _PATH),
    ".snapshot": lambda data: parse_snapshot(data, _PATH),
    "-offset-checkpoint": lambda data: parse_offset_checkpoint(data, _PATH),
    "-hold-ids": lambda data: parse_hold_ids(data, _PATH),
    "leader-epoch-checkpoint": lambda data: parse_leader_epochs(data, _PATH),
    "partition.metadata": lambda data: parse_partition_metadata(data, _PATH),
    ".properties": lambda data: parse_properties(data, "server.properties"),
    "metadata record": parse_metadata_record,
    "coordinator record": _parse_coordinator_record,
}
"""By the end of the names of the files that they read."""
_NAMES: Final = list(PARSERS)


def parse(data: bytes) -> None:
    """Have the parser that the first byte names read the rest."""
    if data:
        with suppress(LogCleanerError):
            PARSERS[_NAMES[data[0] % len(_NAMES)]](data[1:])


def corpus(log_dir: Path) -> Iterator[bytes]:
    """The files of a log dir, each behind the byte that names its parser."""
    for path in sorted(log_dir.rglob("*")):
        for place, name in enumerate(_NAMES):
            if path.is_file() and path.name.endswith(name):
                yield bytes([place]) + path.read_bytes()
