"""What a step of a life is, and what Kafka says of a log: values that the drawing and both sides share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a log.

    Args:
        kind: the word of ``LogLife.java``.
        options: its options; ``data`` is bytes.
        note: what it is meant to try, for whoever reads a difference.
    """

    kind: str
    options: Options = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        said = {
            name: f"<{len(value)} bytes>" if isinstance(value, bytes) else value for name, value in self.options.items()
        }
        words = " ".join(f"{name}={value}" for name, value in said.items() if name != "config")
        return f"{self.kind} {words}" + (f"  # {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Known:
    """A producer that a log remembers; batches are last sequence, last offset, offset delta, timestamp."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int
    open_txn_first_offset: int | None
    batches: tuple[tuple[int, int, int, int], ...]

    @property
    def next_sequence(self) -> int:
        """The sequence that its next batch begins with."""
        return (self.batches[-1][0] + 1) % (1 << 31) if self.batches else 0


@dataclass(frozen=True, slots=True)
class State:
    """What a log says of itself after a step."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    segments: tuple[tuple[int, int], ...] = ((0, 0),)
    epochs: tuple[tuple[int, int], ...] = ()
    producers: tuple[Known, ...] = ()

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> State:
        """Read what ``LogLife.java`` prints."""
        producers = tuple(
            Known(**{**known, "batches": tuple(map(tuple, known["batches"]))}) for known in line["producers"]
        )
        lists = {name: tuple(map(tuple, line[name])) for name in ("segments", "epochs")}
        return cls(**{**line, **lists, "producers": producers})

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch; 0 without one."""
        return self.epochs[-1][0] if self.epochs else 0

    def producer(self, producer_id: int) -> Known | None:
        """Find a producer that the log remembers."""
        return next((known for known in self.producers if known.producer_id == producer_id), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a side says to a step: a result, or the name of Kafka's exception; then its state.

    ``state`` has only what the side can say of itself; ``message`` is for people. ``is_refusal`` is whether ours is an
    error that a user may see, and no fault of the program.
    """

    result: Mapping[str, Any] | None
    error: str | None = None
    message: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    is_refusal: bool = False
