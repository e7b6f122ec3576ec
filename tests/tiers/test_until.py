"""``restore-tier --until``: every log as it was at a moment, each transaction in all partitions or in none."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.checkpoints import format_offset_checkpoint, parse_leader_epochs, parse_offset_checkpoint
from storage.log.producer_state import ProducerEntry, format_snapshot
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from storage.records import Batch, BatchHeader, ControlType
from tests.batches import encode_control_batch, iter_batches
from tests.tier_samples import TierSamples
from tests.tiers.drawn import AivenForm, DrawnSegment, a_batch, segment_of, write_aiven, write_local

SAMPLE_MS = (1_700_000_000_000, 1_700_000_002_000, 1_700_000_020_000, 1_700_000_040_000, 1_700_000_070_000)
"""Before the first record, and in between."""
THEN_MS = 1_700_000_000_000
"""Of the segments that are drawn."""


def batches_of(partition: Path) -> list[Batch]:
    logs = sorted(partition.glob("*.log"))
    return [b for log in logs for b in iter_batches(log.read_bytes(), log) if isinstance(b, Batch)]


def headers_of(partition: Path) -> list[BatchHeader]:
    return [batch.header for batch in batches_of(partition)]


def open_transactions(headers: Iterable[BatchHeader]) -> set[int]:
    found: set[int] = set()
    for header in headers:
        if header.is_transactional:
            (found.discard if header.is_control else found.add)(header.producer_id)
    return found


def restored(tier: Path, output: Path, until_ms: int, *more: str) -> ExitStatus:
    command = ["restore-tier", str(tier), "--output", str(output), "--until", str(until_ms), "--json", *more]
    return ExitStatus(main(command))


def told(capsys: pytest.CaptureFixture[str]) -> Mapping[str, Any]:
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def ends(answer: Mapping[str, Any]) -> dict[str, int]:
    return {f"{one['topic']}-{one['partition']}": one["end"] for one in answer["partitions"]}


@pytest.mark.parametrize("name", ["local", "aiven-zstd"])
def test_sample_as_of_a_moment_is_a_start_of_each_log_without_a_newer_record_or_an_open_transaction(
    tiers: TierSamples, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tiers[name]
    tier = sample.tier / "some/prefix-" if name.startswith("aiven") else sample.tier
    whole = tmp_path / "whole"
    now_ms = int(time.time() * 1000)
    assert restored(tier, whole, now_ms, "--log-dir", str(sample.log_dir)) == ExitStatus.DONE
    assert told(capsys)["cut"] == []
    cut_by_transactions = 0
    for until_ms in SAMPLE_MS:
        output = tmp_path / str(until_ms)
        assert restored(tier, output, until_ms, "--log-dir", str(sample.log_dir)) == ExitStatus.DONE
        answer = told(capsys)
        assert answer["damaged"] == []
        names = {f"{one['topic']}-{one['partition']}" for one in answer["cut"]}
        assert {"codecs-0", "plain-0"} <= names
        cut_by_transactions += sum(one["reason"] == "TRANSACTION" for one in answer["cut"])
        reached = {f"{one['topic']}-{one['partition']}": one for one in answer["cut"]}
        for partition in sorted(path.name for path in whole.glob("*-[0-9]*")):
            ours, all_of_it = headers_of(output / partition), headers_of(whole / partition)
            assert ours == all_of_it[: len(ours)]
            assert (partition in reached) == (len(ours) < len(all_of_it))
            if partition in reached:
                check_border(output, partition, ours, all_of_it[len(ours)], until_ms, reached[partition])
        assert main(["verify", str(output)]) == ExitStatus.DONE
        capsys.readouterr()
    assert cut_by_transactions


def check_border(
    log_dir: Path, partition: str, ours: list[BatchHeader], behind: BatchHeader, until_ms: int, one: Mapping[str, Any]
) -> None:
    assert max((header.max_timestamp_ms for header in ours), default=0) <= until_ms
    assert open_transactions(ours) == set()
    assert one["end"] == (ours[-1].next_offset if ours else 0)
    if one["reason"] == "TRANSACTION":
        assert behind.is_transactional
        assert behind.producer_id == one["producer_id"]
    else:
        assert behind.max_timestamp_ms > until_ms
    epochs = log_dir / partition / LEADER_EPOCH_CHECKPOINT
    assert all(entry.start_offset < one["end"] for entry in parse_leader_epochs(epochs.read_bytes(), epochs))
    for file in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        path = log_dir / file
        offsets = {str(key): value for key, value in parse_offset_checkpoint(path.read_bytes(), path).items()}
        assert offsets.get(partition, 0) <= one["end"]


def data(offset: int, producer_id: int, at_ms: int) -> bytes:
    batch: dict[str, object] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": offset}
    return a_batch(offset, "value", timestamp_ms=THEN_MS + at_ms, is_transactional=True, **batch)


def commit(offset: int, producer_id: int, at_ms: int) -> bytes:
    return encode_control_batch(
        ControlType.COMMIT,
        offset=offset,
        timestamp_ms=THEN_MS + at_ms,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        partition_leader_epoch=0,
    )


def plain(offset: int, at_ms: int) -> bytes:
    return a_batch(offset, "value", timestamp_ms=THEN_MS + at_ms)


def snapshot(epoch: int = 0, open_at: int | None = None) -> bytes:
    """Producer 7, as a broker notes it at the end of a segment."""
    entry = ProducerEntry(7, epoch, 0, THEN_MS + 200, open_at)
    return format_snapshot([entry])


def two_logs(markers_ms: tuple[int, int]) -> list[DrawnSegment]:
    """A transaction with data in two partitions, whose markers came at two times, and records around them."""
    first = segment_of(
        0, plain(0, 0), data(1, 7, 100), commit(2, 7, markers_ms[0]), plain(3, markers_ms[0] + 1), snapshot=snapshot()
    )
    batches = plain(0, 0), plain(1, 50), data(2, 7, 110), commit(3, 7, markers_ms[1])
    second = segment_of(0, *batches, name="other", partition=1, snapshot=snapshot())
    return [first, second]


@pytest.mark.parametrize(
    ("until_ms", "expected"),
    [(99, (1, 2)), (150, (1, 2)), (200, (1, 2)), (299, (1, 2)), (300, (4, 4)), (400, (4, 4))],
)
def test_transaction_whose_markers_came_at_two_times_is_in_both_logs_or_in_none(
    until_ms: int, expected: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = write_aiven(tmp_path / "tier", two_logs((200, 300)))
    assert restored(tier, tmp_path / "out", THEN_MS + until_ms) == ExitStatus.DONE
    assert ends(told(capsys)) == {"orders-0": expected[0], "orders-1": expected[1]}


def test_segment_before_is_read_if_it_holds_the_part_of_a_transaction_that_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = segment_of(0, plain(0, 0), data(1, 7, 100), commit(2, 7, 200), snapshot=snapshot())
    behind = segment_of(3, plain(3, 210), plain(4, 220), plain(5, 1000), snapshot=snapshot())
    batches = plain(0, 0), data(1, 7, 110), plain(2, 240), commit(3, 7, 300)
    other = segment_of(0, *batches, name="other", partition=1, snapshot=snapshot())
    tier = write_aiven(tmp_path / "tier", [first, behind, other])
    assert restored(tier, tmp_path / "out", THEN_MS + 250) == ExitStatus.DONE
    answer = told(capsys)
    assert ends(answer) == {"orders-0": 1, "orders-1": 1}
    assert {one["producer_id"] for one in answer["cut"]} == {7}


def test_late_record_behind_a_newer_one_is_cut_off_and_a_clock_that_was_ahead_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = [
        segment_of(0, plain(0, 0), plain(1, 5_000), plain(2, 10)),
        segment_of(3, plain(3, 20), plain(4, 30)),
        segment_of(5, plain(5, 6_000)),
    ]
    tier = write_local(tmp_path / "tier", segments)
    assert restored(tier, tmp_path / "out", THEN_MS + 1_000) == ExitStatus.DONE
    (one,) = told(capsys)["cut"]
    assert (one["end"], one["log_end"], one["reason"], one["has_older_behind"]) == (1, 6, "NEWER", True)


def test_segments_behind_the_border_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments = [segment_of(n * 2, plain(n * 2, n * 100), plain(n * 2 + 1, n * 100 + 50)) for n in range(6)]
    tier = write_aiven(tmp_path / "tier", segments, AivenForm(chunk_bytes=60))
    for segment in segments[3:]:
        (log,) = tier.glob(f"**/*{segment.segment_id}.log")
        log.write_bytes(os.urandom(log.stat().st_size))
    assert restored(tier, tmp_path / "out", THEN_MS + 210) == ExitStatus.DONE
    answer = told(capsys)
    assert ends(answer) == {"orders-0": 5}
    assert sorted(path.name for path in (tmp_path / "out/orders-0").glob("*.log")) == [
        f"{offset:020d}.log" for offset in (0, 2, 4)
    ]


def test_run_that_goes_on_with_another_moment_takes_nothing_that_belongs_to_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lineage = ((0, 0), (1, 2), (2, 3))
    batches = [a_batch(n, "v", epoch=epoch, timestamp_ms=THEN_MS + n * 100) for n, epoch in enumerate((0, 0, 1, 2))]
    damaged = a_batch(4, "v", epoch=2, timestamp_ms=THEN_MS + 400)
    tier = write_local(tmp_path / "tier", [segment_of(0, *batches, damaged[:-1] + b"\x01", lineage=lineage)])
    assert restored(tier, tmp_path / "out", THEN_MS + 400) == ExitStatus.DAMAGED
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    assert restored(tier, tmp_path / "out", THEN_MS + 200) == ExitStatus.DONE
    path = tmp_path / "out/orders-0" / LEADER_EPOCH_CHECKPOINT
    assert [tuple(entry) for entry in parse_leader_epochs(path.read_bytes(), path)] == [(0, 0), (1, 2)]
    assert [header.base_offset for header in headers_of(path.parent)] == [0, 1, 2]


def test_log_that_was_compacted_behind_the_moment_is_named(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, log_dir = tiers["local"], tmp_path / "log"
    shutil.copytree(sample.log_dir, log_dir)
    cleaned = format_offset_checkpoint({TopicPartition("plain", 0): 30, TopicPartition("codecs", 0): 0})
    (log_dir / CLEANER_OFFSET_CHECKPOINT).write_bytes(cleaned)
    output = tmp_path / "out"
    assert restored(sample.tier, output, SAMPLE_MS[2], "--log-dir", str(log_dir)) == ExitStatus.FAILED
    answer = told(capsys)
    assert [text for text in answer["left_out"] if text.startswith("plain-0: was compacted up to offset 30")]
    path = output / CLEANER_OFFSET_CHECKPOINT
    offsets = parse_offset_checkpoint(path.read_bytes(), path)
    assert offsets[TopicPartition("plain", 0)] <= headers_of(output / "plain-0")[-1].next_offset


def test_dry_run_says_what_is_left_out_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_aiven(tmp_path / "tier", two_logs((200, 300)))
    command = ["restore-tier", str(tier), "--output", str(tmp_path / "out"), "-n", "--until", str(THEN_MS + 250)]
    assert main(command) == ExitStatus.DONE
    said = " ".join(capsys.readouterr().out.split())
    assert "orders-0: offsets 1 to 3: a transaction of producer 7 begins there" in said
    assert "orders-1: offsets 2 to 3: a transaction of producer 7 begins there" in said
    assert not list(tmp_path.glob("out*"))


def test_moment_in_the_future_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_aiven(tmp_path / "tier", two_logs((200, 300)))
    for until in ("+1h", "2099-01-01"):
        command = ["restore-tier", str(tier), "--output", str(tmp_path / "out"), "--until", until]
        for more in ([], ["-n"]):
            assert main([*command, *more]) == ExitStatus.USAGE
            assert "lies in the future: name a time that has passed" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))
