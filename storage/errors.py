"""One error root, and below it what a caller can act on.

Facts go into ``args``, so that an error survives pickling on its way back from a Spark worker; the sentence is made in
``__str__``: what is wrong, where, and what to do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SECRET: Final = re.compile(r"password|passphrase|secret|credential|jaas|token|private|keystore\.key", re.IGNORECASE)
"""Keys of server.properties whose values nobody is to see."""
_BE_THE_OWNER: Final = "run as that user or as root; a service by the drop-in kafka-user.conf"


class LogCleanerError(Exception):
    """Root of every error this program raises on purpose."""


class NotALogDir(LogCleanerError):
    """A directory that is missing, or holds nothing of a Kafka log directory."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; name the directory that log.dirs of the broker names"


class IsAPartitionDir(NotALogDir):
    """The directory of one partition, named where a log dir is wanted."""

    def __init__(self, path: Path, topic_partition: str) -> None:
        super().__init__(path, "is a partition directory")
        self.args = path, topic_partition
        self.topic_partition = topic_partition

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; use its parent, {self.path.parent}, with --topic {self.topic_partition}"


class UnlikePlaces(LogCleanerError):
    """Two places that are no two states of one thing, so that nothing can be said of what is gone."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause, remedy)
        self.cause, self.remedy = cause, remedy

    def __str__(self) -> str:
        return f"{self.cause}; {self.remedy}"


class OtherTopicId(LogCleanerError):
    """Two partition directories of topics that had one name, one after the other."""

    def __init__(self, before: Path, before_id: str, after: Path, after_id: str) -> None:
        super().__init__(before, before_id, after, after_id)
        self.before, self.before_id, self.after, self.after_id = before, before_id, after, after_id

    def __str__(self) -> str:
        return (
            f"not the same log: {self.before} belongs to topic id {self.before_id}, {self.after} to {self.after_id}: "
            f"the topic was deleted and made again in between, and its records are gone"
        )


class LogDirNotThere(NotALogDir):
    """A log directory that a later try may find: it is missing, or an empty mount point."""

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; mount it, or name the directory that log.dirs of the broker names"


class LogDirLocked(LogCleanerError):
    """Another process holds ``.lock``. ``holder_pid`` is None where the lock does not tell (another container)."""

    def __init__(self, path: Path, holder_pid: int | None) -> None:
        super().__init__(path, holder_pid)
        self.path, self.holder_pid = path, holder_pid

    def __str__(self) -> str:
        holder = f"process {self.holder_pid}" if self.holder_pid else "a process that the lock does not name"
        return f"{self.path}: held by {holder} (a broker or another logcleaner); stop it, or use --dry-run"


class LockLost(LogCleanerError):
    """The locked file is not the one that others open any more, so the lock keeps nobody out."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: somebody removed .lock while this run held it; nothing more is changed here, run again"


class LogDirsChange(LogCleanerError):
    """The configuration names other log dirs each time it is read, so no set of locks covers them."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        super().__init__(paths)
        self.paths = paths

    def __str__(self) -> str:
        named = ", ".join(map(str, self.paths))
        return f"log.dirs changes while the log dirs are locked (last: {named}); nothing was done, run again"


class AddressNotThere(LogCleanerError):
    """An address that cannot be listened on now; a later try may work."""

    def __init__(self, key: str, address: str, cause: str) -> None:
        super().__init__(key, address, cause)
        self.key, self.address, self.cause = key, address, cause

    def __str__(self) -> str:
        return f"{self.key} = {self.address!r}: {self.cause}"


class UnreliableLock(LogCleanerError):
    """Where the log dir lies, ``.lock`` may not keep a broker out."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.cause}: its lock may not keep a broker or another logcleaner out; make sure that none "
            f"runs on any machine, then say --force-lock"
        )


class UnsafeOwner(LogCleanerError):
    """We could not give a new file the owner of its directory: a broker could not open it."""

    def __init__(self, path: Path, uid: int, gid: int) -> None:
        super().__init__(path, uid, gid)
        self.path, self.uid, self.gid = path, uid, gid

    def __str__(self) -> str:
        return (
            f"{self.path}: belongs to uid {self.uid} gid {self.gid}, and files made here could not be given to "
            f"them; {_BE_THE_OWNER}"
        )


