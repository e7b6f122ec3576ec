"""The speed of ``verify`` on warm, uncompressed batches of 1 KiB and of 16 KiB, from an idempotent producer.

    python -m tests.benchmarks.verifying DIR [--gib 1] [--threads 1]

``DIR`` gets the logs and loses them again; on a tmpfs no disk is measured. Told are the GB a second of the clock and of
the processor: on a machine that has other work, too, the second is the speed of a core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.means import Means
from cleaner.engine.verify.checked import CheckRequest
from cleaner.engine.verify.checking import check_log_dirs
from storage.log_dir import LogDir
from storage.records import Record, encode_batch

BATCH_BYTES: Final = (1 << 10, 16 << 10)
ROUNDS: Final = 5
_SEGMENT_BYTES_MAX: Final = 256 << 20
_INTERVAL_BYTES: Final = 4096
_TIMESTAMP_MS: Final = 1_700_000_000_000


class Speed(NamedTuple):
    """GB a second."""

    by_clock: float
    by_processor: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each size of batches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    for batch_bytes in BATCH_BYTES:
        log_dir = options.directory / f"batches-of-{batch_bytes}"
        try:
            write_log(log_dir / "verified-0", batch_bytes, int(options.gib * (1 << 30)))
            best = max((measure(log_dir, options.threads) for _ in range(ROUNDS)), key=lambda speed: speed.by_processor)
        finally:
            shutil.rmtree(log_dir, ignore_errors=True)
        told = f"{best.by_clock:.1f} GB/s by the clock, {best.by_processor:.1f} GB/s a core"
        print(f"batches of {batch_bytes >> 10} KiB, {options.threads} thread(s): {told}")
    return 0


def measure(log_dir: Path, threads: int) -> Speed:
    """Check a log dir once. It is healthy, and in the page cache."""
    seconds, processor_seconds = time.perf_counter(), time.process_time()
    checked = check_log_dirs([LogDir(log_dir)], CheckRequest(threads=threads), Means(threads=threads))
    assert not checked.findings, checked.findings
    return Speed(
        checked.size_bytes / (time.perf_counter() - seconds) / 1e9,
        checked.size_bytes / (time.process_time() - processor_seconds) / 1e9,
    )


def write_log(directory: Path, batch_bytes: int, log_bytes: int) -> None:
    """Write segments of equal batches: only the base offset, which no checksum covers, tells them apart."""
    directory.mkdir(parents=True)
    value = os.urandom(batch_bytes - 61 - 20)
    one = encode_batch([Record(0, _TIMESTAMP_MS, b"key", value)], producer_id=7, producer_epoch=0, base_sequence=0)[8:]
    per_segment = min(_SEGMENT_BYTES_MAX, log_bytes) // (len(one) + 8)
    for base_offset in range(0, log_bytes // (len(one) + 8), per_segment):
        _write_segment(directory / f"{base_offset:020d}", base_offset, per_segment, one)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def _write_segment(stem: Path, base_offset: int, batches: int, one: bytes) -> None:
    size = len(one) + 8
    every = _INTERVAL_BYTES // size + 1
    with stem.with_suffix(".log").open("wb") as file:
        for offset in range(base_offset, base_offset + batches):
            file.write(struct.pack(">q", offset) + one)
    entries = (struct.pack(">ii", place, place * size) for place in range(every, batches, every))
    stem.with_suffix(".index").write_bytes(b"".join(entries))
    stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", _TIMESTAMP_MS, 0))


if __name__ == "__main__":
    raise SystemExit(main())
