"""What systemd's journal wants of a line on stderr: its priority in front, as ``<4>``; sd-daemon(3).

Imports nothing of ours, since the command line asks it before anything is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

ERROR: Final = 3
WARNING: Final = 4
INFO: Final = 6
DEBUG: Final = 7


def goes_to_journal(environment: Mapping[str, str]) -> bool:
    """Return whether stderr is the journal's stream, as ``JOURNAL_STREAM`` tells: device and inode."""
    stream = environment.get("JOURNAL_STREAM")
    if not stream:
        return False
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or replaced by something without a descriptor
        return False
    return stream == f"{status.st_dev}:{status.st_ino}"


def prefix(priority: int) -> str:
    """Return what goes in front of a line of this priority; nothing if the journal does not read it."""
    return f"<{priority}>" if goes_to_journal(os.environ) else ""