class UnreadableFile(LogCleanerError):
    """The operating system refused a read (permission, I/O error, vanished)."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: cannot be read: {self.cause}"

    @property
    def has_vanished(self) -> bool:
        """Whether it was gone when it was to be read: beside a live broker files go."""
        return isinstance(self.__cause__, FileNotFoundError)


class ForbiddenLogDir(UnreadableFile):
    """A log directory that this user may not read: it, or a directory above it, lets nobody else in."""

    def __init__(self, path: Path, shut: Path, uid: int, gid: int) -> None:
        super().__init__(path, "Permission denied")
        self.args = (path, shut, uid, gid)
        self.shut, self.uid, self.gid = shut, uid, gid

    def __str__(self) -> str:
        who = "" if self.shut == self.path else f"{self.shut} "
        return f"{self.path}: {who}belongs to uid {self.uid} gid {self.gid}, who let no other user in; {_BE_THE_OWNER}"


class ImmutableFile(LogCleanerError):
    """A file or directory that nobody may rename or remove, root neither."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: is immutable or append-only (lsattr shows it); take that off with chattr -i -a"


class UnsafeFile(LogCleanerError):
    """A file that is to be changed in place, and is no plain file, or has a second name outside our sight."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; it is not written to: move it away"


class Corrupt(LogCleanerError):
    """Bytes on disk that cannot be: reading them again is of no use until the file changes."""


class CorruptBatch(Corrupt):
    """Bytes of a ``.log`` that are no valid record batch."""

    def __init__(self, path: Path, position: int, cause: str) -> None:
        super().__init__(path, position, cause)
        self.path, self.position, self.cause = path, position, cause

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.cause}"


class InvalidRecord(LogCleanerError):
    """Bytes of one record that cannot be. The batch that holds it turns this into a ``CorruptBatch``."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return self.cause


class CorruptCompressedData(LogCleanerError):
    """Compressed bytes that do not decompress, or to too much. The batch makes it a ``CorruptBatch``."""

    def __init__(self, codec: str, cause: str) -> None:
        super().__init__(codec, cause)
        self.codec, self.cause = codec, cause

    def __str__(self) -> str:
        return f"{self.codec}: {self.cause}"


class CorruptIndex(Corrupt):
    """An ``.index``, ``.timeindex`` or ``.txnindex`` whose entries cannot be."""

    def __init__(self, path: Path, position: int, cause: str) -> None:
        super().__init__(path, position, cause)
        self.path, self.position, self.cause = path, position, cause

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.cause}"


class ContradictedTxnIndex(LogCleanerError):
    """A transaction index that has it otherwise than the markers in the log. The round makes it a ``CorruptIndex``."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return self.cause


class CorruptSnapshot(Corrupt):
    """A producer ``.snapshot`` with a wrong version, length or CRC."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


class CorruptCheckpoint(Corrupt):
    """A checkpoint or metadata text file that does not parse. ``line`` is 1-based, 0 for the whole file."""

    def __init__(self, path: Path, line: int, cause: str) -> None:
        super().__init__(path, line, cause)
        self.path, self.line, self.cause = path, line, cause

    def __str__(self) -> str:
        where = f"{self.path} line {self.line}" if self.line else str(self.path)
        return f"{where}: {self.cause}; a broker would take the log dir offline: restore the file or remove it"


class CorruptHolds(CorruptCheckpoint):
    """The list of partitions on hold does not parse: nothing says what may be deleted."""

    def __str__(self) -> str:
        where = f"{self.path} line {self.line}" if self.line else str(self.path)
        return f"{where}: {self.cause}; nothing is touched until it is mended, or removed to give up every hold"


class CorruptHoldIds(CorruptCheckpoint):
    """The list of the topic ids that holds belong to does not parse: nothing says which holds have lapsed."""

    def __str__(self) -> str:
        where = f"{self.path} line {self.line}" if self.line else str(self.path)
        way_out = "nothing is touched until it is mended, or removed: then a hold counts for every topic of its name"
        return f"{where}: {self.cause}; {way_out}"


class TornTail(LogCleanerError):
    """A ``.log`` whose last bytes are no whole batch: nothing is appended behind them, for no reader would find it."""

    def __init__(self, path: Path, position: int, torn_bytes: int) -> None:
        super().__init__(path, position, torn_bytes)
        self.path, self.position, self.torn_bytes = path, position, torn_bytes

    def __str__(self) -> str:
        return (
            f"{self.path} at byte {self.position}: {self.torn_bytes} bytes that are no whole batch; start the broker "
            f"once, it cuts them off"
        )


