"""The speed of ``restore-tier`` over a server of S3, beside that of its client alone.

    python -m tests.benchmarks.restoring DIR --server http://127.0.0.1:7070 [--gib 1] [--rounds 6] [--form NAME ...]

The server is one of S3 with the keys of the tests (docs/testing.md). ``DIR`` gets what is restored and loses it again;
a new bucket keeps a tier in each form. Each round runs all three, one after the other, as processes from start to exit,
on a disk that has nothing left to write: ``restore-tier``; a script that has obstore download the same objects into
files, and fsyncs them; and that script if it also computes the SHA-256 of what it downloads, which a manifest needs.
Told are medians, seconds of the processor, the median of the ratios of pairs, and its interval of at least 95 % (from
six pairs on; of less the smallest and the greatest).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from math import comb
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import obstore
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from storage.records import Record, encode_batch
from tests.benchmarks.processes import Cost, run
from tests.storage.stores.servers import environment, writer
from tests.tiers.drawn import NOW_MS, AivenForm, DrawnSegment, aiven_objects, local_objects

FORMS: Final = ("local", "plain", "zstd", "encrypted", "zstd, encrypted")
"""The layout of ``LocalTieredStorage``, and four forms of Aiven's."""
BATCH_BYTES: Final = 16 << 10
POOL_BATCHES: Final = 256
"""As many as fill a chunk, so that none is like another in it."""
CHUNK_BYTES: Final = 4 << 20
SEGMENT_BYTES_MAX: Final = 128 << 20
RECORDS: Final = 16
_KEY_BITS: Final = 2048
_CONFIDENCE: Final = 0.95
_CLIENT: Final = """\
import hashlib, os, sys
from concurrent.futures import ThreadPoolExecutor
import obstore
from obstore.store import S3Store
store = S3Store(sys.argv[1], client_options={"allow_http": True})
found = [meta for page in obstore.list(store, sys.argv[2]) for meta in page]
files = {}
for one in found:
    files[one["path"]] = os.open(os.path.join(sys.argv[3], one["path"].replace("/", "+")), os.O_CREAT | os.O_WRONLY)
def bring(one):
    path, start, end = one
    whole = data = memoryview(obstore.get(store, path, options={"range": (start, end)}).bytes())
    while data:
        written = os.pwrite(files[path], data, start)
        start, data = start + written, data[written:]
    return whole
step, hashes = 8 << 20, len(sys.argv) > 4
def bring_summed(one):
    digest = hashlib.sha256()
    for at in range(0, one["size"], step):
        digest.update(bring((one["path"], at, min(at + step, one["size"]))))
with ThreadPoolExecutor(16) as threads:
    if hashes:
        list(threads.map(bring_summed, found))
    else:
        list(threads.map(bring, [(one["path"], at, min(at + step, one["size"])) for one in found
                                 for at in range(0, one["size"], step)]))
    list(threads.map(os.fsync, files.values()))
directory = os.open(sys.argv[3], os.O_RDONLY)
os.fsync(directory)
"""


class Round(NamedTuple):
    """The costs of all three, one after the other."""

    ours: Cost
    client: Cost
    summing: Cost


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each form."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.restoring", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("directory", type=Path)
    parser.add_argument("--server", required=True, metavar="URL")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--form", action="append", choices=FORMS)
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    bucket, log_bytes = f"tiers-{os.getpid()}", int(options.gib * (1 << 30))
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch, patch.dict(
        os.environ, environment(options.server)
    ):  # fmt: skip
        store, key = writer(options.server, bucket), generate_private_key(65537, _KEY_BITS)
        key_file = Path(scratch, "key.pem")
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        for form in options.form or FORMS:
            prefix = form.replace(", ", "-")
            stored = 0
            for segment in segments(log_bytes):
                for path, data in _objects(form, key)(segment).items():
                    obstore.put(store, f"{prefix}/{path}", data)
                    stored += len(data)
            rounds = [_round(f"s3://{bucket}/{prefix}", key_file, Path(scratch)) for _ in range(options.rounds)]
            print(line_of(form, rounds, log_bytes, stored), flush=True)
    return 0


