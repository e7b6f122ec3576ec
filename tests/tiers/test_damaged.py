"""Damage of a tier that leaves a log which reads well: it is named, and no command takes the rest for the whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.verify import checking
from storage.anomalies import CheckedSegment
from storage.errors import UnreadableFile
from storage.scan.segment_contents import read_segment_contents
from storage.tiers.objects import listed, read_range
from tests.tiers.drawn import DrawnSegment, MetadataWriter, a_batch, aiven_key, segment_of, write_aiven, write_local


def drawn() -> list[DrawnSegment]:
    """Three segments of two batches of two records."""
    return [segment_of(at, a_batch(at, "a", "b"), a_batch(at + 2, "c", "d")) for at in (0, 4, 8)]


def with_metadata(log_dir: Path, segments: list[DrawnSegment]) -> list[str]:
    metadata = MetadataWriter()
    for segment in segments:
        metadata.copied(segment)
    return ["--log-dir", str(metadata.write(log_dir, 0))]


def file_of(tier: Path, segment: DrawnSegment, suffix: str) -> Path:
    (found,) = tier.rglob(f"*{segment.segment_id}{suffix}")
    return found


def exported(command: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[int]]:
    capsys.readouterr()
    status = main(["export", "orders-0", "-", "--to", "jsonl", *command])
    return status, [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("batches", [0, 1])
@pytest.mark.parametrize("which", [1, 2])
def test_log_that_was_cut_between_batches_is_named_by_all_who_read_it(
    which: int, batches: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments, tier = drawn(), tmp_path / "tier"
    command = ["--tier", str(write_local(tier, segments)), *with_metadata(tmp_path / "log", segments)]
    log = file_of(tier, segments[which], ".log")
    log.write_bytes(b"".join(segments[which].batches[:batches]))
    said = f"{log} has {log.stat().st_size} bytes, not {len(segments[which].log)}"
    assert main(["verify", *command]) == ExitStatus.DAMAGED
    assert exported(command, capsys)[0] == ExitStatus.FAILED
    restore = ["restore-tier", str(tier), *command[2:], "--output", str(tmp_path / "restored"), "--json"]
    for more in (["-n"], []):
        assert main([*restore, *more]) == ExitStatus.FAILED
        assert any(said in one for one in json.loads(capsys.readouterr().out)["left_out"])


def test_last_log_without_a_byte_is_named_without_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments, tier = drawn(), tmp_path / "tier"
    write_local(tier, segments)
    file_of(tier, segments[2], ".log").write_bytes(b"")
    assert main(["restore-tier", str(tier), "--output", str(tmp_path / "restored")]) == ExitStatus.FAILED
    assert exported(["--tier", str(tier)], capsys)[0] == ExitStatus.FAILED


@pytest.mark.parametrize("content", ["0\n1\n4 0\n", "0\n1\n"])
@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("has_metadata", [False, True])
def test_leader_epochs_that_the_records_have_not_hide_no_record(
    has_metadata: bool, which: int, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments, tier = drawn(), tmp_path / "tier"
    command = ["--tier", str(write_local(tier, segments))]
    command += with_metadata(tmp_path / "log", segments) if has_metadata else []
    epochs = file_of(tier, segments[which], ".leader_epoch_checkpoint")
    epochs.write_text(content)
    assert main(["verify", *command, "--json"]) == ExitStatus.DAMAGED
    assert str(epochs).removesuffix(".leader_epoch_checkpoint") in capsys.readouterr().out
    if has_metadata or content.startswith("0\n1\n4"):
        assert exported(command, capsys) == (ExitStatus.DONE, list(range(12)))
        restored = tmp_path / "restored"
        assert main(["restore-tier", str(tier), *command[2:], "--output", str(restored)]) == ExitStatus.DONE
        assert (restored / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    else:  # nothing else tells its epochs
        assert exported(command, capsys)[0] == ExitStatus.FAILED


@pytest.mark.parametrize("which", [0, 1, 2])
def test_manifest_of_another_segment_is_named(which: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments, tier = drawn(), tmp_path / "tier"
    write_aiven(tier, segments)
    other = segments[(which + 1) % 3]
    shutil.copy(file_of(tier, other, ".rsm-manifest"), file_of(tier, segments[which], ".rsm-manifest"))
    assert main(["restore-tier", str(tier), "--output", str(tmp_path / "restored")]) == ExitStatus.FAILED
    assert f"is the manifest of segment {other.segment_id}" in capsys.readouterr().err
    assert exported(["--tier", str(tier)], capsys)[0] == ExitStatus.FAILED


@pytest.mark.parametrize("lie", [{"endOffset": -1}, {"endOffset": 7}, {"segmentLeaderEpochs": {"-1": 8}}])
def test_offsets_that_no_segment_can_have_are_named(lie: dict[str, object], tmp_path: Path) -> None:
    segments = drawn()
    tier = write_aiven(tmp_path / "tier", segments)
    path = file_of(tier, segments[2], ".rsm-manifest")
    manifest = json.loads(path.read_text())
    manifest["remoteLogSegmentMetadata"] |= lie
    path.write_text(json.dumps(manifest))
    assert main(["verify", "--tier", str(tier)]) == ExitStatus.DAMAGED
    assert main(["restore-tier", str(tier), "--output", str(tmp_path / "restored")]) == ExitStatus.FAILED


def told_by_all(tier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    """Check that each command tells of the damage by its status; return the offsets that ``export`` has."""
    restore = ["restore-tier", str(tier), "--output", str(tmp_path / "restored")]
    for command in (["topics", "--tier", str(tier)], ["dump", "orders-0", "--tier", str(tier)], [*restore, "-n"]):
        assert main(command) == ExitStatus.FAILED, command
    assert main(["verify", "--tier", str(tier)]) == ExitStatus.DAMAGED
    status, offsets = exported(["--tier", str(tier)], capsys)
    assert status == ExitStatus.FAILED
    assert main(restore) == ExitStatus.FAILED
    return offsets


@pytest.mark.parametrize("write", [write_local, write_aiven])
@pytest.mark.parametrize(("which", "other"), [(0, 1), (0, 2), (1, 2)])
def test_log_with_the_bytes_of_a_later_segment_hides_no_other(
    write: Callable[..., Path], which: int, other: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = drawn()
    tier = write(tmp_path / "tier", segments)
    shutil.copy(file_of(tier, segments[other], ".log"), file_of(tier, segments[which], ".log"))
    if write is write_aiven:  # a manifest tells the end
        manifest = file_of(tier, segments[which], ".rsm-manifest")
        told = json.loads(manifest.read_text())
        told["remoteLogSegmentMetadata"]["endOffset"] = 4 * other + 3
        manifest.write_text(json.dumps(told))
    lost = set(range(4 * which, 4 * which + 4))
    assert told_by_all(tier, tmp_path, capsys) == sorted(set(range(12)) - lost)


@pytest.mark.parametrize("write", [write_local, write_aiven])
def test_last_log_of_zeros_is_named_by_all_who_read_it(
    write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = drawn()
    tier = write(tmp_path / "tier", segments)
    log = file_of(tier, segments[2], ".log")
    log.write_bytes(bytes(log.stat().st_size))
    assert told_by_all(tier, tmp_path, capsys) == list(range(8))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_end_that_a_manifest_states_too_late_is_named_and_hides_no_record(
    which: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = drawn()
    tier = write_aiven(tmp_path / "tier", segments)
    manifest = file_of(tier, segments[which], ".rsm-manifest")
    told = json.loads(manifest.read_text())
    told["remoteLogSegmentMetadata"]["endOffset"] += 3
    manifest.write_text(json.dumps(told))
    assert told_by_all(tier, tmp_path, capsys) == list(range(12))


@pytest.mark.parametrize(("write", "suffix"), [(write_local, ".index"), (write_aiven, ".indexes")])
def test_missing_index_is_named_without_metadata(
    write: Callable[..., Path], suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = drawn()
    tier = write(tmp_path / "tier", segments)
    file_of(tier, segments[1], suffix).unlink()
    assert main(["verify", "--tier", str(tier)]) == ExitStatus.DAMAGED
    assert "a broker cannot read it" in " ".join(capsys.readouterr().out.split())


def test_log_that_is_gone_is_found_by_its_manifest_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments = drawn()
    tier = write_aiven(tmp_path / "tier", segments)
    (tier / f"{aiven_key(segments[2])}.log").unlink()
    assert main(["verify", "--tier", str(tier)]) == ExitStatus.DAMAGED
    assert "its .log is not there" in capsys.readouterr().out


def test_segment_without_its_indexes_is_copied_by_clean(tmp_path: Path) -> None:
    segments = drawn()
    tier = write_aiven(tmp_path / "tier", segments)
    (tier / f"{aiven_key(segments[1])}.indexes").unlink()
    copy = ["clean", "--tier", str(tier), "--output", str(tmp_path / "copy"), "--yes"]
    copy += ["--set", "cleanup.policy=delete"]
    assert main(copy) == ExitStatus.DONE
    logs = sorted((tmp_path / "copy" / "orders-0").glob("*.log"))
    assert b"".join(log.read_bytes() for log in logs) == b"".join(segment.log for segment in segments)


def test_partition_that_the_next_run_does_not_want_leaves_no_directory(tmp_path: Path) -> None:
    segments, tier, restored = drawn(), tmp_path / "tier", tmp_path / "restored"
    write_local(tier, [*segments, *(replace(one, partition=1, name=f"{one.name}-1") for one in segments)])
    log = file_of(tier, segments[1], ".log")
    log.write_bytes(bytes([*log.read_bytes()[:-1], 1]))
    restore = ["restore-tier", str(tier), "--output", str(restored)]
    assert main(restore) == ExitStatus.DAMAGED
    assert main([*restore, "--topic", "orders-1"]) == ExitStatus.DONE
    assert [path.name for path in restored.iterdir() if path.is_dir()] == ["orders-1"]


@pytest.mark.parametrize("goes", [Path.unlink, Path.touch])
def test_object_that_changes_while_it_is_checked_ends_no_check_of_the_others(
    goes: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, tier = drawn(), tmp_path / "tier"
    write_local(tier, segments)
    log = file_of(tier, segments[1], ".log")

    def read(*arguments: Any, **options: Any) -> CheckedSegment:
        if log.exists() and log.stat().st_mtime_ns == segments[1].mtime_ms * 1_000_000:
            goes(log)
        return read_segment_contents(*arguments, **options)

    monkeypatch.setattr(checking, "read_segment_contents", read)
    assert main(["verify", "--tier", str(tier), "--threads", "1"]) == ExitStatus.FAILED
    said = capsys.readouterr()
    assert str(log) in said.err
    assert ".remote" not in said.err
    assert f"{len(segments[0].log) + len(segments[2].log)} bytes verified" in said.out


def test_file_that_may_not_be_read_is_named_with_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"data")
    ((_, found),) = listed(tmp_path)
    assert found is not None
    (tmp_path / "a.log").unlink()
    (tmp_path / "a.log").symlink_to("/dev/null")
    with pytest.raises(UnreadableFile, match=str(tmp_path / "a.log")):
        read_range(found, 0, 4)