class BatchTooLarge(LogCleanerError):
    """An append beyond a limit of the topic. ``limit_key`` is Kafka's name of the limit."""

    def __init__(self, path: Path, size_bytes: int, limit_key: str, limit_bytes: int) -> None:
        super().__init__(path, size_bytes, limit_key, limit_bytes)
        self.path, self.size_bytes, self.limit_key, self.limit_bytes = (
            path,
            size_bytes,
            limit_key,
            limit_bytes,
        )

    def __str__(self) -> str:
        return f"{self.path}: {self.size_bytes} bytes to append are more than {self.limit_key} = {self.limit_bytes}"


class NoSegments(LogCleanerError):
    """A partition directory that had a log, and has no ``.log`` file left."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"{self.directory}: holds no .log file any more, and a cleaning leaves at least one"


class LogEndsBeforeItsStart(LogCleanerError):
    """Segments are missing at the end of a log: a starting broker would delete all that is left."""

    def __init__(self, path: Path, log_end_offset: int, log_start_offset: int) -> None:
        super().__init__(path, log_end_offset, log_start_offset)
        self.path, self.log_end_offset, self.log_start_offset = path, log_end_offset, log_start_offset

    def __str__(self) -> str:
        return (
            f"{self.path}: ends at offset {self.log_end_offset}, below its checkpointed log start "
            f"{self.log_start_offset}: segments are missing, and a starting broker would delete the rest; "
            f"restore them first"
        )


class ForeignTopicId(LogCleanerError):
    """A partition directory of another topic that had the same name."""

    def __init__(self, path: Path, topic_id: str, known_id: str) -> None:
        super().__init__(path, topic_id, known_id)
        self.path, self.topic_id, self.known_id = path, topic_id, known_id

    def __str__(self) -> str:
        return (
            f"{self.path}: belongs to topic id {self.topic_id}, but the cluster metadata gives that name the id "
            f"{self.known_id}: a topic that was deleted and made again; a broker would set it aside as -stray"
        )


class NotYetSupported(LogCleanerError):
    """Valid data that this version does not rewrite; the partition is left as it is."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"{self.path}: {self.what} cannot be rewritten yet; the partition is left as it is"


class OutOfSpace(LogCleanerError):
    """ENOSPC or EDQUOT."""

    def __init__(self, path: Path, wanted_bytes: int) -> None:
        super().__init__(path, wanted_bytes)
        self.path, self.wanted_bytes = path, wanted_bytes

    def __str__(self) -> str:
        wanted = f" for {self.wanted_bytes} bytes" if self.wanted_bytes else ""
        return f"{self.path}: no space{wanted}; let retention make some first: free, or clean --delete-delay 0"


class OutputFull(OutOfSpace):
    """The file system of a copy is full."""

    def __str__(self) -> str:
        wanted = f" for {self.wanted_bytes} bytes" if self.wanted_bytes else ""
        return (
            f"{self.path}: no space{wanted} where the copy is written; no copy was finished: remove what there is of "
            f"it, and name a directory on a file system with more space, or fewer topics with --topic"
        )


class JournalFull(LogCleanerError):
    """The journal of a log dir finds no space, so nothing that it would have to tell of may be done."""

    def __init__(
        self, log_dir: Path, remedy: str = "let retention make some first: free, or clean --delete-delay 0"
    ) -> None:
        super().__init__(log_dir, remedy)
        self.log_dir, self.remedy = log_dir, remedy

    def __str__(self) -> str:
        return f"{self.log_dir}: no space for the journal, and nothing is changed without a line in it; {self.remedy}"


class UnwritableFile(LogCleanerError):
    """A file beside the log dirs could not be written."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: cannot be written: {self.cause}"


class UnusableOutput(LogCleanerError):
    """A directory that a copy, or a file that an export cannot be written to. Nothing was written."""

    def __init__(self, path: Path, cause: str, remedy: str) -> None:
        super().__init__(path, cause, remedy)
        self.path, self.cause, self.remedy = path, cause, remedy

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; {self.remedy}"


class CopyDoesNotFit(LogCleanerError):
    """The file system of a copy has less free than the copy may take. Nothing was written."""

    def __init__(self, path: Path, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(path, needed_bytes, free_bytes)
        self.path, self.needed_bytes, self.free_bytes = path, needed_bytes, free_bytes

    def __str__(self) -> str:
        return (
            f"{self.path}: a copy may take {self.needed_bytes} bytes, {self.free_bytes} are free; name a directory on "
            f"a file system with more space, or fewer topics with --topic"
        )


class CorruptManifest(LogCleanerError):
    """A ``logcleaner-manifest.json`` that does not say what a copy consists of."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; make the copy anew, or take the file away to compare without it"


