"""The check of some log dirs: partition after partition, the files of one side by side."""

from __future__ import annotations

from collections.abc import Sequence

from cleaner.engine.checking.checked import Checked, CheckRequest
from cleaner.engine.means import Means
from storage.log_dir import LogDir


def check_log_dirs(log_dirs: Sequence[LogDir], request: CheckRequest, means: Means) -> Checked:
    """Check log dirs. Files that a broker changes meanwhile are looked at again.

    Args:
        log_dirs: they belong to one broker.
        request: what is checked.
        means: listener (progress), clock, the rate (``log.cleaner.io.max.bytes.per.second``), the wish to stop.

    Raises: Stopped.
    """
    raise NotImplementedError((log_dirs, request, means))
