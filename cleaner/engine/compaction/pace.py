"""How fast a round goes, and whether it goes on: asked after every slice read and every group written."""

from __future__ import annotations

import math
from typing import Final

from cleaner.engine.means import Means, Stopped

_CHECK_SECONDS: Final = 0.3
"""Kafka's Throttler looks as often."""
_SLEEP_SECONDS_MIN: Final = 0.001
_SLEEP_SECONDS_MAX: Final = 0.5
"""A signal is served within two seconds, whatever the rate."""


class Pace:
    """Tells the progress, keeps to ``log.cleaner.io.max.bytes.per.second``, and ends a round that is to stop.

    Source: Kafka Throttler, LogCleaner: the rate is over bytes read, in both passes, plus bytes written.
    """

    def __init__(self, means: Means) -> None:
        self._means = means
        self._bytes_per_second = means.broker.log_cleaner_io_max_bytes_per_second
        self._since_seconds = means.clock.seconds()
        self._bytes = 0

    def __call__(self, done_bytes: int) -> None:
        """So many bytes were read. Raises: Stopped."""
        self._means.listener.progress(done_bytes)
        self.spend(done_bytes)

    def spend(self, done_bytes: int) -> None:
        """Count bytes read or written, and wait where they were too many for the time. Raises: Stopped."""
        self._bytes += done_bytes
        elapsed = self._means.clock.seconds() - self._since_seconds
        wait_seconds = self._due_seconds() - elapsed
        while wait_seconds > _SLEEP_SECONDS_MIN and not self._means.stopping():
            self._means.clock.sleep(min(wait_seconds, _SLEEP_SECONDS_MAX))
            wait_seconds -= _SLEEP_SECONDS_MAX
        if self._means.stopping():
            raise Stopped
        if elapsed >= _CHECK_SECONDS:
            self._since_seconds, self._bytes = self._means.clock.seconds(), 0

    def _due_seconds(self) -> float:
        """Return how long the bytes should have taken: for ever at a rate of 0, as in Kafka; no time at one below."""
        if self._bytes_per_second == 0:
            return math.inf if self._bytes else 0.0
        return self._bytes / self._bytes_per_second
