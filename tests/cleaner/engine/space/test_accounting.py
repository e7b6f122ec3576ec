"""The account of a log dir adds up to what ``du`` prints, to the byte, and each file is of the right kind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.space import NOTHING, Account, Accountant, Amount, SpaceKind, account_of
from storage.log.listing import Listing, list_partition
from tests.cleaner.engine.space.du import du
from tests.conftest import Samples
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

MIB = 1 << 20
LAYERS = configured(orders=EXPIRING, clicks=EXPIRING)
AS_OTHER_USER = """
import json, os, sys
from pathlib import Path
from cleaner.engine.space import Accountant
from tests.partition_dirs import a_cleaner, configured, request
def totals(path):
    accountant = Accountant()
    (account,) = accountant.accounts_of(a_cleaner(path, configured()).plan(request(), listed=accountant))
    return account.total.disk_bytes, account.total.apparent_bytes, account.unread
totals(Path(sys.argv[1]))  # load everything, while it can be read
os.setgroups([]); os.setgid(4711); os.setuid(4711)
print(json.dumps(totals(Path(sys.argv[1]))))
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: needs root to be another user")


def accounted(cleaner: Cleaner, *topics: str) -> Account:
    accountant = Accountant(topics)
    (account,) = accountant.accounts_of(cleaner.plan(request(topics=topics), listed=accountant))
    return account


