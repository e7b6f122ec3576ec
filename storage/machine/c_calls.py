"""Calls of C functions through addresses that are known only at run time; ``c_call_generators`` makes their code.

The address is an argument of the kernel, never a constant in it: compiled kernels are kept from run to run, and every
process loads its libraries at other addresses. A kernel holds no GIL, so a call holds none. Pointers are passed as
integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from storage.arrays import Bytes
from storage.machine.instruction import instruction

_instruction: Final = partial(instruction, module="storage.compiler.c_call_generators")
_CFunction: TypeAlias = Callable[[int, tuple[int, ...]], int]

address: Callable[[Bytes, int], int] = _instruction("address")
"""``(array, position)``: the address of that byte, valid as long as the caller keeps the array."""

call_lz4: _CFunction = _instruction("call_lz4")
"""``int f(const char *source, char *target, int source_bytes, int target_bytes)``."""

call_zstd: _CFunction = _instruction("call_zstd")
"""``size_t f(context *, void *target, size_t target_bytes, const void *source, size_t source_bytes)``."""

call_zlib: _CFunction = _instruction("call_zlib")
"""``int f(z_streamp, int flush)``."""

call_zlib_reset: _CFunction = _instruction("call_zlib_reset")
"""``int f(z_streamp)``, and of ISA-L ``int f(struct inflate_state *)``."""

call_isal_checksum: _CFunction = _instruction("call_isal_checksum")
"""``uint32_t f(uint32_t checksum, const unsigned char *, uint64_t bytes)``; the answer may come out negative."""

call_zlib_checksum: _CFunction = _instruction("call_zlib_checksum")
"""``uLong f(uLong checksum, const Bytef *, uInt bytes)``."""
