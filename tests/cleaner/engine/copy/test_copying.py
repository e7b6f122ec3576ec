"""A cleaned copy beside an untouched original (``clean --output``)."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cleaner.engine.copy import copying as output_module
from cleaner.engine.copy.manifest import CopyDoesNotFit, CorruptManifest, damaged_files, read_manifest
from cleaner.errors import UnusableOutput
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem
from storage.lock import LogDirLocked
from storage.log_dir import IncompleteCopy, LogDir
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from tests.faults import crashes
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    request,
)
from tests.partition_dirs import keyed as batch

LAYERS = configured(clicks=EXPIRING, orders=COMPACT)
NOT_COMPARED = {".lock", ".logcleaner-journal", MANIFEST_FILE}


@pytest.fixture
def original(tmp_path):
    """An expired segment and a fresh one; a log to compact, two segments into one, and one behind them."""
    root = tmp_path / "data"
    old = NOW_MS - 2 * DAY_MS
    clicks = PartitionDir(root, "clicks-0").segment(0, batch(0, "x=1", timestamp_ms=old)).segment(1, batch(1, "x=2"))
    orders = PartitionDir(root, "orders-0").segment(0, batch(0, "a=1", "b=1")).segment(2, batch(2, "a=2", "b"))
    orders.segment(4, batch(4, "c=1"))
    (orders.path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (orders.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (root / "meta.properties").write_text("version=1\n")
    (root / ".lock").touch()  # as a broker of Kafka 3.7 leaves it
    return committed(root, clicks, orders)


def copied(original, to, *, layers=LAYERS, fs=None, **asked):
    return a_cleaner(original, layers, fs).copy(request(**asked), to, tool_version="1")


def contents(directory):
    """Every file but the journal and the manifest: its bytes, lines sorted in checkpoints; times of segments."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name not in NOT_COMPARED:
            data = path.read_bytes()
            is_checkpoint = name.endswith("-checkpoint")
            found[name] = sorted(data.splitlines()) if is_checkpoint else (data, path.stat().st_mtime_ns)
    return found


def states(directory):
    return {p: (p.stat().st_mtime_ns, p.stat().st_ino, p.is_file() and p.read_bytes()) for p in directory.rglob("*")}


def cleaned_in_place(original, to, layers=LAYERS, **asked):
    shutil.copytree(original, to)
    a_cleaner(to, layers).clean(request(**asked, delete_delay_ms=0))
    return contents(to)


def test_copy_is_what_a_clean_in_place_leaves_and_the_original_is_untouched(tmp_path, original):
    before = states(original)
    _, outcome = copied(original, tmp_path / "copy")
    assert states(original) == before
    assert contents(tmp_path / "copy") == cleaned_in_place(original, tmp_path / "in-place")
    assert [result.error for result in outcome.results.values()] == [None, None]


def test_log_that_loses_everything_gets_its_empty_segment_and_snapshot_in_the_copy(tmp_path, original):
    later = NOW_MS + 9 * DAY_MS
    copied(original, tmp_path / "copy", now_ms=later)
    in_place = cleaned_in_place(original, tmp_path / "in-place", now_ms=later)
    assert {name: told[0] for name, told in contents(tmp_path / "copy").items()} == {
        name: told[0] for name, told in in_place.items()
    }
    assert (tmp_path / "copy/clicks-0/00000000000000000002.snapshot").exists()


@pytest.mark.parametrize("kafka", ["samples", "old_samples"])
def test_samples_are_copied_as_they_are_cleaned_in_place(tmp_path, kafka, request):
    from cleaner.config.layers import Settings
    from cleaner.config.reader import load_layers
    from policies import Request

    samples = request.getfixturevalue(kafka)
    original = samples.copy("before", tmp_path / "data")
    asked = Request(samples.cleaned_at_ms("after"), confirmed=True)
    loaded = load_layers(Settings(), [original], ["cleanup.policy=compact"] if kafka == "old_samples" else [])
    copy = tmp_path / "copy"
    a_cleaner(original, loaded.layers).copy(asked, copy, tool_version="1")
    shutil.copytree(original, tmp_path / "in-place")
    a_cleaner(tmp_path / "in-place", loaded.layers).clean(replace(asked, delete_delay_ms=0))
    assert contents(copy) == contents(tmp_path / "in-place")
    logs = {name: told for name, told in contents(original).items() if name.endswith(".log")}
    assert any(len(contents(copy)[name][0]) < len(told[0]) for name, told in logs.items() if name in contents(copy))


def test_what_a_cluster_was_interrupted_at_is_not_copied(tmp_path, original):
    (original / "orders-0" / f"{0:020d}.log.beef-1.logcleaner").write_bytes(b"half")
    copied(original, tmp_path / "copy")
    assert not list(tmp_path.glob("copy/**/*.logcleaner"))


