"""``export`` on small log dirs: what it prints, what it refuses, what it leaves behind."""

from __future__ import annotations

import gc
import hashlib
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cleaner.cli.main import main
from cleaner.export import jsonl
from tests.cleaner.cli.test_main import HEAVY, ROOT, imported_by
from tests.partition_dirs import PartitionDir, keyed

SPARK_ONLY = {"pyspark", "py4j"}


@pytest.fixture
def orders(tmp_path: Path) -> PartitionDir:
    return PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "b=2")).segment(2, keyed(2, "c=3"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.mkdir()
    return path


def run(orders: PartitionDir, to: str, file: Path | str, *options: str, partition: str = "orders-0") -> int:
    return main(["export", partition, "--to", to, str(file), "--log-dir", str(orders.path.parent), *options])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on stderr: one line."""
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_what_was_written_is_told_in_a_line_and_nothing_has_changed(
    orders: PartitionDir, out: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state_of(orders.path.parent)
    file = out / f"orders.{to}"
    assert run(orders, to, file) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("orders-0: 3 records of offsets 0 to 2, ")
    assert said.out.endswith(f" in {file}\n")
    assert [path.name for path in out.iterdir()] == [file.name]
    assert state_of(orders.path.parent) == before


def state_of(directory: Path) -> dict[str, tuple[str, int]]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def test_document_for_machines(orders: PartitionDir, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(orders, "jsonl", out / "o", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "logcleaner.export/1", "topic": "orders", "partition": 0, "log_dir": str(orders.path.parent),
        "format": "jsonl", "file": str(out / "o"), "start_offset": 0, "end_offset": 3, "records": 3,
        "bytes": (out / "o").stat().st_size,
    }  # fmt: skip


def test_a_dash_is_stdout(orders: PartitionDir, out: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(orders, "jsonl", out / "o") == 0
    capfdbinary.readouterr()
    assert run(orders, "jsonl", "-") == 0
    assert capfdbinary.readouterr().out == (out / "o").read_bytes()


@pytest.mark.parametrize(("to", "options", "names"), [("parquet", (), "--to jsonl"), ("jsonl", ("--json",), "--json")])
def test_what_does_not_go_with_stdout_is_wrong_usage(
    orders: PartitionDir, to: str, options: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, to, "-", *options) == 2
    assert names in told(capsys)


def test_a_file_that_is_there_is_not_replaced(
    orders: PartitionDir, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "o").write_text("mine")
    assert run(orders, "jsonl", out / "o") == 2
    assert f"{out / 'o'}: is there already, and is not replaced; name another file" in told(capsys)
    assert (out / "o").read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_replaced(
    orders: PartitionDir, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = jsonl.JsonLinesWriter.finish

    def finish_late(writer: jsonl.JsonLinesWriter) -> None:
        finish(writer)
        (out / "o").write_text("mine")

    monkeypatch.setattr(jsonl.JsonLinesWriter, "finish", finish_late)
    assert run(orders, "jsonl", out / "o") == 2
    assert {path.name: path.read_text() for path in out.iterdir()} == {"o": "mine"}


def test_a_directory_that_is_not_there_is_named(
    orders: PartitionDir, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "jsonl", out / "none/o") == 2
    assert f"{out / 'none'} is no directory; make it first" in told(capsys)


@pytest.mark.parametrize("below", [".", "orders-0"])
def test_nothing_is_written_into_the_log_dir(
    orders: PartitionDir, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state_of(orders.path.parent)
    assert run(orders, "jsonl", orders.path.parent / below / "o") == 2
    assert "lies in the log dir" in told(capsys)
    assert state_of(orders.path.parent) == before


def test_a_partition_that_is_nowhere_is_wrong_usage(
    orders: PartitionDir, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "jsonl", out / "o", partition="orders-7") == 2
    assert "TOPIC-PARTITION = 'orders-7': is in none of the log dirs" in told(capsys)


def test_a_partition_that_two_log_dirs_have_is_wrong_usage(
    orders: PartitionDir, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PartitionDir(tmp_path / "other").segment(0, keyed(0, "a=1"))
    assert run(orders, "jsonl", out / "o", str(tmp_path / "other")) == 2
    assert f"lies in {tmp_path / 'data'} and {tmp_path / 'other'} (replicas?)" in told(capsys)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_a_damaged_batch_is_named_and_no_file_is_left(
    orders: PartitionDir, out: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(orders.log(2).read_bytes())
    data[-1] ^= 1
    orders.log(2).write_bytes(data)
    assert run(orders, to, out / "o") == 1
    gc.collect()
    assert told(capsys).startswith(f"logcleaner: {orders.log(2)} at byte 0: CRC-32C mismatch; if another replica is in")
    assert list(out.iterdir()) == []


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_a_disk_that_is_full_is_told_and_no_file_is_left(
    orders: PartitionDir, out: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with files_of_at_most(100):
        status = run(orders, to, out / "o")
    gc.collect()
    assert (status, list(out.iterdir())) == (1, [])
    assert f"{out / 'o'}: cannot be written: File too large" in told(capsys)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_no_file_is_left(tmp_path: Path, out: Path, number: signal.Signals, status: int) -> None:
    made = PartitionDir(tmp_path / "data")
    for base in range(0, 200_000, 10_000):
        made.segment(base, keyed(base, *(f"k{place}={'v' * 50}" for place in range(10_000))))
    command = ["export", "orders-0", "--to", "jsonl", str(out / "o"), "--log-dir", str(tmp_path / "data")]
    process = subprocess.Popen([sys.executable, "-m", "cleaner", *command], cwd=ROOT)
    while not list(out.iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(120) == status
    assert list(out.iterdir()) == []


def test_without_pyarrow_the_extra_is_named(
    orders: PartitionDir, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "cleaner.export.parquet", raising=False)
    assert run(orders, "parquet", out / "o") == 1
    assert "--to parquet needs pyarrow, which is not installed; pip install '.[parquet]'" in told(capsys)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(("to", "without"), [("jsonl", SPARK_ONLY | {"pyarrow", "numba"}), ("parquet", SPARK_ONLY)])
def test_it_needs_no_spark_and_json_lines_no_arrow(orders: PartitionDir, out: Path, to: str, without: set[str]) -> None:
    command = ("export", "orders-0", "--to", to, str(out / "o"), "--log-dir", str(orders.path.parent))
    assert imported_by(*command) & without == set()


def test_help_loads_nothing_heavy() -> None:
    assert imported_by("export", "--help") & HEAVY == set()


def test_whoever_reads_stdout_may_go_away(orders: PartitionDir) -> None:
    command = f"{sys.executable} -m cleaner export orders-0 --to jsonl - --log-dir {orders.path.parent} | true"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (("--offset", "1..2"), ["2", "3"]),
        (("--offset", "2.."), ["3"]),
        (("--offset", "7.."), []),
        (("--key", "b"), ["2"]),
        (("--timestamp", "..2100-01-01"), ["1", "2", "3"]),
        (("--timestamp", "2100-01-01.."), []),
    ],
)
@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_selected_records_are_exported(
    orders: PartitionDir, out: Path, to: str, options: tuple[str, ...], values: list[str]
) -> None:
    file = out / "selected"
    assert run(orders, to, file, *options) == 0
    if to == "parquet":
        found = [value.decode() for value in pq.read_table(file).column("value").to_pylist()]
    else:
        found = [json.loads(line)["value"] for line in file.read_text().splitlines()]
    assert found == values


def test_what_others_must_not_see_is_left_out_of_json_lines(
    orders: PartitionDir, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "jsonl", out / "redacted", "--redact", "values", "--offset", "0") == 0
    (line,) = map(json.loads, (out / "redacted").read_text().splitlines())
    assert (line["key"], line["value"], line["valueEncoding"]) == ("a", None, "redacted")
    capsys.readouterr()
    assert run(orders, "parquet", out / "no", "--redact", "values") == 2
    assert "needs --to jsonl" in told(capsys)
