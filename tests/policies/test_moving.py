"""What a move has left to do: stories over drawn facts."""

from __future__ import annotations

import pytest

from policies.moving import DueStep, MoveFacts, MoveStep, RefusedMove, move_verdict
from storage.names import TopicPartition

ORDERS = TopicPartition("orders", 0)


def facts(*holders: str, begun: str | None = None, is_noted: bool = False, **more: str | None) -> MoveFacts:
    return MoveFacts(ORDERS, "/new", holders, (), begun, is_noted, more.get("difference"), more.get("obstacle"))


@pytest.mark.parametrize(
    ("given", "due"),
    [
        (facts("/old"), DueStep(MoveStep.COPY, "/old")),
        (facts("/old", begun="/old", is_noted=True), DueStep(MoveStep.COPY, "/old")),  # moved once, and back
        (facts("/old", "/new", begun="/old", is_noted=True), DueStep(MoveStep.SET_ASIDE, "/old")),
        (facts("/new", begun="/old", is_noted=True), DueStep(MoveStep.FORGET, "/old")),
        (facts("/new", begun="/old"), DueStep(MoveStep.NOTHING)),
        (facts("/new"), DueStep(MoveStep.NOTHING)),
        (facts(begun="/old", is_noted=True), DueStep(MoveStep.NOTHING)),  # both are gone: nothing tells what was lost
    ],
)
def test_a_move_goes_on_where_an_earlier_one_ended(given: MoveFacts, due: DueStep) -> None:
    assert move_verdict(given) == due


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (facts("/old", "/new"), "no move of logcleaner put it there"),
        (facts("/old", "/new", begun="/other"), "no move of logcleaner put it there"),
        (facts("/old", "/new", begun="/old", difference="0.log differs"), "0.log differs: a broker wrote to one"),
        (facts("/old", "/older"), "it lies in /old and in /older"),
        (facts("/old", obstacle="/old/orders-0/x is no plain file"), "is no plain file"),
        (facts("/old")._replace(futures=("/new/orders-0.ab-future",)), "a broker is moving it"),
        (facts("/old")._replace(topic_partition=TopicPartition("__cluster_metadata", 0)), "is never touched"),
    ],
)
def test_what_could_lose_records_is_refused(given: MoveFacts, told: str) -> None:
    refused = move_verdict(given)
    assert isinstance(refused, RefusedMove)
    assert told in refused.cause
    assert refused.remedy
