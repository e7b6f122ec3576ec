"""The machine's clock."""

from __future__ import annotations

import time

from cleaner.engine.clock import SystemClock


def test_it_sleeps_as_long_as_it_is_asked_to() -> None:
    begun = time.monotonic()
    SystemClock().sleep(0.05)
    assert time.monotonic() - begun >= 0.05
