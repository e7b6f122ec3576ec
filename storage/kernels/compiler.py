"""Kernels compiled by numba: the only module that imports it, and only where a kernel is not in the cache."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any, Final

import numba
from numba import types

from storage.kernels.instruction import Instruction
from storage.kernels.kernel import Kernel
from storage.kernels.machine_code import MachineCode
from storage.kernels.signatures import Array, Result, Signature

_ARRAY: Final = ["i8*", "i8*", "i64", "i64", "*", "i64", "i64"]
_WIDTHS: Final = {"int64": "i64", "uint64": "i64", "boolean": "i8"}


@cache
def jitted(kernel: Kernel) -> Any:
    """The kernel as numba knows it, and so all that it calls."""
    names = kernel.function.__code__.co_names
    known = {name: _known(value) for name, value in kernel.function.__globals__.items() if name in names}
    known["__name__"] = kernel.function.__module__
    function = FunctionType(kernel.function.__code__, known, kernel.function.__name__)
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": False,
        "forceinline": kernel.inline,
        # no reference counts: their atomic updates at each call cost more than the kernels' own work, and a
        # kernel allocates nothing and keeps no array
        "_nrt": False,
        "no_cpython_wrapper": kernel.signature is not None,
        "no_cfunc_wrapper": True,
    }
    njit: Any = numba.njit
    signatures = [_numba_signature(kernel.signature)] if kernel.signature else []
    return njit(*signatures, **options)(function)


def compiled(kernel: Kernel) -> MachineCode:
    """An entry point's machine code.

    Raises:
        RuntimeError: this numba passes arguments in another way than ``entry`` does.
    """
    assert kernel.signature, kernel
    (result,) = jitted(kernel).overloads.values()
    passed = result.target_context.call_conv.get_function_type(result.signature.return_type, result.signature.args)
    if not _is_as_entry_calls([str(argument) for argument in passed.args[2:]], kernel.signature):
        raise RuntimeError(f"numba {numba.__version__} calls kernels by {passed}; pin numba to an older version")
    _, _, (elf, _) = result.library.serialize_using_object_code()
    return MachineCode(result.fndesc.llvm_func_name, elf)


def _known(value: Any) -> Any:
    if isinstance(value, Kernel):
        return jitted(value)
    return value.generator() if isinstance(value, Instruction) else value


def _numba_signature(signature: Signature) -> Any:
    result: Any = getattr(types, signature.result.scalar)
    if signature.result.is_tuple:
        result = types.UniTuple(result, signature.result.count)  # type: ignore[no-untyped-call]
    return result(*map(_numba_type, signature.parameters))


def _numba_type(parameter: Array | Result) -> Any:
    if isinstance(parameter, Result):
        return getattr(types, parameter.scalar)
    return types.Array(numba.from_dtype(parameter.dtype), 1, "C", readonly=parameter.is_readonly)


def _is_as_entry_calls(passed: list[str], signature: Signature) -> bool:
    wanted: list[str] = []
    for parameter in signature.parameters:
        wanted += _ARRAY if isinstance(parameter, Array) else [_WIDTHS[parameter.scalar]]
    return len(passed) == len(wanted) and all(
        got.endswith(want) if want == "*" else got == want for got, want in zip(passed, wanted, strict=True)
    )
