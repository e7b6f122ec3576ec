"""The numba function of a kernel. Tests call kernels without a signature through it."""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final

import numba
from numba import types

from storage.machine.instruction import Generated
from storage.machine.signatures import Array, Result, Signature

_ARRAY: Final = ["i8*", "i8*", "i64", "i64", "*", "i64", "i64"]
_WIDTHS: Final = {"int64": "i64", "uint64": "i64", "boolean": "i8"}


def jitted(function: FunctionType, signature: Signature | None, *, inline: bool) -> Any:
    """Make the numba function of a kernel, and compile it if it has a signature.

    Give numba its own functions in place of the kernels and instructions that this kernel names.
    """
    names = function.__code__.co_names
    known = {
        name: value.generator() if isinstance(value, Generated) else value
        for name, value in function.__globals__.items()
        if name in names
    }
    known["__name__"] = function.__module__
    own = FunctionType(function.__code__, known, function.__name__)
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": False,
        "forceinline": inline,
        # no reference counts: their atomic updates at each call cost more than the kernels' own work, and a
        # kernel allocates nothing and keeps no array
        "_nrt": False,
        "no_cpython_wrapper": signature is not None,
        "no_cfunc_wrapper": True,
    }
    njit: Any = numba.njit
    signatures = [_numba_signature(signature)] if signature else []
    return njit(*signatures, **options)(own)


def optimizable(entry: Any, signature: Signature) -> tuple[str, bytes]:
    """Return the symbol of an entry point that ``jitted`` made, and its LLVM module as bitcode.

    Raises:
        RuntimeError: this version of numba passes arguments in another way than ``storage.machine.entry``.
    """
    (result,) = entry.overloads.values()
    passed = result.target_context.call_conv.get_function_type(result.signature.return_type, result.signature.args)
    if not _is_as_entry_calls([str(argument) for argument in passed.args[2:]], signature):
        raise RuntimeError(f"numba {numba.__version__} calls kernels by {passed}; pin numba to an older version")
    return result.fndesc.llvm_func_name, result.library._final_module.as_bitcode()


def _numba_signature(signature: Signature) -> Any:
    result: Any = getattr(types, signature.result.scalar)
    if signature.result.is_tuple:
        result = types.UniTuple(result, signature.result.length)  # type: ignore[no-untyped-call]
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