class IncompleteCopy(LogCleanerError):
    """A copy that was interrupted: it has no manifest."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: a copy that was interrupted, and is incomplete; remove it and make it anew"


class UnseenLogDir(LogCleanerError):
    """A Spark executor that does not see the files that the driver sees."""

    def __init__(self, path: Path, host: str, cause: str) -> None:
        super().__init__(path, host, cause)
        self.path, self.host, self.cause = path, host, cause

    def __str__(self) -> str:
        return (
            f"{self.path}: on the Spark executor at {self.host}: {self.cause}; every executor has to see the log dir "
            f"under the same path: mount it there, or use --engine local"
        )


class SparkJobFailed(LogCleanerError):
    """Spark gave a job up. Nothing that a broker would see was written."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"Spark gave the compactions up: {self.cause}; nothing of them was written, run again"


class PlanOutOfDate(LogCleanerError):
    """A file is not as it was when the plan was made."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: changed since the plan was made ({self.cause}); left as it is, run again"


class SourceChanged(PlanOutOfDate):
    """What is copied is not as it was when the plan was made: the copy would mix two moments, and is not finished."""

    def __str__(self) -> str:
        return (
            f"{self.path}: changed since the copy was planned ({self.cause}); no copy was finished: remove what there "
            f"is of it, and run again while nothing writes to the log dir"
        )


class InvalidConfig(LogCleanerError):
    """One configuration value that cannot be. ``where`` names the layer, file and line it was said in."""

    def __init__(self, key: str, value: object, reason: str, where: str = "") -> None:
        super().__init__(key, value, reason, where)
        self.key, self.value, self.reason, self.where = key, value, reason, where

    def __str__(self) -> str:
        at = f"{self.where}: " if self.where else ""
        shown = "[hidden]" if _SECRET.search(self.key) else repr(self.value)
        said = "" if self.value is None else f" = {shown}"
        return f"{at}{self.key}{said}: {self.reason}"


class InvalidConfigs(LogCleanerError):
    """Everything that is wrong with a configuration, found in one reading."""

    def __init__(self, problems: tuple[InvalidConfig, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class SparkUnavailable(LogCleanerError):
    """Spark cannot be started here: no pyspark, no Java, or another version of it than Spark runs on."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause, remedy)
        self.cause, self.remedy = cause, remedy

    def __str__(self) -> str:
        return f"Spark cannot be started: {self.cause}; {self.remedy}"


class ExtraMissing(LogCleanerError):
    """A package that only this needs, and that an extra of ours brings, is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(what, package, extra)
        self.what, self.package, self.extra = what, package, extra

    def __str__(self) -> str:
        return f"{self.what} needs {self.package}, which is not installed; pip install 'logcleaner[{self.extra}]'"


class AnalysisFailed(LogCleanerError):
    """Spark gave an analysis up; what its tasks meet in the files is told otherwise."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"Spark gave the analysis up: {self.cause}; every executor needs this package, and sees the log dirs"


class NoSuchOffset(LogCleanerError):
    """An offset, or a time, from which a partition was to be read and that it does not have."""

    def __init__(self, partition: str, asked: str, start_offset: int, end_offset: int) -> None:
        super().__init__(partition, asked, start_offset, end_offset)
        self.partition, self.asked, self.start_offset, self.end_offset = partition, asked, start_offset, end_offset

    def __str__(self) -> str:
        return (
            f"{self.partition}: {self.asked} is not there, the log holds offsets {self.start_offset} to "
            f"{self.end_offset} (exclusive); start elsewhere, or set failOnDataLoss to false to go on without it"
        )


class PartitionExists(LogCleanerError):
    """A partition that was to be written is there already."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: is there already, and only new partitions are written; nothing has changed"


class PartitionGone(LogCleanerError):
    """A partition of which a stream had read, and whose directory is no longer there."""

    def __init__(self, partition: str, paths: str) -> None:
        super().__init__(partition, paths)
        self.partition, self.paths = partition, paths

    def __str__(self) -> str:
        return (
            f"{self.partition}: no directory of it is in {self.paths} any more; bring it back, or set failOnDataLoss "
            f"to false to go on without it"
        )


class SegmentGone(LogCleanerError):
    """A segment that was there when a read was planned: retention deleted it, or a compaction put another there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path}: deleted or compacted away since the read was planned; read again, or set failOnDataLoss to "
            f"false to go on without it"
        )
