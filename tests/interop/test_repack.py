"""Random logs, repacked: Kafka reads the same records, and knows the same producers.

``LOGCLEANER_RANDOM_LOGS=200`` tries all; a failing one comes back by its number.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cleaner import Cleaner
from cleaner.engine.repack import repacking
from cleaner.engine.repack.merging import AskedCodec
from cleaner.engine.repack.repacking import RepackRequest, plan_repack, repack
from cleaner.engine.sole_replicas import Placed
from policies import Request
from policies.config.config_layers import ConfigLayers, Configured
from policies.config.config_sources import ConfigSources, Said
from storage.codecs.compression import Compression
from storage.metadata.assignments import Assignment
from tests.interop.referee import Referee
from tests.interop.scenarios import scenario
from tests.interop.sides import PARTITION
from tests.interop.test_erase import read, recovered
from tests.interop.test_random_logs import prepare
from tests.sampled import some

pytestmark = pytest.mark.kafka

LOGS_IN_CI: Final = 12
ASKED: Final = os.environ.get("LOGCLEANER_RANDOM_LOGS")
SEEDS: Final = range(int(ASKED)) if ASKED else some(range(200), LOGS_IN_CI)
CODECS: Final = (None, None, AskedCodec(Compression.ZSTD, 9), AskedCodec(Compression.LZ4))


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_reads_the_same_records_and_knows_the_same_producers(
    referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    alone = Placed(1, {PARTITION: Assignment((1,), (), 0, (1,))})
    monkeypatch.setattr(repacking, "placed", lambda *_: alone)
    drawn = scenario(seed)
    log_dir, now_ms = tmp_path / "log", 0
    log_dir.mkdir()
    for number in range(len(drawn.steps)):
        now_ms = prepare(referee, log_dir, drawn, number, now_ms)
        before = read(referee, log_dir, drawn.cleaning, now_ms)
        overrides = {key: Said(str(value), "the test") for key, value in drawn.cleaning.items()}
        cleaner = Cleaner(Configured((log_dir,), ConfigLayers.read(ConfigSources(overrides=overrides))))
        asked = RepackRequest(Request(now_ms, confirmed=True, delete_delay_ms=0), CODECS[(seed + number) % 4])
        planned, done = plan_repack(cleaner, asked), repack(cleaner, asked)
        assert [(p.refused, p.error) for p in done.partitions] == [(None, None)]
        assert [p.bytes_after for p in planned.partitions] == [p.bytes_after for p in done.partitions]
        after = read(referee, log_dir, drawn.cleaning, now_ms)
        assert list(after.records()) == list(before.records())
        assert replace(before, dir="", segments=[]) == replace(after, dir="", segments=[])
        recovered(referee, log_dir, after, drawn.cleaning, now_ms)
