"""Repacked logs on disk: the records are the same, in fewer batches; and what stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.journal import read_journal
from cleaner.engine.repack import repacking
from cleaner.engine.repack.merging import AskedCodec
from cleaner.engine.repack.repacking import Repacking, RepackRequest, plan_repack, repack
from cleaner.engine.restore import read_history
from cleaner.engine.sole_replicas import Placed
from policies.repacking import RepackRefusal
from storage.codecs.compression import Compression
from storage.log import Log, LogConfig
from storage.log_dir import LogDir
from storage.metadata.assignments import Assignment
from storage.names import TopicPartition
from storage.records import Batch, Record
from tests.crash.acts import AT_MS, FS, LAYERS
from tests.crash.scenes import Scene, accounts, orders, payments, prices, wallets
from tests.crash.stops import FailingAt
from tests.partition_dirs import FakeClock, a_cleaner, request

WALLETS = TopicPartition("wallets", 0)


@pytest.fixture(autouse=True)
def sole_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata gives every partition of these logs one replica, here."""
    monkeypatch.setattr(repacking, "placed", lambda log_dirs, wants, _: placed_here(log_dirs, wants, (1,)))


def placed_here(log_dirs: list[LogDir], wants: object, replicas: tuple[int, ...]) -> Placed:
    names = [name for log_dir in log_dirs for name, _ in log_dir.partitions()]
    return Placed(1, {name: Assignment(replicas, (), 0, (1,)) for name in names})


def drawn(path: Path, *draws: object) -> Path:
    return Scene(lambda *_: None, draws or (wallets,)).draw(path / "data")  # type: ignore[arg-type]


def asking(codec: AskedCodec | None = None, **options: object) -> RepackRequest:
    return RepackRequest(request(AT_MS, confirmed=True, **options), codec)


def repacked(log_dir: Path, asked: RepackRequest | None = None, threads: int = 1) -> Repacking:
    return repack(a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS), threads), asked or asking())


def records(log_dir: Path, name: str = "wallets-0") -> list[Record]:
    with Log.open(log_dir / name, LogConfig(), FS) as log:
        return list(log.records())


def batches(log_dir: Path, name: str = "wallets-0") -> list[tuple[int, int, int]]:
    """First offset, last offset and producer of each batch."""
    with Log.open(log_dir / name, LogConfig(), FS) as log:
        headers = [batch.header for batch in log.read() if isinstance(batch, Batch)]
    return [(h.base_offset, h.base_offset + h.last_offset_delta, h.producer_id) for h in headers]


def contents(log_dir: Path) -> dict[str, bytes]:
    return {str(p.relative_to(log_dir)): p.read_bytes() for p in sorted(log_dir.rglob("*")) if p.is_file()}


def test_batches_are_merged_but_for_the_last_five_of_a_producer_and_those_of_transactions(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path)
    before = records(log_dir)
    (done,) = repacked(log_dir).partitions
    assert done.error is None
    assert records(log_dir) == before
    assert batches(log_dir) == [
        (0, 23, -1), (24, 26, 7), *((n, n, 7) for n in range(27, 32)), (32, 32, 9), (33, 33, 9),
        (34, 34, -1), (35, 35, -1), (36, 36, -1),
    ]  # fmt: skip
    assert [(s.base_offset, s.merged.batches, s.merged.merged) for s in done.segments] == [(0, 15, 2)]
    left = sum(path.stat().st_size for path in (log_dir / "wallets-0").glob("*.log"))
    assert (left, done.until_ms is not None) == (done.bytes_after, True)


def test_nothing_at_or_above_the_high_watermark_is_merged(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path)
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\nwallets 0 9\n")
    repacked(log_dir)
    assert batches(log_dir)[:3] == [(0, 7, -1), (8, 9, -1), (10, 11, -1)]


def test_a_plan_changes_nothing_and_says_what_the_deed_does(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path)
    before = contents(log_dir)
    planned = plan_repack(a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS)), asking())
    assert contents(log_dir) == before
    done = repacked(log_dir)
    assert [(p.bytes_before, p.bytes_after, p.segments) for p in planned.partitions] == [
        (p.bytes_before, p.bytes_after, p.segments) for p in done.partitions
    ]


