"""Warnings about log dirs and configuration files to which any user may write: such a user decides what is deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cleaner.engine.listener import Listener
from cleaner.events import Event
from storage.directory import world_writable_mode


def tell_world_writable(paths: Iterable[Path], listener: Listener) -> None:
    """Log an event for each log dir or configuration file to which any user may write."""
    for path in paths:
        mode = world_writable_mode(path)
        if mode is not None:
            listener.event(Event.WORLD_WRITABLE, path=str(path), mode=f"{mode:04o}")
