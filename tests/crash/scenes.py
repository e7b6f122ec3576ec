"""Small log dirs in which every kind of step is taken: a scene is drawn once and copied for each trial.

Every scene has ``.deleted`` files of an earlier run, producer snapshots, leader epochs and checkpoint lines.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.writing.validation import Producer
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    FileKind,
    FileState,
    TopicPartition,
    parse_topic_partition,
    segment_file_name,
)
from storage.records import ControlType, Record, encode_batch
from tests.batches import encode_control_batch
from tests.crash.acts import (
    AT_MS,
    DELETE,
    FS,
    STRAY,
    Act,
    clean,
    clean_at_once,
    cut_zeros,
    damage,
    delete_records,
    end_logs,
    erase,
    erase_at_once,
    forget_ids,
    free,
    leave_zeros,
    repack,
    repack_at_once,
    repair,
    restore,
    sweep,
    tear_ends,
    write_ids,
)
from tests.partition_dirs import DAY_MS

TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAZQ"
OLD_MS: Final = AT_MS - 2 * DAY_MS
PADDING: Final = "-" * 60


class Writing:
    """A log being written, a batch a call."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.epoch = 0
        self._sequences: dict[int, int] = {}

    def put(self, *pairs: str, by: int | None = None, at_ms: int = AT_MS, transactional: bool = False) -> None:
        """``"key=value"`` is a record, ``"key"`` a tombstone; compressed where no producer is named."""
        producer = None
        if by is not None:
            producer = Producer(by, 0, self._sequences.get(by, 0), transactional)
            self._sequences[by] = producer.base_sequence + len(pairs)
        codec = Compression.NONE if producer else Compression.LZ4
        records = [a_record(pair, at_ms) for pair in pairs]
        self.log.append_records(records, now_ms=at_ms, leader_epoch=self.epoch, compression=codec, producer=producer)

    def bury(self, key: str, horizon_ms: int) -> None:
        """A tombstone that an earlier round stamped."""
        self.log.append(encode_batch([a_record(key, OLD_MS)], delete_horizon_ms=horizon_ms), now_ms=AT_MS)

    def end(self, kind: ControlType, by: int, at_ms: int = AT_MS) -> None:
        """The marker of a transaction."""
        marker = encode_control_batch(
            kind, offset=0, timestamp_ms=at_ms, producer_id=by, producer_epoch=0, coordinator_epoch=0
        )
        self.log.append(marker, now_ms=at_ms, origin=AppendOrigin.COORDINATOR)

    def roll(self) -> None:
        """A new segment, in a new leader epoch."""
        self.log.roll(AT_MS)
        self.epoch += 1


def a_record(pair: str, at_ms: int) -> Record:
    key, has_value, value = pair.partition("=")
    return Record(0, at_ms, key.encode(), (value + PADDING).encode() if has_value else None)


@contextmanager
def writing(log_dir: Path, name: str) -> Iterator[Writing]:
    """A new partition; closed, it looks as a broker's clean stop leaves it, with leftovers of an earlier run."""
    directory = log_dir / name
    with Log.create(directory, LogConfig(index_interval_bytes=0), FS, topic_id=TOPIC_ID) as log:
        yield Writing(log)
    for kind in (FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX, FileKind.SNAPSHOT):
        (directory / segment_file_name(0, kind, FileState.DELETED)).write_bytes(b"of an earlier run")


def clicks(log_dir: Path) -> None:
    """Deleted by time: three segments go, each with an aborted transaction; one stays."""
    with writing(log_dir, "clicks-0") as log:
        for number in range(3):
            log.put(f"a={number}", "b=0", by=7, at_ms=OLD_MS)
            log.put(f"x={number}", by=8, at_ms=OLD_MS, transactional=True)
            log.end(ControlType.ABORT, by=8, at_ms=OLD_MS)
            log.roll()
        log.put("c=3", by=7)


