"""Kernels as LLVM bitcode, for any CPU level: ``python -m storage.compiler.ahead ROOM FILE``.

numba types and lowers each kernel once, and that is most of the work; ``level`` optimises the bitcode for each level.
By itself numba would also optimise each kernel in each of its callers, and make machine code for this process and a
wrapper for Python: four fifths of the time, and nothing of that is needed.

Not chosen: ``numba.pycc``, which makes a Python extension, and is to be removed from numba.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm
from numba.core import codegen
from numba.core.registry import cpu_target

from storage.compiler.jit import optimizable
from storage.machine.kernel import Kernel

_ROOT: Final = Path(__file__).parents[2]
_codegen: Final[Any] = codegen
_cpu_target: Final[Any] = cpu_target


class _Library(_codegen.AOTCodeLibrary):  # type: ignore[misc]
    """The code of one kernel and of the kernels that it calls, as numba made it."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Do nothing: ``level`` optimises, which knows the CPU and has all kernels in one module."""

    def get_pointer_to_function(self, _name: str) -> int:
        """Return 0: no machine code can run here."""
        self._ensure_finalized()
        return 0


class _Generator(_codegen.AOTCPUCodegen):  # type: ignore[misc]
    """A maker of libraries for the plainest CPU of the architecture, which decides only sizes and layouts."""

    _library_class = _Library

    def set_env(self, _name: str, _env: Any) -> None:
        """Do nothing: the variable is for code that runs in this process."""


def only_ahead() -> None:
    """Have numba make, from now on, code for another process."""
    context = _cpu_target.target_context
    context._internal_codegen = _Generator("logcleaner")
    context.create_cpython_wrapper = lambda *_args, **_options: None


def entry_points(room: str) -> list[Kernel]:
    """Return the kernels of one room of ``storage`` that the libraries export, in the order of their names."""
    own = f"storage.{room}."  # a module also has the kernels that it imports
    found = {kernel.symbol: kernel for kernel in _kernels(room) if kernel.signature and kernel.symbol.startswith(own)}
    return [found[symbol] for symbol in sorted(found)]


def _kernels(room: str) -> Iterator[Kernel]:
    for path in sorted((_ROOT / "storage" / room).glob("*.py")):
        if "@kernel(" in path.read_text("utf-8"):
            module = importlib.import_module(".".join(path.relative_to(_ROOT).with_suffix("").parts))
            yield from (value for value in vars(module).values() if isinstance(value, Kernel))


def bitcode(kernels: list[Kernel]) -> bytes:
    """Return one module that exports these kernels, by their symbols, and nothing else. It is not optimised."""
    whole = llvm.parse_assembly("")
    whole.triple = llvm.get_default_triple()
    for kernel in kernels:
        assert kernel.signature
        symbol, made = optimizable(kernel.generator(), kernel.signature)
        module = llvm.parse_bitcode(made)
        module.get_function(symbol).name = kernel.symbol
        whole.link_in(module)
    exported = {kernel.symbol for kernel in kernels}
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and value.name not in exported:
            value.linkage = "internal"
    return bytes(whole.as_bitcode())


if __name__ == "__main__":
    _room, _file = sys.argv[1:]
    only_ahead()
    Path(_file).write_bytes(bitcode(entry_points(_room)))
