"""Log dirs cleaned by us and by Kafka 4.3.1: the same records, headers and files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means
from policies import Request
from policies.config.config_layers import Configured
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, parse_topic_partition
from tests.batches import iter_batches
from tests.conftest import Samples
from tests.partition_dirs import FakeClock

COMPACTED = ("orders-0", "payments-0", "ledger-0")
RETAINED = ("clicks-0", "future-0", "sized-0", "trimmed-0", "mixed-0", "empty-0", "single-0")
HORIZON_TOLERANCE_MS = 5000


def a_cleaner(path: Path, now_ms: int) -> Cleaner:
    """Return a cleaner with the rules of Kafka 4.3.1, whose clock says the time at which that cleaned."""
    loaded = load_layers(Settings(kafka_defaults=True), [path])
    return Cleaner(Configured(loaded.log_dirs, loaded.layers), Means(clock=FakeClock(now_ms), keeps_round_end=True))


@pytest.fixture(scope="module")
def cleaned(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``before``, cleaned by us at the moment of Kafka."""
    path = samples.copy("before", tmp_path_factory.mktemp("cleaned") / "data")
    _, outcome = a_cleaner(path, samples.cleaned_at_ms("after")).clean(
        Request(samples.cleaned_at_ms("after"), confirmed=True)
    )
    assert [result.error for result in outcome.results.values() if result.error] == []
    assert outcome.errors == ()
    return path


@pytest.fixture(scope="module")
def cleaned_twice(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``before2``, cleaned by us past the horizons of round one."""
    path = samples.copy("before2", tmp_path_factory.mktemp("cleaned2") / "data", ["ledger-0"])
    a_cleaner(path, samples.cleaned_at_ms("after2")).clean(Request(samples.cleaned_at_ms("after2"), confirmed=True))
    return path


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def records(partition: Path):
    found = []
    for path in logs(partition):
        for batch in iter_batches(path.read_bytes(), path):
            batch.ensure_valid()
            found += batch.records()
    return found


def headers(partition: Path):
    """Every batch header with its file; the fields that may differ set alike, the horizons apart."""
    found, horizons = [], []
    for path in logs(partition):
        for batch in iter_batches(path.read_bytes(), path):
            header = batch.header
            horizons.append(header.delete_horizon_ms or 0)
            base_ms = 0 if header.has_delete_horizon else header.base_timestamp_ms
            found.append((path.name, header._replace(batch_length=0, crc=0, base_timestamp_ms=base_ms)))
    return found, horizons


def live_files(partition: Path) -> set[str]:
    return {path.name for path in partition.iterdir() if not path.name.endswith(".deleted")}


def segment_files(partition: Path) -> set[str]:
    """Without producer snapshots: a broker drops stray ones when it starts, not when it cleans."""
    return {name for name in live_files(partition) if not name.endswith(".snapshot")}


def assert_cleaned_alike(ours: Path, kafkas: Path) -> None:
    assert records(ours) == records(kafkas)
    our_headers, our_horizons = headers(ours)
    kafkas_headers, kafkas_horizons = headers(kafkas)
    assert our_headers == kafkas_headers
    assert [bool(horizon) for horizon in our_horizons] == [bool(horizon) for horizon in kafkas_horizons]
    pairs = zip(our_horizons, kafkas_horizons, strict=True)
    assert max((abs(a - b) for a, b in pairs), default=0) <= HORIZON_TOLERANCE_MS
    assert segment_files(ours) == segment_files(kafkas)


@pytest.mark.parametrize("partition", COMPACTED)
def test_compacted_partition_equals_kafkas(cleaned, samples, partition):
    assert len(records(cleaned / partition)) < len(records(samples.root / "before" / partition))
    assert_cleaned_alike(cleaned / partition, samples.root / "after" / partition)


@pytest.mark.parametrize("partition", COMPACTED)
def test_producer_snapshots_of_a_compacted_partition_equal_kafkas(cleaned, samples, partition):
    assert live_files(cleaned / partition) == live_files(samples.root / "after" / partition)


@pytest.mark.parametrize("partition", COMPACTED)
def test_indexes_of_a_compacted_partition_equal_kafkas(cleaned, samples, partition):
    for kafkas in sorted((samples.root / "after" / partition).glob("*index")):
        assert (cleaned / partition / kafkas.name).read_bytes() == kafkas.read_bytes(), kafkas.name


def test_second_round_past_the_horizons_equals_kafkas(cleaned_twice, samples):
    assert_cleaned_alike(cleaned_twice / "ledger-0", samples.root / "after2" / "ledger-0")


@pytest.mark.parametrize("partition", RETAINED)
def test_retained_partition_equals_kafkas_byte_for_byte(cleaned, samples, partition):
    ours, kafkas = cleaned / partition, samples.root / "after" / partition
    assert live_files(ours) == live_files(kafkas)
    for name in live_files(ours) - {"leader-epoch-checkpoint"}:  # Kafka writes a new leader epoch at each start
        assert (ours / name).read_bytes() == (kafkas / name).read_bytes(), name


@pytest.mark.parametrize("partition", COMPACTED)
def test_cleaner_checkpoint_equals_kafkas(cleaned, samples, partition):
    key = parse_topic_partition(partition)
    ours, kafkas = (LogDir(path).offsets(CLEANER_OFFSET_CHECKPOINT) for path in (cleaned, samples.root / "after"))
    assert ours[key] == kafkas[key]


def test_log_start_offset_within_a_segment_stays_checkpointed(cleaned, samples):
    ours = LogDir(cleaned).offsets(LOG_START_OFFSET_CHECKPOINT)
    assert ours == LogDir(samples.root / "after").offsets(LOG_START_OFFSET_CHECKPOINT)


@pytest.mark.parametrize("partition", COMPACTED)
def test_cleaned_segments_take_the_time_of_their_last_source(cleaned, samples, partition):
    for kafkas in logs(samples.root / "after" / partition):
        assert (cleaned / partition / kafkas.name).stat().st_mtime_ns == kafkas.stat().st_mtime_ns


def tree(root: Path) -> dict[str, tuple[int, int, str]]:
    """Size, mtime and digest of every file, mtime of every directory."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_size if path.is_file() else 0,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [root, *root.rglob("*")]
    }


