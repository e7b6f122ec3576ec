"""What must hold of a log dir where a clean, a ``free``, a restore or repairs were stopped: nothing that is to stay is
lost, nothing that was gone comes back, and the next one finishes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from storage.checkpoints import truncate_from_start
from storage.log import Log, LogConfig
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import list_partition
from storage.log.read import AnyBatch
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir, read_file
from storage.names import LOG_START_OFFSET_CHECKPOINT, PARTITION_METADATA_FILE, FileKind, parse_topic_partition
from storage.txn_index import AbortedTxn, parse_txn_index
from tests.crash.acts import AT_MS, ERASED, FS, TOPICS
from tests.crash.scenes import Scene
from tests.crash.tally import TALLY


class Seen(NamedTuple):
    """A data record, as we and as Kafka tell it: key in hexadecimal, SHA-256 of the value."""

    offset: int
    timestamp_ms: int
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class State:
    """A partition as it opens."""

    log_start_offset: int
    log_end_offset: int
    records: tuple[Seen, ...]
    aborted: frozenset[tuple[int, int]]
    """Producer and marker of each aborted transaction that the transaction indexes tell of."""
    aborted_data: Mapping[int, tuple[int, int]]
    """Offsets of their records."""
    torn_bytes: int = 0
    """Behind the last batch."""
    metadata: bytes | None = None
    """The ``partition.metadata``."""


States = Mapping[str, State]
"""By directory name."""


def states_of(log_dir: Path) -> States:
    """As our Log opens them; nothing is changed."""
    starts = LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT)
    return {path.name: _state(path, starts.get(tp, 0)) for tp, path in LogDir(log_dir).partitions()}


def _state(directory: Path, log_start_offset: int) -> State:
    log = Log.open(directory, LogConfig(), FS, log_start_offset=log_start_offset)
    records, batches = [], list(log.read())
    for batch in batches:
        batch.ensure_valid()
        if not batch.header.is_control:
            records += [
                seen(record.offset, record.timestamp_ms, record.key, record.value) for record in batch.records()
            ]
    aborted = _aborted(log)
    data = {
        offset: (txn.producer_id, txn.last_offset)
        for batch in batches
        for txn in aborted
        if batch.header.producer_id == txn.producer_id and txn.first_offset <= batch.last_offset < txn.last_offset
        for offset in (record.offset for record in batch.records())
    }
    markers = frozenset((txn.producer_id, txn.last_offset) for txn in aborted)
    metadata = read_file(directory / PARTITION_METADATA_FILE)
    return State(log.log_start_offset, log.log_end_offset, tuple(records), markers, data, log.torn_bytes, metadata)


def seen(offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> Seen:
    assert key is not None
    return Seen(offset, timestamp_ms, key.hex(), None if value is None else hashlib.sha256(value).hexdigest())


@dataclass(frozen=True, slots=True)
class Expected:
    """A scene, and its result if nothing interrupts it."""

    scene: Scene
    drawn: Path
    """Its log dir, to be copied."""
    before: States
    after: States
    finish: Mapping[str, object]

    @classmethod
    def of(cls, scene: Scene, directory: Path) -> Self:
        """Draw it in an absent directory, and act on a copy."""
        drawn = scene.draw(directory / "data")
        done = shutil.copytree(drawn, directory / "done")
        scene.act(done, FS)
        expected = cls(scene, drawn, states_of(drawn), states_of(done), finish_of(done))
        assert all(state.torn_bytes == 0 for state in expected.after.values())
        assert all((state.metadata or b"").startswith(b"version") for state in expected.after.values())
        return expected

    def finishes(self, log_dir: Path, where: object) -> None:
        """The next act comes where the uninterrupted one did."""
        self.scene.act(log_dir, FS)
        self.check_stopped(states_of(log_dir), where)
        differing = {key: told for key, told in finish_of(log_dir).items() if told != self.finish[key]}
        assert not differing, (where, differing)

    def check_stopped(self, found: States, where: object) -> None:
        """Between before and after, for every partition."""
        assert found.keys() == self.before.keys()
        for name, state in found.items():
            self.check_partition(name, state, (where, name))
            before, after = self.before[name], self.after[name]
            assert state.torn_bytes in (before.torn_bytes, after.torn_bytes), (where, name)
            assert state.metadata in (before.metadata, after.metadata), (where, name)

    def check_partition(self, name: str, found: State, where: object) -> None:
        """As it opened: to us or to Kafka."""
        before, after = self.before[name], self.after[name]
        lost = set(before.records) & set(after.records) - set(found.records)
        TALLY.records_lost += len(lost)
        assert lost == set(), where
        more = max(before, after, key=lambda state: len(state.records))
        assert set(found.records) <= set(more.records), where
        offsets = [record.offset for record in found.records]
        assert offsets == sorted(set(offsets)), where
        assert found.log_end_offset == before.log_end_offset == after.log_end_offset, where
        starts = sorted(state.log_start_offset for state in (before, after))
        assert starts[0] <= found.log_start_offset <= starts[1], where
        if self.scene.mends:
            assert found.records == before.records, where
            assert before.aborted <= found.aborted <= after.aborted, where
            return
        still = {more.aborted_data[offset] for offset in offsets if offset in more.aborted_data}
        assert still <= found.aborted <= more.aborted, where
        if self.scene.grows:
            assert found.records == more.records[len(more.records) - len(found.records) :], where
        if self.scene.erases:
            check_erased(found, before, where)
            return
        if "delete" not in TOPICS[name.rpartition("-")[0]]["cleanup.policy"]:
            assert latest(found, before) == latest(before, before) == latest(after, before), where


def check_erased(found: State, before: State, where: object) -> None:
    """Only records of the keys are gone, and no tombstone before each older value of its key."""
    wanted, left = {key.encode().hex() for key in ERASED}, set(found.records)
    gone = [record for record in before.records if record not in left]
    assert all(record.key in wanted for record in gone), where
    for tombstone in (record for record in gone if record.value is None):
        older = [one for one in found.records if one.key == tombstone.key and one.offset < tombstone.offset]
        assert all(one.value is None for one in older), where


def latest(state: State, before: State) -> dict[str, str]:
    """What a reader of committed records ends up with."""
    view: dict[str, str] = {}
    for record in state.records:
        if record.offset not in before.aborted_data:
            view.pop(record.key, None)
            if record.value is not None:
                view[record.key] = record.value
    return view


def finish_of(log_dir: Path) -> dict[str, object]:
    """What it comes to: every batch, and all that is told of them.

    Not compared: how the batches are spread over segments, which a round that finds some groups done decides anew; the
    index entries of aborted transactions without data; leader epochs and a line in the log start checkpoint that lie
    below the log start, which a broker ignores and the next deletion cuts; the epoch of an empty log, which a broker
    forgets; files that wait as ``.deleted``; the snapshot of a segment that was gone before older ones, which the run
    behind the next one takes.
    """
    checkpoints = LogDir(log_dir).checkpoints()
    told: dict[str, object] = {"cleaned": checkpoints.cleaned, "high watermarks": checkpoints.high_watermarks}
    told["holds"], told["hold ids"] = checkpoints.holds, checkpoints.hold_ids
    told["other directories"] = {
        path.name: sorted((file.name, file.stat().st_size) for file in path.iterdir())
        for path in log_dir.iterdir()
        if path.is_dir() and not parse_topic_partition(path.name)
    }
    for tp, path in LogDir(log_dir).partitions():
        log = Log.open(path, LogConfig(), FS, log_start_offset=checkpoints.log_starts.get(tp, 0))
        told[f"{tp} log"] = log.log_start_offset, log.log_end_offset, [told_of(batch) for batch in log.read()]
        told[f"{tp} torn"], told[f"{tp} metadata"] = log.torn_bytes, read_file(path / PARTITION_METADATA_FILE)
        told[f"{tp} producers"] = log.producer_state(AT_MS).to_snapshot_bytes()
        epochs = truncate_from_start(read_leader_epochs(path), log.log_start_offset)
        told[f"{tp} epochs"] = [epoch for epoch in epochs if epoch.start_offset < log.log_end_offset]
        leftovers = plan_recovery(list_partition(path)).names
        told[f"{tp} unfinished"] = [name for name in leftovers if not name.endswith(".snapshot")]
    return told


def told_of(batch: AnyBatch) -> object:
    """A marker may have got its delete horizon already: the stopped round took its data, the next one finds none."""
    header = batch.header
    if header.is_control:
        return batch.last_offset, header.producer_id, [(record.key, record.value) for record in batch.records()]
    return bytes(batch.data)


def _aborted(log: Log) -> list[AbortedTxn]:
    files = [file for segment in log.segments if (file := segment.files.get(FileKind.TXN_INDEX))]
    return [entry for file in files for entry in parse_txn_index(file.path.read_bytes(), file.path)]
