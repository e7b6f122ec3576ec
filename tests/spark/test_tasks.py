"""The executors' tasks, carried out here one after the other, without Spark: the same bytes as the local engine."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.compaction import Compacted, Round
from cleaner.engine.compaction.passes import OpenSpan, Span, Walk
from cleaner.engine.copy.moment import SourceChanged
from cleaner.engine.means import PASSES, Means
from cleaner.engine.repair.kept import tail_name
from cleaner.spark.bulk import bulk as bulk_module
from cleaner.spark.bulk import scratch
from cleaner.spark.bulk.bulk import Bulk, tasks
from cleaner.spark.bulk.scratch import new_suffix, sweep
from cleaner.spark.bulk.tasks import PLACE_BITS, Bitmaps, GroupWork, SpanWalk
from cleaner.spark.errors import SparkJobFailed, UnseenLogDir
from policies.config.config_layers import Configured
from storage.codecs.compression import Compression
from storage.errors import CorruptBatch, Stopped, UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import SCRATCH_SUFFIX, TopicPartition, is_cluster_scratch
from storage.records import ControlType, Record, encode_batch
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch
from tests.cleaner.engine.compaction.test_resolve import crossing, logs
from tests.cleaner.engine.compaction.test_resolve import entry as aborted_entry
from tests.cleaner.engine.test_unkeyed_guard import mixed, seen
from tests.conftest import Samples
from tests.faults import FullDisk
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    committed,
    configured,
    keyed,
    request,
)
from tests.spark.rounds import assert_same_by, cleaned, contents, sample_layers, skewed

LAYERS = configured(orders=COMPACT)


class Accumulated:
    """Twin of an accumulator."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, value: int) -> None:
        self.value += value


def gathered(
    _spark: object, units: Sequence[GroupWork], secret: tuple[int, int], run: str, walked_bytes: Accumulated
) -> Any:
    """Twin of the DataFrame: dictionaries."""
    words = np.uint64(secret[0]), np.uint64(secret[1])
    latest: dict[tuple[int, ...], int] = {}
    clean, answers = [], {}
    for unit in units:
        for span in unit.spans:
            walk = SpanWalk(span, unit.setting, unit.number, words)
            try:
                for digests, places, is_dirty in walk.rows():
                    for digest, place, dirty in zip(digests, places.tolist(), is_dirty.tolist(), strict=True):
                        key = unit.setting.round, int(digest["key_low"]), int(digest["key_high"])
                        if dirty:
                            latest[key] = max(latest.get(key, -1), place)
                        else:
                            clean.append((key, place))
                answers[span.number] = walk.found(run)
                walked_bytes.add(span.span.size_bytes)
            except CorruptBatch as error:
                answers[span.number] = error
    places = [*latest.values(), *(place for key, place in clean if key not in latest)]
    records_of, directory_of = tasks.units_by_number(units)
    bitmaps = Bitmaps(records_of)
    bitmaps.add(np.array(places, np.int64))
    return {unit: Path(path) for unit, path in bitmaps.write(directory_of, run)}, answers


class HereContext:
    """Carries out the jobs of Spark in this process."""

    defaultParallelism = 1  # noqa: N815 - Spark's name
    accumulator = Accumulated

    def parallelize(self, items: Sequence[Any], _slices: int) -> HereContext:
        self.items = items
        return self

    def map(self, function: Callable[[Any], Any]) -> HereContext:
        self.items = [function(item) for item in self.items]
        return self

    def collect(self) -> Sequence[Any]:
        return self.items


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Bulk:
    """Bulk without a cluster."""
    monkeypatch.setattr(bulk_module, "survivor_bitmaps", gathered)
    return Bulk(lambda: SimpleNamespace(sparkContext=HereContext()))  # type: ignore[arg-type]


def drawn(log_dir: Path) -> PartitionDir:
    return drawn_as(log_dir, "orders-0")


def drawn_as(log_dir: Path, name: str) -> PartitionDir:
    made = PartitionDir(log_dir, name).segment(0, keyed(0, "a=1", "b=1"), keyed(2, "c=1", "d"))
    made.segment(4, keyed(4, "a=2", "c=2"), keyed(6, "e=1", "b=2")).segment(8, keyed(8, "e=2", "a=3"))
    return made.segment(10, keyed(10, "z=1"))


