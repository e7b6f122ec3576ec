"""The streams that write into a log dir, and the last batch of each: ``.logcleaner-streams``.

A batch is committed once its line is there. As long as the line names staged segments, some may not be in their logs
yet. The journal cannot hold this: it rotates, and a query may be started again after a year.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cleaner.engine.journal import decode_entry, encode_entry
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import read_file
from storage.names import STREAMS_FILE, TopicPartition, parse_topic_partition

_WHAT = "stream"


class DamagedStreams(LogCleanerError):
    """A list of streams that does not parse: nothing tells which batches are in their logs."""

    path: Path
    line: int

    def __str__(self) -> str:
        return (
            f"{self.path} line {self.line}: damaged; no stream writes here until the line is mended or removed: "
            f"without it, the query's last batch may be written twice"
        )


class Staged(NamedTuple):
    """The staged segments of one partition."""

    tag: str
    """In their names."""
    end_offset: int
    """The log end behind them."""


class StreamBatch(NamedTuple):
    """The last batch of a query that is committed."""

    query: str
    """The id of the query, which its checkpoint holds."""
    number: int
    """The id that Spark gives the batch."""
    time_ms: int
    """When the batch was committed, epoch ms."""
    staged: Mapping[TopicPartition, Staged]
    """Partitions whose segments may not all be in."""


def read_streams(log_dir: Path) -> dict[str, StreamBatch]:
    """Return the last batch of each query. Raises: DamagedStreams, UnreadableFile."""
    path = log_dir / STREAMS_FILE
    found = {}
    for place, line in enumerate((read_file(path) or b"").splitlines(), 1):
        batch = _parsed(decode_entry(line))
        if batch is None:
            raise DamagedStreams(path, place)
        found[batch.query] = batch
    return found


def write_stream(log_dir: Path, batch: StreamBatch, fs: FileSystem) -> None:
    """Replace the line of a query, durably. Raises: DamagedStreams, UnreadableFile, OutOfSpace, UnsafeOwner."""
    streams = {**read_streams(log_dir), batch.query: batch}
    fs.replace_file(log_dir / STREAMS_FILE, b"".join(map(_line, streams.values())), Purpose.CHECKPOINT)


def _line(batch: StreamBatch) -> bytes:
    staged = [[str(name), *one] for name, one in sorted(batch.staged.items())]
    said = {"time_ms": batch.time_ms, "what": _WHAT, "query": batch.query, "batch": batch.number, "staged": staged}
    return encode_entry(said)


def _parsed(entry: Mapping[str, Any] | None) -> StreamBatch | None:
    match entry:
        case {"time_ms": int(time_ms), "query": str(query), "batch": int(number), "staged": list(staged)}:
            found = {}
            for one in staged:
                match one:
                    case [str(text), str(tag), int(end_offset)] if name := parse_topic_partition(text):
                        found[name] = Staged(tag, end_offset)
                    case _:
                        return None
            return StreamBatch(query, number, time_ms, found)
    return None
