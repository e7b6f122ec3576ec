"""Decide what is left to do of the move of a partition into another log dir of its broker."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from storage.names import CLUSTER_METADATA_TOPIC, TopicPartition


class MoveStep(StrEnum):
    """The next step of a move; the steps behind it follow."""

    COPY = "copy"
    """The partition is copied into the other log dir, checked, and gets its name there."""
    RETURN = "return"
    """The directory that an earlier move set aside gets its name back: no log has changed since."""
    SET_ASIDE = "set-aside"
    """The old directory gets the name that a start of Kafka keeps and does not serve."""
    FORGET = "forget"
    """The log dir that had the partition loses its lines of the checkpoints."""
    NOTHING = "nothing"
    """The partition is in the wanted log dir, and nothing is left to do."""


class MoveFacts(NamedTuple):
    """The facts about a partition that is to be moved."""

    topic_partition: TopicPartition
    target: str
    """The log dir that is to have it."""
    holders: tuple[str, ...]
    """The log dirs that have it, under its own name."""
    futures: tuple[str, ...]
    """Directories of it with the suffix ``-future``: a broker is moving it."""
    begun: str | None
    """The log dir out of which a move into the target began, as the target's journal says; None if none did."""
    is_noted: bool
    """Whether that log dir still has a line of the partition in a checkpoint, or holds it."""
    difference: str | None = None
    """Where the logs differ, if the target and one more log dir have it; None if they are equal."""
    obstacle: str | None = None
    """Why the directory cannot be copied as it is; None if it can."""
    aside: str | None = None
    """The directory in the target that an earlier move set aside; None without one, or if a log changed since."""


class DueStep(NamedTuple):
    """The step that is due."""

    step: MoveStep
    source: str | None = None
    """The log dir that has or had the partition; None if nothing is left to do, or if no log dir has it any more."""


class RefusedMove(NamedTuple):
    """The reason for which nothing is done, and the remedy."""

    cause: str
    remedy: str


def move_verdict(facts: MoveFacts) -> DueStep | RefusedMove:
    """Return what is left to do of a move, or why it is refused."""
    others = [path for path in facts.holders if path != facts.target]
    if (refused := _never(facts, others)) is not None:
        return refused
    if not others:
        if facts.target not in facts.holders and facts.aside is not None:
            return DueStep(MoveStep.RETURN)
        is_left = facts.target in facts.holders and facts.is_noted
        return DueStep(MoveStep.FORGET, facts.begun) if is_left else DueStep(MoveStep.NOTHING)
    (source,) = others
    return _beside(facts, source) if facts.target in facts.holders else _alone(facts, source)


def _never(facts: MoveFacts, others: list[str]) -> RefusedMove | None:
    if facts.topic_partition.topic == CLUSTER_METADATA_TOPIC:
        return RefusedMove("the cluster metadata log is never touched", "metadata.log.dir places it")
    if facts.futures:
        cause = f"{facts.futures[0]} says that a broker is moving it"
        return RefusedMove(cause, "start the broker and let it finish, or move that directory away")
    if len(others) > 1:
        return RefusedMove(f"it lies in {' and in '.join(others)}", "move the directory that is not wanted away")
    return None


def _alone(facts: MoveFacts, source: str) -> DueStep | RefusedMove:
    if facts.obstacle is not None:
        return RefusedMove(facts.obstacle, "mend that first")
    return DueStep(MoveStep.COPY if facts.aside is None else MoveStep.RETURN, source)


def _beside(facts: MoveFacts, source: str) -> DueStep | RefusedMove:
    """Judge a partition that lies in the target and in one more log dir."""
    both = f"it lies in {source} and in {facts.target}"
    if source != facts.begun:
        cause = f"{both}, and no move of logcleaner put it there"
        return RefusedMove(cause, "logcleaner diff compares the two; move the one that is not wanted away")
    if facts.difference is not None:
        cause = f"{both}, and {facts.difference}: a broker wrote to one of them"
        return RefusedMove(cause, "logcleaner diff compares the two; move the older one away")
    return DueStep(MoveStep.SET_ASIDE, source)
