"""Types of the entry points: numba's for their signatures, numpy's for their annotations.

``BYTES`` takes read-only arrays (a mapping of a file) and writable ones alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import from_dtype, types

from storage.kernels.layout import BATCH, INDEX_STATE, WRITTEN

Bytes: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.uint64]
Integers: TypeAlias = npt.NDArray[np.int64]
Table: TypeAlias = npt.NDArray[np.void]

I64: Final = types.int64
U64: Final = types.uint64
U32: Final = types.uint32
BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
OUTPUT: Final = types.uint8[::1]
WORDS: Final = types.uint64[::1]
WORDS_READ: Final = types.Array(types.uint64, 1, "C", readonly=True)
INTEGERS: Final = types.int64[::1]
BATCHES: Final = from_dtype(BATCH)[::1]
WRITTEN_BATCHES: Final = from_dtype(WRITTEN)[::1]
INDEX: Final = from_dtype(INDEX_STATE)[::1]


_int64: Final[Any] = types.int64
signed: Final[Callable[[np.uint64], int]] = _int64
"""Reads an unsigned word as signed. Of the two mixed numba makes a float: kernels never mix them."""


def integers(count: int, of: Any = I64) -> Any:
    """A result of ``count`` 64-bit integers."""
    return types.UniTuple(of, count)  # type: ignore[no-untyped-call]
