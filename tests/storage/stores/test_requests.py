"""How many requests a command takes, and how many bytes, counted by the proxy."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.stores.stored_file import WINDOW_BYTES
from tests.conftest import Samples
from tests.storage.stores.proxy import Proxy, Traffic
from tests.storage.stores.servers import KIND, SCHEME, upload, writer

PARTITIONS = 1000
SMALL_BYTES_MAX = 64 << 10


@pytest.fixture(scope="module")
def many(server: str, samples: Samples) -> tuple[str, int]:
    """A log dir of a thousand partitions in a bucket, and how many names it has."""
    store, here = writer(server, "thousand"), samples.root / "before"
    one = {path.name: path.read_bytes() for path in (here / "single-0").iterdir()}
    root = {name: (here / name).read_bytes() for name in ("meta.properties", "replication-offset-checkpoint")}
    root |= {
        f"__cluster_metadata-0/{path.name}": path.read_bytes() for path in (here / "__cluster_metadata-0").iterdir()
    }
    files = {f"logs/many-{number}/{name}": data for number in range(PARTITIONS) for name, data in one.items()}
    files |= {f"logs/{name}": data for name, data in root.items()}
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: obstore.put(store, name, files[name]), files))
    return f"{SCHEME}://thousand/logs", len(files)


def lists_and_reads(traffic: Traffic) -> tuple[int, list[str]]:
    lists = [path for _, path, _ in traffic.requests if KIND.listing in path]
    return len(lists), [f"{path} {range_}" for _, path, range_ in traffic.requests if KIND.listing not in path]


def test_topics_of_a_thousand_partitions_list_and_read_little(
    many: tuple[str, int], through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    url, names = many
    assert main(["topics", "--json", url]) == ExitStatus.DONE
    assert len(json.loads(capsys.readouterr().out)["partitions"]) == PARTITIONS
    lists, reads = lists_and_reads(through.traffic)
    of_partitions = [read for read in reads if "many-" in read]
    assert lists <= -(-names // 1000)
    assert len(of_partitions) <= 2 * PARTITIONS
    assert len(reads) - len(of_partitions) <= 20
    assert through.traffic.body_bytes < 16 << 20


@pytest.mark.parametrize(
    "words",
    [
        "lookup {}/orders-0 --offset 5000", "lookup {}/orders-0 --offset 0", "lookup {}/orders-0 --timestamp latest",
        "lookup {}/payments-0 --timestamp 2026-11-20T00:00:00Z", "lookup orders-0 --offset 5000 --log-dir {}",
        "lookup {}/payments-0 --offset 7000",
    ],
)  # fmt: skip
def test_point_look_up_takes_few_requests_and_little(
    bucket: str, through: Proxy, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.format(f"{bucket}/new").split()) == ExitStatus.DONE
    assert capsys.readouterr().out
    assert len(through.traffic.requests) <= 10, through.traffic.requests
    assert through.traffic.body_bytes <= 1 << 20


def test_dump_reads_a_log_once_for_itself_and_its_offset_index(
    server: str, demo: Path, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    """A time index asks for the batches that it names, in ascending order."""
    upload(demo, writer(server, "dumped"), "logs")
    logs = {path.name: path.stat().st_size for path in (demo / "audit-0").glob("*.log")}
    through.traffic.clear()
    assert main(["dump", f"{SCHEME}://dumped/logs/audit-0"]) == ExitStatus.DONE
    assert capsys.readouterr().out
    for log, size_bytes in logs.items():
        asked = [range_ for _, path, range_ in through.traffic.requests if path.endswith(log)]
        read = [tuple(map(int, range_.removeprefix("bytes=").split("-"))) for range_ in asked]
        assert sum(end - start + 1 for start, end in read) <= 2 * size_bytes + SMALL_BYTES_MAX, (log, read)


@pytest.mark.parametrize("words", ["export audit-0 - --to jsonl --log-dir {}", "verify {}/audit-0"])
def test_scan_reads_each_byte_once(
    server: str, demo: Path, through: Proxy, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"scanned-{words.split(maxsplit=1)[0]}"
    upload(demo, writer(server, name), "logs")
    logs = {path.name: path.stat().st_size for path in (demo / "audit-0").glob("*.log")}
    through.traffic.clear()
    assert main(words.format(f"{SCHEME}://{name}/logs").split()) == ExitStatus.DONE
    assert capsys.readouterr().out
    for log, size_bytes in logs.items():
        asked = [range_ for _, path, range_ in through.traffic.requests if path.endswith(log)]
        read = [tuple(map(int, range_.removeprefix("bytes=").split("-"))) for range_ in asked]
        assert sum(end - start + 1 for start, end in read) <= size_bytes + SMALL_BYTES_MAX, (log, read)
        assert len(read) <= -(-size_bytes // WINDOW_BYTES) + 2, (log, read)
        assert {0, size_bytes} <= {start for start, _ in read} | {end + 1 for _, end in read}
