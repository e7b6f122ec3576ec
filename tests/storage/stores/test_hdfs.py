"""HDFS by hdfs-native: against a client that is made up, and against a real cluster where one is named.

``LOGCLEANER_HDFS`` names a cluster of ``MiniHdfs.java`` (docs/testing.md) that holds ``before`` of the new archive as
``/new``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from storage.errors import ErrorKind
from storage.stores import opening
from storage.stores.errors import ForbiddenStore, ObjectChanged, StoreUnreachable
from storage.stores.paths import StoredPath
from storage.stores.store import Store
from storage.stores.stored_file import StoredFile
from tests.conftest import Samples

NAMED = "LOGCLEANER_HDFS"


class MadeUp:
    """A client with some files; each answers what hdfs-native's answers."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.time_ms, self.error = files, 1_000, ""

    def _may_fail(self) -> None:
        if self.error:
            raise RuntimeError(self.error)

    def _status(self, path: str, data: bytes | None) -> Any:
        return SimpleNamespace(
            path=path, length=len(data or b""), isdir=data is None, modification_time=self.time_ms,
        )  # fmt: skip

    def get_file_info(self, path: str) -> Any:
        self._may_fail()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self._status(path, self.files[path])

    def list_status(self, path: str, recursive: bool) -> Iterator[Any]:
        self._may_fail()
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
        self._may_fail()
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


@pytest.mark.skipif(NAMED not in os.environ, reason=f"NOT RUN: {NAMED} names no cluster")
def test_real_cluster_holds_what_lies_here(samples: Samples) -> None:
    here, there = samples.root / "before", StoredPath(f"{os.environ[NAMED]}/new")
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
