"""A bucket: what it lists, what it reads, and the line for each thing that can be wrong with it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import obstore
import pytest

from storage.errors import ErrorKind, InvalidConfig, LogCleanerError
from storage.stores import opening
from storage.stores.errors import (
    ExpiredCredentials,
    ForbiddenStore,
    ImpossibleName,
    NoSuchBucket,
    ObjectChanged,
    StoreFailed,
    StoreUnreachable,
)
from storage.stores.objects import Bucket, profile
from storage.stores.store import Store
from tests.conftest import Samples
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import (
    ENVIRONMENT,
    IS_OTHER,
    KIND,
    OF_S3,
    QUICK,
    SCHEME,
    configuration,
    environment,
    put_as_named,
    writer,
)

ORDERS = "new/orders-0"
LOG = f"{ORDERS}/00000000000000000000.log"
NAMES = ["a b", "a%20b", "a%b", "é~", "a#?&+=", "ä:b", "*", "{a,b}", "[x]"]


@pytest.fixture
def store(through: Proxy, bucket: str) -> Store:
    return opening.store_of(bucket)


def test_directory_is_listed_with_sizes_and_times(store: Store, samples: Samples) -> None:
    here = samples.root / "before"
    found = {entry.name: entry for entry in store.list("new")}
    assert found.keys() == {path.name for path in here.iterdir() if path.is_file() or any(path.iterdir())}
    assert all(found[path.name].is_dir() for path in here.iterdir() if path.name in found and path.is_dir())
    inside = {entry.name: entry.size_bytes for entry in store.list(ORDERS)}
    assert inside == {path.name: path.stat().st_size for path in (here / "orders-0").iterdir()}
    assert len({entry.version for entry in store.list(ORDERS) if entry.size_bytes}) > 1


def test_walk_yields_every_file_with_its_directory(store: Store, samples: Samples) -> None:
    here = samples.root / "before"
    files = {f"new/{path.relative_to(here)}": path.stat().st_size for path in here.rglob("*") if path.is_file()}
    assert {f"{directory}/{entry.name}": entry.size_bytes for directory, entry in store.walk("new")} == files


def test_listing_takes_a_request_for_a_page_of_names(server: str, through: Proxy) -> None:
    made = writer(server, "many-names")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: obstore.put(made, f"d/{number:04}", b""), range(1100)))
    through.traffic.clear()
    assert len(opening.store_of(f"{SCHEME}://many-names").list("d")) == 1100
    assert len(through.traffic.requests) == -(-1100 // KIND.names_a_page)


@pytest.mark.parametrize(("start", "end"), [(0, 1), (0, 4096), (100, 101), (1000, 100_000_000)])
def test_range_is_that_of_the_file(store: Store, samples: Samples, start: int, end: int) -> None:
    data = (samples.root / "before/orders-0" / Path(LOG).name).read_bytes()
    piece = store.range(LOG, start, end, store.look(LOG).version)
    assert bytes(piece.data) == data[start:end]
    assert piece.file_bytes == len(data)


def test_names_mean_themselves(server: str, through: Proxy) -> None:
    made = writer(server, "names")
    for name in NAMES:
        obstore.put(made, f"d/{name}", name.encode())
    store = opening.store_of(f"{SCHEME}://names")
    assert sorted(entry.name for entry in store.list("d")) == sorted(NAMES)
    assert [bytes(store.whole(f"d/{name}", None).data).decode() for name in NAMES] == NAMES


def test_marker_of_a_directory_is_no_file_in_it(server: str, through: Proxy) -> None:
    made = writer(server, "markers")
    put_as_named(server, "markers", ["d/", "d/sub/", "d/sub/x"])
    assert made
    store = opening.store_of(f"{SCHEME}://markers")
    assert [(entry.name, entry.is_dir()) for entry in store.list("d")] == [("sub", True)]
    assert [(directory, entry.name) for directory, entry in store.walk("d/sub")] == [("d/sub", "x")]


@pytest.mark.skipif(IS_OTHER, reason="NOT RUN: another server may have no such names")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("d//x", "an empty part"),
        ("d/./x", "the part '.'"),
        ("d/../x", "the part '..'"),
        ("d/a\x01b", "a character that no file has"),
    ],
)
def test_name_that_no_path_has_is_told(server: str, through: Proxy, name: str, what: str) -> None:
    bucket = f"odd-{uuid4().hex}"
    writer(server, bucket)
    put_as_named(server, bucket, [name, "e/x"])
    store = opening.store_of(f"{SCHEME}://{bucket}")
    with pytest.raises(ImpossibleName, match=f"below it has {what}; move it elsewhere"):
        store.list("d")
    assert [entry.name for entry in store.list("e")] == ["x"]


def test_what_is_not_there_is_not_found(store: Store) -> None:
    for ask in (lambda: store.look("nothing"), lambda: store.whole("nothing", None)):
        with pytest.raises(FileNotFoundError) as raised:
            ask()
        assert not isinstance(raised.value, ObjectChanged)
        assert raised.value.filename == f"{SCHEME}://archives/nothing"
    assert store.list("nothing") == []


@pytest.mark.skipif(SCHEME == "abfs", reason="NOT RUN: Azure may answer before its copy is done")
def test_file_that_is_moved_has_its_new_name_alone(server: str, through: Proxy) -> None:
    made = writer(server, "moved")
    obstore.put(made, "d/a b%20", b"a" * 100)
    store = opening.store_of(f"{SCHEME}://moved")
    assert store.moves_files
    assert store.move("d/a b%20", "e/y", 100) == store.look("e/y")
    assert [entry.name for _, entry in store.walk("")] == ["y"]
    with pytest.raises(StoreFailed, match=r"moved/z: .*100 bytes lie there behind the writing of 99"):
        store.move("e/y", "z", 99)
    assert [entry.name for _, entry in store.walk("")] == ["y", "z"]


def test_another_version_is_never_read(server: str, through: Proxy) -> None:
    made = writer(server, "versions")
    obstore.put(made, "x", b"a" * 100)
    store = opening.store_of(f"{SCHEME}://versions")
    before = store.look("x")
    obstore.put(made, "x", b"b" * 100)
    for read in (lambda: store.range("x", 0, 10, before.version), lambda: store.whole("x", before.version)):
        with pytest.raises(ObjectChanged):
            read()
    assert bytes(store.range("x", 0, 3, store.look("x").version).data) == b"bbb"


def test_version_that_is_listed_without_quotes_is_the_one_that_is_read(server: str, through: Proxy) -> None:
    through.lists_quotes = False
    obstore.put(writer(server, "quotes"), "d/x", b"a")
    store = opening.store_of(f"{SCHEME}://quotes")
    (listed,) = store.list("d")
    assert listed.version == store.look("d/x").version
    assert bytes(store.whole("d/x", listed.version).data) == b"a"


def test_range_behind_a_file_that_became_shorter_is_another_version(server: str, through: Proxy) -> None:
    made = writer(server, "shorter")
    obstore.put(made, "x", b"a")
    with pytest.raises(ObjectChanged):
        opening.store_of(f"{SCHEME}://shorter").range("x", 10, 20, None)


def test_no_such_bucket(through: Proxy) -> None:
    store = opening.store_of(f"{SCHEME}://no-such-bucket")
    for ask in (lambda: store.list("d"), lambda: store.whole("d/x", None)):
        with pytest.raises(NoSuchBucket) as raised:
            ask()
        assert str(raised.value) == f"{SCHEME}://no-such-bucket: no such bucket; check its name, and the endpoint"
        assert raised.value.kind is ErrorKind.USAGE


@pytest.mark.parametrize(
    ("fault", "error", "kind", "line"),
    [
        (Fault.DENIED, ForbiddenStore, ErrorKind.FAILED, "the store forbids it: 403 AccessDenied; check the"),
        (Fault.EXPIRED, ExpiredCredentials, ErrorKind.FAILED, "the credentials have expired (ExpiredToken); get new"),
        (Fault.SLOW_DOWN, StoreUnreachable, ErrorKind.NOT_YET, "cannot be read now: the store answers 503 SlowDown;"),
        (Fault.FAILED, StoreUnreachable, ErrorKind.NOT_YET, "cannot be read now: the store answers 500; try again"),
        (
            Fault.RESET,
            StoreUnreachable,
            ErrorKind.NOT_YET,
            "cannot be read now: error sending request to http://127.0.0.1:",
        ),
    ],
)
@pytest.mark.parametrize("ask", [lambda store: store.list(ORDERS), lambda store: store.whole(LOG, None)])
def test_bad_day_is_told_in_one_line(
    store: Store, through: Proxy, fault: Fault, error: type[LogCleanerError], kind: ErrorKind, line: str,
    ask: Callable[[Store], object],
) -> None:  # fmt: skip
    through.fault = lambda _method, _path: fault
    with pytest.raises(error) as raised:
        ask(store)
    told = str(raised.value)
    assert f": {line}" in told
    assert told.startswith(f"{SCHEME}://archives/new/orders-0")
    assert "\n" not in told
    assert raised.value.kind is kind


def test_answer_that_does_not_come_is_given_up(through: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patience = QUICK._replace(again_max=1, read_timeout=timedelta(milliseconds=200))
    monkeypatch.setattr("storage.stores.objects.RETRIES", patience)
    through.fault = lambda _method, _path: Fault.STALL
    with pytest.raises(StoreUnreachable, match=f"{LOG}: cannot be read now: .*; try again later$"):
        opening.store_of(bucket).whole(LOG, None)
    assert len(through.traffic.requests) == 2


def test_storm_that_passes_is_not_noticed(store: Store, through: Proxy, samples: Samples) -> None:
    faults = iter([Fault.SLOW_DOWN, Fault.FAILED, Fault.RESET, Fault.CUT])
    through.fault = lambda _method, _path: next(faults, Fault.NONE)
    whole = bytes(store.whole(LOG, None).data)
    assert whole == (samples.root / "before/orders-0" / Path(LOG).name).read_bytes()
    assert next(faults, None) is None


def test_store_that_was_given_up_is_not_asked_again_at_once(store: Store, through: Proxy) -> None:
    through.fault = lambda _method, _path: Fault.SLOW_DOWN
    with pytest.raises(StoreUnreachable):
        store.list(ORDERS)
    through.traffic.clear()
    for _ in range(100):
        with pytest.raises(StoreUnreachable, match="503 SlowDown"):
            store.whole(LOG, None)
    assert through.traffic.requests == []


def test_environment_says_who_asks(proxy: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(proxy.url).items():
        monkeypatch.setenv(name, value)
    assert opening.store_of(bucket).list("new")


@OF_S3
def test_profile_says_who_asks(proxy: Proxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(
        "[cold]\naws_access_key_id = tester\naws_secret_access_key = of-tests\noutput = 100%\n"
    )
    (tmp_path / "config").write_text(f"[profile cold]\nregion = us-east-1\nendpoint_url = {proxy.url}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert profile() == {}
    monkeypatch.setenv("AWS_PROFILE", "cold")
    assert profile() == {"access_key_id": "tester", "secret_access_key": "of-tests", "region": "us-east-1",
                          "endpoint": proxy.url}  # fmt: skip
    assert opening.store_of(bucket).list("new")


def test_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(LogCleanerError, match=r"needs obstore, which is not installed; pip install '\.\[remote\]'"):
        Bucket(f"{SCHEME}://archives", configuration("http://127.0.0.1:1"))


@pytest.mark.usefixtures("through")
def test_server_that_is_not_there_is_named_with_the_error_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    bucket = Bucket("s3://b", {"endpoint": url, "skip_signature": "true", "region": "us-east-1"})
    with pytest.raises(StoreUnreachable, match=f"error sending request to {url}: Connection refused; try again"):
        bucket.look("x")


def test_address_without_a_scheme_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:5055")
    with pytest.raises(InvalidConfig, match=r"AWS_ENDPOINT_URL = '127.0.0.1:5055': needs http:// or https://"):
        Bucket("s3://b", {})
