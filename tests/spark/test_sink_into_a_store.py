"""The sink into a store: the bytes that a write here makes, or a place that is told to be incomplete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.copy.copying import OutputDir
from cleaner.errors import UnusableOutput
from cleaner.spark import read_logs, register
from cleaner.spark.table.sink import KafkaLogWriter, WrittenParts
from cleaner.spark.table.source import KafkaLogSource
from cleaner.spark.table.stored_sink import SentParts, StoredLogWriter
from storage.filesystem import OutOfSpace
from storage.log import Log
from storage.names import HIGH_WATERMARK_CHECKPOINT, INCOMPLETE_FILE, LOCK_FILE, MANIFEST_FILE, DirState
from storage.stores import opening
from storage.stores.errors import StoreError, StoreFailed
from storage.stores.hdfs import Hdfs
from storage.stores.opening import store_of
from storage.stores.paths import StoredPath
from storage.uploads import OtherWriter
from tests.schemas import check
from tests.spark.test_sink import ARROW, HEADED, MOMENT, batch, row
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, Proxy, proxying
from tests.storage.stores.servers import (
    IS_OTHER,
    KEYS,
    KIND,
    OF_S3,
    QUICK,
    SCHEME,
    configuration,
    environment,
    serving,
)
from tests.storage.stores.test_copies import Destination, kill_as_it_writes, local_files
from tests.storage.stores.test_hdfs import NAMED

BUCKET = "written"
PLACE = f"{SCHEME}://{BUCKET}"
SECRET = KEYS["secret_access_key"] if IS_OTHER else "a-secret-that-nobody-shows"
OPTIONS = {"segment.bytes": "2000", "compression": "lz4"}


@pytest.fixture(scope="module")
def to() -> Iterator[Destination]:
    with serving() as url:
        yield Destination(url, BUCKET)


@pytest.fixture
def proxy(
    to: Destination, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    monkeypatch.setattr("storage.stores.objects.RETRIES", QUICK)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("scratch")))
    forget_stores()
    with proxying(to.url) as running:
        opening.configure(SCHEME, configuration(running.url))
        yield running
    forget_stores()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A directory of the test's own."""
    return f"{request.node.name.partition('[')[0]}/{abs(hash(request.node.name))}"


def writer(name: str, **options: str) -> StoredLogWriter:
    source = KafkaLogSource({"path": f"{PLACE}/{name}"} | OPTIONS | options)
    made = source.writer(from_arrow_schema(ARROW), overwrite=False)
    assert isinstance(made, StoredLogWriter)
    return made


def rows(task: int) -> pa.RecordBatch:
    """Rows of two partitions that each task has, and of one that no other task has."""
    headed = (("h", b"1", "orders", 0, MOMENT, HEADED), (None, None, "orders", 0, MOMENT, []))
    many = (row(f"k{task}-{number}", "orders", number % 2) for number in range(400))
    alone = (row(f"a{number}", f"alone{task}") for number in range(60))
    return batch(*headed, *many, *alone)


def written(sink: KafkaLogWriter, tasks: int = 3) -> list[WrittenParts]:
    """Write some tasks, the first of them twice; the commit is told of its second attempt."""
    sink.write(iter([rows(0)]))
    return [in_task(sink.write(iter([rows(task)])), task) for task in range(tasks)]


def written_here(there: StoredLogWriter, directory: Path) -> dict[str, bytes]:
    """Return the files that the same write makes on this machine. Topic ids follow from the number of a write."""
    directory.mkdir()
    here = KafkaLogWriter({"path": str(directory)} | OPTIONS, from_arrow_schema(ARROW), overwrite=False)
    here.this_write = replace(there.this_write, log_dir=directory)
    here.commit([*written(here), None])
    return {file: data for file, data in local_files(directory).items() if file != LOCK_FILE}


