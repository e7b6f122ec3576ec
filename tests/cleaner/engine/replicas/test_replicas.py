"""Replicas of one log: each compacts at moments of its own, and what is committed in all of them must be the same."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.replicas import reading
from storage.checkpoints import LeaderEpochEntry, format_leader_epochs
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, TopicPartition
from storage.records import Record, encode_batch
from tests.batches import iter_batches
from tests.conftest import Samples
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

FS = FileSystem()
ORDERS = TopicPartition("orders", 0)
PLACES = ("one", "two", "three")
SEEDS = 6
KEYED = ["ledger-0", "orders-0", "payments-0"]
Compared = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def compared(capsys: pytest.CaptureFixture[str]) -> Compared:
    """The exit status of a comparison, and what it says of the only partition."""

    def run(*places: Path) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = main(["diff", "--json", "--replicas", *map(str, places)])
        (partition,) = json.loads(capsys.readouterr().out)["partitions"]
        return status, partition

    return run


def three(tmp_path: Path, *segments: tuple[int, tuple[bytes, ...]], end: int | None = None) -> list[Path]:
    """Three log dirs with the same segments."""
    for place in PLACES:
        log = PartitionDir(tmp_path / place)
        for base, batches in segments:
            log.segment(base, *batches)
        log.end_offset = log.end_offset if end is None else end
        committed(tmp_path / place, log)
    return [tmp_path / place for place in PLACES]


def five_hundred(start: int) -> tuple[bytes, ...]:
    return tuple(
        keyed(base, *(f"k{at}=v{at}" for at in range(base, base + 5))) for base in range(start, start + 500, 5)
    )


def cleaned(log_dir: Path, now_ms: int = NOW_MS, **config: str) -> None:
    layers = configured(orders={**COMPACT, "delete.retention.ms": "0", **config})
    a_cleaner(log_dir, layers, clock=FakeClock(now_ms)).clean(request(now_ms, delete_delay_ms=0))


def rewritten(log: Path, offset: int, change: Callable[[Record], Record | None]) -> None:
    """Change one record, or take it away, with checksums that are right."""
    batches = [list(batch.records()) for batch in iter_batches(log.read_bytes(), log)]
    changed = [[change(one) if one.offset == offset else one for one in records] for records in batches]
    kept = [[one for one in records if one is not None] for records in changed]
    log.write_bytes(b"".join(encode_batch(records) for records in kept if records))


def other_value(record: Record) -> Record:
    return replace(record, value=b"other")


def lost(_: Record) -> None:
    return None


def random_replicas(tmp_path: Path, dice: random.Random) -> list[Path]:
    """Three replicas of a random log; each rolls and is compacted at moments of its own, and may lag."""
    logs = [PartitionDir(tmp_path / place) for place in PLACES]
    now_ms, offset = NOW_MS, 0
    pending: list[list[bytes]] = [[] for _ in logs]
    bases = [0 for _ in logs]
    for _ in range(8):
        records = []
        for at in range(offset, offset + dice.randrange(1, 6)):
            key = dice.choice("abcdefgh").encode() if dice.random() < 0.9 else None
            records.append(Record(at, now_ms, key, None if key and dice.random() < 0.3 else b"%d" % at))
        offset += len(records)
        for place, log in enumerate(logs):
            pending[place].append(encode_batch(records))
            if dice.random() < 0.5:
                log.segment(bases[place], *pending[place])
                pending[place], bases[place] = [], offset
                committed(log.path.parent, log)
                if dice.random() < 0.6 and not pending[place]:
                    cleaned(log.path.parent, now_ms + dice.randrange(3 * DAY_MS))
        now_ms += DAY_MS
    for place, log in enumerate(logs):
        log.segment(bases[place], *pending[place])
        log.end_offset = offset
        committed(log.path.parent, log)
    return [log.path.parent for log in logs]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_replicas_agree_whatever_each_of_them_compacted(seed: int, tmp_path: Path, compared: Compared) -> None:
    dice = random.Random(seed)
    places = random_replicas(tmp_path, dice)
    status, partition = compared(*places)
    assert (status, partition["divergence"], partition["errors"]) == (ExitStatus.DONE, None, [])
    assert partition["not_compared"] is None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_live_record_that_one_replica_lost_is_found_at_its_offset(
    seed: int, tmp_path: Path, compared: Compared
) -> None:
    dice = random.Random(seed)
    places = random_replicas(tmp_path, dice)
    damaged = dice.choice(places)
    last = {
        record.key: (path, record)
        for path in sorted((damaged / "orders-0").glob("*.log"))
        for batch in iter_batches(path.read_bytes(), path)
        for record in batch.records()
        if record.key
    }
    path, record = dice.choice([one for one in last.values() if one[1].value is not None])
    rewritten(path, record.offset, lost)
    status, partition = compared(*places)
    assert status == ExitStatus.DAMAGED
    groups = [sorted(group) for group in partition["divergence"]["groups"]]
    assert groups == [sorted(str(place) for place in places if place != damaged), [str(damaged)]]
    assert partition["divergence"]["first_offset"] <= record.offset
    assert (
        partition["divergence"]["cause"] == f"{damaged} lacks the record"
        or partition["divergence"]["first_offset"] < record.offset
    )


@pytest.mark.parametrize(("change", "cause"), [(other_value, "the records differ"), (lost, "{two} lacks the record")])
def test_difference_is_found_at_its_offset(tmp_path: Path, compared: Compared, change: Any, cause: str) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)), (500, five_hundred(500)))
    assert compared(one, two, three_)[0] == ExitStatus.DONE
    rewritten(two / "orders-0" / f"{0:020d}.log", 123, change)
    status, partition = compared(one, two, three_)
    assert status == ExitStatus.DAMAGED
    assert partition["divergence"] == {
        "first_offset": 123,
        "last_offset": 123,
        "cause": cause.format(two=two),
        "groups": [[str(one), str(three_)], [str(two)]],
    }


def test_files_of_digests_tell_the_block(tmp_path: Path, compared: Compared) -> None:
    places = three(tmp_path, *((base, five_hundred(base)) for base in range(0, 10_000, 500)))
    rewritten(places[2] / "orders-0" / f"{4500:020d}.log", 4600, other_value)
    files = [place.with_suffix(".json") for place in places]
    for place, file in zip(places, files, strict=True):
        assert main(["digest", "--kafka-defaults", str(place), "--output", str(file)]) == ExitStatus.DONE
    status, partition = compared(*files)
    assert status == ExitStatus.DAMAGED
    divergence = partition["divergence"]
    assert (divergence["first_offset"], divergence["last_offset"]) == (4096, 8191)
    assert divergence["groups"] == [[str(files[0]), str(files[1])], [str(files[2])]]
    assert compared(files[0], places[1])[0] == ExitStatus.DONE


def test_flipped_bit_is_the_damage_of_its_replica(tmp_path: Path, compared: Compared) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)))
    log = two / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    status, partition = compared(one, two, three_)
    assert status == ExitStatus.DAMAGED
    (error,) = partition["errors"]
    assert error.startswith(f"{two}: {log}")
    assert partition["divergence"] is None


def test_offsets_above_the_lowest_high_watermark_are_not_compared(tmp_path: Path, compared: Compared) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)))
    rewritten(two / "orders-0" / f"{0:020d}.log", 450, other_value)
    LogDir(three_).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 450}, FS)
    status, partition = compared(one, two, three_)
    assert (status, partition["end_offset"], partition["records"]) == (ExitStatus.DONE, 450, 450)
    LogDir(three_).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 455}, FS)
    assert compared(one, two, three_)[0] == ExitStatus.DAMAGED
    (three_ / HIGH_WATERMARK_CHECKPOINT).unlink()
    status, partition = compared(one, two, three_)
    assert (status, partition["not_compared"]) == (ExitStatus.FAILED, "no offset is committed in all of them")


def test_leader_epochs_of_an_unclean_election_differ(tmp_path: Path, compared: Compared) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)))
    for place, epochs in ((one, [(1, 0), (3, 200)]), (two, [(1, 0), (3, 200)]), (three_, [(1, 0), (2, 190), (4, 260)])):
        entries = [LeaderEpochEntry(*entry) for entry in epochs]
        (place / "orders-0" / "leader-epoch-checkpoint").write_bytes(format_leader_epochs(entries))
    status, partition = compared(one, two, three_)
    assert status == ExitStatus.DAMAGED
    divergence = partition["divergence"]
    assert (divergence["first_offset"], divergence["groups"]) == (190, [[str(one), str(two)], [str(three_)]])
    assert divergence["cause"] == f"the leader epochs differ: 1 in {one}; 1 in {two}; 2 in {three_}"


def test_log_start_of_its_own_is_no_difference(tmp_path: Path, compared: Compared) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)), (500, five_hundred(500)))
    (two / "orders-0" / f"{0:020d}.log").unlink()
    LogDir(two).write_offsets("log-start-offset-checkpoint", {ORDERS: 500}, FS)
    status, partition = compared(one, two, three_)
    assert (status, partition["start_offset"], partition["records"]) == (ExitStatus.DONE, 500, 500)


def test_digests_of_a_compacted_log_end_at_one_offset(tmp_path: Path, compared: Compared) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)), (500, five_hundred(500)))
    for place in (one, two):
        LogDir(place).write_offsets(CLEANER_OFFSET_CHECKPOINT, {ORDERS: 500}, FS)
    LogDir(two).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 900}, FS)
    file, behind = tmp_path / "one.json", tmp_path / "two.json"
    assert main(["digest", str(one), "--output", str(file)]) == ExitStatus.DONE
    assert main(["digest", str(two), "--output", str(behind)]) == ExitStatus.DONE
    told = compared(file, behind)[1]["not_compared"]
    assert told == (
        f"of a compacted log, digests must end at one offset (1000 in {file}, 900 in {behind}); "
        "make them anew with --up-to"
    )
    again = tmp_path / "again.json"
    assert main(["digest", str(one), "--output", str(again), "--up-to", str(behind)]) == ExitStatus.DONE
    status, partition = compared(again, behind)
    assert (status, partition["not_compared"], partition["end_offset"]) == (ExitStatus.DONE, None, 900)


def test_difference_of_a_compacted_log_may_be_what_a_replica_ahead_supersedes(
    tmp_path: Path, compared: Compared
) -> None:
    """A broker that was rebuilt from a compacted one lacks what its end supersedes, and no checkpoint tells it."""
    one, two, _ = three(tmp_path, (0, five_hundred(0)), (500, five_hundred(500)))
    LogDir(two).write_offsets(CLEANER_OFFSET_CHECKPOINT, {ORDERS: 500}, FS)
    LogDir(two).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 700}, FS)
    assert compared(one, two)[0] == ExitStatus.DONE
    rewritten(one / "orders-0" / f"{0:020d}.log", 123, lost)
    status, partition = compared(one, two)
    assert (status, partition["divergence"]) == (ExitStatus.FAILED, None)
    assert partition["not_compared"] == (
        "they differ within offsets 0 to 699, but so may compacted replicas with other high watermarks "
        f"(1000 in {one}, 700 in {two})"
    )
    LogDir(two).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 1000}, FS)
    assert compared(one, two)[1]["divergence"]["first_offset"] == 123


def test_leader_epochs_of_a_compacted_log_are_those_of_the_batches_that_were_left(
    tmp_path: Path, compared: Compared
) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    for place, epochs in ((one, [(0, 0), (1, 100), (2, 200)]), (two, [(0, 0), (2, 210)])):
        LogDir(place).write_offsets(CLEANER_OFFSET_CHECKPOINT, {ORDERS: 500}, FS)
        entries = [LeaderEpochEntry(*entry) for entry in epochs]
        (place / "orders-0" / "leader-epoch-checkpoint").write_bytes(format_leader_epochs(entries))
    assert compared(one, two)[0] == ExitStatus.DONE


def test_digests_without_a_whole_block_in_common_are_not_compared(tmp_path: Path, compared: Compared) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    rewritten(two / "orders-0" / f"{0:020d}.log", 123, other_value)
    LogDir(two).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 450}, FS)
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for place, file in zip((one, two), files, strict=True):
        assert main(["digest", str(place), "--output", str(file)]) == ExitStatus.DONE
    status, partition = compared(*files)
    assert (status, partition["records"]) == (ExitStatus.FAILED, 0)
    assert partition["not_compared"].startswith("the digests have no block of 4096 offsets in common (500 in ")


def test_range_that_is_told_is_that_of_the_whole_blocks(tmp_path: Path, compared: Compared) -> None:
    one, two, _ = three(tmp_path, *((base, five_hundred(base)) for base in range(0, 10_000, 500)))
    LogDir(two).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 9000}, FS)
    LogDir(two).write_offsets("log-start-offset-checkpoint", {ORDERS: 10}, FS)
    file = tmp_path / "two.json"
    assert main(["digest", str(two), "--output", str(file)]) == ExitStatus.DONE
    status, partition = compared(one, file)
    assert (status, partition["start_offset"], partition["end_offset"]) == (ExitStatus.DONE, 4096, 9000)
    assert partition["records"] == 9000 - 4096


def test_replica_that_cannot_be_read_hides_no_difference_of_the_others(tmp_path: Path, compared: Compared) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)))
    log = one / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    rewritten(three_ / "orders-0" / f"{0:020d}.log", 123, other_value)
    status, partition = compared(one, two, three_)
    assert status == ExitStatus.DAMAGED
    assert partition["divergence"]["first_offset"] == 123
    assert [error.startswith(f"{one}: {log}") for error in partition["errors"]] == [True]
    status, partition = compared(one, two)
    assert (status, partition["not_compared"]) == (ExitStatus.DAMAGED, "one replica alone can be read")


def test_digest_with_an_error_ends_no_other_one(tmp_path: Path, compared: Compared) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    (one / "orders-0" / "leader-epoch-checkpoint").write_text("what?")
    file, behind = tmp_path / "one.json", tmp_path / "two.json"
    assert main(["digest", str(one), "--output", str(file)]) == ExitStatus.FAILED
    assert main(["digest", str(two), "--output", str(behind), "--up-to", str(file)]) == ExitStatus.DONE
    (partition,) = json.loads(behind.read_text())["partitions"]
    assert (partition["end_offset"], partition["records"]) == (500, 500)


def test_segment_that_a_broker_deletes_meanwhile_is_no_damage(
    tmp_path: Path, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition is listed anew when its turn comes."""
    one, two, _ = three(tmp_path, (0, five_hundred(0)), (500, five_hundred(500)))
    opened = reading.compare_replicas

    def delete_first(*arguments: Any) -> Any:
        first = two / "orders-0" / f"{0:020d}.log"
        first.rename(first.with_name(f"{first.name}.deleted"))
        return opened(*arguments)

    monkeypatch.setattr(reading, "compare_replicas", delete_first)
    status, partition = compared(one, two)
    assert (status, partition["errors"], partition["start_offset"]) == (ExitStatus.DONE, [], 500)


