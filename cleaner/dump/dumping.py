"""One dump over some files: the lines of each file, and the findings that follow all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cleaner.dump.files import DumpedFile, DumpedKind
from cleaner.dump.findings import DumpFindings
from cleaner.dump.indexes import dump_offset_index, dump_time_index
from cleaner.dump.json_lines import JsonDumpLines
from cleaner.dump.logs import Dumping, LogDump
from cleaner.dump.options import DumpOptions
from cleaner.dump.small_files import ENTRIES
from cleaner.dump.text import TextLines
from storage.errors import LogCleanerError, UnreadableFile
from storage.log_dir import read_file


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
        failed: hears what cannot be read. The dump goes on with what follows.
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
    dumping = Dumping(options, lines, output.write, damaged, DumpFindings())
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
