"""The sink into a store: a new log dir, in a place where nothing lies, finished by a manifest.

The log dir has the bytes that a write of the same rows makes on this machine.

Order:      the driver marks the place incomplete; each task writes its parts in a directory of its machine and sends
            them below the place, under the names that they have in a log dir here; then the driver has each partition
            appear, and sends the high watermarks; all that lies there is compared with what was sent; then comes the
            manifest, and the mark goes (``OutputDir``).
Partitions: the store itself moves a partition that one task wrote, if it can. The parts of several tasks come to the
            driver, one partition after the other, and their join goes back.
Invariant:  a place with a manifest is a whole log dir. One that is incomplete has the mark, or no name of a partition.
Again:      each attempt of a task has names of its own, and the commit takes those that Spark tells it. A late attempt
            may leave a part behind, which no manifest names.
Scratch:    a process holds a lock on each of its directories here. The next one that needs a directory removes those
            whose lock is free, because their processes were killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from cleaner import __version__
from cleaner.engine.copy.copying import OutputDir
from cleaner.engine.copy.manifest import manifest_of_new
from cleaner.engine.copy.moment import EntrySeen, SourceChanged
from cleaner.spark.errors import WITHOUT_STACK
from cleaner.spark.table.options import open_stores
from cleaner.spark.table.sink import KafkaLogWriter, Part, WrittenParts, by_partition, join
from storage.checkpoints import format_offset_checkpoint
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.lock import shared_type
from storage.log import Log
from storage.names import HIGH_WATERMARK_CHECKPOINT, INCOMPLETE_FILE, MANIFEST_FILE, TopicPartition
from storage.stores.errors import StoreFailed
from storage.stores.opening import store_of
from storage.stores.paths import StoredPath, look_anew
from storage.uploads import FILES_AT_ONCE, OtherWriter, Sent, Uploads

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ROOM: Final = "make room there, or name another directory as TMPDIR"
_SCRATCH: Final = "logcleaner-spark-"
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class SentParts(WrittenParts):
    """The parts of a task, in the store."""

    sent: tuple[Sent, ...]
    """Their files."""


class StoredLogWriter(KafkaLogWriter):
    """Sends parts from the workers, and makes a log dir of them from the driver."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, s3: Mapping[str, str], *, overwrite: bool
    ) -> None:
        """Mark the place.

        Args:
            options: of the write.
            schema: of the rows.
            s3: the configuration of buckets, which goes to the workers with the writer.
            overwrite: refused.

        Raises: InvalidConfig; UnusableOutput, as of a store.
        """
        self._s3 = s3
        super().__init__(options, schema, overwrite=overwrite)

    def _begin(self) -> None:
        open_stores(self._s3)
        fs = Uploads()
        self._mark = OutputDir.begin_in_store(self._place, fs).mark
        self._marked = fs.sent()

    @property
    def _place(self) -> StoredPath:
        assert isinstance(self.this_write.log_dir, StoredPath)
        return self.this_write.log_dir

    @WITHOUT_STACK
    def write(self, iterator: Iterator[pa.RecordBatch]) -> SentParts:
        """Write the records of one task as parts, and send them.

        Raises: InvalidConfig, OutOfSpace; as of a store.
        """
        open_stores(self._s3)
        fs = Uploads(at_once=FILES_AT_ONCE)
        with _scratch() as scratch:
            parts = self.parts_of(iterator, replace(self.this_write, log_dir=scratch))
            sent = tuple(replace(part, directory=self._place / part.directory.name) for part in parts)
            for part, there in zip(parts, sent, strict=True):
                _copy(part.directory, there.directory, fs)
        return SentParts(sent, fs.sent())

    @WITHOUT_STACK
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the log dir. Raises: OutOfSpace, OtherWriter; as of a store: the place has no manifest then."""
        open_stores(self._s3)
        look_anew([self._place])
        fs = Uploads(passing_over=self.this_write.job)
        output, told = OutputDir(self._place, fs, self._mark), [m for m in messages if isinstance(m, SentParts)]
        fs.make_dir(self._place, self._place, Purpose.COPY)
        fs.adopt(self._marked)
        for message in told:
            for part in message.parts:
                fs.make_dir(part.directory, self._place, Purpose.COPY)
            fs.adopt(message.sent)
        try:
            ends = dict(self._published(parts, output, fs) for parts in by_partition(p for m in told for p in m.parts))
            fs.replace_file(self._place / HIGH_WATERMARK_CHECKPOINT, format_offset_checkpoint(ends), Purpose.COPY)
            self._remove_parts(fs)
            output.settle()
            manifest = manifest_of_new(ends, self._place, (self.this_write.now_ms, "spark", __version__), fs.sha256_of)
        except BaseException:
            _take_back(fs)
            raise
        output.finish(manifest)

    @WITHOUT_STACK
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove all parts, and the mark if nothing else lies there. Raises: as of a store."""
        del messages  # failed tasks send none
        open_stores(self._s3)
        look_anew([self._place])
        if (self._place / MANIFEST_FILE).exists():
            return  # the log dir is whole: the mark alone could not be removed
        fs = Uploads()
        self._remove_parts(fs)
        OutputDir(self._place, fs, self._mark).give_up()

    def _published(self, parts: Sequence[Part], output: OutputDir, fs: Uploads) -> tuple[TopicPartition, int]:
        """Have a partition appear. Return its name and its log end offset."""
        name = parts[0].topic_partition
        target = output.path / str(name)
        if len(parts) == 1 and store_of(self._place.place).moves_files:
            fs.rename(parts[0].directory, target, Purpose.COPY)
            return name, Log.open(target, self.this_write.config, fs).log_end_offset
        with _scratch() as scratch:
            here = [replace(part, directory=scratch / part.directory.name) for part in parts]
            for there, part in zip(parts, here, strict=True):
                _copy(there.directory, part.directory, FileSystem())
                _ensure_same(there.directory, part.directory, fs)
            joined, end = join(self.this_write, here, FileSystem())
            _copy(joined.directory, target, fs)
        return name, end

    def _remove_parts(self, fs: Uploads) -> None:
        """Remove the remains of all tasks, of failed and duplicate ones, too."""
        for entry in store_of(self._place.place).list(self._place.key):
            if entry.is_directory and self.this_write.job in entry.name:
                fs.remove_all(self._place / entry.name)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a directory of this machine, which is gone behind the ``with``. Raises: OutOfSpace."""
    _remove_abandoned()
    with TemporaryDirectory(prefix=_SCRATCH) as directory, Path(directory, "new").open("xb") as lock:
        with suppress(OSError):  # if the file system has no locks, the directory of a killed process stays
            fcntl.flock(lock, fcntl.LOCK_EX)
            Path(lock.name).rename(Path(directory, _LOCK))
        try:
            yield Path(directory)
        except OutOfSpace as error:
            raise OutOfSpace(error.path, error.wanted_bytes, _ROOM) from error


def _remove_abandoned() -> None:
    """Remove the scratch directories of this user whose processes were killed.

    On a file system that other machines may have open, a lock need not tell of a process there.
    """
    room = Path(gettempdir()).resolve()
    if shared_type(room) is not None:
        return
    for directory in room.glob(f"{_SCRATCH}*"):
        with suppress(OSError):
            if directory.lstat().st_uid == os.geteuid():
                with (directory / _LOCK).open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory)


def _copy(source: Path, target: Path, fs: FileSystem) -> None:
    """Copy the files of a directory into a new one, from this machine or to it. Raises: OtherWriter."""
    fs.make_dir(target, target.parent, Purpose.COPY)
    output = OutputDir(target, fs)
    for path in sorted(source.iterdir()):
        try:
            output.copy(path, EntrySeen.of(path.stat()), target / path.name)
        except SourceChanged as error:
            raise OtherWriter(str(path), error.cause) from error
    fs.fsync_dir(target, Purpose.COPY)


def _ensure_same(there: Path, here: Path, fs: Uploads) -> None:
    for path in here.iterdir():
        if FileSystem().sha256_of(path) != fs.sha256_of(there / path.name):
            raise StoreFailed(str(there / path.name), "other bytes came than were sent")


def _take_back(fs: Uploads) -> None:
    """Remove what was sent, as far as the store lets it; the mark stays for as long as anything else."""
    for file in fs.sent():
        if file.path.name != INCOMPLETE_FILE:
            with suppress(LogCleanerError, OSError):
                fs.unlink(file.path, Purpose.COPY)
