"""The second reading of the configuration, under the locks: a run ends there if it would let more go than the first."""

from __future__ import annotations

from collections.abc import Callable

from policies.config.configured import Configured
from policies.config.second_reading import lost_protection
from storage.errors import ErrorKind, LogCleanerError
from storage.log_dir import LogDir
from storage.names import TopicPartition


class ProtectionLost(LogCleanerError):
    """A loss of protection between the first reading of the configuration and the second. Nothing was changed."""

    kind = ErrorKind.REFUSED

    losses: tuple[str, ...]

    def __str__(self) -> str:
        first, *others = self.losses
        more = f" (and {len(others)} more)" if others else ""
        return (
            f"the configuration changed before the log dirs were locked, and would let more go: {first}{more}; "
            "nothing was done: look with --dry-run, and run again"
        )


def check_second_reading(asked: Configured, again: Configured, wanted: Callable[[TopicPartition], bool]) -> None:
    """Refuse to go on if the second reading lets more go than the first.

    Args:
        asked: as it was read before the locks.
        again: as it was read under them.
        wanted: predicate; partitions for which it is false are not changed.

    Raises: ProtectionLost, UnreadableFile.
    """
    if asked == again:
        return
    found = {tp.topic for path in again.log_dirs for tp, _ in LogDir(path).partitions() if wanted(tp)}
    if losses := lost_protection(asked, again, sorted(found)):
        raise ProtectionLost(losses)
