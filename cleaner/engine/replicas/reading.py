"""The replicas in a log dir or in the file of a digest, and their comparison."""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from cleaner.engine.compaction.round import aborted_transactions
from cleaner.engine.diff.two_states import OFFSET_END, State
from cleaner.engine.inventory import ensure_whole_copy
from cleaner.engine.repair.topic_ids import ids_of
from cleaner.engine.replicas.agreement import (
    Agreement,
    DigestedReplica,
    agreement,
    first_other_epoch,
    first_other_record,
)
from cleaner.engine.replicas.digesting import (
    BLOCK_OFFSETS,
    Block,
    Digest,
    Replica,
    digest,
    is_change,
    records_between,
)
from policies.config.config_layers import ConfigLayers
from storage.checkpoints import LeaderEpochEntry
from storage.directory import despite_changes, despite_vanishing, is_pipe, read_whole
from storage.errors import ErrorKind, LogCleanerError
from storage.log.leader_epochs import read_leader_epochs, topic_id_if_readable
from storage.log.listing import Listing, list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
    is_named,
)

SCHEMA: Final = "logcleaner.digest/1"
_BLOCK: Final = np.dtype([("number", "<i8"), ("records", "<u4"), ("hashed", "<u8")])

_T = TypeVar("_T")
IsCompacted = Callable[[str], bool]
"""Whether the policy of a topic compacts it."""


