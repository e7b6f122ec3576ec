"""The changes of a directory that change its state, and those that do not."""

from __future__ import annotations

import pytest

from cleaner.config.files import state_of_directory, state_of_file
from tests.partition_dirs import PartitionDir, keyed


def rolled(partition: PartitionDir) -> None:
    partition.segment(1, b"")


def deleted(partition: PartitionDir) -> None:
    partition.log(0).rename(partition.log(0).with_name("x.deleted"))


def appended(partition: PartitionDir) -> None:
    with partition.log(0).open("ab") as file:
        file.write(b"x")


def checkpointed(partition: PartitionDir) -> None:
    (partition.path.parent / "replication-offset-checkpoint").write_text("0\n0\n")


def locked(partition: PartitionDir) -> None:
    (partition.path.parent / ".lock").touch()


@pytest.mark.parametrize(
    ("act", "changes"), [(rolled, True), (deleted, True), (appended, False), (checkpointed, True), (locked, False)]
)
def test_a_log_dir_changes_by_names_and_checkpoints(tmp_path, act, changes):
    partition = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1"))
    before = state_of_directory(tmp_path / "data")
    act(partition)
    assert (state_of_directory(tmp_path / "data") != before) == changes


def test_what_is_absent_has_a_state(tmp_path):
    absent = state_of_file(tmp_path / "c.toml")
    assert state_of_directory(tmp_path / "nowhere") == ()
    (tmp_path / "c.toml").write_text("")
    assert state_of_file(tmp_path / "c.toml") != absent
