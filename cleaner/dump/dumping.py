"""One dump over some files: the lines of each file, and the findings that follow all of them.

The small files of a log dir are shown here, entry by entry: producer snapshots, transaction indexes, checkpoints,
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.dump.files import DumpedFile, DumpedKind
from cleaner.dump.indexes import dump_offset_index, dump_time_index
from cleaner.dump.json_lines import JsonDumpLines
from cleaner.dump.logs import DumpFindings, Dumping, LogDump
from cleaner.dump.options import DumpOptions
from cleaner.dump.text import TextLines
from storage.checkpoints import parse_leader_epochs, parse_offset_checkpoint, parse_partition_metadata
from storage.errors import LogCleanerError, UnreadableFile
from storage.log.producer_state import ProducerEntry, parse_snapshot
from storage.log_dir import read_file
from storage.properties import parse_properties
from storage.records.v2 import sequence_before
from storage.txn_index import parse_txn_index

_TXN_INDEX_VERSION: Final = 0


def dump(
    files: Iterable[DumpedFile],
    options: DumpOptions,
    write: Callable[[bytes | memoryview], object],
    failed: Callable[[LogCleanerError], None],
    *,
    as_json: bool,
) -> list[str]:
    """Show some files.

    Args:
        files: in the order in which they are shown.
        options: the parts that are shown.
        write: takes lines for stdout. It may raise OSError.
        failed: called with the error of each part that cannot be read. The dump goes on behind that part.
        as_json: show JSON lines.

    Returns:
        The lines for stderr, which follow all files.
    """
    lines = JsonDumpLines(options) if as_json else TextLines(options)

    def damaged(error: LogCleanerError) -> None:
        if isinstance(lines, JsonDumpLines):
            output.write(_encoded(lines.damage(error)))
        failed(error)

    output = _Output(write)
    dumping = Dumping(options, lines, output.write, damaged, DumpFindings(), {})
    for file in files:
        try:
            output.heading = b"".join(map(_encoded, lines.heading(file)))
            if options.selection.takes_all:
                output.write(b"")
            _dump_file(file, dumping)
        except LogCleanerError as error:
            damaged(error)
    if isinstance(lines, JsonDumpLines):
        for document in dumping.findings.documents():
            write(_encoded(lines.entry("finding", document)))
        return []
    return list(dumping.findings.lines())


class FileEntry(NamedTuple):
    """An entry of a file: its type, as JSON names it, and its fields, in the order of the text."""

    kind: str
    fields: Mapping[str, object]


class _Output:
    """The output. The heading of a file comes before the first line that is shown from the file."""

    def __init__(self, write: Callable[[bytes | memoryview], object]) -> None:
        self._write, self.heading = write, b""

    def write(self, data: bytes | memoryview) -> None:
        """Write lines, behind the heading if it was not written yet."""
        if self.heading:
            self._write(self.heading)
            self.heading = b""
        self._write(data)


def _dump_file(file: DumpedFile, dumping: Dumping) -> None:
    """Show one file. Raises: LogCleanerError."""
    if file.kind.holds_batches:
        LogDump(file, dumping).run()
    elif file.kind is DumpedKind.OFFSET_INDEX:
        dump_offset_index(file, dumping)
    elif file.kind is DumpedKind.TIME_INDEX:
        dump_time_index(file, dumping)
    else:
        data = read_file(file.location)
        if data is None:
            raise UnreadableFile(file.path, "no such file")
        for kind, fields in ENTRIES[file.kind](data, file.location):
            dumping.write(_encoded(dumping.lines.entry(kind, fields)))


def _encoded(line: str) -> bytes:
    """Return the bytes of a line; a file name that is no UTF-8 keeps its own."""
    return f"{line}\n".encode(errors="surrogateescape")


def _producers(data: bytes, path: Path) -> Iterator[FileEntry]:
    for producer in parse_snapshot(data, path):
        yield FileEntry("producer", _producer(producer))


def _producer(producer: ProducerEntry) -> dict[str, object]:
    """Return the fields of a producer. Source: Kafka DumpLogSegments.dumpProducerIdSnapshot."""
    fields: dict[str, object] = {
        "producerId": producer.producer_id,
        "producerEpoch": producer.epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnFirstOffset": producer.open_txn_first_offset,
        "lastTimestamp": producer.last_timestamp_ms,
    }
    if batch := producer.last_batch:
        fields |= {
            "firstSequence": sequence_before(batch.last_sequence, batch.offset_delta),
            "lastSequence": batch.last_sequence,
            "lastOffset": batch.last_offset,
            "offsetDelta": batch.offset_delta,
            "timestamp": batch.timestamp_ms,
        }
    return fields


def _aborted(data: bytes, path: Path) -> Iterator[FileEntry]:
    for found in parse_txn_index(data, path):
        yield FileEntry(
            "aborted-transaction",
            {
                "version": _TXN_INDEX_VERSION,
                "producerId": found.producer_id,
                "firstOffset": found.first_offset,
                "lastOffset": found.last_offset,
                "lastStableOffset": found.last_stable_offset,
            },
        )


def _offsets(data: bytes, path: Path) -> Iterator[FileEntry]:
    for (topic, partition), offset in parse_offset_checkpoint(data, path).items():
        yield FileEntry("checkpoint", {"topic": topic, "partition": partition, "offset": offset})


def _leader_epochs(data: bytes, path: Path) -> Iterator[FileEntry]:
    for epoch, start_offset in parse_leader_epochs(data, path):
        yield FileEntry("leader-epoch", {"epoch": epoch, "startOffset": start_offset})


def _topic_id(data: bytes, path: Path) -> Iterator[FileEntry]:
    yield FileEntry("partition-metadata", {"topicId": parse_partition_metadata(data, path)})


def _properties(data: bytes, path: Path) -> Iterator[FileEntry]:
    for name, (value, _) in parse_properties(data, str(path)).items():
        yield FileEntry("property", {"name": name, "value": value})


ENTRIES: Final[Mapping[DumpedKind, Callable[[bytes, Path], Iterator[FileEntry]]]] = {
    DumpedKind.PRODUCER_SNAPSHOT: _producers,
    DumpedKind.TXN_INDEX: _aborted,
    DumpedKind.OFFSET_CHECKPOINT: _offsets,
    DumpedKind.LEADER_EPOCHS: _leader_epochs,
    DumpedKind.PARTITION_METADATA: _topic_id,
    DumpedKind.META_PROPERTIES: _properties,
}
"""Kind -> the reader of a file that is read as a whole. Readers raise LogCleanerError."""
