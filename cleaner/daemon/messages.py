"""The messages between the daemon and its compacting child.

    daemon -> child   Task: one partition
    child -> daemon   Ready or Unusable, once; ToldEvent and Advanced while it works, then Done or TaskRefused

Values of one program, pickled: both ends run the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cleaner.engine.outcome import Outcome
from policies.config.config_layers import Configured
from policies.plan import PartitionKey, Plan, Request


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Compact one partition, as ``clean --only compaction`` would."""

    partition: PartitionKey
    configured: Configured
    """The configuration as the daemon read it under the lock."""
    request: Request
    threads: int
    lock: int
    """Inherited descriptor of the log dir's ``.lock``."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything is loaded."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """No partition can be compacted, because kernels do not run. The child ends."""

    error: str


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event that the engine told the child."""

    name: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Advanced:
    """The number of further bytes that were dealt with."""

    done_bytes: int


@dataclass(frozen=True, slots=True)
class Done:
    """The task ended; the outcome says how."""

    plan: Plan
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TaskRefused:
    """The task could not be begun."""

    error: str