@pytest.mark.parametrize("first_dirty", [None, 0, 2, 4, 5, 7, 8])
def test_whatever_is_dirty_the_bytes_are_those_of_the_local_engine(
    tmp_path: Path, here: Bulk, first_dirty: int | None
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, drawn(log_dir))
    if first_dirty is not None:
        (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {first_dirty}\n")
    assert_same_by(here, log_dir, LAYERS)


def test_key_twice_in_the_clean_section_stays_twice_as_it_does_here(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    made = PartitionDir(log_dir).segment(0, keyed(0, "a=1", "a=2", "b=1")).segment(3, keyed(3, "b=2", "c=1"))
    committed(log_dir, made.segment(5, keyed(5, "z=1")))
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    assert_same_by(here, log_dir, LAYERS)


def test_records_without_a_key_are_counted_as_they_are_here(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    unkeyed = encode_batch([Record(offset, NOW_MS, None, b"click") for offset in (2, 3)])
    made = PartitionDir(log_dir).segment(0, keyed(0, "a=1", "b=1"), unkeyed).segment(4, keyed(4, "a=2"))
    committed(log_dir, made.segment(5, keyed(5, "z=1")))
    assert_same_by(here, log_dir, LAYERS)
    ((_, result),) = cleaned(log_dir, LAYERS, here).results.items()
    assert result.records_unkeyed == 2


@pytest.mark.parametrize("first_dirty", [0, 1, 3])
def test_guard_rail_holds_back_the_same_partition_as_here_and_the_others_go_on(
    tmp_path: Path, here: Bulk, first_dirty: int
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, mixed(log_dir), drawn_as(log_dir, "orders-1"))
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {first_dirty}\n")
    assert_same_by(here, log_dir, LAYERS)
    before = seen(log_dir / "orders-0")
    outcome = cleaned(log_dir, LAYERS, here)
    (guard,) = outcome.guards.values()
    assert "would drop 3 of 5 records" in guard.text
    assert seen(log_dir / "orders-0") == before
    assert outcome.results[str(log_dir), TopicPartition("orders", 1)].compacted_from_bytes
    assert not cleaned(log_dir, LAYERS, here, confirmed=True).guards


def test_copy_by_a_cluster_has_what_a_guard_rail_holds_back_as_it_is(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, mixed(log_dir))
    cleaner = Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock()), compactor=here)
    _, outcome = cleaner.copy(request(), tmp_path / "copy", tool_version="1")
    assert len(outcome.guards) == 1
    for path in (log_dir / "orders-0").iterdir():
        assert (tmp_path / "copy" / "orders-0" / path.name).read_bytes() == path.read_bytes()
    assert not list(tmp_path.rglob(f"*{SCRATCH_SUFFIX}"))


@pytest.mark.parametrize("codec", list(Compression))
def test_segments_of_their_own_are_units_of_their_own(tmp_path: Path, here: Bulk, codec: Compression) -> None:
    log_dir = tmp_path / "data"
    made = PartitionDir(log_dir)
    for base in range(0, 40, 10):
        made.segment(base, keyed(base, *(f"k{(base * at) % 7}={at}" for at in range(10)), compression=codec))
    committed(log_dir, made.segment(40, keyed(40, "z=1")))
    assert_same_by(here, log_dir, configured(orders=COMPACT | {"segment.bytes": "200"}))


def test_transactions_are_followed_across_units(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    of_one = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    made = PartitionDir(log_dir).segment(0, keyed(0, "a=1", "b=1"), keyed(2, "a=2", base_sequence=0, **of_one))
    made.segment(3, keyed(3, "b=2", base_sequence=1, **of_one), keyed(4, "c=1"))
    abort = encode_control_batch(
        ControlType.ABORT, offset=5, timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    made.segment(5, abort, keyed(6, "c=2"), aborted=format_aborted_txn(AbortedTxn(1, 2, 5, 6)))
    committed(log_dir, made.segment(7, keyed(7, "z=1")))
    assert_same_by(here, log_dir, configured(orders=COMPACT | {"segment.bytes": "200"}))


@pytest.mark.parametrize(("kafka", "stage"), [("samples", "before"), ("samples", "before2"), ("old_samples", "before")])
def test_samples_come_out_as_the_local_engine_leaves_them(
    tmp_path: Path, here: Bulk, kafka: str, stage: str, request: pytest.FixtureRequest
) -> None:
    samples: Samples = request.getfixturevalue(kafka)
    log_dir = samples.copy(stage, tmp_path / "data")
    layers, asked = sample_layers(log_dir, samples.cleaned_at_ms(stage.replace("before", "after")))
    if kafka == "old_samples":
        config = COMPACT | {"segment.bytes": "262144"}
        layers = configured(**{"log-v0-gzip": config, "log-upgraded": config})
    assert_same_by(here, log_dir, layers, now_ms=asked.now_ms, confirmed=True)


def test_copy_by_a_cluster_is_the_copy_made_here(tmp_path: Path, here: Bulk) -> None:
    from cleaner.engine.cleaner import Cleaner
    from tests.partition_dirs import FakeClock, request

    layers = skewed(tmp_path / "data", 1, 3)
    for name, compactor in (("one", None), ("other", here)):
        cleaner = Cleaner(Configured((tmp_path / "data",), layers), Means(clock=FakeClock()), compactor=compactor)
        cleaner.copy(request(), tmp_path / name, tool_version="1")
    manifests = [(tmp_path / name / "logcleaner-manifest.json").read_text() for name in ("one", "other")]
    assert manifests[0].replace('"local"', '"spark"') == manifests[1]


@pytest.mark.parametrize("step", ["_survey", "_rewrite", "prepare"])
@pytest.mark.parametrize("base_offset", [0, 10], ids=["compacted", "active"])
def test_source_that_changes_while_a_cluster_works_on_a_copy_leaves_no_manifest(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch, step: str, base_offset: int
) -> None:
    from cleaner.engine.cleaner import Cleaner
    from tests.partition_dirs import FakeClock, request

    made = drawn(tmp_path / "data")
    committed(tmp_path / "data", made)
    real = getattr(here, step)

    def disturbed(*args: Any) -> None:
        if step == "prepare":
            real(*args)
        with made.log(base_offset).open("r+b") as file:
            file.seek(70)
            file.write(b"!")
        if step != "prepare":
            real(*args)

    monkeypatch.setattr(here, step, disturbed)
    cleaner = Cleaner(Configured((tmp_path / "data",), LAYERS), Means(clock=FakeClock()), compactor=here)
    with pytest.raises(SourceChanged) as caught:
        cleaner.copy(request(), tmp_path / "copy", tool_version="1")
    assert caught.value.path == made.log(base_offset)
    assert not (tmp_path / "copy/logcleaner-manifest.json").exists()
    assert not list(tmp_path.rglob("*.logcleaner"))


def test_damaged_partition_is_told_and_the_others_are_compacted(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    broken = PartitionDir(log_dir, "orders-1").segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "z=1"))
    committed(log_dir, drawn(log_dir), broken)
    data = bytearray(broken.log(0).read_bytes())
    data[-1] ^= 1
    broken.log(0).write_bytes(data)
    outcome = cleaned(log_dir, LAYERS, here)
    errors = {key[1].partition: result.error for key, result in outcome.results.items()}
    assert errors[0] is None
    assert "CRC-32C mismatch" in errors[1]
    assert broken.log(0).read_bytes() == data


def test_transaction_index_that_a_marker_behind_the_round_contradicts_is_told_as_here(
    tmp_path: Path, here: Bulk
) -> None:
    directory = crossing(tmp_path, ControlType.COMMIT, aborted_entry(10, 30))
    before = logs(directory)
    (result,) = cleaned(tmp_path, LAYERS, here).results.values()
    assert result.error is not None
    assert f"{20:020d}.txnindex at byte 0: " in result.error
    assert logs(directory) == before


def test_record_that_does_not_parse_is_told_by_the_walk_over_the_keys(tmp_path: Path, here: Bulk) -> None:
    from tests.storage.kernels.bytes_of import Batch, sealed

    log_dir = tmp_path / "data"
    garbled = PartitionDir(log_dir, "orders-1").segment(0, sealed(Batch(()), b"\xff" * 20, 1))
    committed(log_dir, drawn(log_dir), garbled.segment(1, keyed(1, "z=1")))
    outcome = cleaned(log_dir, LAYERS, here)
    errors = {key[1].partition: result.error for key, result in outcome.results.items()}
    assert errors[0] is None
    assert errors[1] is not None


def test_executor_that_sees_another_log_dir_fails_the_compactions_before_anything_of_them_is_written(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    clicks = PartitionDir(log_dir, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 2 * DAY_MS))
    committed(log_dir, drawn(log_dir), clicks.segment(1, keyed(1, "x=2")))
    before = {name: held for name, held in contents(log_dir).items() if name.startswith("orders")}
    seen = tasks.check_seen
    elsewhere = shutil.copytree(log_dir, tmp_path / "elsewhere", copy_function=shutil.copy)
    monkeypatch.setattr(tasks, "check_seen", lambda files: seen([(elsewhere / p.name, s, m) for p, s, m in files]))
    outcome = cleaned(log_dir, configured(orders=COMPACT, clicks=EXPIRING), here)
    (error,) = outcome.errors
    assert "every executor has to see the log dir" in error
    ((key, result),) = outcome.results.items()  # retention needs no cluster
    assert (key[1].topic, result.deleted_segments, result.error) == ("clicks", 1, None)
    assert {name: held for name, held in contents(log_dir).items() if name.startswith("orders")} == before


@pytest.mark.parametrize(("size", "time"), [(1, 0), (0, 1)])
def test_file_of_another_size_or_time_is_not_the_one_the_driver_sees(tmp_path: Path, size: int, time: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    status = path.stat()
    assert tasks.check_seen([(path, status.st_size, status.st_mtime_ns)]) is None
    error = tasks.check_seen([(path, status.st_size + size, status.st_mtime_ns + time)])
    assert isinstance(error, UnseenLogDir)


def test_segment_that_changed_since_it_was_read_is_not_swapped(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    made = drawn(log_dir)
    committed(log_dir, made)
    prepare = Bulk.prepare

    def prepare_and_touch(self: Bulk, rounds: Any, means: Any) -> None:
        prepare(self, rounds, means)
        made.log(4).write_bytes(made.log(4).read_bytes())

    monkeypatch.setattr(Bulk, "prepare", prepare_and_touch)
    outcome = cleaned(log_dir, LAYERS, here)
    (result,) = outcome.results.values()
    assert "changed since the plan was made" in result.error
    assert not list(log_dir.rglob("*.logcleaner"))


def test_scratch_files_are_nothing_to_a_listing_and_the_next_run_takes_them_away(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    made = drawn(log_dir)
    committed(log_dir, made)
    left = made.path / f"{0:020d}.log{new_suffix('beefbeef')}"
    left.touch()
    assert left.name not in {file.file_name for file in list_partition(made.path).files}
    cleaned(log_dir, LAYERS, here)
    assert not left.exists()
    left.touch()
    assert sweep([made.path], FileSystem()) == 1


def test_only_plain_scratch_files_of_the_directory_itself_are_swept(tmp_path: Path) -> None:
    elsewhere, partition = tmp_path / "elsewhere", tmp_path / "orders-0"
    scratch, directory_, link = (f"{number}.bitmap{new_suffix('beefbeef')}" for number in range(3))
    for directory in (elsewhere, partition):
        directory.mkdir()
        directory.joinpath(scratch).touch()
    cut_off = tail_name(f"{0:020d}.log", 4711)
    partition.joinpath(cut_off).touch()
    partition.joinpath(directory_).mkdir()
    partition.joinpath(link).symlink_to(elsewhere / scratch)
    planted = tmp_path / "orders-1"
    planted.symlink_to(elsewhere)
    assert sweep([partition, planted, tmp_path / "gone"], FileSystem()) == 1
    assert {path.name for path in partition.iterdir()} == {directory_, link, cut_off}
    assert [path.name for path in elsewhere.iterdir()] == [scratch]


def test_a_run_in_waves_prepares_a_wave_once_the_one_before_is_swapped_in(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, *(drawn_as(log_dir, f"orders-{number}") for number in range(5)))
    monkeypatch.setattr(bulk_module, "PARTITIONS_A_SLOT", 2)
    told: list[str] = []
    prepare, compact = here.prepare, here.compact

    def prepared(rounds: Iterable[tuple[Round, Path]], means: Means) -> None:
        wave = list(rounds)
        told.append(f"prepare {len(wave)}")
        prepare(wave, means)

    def compacted(round_: Round, means: Means) -> Compacted:
        told.append("compact")
        return compact(round_, means)

    monkeypatch.setattr(here, "prepare", prepared)
    monkeypatch.setattr(here, "compact", compacted)
    assert_same_by(here, log_dir, LAYERS)
    assert told == ["prepare 2", "compact", "compact"] * 2 + ["prepare 1", "compact"]


def test_a_wave_is_as_large_as_the_free_space_allows_and_never_empty(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [5, 3, 7, 20, 4, 4, 1]
    free = iter([8, 10, 8, 100])
    monkeypatch.setattr(LogDir, "space", lambda _: SimpleNamespace(free_bytes=next(free)))
    steps = [
        SimpleNamespace(compaction=SimpleNamespace(size_bytes=size), facts=SimpleNamespace(log_dir=str(tmp_path)))
        for size in sizes
    ]
    waves = [[step.compaction.size_bytes for step in wave] for wave in here.waves(steps)]  # type: ignore[arg-type]
    assert waves == [[5, 3], [7], [20], [4, 4, 1]]
    assert list(here.waves([])) == []


def test_places_ascend_with_units_and_ordinals_and_fill_the_bitmaps_of_their_units(tmp_path: Path) -> None:
    bitmaps = Bitmaps({0: 70, 5: 3})
    bitmaps.add(np.array([69, (5 << PLACE_BITS) + 2, 0], np.int64))
    bitmaps.add(np.array([(5 << PLACE_BITS) + 0], np.int64))
    written = dict(bitmaps.write({0: tmp_path, 5: tmp_path}, "run"))
    assert np.fromfile(written[0], np.uint64).tolist() == [1, 1 << 5]
    assert np.fromfile(written[5], np.uint64).tolist() == [0b101]


class FakeContext:
    """Its jobs fail: at once, or when they are cancelled."""

    defaultParallelism = 1  # noqa: N815 - Spark's name
    accumulator = Accumulated

    def __init__(self, *, at_once: bool) -> None:
        self.at_once, self.cancelled = at_once, threading.Event()

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        self.cancelled.set()

    def parallelize(self, *_items: object) -> FakeContext:
        return self

    def map(self, _function: object) -> FakeContext:
        return self

    def collect(self) -> NoReturn:
        assert self.at_once or self.cancelled.wait(60)
        raise PySparkException("Job aborted\n\tat some.java.Frame\nValueError: what it was")


def test_a_wave_that_does_not_fit_ends_in_a_line_and_no_delay_is_shortened(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, drawn_as(log_dir, "orders-0"), drawn_as(log_dir, "orders-1"))
    Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock())).clean(request(topics=("orders-0",)))
    waiting, before = {*log_dir.rglob("*.deleted")}, seen(log_dir / "orders-1")
    full = FullDisk(0, frozenset({Purpose.CLEAN}))
    monkeypatch.setattr(tasks, "FileSystem", lambda: full)
    cleaner = Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock()), compactor=here)
    _, outcome = cleaner.clean(request(topics=("orders-1",)))
    ((_, result),) = outcome.results.items()
    assert "no space" in str(result.error)
    assert full.refused
    assert {*log_dir.rglob("*.deleted")} == waiting != set()
    assert seen(log_dir / "orders-1") == before


def test_a_task_that_outlives_its_driver_finds_its_scratch_gone_and_changes_nothing(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, drawn(log_dir))
    late, rewrite = [], tasks.rewrite

    def killed(task: Any, run: str) -> NoReturn:
        late.append((task, run))
        raise SparkJobFailed("the driver is gone")

    monkeypatch.setattr(tasks, "rewrite", killed)
    cleaned(log_dir, LAYERS, here)
    cleaned(log_dir, LAYERS)
    after = contents(log_dir)
    assert [type(rewrite(*each)) for each in late] == [UnreadableFile] * len(late) != []
    assert contents(log_dir) == after


class GoneContext:
    """Its JVM was killed."""

    accumulator = Accumulated

    @property
    def defaultParallelism(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise ConnectionRefusedError(111, "Connection refused")

    def parallelize(self, *_items: object) -> NoReturn:
        raise Py4JNetworkError("Error while sending or receiving")


def test_spark_that_is_gone_fails_each_wave_in_one_line_and_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, *(drawn_as(log_dir, f"orders-{number}") for number in range(3)))
    monkeypatch.setattr(bulk_module, "PARTITIONS_A_SLOT", 2)
    bulk = Bulk(lambda: SimpleNamespace(sparkContext=GoneContext()))  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(bulk, "begin", lambda _: None)
    outcome = cleaned(log_dir, LAYERS, bulk)
    errors = [result.error for result in outcome.results.values()]
    assert len(errors) == 3
    assert {"\n" in str(error) for error in errors} == {False}
    assert all("Spark gave the compactions up: Error while sending" in str(error) for error in errors)


def test_progress_is_told_in_all_bytes_twice_as_here(tmp_path: Path, here: Bulk) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, drawn(log_dir))
    told: list[int] = []
    listener = SimpleNamespace(expect=told.append, progress=told.append, event=lambda *_, **__: None)
    cleaner = Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock(), listener=listener), compactor=here)
    cleaner.clean(request())
    expected, *done = told
    assert expected > 0
    assert sum(done) == PASSES * expected


