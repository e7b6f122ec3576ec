"""The limits of the codecs are measured on whole logs, with the functions that a compaction calls."""

from __future__ import annotations

from pathlib import Path

from storage.codecs.compression import Compression
from storage.records import Record, encode_batch
from tests.benchmarks.limits import measure_codec, measure_machine

RECORDS = 500


def a_log(directory: Path, codec: Compression, batches: int) -> Path:
    directory.mkdir()
    data = b"".join(
        encode_batch(
            [Record(offset, offset, b"%d" % offset, b"value" * 20, ()) for offset in range(base, base + RECORDS)],
            compression=codec,
        )
        for base in range(0, batches * RECORDS, RECORDS)
    )
    (directory / f"{0:020}.log").write_bytes(data)
    return directory


def test_the_bound_grows_with_what_is_dirty_and_with_what_stays(tmp_path: Path) -> None:
    small, large = (a_log(tmp_path / f"orders-{n}", Compression.GZIP, n) for n in (1, 50))
    of_dirty, of_kept = measure_codec(large, small), measure_codec(small, large)
    assert of_dirty.decompress_seconds > 5 * of_kept.decompress_seconds > 0
    assert of_kept.compress_seconds > 5 * of_dirty.compress_seconds > 0
    assert of_kept.seconds == of_kept.decompress_seconds + of_kept.compress_seconds


def test_memory_and_checksums_have_a_speed() -> None:
    machine = measure_machine(1 << 16)
    assert machine.memcpy_bytes_per_second > 0
    assert machine.crc32c_bytes_per_second > 0
