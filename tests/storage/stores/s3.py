"""A real S3 server on the loopback, and what fills a bucket of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from storage.stores.objects import Retries

OTHER_SERVER = "LOGCLEANER_S3"
KEYS = {"access_key_id": "tester", "secret_access_key": "of-tests", "region": "us-east-1"}
QUICK = Retries(4, timedelta(seconds=10), timedelta(milliseconds=5), timedelta(milliseconds=50),
                timedelta(seconds=1), timedelta(seconds=3))  # fmt: skip
"""Retries that lose no time."""
ENVIRONMENT = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL")


@contextmanager
def serving() -> Iterator[str]:
    """Start moto's server in a process of its own, and yield its URL; ``LOGCLEANER_S3`` names another server."""
    if other := os.environ.get(OTHER_SERVER):
        yield other
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
    return {**KEYS, "endpoint": endpoint}


def environment(endpoint: str) -> dict[str, str]:
    """Return the environment variables that say the same."""
    keys = ("access_key_id", "secret_access_key", "region")
    return {f"AWS_{key.upper()}": KEYS[key] for key in keys} | {"AWS_ENDPOINT_URL": endpoint}


def writer(endpoint: str, bucket: str) -> S3Store:
    """Return a client that writes to a bucket, which is made."""
    import boto3

    names = {"aws_access_key_id": KEYS["access_key_id"], "aws_secret_access_key": KEYS["secret_access_key"]}
    boto3.client("s3", endpoint_url=endpoint, region_name=KEYS["region"], **names).create_bucket(Bucket=bucket)
    return S3Store(bucket, config=configuration(endpoint), client_options={"allow_http": True})  # type: ignore[call-overload]


def upload(directory: Path, store: S3Store, prefix: str) -> None:
    """Copy the files below a directory to a bucket, as the AWS tools do: a directory without files does not arrive."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    with ThreadPoolExecutor(4) as threads:
        put = [
            threads.submit(obstore.put, store, f"{prefix}/{path.relative_to(directory).as_posix()}", path.read_bytes())
            for path in files
        ]
    for one in put:
        one.result()
