"""One at a time: a method that holds the lock of its log."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Lockable(Protocol):
    """An object with a lock."""

    _lock: RLock


Owner = TypeVar("Owner", bound=Lockable)
P = ParamSpec("P")
R = TypeVar("R")


def locked(method: Callable[Concatenate[Owner, P], R]) -> Callable[Concatenate[Owner, P], R]:
    """Return the method, made to hold ``_lock`` of its object for as long as it runs."""

    @wraps(method)
    def holding(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return holding