def few(sink: KafkaLogWriter) -> list[WrittenParts]:
    """Write two rows in each of two tasks: of a partition that both have, and of one that is the task's."""
    batches = (batch(row(f"k{task}"), row("a", f"alone{task}")) for task in range(2))
    return [in_task(sink.write(iter([each])), task) for task, each in enumerate(batches)]


def in_task(message: WrittenParts, task: int) -> WrittenParts:
    return replace(message, parts=tuple(replace(part, task=task) for part in message.parts))


@pytest.mark.parametrize("is_moved", [True, False])
def test_log_dir_has_the_bytes_of_a_write_here(
    to: Destination, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, is_moved: bool
) -> None:
    there = writer(name)
    if not is_moved:
        monkeypatch.setattr(store_of(PLACE), "moves_files", False)
    wanted = written_here(there, tmp_path / "here")
    there.commit([*written(there), None])
    found = to.files(name)
    manifest = json.loads(found.pop(MANIFEST_FILE))
    check(manifest)
    assert found.keys() == wanted.keys()
    assert [file for file in wanted if wanted[file] != found[file]] == []
    assert {file.partition("/")[0] for file in wanted} == {
        "orders-0", "orders-1", "alone0-0", "alone1-0", "alone2-0", HIGH_WATERMARK_CHECKPOINT,
    }  # fmt: skip
    assert sum(file.startswith("orders-0/") and file.endswith(".log") for file in wanted) > 3
    assert (manifest["engine"], manifest["original"]) == ("spark", f"{PLACE}/{name}")
    assert {f"{found['topic']}-{found['partition']}": found["log_end_offset"] for found in manifest["partitions"]} == {
        "orders-0": 606, "orders-1": 600, "alone0-0": 60, "alone1-0": 60, "alone2-0": 60,
    }  # fmt: skip
    assert to.unfinished() == []
    gets = [path for method, path, _ in proxy.traffic.requests if method == "GET" and "-delete/" in path]
    assert any("logcleaner-0." in path for path in gets)
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@OF_S3
def test_frame_comes_back_from_the_store_and_from_what_was_fetched(
    spark: Any, to: Destination, proxy: Proxy, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The session names the store and its keys: neither the driver's environment nor that of a worker does."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in (("access.key", KEYS["access_key_id"]), ("secret.key", SECRET), ("endpoint", to.url),
                       ("endpoint.region", KEYS["region"])):  # fmt: skip
        hadoop.set(f"fs.s3a.{key}", value)
    register(spark)
    made = ("if(id % 7 = 0, null, binary(concat('k', id % 10))) key", "binary(string(id)) value", "'orders' topic",
            "int(id % 3) partition", "timestamp_millis(1794982000000 + id) timestamp",
            "array(struct('h' as key, binary('1') as value)) headers")  # fmt: skip
    frame = spark.range(0, 300, 1, 2).selectExpr(*made)
    frame.write.format("kafka-log").mode("append").options(**OPTIONS).save(f"s3a://{BUCKET}/frame")
    assert main(["fetch", f"{PLACE}/frame", str(tmp_path / "frame")]) == ExitStatus.DONE
    assert main(["verify", "--deep", f"{PLACE}/frame"]) == ExitStatus.DONE
    assert main(["verify", "--deep", str(tmp_path / "frame")]) == ExitStatus.DONE
    assert main(["diff", f"{PLACE}/frame", str(tmp_path / "frame")]) == ExitStatus.DONE
    (tmp_path / "frame/meta.properties").write_text("version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=1\n")
    main(["preflight", "--log-dir", str(tmp_path / "frame")])
    out, _ = capfd.readouterr()
    assert "will start on these log dirs" in out
    for place in (f"{PLACE}/frame", str(tmp_path / "frame")):
        columns = ["key", "value", "topic", "partition", "timestamp", "headers"]
        found = read_logs(spark, place, columns=columns)
        assert sorted(map(str, found.collect())) == sorted(map(str, frame.collect()))
    with pytest.raises(Exception, match="holds a finished log dir already; name another directory") as raised:
        frame.write.format("kafka-log").mode("append").save(f"s3a://{BUCKET}/frame")
    failing = frame.selectExpr("key", "if(partition = 2, raise_error('on purpose'), value) value", "topic")
    with pytest.raises(Exception, match="on purpose"):
        failing.write.format("kafka-log").mode("append").save(f"s3a://{BUCKET}/failed")
    assert to.files("failed") == {}
    told = "".join(capfd.readouterr())
    assert SECRET not in out + told + str(raised.value)