def test_a_second_run_finds_nothing_and_the_history_tells_of_the_first(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path)
    repacked(log_dir)
    before = contents(log_dir)
    assert not repacked(log_dir).partitions[0].segments
    assert contents(log_dir) == before
    (entry,) = [entry for entry in read_journal(log_dir) if entry["what"] == "repack"]
    assert (entry["partition"], entry["segments"][0]["base_offset"]) == ("wallets-0", 0)
    (told,) = [e for e in read_history(LogDir(log_dir), lambda _: True).entries if e["what"] == "repack"]
    assert told["bytes"] > told["bytes_after"] > 0


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "codec",
    [
        None,
        *(AskedCodec(codec) for codec in Compression),
        AskedCodec(Compression.ZSTD, 9),
        AskedCodec(Compression.GZIP, 1),
    ],
)
@pytest.mark.parametrize("draw", [accounts, orders, payments, prices, wallets])
def test_every_record_stays_with_every_codec(
    tmp_path: Path, draw: object, codec: AskedCodec | None, threads: int
) -> None:
    log_dir = drawn(tmp_path, draw)
    ((name, _),) = LogDir(log_dir).partitions()
    before, files = (
        records(log_dir, str(name)),
        {path.name for path in (log_dir / str(name)).iterdir() if not path.name.endswith(".deleted")},
    )
    (done,) = repacked(log_dir, asking(codec, delete_delay_ms=0), threads).partitions
    assert done.error is None
    assert records(log_dir, str(name)) == before
    assert {path.name for path in (log_dir / str(name)).iterdir() if not path.name.endswith(".deleted")} == files


def test_another_replica_or_none_known_refuses_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = drawn(tmp_path)
    before = contents(log_dir)
    monkeypatch.setattr(repacking, "placed", lambda log_dirs, wants, _: placed_here(log_dirs, wants, (1, 2)))
    (several,) = repacked(log_dir).partitions
    monkeypatch.setattr(repacking, "placed", lambda *_: None)
    (unknown,) = repacked(log_dir).partitions
    (log_dir / f"wallets-0.{'ab' * 16}-future").mkdir()
    (moving,) = repacked(log_dir).partitions
    assert [one.refused.code for one in (several, unknown, moving) if one.refused] == [
        RepackRefusal.SEVERAL_REPLICAS, RepackRefusal.REPLICAS_UNKNOWN, RepackRefusal.REPLICA_MOVES,
    ]  # fmt: skip
    assert {name: data for name, data in contents(log_dir).items() if name in before} == before


def test_damage_ends_the_partition_before_anything_is_swapped(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path)
    log = next(iter(sorted((log_dir / "wallets-0").glob("*.log"))))
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    (done,) = repacked(log_dir).partitions
    assert "CRC" in (done.error or "")
    assert (log.read_bytes(), done.segments) == (bytes(data), ())
    assert not list((log_dir / "wallets-0").glob("*.cleaned"))


def test_a_swap_whose_recovery_fails_is_left_as_it_is(tmp_path: Path) -> None:
    """Else the new segment would take the name of the only copy. A plan reads the log as recovery would leave it."""
    seen = set()
    for number in range(0, 40, 4):
        log_dir = drawn(tmp_path / str(number))
        before = records(log_dir)
        log = log_dir / "wallets-0" / f"{0:020d}.log"
        log.rename(log.with_name(f"{log.name}.swap"))
        (planned,) = plan_repack(a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS)), asking()).partitions
        assert (planned.error, bool(planned.segments)) == (None, True)
        disk = FailingAt(number)
        done = repack(a_cleaner(log_dir, LAYERS, disk, FakeClock(AT_MS)), asking())
        seen.add(any("waits for the recovery" in (one.error or "") for one in done.partitions))
        repacked(log_dir)
        assert records(log_dir) == before
        if disk.steps <= number:
            break
    assert seen == {True, False}