def without_lock_traces(files: dict[str, tuple[int, int, str]]) -> dict[str, tuple[int, int, str]]:
    """A run makes ``.lock``: that sets the time of the log dir itself."""
    return {name: facts for name, facts in files.items() if name not in (".", ".lock")}


def test_cleaning_again_at_once_changes_nothing(cleaned, samples):
    before = tree(cleaned)
    planned, outcome = a_cleaner(cleaned, samples.cleaned_at_ms("after")).clean(
        Request(samples.cleaned_at_ms("after"), confirmed=True)
    )
    assert not planned.has_work
    assert outcome.results == {}
    assert without_lock_traces(tree(cleaned)) == without_lock_traces(before)


def test_dry_run_touches_nothing_and_takes_no_lock(samples):
    path = samples.root / "before"
    before = tree(path)
    engine = a_cleaner(path, samples.cleaned_at_ms("after"))
    planned = engine.plan(Request(samples.cleaned_at_ms("after"), confirmed=True))
    outcome = engine.would_do(planned)
    assert planned.has_work
    assert sum(result.deleted_bytes for result in outcome.results.values()) > 0
    assert tree(path) == before


def test_dry_run_tells_the_bytes_that_the_run_deletes(samples, tmp_path):
    path = samples.copy("before", tmp_path / "data", ["clicks-0", "sized-0", "mixed-0"])
    now = Request(samples.cleaned_at_ms("after"), confirmed=True)
    engine = a_cleaner(path, samples.cleaned_at_ms("after"))
    expected = engine.would_do(engine.plan(now))
    _, done = engine.clean(now)
    assert {k: r.deleted_bytes for k, r in done.results.items()} == {
        k: r.deleted_bytes for k, r in expected.results.items()
    }
    waiting = sum(file.stat().st_size for file in path.rglob("*.deleted") if "snapshot" not in file.name)
    assert waiting == sum(result.deleted_bytes for result in done.results.values())