class NoDigest(LogCleanerError):
    """A file that is no digest of ours."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: is no log dir, and no digest: {self.cause}; make one with logcleaner digest"


class _Marks(NamedTuple):
    """The checkpoints about one partition, as they were before it was listed."""

    start_offset: int
    high_watermark: int
    """0 if no checkpoint has one: then nothing is known to be committed."""


@dataclass(frozen=True, slots=True)
class FoundReplica:
    """A replica in a log dir, before it is digested."""

    place: str
    topic_partition: TopicPartition
    directory: Path
    marks: _Marks
    is_compacted: bool
    listing: Listing
    """The listing of the partition, as recovery would leave it; empty if it cannot be read."""
    directory_id: str | None = None
    """``directory.id`` of the log dir, as far as it has one."""
    topic_id: str | None = None
    epochs: tuple[LeaderEpochEntry, ...] = ()
    error: str | None = None
    """Why the partition cannot be read."""

    def looked_at(self) -> FoundReplica:
        """Return the replica as it is now. Raises: UnreadableFile where a file has vanished."""
        try:
            listing = plan_recovery(list_partition(self.directory)).listing
            epochs = tuple(read_leader_epochs(self.directory))
        except LogCleanerError as error:
            if is_change(error):
                raise
            return replace(self, error=str(error))
        return replace(self, listing=listing, topic_id=topic_id_if_readable(self.directory), epochs=epochs)

    @property
    def size_bytes(self) -> int:
        """The bytes that a digest reads."""
        return sum(segment.size_bytes for segment in self.listing.segments)

    @property
    def start_offset(self) -> int:
        """The first offset that can be compared."""
        first_base = self.listing.segments[0].base_offset if self.listing.segments else 0
        return max(self.marks.start_offset, first_base)

    def end_offset(self, wanted: int = OFFSET_END) -> int:
        """Return the offset up to which the replica can be compared, at most the wanted one.

        A compacted log ends before the first transaction that is aborted behind the end: another replica may not know.

        Raises: CorruptIndex, UnreadableFile.
        """
        end = min(wanted, self.marks.high_watermark)
        if not self.is_compacted:
            return end
        aborted = aborted_transactions(self.listing, self.start_offset, OFFSET_END)
        while any(one.first_offset < end <= one.last_offset for one in aborted):
            end = min(one.first_offset for one in aborted if one.first_offset < end <= one.last_offset)
        return end

    def replica(self, start_offset: int, end_offset: int) -> Replica:
        """Return a range of it, to be digested."""
        state = State(self.listing, self.start_offset, OFFSET_END)
        return Replica(state, start_offset, end_offset, self.is_compacted)

    def digested(self, start_offset: int, end_offset: int, found: Digest) -> DigestedReplica:
        """Return it with its digest."""
        return DigestedReplica(
            self.place,
            self.topic_partition,
            self.topic_id,
            start_offset,
            end_offset,
            self.marks.high_watermark,
            self.is_compacted,
            self.epochs,
            found,
            self.size_bytes,
            self.directory_id,
        )


def compacted_by(layers: ConfigLayers) -> IsCompacted:
    """Return a function that tells which topics the configuration compacts."""
    return lambda topic: layers.policy_for(topic).cleanup_compact


def find_replicas(log_dir: LogDir, topics: Sequence[str], is_compacted: IsCompacted) -> Iterator[FoundReplica]:
    """Yield the partitions of a log dir.

    Args:
        log_dir: the directory.
        topics: globs; empty means all.
        is_compacted: tells it by policy. A log that was compacted before is compacted, too.

    Raises: CopyLacksFiles, CorruptCheckpoint, UnreadableFile.
    """
    wants = partial(is_named, globs=topics)
    ensure_whole_copy(log_dir, wants)
    checkpoints = (LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)
    starts, high_watermarks, cleaned = (log_dir.offsets(name) for name in checkpoints)
    _, directory_id = ids_of(log_dir)
    for name, directory in log_dir.partitions(wants):
        marks = _Marks(starts.get(name, 0), high_watermarks.get(name, 0))
        compacts = name in cleaned or is_compacted(name.topic)
        found = FoundReplica(str(log_dir.path), name, directory, marks, compacts, Listing(directory, ()), directory_id)
        yield despite_vanishing(found.looked_at)


def digest_of(found: FoundReplica, ends: Mapping[TopicPartition, int]) -> DigestedReplica:
    """Digest the committed records of a replica, as it is now.

    Args:
        found: the replica.
        ends: where the digest of a partition ends at the latest.
    """
    wanted = ends.get(found.topic_partition, OFFSET_END)

    def read() -> DigestedReplica:
        now = found.looked_at()
        return _digested(now, now.start_offset, wanted)

    def give_up(error: LogCleanerError) -> DigestedReplica:
        return found.digested(0, 0, Digest(error=f"{error}; it changes while it is read"))

    return _read_despite_changes(read, give_up)


def _digested(found: FoundReplica, start: int, wanted_end: int) -> DigestedReplica:
    """Digest a replica. Raises: PlanOutOfDate, UnreadableFile where its files changed."""
    if found.error is not None:
        return found.digested(0, 0, Digest(error=found.error))
    try:
        end = found.end_offset(wanted_end)
    except LogCleanerError as error:
        if is_change(error):
            raise
        return found.digested(0, 0, Digest(error=str(error)))
    return found.digested(start, end, digest(found.replica(start, end)))


def _read_despite_changes(read: Callable[[], _T], give_up: Callable[[LogCleanerError], _T]) -> _T:
    """Read a few times where a broker or a cleaner changes the files meanwhile."""
    try:
        return despite_changes(read, is_change)
    except LogCleanerError as error:
        if not is_change(error):
            raise
        return give_up(error)


def compare_replicas(
    places: Sequence[Sequence[FoundReplica] | Sequence[DigestedReplica]], advance: Callable[[int], None]
) -> Iterator[Agreement]:
    """Compare the replicas of each partition that two places or more have.

    Log dirs are read in exactly the offsets that all replicas have; against the file of a digest, whole blocks count.
    A partition is listed anew when its turn comes, since brokers may be at work.

    Args:
        places: the replicas of each operand.
        advance: is told the bytes of each replica that was read.
    """
    by_name: defaultdict[TopicPartition, list[FoundReplica | DigestedReplica]] = defaultdict(list)
    for replicas in places:
        for one in replicas:
            by_name[one.topic_partition].append(one)
    for name in sorted(by_name):
        if len(by_name[name]) > 1:
            yield _compared(by_name[name], advance)


def _compared(replicas: Sequence[FoundReplica | DigestedReplica], advance: Callable[[int], None]) -> Agreement:
    def read() -> Agreement:
        return _read_and_compared([one.looked_at() if isinstance(one, FoundReplica) else one for one in replicas])

    def give_up(error: LogCleanerError) -> Agreement:
        text = f"{error}; it changes while it is read, so compare again"
        return Agreement(replicas[0].topic_partition, tuple(one.place for one in replicas), not_compared=text)

    found = _read_despite_changes(read, give_up)
    for one in replicas:
        advance(one.size_bytes if isinstance(one, FoundReplica) else 0)
    return found


def _read_and_compared(replicas: Sequence[FoundReplica | DigestedReplica]) -> Agreement:
    """Digest and compare the replicas. Raises: PlanOutOfDate, UnreadableFile where their files changed."""
    if any(one.is_compacted for one in replicas):  # one that was compacted shows what the topic is
        replicas = [replace(one, is_compacted=True) if isinstance(one, FoundReplica) else one for one in replicas]
    here = [one for one in replicas if isinstance(one, FoundReplica) and one.error is None]
    filed = [one for one in replicas if isinstance(one, DigestedReplica) and not one.digest.error]
    end = _common_end(here, min((one.end_offset for one in filed), default=OFFSET_END))
    start = 0 if filed else max((one.start_offset for one in here), default=0)
    digested = [
        _digested(one, max(start, one.start_offset), end) if isinstance(one, FoundReplica) else one for one in replicas
    ]
    result = agreement(digested)
    divergence = result.divergence
    if divergence is None or filed or divergence.first_offset == divergence.last_offset:
        return result
    sound = {one.place for one in digested if not one.digest.error}
    return _refined(result, [one for one in here if one.place in sound], digested)


def _common_end(here: Sequence[FoundReplica], end: int) -> int:
    """Return the offset up to which all replicas can be compared; an end that one of them lowers counts for all."""
    while True:
        try:
            lower = min((one.end_offset(end) for one in here), default=end)
        except LogCleanerError as error:
            if is_change(error):
                raise
            return end  # the digest of that replica tells it
        if lower == end:
            return end
        end = lower


def _refined(result: Agreement, here: Sequence[FoundReplica], digested: Sequence[DigestedReplica]) -> Agreement:
    """Find the record within the block. If the leader epochs differ from there on, they are the cause.

    Raises: PlanOutOfDate, UnreadableFile where files changed.
    """
    assert result.divergence is not None
    first, end = result.divergence.first_offset, result.divergence.last_offset + 1
    records = {
        one.place: records_between(one.replica(first, result.end_offset if one.is_compacted else end), end)
        for one in here
    }
    sound = [one for one in digested if not one.digest.error]
    epoch = first_other_epoch(sound, result.start_offset, result.end_offset)
    found = [one for one in (epoch, first_other_record(records)) if one is not None]
    return replace(result, divergence=min(found, key=lambda one: one.first_offset, default=result.divergence))


def ends_of(replicas: Sequence[DigestedReplica]) -> dict[TopicPartition, int]:
    """Return the lowest end of each partition that could be digested."""
    ends: dict[TopicPartition, int] = {}
    for one in (one for one in replicas if not one.digest.error):
        ends[one.topic_partition] = min(ends.get(one.topic_partition, one.end_offset), one.end_offset)
    return ends


def encoded(replicas: Sequence[DigestedReplica], now_ms: int, version: str) -> bytes:
    """Return the content of a digest's file."""
    document = {
        "schema": SCHEMA,
        "now_ms": now_ms,
        "tool": f"logcleaner {version}",
        "block_offsets": BLOCK_OFFSETS,
        "partitions": [_document(one) for one in replicas],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _document(one: DigestedReplica) -> dict[str, Any]:
    numbers = sorted(one.digest.blocks)
    blocks = np.array([(number, *one.digest.blocks[number]) for number in numbers], _BLOCK)
    return {
        "topic": one.topic_partition.topic,
        "partition": one.topic_partition.partition,
        "log_dir": one.place,
        "directory_id": one.directory_id,
        "topic_id": one.topic_id,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "high_watermark": one.high_watermark,
        "compacted": one.is_compacted,
        "leader_epochs": [[entry.epoch, entry.start_offset] for entry in one.epochs],
        "records": one.digest.records,
        "tombstones": one.digest.tombstones,
        "size_bytes": one.size_bytes,
        "error": one.digest.error,
        "blocks": base64.b64encode(blocks.tobytes()).decode(),
    }


def read_digest(path: Path, topics: Sequence[str] = ()) -> list[DigestedReplica]:
    """Return the replicas in the file of a digest, or in a pipe. Raises: NoDigest, UnreadableFile."""
    try:
        document = json.loads(path.read_bytes() if is_pipe(path) else read_whole(path))
        if document["schema"] != SCHEMA or document["block_offsets"] != BLOCK_OFFSETS:
            raise NoDigest(
                path, f"its schema is {document['schema']!r}, with blocks of {document['block_offsets']} offsets"
            )
        several = len({one["log_dir"] for one in document["partitions"]}) > 1
        names = [f"{path} ({one['log_dir']})" if several else str(path) for one in document["partitions"]]
        found = [_replica(one, name) for one, name in zip(document["partitions"], names, strict=True)]
    except (ValueError, KeyError, TypeError, OverflowError, binascii.Error) as error:
        raise NoDigest(path, f"not as it was written ({error})") from error
    return [one for one in found if is_named(one.topic_partition, topics)]


def _replica(one: Mapping[str, Any], place: str) -> DigestedReplica:
    blocks = np.frombuffer(base64.b64decode(one["blocks"], validate=True), _BLOCK)
    found = Digest(
        {number: Block(records, hashed) for number, records, hashed in blocks.tolist()},
        int(one["tombstones"]),
        one["error"],
    )
    return DigestedReplica(
        place,
        TopicPartition(str(one["topic"]), int(one["partition"])),
        one["topic_id"],
        int(one["start_offset"]),
        int(one["end_offset"]),
        int(one["high_watermark"]),
        bool(one["compacted"]),
        tuple(LeaderEpochEntry(int(epoch), int(start)) for epoch, start in one["leader_epochs"]),
        found,
        int(one["size_bytes"]),
        one["directory_id"],
    )