def line_of(form: str, rounds: Sequence[Round], log_bytes: int, stored_bytes: int) -> str:
    """Return what is told of one form."""
    sizes = f"{log_bytes / (1 << 20):5.0f} MiB of {stored_bytes / (1 << 20):5.0f}"
    ours, client, summing = (_median(costs) for costs in zip(*rounds, strict=True))
    found = f"{form:16}{sizes}: {ours}, the client {client}{_ratio(rounds, 1)}"
    return f"{found}, with SHA-256 {summing}{_ratio(rounds, 2)}"


def _median(costs: Sequence[Cost]) -> str:
    seconds, used = (statistics.median(one) for one in zip(*((c.seconds, c.cpu_seconds) for c in costs), strict=True))
    return f"{seconds:.2f} s ({used:.2f} of CPU)"


def _ratio(rounds: Sequence[Round], other: int) -> str:
    """Return the speed of ours, where that of another one is 100 %."""
    ratios = [one[other].seconds / one.ours.seconds for one in rounds]
    low, high = interval(ratios)
    return f": {statistics.median(ratios):.0%} ({low:.0%} to {high:.0%})"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return what the median lies in with 95 %, whatever the distribution; of few values the least and the greatest."""
    ordered, count = sorted(values), len(values)
    outside, skipped = 0.0, 0
    while True:
        outside += 2 * comb(count, skipped) / 2**count
        if outside > 1 - _CONFIDENCE or 2 * (skipped + 1) >= count:
            break
        skipped += 1
    skipped = max(0, skipped - 1)
    return ordered[skipped], ordered[-1 - skipped]


def segments(log_bytes: int) -> Iterator[Written]:
    """Yield a log in segments. Its values are hexadecimal digits, so that they compress to a half."""
    pool = []
    for _ in range(POOL_BATCHES):
        values = [os.urandom(BATCH_BYTES // RECORDS // 2 - 20).hex().encode() for _ in range(RECORDS)]
        records = [Record(at, NOW_MS, b"key-%012d" % at, value) for at, value in enumerate(values)]
        pool.append(encode_batch(records, producer_id=-1)[8:])
    offset, left = 0, log_bytes
    while left > 0:
        segment = Written(offset, min(left, SEGMENT_BYTES_MAX), pool)
        yield segment
        offset, left = segment.end + 1, left - len(segment.log)


class Written(DrawnSegment):
    """A segment that is made of a pool of batches, over and over: no checksum covers the offset of a batch."""

    def __init__(self, start: int, size_bytes: int, pool: Sequence[bytes]) -> None:
        """Write it."""
        data, places, offset = bytearray(), [], start
        while len(data) < size_bytes:
            places.append((len(data), offset + RECORDS - 1, NOW_MS))
            data += struct.pack(">q", offset) + pool[offset // RECORDS % len(pool)]
            offset += RECORDS
        super().__init__((bytes(data),), start, f"segment-{start}", ((0, 0),))
        object.__setattr__(self, "_places", places)

    @property
    def headers(self) -> list[tuple[int, int, int]]:
        """Return what the batches are known to be."""
        places: list[tuple[int, int, int]] = self._places  # type: ignore[attr-defined]
        return places


def _objects(form: str, key: RSAPrivateKey) -> Callable[[DrawnSegment], dict[str, bytes]]:
    if form == "local":
        return local_objects
    aiven = AivenForm("", CHUNK_BYTES, "zstd" in form, key if "encrypted" in form else None)
    return lambda segment: aiven_objects(segment, aiven)


def _round(url: str, key: Path, scratch: Path) -> Round:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    made = scratch / "made"
    restoring = ["-m", "cleaner", "restore-tier", url, "--output", str(made), "--tier-key", str(key)]
    client = ["-c", _CLIENT, bucket, prefix, str(made)]
    costs = []
    for arguments in (restoring, client, [*client, "summed"]):
        if arguments is not restoring:
            made.mkdir()
        os.sync()
        costs.append(run([sys.executable, *arguments]))
        shutil.rmtree(made)
    return Round(*costs)


if __name__ == "__main__":
    sys.exit(main())