def wallets(log_dir: Path) -> None:
    """To repack: a sealed segment with 12 plain batches, 8 of a producer, 2 of a transaction; the active one."""
    with writing(log_dir, "wallets-0") as log:
        for number in range(12):
            log.put(f"a{number}={number}", f"b={number}")
        for number in range(8):
            log.put(f"c{number}={number}", by=7)
        for number in range(2):
            log.put(f"d{number}={number}", by=9, transactional=True)
        log.put("e=1")
        log.roll()
        log.put("f=1")
        log.put("f=2")


def small_batches(log_dir: Path) -> None:
    """To repack: three sealed segments of single records, and the active one."""
    with writing(log_dir, "small-0") as log:
        for segment in range(3):
            for number in range(9):
                log.put(f"a{number}={segment}")
            log.roll()
        log.put("a0=3")


def gone(log_dir: Path) -> None:
    """Everything is deleted, the active segment too: a new one is rolled."""
    with writing(log_dir, "gone-0") as log:
        log.put("a=0", by=7, at_ms=OLD_MS)
        log.roll()
        log.put("a=1", by=7, at_ms=OLD_MS)


def orders(log_dir: Path) -> None:
    """Compacted, several groups of several segments; a tombstone past its horizon lies behind the value it deletes."""
    with writing(log_dir, "orders-0") as log:
        for pairs in (("a=1", "b=1"), ("c=1", "d=1"), ("b=2", "e=1"), ("a=2", "f"), ("d=2", "g=1"), ("h=1", "b=3")):
            log.put(*pairs)
            log.roll()
        log.bury("e", OLD_MS)
        log.put("i=1")
        log.roll()
        log.put("j=1")


def prices(log_dir: Path) -> None:
    """Compacted: the last sources of the first group keep nothing; what they delete must not come back."""
    with writing(log_dir, "prices-0") as log:
        log.put("a=1", "b=1", by=7)
        log.roll()
        for key in "bc":
            log.put(f"{key}=2")
            log.roll()
            log.bury(key, OLD_MS)
            log.roll()
        log.put("d=1", "e=1", "f=1", by=8)
        log.roll()
        log.put("d=2", by=7)


def payments(log_dir: Path) -> None:
    """Compacted: transactions that span segments, committed and aborted, some of them with their markers alone."""
    with writing(log_dir, "payments-0") as log:
        for number in range(4):
            log.put(f"a={number}", f"b{number}=1", by=1, transactional=True)
            log.put(f"x={number}", f"y{number}=1", by=2, transactional=True)
            log.roll()
            log.end(ControlType.COMMIT if number % 2 else ControlType.ABORT, by=1)
            log.end(ControlType.ABORT if number % 2 else ControlType.COMMIT, by=2)
        log.roll()
        log.put("z=1")


def accounts(log_dir: Path) -> None:
    """Its oldest segments are deleted, the others compacted."""
    with writing(log_dir, "accounts-0") as log:
        for number, at_ms in enumerate((OLD_MS, OLD_MS, AT_MS, AT_MS)):
            log.put(f"a={number}", f"b{number}=1", by=7, at_ms=at_ms)
            log.roll()
        log.put("a=9", by=7)


def leave_directories(log_dir: Path, _fs: FileSystem) -> None:
    """Directories of replicas that the broker no longer has."""
    for name in (STRAY, DELETE):
        shutil.copytree(log_dir / "clicks-0", log_dir / name)


def drawn(seed: int) -> Callable[[Path], None]:
    """Compacted: segments of records, tombstones and transactions as the dice fall."""

    def draw(log_dir: Path) -> None:
        dice = Random(seed)
        with writing(log_dir, "drawn-0") as log:
            for _ in range(dice.randrange(4, 8)):
                for _ in range(dice.randrange(4)):
                    _draw_one(log, dice)
                log.roll()
            log.put("last=1")

    return draw