def test_what_a_scratch_file_lacks_is_an_error_and_no_lost_record(tmp_path: Path, here: Bulk) -> None:
    del here
    log_dir = tmp_path / "data"
    made = drawn(log_dir)
    span = Span(list_partition(made.path).segments[0], 4)
    opened = OpenSpan(span, open_segment(span.segment, 4, is_locked=False))
    walk = Walk.of(opened, 7)
    for slice_ in opened.reader.slices(checksums=Checksums.DONE, start=walk.start):
        walk.add(slice_, is_ordinary=False)
    path = scratch.write_walk(walk.walked, walk.start, 3, tmp_path, "beefbeef")
    found, expected = scratch.read_walk(path, span), walk.walked
    assert is_cluster_scratch(path.name)
    assert repr(found) == repr(expected)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(UnreadableFile):
            scratch.read_walk(path, span)
    path.unlink()
    with pytest.raises(UnreadableFile, match="No such file"):
        scratch.read_walk(path, span)
    bitmap = scratch.write_bitmap(np.array([5, 1], np.uint64), 0, tmp_path, "beefbeef")
    assert scratch.read_bitmap(bitmap, 128).tolist() == [5, 1]
    for records in (64, 129):
        with pytest.raises(UnreadableFile, match="2 words, not"):
            scratch.read_bitmap(bitmap, records)


