"""Machine instructions that numba lacks, for little-endian hosts. ``generators`` makes their code.

No instruction checks a bound: the caller proves that ``position + width <= len(array)``.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np

from storage.arrays import Bytes
from storage.machine.instruction import instruction


def has_crc32c() -> bool:
    """Return whether this CPU has SSE4.2. LLVM would abort the process while it compiles a missing instruction."""
    return platform.machine() in {"x86_64", "AMD64"} and bool(llvm.get_host_cpu_features().get("sse4.2"))


HAS_CRC32C: Final = has_crc32c()

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

# Words that several threads share.
load_acquire: Callable[[Any, int], np.uint64] = instruction("load_acquire")
store_release: Callable[[Any, int, np.uint64], None] = instruction("store_release")
compare_and_swap: Callable[[Any, int, np.uint64, np.uint64], bool] = instruction("compare_and_swap")
raise_to: Callable[[Any, int, np.uint64], None] = instruction("raise_to")

# Instructions of SSE4.2: call them only if HAS_CRC32C.
crc32c_u64: Callable[[np.uint64, np.uint64], np.uint64] = instruction("crc32c_u64")
crc32c_u8: Callable[[np.uint64, np.uint64], np.uint64] = instruction("crc32c_u8")
