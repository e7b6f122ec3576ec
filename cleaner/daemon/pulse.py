"""Pulse: signs of life from the worker to the daemon's main thread, and from there the wish to end."""

from __future__ import annotations

from typing import Protocol


class Pulse(Protocol):
    """The part of the daemon that the worker calls from its thread."""

    def alive(self) -> None:
        """Give a sign of life, often while something goes on: a worker that hangs gives none."""

    def tell(self, text: str) -> None:
        """Tell in one line what is done now."""

    def stopping(self) -> bool:
        """Return whether the worker is to end."""
        ...

    def reloading(self) -> None:
        """Tell that the configuration is being read again."""

    def reloaded(self) -> None:
        """Tell that it was read, or refused."""