def test_frame_without_rows_is_a_log_dir_without_partitions(to: Destination, proxy: Proxy, name: str) -> None:
    sink = writer(name)
    sink.commit([sink.write(iter([])), None])
    assert to.files(name).keys() == {HIGH_WATERMARK_CHECKPOINT, MANIFEST_FILE}
    assert main(["verify", f"{PLACE}/{name}"]) == ExitStatus.DONE


@pytest.mark.parametrize(
    ("lies_there", "line"),
    [
        (MANIFEST_FILE, "holds a finished log dir already; name another directory, or remove this one"),
        (
            INCOMPLETE_FILE,
            "holds an incomplete log dir: a copy or a write of Spark was interrupted, or is still under way; name",
        ),
        ("orders-0/0.log", "is not empty; name a new or an empty one"),
    ],
)
def test_place_with_something_in_it_is_refused(
    to: Destination, proxy: Proxy, name: str, lies_there: str, line: str
) -> None:
    obstore.put(to.store, f"{name}/{lies_there}", b"")
    with pytest.raises(UnusableOutput, match=line):
        writer(name)
    assert to.files(name).keys() == {lies_there}


def test_write_that_is_given_up_leaves_an_empty_place(to: Destination, proxy: Proxy, name: str) -> None:
    sink = writer(name)
    few(sink)
    assert INCOMPLETE_FILE in to.files(name)
    sink.abort([None])
    assert to.files(name) == {}
    writer(name)


def test_driver_that_is_killed_half_way_leaves_an_incomplete_place(
    to: Destination, proxy: Proxy, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = f"from tests.spark.test_sink_into_a_store import *; sink = writer({name!r}); sink.commit(few(sink))"
    kill_as_it_writes([sys.executable, "-c", code], proxy, "/orders-0/", TMPDIR=tempfile.gettempdir())
    assert MANIFEST_FILE not in to.files(name)
    assert any(file.startswith("alone0-0/") for file in to.files(name))
    with pytest.raises(UnusableOutput, match="holds an incomplete log dir"):
        writer(name)
    assert main(["fetch", f"{PLACE}/{name}", "nowhere"]) == ExitStatus.FAILED
    assert "an incomplete log dir: a copy or a write of Spark was interrupted" in capsys.readouterr().err
    assert len(list(Path(tempfile.gettempdir()).glob("logcleaner-*"))) == 1
    few(writer(f"{name}-2"))
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@OF_S3
@pytest.mark.slow
def test_task_whose_worker_is_killed_succeeds_anew_and_removes_what_the_killed_one_left(
    to: Destination, proxy: Proxy, name: str
) -> None:
    command = [sys.executable, "-m", "tests.spark.killed_worker", f"{PLACE}/{name}"]
    environ = os.environ | environment(to.url) | {"TMPDIR": tempfile.gettempdir()}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Lost task 0.0" in done.stderr or "exited unexpectedly" in done.stderr
    assert list(Path(tempfile.gettempdir()).glob("logcleaner-*")) == []
    assert main(["verify", f"{PLACE}/{name}"]) == ExitStatus.DONE


def test_task_beside_another_leaves_the_scratch_of_that_one(to: Destination, proxy: Proxy, name: str) -> None:
    def rows_beside() -> Iterator[pa.RecordBatch]:
        yield batch(row("first"))
        few(writer(f"{name}-2"))
        yield batch(row("second"))

    sink = writer(name)
    sink.commit([sink.write(rows_beside())])
    assert to.files(name).keys() > {MANIFEST_FILE, HIGH_WATERMARK_CHECKPOINT}


@pytest.mark.parametrize("is_shared", [True, False])
def test_directory_that_may_be_in_use_is_left(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str, is_shared: bool
) -> None:
    """A task has not locked it yet, or it lies where other machines have tasks, too."""
    directory = Path(tempfile.mkdtemp(prefix="logcleaner-spark-"))
    if is_shared:
        (directory / "lock").touch()
        monkeypatch.setattr("cleaner.spark.table.stored_sink.shared_type", lambda _: "nfs4")
    few(writer(name))
    assert list(Path(tempfile.gettempdir()).iterdir()) == [directory]


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.DENIED, Fault.FULL])
@pytest.mark.parametrize("at", ["orders-0/", "alone1-0/", HIGH_WATERMARK_CHECKPOINT, MANIFEST_FILE])
def test_store_that_fails_in_the_commit_leaves_no_log_dir(
    to: Destination, proxy: Proxy, name: str, at: str, fault: Fault
) -> None:
    """The place is empty again, unless the store does not answer any more: then it is incomplete."""
    sink = writer(name)
    messages = few(sink)
    proxy.fault = lambda method, path: fault if method == "PUT" and f"/{name}/{at}" in path else Fault.NONE
    with pytest.raises(StoreError):
        sink.commit(messages)
    there = to.files(name)
    assert MANIFEST_FILE not in there
    assert INCOMPLETE_FILE in there
    forget_given_up()
    sink.abort(messages)
    left = to.files(name).keys()
    assert not [file for file in left if DirState.DELETE.value in file]
    assert left == set() or (INCOMPLETE_FILE in left and (fault is Fault.SLOW_DOWN or at == MANIFEST_FILE))


