"""The level of the psABI that this CPU and this system have. Compiled for every x86-64 CPU.

Source: x86-64 psABI, "Micro-Architecture Levels"; Intel SDM, volume 2, CPUID, and volume 1, 13.2 (XCR0).
"""

from __future__ import annotations

from typing import Final

from storage.machine.intrinsics import cpuid, xgetbv
from storage.machine.kernel import kernel
from storage.machine.signatures import I64

_EBX: Final = 1
_ECX: Final = 2
_EXTENDED: Final = 1 << 31
# Leaf 1, ECX: SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT.
_V2: Final = 1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23
_V2_EXTENDED: Final = 1 << 0  # leaf 0x80000001, ECX: LAHF in 64-bit mode
# Leaf 1, ECX: FMA, MOVBE, OSXSAVE, AVX, F16C.
_V3: Final = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29
_V3_LEAF_7: Final = 1 << 3 | 1 << 5 | 1 << 8  # EBX: BMI1, AVX2, BMI2
_V3_EXTENDED: Final = 1 << 5  # leaf 0x80000001, ECX: LZCNT
_V3_STATE: Final = 1 << 1 | 1 << 2  # XCR0: SSE, AVX
_V4_LEAF_7: Final = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31  # EBX: AVX-512 F, DQ, CD, BW, VL
_V4_STATE: Final = _V3_STATE | 1 << 5 | 1 << 6 | 1 << 7  # XCR0: masks, upper halves, upper registers


@kernel(I64())
def cpu_level() -> int:
    """Return the greatest n such that this machine runs code for ``x86-64-vn``; 1 for the baseline."""
    if cpuid(0, 0, 0) < 7 or cpuid(_EXTENDED, 0, 0) <= _EXTENDED:
        return 1
    basic, extended, leaf_7 = cpuid(1, 0, _ECX), cpuid(_EXTENDED + 1, 0, _ECX), cpuid(7, 0, _EBX)
    if basic & _V2 != _V2 or extended & _V2_EXTENDED != _V2_EXTENDED:
        return 1
    if basic & _V3 != _V3 or extended & _V3_EXTENDED != _V3_EXTENDED or leaf_7 & _V3_LEAF_7 != _V3_LEAF_7:
        return 2
    state = xgetbv()
    if state & _V3_STATE != _V3_STATE:
        return 2
    if leaf_7 & _V4_LEAF_7 != _V4_LEAF_7 or state & _V4_STATE != _V4_STATE:
        return 3
    return 4
