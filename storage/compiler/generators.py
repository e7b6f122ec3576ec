"""The generators of the code behind ``intrinsics``. A process imports them only when it compiles a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils as typed_cgutils
from numba.extending import intrinsic

_cgutils: Final[Any] = typed_cgutils
_types: Final[Any] = types
_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_WORD_BYTES: Final = 8

signed: Final[Any] = types.int64


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _I8.as_pointer()), [position])


def _instruction(typing: Any) -> Callable[..., Any]:
    """Apply numba's ``intrinsic`` to a function that returns a signature and a code generator."""
    made: Callable[..., Any] = intrinsic(typing)
    return made


def _load(width: Any, loaded_as: Any, result: Any, swapped: bool) -> Callable[..., Any]:
    """Return the generator of an unaligned load ``(array, position)`` of one integer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args)
        loaded = builder.load(builder.bitcast(pointer, width.as_pointer()), align=1)
        value = builder.bswap(loaded) if swapped else loaded
        return context.cast(builder, value, loaded_as, signature.return_type)

    def load(_context: Any, array: Any, _position: Any) -> Any:
        return result(array, types.int64), generate

    return _instruction(load)


def _store(width: Any) -> Callable[..., None]:
    """Return the generator of an unaligned big-endian store ``(array, position, value)``; it cuts high bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, position, value = args
        pointer = _pointer(context, builder, signature.args[0], array, position)
        narrow = value if width is _I64 else builder.trunc(value, width)
        swapped = narrow if width is _I8 else builder.bswap(narrow)
        builder.store(swapped, builder.bitcast(pointer, width.as_pointer()), align=1)
        return context.get_dummy_value()

    def store(_context: Any, array: Any, _position: Any, _value: Any) -> Any:
        return types.void(array, types.int64, types.int64), generate

    return _instruction(store)


load_u8 = _load(_I8, types.uint8, types.int64, swapped=False)
load_be16 = _load(_I16, types.int16, types.int64, swapped=True)
load_be32 = _load(_I32, types.int32, types.int64, swapped=True)
load_be64 = _load(_I64, types.int64, types.int64, swapped=True)
load_le64 = _load(_I64, types.uint64, types.uint64, swapped=False)
store_u8 = _store(_I8)
store_be16 = _store(_I16)
store_be32 = _store(_I32)
store_be64 = _store(_I64)


