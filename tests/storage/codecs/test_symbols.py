"""The C functions behind the codec kernels: found, proven before use, done without, and called without the GIL."""

from __future__ import annotations

import ctypes
import gc
import random
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from storage.codecs import batches, symbols
from storage.codecs.compression import Compression, compress
from storage.codecs.symbols import CodecCalls, Libraries
from storage.kernels.status import Status
from tests.storage.codecs.codec_calls import compressed, decompressed

FOUND = symbols.find_libraries()
TEXT = b"the same words again and again, " * 800
BY_LIBRARY = {"lz4": Compression.LZ4, "zstd": Compression.ZSTD, "zlib": Compression.GZIP}


def test_the_installed_wheels_export_what_is_needed() -> None:
    assert FOUND.lz4
    assert FOUND.zstd
    assert FOUND.isal
    assert FOUND.zlib_ng
    assert batches.proven(FOUND) == FOUND


@pytest.mark.parametrize(("library", "codec"), BY_LIBRARY.items())
def test_without_a_library_its_codec_alone_is_left_to_python(library: str, codec: Compression) -> None:
    calls = CodecCalls(FOUND._replace(**{library: None}))
    for other in BY_LIBRARY.values():
        expected = Status.NEEDS_PYTHON if other == codec else Status.OK
        assert decompressed(other, compress(other, TEXT), calls).status == expected
        assert compressed(other, TEXT, calls).status == expected


@pytest.mark.parametrize("library", ["isal", "zlib_ng"])
def test_without_a_faster_library_libz_does_its_work(library: str) -> None:
    calls = CodecCalls(FOUND._replace(**{library: None}))
    body = compressed(Compression.GZIP, TEXT, calls)
    assert body.status == Status.OK
    assert decompressed(Compression.GZIP, body.content, calls).content == TEXT


def test_snappy_needs_no_library() -> None:
    calls = CodecCalls(Libraries(None, None, None))
    assert decompressed(Compression.SNAPPY, compressed(Compression.SNAPPY, TEXT, calls).content, calls).content == TEXT


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
def wrong(_source: int, _target: int, _source_bytes: int, _target_bytes: int) -> int:
    return 40


def test_a_library_that_does_something_else_is_not_used() -> None:
    impostor = SimpleNamespace(LZ4_decompress_safe=wrong, LZ4_compress_default=FOUND.lz4.LZ4_compress_default)
    assert batches.proven(FOUND._replace(lz4=impostor)) == FOUND._replace(lz4=None)
    impostor = SimpleNamespace(isal_inflate_stateless=wrong, crc32_gzip_refl=FOUND.isal.crc32_gzip_refl)
    assert batches.proven(FOUND._replace(isal=impostor)) == FOUND._replace(isal=None)


def test_an_unknown_platform_has_no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols.platform, "machine", lambda: "s390x")
    assert symbols.find_libraries() == Libraries(None, None, None)


@pytest.mark.parametrize("content", [b"", b"not a shared object"])
def test_a_file_that_is_no_library_is_passed_by(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lz4").mkdir()
    (tmp_path / "lz4" / "_block.so").write_bytes(content)
    (tmp_path / "lz4" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "lz4", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert symbols.find_libraries().lz4 is None


def test_finding_the_libraries_imports_neither_them_nor_numba() -> None:
    code = "import sys, storage.codecs.symbols as s; s.find_libraries(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"lz4", "zstandard", "isal", "zlib_ng", "numba"} & set(done.stdout.split())


def test_kernels_work_in_each_process() -> None:
    """The codecs' libraries lie at other addresses there."""
    code = (
        "from storage.codecs import batches; from storage.codecs.symbols import LZ4_DECOMPRESS as at;"
        "found = batches.find_libraries();"
        "print(batches.proven(found) == found, batches.open_codecs().words[at])"
    )
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert [output[0] for output in outputs] == ["True", "True"]
    assert outputs[0][1] != outputs[1][1]


def test_contexts_are_freed_with_their_owner() -> None:
    calls = CodecCalls(FOUND)
    owner, words = weakref.ref(calls), weakref.ref(calls.words)
    compressed(Compression.GZIP, TEXT, calls)
    del calls
    gc.collect()
    assert owner() is None
    assert words() is None


@pytest.mark.parametrize("codec", [*BY_LIBRARY.values(), Compression.SNAPPY])
def test_another_thread_runs_while_a_codec_works(codec: Compression) -> None:
    """With the GIL held, no tick could fall into the middle of a call, however often; a busy machine needs some."""
    assert any(_another_thread_ran(codec) for _ in range(1_000))


def _another_thread_ran(codec: Compression) -> bool:
    plain = np.frombuffer(random.Random(2).randbytes(1 << 16) * 256, np.uint8)
    out, calls, span = np.empty(batches.body_bytes_max(plain.size), np.uint8), CodecCalls(FOUND), []

    def work() -> None:
        span.append(time.perf_counter())
        batches.compress_records(codec, plain, 0, plain.size, out, 0, calls.words, calls.last_seen)
        span.append(time.perf_counter())

    worker, ticks = threading.Thread(target=work), []
    worker.start()
    while worker.is_alive():
        ticks.append(time.perf_counter())
    start, end = span
    return any(start + (end - start) * 0.25 < tick < start + (end - start) * 0.75 for tick in ticks)