@pytest.mark.parametrize(("units_max", "records_max"), [(0, 1 << 40), (1, 3)])
def test_counts_that_overflow_a_place_fail_their_partition(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch, units_max: int, records_max: int
) -> None:
    log_dir = tmp_path / "data"
    committed(log_dir, drawn(log_dir))
    monkeypatch.setattr(tasks, "UNITS_MAX", units_max)
    monkeypatch.setattr(tasks, "RECORDS_MAX", records_max)
    before = contents(log_dir)
    (result,) = cleaned(log_dir, LAYERS, here).results.values()
    assert "more than a cluster counts" in str(result.error)
    assert contents(log_dir) == before


def failing(*, at_once: bool) -> Bulk:
    return Bulk(lambda: SimpleNamespace(sparkContext=FakeContext(at_once=at_once)))  # type: ignore[arg-type]


def test_signal_cancels_the_job_and_ends_the_run() -> None:
    bulk = failing(at_once=False)
    bulk.prepare([], Means(stopping=lambda: True))
    with pytest.raises(Stopped):
        bulk.begin([])


def test_job_that_fails_is_told_in_one_line() -> None:
    with pytest.raises(SparkJobFailed, match="gave the compactions up: ValueError: what it was; nothing of them"):
        failing(at_once=True).begin([])


