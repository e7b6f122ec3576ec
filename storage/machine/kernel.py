"""The ``kernel`` decorator: functions that run as machine code, hold no GIL and check no bounds.

``storage.compiler`` compiles all entry points when the package is built. ``library`` loads what it made.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from storage.machine import library
from storage.machine.entry import Entry
from storage.machine.instruction import Generated
from storage.machine.signatures import Signature

Function = TypeVar("Function", bound=Callable[..., Any])

_COMPILER: Final = "storage.compiler.jit"


class Kernel(Generated):
    """A decorated function: it calls the machine code of an entry point, and other kernels name it as their callee."""

    def __init__(self, function: FunctionType, signature: Signature | None, *, inline: bool) -> None:
        functools.update_wrapper(self, function)
        self.function, self.signature, self.inline = function, signature, inline
        self._entry: Entry | None = None
        self._jitted: Any = None

    @property
    def symbol(self) -> str:
        """Return the name of the entry point in the library."""
        return f"{self.function.__module__}.{self.function.__name__}"

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel. If it has no signature, as in tests, numba compiles it for the types of the arguments."""
        if self.signature is None:
            return self.generator()(*arguments)
        if self._entry is None:
            self._entry = Entry(library.entry(self.symbol), self.signature)
        return self._entry(*arguments)

    def bound(self, *arrays: Any) -> Callable[[], int]:
        """Return the call of an entry point with these arrays: ``Entry.bound``."""
        assert self.signature
        return Entry(library.entry(self.symbol), self.signature).bound(*arrays)

    def generator(self) -> Any:
        """Return the numba function of this kernel, which holds those of all kernels that it calls."""
        if self._jitted is None:
            compiler = importlib.import_module(_COMPILER)
            self._jitted = compiler.jitted(self.function, self.signature, inline=self.inline)
        return self._jitted


def kernel(signature: Signature | None = None, *, inline: bool = False) -> Callable[[Function], Function]:
    """Compile a function to machine code that holds no GIL. The function must check every bound itself.

    Args:
        signature: the types of an entry point. A function without one is compiled as a part of its callers.
        inline: put the code into each caller; for functions that run once or more a record.
    """

    def decorate(function: Function) -> Function:
        return cast("Function", Kernel(cast("FunctionType", function), signature, inline=inline))

    return decorate
