"""Priorities for systemd's journal, which reads them as a prefix such as ``<4>`` of a line on stderr.

This module imports nothing of logcleaner, because the command line calls it before it loads anything else.
Source: sd-daemon(3).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import IntEnum


class Level(IntEnum):
    """The levels of log lines, with the priorities that systemd's journal gives them."""

    ERROR = 3
    WARNING = 4
    INFO = 6
    DEBUG = 7


def goes_to_journal(environment: Mapping[str, str]) -> bool:
    """Return whether stderr is the journal's stream: ``JOURNAL_STREAM`` holds its device and inode."""
    stream = environment.get("JOURNAL_STREAM")
    if not stream:
        return False
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or replaced by something without a descriptor
        return False
    return stream == f"{status.st_dev}:{status.st_ino}"


def prefix(level: Level) -> str:
    """Return the prefix for a line of this level; an empty text if the journal does not read stderr."""
    return f"<{level:d}>" if goes_to_journal(os.environ) else ""
