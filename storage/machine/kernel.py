"""The ``kernel`` decorator: functions that run as machine code, hold no GIL and check no bounds.

numba compiles an entry point at the first call of the first run, and ``cache`` keeps its machine code. Later runs load
that with LLVM alone, in milliseconds; to import numba takes half a second.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from storage.machine import cache
from storage.machine.entry import Entry
from storage.machine.instruction import Generated
from storage.machine.machine_code import MachineCode
from storage.machine.signatures import Signature

Function = TypeVar("Function", bound=Callable[..., Any])

_compiling: Final = threading.RLock()


class Kernel(Generated):
    """A decorated function: it calls the machine code of an entry point, and other kernels name it as their callee."""

    def __init__(self, function: FunctionType, signature: Signature | None, *, inline: bool) -> None:
        functools.update_wrapper(self, function)
        self.function, self.signature, self.inline = function, signature, inline
        self._entry: Entry | None = None
        self._jitted: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel. If it has no signature, as in tests, numba compiles it for the types of the arguments."""
        if self.signature is None:
            return self.generator()(*arguments)
        if self._entry is None:
            self._entry = Entry(self.machine_code(), self.signature)
        return self._entry(*arguments)

    def generator(self) -> Any:
        """Return the numba function of this kernel, which holds those of all kernels that it calls."""
        if self._jitted is None:
            self._jitted = _compiler().jitted(self.function, self.signature, inline=self.inline)
        return self._jitted

    def machine_code(self) -> MachineCode:
        """Return the machine code of an entry point: from the cache, or compiled now and put there."""
        with _compiling:
            directory = cache.directory()
            file = directory / f"{self.function.__module__}.{self.function.__name__}" if directory else None
            code = MachineCode.read(file) if file else None
            if code is None:
                code = _compiler().machine_code(self.generator(), self.signature)
                if file:
                    code.write(file)
            return code


def kernel(signature: Signature | None = None, *, inline: bool = False) -> Callable[[Function], Function]:
    """Compile a function to machine code that holds no GIL. The function must check every bound itself.

    Args:
        signature: the types of an entry point. A function without one is compiled as a part of its callers.
        inline: put the code into each caller; for functions that run once or more a record.
    """

    def decorate(function: Function) -> Function:
        return cast("Function", Kernel(cast("FunctionType", function), signature, inline=inline))

    return decorate


def _compiler() -> Any:
    from storage.machine import compiler  # noqa: PLC0415  (imports numba)

    return compiler
