"""Keys erased from logs on disk: what is left, what stays for now, and what tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.erase import erasing
from cleaner.engine.erase.erasing import Erasure, ErasureRequest, erase, plan_erasure
from cleaner.engine.journal import read_journal
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
from cleaner.engine.restore import read_history
from policies.erasure import ErasureRefusal, StayReason
from policies.plan import Only
from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem, Purpose
from storage.log import Log, LogConfig
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, JOURNAL_FILE, TopicPartition
from storage.records import ControlType, Record
from tests.crash.acts import AT_MS, ERASED, FS, LAYERS
from tests.crash.scenes import Scene, accounts, clicks, orders, payments, prices, writing
from tests.crash.stops import FailingAt
from tests.faults import FullDisk
from tests.partition_dirs import FakeClock, PartitionDir, a_cleaner, committed, configured, keyed, request

KEY = "very-personal"


def wallets(log_dir: Path) -> None:
    """One key in three segments, its last record last; an open transaction begins behind offset 6."""
    with writing(log_dir, "wallets-0") as log:
        log.put(f"{KEY}=1", "other=1")
        log.roll()
        log.put(KEY, f"{KEY}=2", by=7)
        log.put("other=2", by=7)
        log.roll()
        log.put(f"{KEY}=3", "x=3", by=9, transactional=True)
        log.put(f"{KEY}=4")


def drawn(path: Path, *draws: object) -> Path:
    return Scene(lambda *_: None, draws or (wallets,)).draw(path / "data")  # type: ignore[arg-type]


def asking(*keys: str, **options: object) -> ErasureRequest:
    wanted = wanted_keys(keys or (KEY,), KeyEncoding.TEXT)
    with_tombstones = bool(options.pop("with_tombstones", False))
    return ErasureRequest(request(AT_MS, confirmed=True, **options), wanted, with_tombstones)


def erased(log_dir: Path, asked: ErasureRequest, fs: FileSystem | None = None) -> Erasure:
    return erase(a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)), asked)


def records(log_dir: Path, name: str = "wallets-0") -> list[Record]:
    with Log.open(log_dir / name, LogConfig(), FS) as log:
        return list(log.records())


def told(log_dir: Path, name: str = "wallets-0") -> list[str]:
    return [f"{r.offset} {(r.key or b'').decode()}" for r in records(log_dir, name)]


def contents(log_dir: Path) -> dict[str, bytes]:
    return {str(p.relative_to(log_dir)): p.read_bytes() for p in sorted(log_dir.rglob("*")) if p.is_file()}


def test_values_go_and_tombstones_and_what_lies_in_an_open_transaction_stay(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    before = records(log_dir)
    (done,) = erased(log_dir, asking()).partitions
    assert told(log_dir) == ["1 other", f"2 {KEY}", "4 other", f"5 {KEY}", "6 x", f"7 {KEY}"]
    assert [r for r in before if r.offset in (1, 2, 4, 5, 6, 7)] == records(log_dir)
    assert [(s.reason, s.records) for s in done.stays] == [(StayReason.TOMBSTONE, 1), (StayReason.OPEN_TRANSACTION, 2)]
    assert (done.records, done.done_segments, done.error) == (2, 2, None)


def test_tombstones_go_if_asked(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    erased(log_dir, asking(with_tombstones=True))
    assert told(log_dir) == ["1 other", "4 other", f"5 {KEY}", "6 x", f"7 {KEY}"]


def test_the_batch_at_the_log_end_stays_as_an_empty_one(tmp_path) -> None:
    def ends(path: Path) -> None:
        with writing(path, "wallets-0") as log:
            log.put("other=1")
            log.put(f"{KEY}=2")

    log_dir = drawn(tmp_path, ends)
    erased(log_dir, asking())
    with Log.open(log_dir / "wallets-0", LogConfig(), FS) as log:
        assert log.log_end_offset == 2
        assert [batch.header.record_count for batch in log.read()] == [1, 0]


def test_the_batch_before_an_open_transaction_stays_for_those_who_read_committed_records(tmp_path) -> None:
    def hangs(path: Path) -> None:
        with writing(path, "wallets-0") as log:
            log.put(f"{KEY}=1")
            log.put(f"{KEY}=2")
            log.put("other=3", by=9, transactional=True)

    log_dir = drawn(tmp_path, hangs)
    erased(log_dir, asking())
    with Log.open(log_dir / "wallets-0", LogConfig(), FS) as log:
        found = [(batch.header.last_offset, batch.header.record_count) for batch in log.read()]
    assert found == [(1, 0), (2, 1)]


def test_filters_go_before_a_kill_can_leave_them_to_a_run_that_finds_no_record(tmp_path, monkeypatch) -> None:
    log_dir = drawn(tmp_path)
    seen: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(erasing, "forget_filters", lambda directory: seen.append((directory, told(log_dir))))
    before = told(log_dir)
    erased(log_dir, asking())
    assert seen == [(log_dir / "wallets-0", before)]


def test_a_plan_changes_nothing_and_says_what_the_deed_does(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    before = contents(log_dir)
    planned = plan_erasure(a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS)), asking(), measured=True)
    assert contents(log_dir) == before
    done = erased(log_dir, asking())
    assert [p.segments for p in planned.partitions] == [p.segments for p in done.partitions]
    left = {path.name: path.stat().st_size for path in (log_dir / "wallets-0").glob("*.log")}
    sizes = {f"{s.base_offset:020}.log": s.size_after for p in done.partitions for s in p.segments}
    assert sizes == {name: left[name] for name in sizes}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("draw", [accounts, clicks, orders, payments, prices])
def test_all_policies_lose_the_keys_alone(tmp_path, draw, threads) -> None:
    log_dir = drawn(tmp_path, draw)
    ((name, _),) = LogDir(log_dir).partitions()
    before = records(log_dir, str(name))
    checkpoints = (log_dir / CLEANER_OFFSET_CHECKPOINT).read_bytes()
    cleaner = a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS), threads)
    (done,) = erase(cleaner, asking(*ERASED, with_tombstones=True)).partitions
    assert not done.stays
    wanted = {key.encode() for key in ERASED}
    assert records(log_dir, str(name)) == [record for record in before if record.key not in wanted]
    assert done.records == len(before) - len(records(log_dir, str(name))) > 0
    assert (log_dir / CLEANER_OFFSET_CHECKPOINT).read_bytes() == checkpoints


def test_no_key_is_in_the_journal_and_history_tells_the_erasure(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    erased(log_dir, asking())
    assert KEY.encode() not in (log_dir / JOURNAL_FILE).read_bytes()
    (entry,) = [entry for entry in read_journal(log_dir) if entry["what"] == "erase"]
    assert (entry["records"], entry["first_offset"], entry["last_offset"]) == (2, 0, 3)
    (told_entry,) = [e for e in read_history(LogDir(log_dir), lambda _: True).entries if e["what"] == "erase"]
    assert "unfinished" not in told_entry


def test_replaced_files_wait_and_the_next_clean_takes_them(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    (done,) = erased(log_dir, asking()).partitions
    assert done.until_ms == AT_MS + 60_000
    waiting = sorted(path.name for path in (log_dir / "wallets-0").glob("*.log.deleted"))
    assert len(waiting) == 2
    layers = configured(wallets={"cleanup.policy": "compact"})
    _, outcome = a_cleaner(log_dir, layers, None, FakeClock(AT_MS + 10**10)).clean(
        request(AT_MS + 10**10, confirmed=True, only=Only.RETENTION)
    )
    assert not outcome.kept
    assert not list((log_dir / "wallets-0").glob("*.deleted"))


@pytest.mark.parametrize("is_created_anew", [False, True])
def test_what_lost_every_record_is_kept_only_if_a_broker_created_its_segment_anew(tmp_path, is_created_anew) -> None:
    made = PartitionDir(tmp_path, "wallets-0").segment(0, keyed(0, f"{KEY}=1")).segment(10, keyed(10, "other=1"))
    committed(tmp_path, made.segment(20, keyed(20, "other=2")))  # all of one file time, as after a copy
    assert erased(tmp_path, asking()).partitions[0].records == 1
    assert (made.path / f"{0:020d}.log.deleted").stat().st_size
    if is_created_anew:  # the erasure may have stopped before it replaced the segment
        (made.path / f"{0:020d}.log").write_bytes(b"")
    kept = OnlyCopies(LogDir(tmp_path)).of(TopicPartition("wallets", 0), list_partition(made.path))
    assert bool(kept.copies) == is_created_anew


def test_nothing_waits_without_a_delay(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    before = {path.name for path in (log_dir / "wallets-0").glob("*.deleted")}
    (done,) = erased(log_dir, asking(delete_delay_ms=0)).partitions
    assert done.until_ms is None
    assert {path.name for path in (log_dir / "wallets-0").glob("*.deleted")} <= before


def test_a_second_run_finds_nothing_and_changes_nothing(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    erased(log_dir, asking(delete_delay_ms=0))
    before = contents(log_dir)
    assert erased(log_dir, asking()).records == 0
    assert contents(log_dir) == before


def test_what_is_not_committed_stays_for_a_second_run(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    ends = {TopicPartition("wallets", 0): 1}
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))
    (done,) = erased(log_dir, asking()).partitions
    assert done.records == 0
    assert [(s.reason, s.records) for s in done.stays] == [(StayReason.ABOVE_HIGH_WATERMARK, 5)]


def test_without_a_high_watermark_a_backup_is_taken_as_committed_only_if_asked(tmp_path) -> None:
    log_dir = drawn(tmp_path)
    (log_dir / HIGH_WATERMARK_CHECKPOINT).unlink()
    (refused,) = erased(log_dir, asking()).partitions
    assert refused.refused
    assert refused.refused.code == "NO_HIGH_WATERMARK"
    (done,) = erased(log_dir, asking(assume_committed=True)).partitions
    assert done.records == 2


def test_a_replica_move_and_internal_topics_are_left_alone(tmp_path) -> None:
    def internal(path: Path) -> None:
        with writing(path, "__mine-0") as log:
            log.put(f"{KEY}=1")

    log_dir = drawn(tmp_path, wallets, internal)
    (log_dir / f"wallets-0.{'ab' * 16}-future").mkdir()
    before = contents(log_dir)
    found = {p.topic_partition.topic: p.refused and p.refused.code for p in erased(log_dir, asking()).partitions}
    assert found == {"__mine": ErasureRefusal.INTERNAL_TOPIC, "wallets": ErasureRefusal.REPLICA_MOVES}
    assert {n: c for n, c in contents(log_dir).items() if "logcleaner" not in n and n != ".lock"} == before


def test_a_torn_end_and_damage_leave_the_partition_as_it_was(tmp_path) -> None:
    for number, damage in enumerate((lambda data: data + b"torn", lambda data: data[:70] + b"\0" + data[71:])):
        log_dir = drawn(tmp_path / str(number))
        last = max((log_dir / "wallets-0").glob("*.log"))
        last.write_bytes(damage(last.read_bytes()))
        before = contents(log_dir / "wallets-0")
        (failed,) = erased(log_dir, asking()).partitions
        assert failed.error
        assert contents(log_dir / "wallets-0") == before


def test_a_full_disk_leaves_whole_segments_and_history_says_so(tmp_path) -> None:
    seen = set()
    for free_steps in range(40):
        log_dir = drawn(tmp_path / str(free_steps))
        before, after = told(log_dir), ["1 other", f"2 {KEY}", "4 other", f"5 {KEY}", "6 x", f"7 {KEY}"]
        disk = FullDisk(free_steps, frozenset({Purpose.CLEAN, Purpose.SWAP_IN, Purpose.RETIRE}))
        (done,) = erased(log_dir, asking(), disk).partitions
        seen.add((done.done_segments, done.error is not None))
        assert told(log_dir) == [before, [line for line in before if line != f"0 {KEY}"], after][done.done_segments]
        (entry,) = [e for e in read_history(LogDir(log_dir), lambda _: True).entries if e["what"] == "erase"]
        assert entry.get("unfinished", 0) == 2 - done.done_segments
        if done.error is None:
            break
    assert seen >= {(0, True), (1, True), (2, False)}


def test_a_swap_whose_recovery_fails_is_left_as_it_is(tmp_path) -> None:
    """Else the new segment would take the name of the only copy."""
    seen = set()
    for number in range(40):
        log_dir = drawn(tmp_path / str(number))
        before = told(log_dir)
        log = log_dir / "wallets-0" / f"{0:020d}.log"
        log.rename(log.with_name(f"{log.name}.swap"))
        disk = FailingAt(number)
        done = erased(log_dir, asking(), disk)
        seen.add(any("waits for the recovery" in (one.error or "") for one in done.partitions))
        erased(log_dir, asking("nobody"))
        kept = [line for line in told(log_dir) if KEY not in line]
        assert kept == [line for line in before if KEY not in line]
        if disk.steps <= number:
            break
    assert seen == {True, False}


def test_a_marker_that_was_erased_behind_is_still_there(tmp_path) -> None:
    def aborting(path: Path) -> None:
        with writing(path, "wallets-0") as log:
            log.put(f"{KEY}=1", by=8, transactional=True)
            log.end(ControlType.ABORT, by=8)
            log.roll()
            log.put("other=1")

    log_dir = drawn(tmp_path, aborting)
    index = (log_dir / "wallets-0" / f"{0:020}.txnindex").read_bytes()
    (done,) = erased(log_dir, asking()).partitions
    assert done.records == 1
    assert (log_dir / "wallets-0" / f"{0:020}.txnindex").read_bytes() == index
    with Log.open(log_dir / "wallets-0", LogConfig(), FS) as log:
        assert [batch.header.is_control for batch in log.read() if batch.header.record_count] == [True, False]


@pytest.mark.parametrize("encoding", [KeyEncoding.TEXT, KeyEncoding.AVRO_WIRE])
def test_keys_are_found_among_records_without_a_key_and_behind_any_schema_id(
    tmp_path: Path, encoding: KeyEncoding
) -> None:
    def wired(key: str) -> bytes:
        plain = key.encode()
        return plain if encoding is KeyEncoding.TEXT else b"\0\0\0\0\x07" + bytes([2 * len(plain)]) + plain

    def unkeyed(path: Path) -> None:
        with writing(path, "wallets-0") as log:
            for codec in (Compression.NONE, Compression.ZSTD):
                keys = [None, wired("a"), None, wired("b"), wired("ab")]
                written = [Record(0, AT_MS, key, b"value") for key in keys]
                log.log.append_records(written, now_ms=AT_MS, leader_epoch=0, compression=codec)
                log.log.append_records(written[:1], now_ms=AT_MS, leader_epoch=0, compression=codec)

    log_dir = drawn(tmp_path, unkeyed)
    before = records(log_dir)
    erased(log_dir, ErasureRequest(request(AT_MS, confirmed=True), wanted_keys(("a", "zz"), encoding)))
    assert records(log_dir) == [record for record in before if record.key != wired("a")]
    assert len(before) - len(records(log_dir)) == 2
