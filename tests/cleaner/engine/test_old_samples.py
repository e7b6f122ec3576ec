"""Logs of v0, v1 and v2 cleaned by us and by Kafka 2.8.2: the same records in the same formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from policies import Request
from policies.config.config_layers import Configured
from tests.batches import iter_batches
from tests.conftest import Samples

OPTIONS = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.bytes=262144")


def clean(path: Path, now_ms: int, *options: str) -> None:
    loaded = load_layers(Settings(kafka_defaults=True), [path], [*OPTIONS, *options])
    _, outcome = Cleaner(Configured(loaded.log_dirs, loaded.layers)).clean(Request(now_ms, confirmed=True))
    assert [result.error for result in outcome.results.values() if result.error] == []


@pytest.fixture(scope="module")
def cleaned(old_samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = old_samples.copy("before", tmp_path_factory.mktemp("cleaned") / "data")
    clean(path, old_samples.cleaned_at_ms("after"))
    return path


def batches(partition: Path):
    """Of every batch: segment, magic, codec, last offset, records."""
    return [
        (path.name, batch.header.magic, batch.header.compression, batch.last_offset, tuple(batch.records()))
        for path in sorted(partition.glob("*.log"))
        for batch in iter_batches(path.read_bytes(), path)
    ]


@pytest.mark.parametrize("partition", ["log-upgraded-0", "log-v0-gzip-0"])
def test_records_formats_and_codecs_equal_kafkas(cleaned, old_samples, partition):
    assert batches(cleaned / partition) == batches(old_samples.root / "after" / partition)


def test_the_upgraded_log_holds_all_three_formats(cleaned):
    assert {magic for _, magic, _, _, _ in batches(cleaned / "log-upgraded-0")} == {0, 1, 2}


def test_upgrading_keeps_the_same_records_in_v2(old_samples, cleaned, tmp_path):
    path = old_samples.copy("before", tmp_path / "data")
    clean(path, old_samples.cleaned_at_ms("after"), "compaction.upgrade.format=true")
    for partition in ("log-upgraded-0", "log-v0-gzip-0"):
        kept, upgraded = batches(cleaned / partition), batches(path / partition)
        active = max(name for name, *_ in kept)
        assert {magic for name, magic, *_ in upgraded if name != active} == {2}
        assert [(r.offset, r.key, r.value) for *_, records in upgraded for r in records] == [
            (r.offset, r.key, r.value) for *_, records in kept for r in records
        ]


def test_without_any_configuration_every_byte_stays(old_samples, tmp_path):
    path = old_samples.copy("before", tmp_path / "data")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    loaded = load_layers(Settings(), [path], [])
    plan, outcome = Cleaner(Configured(loaded.log_dirs, loaded.layers)).clean(
        Request(old_samples.cleaned_at_ms("after"), confirmed=True)
    )
    assert all(partition.config_is_unknown for partition in plan.partitions)
    assert outcome.results == {}
    (path / ".lock").unlink()
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
