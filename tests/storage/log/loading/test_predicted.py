"""A load does what ``policies.preflight`` predicts of a broker: the same cuts, the same files, the same ends."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Final

import pytest

from cleaner.engine.preflight.reading import User, read_log_dir
from policies.preflight.facts import PartitionBefore, Release
from policies.preflight.files import LoadingStopped
from policies.preflight.loading import Loading
from policies.preflight.start import StartStepKind
from storage.errors import LogCleanerError
from storage.log import Log, LogConfig, Producer
from storage.log.writing.origin import AppendOrigin
from storage.records import ControlType, encode_control_batch
from tests.interop.damages import PARTITION_DAMAGES
from tests.storage.log.logs import FS, NOW_MS, a_log, append, record

SMALL: Final = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=1000)
OTHERS: Final = (
    "partition.metadata missing",
    "partition.metadata of another topic",
    "partition.metadata garbage",
    "file name without an offset",
    "name of a log that has not 20 digits",
    "partition directory missing",
    "-delete directory",
    "-stray directory",
    "-future directory",
    "topic that the metadata do not know",
)
"""Damages to the directory itself, to the topic id, and to names: a load looks at none of them."""
DAMAGES: Final = [kind for kind in PARTITION_DAMAGES if kind not in OTHERS]
SEEDS: Final = range(4)
STOPPED: Final = ("stopped",)
_OF_A_LOG: Final = re.compile(r"[0-9]+\.(log|index|timeindex|txnindex|snapshot)(\.(deleted|cleaned|swap))?")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_load_leaves_what_is_predicted(tmp_path: Path, kind: str, seed: int) -> None:
    dice = Random(f"{kind}/{seed}")
    directory = made(tmp_path, dice)
    if PARTITION_DAMAGES[kind](dice, directory) is None:
        return
    is_clean, point, start = dice.random() < 0.4, dice.choice((0, 0, 12, 1000)), dice.choice((0, 0, 0, 3))
    (before,) = read_log_dir(tmp_path, User(0, 0), lambda _: 100, Release(4, 3), cleans=False).partitions
    expected = predicted(before, is_clean, point, start)
    found = loaded(directory, is_clean, point, start)
    is_refused_by_us = "magic" in kind and found == STOPPED  # Kafka takes any higher magic for 2: see docs/log.md
    is_refused_by_kafka = kind == "leader-epoch-checkpoint garbage" and expected == STOPPED  # a negative number
    assert found == expected or is_refused_by_us or is_refused_by_kafka


def made(parent: Path, dice: Random) -> Path:
    """Some segments of plain and transactional batches, aborts among them, closed."""
    with a_log(parent, SMALL) as log:
        sequences = dict.fromkeys((7, 8), 0)
        for _ in range(dice.randrange(8, 30)):
            producer_id = dice.choice((None, *sequences))
            if producer_id is None:
                append(log, *[NOW_MS + dice.randrange(1000) for _ in range(dice.choice((1, 2, 5)))])
                continue
            producer = Producer(producer_id, 0, sequences[producer_id], is_transactional=True)
            log.append_records([record()], now_ms=NOW_MS, producer=producer)
            sequences[producer_id] += 1
            if dice.random() < 0.5:
                data = encode_control_batch(
                    ControlType.ABORT, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0,
                    coordinator_epoch=0,
                )  # fmt: skip
                log.append(data, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    return log.directory


Outcome = tuple[object, ...]


def predicted(before: PartitionBefore, is_clean: bool, point: int, start: int) -> Outcome:
    """The start, the end, the sizes of the logs, the other files, and the cuts; or that nothing opens it."""
    loading = Loading(before, is_clean=is_clean, recovery_point=point, log_start=start)
    try:
        loading.run()
    except LoadingStopped:
        return STOPPED
    files = loading.files
    names = {*files.sizes, *files.waiting}
    cuts = {step.file for step in files.steps if step.kind is StartStepKind.TRUNCATE}
    return loading.log_start, loading.log_end, *_described(names, files.sizes), cuts


def loaded(directory: Path, is_clean: bool, point: int, start: int) -> Outcome:
    """The same of a load."""
    try:
        log = Log.load(
            directory, SMALL, FS, now_ms=NOW_MS, had_clean_shutdown=is_clean, log_start_offset=start,
            recovery_point=point,
        )  # fmt: skip
    except LogCleanerError:
        return STOPPED
    log.kill()
    sizes = {path.name: path.stat().st_size for path in directory.iterdir()}
    cuts = {f"{cut.base_offset:020}.log" for cut in log.cuts if cut.size_bytes}
    return log.log_start_offset, log.log_end_offset, *_described(set(sizes), sizes), cuts


def _described(names: set[str], sizes: dict[str, int]) -> tuple[dict[str, int], list[str]]:
    known = sorted(name for name in names if _OF_A_LOG.fullmatch(name))
    return {name: sizes[name] for name in known if name.endswith(".log")}, known
