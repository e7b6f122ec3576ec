"""A real server of a store on the loopback, and what fills a bucket of it.

moto's S3 server, unless the environment names another one: of S3, Azurite, or fake-gcs-server (docs/testing.md).
"""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import boto3
import obstore
import pytest
from obstore.store import ObjectStore, from_url

from storage.stores.objects import Retries
from tests.storage.stores.google import UPLOADS, adapted


class Kind(NamedTuple):
    """What the requests of a kind of store have in them, for a proxy that chooses some."""

    variable: str
    """Names a server of the kind that runs already."""
    listing: str
    names_a_page: int
    """Of the server that the tests take: fake-gcs-server lists all names at once."""
    part: str
    """Sends a part of a file, with the number of the part."""
    around_parts: tuple[tuple[str, str], ...]
    """Path and method of the requests before the parts and behind them."""
    deletion: str
    """Deletes several files."""


KINDS: Final = {
    "s3": Kind(
        "LOGCLEANER_S3", "list-type=2", 1000, "partNumber={}", (("uploads=", "POST"), ("uploadId=", "POST")), "delete"
    ),
    "gs": Kind(
        "LOGCLEANER_GCS",
        "list-type=2",
        100_000,
        "partNumber={}",
        (("uploads=", "POST"), ("uploadId=", "POST")),
        "delete",
    ),
    "abfs": Kind("LOGCLEANER_AZURE", "comp=list", 5000, "comp=block&", (("comp=blocklist", "PUT"),), "comp=batch"),
}
SCHEME: Final = next((scheme for scheme, kind in KINDS.items() if kind.variable in os.environ), "s3")
"""Of the server's URLs."""
KIND: Final = KINDS[SCHEME]
IS_OTHER: Final = KIND.variable in os.environ
OF_S3: Final = pytest.mark.skipif(SCHEME != "s3", reason="NOT RUN: of S3 alone")

KEYS: Final = {"access_key_id": "tester", "secret_access_key": "of-tests", "region": "us-east-1"}
TOKEN: Final = "of-tests"
ACCOUNT: Final = "devstoreaccount1"
ACCOUNT_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every Azurite has, and its key, which Azurite's documentation tells."""
AZURE_VERSION: Final = "2021-12-02"
EMPTY_HEADERS: Final = 12
"""Of a request without a body, so many headers that are signed are not there."""
QUICK: Final = Retries(4, timedelta(seconds=10), timedelta(milliseconds=5), timedelta(milliseconds=50),
                       timedelta(seconds=1), timedelta(seconds=3))  # fmt: skip
"""Retries that lose no time."""
ENVIRONMENT: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL")


@contextmanager
def serving() -> Iterator[str]:
    """Yield the URL of the server that the environment names; else start moto's server in a process of its own."""
    if SCHEME == "gs":
        with adapted(os.environ[KIND.variable]) as url:
            yield url
        return
    if IS_OTHER:
        yield os.environ[KIND.variable]
        return
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            found = next(match for line in server.stderr if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))
            drain = ThreadPoolExecutor(1)
            drain.submit(server.stderr.read)
            yield found[0]
        finally:
            server.terminate()


def configuration(endpoint: str) -> dict[str, Any]:
    """Return what obstore is told of the server."""
    if SCHEME == "abfs":
        return {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": f"{endpoint}/{ACCOUNT}"}
    return {"base_url": endpoint, "bearer_token": TOKEN} if SCHEME == "gs" else {**KEYS, "endpoint": endpoint}


def environment(endpoint: str) -> dict[str, str]:
    """Return the environment variables that say the same."""
    if SCHEME == "abfs":
        found = {"ACCOUNT_NAME": ACCOUNT, "ACCOUNT_KEY": ACCOUNT_KEY, "ENDPOINT": f"{endpoint}/{ACCOUNT}"}
        return {f"AZURE_STORAGE_{key}": value for key, value in found.items()}
    if SCHEME == "gs":
        return {"GOOGLE_BASE_URL": endpoint, "GOOGLE_BEARER_TOKEN": TOKEN}
    keys = ("access_key_id", "secret_access_key", "region")
    return {f"AWS_{key.upper()}": KEYS[key] for key in keys} | {"AWS_ENDPOINT_URL": endpoint}


def writer(endpoint: str, bucket: str) -> ObjectStore:
    """Return a client that writes to a bucket, which is made."""
    if SCHEME == "abfs":
        azure(endpoint, "PUT", f"/{bucket}", {}, restype="container")
    elif SCHEME == "gs":
        asked(endpoint, "POST", "/storage/v1/b", {"Content-Type": "application/json"}, json.dumps({"name": bucket}))
    else:
        s3_client(endpoint).create_bucket(Bucket=bucket)
    return client_of(endpoint, bucket)


def client_of(endpoint: str, bucket: str) -> ObjectStore:
    """Return a client that writes to a bucket."""
    config, options = configuration(endpoint), {"allow_http": True}
    return from_url(f"{SCHEME}://{bucket}", config=config, client_options=options)  # type: ignore[call-overload]


def s3_client(endpoint: str) -> Any:
    """Return a client of another maker."""
    names = {"aws_access_key_id": KEYS["access_key_id"], "aws_secret_access_key": KEYS["secret_access_key"]}
    return boto3.client("s3", endpoint_url=endpoint, region_name=KEYS["region"], **names)


def unfinished(endpoint: str, bucket: str) -> list[str]:
    """Return the files of which parts lie in a bucket that nobody completed or took away.

    Azure has no call that takes parts away, and does so itself after a week.
    """
    if SCHEME != "s3":
        return [path for path, _ in UPLOADS.values()]
    return [found["Key"] for found in s3_client(endpoint).list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


def azure(endpoint: str, method: str, path: str, more: dict[str, str], **query: str) -> bytes:
    """Send a request to Azurite, signed by the key of its account."""
    headers = {**more, "x-ms-date": formatdate(usegmt=True), "x-ms-version": AZURE_VERSION}
    signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    resource = f"/{ACCOUNT}/{ACCOUNT}{path}" + "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
    text = method + "\n" * EMPTY_HEADERS + signed + resource
    signature = hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), "sha256")
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    return asked(endpoint, method, f"/{ACCOUNT}{path}?{urlencode(query)}", headers)


def asked(endpoint: str, method: str, path: str, headers: dict[str, str], body: str = "") -> bytes:
    """Return the answer to one request."""
    client = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)
    try:
        client.request(method, path, body or None, headers)
        answer = client.getresponse()
        data = answer.read()
        assert answer.status in (200, 201), (answer.status, data)
        return data
    finally:
        client.close()


def put_as_named(endpoint: str, bucket: str, names: list[str]) -> None:
    """Write empty objects whose names the client that is tested would not write."""
    for name in names:
        if SCHEME == "abfs":
            azure(endpoint, "PUT", f"/{bucket}/{name}", {"x-ms-blob-type": "BlockBlob"})
        elif SCHEME == "gs":
            query = urlencode({"uploadType": "media", "name": name})
            asked(endpoint, "POST", f"/upload/storage/v1/b/{bucket}/o?{query}", {})
        else:
            s3_client(endpoint).put_object(Bucket=bucket, Key=name, Body=b"")


def upload(directory: Path, store: ObjectStore, prefix: str) -> None:
    """Copy the files below a directory to a bucket, as the AWS tools do: a directory without files does not arrive."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    with ThreadPoolExecutor(4) as threads:
        put = [
            threads.submit(obstore.put, store, f"{prefix}/{path.relative_to(directory).as_posix()}", path.read_bytes())
            for path in files
        ]
    for one in put:
        one.result()
