"""Kafka opens what a stopped clean, ``free`` or restore left: it finds what we find, and we go on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.crash.conftest import expected, memory, scratch
from tests.crash.promises import Expected
from tests.crash.trials import Thoroughness, try_with_kafka
from tests.interop.referee import Referee

pytestmark = pytest.mark.kafka

__all__ = ["expected", "memory", "scratch"]
"""Fixtures."""
IN_CI: Final = Thoroughness(every=8, states_at_a_step=4, states_max=15)


def test_kafka_finds_what_was_left_and_the_next_finishes(referee: Referee, expected: Expected, scratch: Path) -> None:
    try_with_kafka(referee, expected, scratch, IN_CI)
