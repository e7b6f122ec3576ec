"""``verify`` beside a broker that writes, rolls, compacts and deletes all the time; then where it stopped or died.

A busy broker changes files faster than they are read: what is torn, grows or vanishes meanwhile is no damage.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.copy.manifest import read_manifest
from tests.interop import clients
from tests.interop.broker import BUSY, Broker
from tests.interop.clients import CODECS, Writer
from tests.sampled import is_whole

pytestmark = pytest.mark.kafka

COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
TOPICS: Final = {
    "busy": COMPACTED,
    "transactions": COMPACTED,
    "idempotent": {"cleanup.policy": "delete", "retention.ms": "-1"},
    "sized": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "3000"},
}
LOOKS: Final = 25 if is_whole() else 10


def test_nothing_is_found_while_a_broker_works_nor_where_it_stopped_nor_where_it_was_killed(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = tmp_path / "data"
    broker = Broker(kafka, log_dir, BUSY)
    with broker:
        clients.create_topics(broker.bootstrap, TOPICS)
        write(Writer(broker.bootstrap, random.Random(6)), "first")  # every partition is there now
        with writing(Writer(broker.bootstrap, random.Random(7))):
            for _ in range(LOOKS):
                assert found(log_dir, capsys) == []
    assert found(log_dir, capsys) == []
    with broker:
        write(Writer(broker.bootstrap, random.Random(8)), "again")
        broker.kill()
    assert [one for one in found(log_dir, capsys) if not is_being_deleted(one)] == []


def test_copy_on_which_a_broker_ran_is_not_held_against_its_manifest(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker writes, rolls, compacts and deletes segments that the manifest names."""
    copy, first = tmp_path / "copy", Broker(kafka, tmp_path / "data", BUSY)
    with first:
        clients.create_topics(first.bootstrap, TOPICS)
        write(Writer(first.bootstrap, random.Random(9)), "first")
    command = ["clean", "--only", "compaction", "--log-dir", str(first.log_dir), "--output", str(copy), "--yes"]
    assert main(command) == ExitStatus.DONE
    manifest = read_manifest(copy)
    assert manifest
    broker = Broker(kafka, copy, BUSY, first.ports)

    def lacking() -> list[dict[str, Any]]:
        capsys.readouterr()
        return [one for one in found(copy, capsys) if one["code"] == "COPY_LACKS"]

    assert lacking() == []
    with broker:
        for life in range(3):
            write(Writer(broker.bootstrap, random.Random(life)), f"life-{life}")
        assert lacking() == []
    assert any(not (copy / file.path).exists() for file in manifest.files if file.path.endswith(".log"))
    assert lacking() == []
    without_times = tmp_path / "moved"
    shutil.copytree(copy, without_times, copy_function=shutil.copyfile)
    assert [one["code"] for one in found(without_times, capsys)] == [one["code"] for one in found(copy, capsys)]
    with broker:
        broker.kill()
    assert lacking() == []


def is_being_deleted(finding: dict[str, Any]) -> bool:
    """Whether the kill fell between the rename of a ``.log`` to ``.deleted`` and what the broker writes behind it."""
    return Path(finding["path"]).with_suffix(".log.deleted").exists()


def found(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """All that a deep check tells, what could not be read included."""
    status = main(["verify", str(log_dir), "--deep", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert status in (ExitStatus.DONE, ExitStatus.DAMAGED), told["problems"]
    assert told["totals"]["partitions"] > len(TOPICS)
    findings: list[dict[str, Any]] = told["findings"]
    return findings


@contextmanager
def writing(writer: Writer) -> Iterator[None]:
    """Write to every topic, over and over, while the body runs."""
    is_over, failures = threading.Event(), []

    def work() -> None:
        life = 0
        try:
            while not is_over.is_set():
                write(writer, f"life-{life}")
                life += 1
        except Exception as error:  # told by the thread that waits
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert failures == []


def write(writer: Writer, life: str) -> None:
    for codec in CODECS:
        writer.send(writer.producer(compression_type=codec), "busy", 12)
    writer.send(writer.producer(enable_idempotence=True), "idempotent", 30)
    writer.send(writer.producer(), "sized", 30)
    writer.transactions("transactions", f"ends-{life}", [True, False, True])
