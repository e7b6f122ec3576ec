"""The replicas in a log dir or in the file of a digest, and their comparison."""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cleaner.engine.compaction.round import aborted_transactions
from cleaner.engine.diff.two_states import OFFSET_END, State
from cleaner.engine.inventory import is_named
from cleaner.engine.replicas.agreement import (
    Agreement,
    DigestedReplica,
    agreement,
    first_other_epoch,
    first_other_record,
)
from cleaner.engine.replicas.digesting import BLOCK_OFFSETS, Block, Digest, Replica, digest, records_between
from cleaner.errors import told
from policies.config.config_layers import ConfigLayers
from storage.checkpoints import LeaderEpochEntry
from storage.directory import read_whole
from storage.errors import ErrorKind, LogCleanerError
from storage.log.leader_epochs import read_leader_epochs, topic_id_if_readable
from storage.log.listing import Listing, list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir, Offsets
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
)

SCHEMA: Final = "logcleaner.digest/1"
_BLOCK: Final = np.dtype([("number", "<i8"), ("records", "<u4"), ("hashed", "<u8")])

IsCompacted = Callable[[str], bool]
"""Whether the policy of a topic compacts it."""


class NoDigest(LogCleanerError):
    """A file that is no digest of ours."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: is no log dir, and no digest: {self.cause}; make one with logcleaner digest"


class _Checkpoints(NamedTuple):
    """The checkpoints of a log dir that a comparison needs."""

    starts: Offsets
    marks: Offsets
    cleaned: Offsets


@dataclass(frozen=True, slots=True)
class FoundReplica:
    """A replica in a log dir, before it is digested."""

    place: str
    topic_partition: TopicPartition
    state: State
    topic_id: str | None
    high_watermark: int
    """0 if no checkpoint has one: then nothing is known to be committed."""
    epochs: tuple[LeaderEpochEntry, ...]
    is_compacted: bool
    error: str | None = None
    """Why the partition cannot be opened."""

    @property
    def size_bytes(self) -> int:
        """The bytes that a digest reads."""
        return sum(segment.size_bytes for segment in self.state.listing.segments)

    @property
    def start_offset(self) -> int:
        """The first offset that can be compared."""
        return self.state.log_start_offset

    def end_offset(self, wanted: int = OFFSET_END) -> int:
        """Return the offset up to which the replica can be compared, at most the wanted one.

        A compacted log ends before the first transaction that is aborted behind the end: another replica may not know.

        Raises: CorruptIndex, UnreadableFile.
        """
        end = min(wanted, self.high_watermark)
        if not self.is_compacted:
            return end
        aborted = aborted_transactions(self.state.listing, self.start_offset, OFFSET_END)
        while any(one.first_offset < end <= one.last_offset for one in aborted):
            end = min(one.first_offset for one in aborted if one.first_offset < end <= one.last_offset)
        return end

    def replica(self, start_offset: int, end_offset: int) -> Replica:
        """Return a range of it, to be digested."""
        return Replica(self.state, start_offset, end_offset, self.is_compacted)

    def digested(self, start_offset: int, end_offset: int, found: Digest) -> DigestedReplica:
        """Return it with its digest."""
        return DigestedReplica(
            self.place,
            self.topic_partition,
            self.topic_id,
            start_offset,
            end_offset,
            self.state.compacted_to_offset,
            self.is_compacted,
            self.epochs,
            found,
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

    Raises: CorruptCheckpoint, UnreadableFile.
    """
    names = (LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)
    checkpoints = _Checkpoints(*(log_dir.offsets(name) for name in names))
    for name, directory in log_dir.partitions():
        if is_named(name, topics):
            compacts = name in checkpoints.cleaned or is_compacted(name.topic)
            yield _found(str(log_dir.path), name, directory, checkpoints, compacts)


def _found(
    place: str, name: TopicPartition, directory: Path, checkpoints: _Checkpoints, compacts: bool
) -> FoundReplica:
    listing, error = Listing(directory, ()), None
    epochs: tuple[LeaderEpochEntry, ...] = ()
    try:
        listing = plan_recovery(list_partition(directory)).listing
        epochs = tuple(read_leader_epochs(directory))
    except (LogCleanerError, OSError) as failed:
        error = str(failed) if isinstance(failed, LogCleanerError) else told(failed)
    first_base = listing.segments[0].base_offset if listing.segments else 0
    start, cleaned = max(checkpoints.starts.get(name, 0), first_base), checkpoints.cleaned.get(name, 0)
    state, mark = State(listing, start, cleaned), checkpoints.marks.get(name, 0)
    return FoundReplica(place, name, state, topic_id_if_readable(directory), mark, epochs, compacts, error)


def digest_of(found: FoundReplica, ends: Mapping[TopicPartition, int], start_offset: int = 0) -> DigestedReplica:
    """Digest the committed records of a replica.

    Args:
        found: the replica.
        ends: where the digest of a partition ends at the latest.
        start_offset: where the digest begins, if the log has that offset; else at the log start.
    """
    start = max(start_offset, found.start_offset)
    if found.error is not None:
        return found.digested(start, start, Digest(error=found.error, read_to=start))
    try:
        end = found.end_offset(ends.get(found.topic_partition, OFFSET_END))
    except LogCleanerError as error:
        return found.digested(start, start, Digest(error=str(error), read_to=start))
    return found.digested(start, end, digest(found.replica(start, end)))


