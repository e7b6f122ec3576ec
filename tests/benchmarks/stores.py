"""Commands on a log dir in a bucket, beside the same on this machine, and beside what the client alone moves.

    python -m tests.benchmarks.stores DIR --server http://127.0.0.1:7070 [--gib 1] [--rounds 5] [--delay-ms 30]

The server is one of S3 with the keys of the tests (docs/testing.md); before it stands a proxy that lets each
request wait. ``DIR`` gets the log, what is written, and loses both again; a new bucket keeps the log. Each round runs
all commands on both sides, in turn, and the client alone, as processes from start to exit. Told are medians: MB a
second, seconds of the processor a GiB, the memory at its peak, and the ratios to this machine and to the client.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import obstore
from obstore.store import ObjectStore

from storage.names import MANIFEST_FILE
from tests.benchmarks.delays import delayed
from tests.benchmarks.processes import run
from tests.benchmarks.spark_log import write_log
from tests.storage.stores.servers import client_of, environment, upload, writer

BUCKET: Final = f"bench-{os.getpid()}"
DOWNLOAD: Final = "the client reads"
UPLOAD: Final = "the client writes"
COPY: Final = "clean --output"
POLICIES: Final = ("delete", "compact")
READING: Final = {
    "verify": "verify {log_dir}",
    "dump --print-data-log": "dump {log_dir}/bench-0 --print-data-log",
    "export --to parquet": "export bench-0 --to parquet {out} --log-dir {log_dir}",
}
_CLIENT: Final = """\
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
import obstore
from obstore.store import S3Store
store = S3Store(sys.argv[1], client_options={"allow_http": True})
found = [meta for page in obstore.list(store, "log/bench-0") for meta in page if meta["path"].endswith(".log")]
ranges = [(one["path"], at, min(at + (8 << 20), one["size"])) for one in found for at in range(0, one["size"], 8 << 20)]
def get(one):
    return len(obstore.get(store, one[0], options={"range": one[1:]}).bytes())
with ThreadPoolExecutor(4) as threads:
    coming = deque()
    for one in ranges:
        coming.append(threads.submit(get, one))
        if len(coming) > 4:
            coming.popleft().result()
"""
_WRITING_CLIENT: Final = """\
import sys
from pathlib import Path
import obstore
from obstore.store import S3Store
store = S3Store(sys.argv[1], client_options={"allow_http": True})
for file in Path(sys.argv[2]).glob("bench-0/*.log"):
    obstore.put(store, f"alone/{file.name}", file, chunk_size=8 << 20, max_concurrency=4)
"""


class Spent(NamedTuple):
    """The cost of one process."""

    seconds: float
    processor_seconds: float
    memory_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each command and side; 1 where a copy in the bucket is not the same as here."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stores", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("directory", type=Path)
    parser.add_argument("--server", required=True, metavar="URL")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=30)
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        log_dir, log_bytes = Path(scratch, "log"), int(options.gib * (1 << 30))
        write_log(log_dir, log_bytes, 100)
        upload(log_dir, writer(options.server, BUCKET), "log")
        with delayed(options.server, options.delay_ms / 1000) as url, patch.dict(os.environ, environment(url)):
            rounds = [dict(_round(log_dir, Path(scratch), options.server)) for _ in range(options.rounds)]
    for line in _lines(rounds, log_bytes):
        print(line)
    return 0


def _round(log_dir: Path, scratch: Path, server: str) -> Iterator[tuple[tuple[str, str], Spent]]:
    """Yield what each command costs on each side. Raises: AssertionError where two copies differ."""
    stored = f"s3://{BUCKET}/log"
    yield (DOWNLOAD, stored), _spent([sys.executable, "-c", _CLIENT, BUCKET])
    yield (UPLOAD, stored), _spent([sys.executable, "-c", _WRITING_CLIENT, BUCKET, str(log_dir)])
    for name, words in READING.items():
        for side in (str(log_dir), stored):
            out = scratch / "out.parquet"
            yield (name, side), _spent(_ours(words.format(log_dir=side, out=out)))
            out.unlink(missing_ok=True)
    client = client_of(server, BUCKET)
    _remove(client, "alone")
    for policy in POLICIES:
        config = scratch / "config.toml"
        config.write_text(f'[topics.bench]\n"cleanup.policy" = "{policy}"\n"retention.ms" = -1\n', encoding="utf-8")
        here, there = scratch / f"copy-{policy}", f"copy-{policy}"
        for side, place in ((str(log_dir), str(here)), (stored, f"s3://{BUCKET}/{there}")):
            command = f"clean --log-dir {log_dir} --output {place} --yes --force-compaction --config {config}"
            yield (f"{COPY}, {policy}", side), _spent(_ours(command))
        manifests = (here / MANIFEST_FILE).read_bytes(), bytes(client.get(f"{there}/{MANIFEST_FILE}").bytes())
        assert _files(manifests[0]) == _files(manifests[1]), "the two copies differ"
        shutil.rmtree(here)
        _remove(client, there)


def _ours(words: str) -> list[str]:
    """Return a command whose output nobody keeps."""
    return ["sh", "-c", f"exec {shlex.join([sys.executable, '-m', 'cleaner', *words.split()])} > /dev/null"]


def _spent(command: Sequence[str]) -> Spent:
    """Run a command. Raises: subprocess.CalledProcessError."""
    before = _processor_seconds()
    cost = run(command)
    return Spent(cost.seconds, _processor_seconds() - before, cost.anonymous_bytes)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _files(manifest: bytes) -> Mapping[str, object]:
    """Return the files of a manifest with size and SHA-256."""
    document = json.loads(manifest)
    lists = [document["files"], *(partition["files"] for partition in document["partitions"])]
    return {file["path"]: (file["bytes"], file["sha256"]) for files in lists for file in files}


def _remove(client: ObjectStore, prefix: str) -> None:
    for page in obstore.list(client, prefix):
        obstore.delete(client, [meta["path"] for meta in page])


def _lines(rounds: Sequence[Mapping[tuple[str, str], Spent]], log_bytes: int) -> Iterator[str]:
    for name, side in rounds[0]:
        spent = [one[name, side] for one in rounds]
        rate = statistics.median([log_bytes / one.seconds / 1e6 for one in spent])
        processor = statistics.median([one.processor_seconds for one in spent]) / (log_bytes / (1 << 30))
        memory = max(one.memory_bytes for one in spent) / (1 << 20)
        is_stored = side.startswith("s3:")
        line = f"{name:26}{'bucket' if is_stored else 'here':8}"
        line += f"{rate:6.0f} MB/s{processor:7.2f} s/GiB{memory:6.0f} MiB"
        if is_stored and name not in (DOWNLOAD, UPLOAD):
            client = UPLOAD if name.startswith(COPY) else DOWNLOAD
            here = next(other for other in rounds[0] if other[0] == name)
            of_here = statistics.median([one[here].seconds / one[name, side].seconds for one in rounds])
            of_client = statistics.median([one[client, side].seconds / one[name, side].seconds for one in rounds])
            line += f"{of_here:7.0%} of here{of_client:6.0%} of the client"
        yield line


if __name__ == "__main__":
    sys.exit(main())
