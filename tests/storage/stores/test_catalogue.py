"""What was listed serves all who ask, until somebody looks anew."""

from __future__ import annotations

import obstore
import pytest

from storage.stores.catalogue import catalogue_of
from storage.stores.errors import ObjectChanged
from storage.stores.paths import StoredPath, look_anew
from storage.stores.stored_file import StoredFile
from tests.conftest import Samples
from tests.storage.stores.proxy import Proxy
from tests.storage.stores.servers import SCHEME, writer


def test_log_dir_takes_one_listing_for_itself_and_one_for_all_below(
    through: Proxy, bucket: str, samples: Samples
) -> None:
    log_dir = StoredPath(f"{bucket}/new")
    names = [entry.name for entry in catalogue_of(log_dir.place).entries(log_dir.key) if entry.is_dir()]
    assert len(through.traffic.requests) == 1
    assert len(names) > 5
    for name in names:
        listed = {entry.name for entry in catalogue_of(log_dir.place).entries((log_dir / name).key)}
        assert listed == {path.name for path in (samples.root / "before" / name).iterdir()}
    assert len(through.traffic.requests) == 1 + 2 + 1, "itself, two one by one, all the others at once"


def test_what_was_listed_is_known(through: Proxy, bucket: str) -> None:
    log_dir = StoredPath(f"{bucket}/new")
    assert log_dir.is_dir()
    list(log_dir.iterdir())
    through.traffic.clear()
    assert (log_dir / "meta.properties").is_file()
    assert (log_dir / "orders-0").is_dir()
    assert not (log_dir / "nothing").exists()
    with pytest.raises(FileNotFoundError):
        catalogue_of(log_dir.place).whole((log_dir / "nothing").key)
    assert through.traffic.requests == []


def test_status_is_that_of_a_file(through: Proxy, bucket: str, samples: Samples) -> None:
    path = StoredPath(f"{bucket}/new/meta.properties")
    found, local = path.stat(), (samples.root / "before/meta.properties").stat()
    assert found.st_size == local.st_size
    assert found.st_mtime_ns >= local.st_mtime_ns, "the time at which it was uploaded"
    assert found.st_ino not in (0, (path.parent / "log-start-offset-checkpoint").stat().st_ino)


def test_directory_that_is_not_there_is_not_found(through: Proxy, bucket: str) -> None:
    path = StoredPath(f"{bucket}/nothing")
    with pytest.raises(FileNotFoundError):
        catalogue_of(path.place).entries(path.key)
    assert not path.is_dir()


def test_look_anew_lists_again(server: str, through: Proxy) -> None:
    made = writer(server, "anew")
    obstore.put(made, "d/x", b"1")
    path = StoredPath(f"{SCHEME}://anew/d")
    assert [one.name for one in path.iterdir()] == ["x"]
    obstore.put(made, "d/y", b"1")
    assert [one.name for one in path.iterdir()] == ["x"]
    look_anew([path.parent])
    assert [one.name for one in path.iterdir()] == ["x", "y"]


def test_file_that_changed_has_its_directory_listed_again(server: str, through: Proxy) -> None:
    made = writer(server, "changing")
    obstore.put(made, "d/x", b"1")
    path = StoredPath(f"{SCHEME}://changing/d/x")
    list(path.parent.iterdir())
    obstore.put(made, "d/x", b"22")
    with pytest.raises(ObjectChanged, match="replaced by another version") as raised:
        StoredFile.open(path).pread(1, 0)
    assert isinstance(raised.value, FileNotFoundError)
    assert bytes(StoredFile.open(path).pread(2, 0)) == b"22"
