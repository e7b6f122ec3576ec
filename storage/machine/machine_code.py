"""Machine code of one entry point: an ELF object, kept in a file, and loaded by LLVM."""

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
    """What numba compiled. It refers to nothing but itself and libc."""

    symbol: str
    """Of the entry point."""
    elf: bytes

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Read a file of the cache; return None unless it is this user's, and whole."""
        with suppress(OSError, ValueError):
            with _directory_of(file) as directory, directory.open_to_read(file.name) as opened:
                digest, symbol, elf = opened.read().split(b"\n", 2)
            if digest.decode() == _digest(symbol, elf):
                return cls(symbol.decode(), elf)
        return None

    def write(self, file: Path) -> None:
        """Into the cache, all or nothing; where that cannot be, the next run compiles again."""
        symbol = self.symbol.encode()
        with suppress(OSError), _directory_of(file) as directory:
            directory.write(file.name, [b"\n".join([_digest(symbol, self.elf).encode(), symbol, self.elf])])

    def load(self) -> tuple[int, Any]:
        """Address of the entry point, and what must be kept for as long as it is called."""
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(self.elf))
        engine.finalize_object()
        return engine.get_function_address(self.symbol), engine


def _directory_of(file: Path) -> PrivateDirectory:
    """Open the directory of a file anew: it may be another's by now. Raises: OSError."""
    return PrivateDirectory.open(file.parent.parent, file.parent.name)


def _machine() -> Any:
    """Each engine takes possession of its own."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(jit=True)


def _digest(symbol: bytes, elf: bytes) -> str:
    return hashlib.sha256(symbol + elf).hexdigest()
