"""A cluster's compaction into a bucket: the bytes of the local engine, and no copy if the driver is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.exit_status import ExitStatus
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE, SCRATCH_SUFFIX
from storage.stores import opening
from tests.interop.jvms import QUICK
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, Proxy, proxying
from tests.storage.stores.servers import SCHEME, configuration, environment, serving, upload
from tests.storage.stores.test_copies import NOW, Destination, assert_is_no_copy, copied, differing, local_files

BUCKET = "compacted"


@pytest.fixture(scope="module")
def to() -> Iterator[Destination]:
    with serving() as url:
        yield Destination(url, BUCKET)


@pytest.fixture
def proxy(to: Destination) -> Iterator[Proxy]:
    forget_stores()
    with proxying(to.url) as running:
        opening.configure(SCHEME, configuration(running.url))
        yield running
    forget_stores()


def begun(log_dir: str, output: str, proxy: Proxy) -> subprocess.Popen[str]:
    """Start the compaction by embedded Spark, whose workers have the credentials of the environment."""
    command = [sys.executable, "-m", "cleaner", "clean", "--yes", "--kafka-defaults", "--now", NOW, "--engine", "spark",
               "--force-compaction", "--log-dir", log_dir, "--output", output]  # fmt: skip
    more = {"SPARK_SUBMIT_OPTS": " ".join(QUICK), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        command,
        env=os.environ | environment(proxy.url) | more,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("is_source_stored", [False, True])
def test_copy_by_a_cluster_has_the_bytes_of_the_local_engine(
    spark: Any, demo: Path, to: Destination, proxy: Proxy, tmp_path: Path, is_source_stored: bool
) -> None:
    del spark  # asked for since it says where there is no Java
    log_dir = str(demo)
    if is_source_stored:
        upload(demo, to.store, "source")
        log_dir = f"{SCHEME}://{BUCKET}/source"
    output = f"copies/{is_source_stored}"
    with begun(log_dir, f"{SCHEME}://{BUCKET}/{output}", proxy) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == ExitStatus.DONE, err
    assert copied(log_dir, tmp_path / "copy", "--force-compaction") == ExitStatus.DONE
    here, there = local_files(tmp_path / "copy"), to.files(output)
    manifests = [json.loads(files[MANIFEST_FILE]) for files in (here, there)]
    assert [manifest.pop("engine") for manifest in manifests] == ["local", "spark"]
    for files, manifest in zip((here, there), manifests, strict=True):
        files[MANIFEST_FILE] = json.dumps(manifest).encode()
    assert differing(here, there) == []
    assert sum(name.endswith(".log") for name in there) > 20
    assert not [name for name in there if name.endswith(SCRATCH_SUFFIX)]
    assert any(".bitmap" in path for method, path, _ in proxy.traffic.requests if method == "PUT")


def test_driver_that_is_killed_half_way_leaves_no_copy(
    spark: Any, demo: Path, to: Destination, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    output = f"{SCHEME}://{BUCKET}/copy"
    with begun(str(demo), output, proxy) as process:

        def killed(method: str, path: str) -> Fault:
            if method == "PUT" and "/copy/orders-" in path and ".log" in path and ".bitmap" not in path:
                process.kill()
            return Fault.NONE

        proxy.fault = killed
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
    proxy.fault = lambda _method, _path: Fault.NONE
    assert {INCOMPLETE_FILE} <= to.files("copy").keys()
    assert_is_no_copy(to, demo, capsys)
