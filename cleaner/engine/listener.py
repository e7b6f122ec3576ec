"""The listener of a run: it hears log events and progress while the engine works."""

from __future__ import annotations

from typing import Final, Protocol

PASSES: Final = 2
"""A compaction reads all its bytes so often: its clean segments are asked for replaced keys, too."""


class Listener(Protocol):
    """Hears what the engine does while it does it: log events and progress."""

    def event(self, name: str, **fields: object) -> None:
        """Hear of an event; names and fields are listed in ``cleaner.events``."""

    def expect(self, size_bytes: int) -> None:
        """Hear how many more bytes of input compactions are about to deal with, ``PASSES`` times."""

    def progress(self, done_bytes: int) -> None:
        """Hear how many more bytes of the compaction's input were dealt with."""


class Silent:
    """A listener that ignores everything."""

    def event(self, name: str, **fields: object) -> None:
        """Ignore the event."""

    def expect(self, size_bytes: int) -> None:
        """Ignore the total."""

    def progress(self, done_bytes: int) -> None:
        """Ignore the progress."""
