"""The object file of all kernels for one CPU level: ``python -m storage.compiler.level LEVEL FILE BUILD_ID``.

A process compiles one level: numba reads the variables of ``environment`` when it is imported. The object is the same
on any machine: numba optimises for the level that is named there, not for the CPU it runs on.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm

from storage.compiler.build import environment, levels
from storage.machine.kernel import Kernel
from storage.machine.library import BUILD_ID_SYMBOL, CPU_LEVEL_SYMBOL

_ROOT: Final = Path(__file__).parents[2]
_ROOMS: Final = ("storage/kernels", "storage/codecs", "storage/printing")


def entry_points(level: str) -> list[Kernel]:
    """Return the kernels that the library of a level exports, in the order of their names."""
    baseline, *others = levels()
    found = {kernel.symbol: kernel for kernel in _kernels() if kernel.signature}
    if others and level == baseline:
        return [found[CPU_LEVEL_SYMBOL]]
    return [found[symbol] for symbol in sorted(found) if symbol != CPU_LEVEL_SYMBOL]


def _kernels() -> Iterator[Kernel]:
    for room in _ROOMS:
        for path in sorted((_ROOT / room).glob("*.py")):
            if "@kernel(" in path.read_text("utf-8"):
                module = importlib.import_module(".".join(path.relative_to(_ROOT).with_suffix("").parts))
                yield from (value for value in vars(module).values() if isinstance(value, Kernel))


def object_file(level: str, build_id: str) -> bytes:
    """Compile all kernels of a level into one position-independent object, which exports the entry points alone."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    whole = llvm.parse_assembly(f'@{BUILD_ID_SYMBOL} = constant [{len(build_id)} x i8] c"{build_id}"')
    whole.triple = llvm.get_default_triple()
    exported = {BUILD_ID_SYMBOL}
    for kernel in entry_points(level):
        whole.link_in(_module_of(kernel))
        exported.add(kernel.symbol)
    _hide_all_but(exported, whole)
    machine = llvm.Target.from_triple(whole.triple).create_target_machine(
        cpu=environment(level)["NUMBA_CPU_NAME"], features="", opt=3, reloc="pic", codemodel="default"
    )
    _remove_unused(whole, machine)
    return bytes(machine.emit_object(whole))


def _module_of(kernel: Kernel) -> Any:
    from storage.compiler.jit import optimized  # noqa: PLC0415  (imports numba, which reads the environment)

    assert kernel.signature
    symbol, bitcode = optimized(kernel.generator(), kernel.signature)
    module = llvm.parse_bitcode(bitcode)
    module.get_function(symbol).name = kernel.symbol
    return module


def _hide_all_but(exported: set[str], module: Any) -> None:
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in exported:
            value.linkage = "internal"


def _remove_unused(module: Any, machine: Any) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


if __name__ == "__main__":
    _level, _file, _build_id = sys.argv[1:]
    Path(_file).write_bytes(object_file(_level, _build_id))