def test_manifest_tells_every_file_with_its_hash_and_why_segments_went(tmp_path, original):
    copied(original, tmp_path / "copy")
    files = read_manifest(tmp_path / "copy").files
    on_disk = {p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*") if p.is_file()}
    assert {file.path for file in files} | {MANIFEST_FILE} == on_disk
    assert list(damaged_files(tmp_path / "copy", files)) == []
    told = json.loads((tmp_path / "copy" / MANIFEST_FILE).read_bytes())
    clicks, orders = told["partitions"]
    assert [segment["code"] for segment in clicks["segments"]] == ["RETENTION_TIME", "TIME_NOT_REACHED"]
    assert (clicks["log_start_offset"], orders["compacted_to_offset"]) == (1, 4)
    assert orders["configs"]["cleanup.policy"]["origin"]


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "has 0 bytes, 9 in the manifest"),
        (lambda path: path.write_bytes(b"version=1"), "has another SHA-256 than in the manifest"),
    ],
)
def test_copy_that_was_changed_since_is_told_by_its_manifest(tmp_path, original, harm, told):
    (original / "meta.properties").write_bytes(b"version=0")
    copied(original, tmp_path / "copy")
    harm(tmp_path / "copy" / "meta.properties")
    assert list(damaged_files(tmp_path / "copy", read_manifest(tmp_path / "copy").files)) == [("meta.properties", told)]


@pytest.mark.parametrize("garbled", [b"", b"[]", b'{"schema": "other/1"}', b'{"schema": "logcleaner.manifest/1"}'])
def test_manifest_that_does_not_parse_is_an_error(tmp_path, garbled):
    (tmp_path / MANIFEST_FILE).write_bytes(garbled)
    with pytest.raises(CorruptManifest):
        read_manifest(tmp_path)


def test_crash_at_any_step_leaves_no_manifest_and_the_next_run_says_so(tmp_path, original):
    before, runs = states(original), []

    def act(disk):
        runs.append(tmp_path / f"copy-{len(runs)}")
        copied(original, runs[-1], fs=disk)

    for _ in crashes(act):
        assert states(original) == before
        if (runs[-1] / MANIFEST_FILE).exists():
            assert contents(runs[-1]).keys() - {INCOMPLETE_FILE} == contents(original).keys() - {
                *(f"clicks-0/{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")),
                *(f"orders-0/{2:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")),
            } | {"cleaner-offset-checkpoint"}
        elif runs[-1].exists() and any(runs[-1].iterdir()):
            with pytest.raises(UnusableOutput, match=r"incomplete|not empty"):
                copied(original, runs[-1])
            assert (runs[-1] / INCOMPLETE_FILE).exists() is bool(read_fails(runs[-1]))
    assert len(runs) > 30


def read_fails(copy):
    try:
        read_manifest(copy)
    except IncompleteCopy:
        return True
    return False


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("data/copy", "lies in the log dir"),
        ("data", "lies in the log dir"),
        ("missing/copy", "does not exist"),
        ("file", "is no directory"),
        ("file/copy", "file is no directory"),
        ("full", "is not empty"),
        ("finished", "holds a finished log dir already"),
        ("finished/copy", "lies in .*/finished, which holds a finished log dir"),
        ("finished/deeper/copy", "lies in .*/finished, which holds a finished log dir"),
        ("begun/copy", "lies in .*/begun, which holds an incomplete log dir"),
        ("above", "is not empty"),
    ],
)
def test_output_that_cannot_be_is_refused_before_anything_is_written(tmp_path, original, place, told):
    (tmp_path / "file").touch()
    marked = [("finished", MANIFEST_FILE), ("begun", INCOMPLETE_FILE), ("above/finished", MANIFEST_FILE)]
    for name, content in (("full", "something"), *marked):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / content).touch()
    before = states(tmp_path)
    with pytest.raises(UnusableOutput, match=told):
        copied(original, tmp_path / place)
    assert states(tmp_path) == before


@pytest.mark.parametrize("place", ["closed", "closed/copy"])
def test_output_where_this_user_can_make_no_file_is_refused_by_a_dry_run_too(tmp_path, original, place, monkeypatch):
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != tmp_path / "closed")  # root may write anywhere
    with pytest.raises(UnusableOutput, match=r"this user cannot write to .*/closed"):
        output_module.check_usable(tmp_path / place, LogDir(original))


def test_empty_directory_that_is_there_is_taken(tmp_path, original):
    (tmp_path / "copy").mkdir()
    copied(original, tmp_path / "copy")
    assert read_manifest(tmp_path / "copy")


