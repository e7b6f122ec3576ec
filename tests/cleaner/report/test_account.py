"""Where the bytes are, told to people and to machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cleaner.engine.space import (
    Account,
    Accounts,
    Amount,
    DirectoryAccount,
    FileSystemAccount,
    OtherEntry,
    Removal,
    SpaceKind,
    UnlinkedFile,
    UnlinkedFiles,
)
from cleaner.report.account import accounts_fields, directory_fields, tell_accounts
from cleaner.report.page import Page
from policies.rescue import Volume
from storage.names import TopicPartition

NOW_MS = 1_800_000_000_000
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)

GOLDEN = """
Space in /data
KIND                  ON DISK      SIZE FILES
segments (.log)      51.0 MiB  51.0 MiB     4
index files          24.0 KiB  20.0 MiB     6
producer snapshots    4.0 KiB  10 bytes     1
.deleted files       29.0 MiB  29.0 MiB     9  gone: 4.0 MiB with the next
                                               clean, 24.0 MiB in 55s, 1.0 MiB
                                               once a broker starts
.swap files           1.0 MiB   1.0 MiB     1  of an unfinished compaction
-delete directories   6.0 MiB   6.0 MiB     2  a broker removes them
-stray directories    5.0 MiB   5.0 MiB     2  unassigned: remove them by hand
-future directories   7.0 MiB   7.0 MiB     2  replicas that move here
checkpoints and such 24.0 KiB 700 bytes     6
directories          20.0 KiB  20.0 KiB     5
other files           1.2 GiB   1.2 GiB     3  heap\\x1b[2J.hprof 1.2 GiB, core
                                               2.0 MiB
total                 1.3 GiB   1.4 GiB    41
File system: 1.2 GiB free of 100.0 GiB (4.8 GiB kept for root); 94.0 GiB used:
  1.3 GiB here, 502.0 MiB unlinked but open, 92.2 GiB elsewhere.
  500.0 MiB unlinked, and free once process 1234 (java) closes it:
    /data/orders-0/0.log
  2.0 MiB unlinked, and free once process 77 (a\\x1b) and 2 others close it:
    /var/x\\n
"""


def amount(files: int, disk_bytes: int, apparent_bytes: int | None = None) -> Amount:
    return Amount(files, disk_bytes if apparent_bytes is None else apparent_bytes, disk_bytes)


ORDERS_ACCOUNT = DirectoryAccount({
    SpaceKind.SEGMENTS: amount(3, 21 * MIB),
    SpaceKind.INDEXES: amount(6, 24 * KIB, 20 * MIB),
    SpaceKind.DELETED: amount(9, 29 * MIB),
    SpaceKind.SWAP: amount(1, MIB),
    SpaceKind.DIRECTORIES: amount(1, 4 * KIB),
})  # fmt: skip
CLICKS_ACCOUNT = DirectoryAccount(
    {SpaceKind.SEGMENTS: amount(1, 30 * MIB), SpaceKind.SNAPSHOTS: amount(1, 4 * KIB, 10)}
)
ACCOUNT = Account(
    "/data",
    {ORDERS: ORDERS_ACCOUNT, CLICKS: CLICKS_ACCOUNT},
    DirectoryAccount(
        {
            SpaceKind.STRAY_DIRS: amount(2, 5 * MIB),
            SpaceKind.DELETE_DIRS: amount(2, 6 * MIB),
            SpaceKind.FUTURE_DIRS: amount(2, 7 * MIB),
            SpaceKind.METADATA: amount(6, 24 * KIB, 700),
            SpaceKind.DIRECTORIES: amount(4, 16 * KIB),
            SpaceKind.OTHERS: amount(3, 1280 * MIB),
        },
        (
            OtherEntry("heap\x1b[2J.hprof", amount(1, 1278 * MIB)),
            OtherEntry("core", amount(1, 2 * MIB)),
            OtherEntry("notes", amount(1, 4 * KIB)),
        ),
    ),
    {
        ORDERS: (
            Removal(NOW_MS, amount(3, 4 * MIB)),
            Removal(NOW_MS + 30_000, amount(3, 10 * MIB)),
            Removal(NOW_MS + 54_321, amount(3, 14 * MIB)),
        )
    },
)
UNLINKED = UnlinkedFiles(
    amount(3, 502 * MIB),
    (
        UnlinkedFile("/data/orders-0/0.log", 1234, "java", 1, 500 * MIB, 500 * MIB),
        UnlinkedFile("/var/x\n", 77, "a\x1b", 3, 2 * MIB, 2 * MIB),
        UnlinkedFile("/tmp/y", 78, "b", 1, KIB, 4 * KIB),
    ),
    0,
)
FILE_SYSTEM = FileSystemAccount(Volume(("/data",), 100 * GIB, 1200 * MIB, 94 * GIB), UNLINKED)


def printed(*log_dirs: Account, file_systems: tuple[FileSystemAccount, ...] = (), **page: Any) -> str:
    """The report on a terminal of 80 columns."""
    filled = Page(80, **{"shortens": True, **page})
    tell_accounts(Accounts(log_dirs, file_systems), NOW_MS, filled)
    return filled.text.plain


def test_one_log_dir() -> None:
    assert printed(ACCOUNT, file_systems=(FILE_SYSTEM,)) == GOLDEN


@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_is_wider_than_a_terminal_and_what_is_piped_is_whole(verbose: bool) -> None:
    name = "t" * 200
    path, partitions = f"/{'' if verbose else name}", {TopicPartition(name, 1): ORDERS_ACCOUNT}
    account = replace(ACCOUNT, path=path, partitions=partitions)
    several = (account,) if verbose else (account, ACCOUNT)
    assert max(map(len, printed(*several, every_segment=verbose).splitlines())) <= 80
    piped = printed(*several, every_segment=verbose, shortens=False)
    assert f"{name}-1" in piped if verbose else f"/{name}" in piped
    assert "gone: 4.0 MiB with the next clean, 24.0 MiB in 55s, 1.0 MiB once a broker starts\n" in printed(
        ACCOUNT, shortens=False
    )


def test_several_log_dirs_are_added_up_and_have_a_line_each() -> None:
    other = Account("/more", {}, DirectoryAccount({SpaceKind.SEGMENTS: amount(1, 9 * MIB)}))
    told = printed(ACCOUNT, other)
    assert "Space in 2 log dirs" in told
    assert told.count("segments (.log)") == 1
    assert "segments (.log)      60.0 MiB" in told
    assert [line.split()[:3] for line in told.splitlines()[-2:]] == [["/data", "1.3", "GiB"], ["/more", "9.0", "MiB"]]


def test_verbose_report_has_a_row_for_each_partition_the_largest_first() -> None:
    told = printed(ACCOUNT, every_segment=True).splitlines()
    header = next(place for place, line in enumerate(told) if line.startswith("PARTITION"))
    assert [line.split()[0] for line in told[header : header + 3]] == ["PARTITION", "orders-0", "clicks-0"]
    assert told[header + 1].split()[-4:] == ["in", "55s", "1.0", "MiB"]
    assert max(map(len, told)) <= 80


def test_verbose_report_of_a_log_dir_without_partitions_has_the_header_alone() -> None:
    told = printed(replace(ACCOUNT, partitions={}), every_segment=True).splitlines()
    header = next(place for place, line in enumerate(told) if line.startswith("PARTITION"))
    assert told[header + 1] == ""


def test_what_is_not_counted_is_named_a_few_times() -> None:
    shut = replace(ACCOUNT.rest, unread=tuple(f"/data/{number}: cannot be read: no" for number in range(5)))
    told = printed(replace(ACCOUNT, rest=shut))
    assert told.count("Not counted:") == 4
    assert "Not counted: 2 more" in told


def test_account_of_some_topics_says_so_and_nothing_of_the_file_system() -> None:
    told = printed(replace(ACCOUNT, is_whole=False), file_systems=(FILE_SYSTEM,))
    assert "Space of these topics in /data" in told
    assert "File system" not in told


def test_small_unlinked_files_are_not_told_to_people() -> None:
    small = UnlinkedFiles(amount(1, 4 * KIB), (UnlinkedFile("/x", 1, "a", 1, 1, 4 * KIB),), 0)
    told = printed(ACCOUNT, file_systems=(replace(FILE_SYSTEM, unlinked=small),))
    assert "unlinked" not in told


def test_processes_that_nobody_may_look_into_may_hold_what_is_missing() -> None:
    hidden = UnlinkedFiles(hidden_processes=130)
    told = " ".join(printed(ACCOUNT, file_systems=(replace(FILE_SYSTEM, unlinked=hidden),)).split())
    assert "92.7 GiB elsewhere (or unlinked, and open in one of 130 processes that only root may look into)" in told


def test_two_file_systems_are_told_each_with_its_log_dirs() -> None:
    other = replace(ACCOUNT, path="/more")
    volumes = [Volume((path,), 100 * GIB, GIB, 99 * GIB) for path in ("/data", "/more")]
    told = printed(ACCOUNT, other, file_systems=tuple(FileSystemAccount(v, UnlinkedFiles()) for v in volumes))
    assert "File system of /data: 1.0 GiB free of 100.0 GiB; 99.0 GiB used" in told
    assert "File system of /more: " in told


def test_of_many_file_systems_the_fullest_are_told() -> None:
    paths = [f"/data/{number}" for number in range(12)]
    accounts = [replace(ACCOUNT, path=path) for path in paths]
    found = tuple(
        FileSystemAccount(Volume((path,), 100 * GIB, place * GIB, 90 * GIB), UNLINKED)
        for place, path in enumerate(paths)
    )
    told = printed(*accounts, file_systems=found[::-1])
    assert [line.split(":")[0] for line in told.splitlines() if line.startswith("File")] == [
        f"File system of /data/{number}" for number in range(3)
    ]
    assert "and 9 more file systems with more free space; -v shows all" in told
    assert printed(*accounts, file_systems=found, every_segment=True).count("File system of") == 12


def test_without_an_account_nothing_is_told() -> None:
    assert printed() == ""
    assert accounts_fields(Accounts()) == {"log_dirs": [], "file_systems": []}
    assert set(directory_fields(None).values()) == {None}


def test_fields_add_up() -> None:
    (log_dir,) = accounts_fields(Accounts((ACCOUNT,)))["log_dirs"]
    for size in ("files", "apparent_bytes", "disk_bytes"):
        assert log_dir[size] == sum(kind[size] for kind in log_dir["kinds"].values())
    fields = directory_fields(ORDERS_ACCOUNT, ACCOUNT.removals[ORDERS])
    assert fields["disk_bytes"] == sum(kind["disk_bytes"] for kind in fields["kinds"].values())
    assert [removal["due_ms"] - NOW_MS for removal in fields["removals"]] == [0, 30_000, 54_321]
    assert [other["name"] for other in log_dir["others"]] == ["heap\x1b[2J.hprof", "core", "notes"]


def test_fields_of_a_file_system() -> None:
    (found,) = accounts_fields(Accounts((ACCOUNT,), (FILE_SYSTEM,)))["file_systems"]
    assert list(found) == ["log_dirs", "size_bytes", "used_bytes", "free_bytes", "unlinked"]
    unlinked = found["unlinked"]
    assert (unlinked["files"], unlinked["disk_bytes"], unlinked["hidden_processes"]) == (3, 502 * MIB, 0)
    assert unlinked["largest"][0] == {
        "path": "/data/orders-0/0.log", "pid": 1234, "command": "java", "processes": 1,
        "apparent_bytes": 500 * MIB, "disk_bytes": 500 * MIB,
    }  # fmt: skip
