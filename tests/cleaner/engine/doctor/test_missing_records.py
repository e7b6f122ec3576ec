"""The traces of missing records: hollow ``.swap`` logs, emptied segments, the only copy of a gap."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from policies.findings.of_partition import file_findings
from policies.findings.symptoms import PartitionSymptoms
from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, format_offset_checkpoint
from storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    TopicPartition,
)
from tests.cleaner.engine.doctor.made import HOUR_MS, NOW_MS, Healthy, seen

LATER_MS = 10 * HOUR_MS


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Healthy:
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)
    return Healthy(tmp_path / "data")


def swap(healthy: Healthy, damage: Any) -> Path:
    """A ``.swap`` beside the first log of ``orders-0``, made of it."""
    log = healthy.file("orders-0", ".log")
    path = log.with_name(f"{log.name}.swap")
    path.write_bytes(damage(log.read_bytes()))
    return path


HOLLOW = {
    "empty": (lambda _: b"", "The file is empty"),
    "torn": (lambda data: data[:-3], "The file is damaged at byte"),
    "flipped": (lambda data: data[:-3] + b"?" + data[-2:], "The file is damaged at byte 119 (CRC"),
}


@pytest.mark.parametrize("command", ["doctor", "verify"])
@pytest.mark.parametrize(("damage", "text"), HOLLOW.values(), ids=HOLLOW)
def test_a_swap_that_a_start_would_put_over_records_is_damage(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], damage: Any, text: str, command: str
) -> None:
    path = swap(healthy, damage)
    status, found = seen(capsys, healthy.log_dir, command=command)
    (finding,) = [one for one in found if one["harm"] == "data_lost"]
    assert (status, finding["code"], finding["path"]) == (4, "SWAP_LEFT", str(path))
    assert finding["text"].startswith(text)
    assert f"puts it in the place of {path.name.removesuffix('.swap')}, which has records" in finding["text"]
    assert "run logcleaner clean, which throws the .swap away" in finding["remedy"]
    records = healthy.file("orders-0", ".log").read_bytes()
    assert main(["clean", "--log-dir", str(healthy.log_dir), "--topic", "orders", "--yes"]) == 0
    assert not path.exists()
    assert healthy.file("orders-0", ".log").read_bytes() == records
    capsys.readouterr()
    assert not [one for one in seen(capsys, healthy.log_dir, command=command)[1] if one["harm"] == "data_lost"]


@pytest.mark.parametrize("command", ["doctor", "verify"])
def test_a_damaged_swap_whose_source_waits_is_left_to_a_person(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = swap(healthy, lambda data: data[:-3])
    log = healthy.file("orders-0", ".log")
    log.rename(log.with_name(f"{log.name}.deleted"))
    status, found = seen(capsys, healthy.log_dir, command=command)
    (finding,) = [one for one in found if one["code"] == "SWAP_LEFT"]
    assert (status, finding["path"], finding["harm"]) == (4, str(path), "data_lost")
    assert "copy the directory to a safe place" in finding["remedy"]
    assert main(["clean", "--log-dir", str(healthy.log_dir), "--topic", "orders", "--yes"]) == 1
    assert path.exists()
    (left,) = swept(healthy, capsys, f"orders-0/{log.name}.deleted")
    assert (left["act"], left["text"].partition(":")[0]) == ("leave", "nobody knows whether the log needs it")


def test_a_whole_swap_is_no_damage(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    swap(healthy, lambda data: data)
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"], finding["harm"]) == (0, "SWAP_LEFT", "slow_start")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("lose", [emptied, Path.unlink], ids=["emptied", "gone"])
@pytest.mark.parametrize("without", [None, ".index", ".timeindex"])
def test_a_segment_in_the_middle_without_its_records_is_seen(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], lose: Any, without: str | None
) -> None:
    path = healthy.file("clicks-0", ".log", 1)
    lose(path)
    if without:
        healthy.file("clicks-0", without, 1).unlink()
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"], finding["path"]) == (4, "OFFSET_GAP", str(path))
    assert (finding["harm"], finding["offset"]) == ("data_lost", 2)
    assert finding["text"].endswith("and its .log is empty." if lose is emptied else "and no .log.")


def test_an_empty_segment_that_a_compaction_left_is_none(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        healthy.file("orders-0", suffix, 1).write_bytes(b"")
    healthy.clean("orders-0", 4)
    assert seen(capsys, healthy.log_dir) == (0, [])


def test_what_lies_below_the_log_start_may_be_empty(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    starts = format_offset_checkpoint({TopicPartition("clicks", 0): 4})
    (healthy.log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(starts)
    healthy.file("clicks-0", ".log", 1).write_bytes(b"")
    assert not [one for one in seen(capsys, healthy.log_dir)[1] if one["code"] == "OFFSET_GAP"]


def swept(healthy: Healthy, capsys: pytest.CaptureFixture[str], *names: str) -> list[Any]:
    """What a sweep does with leftovers, their delay over."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        newest_ms = max(path.lstat().st_ctime_ns for path in healthy.log_dir.rglob("*")) // 1_000_000
        patch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: newest_ms + LATER_MS)
        for path in healthy.log_dir.rglob("*"):
            if path.name != PARTITION_METADATA_FILE:  # whose new change time would say that those of all files are new
                os.utime(path, ns=(newest_ms * 1_000_000,) * 2)  # the clock guard compares them with the clock
        main(["doctor", "--log-dir", str(healthy.log_dir), "--json", "--yes", "--sweep", *names])
    return list(json.loads(capsys.readouterr().out)["leftovers"])


