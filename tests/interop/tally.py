"""What was compared with real Kafka; for the test summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Tally:
    """What was compared with real Kafka in this process; for the test summary."""

    jvm_starts: int = 0
    logs: int = 0
    records: int = 0
    rounds: int = 0
    """Of both cleaners on copies of the same log."""
    compared: int = 0
    """Pairs of results."""
    batches: int = 0
    """In them, on one side."""

    def __str__(self) -> str:
        return (
            f"real Kafka: {self.jvm_starts} JVM starts, {self.logs} logs and {self.records} records read; "
            f"{self.rounds} rounds by both cleaners, {self.batches} batches compared"
        )


TALLY: Final = Tally()
