"""The C functions of liblz4, libzstd, libz, ISA-L and zlib-ng in this process, and the contexts with which one thread
calls them.

The wheels of lz4, zstandard, isal and zlib-ng carry their libraries inside extension modules that export every
function; libz is the one that Python's own ``zlib`` is linked with. If a library is missing, too old, or lacks a
function, all its functions stay 0. Python then does the work of the codec; libz does the work of ISA-L and zlib-ng.
This module imports no numba.

The kernels get ``CodecCalls.words``: addresses, contexts, two z_streams and ISA-L's state, in 64-bit words. Addresses
differ from process to process, so they are never constants of a kernel.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

# The words of ``CodecCalls.words``; 0 stands for a function that was not found.
LZ4_DECOMPRESS: Final = 0
LZ4_COMPRESS: Final = 1
ZSTD_DECOMPRESS: Final = 2
ZSTD_DECOMPRESS_CONTEXT: Final = 3
ZSTD_COMPRESS: Final = 4
ZSTD_COMPRESS_CONTEXT: Final = 5
INFLATE: Final = 6
INFLATE_RESET: Final = 7
DEFLATE: Final = 8
DEFLATE_RESET: Final = 9
CRC32: Final = 10
ISAL_INFLATE: Final = 11
ISAL_CRC32: Final = 12
INFLATE_STREAM: Final = 16
DEFLATE_STREAM: Final = 32
ISAL_STATE: Final = 48
WORDS: Final = ISAL_STATE + (1 << 15)
"""ISA-L's ``struct inflate_state`` takes less than 96 KiB in every version; pages that are not touched take no
memory.
"""

SNAPPY_TABLE_LOG2: Final = 14
"""Entries of ``CodecCalls.last_seen``, as a power of two: 32 KiB of it stay in the first cache."""

_LZ4_VERSION_MIN: Final = 1_08_00
_ZSTD_VERSION_MIN: Final = 1_04_00  # ZSTD_compress2
_ZSTD_LEVEL: Final = 3
_ZSTD_PARAMETER_LEVEL: Final = 100
_ZSTD_PARAMETER_CONTENT_SIZE: Final = 200
_Z_STREAM_BYTES: Final = 112
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
_MEMORY_LEVEL: Final = 8
_ZLIB_NG_LEVEL: Final = 6
"""zlib's default, which is Kafka's, by its own number."""

_LZ4_NAMES: Final = ("LZ4_decompress_safe", "LZ4_compress_default", "LZ4_versionNumber")
_ZSTD_NAMES: Final = (
    "ZSTD_versionNumber",
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_createCCtx",
    "ZSTD_freeCCtx",
    "ZSTD_CCtx_setParameter",
    "ZSTD_compress2",
)
_ISAL_NAMES: Final = ("isal_inflate_stateless", "crc32_gzip_refl")
_ZLIB_NG_NAMES: Final = ("zng_deflateInit2", "zng_deflateReset", "zng_deflate", "zng_deflateEnd", "zng_crc32")
_ZLIB_NAMES: Final = (
    "inflateInit2_",
    "inflateReset",
    "inflate",
    "inflateEnd",
    "deflateInit2_",
    "deflateReset",
    "deflate",
    "deflateEnd",
    "crc32",
)


class Libraries(NamedTuple):
    """The libraries that this process has; ``None`` for a missing library."""

    lz4: ctypes.CDLL | None
    zstd: ctypes.CDLL | None
    zlib: ctypes.CDLL | None
    isal: ctypes.CDLL | None = None
    zlib_ng: ctypes.CDLL | None = None


def find_libraries() -> Libraries:
    """Find the libraries in this process. The search opens shared objects, so it is done once."""
    if not _is_known_platform():
        return Libraries(None, None, None)
    return Libraries(
        lz4=_first_with(_LZ4_NAMES, _shared_objects("lz4"), _LZ4_VERSION_MIN),
        zstd=_first_with(_ZSTD_NAMES, _shared_objects("zstandard"), _ZSTD_VERSION_MIN),
        zlib=_first_with(_ZLIB_NAMES, _shared_object_of_zlib()),
        isal=_first_with(_ISAL_NAMES, _shared_objects("isal")),
        zlib_ng=_first_with(_ZLIB_NG_NAMES, _shared_objects("zlib_ng")),
    )


def _is_known_platform() -> bool:
    """Return whether pointers and ``long`` have 64 bits, lowest byte first: ``z_stream`` and the words rely on it."""
    return platform.system() == "Linux" and platform.machine() in {"x86_64", "aarch64"}


def _shared_objects(package: str) -> Iterator[str]:
    """List the extension modules of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    for directory in spec.submodule_search_locations or () if spec else ():
        yield from map(str, sorted(Path(directory).rglob("*.so")))


def _shared_object_of_zlib() -> tuple[str | None]:
    """Return the file of Python's zlib; ``None``, the program itself, if zlib is built into it."""
    return (getattr(zlib, "__file__", None),)


def _first_with(names: Iterable[str], candidates: Iterable[str | None], version_min: int = 0) -> ctypes.CDLL | None:
    """Return the first library that exports all the names and has the least version, which ``versionNumber`` tells."""
    for candidate in candidates:
        try:
            library = ctypes.CDLL(candidate)
            functions = {name: getattr(library, name) for name in names}
        except (OSError, AttributeError):
            continue
        versions = [function() for name, function in functions.items() if name.endswith("versionNumber")]
        if min(versions, default=version_min) >= version_min:
            return library
    return None