def test_too_small_a_disk_is_told_with_what_is_needed_before_anything_is_written(tmp_path, original, monkeypatch):
    space = SimpleNamespace(f_bavail=1, f_frsize=4096, f_blocks=1, f_bfree=1)
    monkeypatch.setattr(output_module.os, "statvfs", lambda path: space)
    logs = sum(p.stat().st_size for p in original.rglob("*") if p.is_file() and p.name.startswith("0"))
    with pytest.raises(CopyDoesNotFit) as caught:
        copied(original, tmp_path / "copy")
    expired = sum(p.stat().st_size for p in (original / "clicks-0").glob("00000000000000000000.*"))
    assert caught.value.needed_bytes - (1 << 20) == logs - expired
    assert not (tmp_path / "copy").exists()


def test_log_dir_that_another_process_holds_is_refused(tmp_path, original):
    with LogDir.open(original).lock(FileSystem()), pytest.raises(LogDirLocked):
        copied(original, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


class Disturbed(FileSystem):
    """Appends to a source while it is copied."""

    def __init__(self, source):
        self.source = source

    def create(self, path, like, purpose):
        if path.name == self.source.name:
            with self.source.open("ab") as file:
                file.write(b"x")
        return super().create(path, like, purpose)


@pytest.mark.parametrize("name", ["meta.properties", f"clicks-0/{1:020d}.log"])
def test_file_that_is_written_to_meanwhile_ends_the_copy(tmp_path, original, name):
    source = original / name
    with pytest.raises(PlanOutOfDate, match="written to while it was copied"):
        copied(original, tmp_path / "copy", fs=Disturbed(source))
    with pytest.raises(IncompleteCopy):
        read_manifest(tmp_path / "copy")


def test_damaged_partition_is_copied_as_it_is_and_told(tmp_path, original):
    log = original / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    plan, outcome = copied(original, tmp_path / "copy")
    orders = next(p for p in plan.partitions if p.facts.topic_partition.topic == "orders")
    assert "CRC" in outcome.results[orders.key].error
    assert contents(tmp_path / "copy")[f"orders-0/{0:020d}.log"][0] == bytes(data)
    assert "orders 0" not in (tmp_path / "copy/replication-offset-checkpoint").read_text().split("\n")[:2]
    told = json.loads((tmp_path / "copy" / MANIFEST_FILE).read_bytes())
    assert [bool(p["error"]) for p in told["partitions"]] == [False, True]


def test_partition_that_cannot_be_planned_is_copied_as_it_is(tmp_path, original):
    (original / "orders-0/leader-epoch-checkpoint").write_text("garbled")
    plan, _ = copied(original, tmp_path / "copy")
    assert len(plan.failures) == 1
    copy = {name: told for name, told in contents(tmp_path / "copy").items() if name.startswith("orders-0/")}
    assert copy == {name: told for name, told in contents(original).items() if name.startswith("orders-0/")}


def test_only_the_topics_asked_for_are_in_the_copy_and_its_checkpoints(tmp_path, original):
    a_cleaner(original, LAYERS).copy(request(topics=("orders",)), tmp_path / "copy", tool_version="1")
    assert {path.name for path in (tmp_path / "copy").iterdir() if path.is_dir()} == {"orders-0"}
    assert LogDir(tmp_path / "copy").checkpoints().high_watermarks.keys() == {("orders", 0)}
    told = json.loads((tmp_path / "copy" / MANIFEST_FILE).read_bytes())
    assert told["left_out"] == ["clicks-0"]


def test_stopped_copy_has_no_manifest(tmp_path, original):
    cleaner = a_cleaner(original, LAYERS)
    cleaner.stop()
    _, outcome = cleaner.copy(request(), tmp_path / "copy", tool_version="1")
    assert outcome.interrupted
    assert not (tmp_path / "copy" / MANIFEST_FILE).exists()


def test_symlink_in_a_partition_ends_the_copy_since_it_may_be_a_segment(tmp_path, original):
    (original / "orders-0" / f"{9:020d}.log").symlink_to(original / "meta.properties")
    with pytest.raises(Exception, match="no plain file"):
        copied(original, tmp_path / "copy")
    assert not (tmp_path / "copy" / MANIFEST_FILE).exists()


def test_copy_that_a_guard_rail_holds_back_is_not_begun(tmp_path, original):
    from tests.partition_dirs import FakeClock

    cleaner = a_cleaner(original, configured("clock.jump.max=1000", orders=COMPACT), clock=FakeClock(NOW_MS * 2))
    plan, _ = cleaner.copy(request(), tmp_path / "copy", tool_version="1")
    assert list(plan.guards)
    assert not (tmp_path / "copy").exists()


def test_what_a_repair_replaced_stays_behind(original, tmp_path):
    kept = ("leader-epoch-checkpoint.deleted", "partition.metadata.deleted", f"{0:020d}.index.deleted")
    for name in kept:
        (original / "orders-0" / name).write_bytes(b"replaced")
    to = tmp_path / "copy"
    copied(original, to)
    assert (to / "orders-0" / "leader-epoch-checkpoint").exists()
    assert not any((to / "orders-0" / name).exists() for name in kept)
