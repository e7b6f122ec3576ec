"""Stand-ins for the instructions that numba lacks.

A kernel names the stand-ins; their generators are imported when the kernel is compiled.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_GENERATORS: Final = "storage.compiler.generators"


class Generated:
    """A stand-in, in the module of a kernel, for a function that numba compiles instead."""

    def generator(self) -> Any:
        """Return the function that numba compiles in place of this one. Imports numba."""
        raise NotImplementedError


class Instruction(Generated):
    """A stand-in for the generator of the same name."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *_arguments: object) -> Any:
        """Refuse the call: Python has no machine instructions. Raises: TypeError."""
        raise TypeError(f"{self._name} can be called from kernels only")

    def generator(self) -> Any:
        """Return the generator of that name, once it is imported."""
        return getattr(importlib.import_module(self._module), self._name)


def instruction(name: str, module: str = _GENERATORS) -> Any:
    """Return the stand-in for the generator of this name."""
    return Instruction(module, name)
