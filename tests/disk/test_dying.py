"""Commands on a dying disk, a sample: each ends with a line and a status, loses nothing, and the next one finishes."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Final

import pytest

from tests.disk.__main__ import in_memory
from tests.disk.acts import ACTS
from tests.disk.dying import FAULTS, moments, try_fault
from tests.disk.trials import case_of
from tests.sampled import day, some

TRIED: Final = 8
OPERATIONS: Final = 80
"""Nearly all acts have as many; a fault that is not reached is no fault."""


@pytest.mark.parametrize(("act", "fault"), some(list(product(ACTS, FAULTS)), TRIED))
def test_a_command_on_a_dying_disk_ends_in_words_and_loses_nothing(act: str, fault: str) -> None:
    dice = Random(f"{day()} {act} {fault}")
    with in_memory() as scratch:
        case = case_of(act, day(), scratch)
        (at,) = moments(fault, OPERATIONS, 1, dice)
        assert try_fault(case, fault, at, scratch, dice) == []