def assert_adds_up(account: Account) -> None:
    """The total is what ``du`` says of the log dir; that of a partition without hard links, of its directory."""
    path = Path(account.path)
    assert (account.total.disk_bytes, account.total.apparent_bytes) == du(path)
    for name, found in account.partitions.items():
        assert (found.total.disk_bytes, found.total.apparent_bytes) == du(path / str(name))
    assert account.unread == ()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two partitions, two segments each."""
    place = tmp_path / "data"
    made = [PartitionDir(place, name) for name in ("orders-0", "clicks-0")]
    for partition in made:
        partition.segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=2"))
    return committed(place, *made)


@pytest.mark.parametrize("stage", ["before", "after", "before2", "after2"])
def test_log_dirs_of_real_brokers_add_up(samples: Samples, stage: str) -> None:
    assert_adds_up(accounted(a_cleaner(samples.root / stage, LAYERS)))


def fill(log_dir: Path) -> dict[SpaceKind, int]:
    """Put one or more files of each kind beside the two partitions. Return the number of files of each."""
    orders = log_dir / "orders-0"
    for name in (
        *("00000000000000000002.snapshot", "00000000000000000000.txnindex"),
        *(
            "00000000000000000007.log.deleted",
            "00000000000000000007.index.deleted",
            "00000000000000000007.snapshot.deleted",
            "partition.metadata.deleted",
        ),
        *("00000000000000000001.log.cleaned", "00000000000000000000.timeindex.swap"),
        *("partition.metadata", "leader-epoch-checkpoint", "leader-epoch-checkpoint.tmp"),
        *("00000000000000000001.log.cleaned.logcleaner", "notes", "7.logx", "00000000000000000001.log.bak"),
    ):
        (orders / name).write_bytes(b"x" * 5000)
    for name in (
        *("orders-1.0123456789abcdef0123456789abcdef-delete", "orders-2.0123456789abcdef0123456789abcdef-stray"),
        *("orders-3.0123456789abcdef0123456789abcdef-future", "__cluster_metadata-0", "lost+found", "orders"),
    ):
        (log_dir / name / "deeper").mkdir(parents=True)
        (log_dir / name / "00000000000000000000.log").write_bytes(b"x" * 10)
        (log_dir / name / "deeper" / "file").write_bytes(b"x" * 4097)
    for name in (
        *("meta.properties", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint.tmp", ".lock"),
        *(".logcleaner-journal", ".logcleaner-holds", "logcleaner-manifest.json", "core.1234"),
    ):
        (log_dir / name).write_bytes(b"x")
    return {
        SpaceKind.SEGMENTS: 4, SpaceKind.INDEXES: 4 * 2 + 1, SpaceKind.SNAPSHOTS: 1, SpaceKind.DELETED: 4,
        SpaceKind.CLEANED: 1, SpaceKind.SWAP: 1, SpaceKind.DELETE_DIRS: 2, SpaceKind.STRAY_DIRS: 2,
        SpaceKind.FUTURE_DIRS: 2, SpaceKind.CLUSTER_METADATA: 2, SpaceKind.METADATA: 3 + 4 + 2,
        SpaceKind.LOGCLEANER: 4, SpaceKind.DIRECTORIES: 3 + 6 * 2, SpaceKind.OTHERS: 3 + 1 + 4,
    }  # fmt: skip


def test_every_file_is_of_one_kind(log_dir: Path) -> None:
    expected = fill(log_dir)
    account = accounted(a_cleaner(log_dir, LAYERS))
    assert {kind: amount.files for kind, amount in account.amounts.items()} == expected
    assert list(account.amounts) == list(SpaceKind)
    assert_adds_up(account)


def test_other_entries_are_named_the_largest_first(log_dir: Path) -> None:
    fill(log_dir)
    (log_dir / "heap.hprof").write_bytes(b"x" * MIB)
    names = [other.name for other in accounted(a_cleaner(log_dir, LAYERS)).others]
    assert names[0] == "heap.hprof"
    assert {"core.1234", "lost+found", "orders", "orders-0/notes", "orders-0/00000000000000000001.log.bak"} < {*names}


def test_sparse_and_preallocated_files_have_two_sizes(log_dir: Path) -> None:
    index, log = log_dir / "orders-0" / f"{1:020d}.index", log_dir / "clicks-0" / f"{1:020d}.log"
    os.truncate(index, 10 * MIB)
    with log.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 3 * MIB)
    account = accounted(a_cleaner(log_dir, LAYERS))
    assert account.amounts[SpaceKind.INDEXES].apparent_bytes > 10 * MIB
    assert account.amounts[SpaceKind.INDEXES].disk_bytes < MIB
    assert account.amounts[SpaceKind.SEGMENTS].disk_bytes >= 3 * MIB
    assert_adds_up(account)


def test_hard_links_count_once_in_a_log_dir(log_dir: Path) -> None:
    before = accounted(a_cleaner(log_dir, LAYERS)).total
    linked = log_dir / "orders-0" / f"{0:020d}.log"
    os.link(linked, log_dir / "orders-0" / f"{0:020d}.log.deleted")
    os.link(linked, log_dir / "clicks-0" / "a second name")
    os.link(linked, log_dir / "a third name")
    account = accounted(a_cleaner(log_dir, LAYERS))
    assert account.total == before
    assert (account.total.disk_bytes, account.total.apparent_bytes) == du(log_dir)
    by_itself = account_of(log_dir / "orders-0").total
    assert (by_itself.disk_bytes, by_itself.apparent_bytes) == du(log_dir / "orders-0")


def test_symlinks_are_not_followed(log_dir: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(b"x" * MIB)
    (log_dir / "payments-0").symlink_to(elsewhere)
    (log_dir / "orders-0" / f"{9:020d}.log").symlink_to(elsewhere / "large")
    (log_dir / "long").symlink_to("x" * 200)  # too long for the inode: it takes a block
    account = accounted(a_cleaner(log_dir, LAYERS))
    assert account.amounts[SpaceKind.OTHERS].files == 3
    assert_adds_up(account)
    linked = log_dir / "payments-0"  # since its name was listed as that of a directory
    assert account_of(linked).total.apparent_bytes == linked.lstat().st_size


def test_odd_names_and_odd_files_add_up(log_dir: Path) -> None:
    for name in (
        b"caf\xe9",
        b"new\nline",
        b"-rf",
        b"00000000000000000000.log",
        "\u00e9\u4e2d.log".encode(),
        b"x (deleted)",
    ):
        Path(os.fsdecode(os.fsencode(log_dir) + b"/" + name)).write_bytes(b"x" * 100)
    os.mkfifo(log_dir / "orders-0" / f"{8:020d}.log")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(log_dir / "socket"))
        account = accounted(a_cleaner(log_dir, LAYERS))
        assert account.amounts[SpaceKind.OTHERS].files == 8
        assert_adds_up(account)


def test_tree_deeper_than_python_recurses_adds_up(log_dir: Path) -> None:
    deep = str(log_dir / "lost+found")
    for _ in range(sys.getrecursionlimit() + 200):
        Path(deep).mkdir()
        deep += "/d"
    Path(deep).write_bytes(b"x" * 5000)
    try:
        assert_adds_up(accounted(a_cleaner(log_dir, LAYERS)))
    finally:
        subprocess.run(["rm", "-r", str(log_dir / "lost+found")], check=True)


def test_partition_that_cannot_be_planned_is_accounted_for_all_the_same(log_dir: Path) -> None:
    (log_dir / "cleaner-offset-checkpoint").write_bytes(b"garbled")
    account = accounted(a_cleaner(log_dir, LAYERS))
    assert [str(name) for name in account.partitions] == ["clicks-0", "orders-0"]
    assert_adds_up(account)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    (log_dir / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"garbled")
    assert_adds_up(accounted(a_cleaner(log_dir, LAYERS)))


def test_each_partition_directory_is_listed_once(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []

    def told(directory: Path) -> Listing:
        listed.append(directory.name)
        return list_partition(directory)

    for module in ("cleaner.engine.inventory", "cleaner.engine.space", "cleaner.engine.leftovers"):
        monkeypatch.setattr(f"{module}.list_partition", told)
    assert_adds_up(accounted(a_cleaner(log_dir, LAYERS)))
    assert sorted(listed) == ["clicks-0", "orders-0"]


def test_account_of_one_topic_has_its_directories_alone(log_dir: Path) -> None:
    fill(log_dir)
    account = accounted(a_cleaner(log_dir, LAYERS), "clicks")
    assert not account.is_whole
    assert (account.total.disk_bytes, account.total.apparent_bytes) == du(log_dir / "clicks-0")
    account = accounted(a_cleaner(log_dir, LAYERS), "orders")
    assert {SpaceKind.STRAY_DIRS, SpaceKind.FUTURE_DIRS, SpaceKind.DELETE_DIRS} < account.amounts.keys()
    assert account.total.disk_bytes == sum(du(path)[0] for path in log_dir.glob("orders-*"))


def test_file_that_vanishes_between_listing_and_looking_counts_nothing(log_dir: Path) -> None:
    (log_dir / "orders-0" / "partition.metadata").touch()
    listing = list_partition(log_dir / "orders-0")
    (log_dir / "orders-0" / "partition.metadata").unlink()
    assert SpaceKind.METADATA not in account_of(log_dir / "orders-0", listing).amounts
    assert account_of(log_dir / "gone-0").total == NOTHING
    assert account_of(log_dir / "gone-0").unread == ()
    (log_dir / "plain-0").touch()
    assert account_of(log_dir / "plain-0").unread == (f"{log_dir / 'plain-0'}: cannot be read: Not a directory",)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter; pytest shuts its own ones."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place).resolve()


@needs_root
def test_what_another_user_may_not_read_is_named_and_not_counted(public: Path) -> None:
    made = [PartitionDir(public / "data", f"orders-{number}").segment(0, keyed(0, "a=1")) for number in range(3)]
    log_dir = committed(public / "data", *made)
    for name, mode in (("lost+found", 0o700), ("orders-1", 0o700), ("unsearchable", 0o744), ("orders-2", 0o744)):
        (log_dir / name).mkdir(exist_ok=True)
        (log_dir / name / "file").write_bytes(b"x" * 9000)
        (log_dir / name).chmod(mode)
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER_USER, str(log_dir)],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    disk_bytes, apparent_bytes, unread = json.loads(done.stdout)
    assert (disk_bytes, apparent_bytes) == du(log_dir, user=4711, group=4711, extra_groups=[])
    assert sorted(line.split(": ")[0] for line in unread) == [
        str(log_dir / name) for name in ("lost+found", "orders-1", "orders-2", "unsearchable")
    ]
    assert all("Permission denied" in line for line in unread)


def test_deleted_files_go_at_the_moment_of_which_the_journal_tells(log_dir: Path) -> None:
    cleaner = a_cleaner(log_dir, LAYERS)
    later = request(NOW_MS + 30 * DAY_MS)
    cleaner.clean(later)
    account = accounted(cleaner)
    (moments,) = {tuple(m.due_ms for m in moments) for moments in account.removals.values()}
    assert moments == (NOW_MS + 60_000,)
    assert sum((m.amount for found in account.removals.values() for m in found), NOTHING).files == (
        account.amounts[SpaceKind.DELETED].files
    )
    assert_adds_up(account)


def test_deleted_files_that_no_journal_knows_go_by_their_change_time(log_dir: Path) -> None:
    path = log_dir / "orders-0" / f"{0:020d}.log"
    gone = path.rename(path.with_name(path.name + ".deleted"))
    ((moment,),) = accounted(a_cleaner(log_dir, LAYERS)).removals.values()
    status = gone.stat()
    assert moment.due_ms == status.st_ctime_ns // 1_000_000 + 60_000
    assert moment.amount == Amount(1, status.st_size, status.st_blocks * 512)


def test_deleted_files_of_a_topic_that_nobody_speaks_of_have_no_moment(log_dir: Path) -> None:
    path = log_dir / "orders-0" / f"{0:020d}.log"
    path.rename(path.with_name(path.name + ".deleted"))
    account = accounted(a_cleaner(log_dir, configured(clicks=EXPIRING)))
    assert account.removals == {}
    assert account.amounts[SpaceKind.DELETED].files == 1
