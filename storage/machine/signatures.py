"""The types of an entry point: its parameters and its result, without numba.

``BYTES`` takes read-only arrays (a mapping of a file) and writable ones alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from storage.machine.instruction import instruction


class Array(NamedTuple):
    """A contiguous array of one dimension."""

    dtype: np.dtype[Any]
    is_readonly: bool = False


class Signature(NamedTuple):
    """The result and the parameters of an entry point."""

    result: Result
    parameters: tuple[Array | Result, ...]


class Result(NamedTuple):
    """Several values of one scalar type, by numba's name for it. A parameter is one value."""

    scalar: str
    length: int = 1
    is_tuple: bool = False

    def __call__(self, *parameters: Array | Result) -> Signature:
        """Return the signature with this result, in the notation of numba."""
        return Signature(self, parameters)


I64: Final = Result("int64")
U64: Final = Result("uint64")
U32: Final = Result("uint32")
BOOLEAN: Final = Result("boolean")
VOID: Final = Result("void", 0)
BYTES: Final = Array(np.dtype(np.uint8), is_readonly=True)
OUTPUT: Final = Array(np.dtype(np.uint8))
WORDS: Final = Array(np.dtype(np.uint64))
WORDS_READ: Final = Array(np.dtype(np.uint64), is_readonly=True)
HALF_WORDS_READ: Final = Array(np.dtype(np.uint32), is_readonly=True)
INTEGERS: Final = Array(np.dtype(np.int64))


signed: Final[Callable[[np.uint64], int]] = instruction("signed")
"""The conversion of an unsigned word to a signed one.

Kernels never mix the two, since numba would make a float of them.
"""


def integers(count: int, of: Result = I64) -> Result:
    """Return the result of ``count`` 64-bit integers."""
    return Result(of.scalar, count, is_tuple=True)
