"""The small files of a log dir as ``verify`` and ``doctor`` read them: absent, sound, damaged, no plain file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.verify.log_dir_files import (
    CheckpointFiles,
    read_entries,
    read_epochs_of,
    read_id_of,
    read_identity,
)
from policies.findings.findings import Noted
from policies.findings.of_history import EpochStart
from policies.findings.of_log_dir import NamedEntry
from storage.errors import UnreadableFile
from storage.names import TopicPartition

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 1)
HIGH_WATERMARK, RECOVERY_POINT = "replication-offset-checkpoint", "recovery-point-offset-checkpoint"
LOG_START, CLEANED = "log-start-offset-checkpoint", "cleaner-offset-checkpoint"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def read(log_dir: Path) -> tuple[CheckpointFiles, list[str]]:
    errors: list[str] = []
    return CheckpointFiles.read(log_dir, lambda error: errors.append(str(error))), errors


def test_lines_of_the_checkpoints_are_what_is_noted_of_a_partition(tmp_path: Path) -> None:
    for offset, name in enumerate((HIGH_WATERMARK, LOG_START, RECOVERY_POINT, CLEANED), 5):
        (tmp_path / name).write_text(f"0\n2\norders 0 {offset}\nclicks 1 0\n")
    found, errors = read(tmp_path)
    assert (found.noted(ORDERS), errors, found.was_clean) == (Noted(5, 6, 7, 8), [], False)
    assert found.noted(TopicPartition("orders", 1)) == Noted()
    assert found.offsets(HIGH_WATERMARK) == {ORDERS: 5, CLICKS: 0}
    assert found.offsets("no such file") == {}
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert read(tmp_path)[0].was_clean


@pytest.mark.parametrize(
    ("text", "offsets", "repeated", "error", "takes_offline"),
    [
        ("0\n1\norders 0 5\n", {ORDERS: 5}, (), None, False),
        ("0\n3\norders 0 5\nclicks 1 0\norders 0 6\n", {ORDERS: 6, CLICKS: 0}, (ORDERS,), None, False),
        ("0\n2\norders 0 5\n", {}, (), "line 2, states 2 entries and has 1", True),
        ("0\n1\norders 0 x\n", {}, (), "line 3, 'x' is no 64-bit number", False),
    ],
)
def test_a_checkpoint_is_read_with_its_repeated_lines_or_with_what_is_wrong(
    tmp_path: Path, text: str, offsets: dict[TopicPartition, int], repeated: tuple[TopicPartition, ...],
    error: str | None, takes_offline: bool,
) -> None:  # fmt: skip
    (tmp_path / HIGH_WATERMARK).write_text(text)
    ((found,), _), errors = read(tmp_path)
    assert (found.path, found.name, errors) == (str(tmp_path / HIGH_WATERMARK), HIGH_WATERMARK, [])
    assert (found.offsets, found.repeated, found.error, found.takes_offline) == (
        offsets,
        repeated,
        error,
        takes_offline,
    )


def test_a_checkpoint_that_is_no_plain_file_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / HIGH_WATERMARK).mkdir()
    (tmp_path / LOG_START).write_text("0\n1\norders 0 6\n")
    found, errors = read(tmp_path)
    assert (found.noted(ORDERS), len(errors)) == (Noted(log_start=6), 1)
    assert str(tmp_path / HIGH_WATERMARK) in errors[0]


def test_meta_properties_are_absent_sound_or_malformed(tmp_path: Path) -> None:
    assert read_identity(tmp_path)[:2] == (str(tmp_path), None)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\n")
    assert read_identity(tmp_path)[:2] == (str(tmp_path), {"version": "1", "node.id": "3"})
    assert not read_identity(tmp_path).is_malformed
    (tmp_path / "meta.properties").write_text("node.id=\\u00zz\n")
    assert read_identity(tmp_path).is_malformed


def test_a_symlink_is_listed_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    for name in ("directory", "file", "nowhere"):
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
    assert sorted(read_entries(tmp_path)) == [
        NamedEntry(name, name.endswith("directory"))
        for name in ("directory", "file", "to-directory", "to-file", "to-nowhere")
    ]
    with pytest.raises(UnreadableFile):
        read_entries(tmp_path / "nowhere")


def test_leader_epochs_are_absent_sound_or_damaged(tmp_path: Path) -> None:
    assert read_epochs_of(tmp_path) == (None, None, False)
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n3 7\n")
    assert read_epochs_of(tmp_path) == ((EpochStart(0, 0), EpochStart(3, 7)), None, False)
    path.write_text("0\n1\n0 0\n3 7\n")
    assert read_epochs_of(tmp_path) == (None, "states 1 entries and has 2", True)


@pytest.mark.parametrize(
    ("text", "topic_id", "error"),
    [
        (None, None, None),
        (f"version: 0\ntopic_id: {TOPIC_ID}", TOPIC_ID, None),
        ("version: -1\ntopic_id: x", None, "version -1"),
    ],
)
def test_a_topic_id_is_absent_sound_or_damaged(
    tmp_path: Path, text: str | None, topic_id: str | None, error: str | None
) -> None:
    if text is not None:
        (tmp_path / "partition.metadata").write_text(text)
    found = read_id_of(tmp_path, ORDERS)
    assert found[:4] == (str(tmp_path), ORDERS, topic_id, error)