def forget_given_up() -> None:
    """Have a store asked again that did not answer: the abort runs in another process."""
    given = dict(opening.configured(SCHEME))
    forget_stores()
    opening.configure(SCHEME, given)


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.DENIED])
def test_mark_that_cannot_be_removed_leaves_the_log_dir_whole(
    to: Destination, proxy: Proxy, name: str, fault: Fault
) -> None:
    sink = writer(name)
    messages = few(sink)
    proxy.fault = lambda method, path: (
        fault if has_sent(proxy, MANIFEST_FILE) and is_deletion(method, path) else Fault.NONE
    )
    if fault is Fault.DENIED:
        sink.commit(messages)
    else:
        with pytest.raises(StoreError):
            sink.commit(messages)
        forget_given_up()
        sink.abort(messages)
    there = to.files(name)
    assert {MANIFEST_FILE, INCOMPLETE_FILE, HIGH_WATERMARK_CHECKPOINT} <= there.keys()
    assert [entry["path"] for found in json.loads(there[MANIFEST_FILE])["partitions"] for entry in found["files"]
            if sha256(there[entry["path"]]).hexdigest() != entry["sha256"]] == []  # fmt: skip


def has_sent(proxy: Proxy, name: str) -> bool:
    return any(name in path and method in ("PUT", "POST") for method, path, _ in proxy.traffic.requests)


def is_deletion(method: str, path: str) -> bool:
    return method == "DELETE" or (KIND.deletion in path and method == "POST")


