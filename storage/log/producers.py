"""Producer state of a log as a starting broker rebuilds it: the newest valid snapshot, then the batches behind it."""

from __future__ import annotations

from collections.abc import Sequence

from storage.log.producer_state import CorruptSnapshot, ProducerState, parse_snapshot
from storage.log_dir import read_file
from storage.segment import Segment, SegmentFile, reading


def load_producer_state(
    snapshots: Sequence[SegmentFile],
    segments: Sequence[Segment],
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    expiration_ms: int,
) -> ProducerState:
    """Return the state of every producer at the log end, without producers that are idle for too long.

    Arguments and errors: see ``replay_producers``. Source: Kafka ProducerStateManager.removeExpiredProducers.
    """
    state = replay_producers(snapshots, segments, log_start_offset, log_end_offset, now_ms, expiration_ms)
    state.expire(now_ms, expiration_ms)
    return state


def replay_producers(
    snapshots: Sequence[SegmentFile],
    segments: Sequence[Segment],
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    expiration_ms: int,
) -> ProducerState:
    """Return the state of every producer at the log end, as a start makes it: it drops idle producers of a snapshot
    alone.

    Args:
        snapshots: of the partition, ascending.
        segments: ascending.
        log_start_offset: a snapshot at or below it is of no use; the replay starts there where no other is valid.
        log_end_offset: where the replay ends; a snapshot above it speaks of batches that are gone.
        now_ms: epoch ms, for the expiry of idle producers.
        expiration_ms: ``producer.id.expiration.ms``.

    Raises: CorruptBatch, UnreadableFile.
    Source: Kafka UnifiedLog.rebuildProducerState, ProducerStateManager.loadFromSnapshot.
    """
    usable = [s for s in snapshots if log_start_offset < s.name.base_offset <= log_end_offset]
    state, start_offset = _newest_valid(usable, now_ms, expiration_ms) or (ProducerState(), log_start_offset)
    for place, segment in enumerate(segments):
        is_last = place + 1 == len(segments)
        if is_last or segments[place + 1].base_offset > start_offset:
            with reading(segment.log.path) as descriptor:
                state.replay(descriptor, segment.log.path, start_offset, log_end_offset)
    return state


def _newest_valid(
    snapshots: Sequence[SegmentFile], now_ms: int, expiration_ms: int
) -> tuple[ProducerState, int] | None:
    """Read the newest snapshot that is whole. If one is damaged, the replay is longer, as a broker's is."""
    for snapshot in reversed(snapshots):
        try:
            data = read_file(snapshot.path)
            if data is None:
                continue
            entries = parse_snapshot(data, snapshot.path)
        except CorruptSnapshot:
            continue
        living = [entry for entry in entries if not entry.is_expired(now_ms, expiration_ms)]
        return ProducerState(living), snapshot.name.base_offset
    return None