def test_digest_of_two_log_dirs_is_two_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    rewritten(two / "orders-0" / f"{0:020d}.log", 123, other_value)
    file, other = tmp_path / "both.json", tmp_path / "again.json"
    assert main(["digest", str(one), str(two), "--output", str(file)]) == ExitStatus.DONE
    other.write_bytes(file.read_bytes())
    capsys.readouterr()
    assert main(["diff", "--json", "--replicas", str(file), str(other)]) == ExitStatus.DAMAGED
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    groups = [[f"{name} ({place})" for name in (file, other)] for place in (one, two)]
    assert partition["divergence"]["groups"] == groups


def test_topics_of_two_ids_are_different(tmp_path: Path, compared: Compared) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    for place, topic_id in ((one, "4l1hCYcXT3e4xRvT4RDpNQ"), (two, "sWYGbWGRRdmrG0ZfOnVyHg")):
        (place / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    status, partition = compared(one, two)
    assert (status, partition["divergence"]["cause"]) == (ExitStatus.DAMAGED, "the topic ids differ")


@pytest.mark.parametrize("cleaned_by", ["us", "Kafka"])
def test_logs_of_kafka_before_and_behind_a_compaction_agree(
    cleaned_by: str, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Transactions, tombstones and codecs."""
    before = samples.copy("before", tmp_path / "before", KEYED)
    after = samples.copy("after" if cleaned_by == "Kafka" else "before", tmp_path / "after", KEYED)
    if cleaned_by == "us":
        options = ["--yes", "--force-compaction", "--kafka-defaults", "--delete-delay", "0"]
        assert main(["clean", *options, "--log-dir", str(after)]) == ExitStatus.DONE
    capsys.readouterr()
    assert main(["diff", "--json", "--replicas", str(before), str(after)]) == ExitStatus.DONE
    document = json.loads(capsys.readouterr().out)
    assert [one["not_compared"] for one in document["partitions"]] == [None] * len(KEYED)
    records = sum(one["records"] for one in document["partitions"])
    assert records > 1_000
    main(["diff", "--replicas", str(before), str(after)])
    assert capsys.readouterr().out == f"{len(KEYED)} partitions agree, {records:,} records\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["diff", "{one}"], "name two states, BEFORE and AFTER, or the replicas with --replicas"),
        (["diff", "--replicas", "{one}"], "needs the log dirs, or the digests, of two brokers or more"),
        (["diff", "{one}", "--replicas", "{one}", "{two}"], "takes log dirs and files of digest alone"),
        (["diff", "--replicas", "{one}", "{text}"], "{text}: is no log dir, and no digest: not as it was written"),
        (["diff", "--replicas", "{one}", "{spoilt}"], "{spoilt}: is no log dir, and no digest: not as it was written"),
        (["diff", "--replicas", "{one}", "{one}/../one"], "names a place twice"),
        (["diff", "--replicas", "{one}", "{two}", "--topic", "oders"], "matches no partition in any of the places"),
        (["diff", "--replicas", "{one}", "{other}"], "no partition lies in two of the places (2 in one each)"),
        (["digest", "{one}", "--output", "{text}"], "{text}"),
        (["digest", "{one}", "--output", "{one}/digest.json"], "{one}"),
    ],
    ids=[
        "one state",
        "one replica",
        "both",
        "no digest",
        "spoilt digest",
        "twice",
        "topic",
        "another cluster",
        "output exists",
        "output in the log dir",
    ],
)
def test_wrong_use_is_told_in_a_line(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    text = tmp_path / "text"
    text.write_text("hello")
    spoilt = tmp_path / "spoilt"
    assert main(["digest", str(two), "--output", str(spoilt)]) == ExitStatus.DONE
    spoilt.write_text(spoilt.read_text().replace('"blocks": "', '"blocks": "?'))
    committed(tmp_path / "other", PartitionDir(tmp_path / "other", "lonely-0").segment(0, *five_hundred(0)))
    names = {"one": one, "two": two, "text": text, "spoilt": spoilt, "other": tmp_path / "other"}
    capsys.readouterr()
    assert main([word.format(**names) for word in arguments]) == ExitStatus.USAGE
    assert told.format(**names) in capsys.readouterr().err


def test_partition_in_one_place_alone_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    committed(two, PartitionDir(two, "lonely-0").segment(0, *five_hundred(0)))
    capsys.readouterr()
    main(["diff", "--replicas", str(one), str(two)])
    out = capsys.readouterr().out
    assert out.endswith("1 partition in one place only\n")
    main(["diff", "-v", "--replicas", str(one), str(two)])
    assert "lonely-0: in one place only\n" in capsys.readouterr().out


@pytest.mark.parametrize("by_digests", [False, True], ids=["log dirs", "digests"])
def test_empty_replicas_agree(
    tmp_path: Path, compared: Compared, capsys: pytest.CaptureFixture[str], *, by_digests: bool
) -> None:
    """Most partitions of ``__consumer_offsets`` are empty."""
    places = three(tmp_path, (0, ()))
    named = [path.with_suffix(".json") for path in places] if by_digests else places

    def told() -> tuple[int, str | None]:
        for place, file in zip(places, named, strict=True):
            file.unlink(missing_ok=True) if by_digests else None
            assert not by_digests or main(["digest", str(place), "--output", str(file)]) == ExitStatus.DONE
        status, partition = compared(*named)
        return status, partition["not_compared"]

    assert told() == (ExitStatus.DONE, None)
    main(["diff", "-v", "--replicas", *map(str, named)])
    assert capsys.readouterr().out == "orders-0: 3 replicas are empty\n1 partition agrees, 0 records\n"
    LogDir(places[1]).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 5}, FS)
    assert told() == (ExitStatus.FAILED, "no offset is committed in all of them")
    LogDir(places[1]).write_offsets(HIGH_WATERMARK_CHECKPOINT, {ORDERS: 0}, FS)
    (places[2] / "orders-0" / f"{0:020d}.log").write_bytes(five_hundred(0)[0])
    assert told() == (ExitStatus.FAILED, "no offset is committed in all of them")


def test_digest_comes_through_a_pipe(tmp_path: Path) -> None:
    """A shell names the output of a command so: ``<(ssh broker-2 cat digest.json)``."""
    one, two, _ = three(tmp_path, (0, five_hundred(0)))
    file = tmp_path / "two.json"
    assert main(["digest", str(two), "--output", str(file)]) == ExitStatus.DONE
    for content, status in ((file.read_bytes(), ExitStatus.DONE), (b"", ExitStatus.USAGE)):
        out, into = os.pipe()
        os.write(into, content)
        os.close(into)
        words = ["diff", "--replicas", str(one), f"/dev/fd/{out}"]
        assert main(words) == status
        os.close(out)


def test_two_digests_of_one_log_dir_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three_ = three(tmp_path, (0, five_hundred(0)))
    for place, directory_id in ((one, "A" * 22), (two, "B" * 22)):
        (place / "meta.properties").write_text(f"version=1\nnode.id=1\ndirectory.id={directory_id}\n")
    files = [tmp_path / name for name in ("early.json", "late.json")]
    for file in files:
        assert main(["digest", str(one), "--output", str(file)]) == ExitStatus.DONE
    capsys.readouterr()
    assert main(["diff", "--replicas", *map(str, files), str(two), str(three_)]) == ExitStatus.DONE
    told = (
        f"logcleaner: {files[0]} and {files[1]} are of one log dir by its directory.id: that they agree proves nothing"
    )
    assert capsys.readouterr().err == f"{told}\n"