def _draw_one(log: Writing, dice: Random) -> None:
    pairs = [f"{key}=1" if dice.random() < 0.8 else key for key in dice.sample("abcdef", dice.randrange(1, 4))]
    match dice.randrange(4):
        case 0:
            log.put(*pairs)
        case 1:
            log.bury(pairs[0][0], OLD_MS)
        case by:
            log.put(*pairs, by=by, transactional=True)
            log.end(dice.choice([ControlType.COMMIT, ControlType.ABORT]), by=by)


@dataclass(frozen=True, slots=True)
class Scene:
    """Partitions of one log dir, and what is done to it."""

    act: Act
    draws: tuple[Callable[[Path], None], ...]
    prepare: Act | None = None
    """Done before, uninterrupted."""

    def draw(self, log_dir: Path) -> Path:
        """Make it in an absent directory."""
        log_dir.mkdir(parents=True)
        for draw in self.draws:
            draw(log_dir)
        names = [path.name for path in log_dir.iterdir() if path.is_dir()]
        ends = {topic_partition(name): Log.open(log_dir / name, LogConfig(), FS).log_end_offset for name in names}
        lines = {
            HIGH_WATERMARK_CHECKPOINT: ends,
            LOG_START_OFFSET_CHECKPOINT: {tp: 1 for tp in ends if tp.topic in ("accounts", "clicks")},
            CLEANER_OFFSET_CHECKPOINT: {tp: 2 for tp in ends if tp.topic in ("orders", "prices")},
        }
        for checkpoint, offsets in lines.items():
            (log_dir / checkpoint).write_bytes(format_offset_checkpoint(offsets))
        (log_dir / CLEAN_SHUTDOWN_FILE).touch()
        if self.prepare:
            self.prepare(log_dir, FS)
        return log_dir

    @property
    def mends(self) -> bool:
        """Whether the records stay, and what is beside them changes."""
        return self.act in (repair, write_ids, cut_zeros, end_logs)

    @property
    def is_refused(self) -> bool:
        """Whether Kafka does not open the log dir before the act: its promise is that the next act finishes."""
        return self.act in (write_ids, cut_zeros, end_logs)

    @property
    def erases(self) -> bool:
        """Whether records go by their keys alone."""
        return self.act in (erase, erase_at_once)

    @property
    def grows(self) -> bool:
        """Whether something comes back."""
        return self.act is restore


SCENES: Final = {
    "retention": Scene(clean, (clicks, gone)),
    "retention at once": Scene(clean_at_once, (clicks, gone)),
    "groups": Scene(clean_at_once, (orders,)),
    "emptied sources": Scene(clean, (prices,)),
    "transactions": Scene(clean_at_once, (payments,)),
    "both": Scene(clean, (accounts, clicks)),
    "free": Scene(free, (accounts, clicks)),
    "repair": Scene(repair, (clicks, payments), prepare=damage),
    "repair of topic ids": Scene(write_ids, (clicks, gone, orders, payments, accounts), prepare=forget_ids),
    "repair of zero tails": Scene(cut_zeros, (clicks, gone, orders, prices, payments, accounts), prepare=leave_zeros),
    "repair of log ends": Scene(end_logs, (clicks, orders, payments, accounts), prepare=tear_ends),
    "delete records": Scene(delete_records, (clicks, accounts)),
    "delete records restored": Scene(restore, (clicks, accounts), prepare=delete_records),
    "erase": Scene(erase, (orders, payments, accounts)),
    "erase at once": Scene(erase_at_once, (clicks, prices)),
    "repack": Scene(repack, (orders, payments, accounts, wallets)),
    "repack at once": Scene(repack_at_once, (clicks, prices, small_batches)),
    "restore": Scene(restore, (clicks, gone), prepare=clean),
    "sweep": Scene(sweep, (clicks, gone), prepare=leave_directories),
}


def topic_partition(name: str) -> TopicPartition:
    found = parse_topic_partition(name)
    assert found is not None
    return found
