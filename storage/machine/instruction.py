"""Names of what kernels use and numba knows nothing of, without numba: the code generators are imported to compile."""

from __future__ import annotations

import importlib
from typing import Any, Final

_GENERATORS: Final = "storage.machine.generators"


class Generated:
    """Stands in a kernel's module for what numba compiles in its place."""

    def generator(self) -> Any:
        """What numba compiles the call with. Imports numba."""
        raise NotImplementedError


class Instruction(Generated):
    """Stands for a generator of the same name."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *_arguments: object) -> Any:
        """Refuse: Python has no machine instructions."""
        raise TypeError(f"{self._name} can be called from kernels only")

    def generator(self) -> Any:
        """The function of that name."""
        return getattr(importlib.import_module(self._module), self._name)


def instruction(name: str, module: str = _GENERATORS) -> Any:
    """The stand-in for the generator of this name."""
    return Instruction(module, name)