class CodecCalls:
    """Functions and contexts for one thread at a time; the contexts are freed with the object.

    Attributes:
        words: int64, ``WORDS`` of them: for the kernels, which use the z_streams in it, so never a copy.
        last_seen: uint16: for the snappy kernel, which needs no library.
    """

    words: npt.NDArray[np.int64]
    last_seen: npt.NDArray[np.uint16]

    def __init__(self, libraries: Libraries) -> None:
        self.words = np.zeros(WORDS, np.int64)
        self.last_seen = np.zeros(1 << SNAPPY_TABLE_LOG2, np.uint16)
        if libraries.lz4:
            self.words[LZ4_DECOMPRESS] = _address(libraries.lz4.LZ4_decompress_safe)
            self.words[LZ4_COMPRESS] = _address(libraries.lz4.LZ4_compress_default)
        if libraries.zstd:
            self._add_zstd(libraries.zstd)
        if libraries.zlib:
            self._add_inflate(libraries.zlib)
            if libraries.isal:
                self.words[ISAL_INFLATE] = _address(libraries.isal.isal_inflate_stateless)
                self.words[ISAL_CRC32] = _address(libraries.isal.crc32_gzip_refl)
            if libraries.zlib_ng:
                self._add_zlib_ng(libraries.zlib_ng)
            else:
                self._add_deflate(libraries.zlib)

    def _add_zstd(self, library: ctypes.CDLL) -> None:
        decompress = self._context(library.ZSTD_createDCtx, library.ZSTD_freeDCtx)
        compress = self._context(library.ZSTD_createCCtx, library.ZSTD_freeCCtx)
        if decompress:
            self.words[ZSTD_DECOMPRESS] = _address(library.ZSTD_decompressDCtx)
            self.words[ZSTD_DECOMPRESS_CONTEXT] = decompress
        if compress and _set_zstd_parameters(library, compress):
            self.words[ZSTD_COMPRESS] = _address(library.ZSTD_compress2)
            self.words[ZSTD_COMPRESS_CONTEXT] = compress

    def _context(self, create: ctypes._NamedFuncPointer, free: ctypes._NamedFuncPointer) -> int:
        create.restype, free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        context = create() or 0
        if context:
            weakref.finalize(self, free, context)
        return int(context)

    def _add_inflate(self, library: ctypes.CDLL) -> None:
        stream = self._stream(INFLATE_STREAM)
        version = zlib.ZLIB_VERSION.encode()
        if library.inflateInit2_(stream, _GZIP_WINDOW_BITS, version, _Z_STREAM_BYTES) != 0:
            return
        weakref.finalize(self, _end_stream, library.inflateEnd, self.words, stream)
        self.words[INFLATE], self.words[INFLATE_RESET] = _address(library.inflate), _address(library.inflateReset)

    def _add_zlib_ng(self, library: ctypes.CDLL) -> None:
        """Let zlib-ng compress. Its stream has the fields of zlib's, in the same places."""
        stream = self._stream(DEFLATE_STREAM)
        settings = (_ZLIB_NG_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY)
        if library.zng_deflateInit2(stream, *settings) != 0:
            return
        weakref.finalize(self, _end_stream, library.zng_deflateEnd, self.words, stream)
        self.words[DEFLATE], self.words[DEFLATE_RESET] = (
            _address(library.zng_deflate),
            _address(library.zng_deflateReset),
        )
        self.words[CRC32] = _address(library.zng_crc32)

    def _add_deflate(self, library: ctypes.CDLL) -> None:
        stream = self._stream(DEFLATE_STREAM)
        settings = (zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY)
        if library.deflateInit2_(stream, *settings, zlib.ZLIB_VERSION.encode(), _Z_STREAM_BYTES) != 0:
            return
        weakref.finalize(self, _end_stream, library.deflateEnd, self.words, stream)
        self.words[DEFLATE], self.words[DEFLATE_RESET] = _address(library.deflate), _address(library.deflateReset)
        self.words[CRC32] = _address(library.crc32)

    def _stream(self, word: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.words.ctypes.data + word * self.words.itemsize)


def _end_stream(end: Callable[[ctypes.c_void_p], int], _words: npt.NDArray[np.int64], stream: ctypes.c_void_p) -> None:
    """End a stream. As an argument, ``_words``, which hold the stream, live until then."""
    end(stream)


def _address(function: ctypes._NamedFuncPointer) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _set_zstd_parameters(library: ctypes.CDLL, context: int) -> bool:
    """Set Kafka's default level, and no content size, which Kafka's streams cannot know."""
    set_parameter = library.ZSTD_CCtx_setParameter
    set_parameter.argtypes, set_parameter.restype = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int), ctypes.c_size_t
    answers = [
        set_parameter(context, _ZSTD_PARAMETER_LEVEL, _ZSTD_LEVEL),
        set_parameter(context, _ZSTD_PARAMETER_CONTENT_SIZE, 0),
    ]
    # an error is a size_t close to its end; a success is the value as it was set
    return answers == [_ZSTD_LEVEL, 0]
