"""The states in which a kill leaves Kafka's own retention and cleaner: what they set aside is no only copy.

    python -m tests.interop.crash_leftovers --seeds 40

Real Kafka deletes and compacts a random log, and its ``.deleted`` files stay. Then its renames are undone one by one,
backwards, in the order in which ``LocalLog.replaceSegments`` and ``deleteSegmentFiles`` make them: each state is one in
which a kill may leave the log. Nothing is copied, since change times are a part of what tells. Needs a JDK 17+.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cleaner.engine.only_copies import OnlyCopies
from storage.checkpoints import format_offset_checkpoint
from storage.log.end import next_offset_of
from storage.log.listing import Listing, list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SEGMENT_KINDS,
    FileKind,
    FileState,
    segment_file_name,
)
from tests.interop.kafka_jars import kafka_classpath
from tests.interop.referee import Referee
from tests.interop.sides import PARTITION, partition_dir

MINUTE_NS: Final = 60 * 10**9
DAY_MS: Final = 86_400_000
NOW_MS: Final = 1_800_000_000_000


@dataclass(slots=True)
class Tried:
    """What was met."""

    states: int = 0
    gaps: int = 0
    """States with a ``.deleted`` log that lies above the first segment: retention explains none of these."""


def drawn(referee: Referee, log_dir: Path, seed: int) -> None:
    """A log that Kafka deleted from, by size, and then compacted; all that it set aside is still there."""
    dice, directory = random.Random(seed), partition_dir(log_dir)
    directory.parent.mkdir(parents=True, exist_ok=True)
    (written,) = referee.workload([directory], seed, now_ms=NOW_MS, steps=dice.randint(120, 360))
    for place, segment in enumerate(list_partition(directory).segments):  # as those of a topic with some traffic are
        os.utime(segment.log.path, ns=((NOW_MS * 1_000_000 + place * MINUTE_NS),) * 2)
    end = next_offset_of(list_partition(directory).segments[-1])
    for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        (log_dir / name).write_bytes(format_offset_checkpoint({PARTITION: end}))
    config = {
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "0.0",
        "retention.bytes": str(int(written.bytes * dice.choice((0.4, 0.8, 2)))),
        "segment.bytes": str(dice.choice((16_384, 65_536, 1 << 20))),
        "delete.retention.ms": str(dice.choice((1, DAY_MS))),
    }
    rounds, map_bytes = dice.choice((1, 1, 2)), dice.choice((1 << 11, 1 << 20))
    referee.clean(
        [directory],
        config=config,
        now_ms=NOW_MS + DAY_MS,
        checkpoints=True,
        rounds=rounds,
        map_bytes=map_bytes,
        keep_deleted=True,
        expires=True,
    )


def states(directory: Path) -> Iterator[Listing]:
    """Undo Kafka's renames, the last one first; yields what a kill would have left before each."""
    yield list_partition(directory)
    for base, upper in reversed(_spans(list_partition(directory))):
        sources = [b for b in _retired(list_partition(directory)) if base <= b < upper]
        if not sources:
            continue
        for kind in reversed(SEGMENT_KINDS):
            if _rename(directory, base, kind, FileState.PLAIN, FileState.SWAP):
                yield list_partition(directory)
        yield from _brought_back(directory, sources)
        for kind in SEGMENT_KINDS:
            (directory / segment_file_name(base, kind, FileState.SWAP)).unlink(missing_ok=True)
        yield list_partition(directory)
    yield from _brought_back(directory, _retired(list_partition(directory)))


def _brought_back(directory: Path, bases: list[int]) -> Iterator[Listing]:
    for base in reversed(bases):
        for kind in reversed(SEGMENT_KINDS):
            if _rename(directory, base, kind, FileState.DELETED, FileState.PLAIN):
                yield list_partition(directory)


def _rename(directory: Path, base: int, kind: FileKind, old: FileState, new: FileState) -> bool:
    source = directory / segment_file_name(base, kind, old)
    if not source.exists():
        return False
    target = source.with_name(segment_file_name(base, kind, new))
    assert not target.exists()
    source.rename(target)
    return True


def _spans(listing: Listing) -> list[tuple[int, int]]:
    """Where each segment begins, and the next one; the active one was never compacted."""
    bases = [segment.base_offset for segment in listing.segments]
    return list(itertools.pairwise(bases))


def _retired(listing: Listing) -> list[int]:
    files = listing.in_state(FileState.DELETED)
    return sorted({f.name.base_offset for f in files if f.name.kind is FileKind.LOG})


def try_log(referee: Referee, log_dir: Path, seed: int, tried: Tried) -> list[str]:
    """What was held back in the states of one log, with and without the line of the cleaner's checkpoint."""
    drawn(referee, log_dir, seed)
    checkpoint = log_dir / CLEANER_OFFSET_CHECKPOINT
    cleaned, held = checkpoint.read_bytes() if checkpoint.exists() else None, []
    for number, listing in enumerate(states(partition_dir(log_dir))):
        tried.states += 1
        first = min((segment.base_offset for segment in listing.segments), default=0)
        tried.gaps += any(base > first for base in _retired(listing))
        for content in (cleaned, None):  # the line follows the last round by a moment
            checkpoint.unlink(missing_ok=True)
            if content is not None:
                checkpoint.write_bytes(content)
            kept = OnlyCopies(LogDir(log_dir)).of(PARTITION, listing)
            held += [f"{seed}, state {number}: {kept}"] if kept.copies else []
        lone = plan_recovery(listing).evidence
        held += [f"{seed}, state {number}: {[file.file_name for file in lone]}"] if lone else []
    return held


def main() -> None:
    """Try many, and print the counts."""
    from tests.interop.kafka_jars import judging_version

    parser = argparse.ArgumentParser(
        prog="python -m tests.interop.crash_leftovers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=40, help="logs, each with other dice (default: 40)")
    options = parser.parse_args()
    tried, held = Tried(), list[str]()
    with Referee(kafka_classpath(judging_version())) as referee, tempfile.TemporaryDirectory() as scratch:
        for seed in range(options.seeds):
            held += try_log(referee, Path(scratch, str(seed)), seed, tried)
    print(*held, sep="\n")
    print(f"{tried.states} states, {tried.gaps} with a .deleted log in a gap: {len(held)} held back")
    raise SystemExit(bool(held))


if __name__ == "__main__":
    main()
