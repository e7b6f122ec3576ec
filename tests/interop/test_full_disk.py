"""What we leave of a log on a full disk, and what a crash leaves on the way there, opened by Kafka's own loader."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from policies.plan import Only
from policies.rescue import SpaceTarget
from tests.faults import CrashingFileSystem, after_power_loss, crashes
from tests.interop.referee import Config, Referee, Shutdown
from tests.interop.verdicts import Log
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)
from tests.small_disks import a_small_disk, fill, fill_names

pytestmark = pytest.mark.kafka

SEGMENTS: Final = 240
EXPIRED: Final = 220
LAYERS: Final = configured(clicks=EXPIRING, gone=EXPIRING)
CONFIG: Final[Config] = {"cleanup.policy": "delete", "retention.ms": "-1"}


def a_partition(log_dir: Path, name: str, *, segments: int, expired: int, value: str) -> PartitionDir:
    """A record a segment, a leader epoch every tenth."""
    made = PartitionDir(log_dir, name)
    for base in range(segments):
        age_ms = 2 * DAY_MS if base < expired else 0
        made.segment(base, keyed(base, f"k={value}", timestamp_ms=NOW_MS - age_ms))
    epochs = [f"{base // 10} {base}\n" for base in range(0, segments, 10)]
    (made.path / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{''.join(epochs)}")
    return made


def read(referee: Referee, log_dir: Path, scratch: Path, shutdown: Shutdown) -> dict[str, Log]:
    """Each partition as Kafka reads it, in a copy."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(log_dir, scratch)
    (scratch / ".lock").unlink(missing_ok=True)
    (scratch / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    names = sorted(path.name for path in scratch.iterdir() if path.is_dir())
    paths = [scratch / name for name in names]
    logs = referee.read(paths, now_ms=NOW_MS, checkpoints=True, shutdown=shutdown, config=CONFIG)
    return dict(zip(names, logs, strict=True))


def offsets(log: Log) -> list[int]:
    return [record.offset for record in log.records()]


@pytest.mark.parametrize("shutdown", ["clean", "unclean"])
@pytest.mark.parametrize("command", ["clean", "free"])
def test_kafka_opens_what_is_left_on_a_disk_that_was_full(
    referee: Referee, tmp_path: Path, command: str, shutdown: Shutdown
) -> None:
    with a_small_disk("ext4", tmp_path) as disk:
        log_dir = disk / "data"
        clicks = a_partition(log_dir, "clicks-0", segments=SEGMENTS, expired=EXPIRED, value="v" * 2000)
        gone = a_partition(log_dir, "gone-0", segments=3, expired=3, value="v" * 2000)
        committed(log_dir, clicks, gone)
        (log_dir / ".lock").touch()
        fill(disk)
        fill_names(log_dir)
        cleaner = a_cleaner(log_dir, LAYERS, clock=FakeClock())
        if command == "clean":
            _, outcome = cleaner.clean(request(delete_delay_ms=0))
        else:
            outcome = cleaner.free(request(only=Only.RETENTION), SpaceTarget(100, is_percent=True)).outcome
        assert outcome.errors == ()
        logs = read(referee, log_dir, tmp_path / "opened", shutdown)
    assert offsets(logs["clicks-0"]) == list(range(EXPIRED, SEGMENTS))
    assert (logs["clicks-0"].log_start_offset, logs["clicks-0"].log_end_offset) == (EXPIRED, SEGMENTS)
    assert [(e.epoch, e.start_offset) for e in logs["clicks-0"].leader_epochs] == [(22, EXPIRED), (23, EXPIRED + 10)]
    assert (logs["gone-0"].log_start_offset, logs["gone-0"].log_end_offset) == (3, 3)
    assert [segment.base_offset for segment in logs["gone-0"].segments] == [3]


def test_kafka_opens_what_a_power_loss_leaves_of_a_deletion_without_a_delay(referee: Referee, tmp_path: Path) -> None:
    path = tmp_path / "data"

    def run(disk: CrashingFileSystem) -> None:
        shutil.rmtree(path, ignore_errors=True)
        made = a_partition(path, "clicks-0", segments=5, expired=3, value="v")
        a_cleaner(committed(path, made), LAYERS, disk).clean(request(delete_delay_ms=0))

    states = list(every_state(path, tmp_path, run))
    logs = referee.read(states, now_ms=NOW_MS, checkpoints=True, config=CONFIG)
    for log in logs:
        assert offsets(log)[-2:] == [3, 4]
        assert log.log_end_offset == 5
    assert len(logs) > 20


def every_state(path: Path, tmp_path: Path, run: Callable[[CrashingFileSystem], None]) -> Iterator[Path]:
    number = 0
    for disk in crashes(run):
        for left in after_power_loss(path / "clicks-0", disk, tmp_path / "left" / "clicks-0"):
            state = tmp_path / f"state-{number}"
            state.mkdir()
            number += 1
            for checkpoint in path.glob("*checkpoint"):
                shutil.copy(checkpoint, state)
            yield Path(shutil.copytree(left, state / "clicks-0"))
