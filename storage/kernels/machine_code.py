"""Machine code of one entry point: an ELF object, kept in a file, and loaded by LLVM."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import llvmlite.binding as llvm


@dataclass(frozen=True, slots=True)
class MachineCode:
    """What numba compiled. It refers to nothing but itself and libc."""

    symbol: str
    """Of the entry point."""
    elf: bytes

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """From the cache; None where it is not there in full."""
        with suppress(OSError, ValueError):
            digest, symbol, elf = file.read_bytes().split(b"\n", 2)
            if digest.decode() == _digest(symbol, elf):
                return cls(symbol.decode(), elf)
        return None

    def write(self, file: Path) -> None:
        """Into the cache, all or nothing; where that cannot be, the next run compiles again."""
        symbol = self.symbol.encode()
        with suppress(OSError), tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as made:
            made.write(b"\n".join([_digest(symbol, self.elf).encode(), symbol, self.elf]))
            made.close()
            Path(made.name).replace(file)

    def load(self) -> tuple[int, Any]:
        """Address of the entry point, and what must be kept for as long as it is called."""
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(self.elf))
        engine.finalize_object()
        return engine.get_function_address(self.symbol), engine


def _machine() -> Any:
    """Each engine takes possession of its own."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(jit=True)


def _digest(symbol: bytes, elf: bytes) -> str:
    return hashlib.sha256(symbol + elf).hexdigest()
