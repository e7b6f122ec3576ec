"""``clean --output`` from the command line: exit statuses, and one line that names the cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.filesystem import FileSystem, Purpose
from storage.names import MANIFEST_FILE
from tests.partition_dirs import PartitionDir, committed, keyed
from tests.storage.test_lock import Broker


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))
    (tmp_path / "data/.lock").touch()
    return committed(tmp_path / "data", made)


def clean(source: Path, to: Path, *more: str) -> int:
    command = ["clean", "--log-dir", str(source), "--output", str(to), "--set", "cleanup.policy=compact", "--yes"]
    return main([*command, *more])


def test_source_at_rest_gives_a_whole_copy(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clean(source, tmp_path / "copy") == ExitStatus.DONE
    assert "the copy is complete, with its manifest" in capsys.readouterr().out


def test_run_names_what_the_copy_leaves_out(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(name: str, *more: str) -> str:
        capsys.readouterr()
        clean(source, tmp_path / name, *more)
        return " ".join(capsys.readouterr().out.split())

    stray, foreign = "orders-0.0123456789abcdef0123456789abcdef-stray", [f"foreign{number}" for number in range(4)]
    assert "Not copied" not in told("whole")
    (source / stray).mkdir()
    assert f"Not copied 1 entry of the log dir: {stray} /" in told("one")
    for name in foreign:
        (source / name).mkdir()
    assert "Not copied 5 entries of the log dir: foreign0, foreign1, foreign2 and 2 more" in told("quiet", "-q")
    assert json.loads(told("json", "--json"))["left_out"] == [*foreign, stray]


def test_topic_of_unknown_configuration_is_copied_as_it_is(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["clean", "--log-dir", str(source), "--output", str(tmp_path / "copy"), "--yes"]
    assert main(command) == ExitStatus.REFUSED
    out, err = capsys.readouterr()
    assert out.endswith("copy: the copy is complete, with its manifest\n")
    assert "CONFIG_UNKNOWN: nothing of topic orders was touched" in err
    names = sorted(path.name for path in (source / "orders-0").iterdir())
    assert sorted(path.name for path in (tmp_path / "copy/orders-0").iterdir()) == names
    assert all(
        (tmp_path / "copy/orders-0" / name).read_bytes() == (source / "orders-0" / name).read_bytes() for name in names
    )


def test_source_that_changes_gives_no_copy_and_one_line_with_the_cause(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FileSystem.make_dir

    def disturbed(self: FileSystem, path: Path, like: Path, purpose: Purpose) -> None:
        (source / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1\n")
        real(self, path, like, purpose)

    monkeypatch.setattr(FileSystem, "make_dir", disturbed)
    assert clean(source, tmp_path / "copy") == ExitStatus.FAILED
    told = capsys.readouterr()
    (line,) = [x for x in told.err.splitlines() if not x.startswith("logcleaner: --set")]
    assert "log-start-offset-checkpoint: changed since the copy was planned (it was not there)" in line
    assert "whole copy" not in told.out
    assert not (tmp_path / "copy" / MANIFEST_FILE).exists()
    assert clean(source, tmp_path / "copy") == ExitStatus.USAGE  # what there is of a copy is not taken for one
    monkeypatch.undo()
    assert clean(source, tmp_path / "again") == ExitStatus.DONE


def test_broker_that_holds_the_source_is_told(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(source) as broker:
        assert clean(source, tmp_path / "copy") == ExitStatus.LOCKED
    assert f"process {broker.pid}" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
