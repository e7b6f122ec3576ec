"""``python -m cleaner``, and the start of the command ``logcleaner``."""

from __future__ import annotations

import signal
import sys


def run() -> int:
    """Run the command line, and return its exit status.

    Until the command line is loaded, Ctrl-C ends the process as the system does: without a traceback.
    """
    previous = signal.getsignal(signal.SIGINT)
    if previous is signal.default_int_handler:  # else the shell has SIGINT ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cleaner.cli.main import main  # noqa: PLC0415 - this import is what takes time

    signal.signal(signal.SIGINT, previous)
    return main()


if __name__ == "__main__":
    sys.exit(run())
