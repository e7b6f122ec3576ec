"""Which of many like cases a plain run of the tests tries: some, drawn anew each day; all with ``LOGCLEANER_WHOLE=1``.

``LOGCLEANER_SAMPLE=20780`` draws those of that day again; ``python -m tests.whole`` tries all.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

DAY: Final = "LOGCLEANER_SAMPLE"
"""Names the day, in days since 1970-01-01 UTC: today, unless it is set. The workers of a run have the same one."""
WHOLE: Final = "LOGCLEANER_WHOLE"
_Case = TypeVar("_Case")


def is_whole() -> bool:
    """Return whether all cases are to be tried."""
    return os.environ.get(WHOLE) == "1"


def day() -> int:
    """Return the day that draws the samples."""
    return int(os.environ.setdefault(DAY, str(int(time.time() // 86_400))))


def some(cases: Sequence[_Case], count: int, always: Collection[_Case] = ()) -> list[_Case]:
    """Return the cases to try, in their order.

    Args:
        cases: all there are.
        count: how many a plain run tries on the whole.
        always: cases that are in every sample: each kind of case must be there once.
    """
    if is_whole():
        return list(cases)
    others = [case for case in cases if case not in always]
    drawn = random.Random(day()).sample(others, min(len(others), max(0, count - len(always))))
    return [case for case in cases if case in always or case in drawn]


def one_of_each(cases: Sequence[_Case], kind: Callable[[_Case], object]) -> list[_Case]:
    """Return one case of each kind, drawn by the day; on the whole all cases. They stay in their order."""
    drawn = {kind(case): case for case in shuffled(cases)}
    return [case for case in cases if is_whole() or drawn[kind(case)] == case]


def shuffled(cases: Sequence[_Case]) -> list[_Case]:
    """Return all cases, in the order that the day draws: for a test that ends once it has seen what it must see."""
    return random.Random(day()).sample(cases, len(cases))
