"""What anybody on the machine may change, and so decide what is deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cleaner.engine.outcome import Listener
from cleaner.events import Event
from storage.directory import world_writable_mode


def tell_world_writable(paths: Iterable[Path], listener: Listener) -> None:
    """One event for each log dir or configuration file that everybody may write to."""
    for path in paths:
        mode = world_writable_mode(path)
        if mode is not None:
            listener.event(Event.WORLD_WRITABLE, path=str(path), mode=f"{mode:04o}")
