"""Nothing that the engine does leaves a file open: a daemon does it for years."""

from __future__ import annotations

import gc
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer
from policies.config.config_layers import Configured
from policies.rescue import SpaceTarget
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from storage.log.producer_state import ProducerState
from storage.log_dir import LogDir
from storage.names import FileKind
from tests.partition_dirs import (
    COMPACT,
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

OLD_MS = NOW_MS - 2 * DAY_MS
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1"}
ORDERS = {**COMPACT, "max.compaction.lag.ms": str(30 * DAY_MS)}  # by which the first batches are looked at
LAYERS = configured(clicks=EXPIRING, gone=EXPIRING, orders=ORDERS, swapped=KEPT)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return a_log_dir(tmp_path / "data")


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Open what a process keeps open once it has compacted."""
    a_cleaner(a_log_dir(tmp_path_factory.mktemp("warm") / "data"), LAYERS, threads=3).clean(request())


def a_log_dir(root: Path) -> Path:
    """Of ``clicks`` a segment expired, of ``gone`` all; ``orders`` is compacted, ``swapped`` was in a swap."""
    clicks, gone, orders, swapped = (
        PartitionDir(root, f"{topic}-0") for topic in ("clicks", "gone", "orders", "swapped")
    )
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    clicks.segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS), mtime_ms=OLD_MS).segment(1, keyed(1, "a=2"))
    gone.segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS, **producer), mtime_ms=OLD_MS)
    orders.segment(0, keyed(0, "a=1", "b=1"), keyed(2, "c=1", **producer))
    orders.segment(10, keyed(10, "a=2")).segment(20, keyed(20, "d=1"))
    swapped.segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=1"))
    (swapped.path / f"{0:020d}.log.swap").write_bytes(swapped.log(0).read_bytes())
    for made in (clicks, gone, orders):
        (made.path / f"{0:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
        (made.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return committed(root, clicks, gone, orders, swapped)


def open_files() -> set[str]:
    """Return the files and pipes that are open. Sockets are those of other tests: Spark connects anew at any time."""
    gc.collect()
    found = {path: str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    return {f"{path.name} {target}" for path, target in found.items() if not re.search("/proc/|^socket:", target)}


def restored(log_dir: Path) -> None:
    a_cleaner(log_dir, LAYERS).clean(request())
    restorer = Restorer([LogDir.open(log_dir)], Means(FileSystem(), FakeClock(), Silent()))
    assert [result.is_done for result in restorer.restore(lambda _: True) if result.restoration]
    assert restorer.release(lambda _: True)


def dry_run(log_dir: Path) -> None:
    cleaner = a_cleaner(log_dir, LAYERS)
    cleaner.would_do(cleaner.plan(request()), exact=True)


ACTS = {
    "plan": lambda log_dir: a_cleaner(log_dir, LAYERS).plan(request()),
    "dry run": dry_run,
    "clean": lambda log_dir: a_cleaner(log_dir, LAYERS).clean(request()),
    "clean at once": lambda log_dir: a_cleaner(log_dir, LAYERS).clean(request(delete_delay_ms=0)),
    "clean by threads": lambda log_dir: a_cleaner(log_dir, LAYERS, threads=3).clean(request()),
    "confirmed": lambda log_dir: a_cleaner(log_dir, LAYERS).clean(request(confirmed=True)),
    "free": lambda log_dir: a_cleaner(log_dir, LAYERS).free(request(), SpaceTarget(1 << 60)),
    "copy": lambda log_dir: a_cleaner(log_dir, LAYERS).copy(request(), log_dir.parent / "copy", tool_version="1"),
    "restore and release": restored,
    "checkpoints": lambda log_dir: a_cleaner(log_dir, LAYERS).correct_checkpoints(request()),
}


DAMAGE = {
    "a damaged log": lambda log_dir: altered(log_dir / "orders-0" / f"{0:020d}.log", -1),
    "a log cut short": lambda log_dir: os.truncate(log_dir / "orders-0" / f"{10:020d}.log", 30),
    "a damaged swap": lambda log_dir: altered(log_dir / "swapped-0" / f"{0:020d}.log.swap", -1),
    "a damaged time index": lambda log_dir: altered(log_dir / "clicks-0" / f"{0:020d}.timeindex", 0),
    "a damaged snapshot": lambda log_dir: altered(log_dir / "orders-0" / f"{0:020d}.snapshot", -1),
    "no index": lambda log_dir: (log_dir / "clicks-0" / f"{0:020d}.index").unlink(),
    "a journal cut short": lambda log_dir: (log_dir / ".logcleaner-journal").write_bytes(b"cut short"),
    "damaged leader epochs": lambda log_dir: (log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("no"),
}


def altered(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x80
    path.write_bytes(data)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_no_file_is_left_open(log_dir: Path, act) -> None:
    before = open_files()
    act(log_dir)
    assert not open_files() - before


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("name", ["dry run", "clean", "copy"])
def test_no_file_is_left_open_where_a_file_is_damaged(log_dir: Path, name: str, damage) -> None:
    damage(log_dir)
    before = open_files()
    with suppress(LogCleanerError):
        ACTS[name](log_dir)
    assert not open_files() - before


def test_log_dir_of_these_tests_has_work_of_every_kind(log_dir: Path) -> None:
    plan, outcome = Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock())).clean(request())
    results = {key[1].topic: result for key, result in outcome.results.items()}
    assert (results["clicks"].deleted_segments, results["gone"].deleted_segments) == (1, 1)
    assert results["orders"].records_kept == 3
    assert any(file.name.kind is FileKind.LOG for file in list_partition(log_dir / "swapped-0").files)
    assert not list_partition(log_dir / "swapped-0").needs_recovery
    assert plan.has_work
