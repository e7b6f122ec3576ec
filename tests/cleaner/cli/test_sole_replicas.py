"""Before a change: one line names the partitions of which no other broker has a replica in sync."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.metadata.assignments import read_assignments
from storage.metadata.metadata_encode import encode_partition
from storage.names import META_PROPERTIES_FILE
from tests.metadata_dirs import append_metadata, metadata_log

WORDS = "no other broker has a replica in sync"
OWN = (1).to_bytes(4, "big")
OTHERS = (2).to_bytes(4, "big"), (3).to_bytes(4, "big")


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    """Three replicas of orders-0 and clicks-0; of the first one only that of this broker is in sync."""
    log_dir = shutil.copytree(demo, tmp_path / "data")
    ids = read_assignments(metadata_log(log_dir).parent).topic_ids
    placed = [(ids["orders"], (OWN,)), (ids["clicks"], (OWN, OTHERS[0]))]
    append_metadata(log_dir, [with_replicas(topic_id, in_sync) for topic_id, in_sync in placed])
    return log_dir


def with_replicas(topic_id: str, in_sync: tuple[bytes, ...]) -> bytes:
    """A PartitionRecord of three replicas."""
    alone, all_of_them = array(OWN), array(OWN, *OTHERS)
    return encode_partition(topic_id, 0, 1, "A" * 22, 0).replace(alone + alone, all_of_them + array(*in_sync), 1)


def with_eligible(value: bytes, eligible: bytes) -> bytes:
    """The same PartitionRecord in a version that has eligible leader replicas, and with one of them."""
    found = array(eligible)
    return value[:2] + bytes([2]) + value[3:-1] + bytes([1, 1, len(found)]) + found


def array(*numbers: bytes) -> bytes:
    return bytes([len(numbers) + 1]) + b"".join(numbers)


@pytest.mark.parametrize(
    "words",
    [
        ("clean", "-n"),
        ("free", "--target", "100%", "-n"),
        ("delete-records", "orders-0", "--before-offset", "1", "-n"),
        ("erase", "no such key", "--topic", "orders", "-n"),
        ("move", "orders-0", "--to-dir", "{new}", "-n"),
    ],
)
def test_each_change_names_them(
    words: tuple[str, ...], log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new").mkdir()
    shutil.copy(log_dir / META_PROPERTIES_FILE, tmp_path / "new")
    main([word.format(new=tmp_path / "new") for word in words] + ["--log-dir", str(log_dir)])
    lines = [line for line in capsys.readouterr().err.splitlines() if WORDS in line]
    assert lines == [f"logcleaner: orders-0: by the cluster metadata {WORDS}"]


@pytest.mark.parametrize("topic", ["clicks", "sessions"])
def test_a_partition_with_another_one_in_sync_or_with_one_replica_alone_is_not_named(
    topic: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["clean", "-n", "--topic", topic, "--log-dir", str(log_dir)])
    assert WORDS not in capsys.readouterr().err


def lines_of(log_dir: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    main(["clean", "-n", "--log-dir", str(log_dir), *words])
    return [line for line in capsys.readouterr().err.splitlines() if WORDS in line]


@pytest.mark.parametrize(("eligible", "is_named"), [(OWN, True), (OTHERS[0], False)])
def test_replica_that_is_eligible_to_lead_counts_as_one_in_sync(
    eligible: bytes, is_named: bool, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the last broker of a partition stops, its ISR is empty, and it is the one that may lead."""
    topic_id = read_assignments(metadata_log(log_dir).parent).topic_ids["clicks"]
    append_metadata(log_dir, [with_eligible(with_replicas(topic_id, ()), eligible)])
    assert read_assignments(metadata_log(log_dir).parent).partitions[topic_id, 0].in_sync == ()
    assert bool(lines_of(log_dir, capsys, "--topic", "clicks")) == is_named


def test_metadata_log_in_a_directory_of_its_own_is_asked(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata, properties = tmp_path / "metadata", tmp_path / "server.properties"
    metadata.mkdir()
    shutil.move(metadata_log(log_dir).parent, metadata)
    shutil.copy(log_dir / META_PROPERTIES_FILE, metadata)
    properties.write_text(f"log.dirs={log_dir}\nnode.id=1\nmetadata.log.dir={metadata}\n")
    assert lines_of(log_dir, capsys, "--server-properties", str(properties), "--topic", "orders")
