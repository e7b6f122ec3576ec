"""Every event of a round carries its number, so that a journal can be read round by round."""

from __future__ import annotations

from tests.cleaner.daemon.test_worker import World, in_this_process, log_dir  # noqa: F401 - fixtures
from tests.partition_dirs import COMPACT, EXPIRING


def test_rounds_are_numbered_from_one_and_a_tick_without_work_is_none(log_dir):  # noqa: F811
    world = World(log_dir, orders=EXPIRING, state=COMPACT)
    numbers: list[int] = []
    world.teller.begin_round = numbers.append  # type: ignore[method-assign]
    world.after(0).after(0).after(15_000).after(1).after(15_000)
    assert numbers == [1, 2, 3]
