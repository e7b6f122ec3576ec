"""The limits of the codecs are measured on whole logs, with the functions that a compaction calls."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.codecs.compression import Compression
from storage.records import Record, encode_batch
from tests.benchmarks import limits
from tests.benchmarks.limits import REQUEST_BYTES, direct_seconds, measure_least, measure_machine

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


def test_the_least_grows_with_what_is_dirty_and_with_what_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # processor time: beside other tests, a work of microseconds may wait as long as one of milliseconds takes
    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=time.thread_time))
    small, large = (a_log(tmp_path / f"orders-{n}", Compression.GZIP, n) for n in (1, 50))
    of_dirty, of_kept = measure_least(large, small, tmp_path), measure_least(small, large, tmp_path)
    assert of_dirty.decompress_seconds > 5 * of_kept.decompress_seconds > 0
    assert of_dirty.keys_seconds > 5 * of_kept.keys_seconds > 0
    assert of_kept.compress_seconds > 5 * of_dirty.compress_seconds > 0
    assert of_kept.write_seconds > 0
    assert of_kept.codec_seconds == of_kept.decompress_seconds + of_kept.compress_seconds
    assert of_kept.seconds > of_kept.codec_seconds + of_kept.keys_seconds
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders-1", "orders-50"]


def test_the_check_of_a_large_log_takes_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=time.thread_time))
    small, large = (a_log(tmp_path / f"orders-{n}", Compression.NONE, n) for n in (1, 400))
    found = [measure_least(log, small, tmp_path).check_seconds for log in (small, large)]
    assert found[1] > 5 * found[0] > 0


def test_what_is_not_compressed_takes_no_time_of_a_codec(tmp_path: Path) -> None:
    plain = a_log(tmp_path / "orders-0", Compression.NONE, 2)
    least = measure_least(plain, plain, tmp_path)
    assert least.codec_seconds == 0
    assert least.keys_seconds > 0


def test_direct_requests_leave_no_file(tmp_path: Path) -> None:
    log = a_log(tmp_path / "orders-0", Compression.NONE, 1)
    with next(log.iterdir()).open("ab") as opened:
        opened.truncate(3 * REQUEST_BYTES + 1)
    seconds = direct_seconds(log, log, tmp_path)
    assert seconds is None or seconds > 0
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]


def test_memory_and_checksums_have_a_speed() -> None:
    machine = measure_machine(1 << 16)
    assert machine.memcpy_bytes_per_second > 0
    assert machine.crc32c_bytes_per_second > 0
