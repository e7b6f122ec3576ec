"""The machine code of one entry point: an ELF object that a file keeps and LLVM loads."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import llvmlite.binding as llvm

from storage.private_directory import PrivateDirectory


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The machine code of an entry point. It refers to nothing but itself and libc."""

    symbol: str
    """The name of the entry point in the object."""
    elf: bytes

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Read a file of the cache. Return None unless the file belongs to this user and is whole."""
        with suppress(OSError, ValueError):
            with _directory_of(file) as directory, directory.open_to_read(file.name) as opened:
                digest, symbol, elf = opened.read().split(b"\n", 2)
            if digest.decode() == _digest(symbol, elf):
                return cls(symbol.decode(), elf)
        return None

    def write(self, file: Path) -> None:
        """Write the code into the cache, all or nothing. If that fails, the next run compiles again."""
        symbol = self.symbol.encode()
        with suppress(OSError), _directory_of(file) as directory:
            directory.write(file.name, [b"\n".join([_digest(symbol, self.elf).encode(), symbol, self.elf])])

    def load(self) -> tuple[int, Any]:
        """Load the code. Return the address of the entry point, and the engine, which the caller must keep."""
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(self.elf))
        engine.finalize_object()
        return engine.get_function_address(self.symbol), engine


def _directory_of(file: Path) -> PrivateDirectory:
    """Open the directory of a file anew, since it may belong to another user by now. Raises: OSError."""
    return PrivateDirectory.open(file.parent.parent, file.parent.name)


def _machine() -> Any:
    """Make a target machine for this CPU; each engine takes possession of one."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(jit=True)


def _digest(symbol: bytes, elf: bytes) -> str:
    return hashlib.sha256(symbol + elf).hexdigest()
