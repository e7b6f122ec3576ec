"""Machine instructions that numba lacks, for little-endian hosts. ``generators`` makes their code.

No instruction checks a bound: the caller proves that ``position + width <= len(array)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from storage.arrays import Bytes
from storage.machine.instruction import instruction

HAS_CRC32C: Final = os.uname().machine == "x86_64"
"""Each x86-64 level at which kernels are compiled has the crc32 instruction (SSE4.2)."""

# Unaligned loads (array, position).
load_u8: Callable[[Bytes, int], int] = instruction("load_u8")
load_be16: Callable[[Bytes, int], int] = instruction("load_be16")
load_be32: Callable[[Bytes, int], int] = instruction("load_be32")
load_be64: Callable[[Bytes, int], int] = instruction("load_be64")
load_le64: Callable[[Bytes, int], np.uint64] = instruction("load_le64")
# Unaligned stores (array, position, value); high bits that do not fit are cut.
store_u8: Callable[[Bytes, int, int], None] = instruction("store_u8")
store_be16: Callable[[Bytes, int, int], None] = instruction("store_be16")
store_be32: Callable[[Bytes, int, int], None] = instruction("store_be32")
store_be64: Callable[[Bytes, int, int], None] = instruction("store_be64")

copy_bytes: Callable[[Any, int, Any, int, int], None] = instruction("copy_bytes")
prefetch: Callable[[Any, int], None] = instruction("prefetch")
stack_words: Callable[[int], Any] = instruction("stack_words")
popcount: Callable[[Any], int] = instruction("popcount")

# What the CPU says of itself, on x86-64.
cpuid: Callable[[int, int, int], int] = instruction("cpuid")
"""``(leaf, subleaf, register)`` -> the content of EAX, EBX, ECX or EDX, by its number."""
xgetbv: Callable[[], int] = instruction("xgetbv")
"""The low half of XCR0: the registers that the system saves. Call it only if CPUID says OSXSAVE."""

# Words that several threads share.
load_acquire: Callable[[Any, int], np.uint64] = instruction("load_acquire")
store_release: Callable[[Any, int, np.uint64], None] = instruction("store_release")
compare_and_swap: Callable[[Any, int, np.uint64, np.uint64], bool] = instruction("compare_and_swap")
raise_to: Callable[[Any, int, np.uint64], None] = instruction("raise_to")

# Instructions of SSE4.2: call them only if HAS_CRC32C.
crc32c_u64: Callable[[np.uint64, np.uint64], np.uint64] = instruction("crc32c_u64")
crc32c_u8: Callable[[np.uint64, np.uint64], np.uint64] = instruction("crc32c_u8")
