"""Calls of machine code from Python. The type of each argument is checked: machine code would misread a wrong one."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from storage.machine.signatures import Array, Result, Signature

_SCALARS: Final[dict[str, Any]] = {
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "uint32": ctypes.c_uint32,
    "boolean": ctypes.c_bool,
    "void": ctypes.c_void_p,
}
_RANGES: Final = {
    "int64": (-(1 << 63), (1 << 63) - 1), "uint64": (0, (1 << 64) - 1), "uint32": (0, (1 << 32) - 1), "boolean": (0, 1),
}  # fmt: skip
_ARRAY: Final = (
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
)  # fmt: skip
"""The fields by which numba passes an array: owner, parent, items, bytes an item, address, shape, strides."""
_RAISED: Final = -1
_ADDRESSES_MAX: Final = 64

_addresses: Final[dict[int, tuple[weakref.ref[Any], int]]] = {}
"""The addresses of recently passed arrays, by ``id``. numpy takes 2 microseconds to return one."""


class Entry:
    """An entry point at its address, which runs without the GIL."""

    def __init__(self, function: Any, signature: Signature) -> None:
        """Take a C function of a library, which keeps the library loaded."""
        self._result, self._parameters = signature.result, signature.parameters
        taken = (
            width
            for parameter in signature.parameters
            for width in (_ARRAY if isinstance(parameter, Array) else (_SCALARS[parameter.scalar],))
        )
        function.restype, function.argtypes = ctypes.c_int32, (ctypes.c_void_p, ctypes.c_void_p, *taken)
        self._function = function
        self._results = _SCALARS[signature.result.scalar] * max(signature.result.length, 1)

    def __call__(self, *arguments: Any) -> Any:
        """Run the machine code and return its result. Raises: TypeError, OverflowError."""
        results, error = self._results(), ctypes.c_void_p()
        status = self._function(ctypes.addressof(results), ctypes.addressof(error), *self._passed(arguments))
        if status == _RAISED:
            raise RuntimeError("a kernel raised")
        if self._result.is_tuple:
            return tuple(results)
        return results[0] if self._result.length else None

    def bound(self, *arrays: Any) -> Callable[[], int]:
        """Return the call with these arrays, which takes one number and no other argument. The call keeps the arrays.

        It computes the arrays' addresses once, because that would take most of a call of 2 microseconds. Raises:
        TypeError.
        """
        result, error, function = self._results(), ctypes.c_void_p(), self._function
        parameters = [parameter for parameter in self._parameters if isinstance(parameter, Array)]
        items = [item for pair in zip(parameters, arrays, strict=True) for item in _array(*pair)]
        passed = [kind(item) for kind, item in zip(function.argtypes[2:], items, strict=True)]
        at_result = ctypes.c_void_p(ctypes.addressof(result)), ctypes.c_void_p(ctypes.addressof(error))

        def call(_kept: Any = arrays) -> int:
            if function(*at_result, *passed) == _RAISED:
                raise RuntimeError("a kernel raised")
            return int(result[0])

        return call

    def _passed(self, arguments: tuple[Any, ...]) -> Iterator[Any]:
        for parameter, argument in zip(self._parameters, arguments, strict=True):
            if isinstance(parameter, Result):
                yield _scalar(parameter, int(argument))
            else:
                yield from _array(parameter, argument)


def _scalar(parameter: Result, number: int) -> int:
    """Return the number if it fits its type; ctypes would wrap it silently. Raises: OverflowError."""
    low, high = _RANGES[parameter.scalar]
    if not low <= number <= high:
        raise OverflowError(f"{number} is no {parameter.scalar}")
    return number


def _array(parameter: Array, array: Any) -> tuple[None, None, int, int, int, int, int]:
    is_so = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == parameter.dtype
    if not is_so or not array.flags.c_contiguous or not (parameter.is_readonly or array.flags.writeable):
        raise TypeError(f"{parameter} wanted, not {array!r:.100}")
    size, width = array.size, array.itemsize
    return None, None, size, width, _address(array), size, width


def _address(array: Any) -> int:
    known = _addresses.get(id(array))
    if known is not None and known[0]() is array:
        return known[1]
    if len(_addresses) >= _ADDRESSES_MAX:
        _addresses.clear()
    address: int = array.ctypes.data
    _addresses[id(array)] = weakref.ref(array), address
    return address