def test_compactions_that_a_cluster_gave_up_fail_one_by_one_and_deletions_stay_done(
    tmp_path: Path, here: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    clicks = PartitionDir(log_dir, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 2 * DAY_MS))
    committed(log_dir, drawn(log_dir), clicks.segment(1, keyed(1, "x=2")))

    def survey(task: object) -> None:
        raise SparkJobFailed("the cluster is gone")

    monkeypatch.setattr(bulk_module.tasks, "survey", survey)
    outcome = cleaned(log_dir, configured(orders=COMPACT, clicks=EXPIRING), here)
    told = {key[1].topic: (result.error, result.deleted_segments) for key, result in outcome.results.items()}
    assert told["clicks"] == (None, 1)
    assert "the cluster is gone" in told["orders"][0]


@pytest.mark.parametrize("is_copied", [False, True])
def test_no_session_starts_for_a_run_that_compacts_nothing(tmp_path: Path, is_copied: bool) -> None:
    def start() -> NoReturn:
        pytest.fail("Spark was started")

    log_dir = tmp_path / "data"
    committed(log_dir, drawn(log_dir))
    cleaner = Cleaner(
        Configured((log_dir,), configured(orders=EXPIRING)), Means(clock=FakeClock()), compactor=Bulk(start)
    )
    if is_copied:
        cleaner.copy(request(), tmp_path / "copy", tool_version="1")
    else:
        assert cleaner.clean(request())[1].errors == ()
