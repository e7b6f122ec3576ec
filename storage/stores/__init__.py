"""Log dirs that lie in a bucket or in HDFS: named by a URL, listed, read in ranges, and written anew.

Nouns:
    StoredPath: a path whose first part is the URL of a bucket or of an HDFS (``paths``).
    Store: what is asked of a place: list, look, read, write (``store``); one for object stores (``objects``), one for
        HDFS (``hdfs``), both opened by ``opening``. Each request goes through ``asking``.
    Catalogue: the names of a store as they were listed, so that nothing is asked twice (``catalogue``).
    StoredFile: one version of one file, read in ranges (``stored_file``).
"""

from __future__ import annotations

from typing import Final


class Ending:
    """The end of the command, as far as requests have to know of it. It lies here because each command loads this."""

    def __init__(self) -> None:
        """Know of no end."""
        self.by = 0
        """The signal that asks the command to end; 0 before one came. A signal handler may set it."""
        self.hanging: set[str] = set()
        """The URLs of stores that left a request without an answer for too long."""


ENDING: Final = Ending()
