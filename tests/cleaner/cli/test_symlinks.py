"""A symlink to a log dir is followed, because the operator named it; a symlink inside the log dir is reported, and not
followed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main

COMMANDS = [
    ("topics",),
    ("clean",),
    ("clean", "--dry-run", "--json"),
    ("free", "--target", "1MiB"),
    ("history",),
    ("restore",),
    ("run", "--once", "--observe"),
    ("export", "orders-0", "--to", "jsonl", "-"),
]


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    copy = shutil.copytree(demo, tmp_path / "data")
    (copy / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    return copy


@pytest.fixture
def link(log_dir: Path, tmp_path: Path) -> Path:
    path = tmp_path / "link"
    path.symlink_to(log_dir)
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("ending", ["", "/", "/."])
def test_a_symlinked_log_dir_is_the_directory_it_leads_to(command, ending: str, link: Path, capsys) -> None:
    assert main([*command, "--log-dir", f"{link}{ending}"]) == 0
    assert "cannot be read" not in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS[:4], ids=" ".join)
def test_so_is_one_that_server_properties_names(command, link: Path, tmp_path: Path, capsys) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"node.id=1\nlog.dirs={link}\n")
    assert main([*command, "--server-properties", str(properties)]) == 0
    assert capsys.readouterr().err == ""


def test_a_metadata_log_dir_may_be_a_symlink(log_dir: Path, tmp_path: Path, capsys) -> None:
    (log_dir / "__cluster_metadata-0").rename(_moved(tmp_path) / "__cluster_metadata-0")
    (tmp_path / "meta-link").symlink_to(tmp_path / "meta")
    assert main(["topics", "--log-dir", str(log_dir), "--set", f"metadata.log.dir={tmp_path / 'meta-link'}"]) == 0
    assert capsys.readouterr().err == ""


def _moved(tmp_path: Path) -> Path:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    return tmp_path / "meta"


def test_diff_takes_symlinks(log_dir: Path, link: Path, tmp_path: Path) -> None:
    (tmp_path / "orders-0").symlink_to(log_dir / "orders-0")
    assert main(["diff", str(log_dir), str(link)]) == 0
    assert main(["diff", str(tmp_path / "orders-0"), str(log_dir / "orders-0")]) == 0


@pytest.fixture
def with_linked_partition(log_dir: Path, tmp_path: Path) -> Path:
    (log_dir / "clicks-0").rename(tmp_path / "clicks-0")
    (log_dir / "clicks-0").symlink_to(tmp_path / "clicks-0")
    return log_dir


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_symlinked_partition_is_told_once_and_left_alone(command, with_linked_partition: Path, capsys) -> None:
    held = sorted(path.name for path in (with_linked_partition / "clicks-0").iterdir())
    assert main([*command, "--log-dir", str(with_linked_partition)]) == 0
    lines = capsys.readouterr().err.splitlines()
    (told,) = [line for line in lines if "is a symlink" in line or "partitions_symlinked" in line]
    assert str(with_linked_partition / "clicks-0") in told
    assert sorted(path.name for path in (with_linked_partition / "clicks-0").iterdir()) == held


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "--topic", "clicks-0"),
        ("clean", "--topic", "clicks"),
        ("history", "clicks-0"),
        ("restore", "clicks-0"),
        ("export", "clicks-0", "--to", "jsonl", "-"),
    ],
    ids=" ".join,
)
def test_a_symlinked_partition_that_is_named_says_why_it_is_not_there(command, with_linked_partition, capsys) -> None:
    assert main([command[0], *command[1:], "--log-dir", str(with_linked_partition)]) == 2
    told = capsys.readouterr().err
    assert f"{with_linked_partition / 'clicks-0'} is a symlink, which is not followed" in told
    assert "did you mean" not in told
