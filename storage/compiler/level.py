"""An object file of all kernels for a CPU level: ``python -m storage.compiler.level LEVEL FILE BUILD_ID BITCODE...``.

The object is the same on any machine: LLVM optimises for the named level, not for the CPU on which it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from storage.compiler.build import cpu_name, levels
from storage.machine.library import BUILD_ID_SYMBOL, CPU_LEVEL_SYMBOL


def object_file(level: str, build_id: str, parts: list[bytes]) -> bytes:
    """Compile the modules of ``ahead`` into one position-independent object, which exports the entry points alone.

    With several levels, the object of the lowest one exports only the kernel that tells the level of a CPU.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    whole = llvm.parse_assembly(f'@{BUILD_ID_SYMBOL} = constant [{len(build_id)} x i8] c"{build_id}"')
    whole.triple = llvm.get_default_triple()
    for part in parts:
        whole.link_in(llvm.parse_bitcode(part))
    _hide_kernels_of_others(level, whole)
    machine = llvm.Target.from_triple(whole.triple).create_target_machine(
        cpu=cpu_name(level), features="", opt=3, reloc="pic", codemodel="default"
    )
    how = llvm.create_pipeline_tuning_options(speed_level=3)
    how.loop_vectorization, how.slp_vectorization = True, False  # as numba has it
    builder = llvm.create_pass_builder(machine, how)
    _remove_unused(whole, builder)
    builder.getModulePassManager().run(whole, builder)
    _remove_unused(whole, builder)
    return bytes(machine.emit_object(whole))


def _hide_kernels_of_others(level: str, module: Any) -> None:
    baseline, *others = levels()
    for value in module.functions:
        is_asking = value.name == CPU_LEVEL_SYMBOL
        if others and not value.is_declaration and is_asking != (level == baseline):
            value.linkage = "internal"


def _remove_unused(module: Any, builder: Any) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


if __name__ == "__main__":
    _level, _file, _build_id, *_parts = sys.argv[1:]
    Path(_file).write_bytes(object_file(_level, _build_id, [Path(part).read_bytes() for part in _parts]))