def test_late_attempt_of_a_task_changes_nothing(
    to: Destination, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sink = writer(name)
    messages = few(sink)
    settle = OutputDir.settle

    def late(output: OutputDir) -> None:
        assert not [file for file in to.files(name) if DirState.DELETE.value in file]
        obstore.put(
            to.store, f"{name}/logcleaner-0.{sink.this_write.job}{'f' * 16}-delete/{HIGH_WATERMARK_CHECKPOINT}", b"0"
        )
        settle(output)

    monkeypatch.setattr(OutputDir, "settle", late)
    sink.commit(messages)
    there = to.files(name)
    manifest = json.loads(there[MANIFEST_FILE])
    listed = {entry["path"] for found in (manifest, *manifest["partitions"]) for entry in found["files"]}
    assert {file for file in there if DirState.DELETE.value not in file} == listed | {MANIFEST_FILE}
    assert not [file for file in listed if DirState.DELETE.value in file]
    assert main(["verify", f"{PLACE}/{name}"]) == ExitStatus.DONE


@pytest.mark.parametrize("file", ["orders-0/more", "more", INCOMPLETE_FILE])
def test_place_that_somebody_else_writes_to_becomes_no_log_dir(
    to: Destination, proxy: Proxy, name: str, file: str
) -> None:
    sink = writer(name)
    messages = few(sink)
    obstore.put(to.store, f"{name}/{file}", b"of another")
    with pytest.raises(OtherWriter, match=f"{name}/{file}: it was not written here"):
        sink.commit(messages)
    sink.abort(messages)
    assert to.files(name) == ({file: b"of another"} if file == INCOMPLETE_FILE else to.files(name))
    assert {INCOMPLETE_FILE, file} == to.files(name).keys()


def test_part_that_was_replaced_is_not_taken(to: Destination, proxy: Proxy, name: str) -> None:
    sink = writer(name)
    messages = few(sink)
    part = next(part for part in messages[1].parts if part.topic_partition.topic == "orders")
    file = f"{part.directory.name}/00000000000000000000.log"
    obstore.put(to.store, f"{name}/{file}", b"of another")
    with pytest.raises(OtherWriter, match=f"{file}: another version lies there: another process writes there, too"):
        sink.commit(messages)
    assert MANIFEST_FILE not in to.files(name)


def test_part_that_comes_otherwise_than_it_was_sent_is_not_taken(to: Destination, proxy: Proxy, name: str) -> None:
    sink = writer(name)
    first, second = few(sink)
    assert isinstance(first, SentParts)
    other = replace(first, sent=tuple(file._replace(sha256="0" * 64) for file in first.sent))
    with pytest.raises(StoreFailed, match="other bytes came than were sent"):
        sink.commit([other, second])
    sink.abort([other, second])
    assert to.files(name) == {}


def test_full_disk_of_a_worker_is_told(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def full(directory: Path, *_: Any, **__: Any) -> None:
        raise OutOfSpace(directory, 1)

    sink = writer(name)
    monkeypatch.setattr(Log, "create", full)
    with pytest.raises(OutOfSpace, match="no space for 1 bytes; make room there, or name another directory as TMPDIR"):
        sink.write(iter([rows(0)]))


@pytest.mark.skipif(NAMED not in os.environ, reason=f"NOT RUN: {NAMED} names no cluster")
@pytest.mark.parametrize("is_moved", [True, False])
def test_log_dir_in_a_real_cluster_has_the_bytes_of_a_write_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_moved: bool
) -> None:
    place = StoredPath(f"{os.environ[NAMED]}/written-{uuid4().hex}")
    monkeypatch.setattr(Hdfs, "moves_files", is_moved)
    there = StoredLogWriter({"path": str(place)} | OPTIONS, from_arrow_schema(ARROW), {}, overwrite=False)
    wanted = written_here(there, tmp_path / "here")
    there.commit(written(there))
    assert main(["fetch", str(place), str(tmp_path / "fetched")]) == ExitStatus.DONE
    found = local_files(tmp_path / "fetched")
    del found[MANIFEST_FILE]
    assert found == wanted
    assert {path.name for path in place.iterdir()} == {MANIFEST_FILE, *(name.split("/")[0] for name in wanted)}
    given_up = StoredLogWriter({"path": f"{place}-2"} | OPTIONS, from_arrow_schema(ARROW), {}, overwrite=False)
    given_up.abort(few(given_up))
    assert store_of(place.place).list(f"{place.key}-2") == []
