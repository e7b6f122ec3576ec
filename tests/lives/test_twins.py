"""Each broken twin of the program breaks a law in its life, which the program itself lives to the end.

The lives are short and were written for the twins; ``python -m tests.lives --twins --lives 200`` tells the first drawn
life that catches each.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.crash.conftest import MEMORY
from tests.lives.life import LifeStory, drawn
from tests.lives.living import lived
from tests.lives.twins import TWINS

CAUGHT: Final = Path(__file__).parent / "caught"


@pytest.mark.parametrize("name", TWINS)
def test_twin_breaks_a_law_and_the_program_none(name: str, tmp_path: Path) -> None:
    room = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    story = LifeStory.from_json((CAUGHT / f"{name.replace(' ', '-')}.json").read_text())
    assert lived(story, room, TWINS[name]).law
    verdict = lived(story, room)
    assert not verdict.broken, str(verdict)


@pytest.mark.parametrize(("name", "seed"), [("failed restores hold nothing", 16), ("younger segments go first", 13)])
def test_drawn_life_reaches_the_middle_of_a_restore_and_of_a_deletion(name: str, seed: int, tmp_path: Path) -> None:
    """If other draws come: ``python -m tests.lives --twins NAME`` tells the first seed that catches a twin."""
    room = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    assert lived(drawn(seed), room, TWINS[name]).law
