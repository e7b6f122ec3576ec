"""Supervisor: what the worker needs of the daemon around it."""

from __future__ import annotations

from typing import Protocol


class Supervisor(Protocol):
    """Hears how the worker is, and says when it is to end."""

    def alive(self) -> None:
        """A sign of life, given often while something goes on: a worker that hangs gives none."""

    def tell(self, text: str) -> None:
        """One line of what is done now."""

    def stopping(self) -> bool:
        """Whether the worker is to end."""
        ...

    def reloading(self) -> None:
        """The configuration is being read again."""

    def reloaded(self) -> None:
        """It was read, or refused."""
