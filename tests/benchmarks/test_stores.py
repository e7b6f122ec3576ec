"""The benchmark of log dirs in a bucket compares both sides, and its proxy lets each request wait."""

from __future__ import annotations

import time

import obstore
import pytest

from tests.benchmarks.delays import delayed
from tests.benchmarks.stores import main
from tests.storage.stores.servers import SCHEME, client_of, serving, writer

pytestmark = pytest.mark.skipif(SCHEME != "s3", reason="the benchmark speaks to servers of S3")


def test_each_command_is_measured_on_both_sides(tmp_path, capsys):
    with serving() as url:
        assert main([str(tmp_path), "--server", url, "--gib", "0.001", "--rounds", "1", "--delay-ms", "1"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 12
        assert sum("of the client" in line for line in lines) == 5
        assert list(tmp_path.iterdir()) == []
        writer(url, "delayed")
        with delayed(url, 0.2) as slow:
            client, started = client_of(slow, "delayed"), time.monotonic()
            obstore.put(client, "a", b"a" * 1_000_000)
            assert obstore.get(client, "a").bytes() == b"a" * 1_000_000
            assert time.monotonic() - started >= 0.4