def retire(healthy: Healthy, name: str, place: int, *suffixes: str) -> str:
    """Rename files of a segment to ``.deleted``; return the name of the ``.log`` for a sweep."""
    paths = [healthy.file(name, suffix, place) for suffix in (".log", *suffixes)]
    for path in paths:
        path.rename(path.with_name(f"{path.name}.deleted"))
    return f"{name}/{paths[0].name}.deleted"


@pytest.mark.parametrize("cleaned_to", [None, 6])
def test_a_sweep_leaves_the_only_copy_of_a_gap(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], cleaned_to: int | None
) -> None:
    if cleaned_to:
        healthy.clean("orders-0", cleaned_to)
    name = retire(healthy, "orders-0", 1, ".index")
    (left,) = swept(healthy, capsys, name)
    assert (left["act"], left["done"]) == ("leave", False)
    assert "may be the only copy of offsets 2 to 3, which the log lacks" in left["text"]
    assert "take .deleted off its name, and off those beside it (00000000000000000002.index.deleted)" in left["text"]
    assert (healthy.log_dir / name).exists()
    (finding,) = [one for one in seen(capsys, healthy.log_dir)[1] if one["code"] == "OFFSET_GAP"]
    assert "Do not start the broker: its start deletes this file." in finding["text"]


def test_two_segments_of_one_gap_both_stay(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    healthy.partition("long-0")
    with healthy.log_of("long-0") as log:
        log.roll(NOW_MS)
    names = [retire(healthy, "long-0", 1), retire(healthy, "long-0", 1)]
    assert [left["act"] for left in swept(healthy, capsys, *names)] == ["leave", "leave"]


def test_the_end_of_a_log_below_its_high_watermark_stays(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    (left,) = swept(healthy, capsys, retire(healthy, "clicks-0", 2))
    assert left["act"] == "leave"


def test_the_end_of_a_log_that_was_truncated_goes(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    for path in healthy.log_dir.glob("*-offset-checkpoint"):
        path.write_bytes(format_offset_checkpoint({TopicPartition("clicks", 0): 4}))
    assert (healthy.log_dir / HIGH_WATERMARK_CHECKPOINT).exists()
    (gone,) = swept(healthy, capsys, retire(healthy, "clicks-0", 2))
    assert (gone["act"], gone["done"]) == ("unlink", True)


def test_what_retention_took_goes(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    """Retention cuts the leader epochs at the new log start."""
    epochs = healthy.file("clicks-0", "leader-epoch-checkpoint")
    epochs.write_bytes(format_leader_epochs([LeaderEpochEntry(1, 2), LeaderEpochEntry(2, 4)]))
    (gone,) = swept(healthy, capsys, retire(healthy, "clicks-0", 0, ".index", ".timeindex"))
    assert (gone["act"], gone["done"]) == ("unlink", True)


def test_what_a_compaction_replaced_goes(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    """All of segment 2 was replaced by later records; what is left of segment 0, which came back later, ends below."""
    name = retire(healthy, "orders-0", 1, ".index", ".timeindex")
    log = healthy.file("orders-0", ".log")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    healthy.clean("orders-0", 4)
    (gone,) = swept(healthy, capsys, name)
    assert (gone["act"], gone["done"]) == ("unlink", True)


def test_a_leftover_whose_range_the_log_has_goes(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    name = retire(healthy, "clicks-0", 1)
    path = healthy.log_dir / name
    path.with_suffix("").write_bytes(path.read_bytes())
    (gone,) = swept(healthy, capsys, name)
    assert (gone["act"], gone["done"]) == ("unlink", True)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_segment_behind_a_symlink_is_not_missing(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], tmp_path: Path, place: int
) -> None:
    path = healthy.file("clicks-0", ".log", place)
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    (finding,) = seen(capsys, healthy.log_dir)[1]
    assert finding["code"] == "PARTITION_UNREADABLE"
    assert "put the file that the symlink leads to in its place" in finding["remedy"]
    (finding,) = [one for one in seen(capsys, healthy.log_dir, command="verify")[1] if one["path"] == str(path)]
    assert finding["code"] == "NAME_STRANGE"
    assert "put the file that it leads to in its place" in finding["remedy"]


def test_partition_that_may_not_be_read_is_not_sent_to_repair() -> None:
    path = "/d/clicks-0"
    error = f"{path}/{0:020d}.log: {os.strerror(errno.EACCES)}"
    (finding,) = file_findings(PartitionSymptoms(TopicPartition("clicks", 0), path, False, True, 0, error=error))
    assert "--repair" not in finding.remedy
    assert "broker's user" in finding.remedy
