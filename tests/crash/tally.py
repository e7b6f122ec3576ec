"""What was tried in this process; for the test summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Tally:
    """Counts of trials."""

    steps: int = 0
    """Of what is done uninterrupted: each is a crash point."""
    errors: int = 0
    kills: int = 0
    power_losses: int = 0
    """Different states of a disk."""
    opened_by_kafka: int = 0
    """Log dirs that a kill or a power loss left."""
    records_lost: int = 0

    def __str__(self) -> str:
        return (
            f"crash points: {self.steps}; stopped by {self.errors} errors, {self.kills} kills, "
            f"{self.power_losses} power losses; Kafka opened {self.opened_by_kafka} log dirs left so; "
            f"records lost: {self.records_lost}"
        )


TALLY: Final = Tally()
