"""HDFS by hdfs-native: against a client that is made up, and against a real cluster where one is named.

``LOGCLEANER_HDFS`` names a cluster, as ``MiniHdfs.java`` starts one (docs/testing.md).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from hdfs_native import WriteOptions

from cleaner.cli.main import main
from storage.errors import ErrorKind
from storage.stores import opening
from storage.stores.errors import ForbiddenStore, ObjectChanged, StoreFailed, StoreFull, StoreUnreachable
from storage.stores.paths import StoredPath
from storage.stores.store import Store
from storage.stores.stored_file import StoredFile
from tests.conftest import Samples
from tests.storage.stores.test_commands import COMMANDS, differences, said_of
from tests.storage.stores.test_copies import copied

NAMED = "LOGCLEANER_HDFS"


class MadeUp:
    """A client with some files; each answers what hdfs-native's answers."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.time_ms, self.error = files, 1_000, ""
        self.directories: set[str] = set()

    def may_fail(self) -> None:
        if self.error:
            raise RuntimeError(self.error)

    def _status(self, path: str, data: bytes | None) -> Any:
        return SimpleNamespace(
            path=path, length=len(data or b""), isdir=data is None, modification_time=self.time_ms,
        )  # fmt: skip

    def get_file_info(self, path: str) -> Any:
        self.may_fail()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self._status(path, self.files[path])

    def create(self, path: str, options: WriteOptions) -> Any:
        self.may_fail()
        if path in self.files and not options.overwrite:
            raise RuntimeError(f"{path} already exists")
        made, self.files[path] = self, b""

        class File:
            def write(self, data: bytes) -> None:
                made.may_fail()
                made.files[path] += data

            def close(self) -> None:
                made.may_fail()

        return File()

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        self.may_fail()
        if target in self.files and not overwrite:
            raise RuntimeError(f"rename destination {target} already exists")
        self.files[target] = self.files.pop(source)

    def mkdirs(self, path: str, create_parent: bool) -> None:
        self.may_fail()
        self.directories.add(path)
        assert create_parent

    def delete(self, path: str) -> None:
        self.may_fail()
        self.files.pop(path, None)

    def list_status(self, path: str, recursive: bool) -> Iterator[Any]:
        self.may_fail()
        inside = [name for name in self.files if name.startswith(path.rstrip("/") + "/")]
        if path not in self.files and not inside:
            raise FileNotFoundError(path)
        seen = set()
        for name in sorted(inside):
            first, _, rest = name[len(path.rstrip("/")) + 1 :].partition("/")
            if recursive or not rest:
                yield self._status(name, self.files[name])
            elif first not in seen:
                seen.add(first)
                yield self._status(f"{path.rstrip('/')}/{first}", None)

    def read(self, path: str) -> Any:
        self.may_fail()
        data = self.files[path]

        class File:
            def __len__(self) -> int:
                return len(data)

            def read_range(self, offset: int, size: int) -> bytes:
                return data[offset : offset + size]

        return File()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp({"/d/x": b"0123456789", "/d/p-0/a b%20": b"log"})
    monkeypatch.setattr("hdfs_native.Client", lambda _url, config: made)
    return made


@pytest.fixture
def store(client: MadeUp) -> Store:
    return opening.store_of("hdfs://name:9000")


def test_directories_and_files_are_listed(store: Store) -> None:
    assert [(one.name, one.is_dir(), one.size_bytes) for one in store.list("d")] == [("p-0", True, 0), ("x", False, 10)]
    assert [(where, one.name) for where, one in store.walk("d")] == [("d/p-0", "a b%20"), ("d", "x")]


def test_file_that_is_written_anew_is_another_version(store: Store, client: MadeUp) -> None:
    before = store.look("d/x")
    assert bytes(store.range("d/x", 2, 5, before.version).data) == b"234"
    assert bytes(store.range("d/x", 8, 99, before.version).data) == b"89"
    client.time_ms += 1
    with pytest.raises(ObjectChanged):
        store.range("d/x", 2, 5, before.version)
    assert bytes(store.whole("d/x", None).data) == b"0123456789"


def test_what_is_not_there_is_not_found(store: Store) -> None:
    for ask in (lambda: store.look("nothing"), lambda: store.list("nothing")):
        with pytest.raises(FileNotFoundError):
            ask()
    assert not StoredPath("hdfs://name:9000/nothing").exists()
    assert StoredPath("hdfs://name:9000/d").is_dir()
    assert StoredPath("hdfs://name:9000/d/x").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("said", "error", "kind"),
    [
        ("Connection refused (os error 111)", StoreUnreachable, ErrorKind.NOT_YET),
        ("org.apache.hadoop.ipc.StandbyException: not active", StoreUnreachable, ErrorKind.NOT_YET),
        ("AccessControlException: Permission denied: user=x", ForbiddenStore, ErrorKind.FAILED),
    ],
)
def test_bad_day_is_told(store: Store, client: MadeUp, said: str, error: type[Exception], kind: ErrorKind) -> None:
    client.error = said
    with pytest.raises(error, match="hdfs://name:9000/d/x: ") as raised:
        store.look("d/x")
    assert getattr(raised.value, "kind", None) is kind
    assert "\n" not in str(raised.value)


