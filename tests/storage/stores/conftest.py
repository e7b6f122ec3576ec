"""One S3 server for all tests here, with the sample archives in a bucket."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from storage.stores import catalogue, opening
from tests.conftest import Samples
from tests.storage.stores.proxy import Proxy, proxying
from tests.storage.stores.s3 import QUICK, configuration, serving, upload, writer


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of a server."""
    with serving() as url:
        yield url


@pytest.fixture(scope="session")
def bucket(s3: str, samples: Samples, old_samples: Samples) -> str:
    """The URL of a bucket that holds ``before`` of both archives, as ``new`` and ``old``."""
    store = writer(s3, "archives")
    upload(samples.root / "before", store, "new")
    upload(old_samples.root / "before", store, "old")
    return "s3://archives"


@pytest.fixture
def proxy(s3: str) -> Iterator[Proxy]:
    with proxying(s3) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_catalogues() -> Iterator[None]:
    """Nothing is known of a store before a test, nor configured behind it."""
    forget_stores()
    yield
    forget_stores()


def forget_stores() -> None:
    opening._GIVEN.clear()
    opening._opened.cache_clear()
    catalogue.catalogue_of.cache_clear()


@pytest.fixture
def through(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The proxy, with which every ``s3://`` of this process is read. Retries lose no time."""
    monkeypatch.setattr("storage.stores.objects.RETRIES", QUICK)
    opening.configure("s3", configuration(proxy.url))
    return proxy


@pytest.fixture(scope="session")
def local(samples: Samples, s3: str, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same log dir on this machine, with the file times that the bucket gave."""
    copied = Path(shutil.copytree(samples.root / "before", tmp_path_factory.mktemp("local") / "before"))
    client = S3Store("archives", config=configuration(s3), client_options={"allow_http": True})  # type: ignore[call-overload]
    for page in obstore.list(client, "new"):
        for found in page:
            time = found["last_modified"].timestamp()
            os.utime(copied / Path(found["path"]).relative_to("new"), (time, time))
    return str(copied)
