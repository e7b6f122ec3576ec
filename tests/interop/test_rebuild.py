"""What we derive from a log is what Kafka's own recovery derives: the same bytes, file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import list_partition
from storage.log.producer_state import ProducerEntry, parse_snapshot
from storage.log.rebuild import (
    RebuildTerms,
    RebuiltProducers,
    epochs_in,
    rebuild_epochs,
    rebuild_segment,
    with_due_offsets,
)
from storage.log_dir import LogDir, read_file
from storage.names import LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, FileKind
from storage.segment import Segment
from tests.conftest import Samples
from tests.interop.referee import Referee

pytestmark = pytest.mark.kafka

STAGES = ("before", "after", "before2", "after2")
WHOLE = ("orders-0", "payments-0", "ledger-0", "empty-0", "single-0")
INTERVALS = (4096, 0, 700)


def derived_by_us(directory: Path, terms: RebuildTerms) -> dict[str, object]:
    """Everything, from the ``.log`` files alone."""
    segments = list_partition(directory).segments
    producers, found = RebuiltProducers(segments, (), terms), dict[str, object]()
    for segment, due_offset in with_due_offsets(segments):
        state = producers.at(segment.base_offset)
        rebuilt = rebuild_segment(segment, due_offset, state, terms)
        producers.note(rebuilt.next_offset, state)
        found |= {
            f"{segment.base_offset}.index": rebuilt.offset_index,
            f"{segment.base_offset}.timeindex": rebuilt.time_index,
        }
        found[f"{segment.base_offset}.txnindex"] = rebuilt.txn_index
        if rebuilt.next_offset > terms.log_start_offset:
            found["snapshot at the end"] = told(state.to_snapshot_bytes())
    found["epochs"] = rebuild_epochs(None, epochs_in(segments), terms.log_start_offset)
    return found


def derived_by_kafka(directory: Path) -> dict[str, object]:
    found = dict[str, object]()
    listing = list_partition(directory)
    for segment in listing.segments:
        for kind in (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
            found[f"{segment.base_offset}{kind}"] = content(segment, kind)
    if listing.snapshots:
        found["snapshot at the end"] = told(listing.snapshots[-1].path.read_bytes())
    found["epochs"] = read_leader_epochs(directory)
    return found


def content(segment: Segment, kind: FileKind) -> bytes:
    file = segment.files.get(kind)
    return (read_file(file.path) or b"") if file else b""


def told(snapshot: bytes) -> list[ProducerEntry]:
    """Kafka writes the producers in the order of a Java hash map, which says nothing."""
    return sorted(parse_snapshot(snapshot, Path("a.snapshot")), key=lambda entry: entry.producer_id)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("interval_bytes", INTERVALS)
def test_rebuilt_files_of_real_logs_are_those_of_kafkas_recovery(
    samples: Samples, referee: Referee, tmp_path: Path, stage: str, interval_bytes: int
) -> None:
    log_dir = samples.copy(stage, tmp_path / "data", WHOLE)
    now_ms = samples.cleaned_at_ms(stage if "after" in stage else stage.replace("before", "after"))
    compare(referee, log_dir, interval_bytes, now_ms)


@pytest.mark.parametrize("seed", range(3))
def test_rebuilt_files_of_random_logs_are_those_of_kafkas_recovery(referee: Referee, tmp_path: Path, seed: int) -> None:
    log_dir = tmp_path / "data"
    directories = [log_dir / f"drawn-{number}" for number in range(4)]
    for directory in directories:
        directory.mkdir(parents=True)
    now_ms = max(drawn.now_ms for drawn in referee.workload(directories, seed))
    compare(referee, log_dir, 4096, now_ms)
    referee.clean(directories, now_ms=now_ms)
    compare(referee, log_dir, 300, now_ms)


def compare(referee: Referee, log_dir: Path, interval_bytes: int, now_ms: int) -> None:
    """Remove what can be derived; derive it; have Kafka do so."""
    starts = LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT)
    (log_dir / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
    partitions, ours = dict(LogDir(log_dir).partitions()), {}
    assert partitions
    for tp, path in partitions.items():
        for file in list_partition(path).files:
            if file.name.kind is not FileKind.LOG:
                file.path.unlink()
        (path / LEADER_EPOCH_CHECKPOINT).unlink(missing_ok=True)
        ours[tp] = derived_by_us(path, RebuildTerms(interval_bytes, starts.get(tp, 0), now_ms, 86_400_000))
    settings = {"index.interval.bytes": interval_bytes}
    directories = [*partitions.values()]
    referee.read(directories, now_ms=now_ms, shutdown="unclean", checkpoints=True, config=settings, batches_only=True)
    for tp, path in partitions.items():
        theirs = derived_by_kafka(path)
        differing = {name: (made, theirs.get(name)) for name, made in ours[tp].items() if theirs.get(name) != made}
        assert not differing, tp


def test_rebuilt_files_of_logs_in_old_formats_are_those_of_kafkas_recovery(
    old_samples: Samples, referee: Referee, tmp_path: Path
) -> None:
    """Messages of v0 and v1, and a log that was upgraded."""
    compare(referee, old_samples.copy("before", tmp_path / "data"), 4096, 1_800_000_000_000)
