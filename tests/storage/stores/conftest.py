"""One server for all tests here, with the sample archives in a bucket."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from storage.stores import ENDING, catalogue, opening
from tests.conftest import Samples
from tests.storage.stores.proxy import Proxy, proxying
from tests.storage.stores.servers import QUICK, SCHEME, client_of, configuration, serving, upload, writer


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a server."""
    with serving() as url:
        yield url


@pytest.fixture(scope="session")
def bucket(server: str, samples: Samples, old_samples: Samples) -> str:
    """The URL of a bucket that holds ``before`` of both archives, as ``new`` and ``old``."""
    store = writer(server, "archives")
    upload(samples.root / "before", store, "new")
    upload(old_samples.root / "before", store, "old")
    return f"{SCHEME}://archives"


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    with proxying(server) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_catalogues() -> Iterator[None]:
    """Nothing is known of a store before a test, nor configured behind it."""
    forget_stores()
    yield
    forget_stores()


def forget_stores() -> None:
    ENDING.by = 0
    ENDING.hanging.clear()
    opening._GIVEN.clear()
    opening._opened.cache_clear()
    catalogue.catalogue_of.cache_clear()


@pytest.fixture
def through(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The proxy, with which every bucket of this process is read. Retries lose no time."""
    monkeypatch.setattr("storage.stores.objects.RETRIES", QUICK)
    opening.configure(SCHEME, configuration(proxy.url))
    return proxy


@pytest.fixture(scope="session")
def local(samples: Samples, server: str, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same log dir on this machine, with the file times that the bucket gave."""
    copied = Path(shutil.copytree(samples.root / "before", tmp_path_factory.mktemp("local") / "before"))
    for page in obstore.list(client_of(server, "archives"), "new"):
        for found in page:
            time = found["last_modified"].timestamp()
            os.utime(copied / Path(found["path"]).relative_to("new"), (time, time))
    return str(copied)
