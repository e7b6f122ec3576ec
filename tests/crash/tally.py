"""What was tried in this process; for the test summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Tally:
    """Counts of trials."""

    steps: int = 0
    """Of uninterrupted cleans: each is a crash point."""
    errors: int = 0
    kills: int = 0
    power_losses: int = 0
    """Different states of a disk."""
    opened_by_kafka: int = 0
    """Log dirs."""
    records_lost: int = 0


TALLY: Final = Tally()
