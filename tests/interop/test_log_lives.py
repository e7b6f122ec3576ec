"""Random lives of a log, as Kafka's ``UnifiedLog`` and as our ``Log`` live it: answers, errors and files are equal.

``LOGCLEANER_LIVES=500`` lives more of them, ``LOGCLEANER_FIRST_LIFE=1000`` others. A life that differs is told by its
shortest part that still does; ``python -m tests.interop.lives SEED`` tells the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.lives.kafka_side import KafkaLives
from tests.interop.lives.life import Life
from tests.interop.lives.living import live, shrunk

pytestmark = pytest.mark.kafka

LIVES_IN_CI: Final = 80
LIVES: Final = int(os.environ.get("LOGCLEANER_LIVES", str(LIVES_IN_CI)))
FIRST: Final = int(os.environ.get("LOGCLEANER_FIRST_LIFE", "0"))
SEEN: Final[Counter[str]] = Counter()
"""The steps of all lives by kind, and what Kafka refused."""
STEPS_WANTED: Final = frozenset({"open", "append", "follow", "roll", "flush", "lookup", "increment", "close"})
REFUSALS_WANTED: Final = frozenset(
    {
        "append: CorruptRecordException",
        "append: InvalidProducerEpochException",
        "append: InvalidRecordException",
        "append: InvalidTimestampException",
        "append: InvalidTxnStateException",
        "append: OutOfOrderSequenceException",
        "append: RecordBatchTooLargeException",
        "append: RecordTooLargeException",
        "follow: OffsetsOutOfOrderException",
        "follow: UnexpectedAppendOffsetException",
        "increment: OffsetOutOfRangeException",
    }
)


@pytest.fixture(scope="module")
def jvm(kafka: str) -> Iterator[KafkaLives]:
    """One JVM for all lives."""
    with KafkaLives(kafka) as running:
        yield running


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LIVES))
def test_life_is_equal_at_each_step(jvm: KafkaLives, tmp_path: Path, seed: int) -> None:
    lived = live(jvm, seed, tmp_path)
    SEEN.update(lived.seen)
    if lived.differences:
        pytest.fail(shrunk(jvm, lived, tmp_path).story(Life(seed)), pytrace=False)
    assert lived.is_equal


@pytest.mark.parametrize("seed", [FIRST])
def test_everything_occurred(seed: int) -> None:
    if SEEN["open"] < LIVES:
        pytest.skip(f"only some of the lives from {seed} on were lived")
    assert STEPS_WANTED - SEEN.keys() == set()
    assert REFUSALS_WANTED - SEEN.keys() == set()
