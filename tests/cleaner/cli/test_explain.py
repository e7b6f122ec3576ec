"""``explain`` on log dirs that real brokers wrote: incidents are named rightly, with a remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from storage.names import LOG_START_OFFSET_CHECKPOINT
from tests.batches import iter_batches
from tests.cleaner.engine.explain.test_transactional_ids import write_transaction_state
from tests.conftest import Samples
from tests.partition_dirs import PartitionDir, committed, keyed

DAY_MS: Final = 86_400_000
AT: Final = "2026-11-23T00:00:00Z"
WHILE_WRITTEN: Final = "2026-11-21T06:10:00Z"


@pytest.fixture(scope="module")
def after(samples: Samples) -> Path:
    return samples.root / "after"


def explain(log_dir: Path, name: str, *options: str, now: str = AT, status: int = 0) -> None:
    assert main(["explain", name, *options, "--log-dir", str(log_dir), "--now", now]) == status


def document(capsys, log_dir: Path, name: str, *options: str, now: str = AT, status: int = 0) -> dict[str, Any]:
    explain(log_dir, name, *options, "--json", now=now, status=status)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "logcleaner.explain/1"
    (partition,) = found["partitions"]
    return partition


def blocker(partition: dict[str, Any], code: str) -> dict[str, Any]:
    (found,) = [one for one in partition["blockers"] if one["code"] == code]
    return found


def test_a_segment_says_newest_record_limit_place_and_expiry(capsys, after: Path) -> None:
    explain(after, "clicks-0", "--set", "retention.ms=7d")
    told = " ".join(capsys.readouterr().out.split())
    assert "newest record 2026-11-18T06:23:49Z, retention.ms=7d (--set): expires in 2d 6h, 2026-11-25T06:23:49Z" in told
    assert "Next 2026-11-25T06:23:49Z, in 2d 6h: segment 3409 (1009.7 KiB) can be deleted by retention.ms" in told


def test_a_place_in_a_file_is_told_with_its_line(capsys, after: Path, tmp_path: Path) -> None:
    config = tmp_path / "logcleaner.toml"
    config.write_text(f'log.dirs = ["{after}"]\n\n[topics.clicks]\nretention.ms = "7d"\n')
    partition = document(capsys, after, "clicks-0", "--config", str(config))
    stated = partition["config"]["retention.ms"]
    assert (stated["value"], stated["file"], stated["line"]) == (7 * DAY_MS, str(config), 4)
    segment = partition["segments"][0]
    (rule,) = segment["rules"]
    age_ms = 1_795_392_000_000 - segment["newest_timestamp_ms"]
    assert rule == {"rule": "retention", **segment["reason"]}
    assert (rule["limit"]["key"], rule["limit"]["line"], rule["limit"]["actual"]) == ("retention.ms", 4, age_ms)


def test_a_future_timestamp_is_named_by_the_index_where_the_batch_cannot_be_read(capsys, after: Path) -> None:
    """The sample holds zeros there. ``tests/interop`` has the incident whole."""
    partition = document(capsys, after, "future-0")
    found = blocker(partition, "FUTURE_TIMESTAMP")
    assert "A record of the batch up to offset 718 has the timestamp 2027-12-26T06:02:40Z" in found["text"]
    assert "retention.future.timestamps=mtime" in found["remedy"]
    assert partition["problems"]
    explain(after, "future-0", "--set", "retention.future.timestamps=mtime", "--json", now="2026-11-24T07:00:00Z")
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert partition["segments"][0]["action"] == "delete", "the remedy works"


def test_a_hanging_transaction_is_named_with_its_producer(capsys, after: Path) -> None:
    partition = document(capsys, after, "payments-0")
    found = blocker(partition, "OPEN_TRANSACTION")
    batches = list(iter_batches(log := (after / "payments-0" / f"{4602:020d}.log").read_bytes(), Path("log")))
    assert log
    (opening,) = [batch.header for batch in batches if batch.base_offset == partition["last_stable_offset"]]
    assert found["owner"] == f"producer {opening.producer_id}, epoch {opening.producer_epoch}"
    assert partition["open_transactions"][0]["transactional_id"] is None
    assert found["since_ms"] == opening.base_timestamp_ms
    pinned = [one["bytes"] for one in partition["segments"][1:-1]]
    assert found["bytes"] == sum(pinned) > 0
    assert "kafka-transactions.sh" in found["remedy"]
    assert "--start-offset 6080" in found["remedy"]


def test_a_hanging_transaction_is_named_with_its_transactional_id_where_transaction_state_has_it(
    capsys, samples: Samples, tmp_path: Path
) -> None:
    log_dir = samples.copy("after", tmp_path / "data", ["payments-0"])
    write_transaction_state(log_dir, 3, 0, ("Tx-open", 4), mtime=1000)
    partition = document(capsys, log_dir, "payments-0")
    assert blocker(partition, "OPEN_TRANSACTION")["owner"] == "transactional id Tx-open, producer 4, epoch 0"
    assert partition["open_transactions"][0]["transactional_id"] == "Tx-open"


def test_tombstones_that_stay_because_the_log_is_quiet(capsys, after: Path) -> None:
    found = blocker(document(capsys, after, "orders-0"), "TOMBSTONES_WAIT")
    assert found["owner"] == "a quiet log"
    assert "no segment was closed since the last one" in found["text"]
    early = document(capsys, after, "orders-0", now=WHILE_WRITTEN)
    assert not [one for one in early["blockers"] if one["code"] == "TOMBSTONES_WAIT"]
    (coming,) = [one for one in early["changes"] if one["code"] == "DELETE_HORIZON"]
    assert coming["at_ms"] == found["since_ms"]


def test_retention_bytes_that_was_taken_for_a_limit_of_the_topic(capsys, samples: Samples, tmp_path: Path) -> None:
    log_dir = samples.copy("after", tmp_path / "data", ["sized-0"])
    shutil.copytree(log_dir / "sized-0", log_dir / "sized-1")
    found = blocker(document(capsys, log_dir, "sized-0"), "WITHIN_SIZE")
    assert "goes once 567.8 KiB more are written" in found["text"]
    assert "The limit holds for each partition, not for the topic: 2 partitions may keep 4.8 MiB" in found["text"]
    assert "set retention.bytes=1250000 (1.2 MiB)" in found["remedy"]


def test_a_compacted_topic_that_never_rolls(capsys, after: Path) -> None:
    found = blocker(document(capsys, after, "orders-0"), "ACTIVE_SEGMENT")
    assert found["owner"] == "segment.ms=7d (cluster metadata, topic orders)"
    assert "from 2026-11-25T06:36:30Z on, or once 394.0 KiB more are written (segment.bytes=1MiB)" in found["text"]
    late = blocker(document(capsys, after, "orders-0", now="2026-12-24T00:00:00Z"), "ACTIVE_SEGMENT")
    assert "segment.ms=7d is over since 2026-11-25T06:36:30Z: the next record closes it" in late["text"]
    assert late["until_ms"] is None


def test_file_times_that_a_copy_has_reset(capsys, old_samples: Samples, tmp_path: Path) -> None:
    """Messages of v0 have no timestamp; ``cp -r`` gives all files the time of the copy."""
    log_dir = old_samples.copy("before", tmp_path / "data", ["log-v0-gzip-0"])
    for path in (log_dir / "log-v0-gzip-0").iterdir():
        os.utime(path, (1_795_384_800, 1_795_384_800))
    options = ("--set", "retention.ms=7d", "--set", "cleanup.policy=delete")
    partition = document(capsys, log_dir, "log-v0-gzip-0", *options)
    found = blocker(partition, "FILE_TIMES_RESET")
    assert "The records of 2 segments have no timestamps" in found["text"]
    assert "cp -a" in found["remedy"]
    assert found["until_ms"] == 1_795_384_800_000 + 7 * DAY_MS + 1


def test_deleted_files_that_a_crash_left(capsys, samples: Samples, tmp_path: Path) -> None:
    log_dir = samples.copy("after", tmp_path / "data", ["clicks-0"])
    for path in (log_dir / "clicks-0").glob(f"{3409:020d}.*"):
        path.rename(path.with_name(f"{path.name}.deleted"))
    (log_dir / "log-start-offset-checkpoint").unlink()
    found = blocker(document(capsys, log_dir, "clicks-0", now="+1h"), "DELETED_FILES")
    assert found["owner"] == "a crash of the broker"
    left = [path.stat().st_size for path in (log_dir / "clicks-0").glob("*.deleted")]
    assert found["bytes"] == sum(left)
    assert f"{len(left)} .deleted files" in found["text"]
    assert found["remedy"] == "clean, or the next start of a broker, removes them."


def test_a_clock_that_jumped(capsys, monkeypatch: pytest.MonkeyPatch, after: Path) -> None:
    jumped_ms = 1_795_384_800_000 + 90 * DAY_MS
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: jumped_ms)
    assert main(["explain", "clicks-0", "--log-dir", str(after), "--json"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    found = blocker(partition, "CLOCK_JUMPED")
    assert found["owner"] == "the clock of this machine"
    assert "timedatectl" in found["remedy"]
    assert "An old copy" in found["remedy"]
    assert {one["reason"]["code"] for one in partition["segments"]} == {"CLOCK_JUMPED"}
    assert main(["explain", "clicks-0", "--log-dir", str(after)]) == 0
    told = capsys.readouterr().out
    assert "a guard rail holds clean back here" in told
    assert "With --yes it deletes 3 segments" in told
    assert main(["clean", "--dry-run", "--log-dir", str(after)]) == 5
    assert "(as in an old copy, or where a broker was stopped for long); nothing there" in capsys.readouterr().err


def test_a_failed_attempt_is_told_since_when_and_why(capsys, samples: Samples, tmp_path: Path) -> None:
    log_dir = samples.copy("before2", tmp_path / "data", ["ledger-0"])
    log = sorted((log_dir / "ledger-0").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[200] ^= 0xFF
    log.write_bytes(data)
    assert main(["clean", "--log-dir", str(log_dir), "--yes"]) == 1
    capsys.readouterr()
    found = blocker(document(capsys, log_dir, "ledger-0"), "FAILED_ATTEMPT")
    assert f"{log.name} at byte" in found["text"]
    assert "CRC-32C mismatch" in found["text"]
    assert "replica or a backup" in found["remedy"]
    explain(log_dir, "ledger-0")
    told = " ".join(capsys.readouterr().out.split())
    assert "Now clean tries again to compact" in told
    assert "The last attempt to compact failed at" in told
    assert "clean compacts" not in told
    first_ms = found["since_ms"]
    assert main(["clean", "--log-dir", str(log_dir), "--yes"]) == 1
    capsys.readouterr()
    again = blocker(document(capsys, log_dir, "ledger-0"), "FAILED_ATTEMPT")
    assert again["since_ms"] == first_ms
    assert "the last time at" in again["text"]


def test_every_partition_of_every_sample_is_explained(capsys, samples: Samples) -> None:
    done = []
    for stage in ("before", "after", "before2", "after2"):
        for directory in sorted((samples.root / stage).glob("*-[0-9]")):
            if directory.name == "__cluster_metadata-0":
                continue
            for options in ((), ("-v",), ("--json",)):
                explain(samples.root / stage, directory.name, *options)
                told = capsys.readouterr().out
                lines = told.splitlines()
                assert options == ("--json",) or all(len(line) <= 80 or " " not in line.strip() for line in lines)
                if directory.name.startswith(("orders", "payments", "ledger", "empty", "single")):
                    assert "Not known" not in told
            done.append(directory)
    assert len(done) > 15


def test_one_segment_is_told_by_base_name_offset_and_timestamp(capsys, after: Path) -> None:
    by_base = document(capsys, after, "orders-0", "6585")
    assert [one["base_offset"] for one in by_base["segments"]] == [6585]
    assert by_base["chosen"]["offset"] is None
    by_name = document(capsys, after, "orders-0", f"{6585:020d}.log")
    assert by_name["chosen"] == by_base["chosen"]
    by_offset = document(capsys, after, "orders-0", "--offset", "7000")
    assert [one["base_offset"] for one in by_offset["segments"]] == [6585]
    assert by_offset["chosen"]["record"]["offset"] == 7000
    at_ms = by_offset["chosen"]["record"]["timestamp_ms"]
    by_time = document(capsys, after, "orders-0", "--timestamp", str(at_ms))
    assert by_time["chosen"]["record"]["timestamp_ms"] == at_ms
    explain(after, "orders-0", "--offset", "7000")
    told = capsys.readouterr().out
    assert "What it holds" in told
    assert "Offset 7000\n  record of" in told


def test_offsets_below_the_log_start_are_told_from_those_of_the_log(capsys, tmp_path: Path) -> None:
    log_dir = committed(tmp_path, PartitionDir(tmp_path, "trimmed-0").segment(0, keyed(0, "a=1", "b=1", "c=1")))
    (log_dir / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\ntrimmed 0 2\n")
    explain(log_dir, "trimmed-0", "--offset", "1")
    told = " ".join(capsys.readouterr().out.split())
    assert "offsets 2 to 2, log end offset 3" in told
    assert "The offset lies below the log start offset 2: no consumer can read it." in told
    explain(log_dir, "trimmed-0", "--offset", "9000", status=2)
    assert "has the offsets 2 to 2, and its files also 0 to 1" in capsys.readouterr().err


def test_what_a_segment_holds_is_counted(capsys, after: Path) -> None:
    chosen = document(capsys, after, "payments-0", "4602")["chosen"]
    log = after / "payments-0" / f"{4602:020d}.log"
    headers = [batch.header for batch in iter_batches(log.read_bytes(), log)]
    assert chosen["batches"] == len(headers)
    assert chosen["records"] == sum(header.record_count for header in headers)
    assert chosen["control_batches"] == sum(header.is_control for header in headers)
    assert chosen["transactional_batches"] == sum(header.is_transactional for header in headers)
    assert chosen["producers"] == len({header.producer_id for header in headers if header.has_producer_id})
    assert chosen["codecs"] == {"none": len(headers)}
    assert [file["name"].rpartition(".")[2] for file in chosen["files"]] == ["log", "index", "timeindex", "txnindex"]


def test_an_offset_that_compaction_took_says_so(capsys, after: Path) -> None:
    explain(after, "orders-0", "--offset", "1")
    assert "No record has this offset: compaction took the record" in capsys.readouterr().out
    explain(after, "payments-0", "--offset", "6080")
    assert "producer 4, transactional" in capsys.readouterr().out
    explain(after, "orders-0", "0")
    assert "38 batches with a delete horizon" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("clcks-0",), "TOPIC-PARTITION = 'clcks-0': is in none of the log dirs; did you mean clicks-0?"),
        (("clicks-0", "5000"), "no segment of clicks-0 begins there; offset 5000 may lie in segment 4540"),
        (("clicks-0", "--offset", "12"), "has the offsets 3409 to 6605; logcleaner history clicks-0"),
        (("clicks-0", "--offset", "6606"), "has the offsets 3409 to 6605"),
        (("clicks-0", "--timestamp", "2030-01-01T00:00Z"), "no record of clicks-0 is as late; the newest one is of"),
        (("empty-0", "--offset", "0"), "has no record"),
    ],
)
def test_what_is_not_there_is_wrong_usage(capsys, after: Path, arguments: tuple[str, ...], words: str) -> None:
    explain(after, *arguments, status=2)
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("clicks",), "is no partition"),
        (("clicks-0", "4x"), "'4x' is no segment: say its base offset"),
        (("clicks-0", "--offset", "-1"), "is no offset"),
        (("clicks-0", "4540", "--offset", "5000"), "not allowed with"),
    ],
)
def test_what_cannot_be_meant_is_refused(capsys, after: Path, arguments: tuple[str, ...], words: str) -> None:
    explain(after, *arguments, status=2)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        (("--log-dir", "{}", "clicks-0", "0"), "--log-dir takes every word behind it: TOPIC-PARTITION goes before"),
        (("clicks-0", "--log-dir", "{}", "17"), "--log-dir = '17': is read as a directory; a TOPIC-PARTITION or a"),
        (("clicks-0", "--log-dir", "{}", f"{17:020d}.log"), "is read as a directory"),
        (("clicks-0", "--log-dir", "{}", "clicks-1"), "is read as a directory"),
    ],
)
def test_an_operand_behind_the_options_is_told_to_go_before_them(
    capsys, after: Path, operands: tuple[str, ...], words: str
) -> None:
    assert main(["explain", *(one.format(after) for one in operands)]) == 2
    assert words in capsys.readouterr().err


def test_a_partition_that_cannot_be_read_is_a_failure(capsys, samples: Samples, tmp_path: Path) -> None:
    log_dir = samples.copy("after", tmp_path / "data", ["clicks-0"])
    (log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("0\nx\n")
    explain(log_dir, "clicks-0", status=1)
    assert "FAILED" in capsys.readouterr().out
    assert "leader-epoch-checkpoint" in document(capsys, log_dir, "clicks-0", status=1)["error"]
    (log_dir / "cleaner-offset-checkpoint").write_text("0\nx\n")
    explain(log_dir, "clicks-0", status=1)
    assert "cleaner-offset-checkpoint" in capsys.readouterr().err


def test_explain_changes_nothing_and_takes_no_lock(capsys, samples: Samples, tmp_path: Path) -> None:
    log_dir = samples.copy("after", tmp_path / "data", ["orders-0", "clicks-0"])

    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(log_dir.rglob("*"))}

    before = state()
    for name in ("orders-0", "clicks-0"):
        explain(log_dir, name, "--exact", now=WHILE_WRITTEN)
    assert state() == before
    assert not (log_dir / ".lock").exists()


def test_the_bytes_are_those_of_du(capsys, samples: Samples, tmp_path: Path) -> None:
    log_dir = samples.copy("after", tmp_path / "data", ["orders-0"])
    for path in (log_dir / "orders-0").glob(f"{0:020d}.*"):
        (path.parent / f"{path.name}.deleted").write_bytes(path.read_bytes())
    partition = document(capsys, log_dir, "orders-0")
    du = subprocess.run(
        ["du", "-s", "--block-size=1", log_dir / "orders-0"], capture_output=True, text=True, check=True
    )
    assert partition["disk_bytes"] == int(du.stdout.split()[0])
    assert sum(kind["disk_bytes"] for kind in partition["kinds"].values()) == partition["disk_bytes"]
    assert partition["removals"][-1]["due_ms"] == partition["deleted_files"]["last_due_ms"]
    explain(log_dir, "orders-0")
    assert ".deleted files" in capsys.readouterr().out
