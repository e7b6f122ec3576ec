"""Pulse: signs of life from the worker to the daemon's main thread, and the order to end in the other direction."""

from __future__ import annotations

from typing import Protocol


class Pulse(Protocol):
    """The part of the daemon that the worker calls from its thread."""

    def alive(self) -> None:
        """Give a sign of life; called often during work, so that a worker that hangs gives none."""

    def tell(self, text: str) -> None:
        """Tell in one line what the worker does now."""

    def stopping(self) -> bool:
        """Return whether the worker must end."""
        ...

    def reloading(self) -> None:
        """Tell that the configuration is being read again."""

    def reloaded(self) -> None:
        """Tell that the configuration was read, or refused."""
