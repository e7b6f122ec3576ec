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
