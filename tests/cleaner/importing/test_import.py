"""What was exported comes back as it was; what is damaged imports nothing; a kill leaves nothing that counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means
from cleaner.importing.building import BATCH_BYTES, NoSpaceToImport, batches, build, private_name
from cleaner.importing.inputs import Inputs
from cleaner.importing.records import ImportedRecord
from policies.config.policy import TopicPolicy
from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem, Purpose
from storage.log import Log, LogConfig
from storage.log.leader_epochs import read_leader_epochs, read_topic_id
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from storage.records import Record, encode_batch
from tests.batches import iter_batches
from tests.conftest import Samples
from tests.crash.acts import DIRECTORY_ID
from tests.faults import FullDisk, crashes
from tests.partition_dirs import NOW_MS, PartitionDir, committed

FORMATS = ("jsonl", "parquet")
ORDERS = TopicPartition("orders", 0)
HEADERS = ((b"trace", b"\x01\x02"), (b"none", None), (b"empty", b""), (b"trace", "ü".encode()))

# What a log that is flushed leaves in the directory above its own; no loader asks for it there.
RECOVERY_POINTS = {RECOVERY_POINT_CHECKPOINT, f"{RECOVERY_POINT_CHECKPOINT}.tmp"}


def a_source(path: Path) -> Path:
    """Every kind of field, every codec, both types of timestamps, and gaps in a batch, between batches and segments."""
    batches = []
    for place, codec in enumerate(Compression):
        base = 7 + 10 * place
        records = [
            Record(base, NOW_MS - place, None, b"without a key"),
            Record(base + 1, NOW_MS - 5, b"", b""),
            Record(base + 4, NOW_MS + 5, b"k", None, HEADERS),
            Record(base + 5, 0, b"\xff\xfe", "ä\n\"\\\u2028".encode(), ((b"\xff", b"x"),) if place else ()),
        ]  # fmt: skip
        batches.append(encode_batch(records, compression=codec))
    stamped = [Record(90 + place, NOW_MS + 9, b"s", b"%d" % place) for place in range(3)]
    later = [Record((1 << 33) + place, -1, b"far", b"away") for place in range(2)]
    made = PartitionDir(path, "orders-0").segment(7, *batches)
    made.segment(90, encode_batch(stamped, log_append_time_ms=NOW_MS + 9)).segment(1 << 33, encode_batch(later))
    return committed(path, made)


def a_target(path: Path) -> Path:
    path.mkdir()
    ids = f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={DIRECTORY_ID}\n"
    (path / "meta.properties").write_text(ids)
    return path


def run(*words: object) -> int:
    return main([str(word) for word in words])


def exported(log_dir: Path, to: str, file: Path, *options: str, name: str = "orders-0") -> Path:
    assert run("export", name, "--to", to, file, "--log-dir", log_dir, *options) == 0
    return file


def imported(file: Path, log_dir: Path, *options: str, name: str = "orders-0") -> int:
    return run("import", file, "--to-dir", log_dir, *options, name)


def names_in(log_dir: Path) -> set[str]:
    return {path.name for path in log_dir.iterdir()} - {".lock"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return a_source(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return a_target(tmp_path / "target")


@pytest.fixture
def lines(source: Path, tmp_path: Path) -> list[bytes]:
    return exported(source, "jsonl", tmp_path / "lines").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Compression])
@pytest.mark.parametrize("to", FORMATS)
def test_export_import_export_gives_the_same(source: Path, target: Path, tmp_path: Path, to: str, codec: str) -> None:
    first = exported(source, to, tmp_path / f"first.{to}")
    assert imported(first, target, "--compression-type", codec) == 0
    second = exported(target, to, tmp_path / f"second.{to}")
    plain = exported(target, "jsonl", tmp_path / "plain")
    assert plain.read_bytes() == exported(source, "jsonl", tmp_path / "wanted").read_bytes()
    if to == "jsonl":
        assert second.read_bytes() == first.read_bytes()
    log = Log.open(target / "orders-0", LogConfig(), FileSystem())
    assert (log.log_start_offset, log.log_end_offset) == (7, (1 << 33) + 2)
    assert {batch.header.compression.name.lower() for batch in log.read()} == {codec}
    for batch in log.read():
        batch.ensure_valid()


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("partition", ["before/orders-0", "after/payments-0", "after2/ledger-0", "before/single-0"])
def test_log_of_a_broker_comes_back(samples: Samples, target: Path, tmp_path: Path, partition: str, to: str) -> None:
    log_dir, name = (samples.root / partition).parent, Path(partition).name
    assert imported(exported(log_dir, to, tmp_path / "file", name=name), target, name=name) == 0
    found = exported(target, "jsonl", tmp_path / "found", name=name)
    assert found.read_bytes() == exported(log_dir, "jsonl", tmp_path / "wanted", name=name).read_bytes()


@pytest.mark.parametrize("to", FORMATS)
def test_control_records_are_left_out_and_told(
    samples: Samples, target: Path, tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = samples.root / "before"
    file = exported(log_dir, to, tmp_path / "file", "--include-metadata", name="payments-0")
    assert imported(file, target, name="payments-0") == 0
    assert "control records of the input left out" in capsys.readouterr().out
    plain = exported(log_dir, "jsonl", tmp_path / "plain", name="payments-0")
    assert exported(target, "jsonl", tmp_path / "found", name="payments-0").read_bytes() == plain.read_bytes()


def test_largest_offset_that_is_imported_can_be_read(target: Path, tmp_path: Path, lines: list[bytes]) -> None:
    (tmp_path / "far").write_bytes(lines[0].replace(b'"offset":7', b'"offset":9223372034707292159'))
    assert imported(tmp_path / "far", target) == 0
    found = exported(target, "jsonl", tmp_path / "found").read_bytes()
    assert found == (tmp_path / "far").read_bytes()


@pytest.mark.parametrize("to", FORMATS)
def test_progress_hears_of_every_byte_of_the_input(source: Path, tmp_path: Path, to: str) -> None:
    file = exported(source, to, tmp_path / "exported")
    heard: list[int] = []
    inputs = Inputs([file], heard.append)
    assert sum(1 for _ in inputs.records()) == len(heard) > 0
    assert inputs.size_bytes == file.stat().st_size
    assert 0 <= inputs.size_bytes - sum(heard) < (1 if to == "jsonl" else len(heard))  # rows share a Parquet file


def test_several_files_are_one_input(source: Path, target: Path, tmp_path: Path, lines: list[bytes], capsys) -> None:
    parts = [tmp_path / "first", tmp_path / "second"]
    for part, some in zip(parts, (lines[:9], lines[9:]), strict=True):
        part.write_bytes(b"".join(some))
    assert run("import", *reversed(parts), "--to-dir", target, "orders-0") == 1
    assert "name the files in the order of their offsets" in capsys.readouterr().err
    assert run("import", *parts, "--to-dir", target, "orders-0") == 0
    assert exported(target, "jsonl", tmp_path / "found").read_bytes() == b"".join(lines)


def test_what_a_broker_needs_is_there(source: Path, target: Path, tmp_path: Path) -> None:
    stale = {ORDERS: 1 << 40, TopicPartition("other", 1): 5}
    for name in (LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        (target / name).write_bytes(format_offset_checkpoint(stale))
    assert imported(exported(source, "jsonl", tmp_path / "file"), target) == 0
    found, end = LogDir(target), (1 << 33) + 2
    for name, line in {
        LOG_START_OFFSET_CHECKPOINT: None,
        CLEANER_OFFSET_CHECKPOINT: None,
        HIGH_WATERMARK_CHECKPOINT: end,
        RECOVERY_POINT_CHECKPOINT: end,
    }.items():
        assert found.offsets(name).get(ORDERS) == line, name
    assert found.offsets(HIGH_WATERMARK_CHECKPOINT)[TopicPartition("other", 1)] == 5
    assert read_leader_epochs(target / "orders-0") == [(0, 7)]
    assert read_topic_id(target / "orders-0")
    assert (target / "orders-0").stat().st_mode == target.stat().st_mode
    assert run("verify", "orders-0", "--log-dir", target) == 0


DAMAGES = {
    "cut within a line": (lambda lines: b"".join(lines)[:-9], "was cut short"),
    "cut before the line break": (lambda lines: b"".join(lines)[:-1], "was cut short"),
    "empty": (lambda _: b"", "holds no record"),
    "no JSON": (lambda lines: lines[0] + b"{\n" + lines[1], "line 2: is no JSON object"),
    "not UTF-8": (lambda lines: lines[0] + b'{"key":"\xff"}\n', "line 2: is no JSON object"),
    "a list": (lambda lines: b"[]\n", "line 1: is no JSON object"),
    "an offset twice": (
        lambda lines: lines[0] + lines[0],
        "line 2: offset 7 follows offset 7: export wrote no such file",
    ),
    "offsets that fall": (lambda lines: lines[1] + lines[0], "line 2: offset 7 follows offset 8"),
    "another partition": (
        lambda lines: lines[0] + lines[1].replace(b'"orders"', b'"other"'),
        "one partition at a time",
    ),
    "no base64": (lambda lines: lines[3].replace(b'"//4="', b'"//4"'), "the key is no base64"),
    "another encoding": (lambda lines: lines[0].replace(b'"utf-8"', b'"latin"'), "no valueEncoding"),
    "an offset below 0": (lambda lines: lines[0].replace(b'"offset":7', b'"offset":-7'), "offset is -7"),
    "a time beyond int64": (lambda lines: lines[0].replace(str(NOW_MS).encode(), b"9" * 20), "timestamp is 9999"),
    "half a surrogate pair": (lambda lines: lines[0].replace(b"without", b"\\ud800"), "the value is no UTF-8"),
    "the last offset of int64": (
        lambda lines: lines[0].replace(b'"offset":7', b'"offset":9223372036854775807'),
        "line 1: offset 9223372036854775807 is too large: no log that holds it can be read",
    ),
    "the first one that no reader takes": (
        lambda lines: lines[0].replace(b'"offset":7', b'"offset":9223372034707292160'),
        "line 1: offset 9223372034707292160 is too large",
    ),
    "no headers": (lambda lines: lines[0].replace(b'"headers"', b'"header"'), "no list of headers"),
}


@pytest.mark.parametrize("story", DAMAGES)
def test_damaged_lines_import_nothing(
    target: Path, tmp_path: Path, lines: list[bytes], story: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, told = DAMAGES[story]
    (file := tmp_path / "damaged").write_bytes(damage(lines))
    before = names_in(target)
    for option in ("--dry-run", "--json"):
        capsys.readouterr()
        assert imported(file, target, option) == 1
        error = capsys.readouterr().err
        assert told in error
        assert "nothing was imported" in error
    assert names_in(target) == before


def test_export_says_what_a_transaction_that_nobody_ended_holds_back(samples: Samples, tmp_path: Path, capsys) -> None:
    for level, is_told in (("read_committed", True), ("read_uncommitted", False)):
        exported(samples.root / "before", "jsonl", tmp_path / level, "--isolation-level", level, name="payments-0")
        told = (
            "payments-0: stopped at the last stable offset 6080: the log has offsets up to 12129, behind a transaction"
        )
        assert (told in capsys.readouterr().err) is is_told


@pytest.mark.parametrize(("step", "told"), [("move_dir", "nothing was imported"), ("remove_dir", "there, and whole")])
def test_ctrl_c_says_whether_the_partition_is_there(target, tmp_path, lines, monkeypatch, capsys, step, told) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FileSystem, step, stopped)
    assert imported(tmp_path / "lines", target) == 130
    assert told in capsys.readouterr().err
    assert (target / "orders-0").exists() is (step == "remove_dir")


def test_left_out_values_are_not_taken_for_none(source: Path, target: Path, tmp_path: Path, capsys) -> None:
    file = exported(source, "jsonl", tmp_path / "file", "--redact", "values")
    assert imported(file, target) == 1
    assert "line 1: the value was left out by --redact" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_damaged_parquet_imports_nothing(source: Path, target: Path, tmp_path: Path, place: float, how: str) -> None:
    file = exported(source, "parquet", tmp_path / "file")
    whole, before = file.read_bytes(), names_in(target)
    at = int(len(whole) * place) - 1
    flipped = bytes([*whole[:at], whole[at] ^ 0x10, *whole[at + 1 :]])
    file.write_bytes(whole[:at] if how == "cut" else flipped)
    status = imported(file, target)
    if status == 0:  # a byte of the footer that says nothing of records
        found = exported(target, "jsonl", tmp_path / "found").read_bytes()
        assert found == exported(source, "jsonl", tmp_path / "wanted").read_bytes()
    else:
        assert (status, names_in(target)) == (1, before)


def test_parquet_of_others_is_refused(target: Path, tmp_path: Path, capsys) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"offset": [1]}), tmp_path / "other.parquet")
    assert imported(tmp_path / "other.parquet", target) == 1
    assert "has no column key of type binary: export did not write it" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["", ".0123456789abcdef0123456789abcdef-future"])
def test_partition_that_exists_in_any_log_dir_is_refused(
    source: Path, target: Path, tmp_path: Path, suffix: str, capsys
) -> None:
    other = a_target(tmp_path / "other")
    (other / f"orders-0{suffix}").mkdir()
    file, before = exported(source, "jsonl", tmp_path / "file"), names_in(target)
    words = ("import", file, "orders-0", "--to-dir", target, "--log-dir", target, other)
    assert (run(*words), run(*words, "--dry-run")) == (2, 2)
    assert "exists; import makes new partitions only" in capsys.readouterr().err
    assert names_in(target) == before


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("FILE", "orders-0", "--log-dir", "TARGET", "OTHER"), 2, "--to-dir: say which log dir gets the partition"),
        (("FILE", "orders-0", "--to-dir", "FILE", "--log-dir", "TARGET"), 2, "is none of the log dirs"),
        (("nowhere", "orders-0", "--to-dir", "TARGET"), 2, "nowhere: cannot be read"),
        (("FILE", "__cluster_metadata-0", "--to-dir", "TARGET"), 2, "only Kafka's quorum may write"),
        (("FILE", "__consumer_offsets-0", "--to-dir", "TARGET"), 2, "only Kafka's coordinators may write"),
        (("FILE", "__transaction_state-0", "--to-dir", "TARGET"), 2, "only Kafka's coordinators may write"),
        (("FILE", "orders", "--to-dir", "TARGET"), 2, "is no partition"),
        (("FILE", "orders-0", "--to-dir", "nowhere"), 6, "does not exist"),
    ],
)
def test_wrong_usage_imports_nothing(source, target, tmp_path, words, status, told, capsys) -> None:
    places = {
        "FILE": exported(source, "jsonl", tmp_path / "file"),
        "TARGET": target,
        "OTHER": a_target(tmp_path / "other"),
    }
    before = names_in(target)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        found = main(["import", *(str(places.get(word, word)) for word in words)])
    assert (found, names_in(target)) == (status, before)
    assert told in capsys.readouterr().err


def test_dry_run_tells_the_same_and_writes_nothing(source: Path, target: Path, tmp_path: Path, capsys) -> None:
    file, before = exported(source, "jsonl", tmp_path / "file"), names_in(target)
    said: list[dict[str, Any]] = []
    for options in (("--dry-run", "--json"), ("--json",)):
        capsys.readouterr()
        assert imported(file, target, *options) == 0
        said.append(json.loads(capsys.readouterr().out))
        if "--dry-run" in options:
            assert names_in(target) == before
    same = {"topic", "partition", "log_dir", "records", "log_start_offset", "log_end_offset", "bytes", "warning"}
    assert {key: said[0][key] for key in same} == {key: said[1][key] for key in same}
    assert (said[0]["topic_id"], said[0]["segments"]) == (None, None)
    assert "set the directory aside as -stray" in said[0]["warning"]


def test_stdin_is_read(source: Path, target: Path, lines: list[bytes]) -> None:
    command = [sys.executable, "-m", "cleaner", "import", "-", "orders-0", "--to-dir", str(target)]
    done = subprocess.run(command, input=b"".join(lines), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(Log.open(target / "orders-0", LogConfig(), FileSystem()).records())) == len(lines)


def test_a_pipe_is_read_from_its_beginning(
    source: Path, target: Path, lines: list[bytes], pipe: Callable[[bytes], Path]
) -> None:
    """A look at its first bytes, for those of Parquet, would take them out of it."""
    assert imported(pipe(b"".join(lines)), target) == 0
    assert len(list(Log.open(target / "orders-0", LogConfig(), FileSystem()).records())) == len(lines)


def building(log_dir: Path, file: Path, fs: FileSystem) -> None:
    made = batches(Inputs([file], lambda _: None).records(), Compression.NONE)
    policy = TopicPolicy(topic="orders")
    build(LogDir(log_dir), ORDERS, "AAAAAAAAAAAAAAAAAAAAZQ", policy, made, Means(fs), ensure_absent=lambda: None)


def test_crash_at_any_step_leaves_no_partition_or_a_whole_one(
    source: Path, target: Path, tmp_path: Path, lines: list[bytes]
) -> None:
    file, work, seen = tmp_path / "lines", tmp_path / "work", set()

    def act(disk: FileSystem) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(target, work)
        building(work, file, disk)

    for _ in crashes(act):
        partition, private = work / "orders-0", work / private_name(ORDERS)
        seen.add((partition.exists(), private.exists()))
        files = {path.name for path in private.glob("*") if path.is_file()}
        assert files <= RECOVERY_POINTS, "a loader would look at others"
        if partition.exists():
            assert len(list(Log.open(partition, LogConfig(), FileSystem()).records())) == len(lines)
            shutil.rmtree(partition)
        assert imported(file, work) == 0
        assert names_in(work) >= {"orders-0"}
        assert not private.exists()
    assert seen == {(False, False), (False, True), (True, True), (True, False)}


def test_killed_import_is_cleared_away_by_the_next(target: Path, tmp_path: Path, lines: list[bytes], capfd) -> None:
    command = [sys.executable, "-m", "cleaner", "import", "-", "orders-0", "--to-dir", str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as killed:
        assert killed.stdin is not None
        padded = [json.loads(line) | {"offset": 100 + place} for place, line in enumerate([lines[0]] * 9000)]
        killed.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in padded))
        killed.stdin.flush()
        while not (target / private_name(ORDERS) / "orders-0").is_dir():
            assert killed.poll() is None
        os.kill(killed.pid, signal.SIGKILL)
    assert (target / private_name(ORDERS)).is_dir()
    assert not (target / "orders-0").exists()
    run("doctor", "--log-dir", target)
    told = " ".join(capfd.readouterr().out.split())
    assert "An import that was killed" in told
    assert "The topic was deleted" not in told
    assert imported(tmp_path / "lines", target) == 0
    assert "left by an import that was killed; removed" in capfd.readouterr().err
    assert not (target / private_name(ORDERS)).exists()


@pytest.mark.parametrize("free", [0, 3, 6])
def test_full_disk_imports_nothing(source: Path, target: Path, tmp_path: Path, lines: list[bytes], free: int) -> None:
    before = names_in(target)
    purposes = frozenset({Purpose.IMPORT, Purpose.ROLL, Purpose.APPEND})
    with pytest.raises(NoSpaceToImport):
        building(target, tmp_path / "lines", FullDisk(free, purposes))
    assert names_in(target) == before


def test_history_tells_of_no_import_that_was_not_done(target: Path, tmp_path: Path, lines: list[bytes], capsys) -> None:
    with pytest.raises(NoSpaceToImport):
        building(target, tmp_path / "lines", FullDisk(0, frozenset({Purpose.CHECKPOINT})))
    assert not list(read_journal(target))
    assert imported(tmp_path / "lines", target) == 0
    shutil.rmtree(target / "orders-0")  # as if it had been killed before its last step
    capsys.readouterr()
    assert run("history", "--log-dir", target) == 0
    told = "the partition is not there: deleted since, or the import was killed"
    assert told in " ".join(capsys.readouterr().out.split())


def test_what_will_not_fit_is_not_begun(source: Path, target: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    file = exported(source, "jsonl", tmp_path / "file")
    space = LogDir(target).space()
    monkeypatch.setattr(LogDir, "space", lambda _: space._replace(free_bytes=100))
    before = names_in(target)
    assert imported(file, target) == 1
    assert "100 are free; nothing was imported" in capsys.readouterr().err
    assert names_in(target) == before


@pytest.mark.parametrize(("offset", "base_offset"), [(1, 1), (2, 1), (1 << 31, 1), (1 + (1 << 31), 1 + (1 << 31))])
def test_a_batch_begins_at_the_log_end_unless_it_cannot_span_what_is_missing(offset: int, base_offset: int) -> None:
    records = [
        ImportedRecord(Record(at, NOW_MS, b"k", bytes(BATCH_BYTES)), 0, False, ("orders", 0), "") for at in (0, offset)
    ]
    _, made = batches(records, Compression.NONE)
    assert (made.base_offset, made.next_offset) == (base_offset, offset + 1)
    (batch,) = iter_batches(made.data, Path("made"))
    assert [record.offset for record in batch.records()] == [offset]


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    record = Record(0, NOW_MS, b"k" * 10, b"v" * 1000)
    peaks = []
    for count in (3000, 12_000):
        records = (
            ImportedRecord(Record(o, NOW_MS, record.key, record.value), 0, False, ("orders", 0), "")
            for o in range(count)
        )
        tracemalloc.start()
        made = sum(batch.records for batch in batches(records, Compression.NONE))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert made == count
    assert max(peaks) < 8 * BATCH_BYTES
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("keepme.import-delete/a", "no partition, as its name says"),
        ("z-0.import-delete/notes.txt", "notes.txt"),
        ("old-0.import-delete/sub/y", "sub"),
        ("old-0.import-delete/old-1/00000000000000000000.log", "old-1"),
        ("old-0.import-delete/old-0/notes.txt", "old-0/notes.txt"),
        ("old-0.import-delete/old-0/sub/00000000000000000000.log", "old-0/sub"),
        ("old-0.import-delete/old-0", "old-0"),
        ("old-0.import-delete", "no directory"),
        ("orders-0.import-delete/notes.txt", "notes.txt"),
    ],
)
def test_what_import_did_not_write_stays_whatever_its_name(target, tmp_path, lines, capsys, name, held) -> None:
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    (target / name).write_text("mine")
    is_in_the_way = name.startswith("orders-0")
    assert imported(tmp_path / "lines", target) == (2 if is_in_the_way else 0)
    told = capsys.readouterr().err
    assert f"holds {held}, which import did not write: left as it is" in told
    assert ("move it away; nothing was imported" in told) is is_in_the_way
    assert (target / name).read_text() == "mine"


def test_symlink_in_place_of_the_private_directory_stays(target, tmp_path, lines, capsys) -> None:
    (tmp_path / "mine").mkdir()
    (target / private_name(ORDERS)).symlink_to(tmp_path / "mine")
    assert imported(tmp_path / "lines", target) == 2
    assert "holds a symlink, which import did not write: move it away; nothing was imported" in capsys.readouterr().err
    assert (target / private_name(ORDERS)).is_symlink()


def test_private_directory_of_a_long_topic_is_cleared_away(target, tmp_path, lines) -> None:
    name = f"{'t' * 249}-0"
    inner = target / private_name(TopicPartition("t" * 249, 0)) / name
    inner.mkdir(parents=True)
    (inner / f"{0:020d}.log").touch()
    assert imported(tmp_path / "lines", target) == 0
    assert not inner.parent.exists()


def test_the_empty_log_that_a_start_made_in_the_private_directory_is_cleared_away(target, tmp_path, lines) -> None:
    private = target / "orders-0.import-delete"
    (private / "orders-0").mkdir(parents=True)
    for name in (f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"):
        (private / name).touch()
    assert imported(tmp_path / "lines", target) == 0
    assert not private.exists()
