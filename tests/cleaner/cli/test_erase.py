"""``erase`` as a user runs it: what it prints, its exit statuses, and that no key gets into what is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.log import Log, LogConfig
from storage.names import HIGH_WATERMARK_CHECKPOINT
from tests.crash.acts import FS

KEY = "order-0-0003"


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


def run(log_dir: Path, *words: str) -> int:
    return main(["erase", "--topic", "orders-0", *words, "--log-dir", str(log_dir)])


def keys(log_dir: Path, *, values_only: bool = True) -> set[bytes | None]:
    with Log.open(log_dir / "orders-0", LogConfig(), FS) as log:
        return {record.key for record in log.records() if record.value is not None or not values_only}


def contents(log_dir: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def test_values_of_the_key_go_and_prove_erased_and_history_say_so(log_dir, tmp_path, capsys) -> None:
    assert KEY.encode() in keys(log_dir)
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\r\nnot-there\n")
    assert run(log_dir, "--keys", str(file), "--yes", "--tombstones", "--delete-delay", "0") == 0
    told = capsys.readouterr()
    assert "records (" in told.out
    assert "gone" in told.out
    assert KEY not in told.out + told.err
    assert KEY.encode() not in keys(log_dir, values_only=False)
    assert not any(KEY.encode() in data for path, data in contents(log_dir).items() if "logcleaner" in path.name)
    assert main(["history", "--log-dir", str(log_dir)]) == 0
    assert "of some keys" in capsys.readouterr().out
    assert main(["prove-erased", KEY, "--topic", "orders-0", "--log-dir", str(log_dir)]) == 0
    assert main(["verify", str(log_dir / "orders-0")]) == 0


def test_a_dry_run_changes_nothing(log_dir, capsys) -> None:
    before = contents(log_dir)
    assert run(log_dir, KEY, "-n", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["records"] > 0
    assert not any(segment["done"] for segment in document["partitions"][0]["segments"])
    assert contents(log_dir) == before


def test_without_a_terminal_it_needs_yes(log_dir, capsys) -> None:
    before = contents(log_dir)
    assert run(log_dir, KEY, "-v") == 5
    assert "add --yes" in capsys.readouterr().err
    assert contents(log_dir) == before


def test_what_is_not_committed_gives_exit_status_10(log_dir, capsys) -> None:
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_text("0\n1\norders 0 100\n")
    assert run(log_dir, KEY, "-n") == 10
    assert "at or above the high watermark" in capsys.readouterr().out


def test_damage_fails_the_partition(log_dir, capsys) -> None:
    log = min((log_dir / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:100] + b"\xff" + log.read_bytes()[101:])
    assert run(log_dir, KEY, "--yes") == 1
    assert str(log) in capsys.readouterr().err


def test_internal_topics_are_refused(log_dir, capsys) -> None:
    shutil.copytree(log_dir / "orders-0", log_dir / "__consumer_offsets-0")
    assert main(["erase", "--topic", "__consumer_offsets", KEY, "--yes", "--log-dir", str(log_dir)]) == 5
    assert "INTERNAL_TOPIC" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("erase", KEY), "--topic"),
        (("erase", "--topic", "orders"), "no key is named"),
        (("erase", "--topic", "ordesr", KEY), "orders"),
        (("erase", "--topic", "orders", KEY, "--delete-delay", "7d"), "only 0 is possible"),
        (("erase", "--topic", "orders", "--encoding", "hex", "xyz"), "hexadecimal"),
    ],
)
def test_wrong_usage_is_told(log_dir, capsys, words, told) -> None:
    assert main([*words, "--log-dir", str(log_dir)]) == 2
    assert told in capsys.readouterr().err
