"""Keys erased from a copy: the copy is what an erasure in place leaves, and the original stays as it was."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from cleaner.engine.copy.copying import OutputFull, UnusableOutput
from cleaner.engine.copy.manifest import MANIFEST_FILE
from cleaner.engine.copy.moment import SourceChanged
from cleaner.engine.erase.copying import erase_into_copy, plan_erased_copy
from cleaner.engine.erase.erasing import Erasure, ErasureRequest, erase
from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
from policies.erasure import ErasureRefusal, StayReason
from storage.checkpoints import format_offset_checkpoint
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    INCOMPLETE_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
)
from tests.cleaner.engine.erase.test_erasing import KEY, contents, drawn, told, wallets
from tests.crash import scenes
from tests.crash.acts import AT_MS, ERASED, LAYERS
from tests.crash.scenes import writing
from tests.faults import FullDisk
from tests.partition_dirs import FakeClock, a_cleaner, request


def asking(output: Path, *keys: str, topics: tuple[str, ...] = ("*",), **options: object) -> ErasureRequest:
    wanted = wanted_keys(keys or (KEY,), KeyEncoding.TEXT)
    tombstones = bool(options.pop("with_tombstones", False))
    return ErasureRequest(request(AT_MS, topics=topics, **options), wanted, tombstones, output=output)


def copied(log_dir: Path, asked: ErasureRequest, fs: FileSystem | None = None) -> Erasure:
    cleaner = a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS))
    return erase_into_copy(cleaner, asked, tool_version="0")


def in_place(log_dir: Path, asked: ErasureRequest) -> Erasure:
    return erase(a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS)), asked._replace(output=None))


def without_ours(files: dict[str, bytes]) -> dict[str, bytes]:
    own = (MANIFEST_FILE, ".logcleaner-journal", ".lock")
    return {name: data for name, data in files.items() if name not in own and not name.endswith(".deleted")}


def seeded(seed: int) -> list[object]:
    return [scenes.drawn(seed), *random.Random(seed).sample([scenes.orders, scenes.payments, scenes.accounts], 2)]


@pytest.mark.parametrize("seed", range(6))
def test_the_copy_has_the_bytes_that_an_erasure_in_place_leaves(tmp_path: Path, seed: int) -> None:
    log_dir = drawn(tmp_path, *seeded(seed))
    (log_dir / "meta.properties").write_text("version=1\nnode.id=3\n")
    before, times = contents(log_dir), {p: p.stat().st_mtime_ns for p in log_dir.rglob("*.log")}
    asked = asking(tmp_path / "copy", *ERASED, with_tombstones=seed % 2 == 0)
    planned = plan_erased_copy(a_cleaner(log_dir, LAYERS, None, FakeClock(AT_MS)), asked)
    done = copied(log_dir, asked)
    assert [p.segments for p in planned.partitions] == [p.segments for p in done.partitions]
    assert done.records > 0
    assert {n: c for n, c in contents(log_dir).items() if n != ".lock"} == before
    assert {p: p.stat().st_mtime_ns for p in log_dir.rglob("*.log")} == times
    twin = shutil.copytree(log_dir, tmp_path / "twin")
    for path, time_ns in times.items():
        assert (tmp_path / "copy" / path.relative_to(log_dir)).stat().st_mtime_ns == time_ns
    in_place(twin, asked)
    assert without_ours(contents(tmp_path / "copy")) == without_ours(contents(twin))


def test_other_topics_and_leftovers_are_not_in_the_copy(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets, scenes.clicks)
    (log_dir / f"wallets-1.{'ab' * 16}-stray").mkdir()
    (log_dir / "wallets-0" / f"{90:020}.log.deleted").write_bytes(b"old")
    done = copied(log_dir, asking(tmp_path / "copy", topics=("wallets",)))
    assert [str(p.topic_partition) for p in done.partitions] == ["wallets-0"]
    names = {path.name for path in (tmp_path / "copy").iterdir() if path.is_dir()}
    assert names == {"wallets-0"}
    assert not list((tmp_path / "copy").rglob("*.deleted"))
    for name in (HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
        if (tmp_path / "copy" / name).exists():
            assert set(LogDir(tmp_path / "copy").offsets(name)) <= {TopicPartition("wallets", 0)}


def test_what_stays_for_now_is_named(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets)
    (done,) = copied(log_dir, asking(tmp_path / "copy")).partitions
    assert told(tmp_path / "copy") == ["1 other", f"2 {KEY}", "4 other", f"5 {KEY}", "6 x", f"7 {KEY}"]
    assert [(s.reason, s.records) for s in done.stays] == [(StayReason.TOMBSTONE, 1), (StayReason.OPEN_TRANSACTION, 2)]
    assert done.until_ms is None


def test_a_replica_move_is_no_obstacle_and_what_is_refused_is_copied_as_it_is(tmp_path: Path) -> None:
    def internal(path: Path) -> None:
        with writing(path, "__mine-0") as log:
            log.put(f"{KEY}=1")

    log_dir = drawn(tmp_path, wallets, internal)
    (log_dir / f"wallets-0.{'ab' * 16}-future").mkdir()
    found = {p.topic_partition.topic: p for p in copied(log_dir, asking(tmp_path / "copy")).partitions}
    assert found["wallets"].records == 2
    assert found["__mine"].refused
    assert found["__mine"].refused.code == ErasureRefusal.INTERNAL_TOPIC
    assert told(tmp_path / "copy", "__mine-0") == told(log_dir, "__mine-0")


def test_nothing_is_written_if_nothing_may_be_erased(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets)
    (log_dir / HIGH_WATERMARK_CHECKPOINT).unlink()
    done = copied(log_dir, asking(tmp_path / "copy"))
    (partition,) = done.partitions
    assert (done.is_done, done.output) == (False, None)
    assert partition.refused
    assert not (tmp_path / "copy").exists()
    assert copied(log_dir, asking(tmp_path / "copy", assume_committed=True)).records == 2


def test_damage_leaves_the_partition_as_it_is_and_the_others_are_erased(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets, scenes.orders)
    log = min((log_dir / "wallets-0").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:70] + bytes([data[70] ^ 1]) + data[71:])
    found = {p.topic_partition.topic: p for p in copied(log_dir, asking(tmp_path / "copy", KEY, *ERASED)).partitions}
    assert found["wallets"].error
    assert str(log) in found["wallets"].error
    assert found["orders"].records > 0
    assert contents(tmp_path / "copy" / "wallets-0") == contents(log_dir / "wallets-0")
    assert (tmp_path / "copy" / MANIFEST_FILE).exists()


def test_an_interrupted_swap_of_the_original_is_finished_in_the_copy(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets)
    log = min((log_dir / "wallets-0").glob("*.log"))
    log.rename(log.with_name(f"{log.name}.swap"))
    before = contents(log_dir)
    done = copied(log_dir, asking(tmp_path / "copy"))
    assert [p.error for p in done.partitions] == [None]
    assert told(tmp_path / "copy") == ["1 other", f"2 {KEY}", "4 other", f"5 {KEY}", "6 x", f"7 {KEY}"]
    assert {n: c for n, c in contents(log_dir).items() if n != ".lock"} == before


def test_a_change_of_the_original_ends_the_copy(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets)

    class Meddling(FileSystem):
        def create(self, path: Path, like: Path, purpose: Purpose):  # type: ignore[no-untyped-def]
            if path.suffix == ".log":
                with (log_dir / "wallets-0" / f"{9:020}.index").open("ab") as file:
                    file.write(b"x")
            return super().create(path, like, purpose)

    with pytest.raises(SourceChanged):
        copied(log_dir, asking(tmp_path / "copy"), Meddling())
    assert (tmp_path / "copy" / INCOMPLETE_FILE).exists()
    assert not (tmp_path / "copy" / MANIFEST_FILE).exists()
    with pytest.raises(UnusableOutput):
        copied(log_dir, asking(tmp_path / "copy"))


def test_a_full_disk_ends_the_copy_at_any_step(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets)
    before = contents(log_dir)
    for free_steps in range(200):
        output = tmp_path / f"copy-{free_steps}"
        with suppress(OutputFull):
            copied(log_dir, asking(output), FullDisk(free_steps, frozenset(Purpose)))
            assert told(output)[0] == "1 other"
            break
        assert not (output / MANIFEST_FILE).exists()
        assert {n: c for n, c in contents(log_dir).items() if n != ".lock"} == before
    assert free_steps > 10


def test_a_checkpoint_beyond_the_log_is_copied_as_it_is(tmp_path: Path) -> None:
    log_dir = drawn(tmp_path, wallets)
    ends = {TopicPartition("wallets", 0): 10**6}
    (log_dir / CLEANER_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))
    copied(log_dir, asking(tmp_path / "copy"))
    assert LogDir(tmp_path / "copy").offsets(CLEANER_OFFSET_CHECKPOINT) == ends
