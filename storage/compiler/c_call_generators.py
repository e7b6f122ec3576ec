"""The generators of the code behind ``c_calls``. A process imports them only when it compiles a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils as typed_cgutils
from numba.extending import intrinsic

_cgutils: Final[Any] = typed_cgutils
_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_POINTER: Final[Any] = _I8.as_pointer()
_instruction: Final[Callable[[Any], Any]] = intrinsic


def _passed_as(builder: Any, value: Any, wanted: Any) -> Any:
    """Convert a 64-bit integer to the C type of a parameter."""
    if wanted is _POINTER:
        return builder.inttoptr(value, wanted)
    return value if wanted is _I64 else builder.trunc(value, wanted)


def _c_function(result: Any, parameters: tuple[Any, ...]) -> Callable[[int, tuple[int, ...]], int]:
    """Return the call ``(address, arguments)`` of functions of this C type.

    Pointers are passed as integers. The result is widened to 64 bits.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = builder.inttoptr(args[0], ir.FunctionType(result, parameters).as_pointer())
        given = zip(_cgutils.unpack_tuple(builder, args[1]), signature.args[1], parameters, strict=True)
        passed = [
            _passed_as(builder, context.cast(builder, value, numba_type, types.int64), wanted)
            for value, numba_type, wanted in given
        ]
        answer = builder.call(function, passed)
        return answer if result is _I64 else builder.sext(answer, _I64)

    def call(_context: Any, _address: Any, arguments: Any) -> Any:
        return types.int64(types.int64, arguments), generate

    made: Callable[[int, tuple[int, ...]], int] = _instruction(call)
    return made


@_instruction
def address(_context: Any, array: Any, _position: Any) -> Any:
    """Generate ``(array, position)``: the address of that byte, valid as long as the caller keeps the array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(builder.gep(builder.bitcast(data, _POINTER), [args[1]]), _I64)

    return types.int64(array, types.int64), generate


call_lz4 = _c_function(_I32, (_POINTER, _POINTER, _I32, _I32))
call_zstd = _c_function(_I64, (_POINTER, _POINTER, _I64, _POINTER, _I64))
call_zlib = _c_function(_I32, (_POINTER, _I32))
call_zlib_reset = _c_function(_I32, (_POINTER,))
call_isal_checksum = _c_function(_I32, (_I32, _POINTER, _I64))
call_zlib_checksum = _c_function(_I64, (_I64, _POINTER, _I32))
