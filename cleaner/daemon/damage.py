"""Damaged partitions, remembered with the state of their files: once these change, another attempt may do well."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cleaner.daemon.due import Work
from cleaner.engine.uncleanable import Uncleanable
from storage.errors import LogCleanerError
from storage.log.listing import list_partition


class Damage:
    """The works that failed because files are damaged."""

    def __init__(self) -> None:
        self._met: dict[Work, Uncleanable] = {}

    def note(self, work: Work, error: str) -> None:
        """Remember a failure with what the files are like now. Raises: UnreadableFile."""
        self._met[work] = Uncleanable.of(list_partition(_directory_of(work)), error)

    def mended(self) -> list[Work]:
        """Return, and forget, the works whose files changed since."""
        mended = []
        for work, damage in self._met.items():
            with suppress(LogCleanerError):  # a partition that is gone has no work either
                if damage.may_retry(list_partition(_directory_of(work))):
                    mended.append(work)
        for work in mended:
            del self._met[work]
        return mended


def _directory_of(work: Work) -> Path:
    log_dir, topic_partition = work[1]
    return Path(log_dir) / str(topic_partition)
