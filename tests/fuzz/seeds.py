"""A small log dir with every kind of file that a log dir can hold, to be damaged."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from cleaner.engine.journal import Journal
from storage.checkpoints import HoldId, format_hold_ids, format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.writing.validation import Producer
from storage.metadata.metadata_encode import encode_config, encode_feature_level, encode_topic
from storage.metadata.metadata_log import ConfigSet, ResourceType, TopicCreated
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    HOLD_IDS_FILE,
    HOLDS_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_topic_partition,
)
from storage.records import ControlType, Record
from tests.batches import encode_control_batch
from tests.legacy_logs import legacy_log_dir
from tests.partition_dirs import DAY_MS, NOW_MS

SEGMENTS: Final = 4
_ENDS: Final = (ControlType.COMMIT, ControlType.ABORT)
FS: Final = FileSystem()
_COMPACT: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
_TIMED: Final = {"cleanup.policy": "delete", "retention.ms": str(DAY_MS)}
CONFIGS: Final = {
    **{f"v2-{codec.name.lower()}": _COMPACT for codec in Compression},
    "random": _COMPACT,
    "txn": _COMPACT,
    "swapped": _COMPACT,
    "timed": _TIMED,
    "held": _TIMED,
    "both": {**_TIMED, **_COMPACT, "cleanup.policy": "compact,delete"},
}


def make_log_dir(root: Path, seed: int = 0) -> Path:
    """Make it, as a broker leaves it after a clean stop; swaps and deletions have begun in some partitions."""
    random = Random(seed)
    root.mkdir()
    legacy_log_dir(root, seed, segments=3)
    for codec in Compression:
        _write(root, f"v2-{codec.name.lower()}-0", random, codec)
    _write(root, "swapped-0", random, Compression.NONE)
    for topic in ("timed", "held", "both"):
        _write(root, f"{topic}-0", random, Compression.LZ4)
    _write_transactions(root / "txn-0", random)
    _interrupt_swap(root / "swapped-0")
    _write_metadata(root / "__cluster_metadata-0")
    _write_checkpoints(root)
    _set_times(root)
    return root


def _write(root: Path, name: str, random: Random, codec: Compression) -> None:
    """Segments of keyed records; the older the segment, the older its records."""
    with _created(root / name) as log:
        for age in range(SEGMENTS - 1, -1, -1):
            for _ in range(6):
                at_ms = NOW_MS - age * DAY_MS + random.randrange(1000)
                log.append_records(list(_records(random, at_ms)), now_ms=NOW_MS, compression=codec)
            if age:
                log.roll(NOW_MS)


def _write_transactions(path: Path, random: Random) -> None:
    """Two producers interleaved: committed and aborted transactions, one at least from each segment into the next;
    in the last one some are left open."""
    sequences, begun = {7: 0, 8: 0}, set[int]()
    with _created(path) as log:
        for place in range(22):
            producer_id = random.choice((7, 8))
            records = list(_records(random, NOW_MS))
            producer = Producer(producer_id, 0, sequences[producer_id], True)
            log.append_records(records, now_ms=NOW_MS, producer=producer, compression=Compression(place % 5))
            sequences[producer_id] += len(records)
            begun.add(producer_id)
            is_full = place % 6 == 5 and place < 18
            ending = begun.copy() if place == 19 else {producer_id} if random.random() < 0.5 and not is_full else set()
            for ending_id in sorted(ending):
                log.append(_marker(random.choice(_ENDS), ending_id), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
            begun -= ending
            if is_full:
                log.roll(NOW_MS)


def _marker(kind: ControlType, producer_id: int) -> bytes:
    return encode_control_batch(
        kind, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
    )


def _records(random: Random, at_ms: int) -> Iterator[Record]:
    for _ in range(random.randint(1, 8)):
        value = None if random.random() < 0.2 else b"value %d " % random.randrange(99) * random.randint(1, 9)
        yield Record(0, at_ms + random.randrange(100), b"key %d" % random.randrange(20), value, ((b"h", b"1"),))


def _created(path: Path) -> Log:
    return Log.create(path, LogConfig(index_interval_bytes=300), FS, topic_id=_topic_id(path.name))


def _topic_id(name: str) -> str:
    return base64.urlsafe_b64encode(name.ljust(16, "x")[:16].encode()).rstrip(b"=").decode()


def _interrupt_swap(partition: Path) -> None:
    """Of the first segment a swap that had begun, of the second one a cleaned segment that had not been swapped in."""
    first, second, *_ = sorted(partition.glob("*.log"))
    for log, state in ((first, ".swap"), (second, ".deleted")):
        for path in sorted(partition.glob(f"{log.stem}.*")):
            if path.suffix in (".log", ".index", ".timeindex"):
                shutil.copy2(path, path.with_name(path.name + state))


def _write_metadata(path: Path) -> None:
    with Log.create(path, LogConfig(), FS, topic_id="AAAAAAAAAAAAAAAAAAAAAQ", leader_epoch=1) as log:
        for values in ([encode_feature_level("metadata.version", 25)], *map(_described, CONFIGS)):
            records = [Record(0, NOW_MS, None, value) for value in values]
            log.append_records(records, now_ms=NOW_MS, leader_epoch=1)


def _described(topic: str) -> list[bytes]:
    configs = CONFIGS[topic].items()
    created = encode_topic(TopicCreated(topic, _topic_id(f"{topic}-0")))
    return [created, *(encode_config(ConfigSet(ResourceType.TOPIC, topic, key, value)) for key, value in configs)]


def _write_checkpoints(root: Path) -> None:
    ends = {}
    for name in sorted(f"{topic}-0" for topic in CONFIGS):
        topic_partition = parse_topic_partition(name)
        assert topic_partition is not None
        ends[topic_partition] = Log.open(root / name, LogConfig(), FS).log_end_offset
    first_base = min(int(path.stem) for path in (root / "timed-0").glob("*.log"))
    named = {
        HIGH_WATERMARK_CHECKPOINT: ends,
        RECOVERY_POINT_CHECKPOINT: ends,
        LOG_START_OFFSET_CHECKPOINT: {TopicPartition("timed", 0): first_base + 3},
        CLEANER_OFFSET_CHECKPOINT: {TopicPartition("v2-none", 0): 12},
        HOLDS_FILE: {TopicPartition("held", 0): NOW_MS},
    }
    for name, offsets in named.items():
        (root / name).write_bytes(format_offset_checkpoint(offsets))
    held = TopicPartition("held", 0)
    (root / HOLD_IDS_FILE).write_bytes(format_hold_ids({held: HoldId(NOW_MS, _topic_id(str(held)))}))
    (root / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\n")
    (root / ".kafka_cleanshutdown").touch()
    journal = Journal(root, FS)
    journal.record("compact", NOW_MS, partition="orders-0", bytes=1)
    journal.close()


def _set_times(root: Path) -> None:
    """Every file as old as the records would have it."""
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(NOW_MS * 1_000_000,) * 2)