def test_file_is_there_once_it_is_whole(store: Store, client: MadeUp) -> None:
    upload = store.upload("d/new")
    upload.write(b"01")
    assert "/d/new" not in client.files
    upload.write(b"2")
    assert (upload.finish().size_bytes, client.files["/d/new"]) == (3, b"012")
    upload.abort()
    assert client.files["/d/new"] == b"012"
    store.delete("d/new")
    store.delete("d/new")
    assert client.files.keys() == {"/d/x", "/d/p-0/a b%20"}


def test_upload_replaces_no_file(store: Store, client: MadeUp) -> None:
    upload = store.upload("d/x")
    upload.write(b"01")
    with pytest.raises(FileExistsError):
        upload.finish()
    upload.abort()
    assert client.files == {"/d/x": b"0123456789", "/d/p-0/a b%20": b"log"}


def test_file_that_is_given_up_leaves_nothing(store: Store, client: MadeUp) -> None:
    upload = store.upload("d/new")
    upload.write(b"01")
    upload.abort()
    assert client.files.keys() == {"/d/x", "/d/p-0/a b%20"}


def test_file_that_is_there_is_replaced_only_if_that_is_meant(store: Store, client: MadeUp) -> None:
    with pytest.raises(FileExistsError):
        store.put("d/x", b"other", is_new=True)
    assert client.files == {"/d/x": b"0123456789", "/d/p-0/a b%20": b"log"}
    assert store.put("d/x", b"other", is_new=False).size_bytes == 5
    assert client.files["/d/x"] == b"other"


def test_file_that_is_moved_has_its_new_name_alone(store: Store, client: MadeUp) -> None:
    assert store.move("d/x", "e/y", 10).name == "y"
    assert (client.files["/e/y"], client.directories) == (b"0123456789", {"/e"})
    assert "/d/x" not in client.files
    with pytest.raises(FileExistsError):
        store.move("d/p-0/a b%20", "e/y", 3)
    with pytest.raises(StoreFailed, match=r"hdfs://name:9000/e/z: .*3 bytes lie there behind the renaming of 4"):
        store.move("d/p-0/a b%20", "e/z", 4)


def test_quota_that_is_used_up_is_told(store: Store, client: MadeUp) -> None:
    upload = store.upload("d/new")
    client.error = "RPC error DSQuotaExceededException The DiskSpace quota of /d is exceeded"
    with pytest.raises(StoreFull, match=r"hdfs://name:9000/d/new: the store has no room for it: .*quota") as raised:
        upload.write(b"0")
    assert raised.value.is_writing


@pytest.mark.skipif(NAMED not in os.environ, reason=f"NOT RUN: {NAMED} names no cluster")
def test_copy_in_a_real_cluster_has_the_bytes_of_a_local_copy(samples: Samples, tmp_path: Path) -> None:
    there = StoredPath(f"{os.environ[NAMED]}/copy-{uuid4().hex}")
    statuses = {copied(samples.root / "before", tmp_path / "copy"), copied(samples.root / "before", there)}
    assert statuses == {0}
    files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert all((there / path.relative_to(tmp_path / "copy")).stat().st_size == path.stat().st_size for path in files)
    source = samples.root / "before"
    assert main(["diff", str(source), str(there)]) == main(["diff", str(source), str(tmp_path / "copy")])


@pytest.mark.skipif(NAMED not in os.environ, reason=f"NOT RUN: {NAMED} names no cluster")
def test_every_command_says_the_same_of_a_real_cluster(
    samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = put_there(samples, tmp_path)
    for path in here.rglob("*"):
        if path.is_file():
            mtime_ns = (there / path.relative_to(here)).stat().st_mtime_ns
            os.utime(path, ns=(mtime_ns, mtime_ns))
    different = {command: list(differences(*said_of((str(there), str(here)), command, capsys))) for command in COMMANDS}
    assert {command: found for command, found in different.items() if found} == {}


@pytest.mark.skipif(NAMED not in os.environ, reason=f"NOT RUN: {NAMED} names no cluster")
def test_real_cluster_holds_what_lies_here(samples: Samples, tmp_path: Path) -> None:
    here, there = put_there(samples, tmp_path)
    files = [path for path in here.rglob("*") if path.is_file()]
    for path in files:
        stored = there / path.relative_to(here)
        assert stored.read_bytes() == path.read_bytes()
        file = StoredFile.open(StoredPath(str(stored)))
        file.read_ahead(0, file.size_bytes)
        assert file.pread(5000, 100) == path.read_bytes()[100:5100]
        file.close()
    assert len(files) > 100
    assert not (there / "nothing").exists()


def put_there(samples: Samples, tmp_path: Path) -> tuple[Path, StoredPath]:
    """Copy a log dir to a directory of this machine, and into the cluster."""
    here, there = tmp_path / "before", StoredPath(f"{os.environ[NAMED]}/new-{uuid4().hex}")
    shutil.copytree(samples.root / "before", here, ignore=shutil.ignore_patterns(".lock"))
    store = opening.store_of(os.environ[NAMED])
    for path in here.rglob("*"):
        if path.is_file():
            store.put((there / path.relative_to(here)).key, path.read_bytes(), is_new=True)
    return here, there