def compare_replicas(
    places: Sequence[Sequence[FoundReplica] | Sequence[DigestedReplica]], advance: Callable[[int], None]
) -> Iterator[Agreement]:
    """Compare the replicas of each partition that two places or more have.

    Log dirs are read in exactly the offsets that all replicas have; against the file of a digest, whole blocks count.

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
    here = [one for one in replicas if isinstance(one, FoundReplica)]
    if len({one.is_compacted for one in replicas}) > 1:  # one that was compacted shows what the topic is
        here = [replace(one, is_compacted=True) for one in here]
        others = {one.place: one for one in here}
        replicas = [others.get(one.place, one) for one in replicas]
    ends: dict[TopicPartition, int] = {}
    start = max(one.start_offset for one in here) if here and len(here) == len(replicas) else 0
    with suppress(LogCleanerError):  # the digest of that replica tells it
        known = [one.end_offset for one in replicas if isinstance(one, DigestedReplica) and not one.digest.error]
        end = min([*known, *(one.end_offset() for one in here)], default=0)
        ends = {one.topic_partition: min(other.end_offset(end) for other in here) for one in here[:1]}
    digested = []
    for one in replicas:
        if isinstance(one, FoundReplica):
            digested.append(digest_of(one, ends, start))
            advance(one.size_bytes)
        else:
            digested.append(one)
    result = agreement(digested)
    if (
        result.divergence is None
        or len(here) < len(replicas)
        or result.divergence.first_offset == result.divergence.last_offset
    ):
        return result
    return _refined(result, here, digested)


def _refined(result: Agreement, here: Sequence[FoundReplica], digested: Sequence[DigestedReplica]) -> Agreement:
    """Find the record within the block. The result stays as it is if the log dirs changed in between.

    If the leader epochs differ from there on, they are the cause.
    """
    assert result.divergence is not None
    first, last = result.divergence.first_offset, result.divergence.last_offset
    try:
        records = {one.place: _in_block(one, first, last + 1, result.end_offset) for one in here}
    except LogCleanerError:
        return result
    epoch = first_other_epoch(digested, result.start_offset, result.end_offset)
    found = [one for one in (epoch, first_other_record(records)) if one is not None]
    return replace(result, divergence=min(found, key=lambda one: one.first_offset, default=result.divergence))


def _in_block(one: FoundReplica, first: int, end: int, agreed_end: int) -> dict[int, int]:
    told = records_between(one.replica(first, agreed_end if one.is_compacted else end))
    return {offset: hashed for offset, hashed in told.items() if offset < end}


def ends_of(replicas: Sequence[DigestedReplica]) -> dict[TopicPartition, int]:
    """Return the lowest end of each partition."""
    ends: dict[TopicPartition, int] = {}
    for one in replicas:
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
        "topic_id": one.topic_id,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "compacted_to_offset": one.compacted_to_offset,
        "compacted": one.is_compacted,
        "leader_epochs": [[entry.epoch, entry.start_offset] for entry in one.epochs],
        "records": one.digest.records,
        "tombstones": one.digest.tombstones,
        "error": one.digest.error,
        "read_to_offset": None if one.digest.error is None else one.digest.read_to,
        "blocks": base64.b64encode(blocks.tobytes()).decode(),
    }


def read_digest(path: Path, topics: Sequence[str] = ()) -> list[DigestedReplica]:
    """Return the replicas in the file of a digest. Raises: NoDigest, UnreadableFile."""
    try:
        document = json.loads(read_whole(path))
        if document["schema"] != SCHEMA or document["block_offsets"] != BLOCK_OFFSETS:
            raise NoDigest(
                path, f"its schema is {document['schema']!r}, with blocks of {document['block_offsets']} offsets"
            )
        found = [_replica(one, str(path)) for one in document["partitions"]]
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise NoDigest(path, f"not as it was written ({error})") from error
    return [one for one in found if is_named(one.topic_partition, topics)]


def _replica(one: Mapping[str, Any], place: str) -> DigestedReplica:
    blocks = np.frombuffer(base64.b64decode(one["blocks"], validate=True), _BLOCK)
    found = Digest(
        {number: Block(records, hashed) for number, records, hashed in blocks.tolist()},
        int(one["tombstones"]),
        one["error"],
        OFFSET_END if one["error"] is None else int(one["read_to_offset"]),
    )
    return DigestedReplica(
        place,
        TopicPartition(str(one["topic"]), int(one["partition"])),
        one["topic_id"],
        int(one["start_offset"]),
        int(one["end_offset"]),
        int(one["compacted_to_offset"]),
        bool(one["compacted"]),
        tuple(LeaderEpochEntry(int(epoch), int(start)) for epoch, start in one["leader_epochs"]),
        found,
    )