@_instruction
def copy_bytes(_context: Any, target: Any, _to: Any, source: Any, _start: Any, _count: Any) -> Any:
    """Generate ``(target, position, source, start, count)``: copy between two arrays that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], args[0], args[1])
        origin = _pointer(context, builder, signature.args[2], args[2], args[3])
        _cgutils.raw_memcpy(builder, to, origin, args[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@_instruction
def prefetch(_context: Any, array: Any, _index: Any) -> Any:
    """Generate ``(array, index)``: fetch the cache line of that element ahead; this never faults."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        width = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        position = builder.mul(args[1], ir.Constant(_I64, width))
        pointer = _pointer(context, builder, signature.args[0], args[0], position)
        shape = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        instruction = _cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        for_read, keep_in_all_caches, data = (ir.Constant(_I32, value) for value in (0, 3, 1))
        builder.call(instruction, [pointer, for_read, keep_in_all_caches, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _stack_words(_context: Any, count: Any) -> Any:
    """Generate a pointer to ``count`` (a constant) 64-bit words on the calling kernel's stack, not zeroed."""
    words = count.literal_value

    def generate(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        return _cgutils.alloca_once(builder, _I64, size=words)

    return _types.CPointer(types.uint64)(_types.literal(words)), generate


_literal_instruction: Final[Any] = intrinsic(prefer_literal=True)
stack_words = _literal_instruction(_stack_words)


def _word_at(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return a pointer to the 64-bit element ``args[1]`` of the array ``args[0]``."""
    position = builder.mul(args[1], ir.Constant(_I64, _WORD_BYTES))
    return builder.bitcast(_pointer(context, builder, signature.args[0], args[0], position), _I64.as_pointer())


@_instruction
def load_acquire(_context: Any, words: Any, _index: Any) -> Any:
    """Generate ``(words, index)``: load a word, and see all writes of its writer before the ``store_release``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_word_at(context, builder, signature, args), "acquire", _WORD_BYTES)

    return types.uint64(words, types.int64), generate


@_instruction
def store_release(_context: Any, words: Any, _index: Any, _value: Any) -> Any:
    """Generate ``(words, index, value)``: store a word, as the counterpart of ``load_acquire``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _word_at(context, builder, signature, args), "release", _WORD_BYTES)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint64), generate


@_instruction
def compare_and_swap(_context: Any, words: Any, _index: Any, _expected: Any, _value: Any) -> Any:
    """Generate ``(words, index, expected, value)``: replace the word if it is as expected; the result says so."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _word_at(context, builder, signature, args)
        answer = builder.cmpxchg(place, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(answer, 1)

    return types.boolean(words, types.int64, types.uint64, types.uint64), generate


@_instruction
def raise_to(_context: Any, words: Any, _index: Any, _value: Any) -> Any:
    """Generate ``(words, index, value)``: raise the word to the value if it is less, in one step."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.atomic_rmw("umax", _word_at(context, builder, signature, args), args[2], "monotonic")
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint64), generate


@_instruction
def popcount(_context: Any, _word: Any) -> Any:
    """Generate ``(word)``: count the bits set in it."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


def _crc32c(width: Any, name: str) -> Any:
    """Return the generator of the crc32 instruction of SSE4.2."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        register = _I64 if width is _I64 else _I32
        instruction = _cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(register, [register, width]), f"llvm.x86.sse42.crc32.{name}"
        )
        crc, data = args
        if width is _I64:
            return builder.call(instruction, [crc, data])
        narrow = builder.call(instruction, [builder.trunc(crc, _I32), builder.trunc(data, width)])
        return builder.zext(narrow, _I64)

    return generate


@_instruction
def crc32c_u64(_context: Any, _crc: Any, _data: Any) -> Any:
    """Generate ``(crc, data)``: feed 8 bytes. The CPU must have it (``HAS_CRC32C``)."""
    return types.uint64(types.uint64, types.uint64), _crc32c(_I64, "64.64")


@_instruction
def crc32c_u8(_context: Any, _crc: Any, _data: Any) -> Any:
    """Generate ``(crc, data)``: feed the low byte. The CPU must have it (``HAS_CRC32C``)."""
    return types.uint64(types.uint64, types.uint64), _crc32c(_I8, "32.8")


@_instruction
def cpuid(_context: Any, _leaf: Any, _subleaf: Any, _register: Any) -> Any:
    """Generate ``(leaf, subleaf, register)``: what CPUID puts into EAX, EBX, ECX or EDX, by its number."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        registers = ir.LiteralStructType([_I32] * 4)
        function = ir.FunctionType(registers, [_I32, _I32])
        asked = [builder.trunc(arg, _I32) for arg in args[:2]]
        answer = builder.asm(function, "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}", asked, side_effect=True)
        values = [builder.zext(builder.extract_value(answer, index), _I64) for index in range(4)]
        chosen = values[0]
        for index, value in enumerate(values):
            chosen = builder.select(builder.icmp_unsigned("==", args[2], ir.Constant(_I64, index)), value, chosen)
        return chosen

    return types.int64(types.int64, types.int64, types.int64), generate


@_instruction
def xgetbv(_context: Any) -> Any:
    """Generate ``()``: the low half of XCR0."""

    def generate(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        function = ir.FunctionType(ir.LiteralStructType([_I32] * 2), [_I32])
        answer = builder.asm(function, "xgetbv", "={ax},={dx},{cx}", [ir.Constant(_I32, 0)], side_effect=True)
        return builder.zext(builder.extract_value(answer, 0), _I64)

    return types.int64(), generate
