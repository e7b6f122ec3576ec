from __future__ import annotations

import threading
import time

import pytest

from cleaner.engine.compaction.crew import Crew


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_with_their_items_in_order(threads):
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    with Crew(threads) as crew:
        assert list(crew.in_order(work, range(40))) == [(n, n * n) for n in range(40)]


def test_items_are_made_only_a_few_ahead():
    made = []

    def items():
        for n in range(100):
            made.append(n)
            yield n

    with Crew(2) as crew:
        results = crew.in_order(lambda item: item, items())
        next(results)
        assert len(made) < 10
        results.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_failure_in_order_is_raised_once_nothing_is_worked_on_any_more(threads):
    working = []

    def work(item: int) -> None:
        working.append(item)
        time.sleep(0.03 if item == 3 else 0.01)
        working.remove(item)
        if item >= 3:
            raise ValueError(item)

    with Crew(threads) as crew, pytest.raises(ValueError, match="3"):
        for _ in crew.in_order(work, range(10)):
            pass
    assert not working


def test_each_thread_has_a_number_and_an_arena_of_its_own():
    both, held = threading.Barrier(2), []

    def work(_: int) -> None:
        with crew.hand() as (number, arena):
            held.append((number, id(arena)))
            both.wait(120)

    with Crew(2) as crew:
        list(crew.in_order(work, range(2)))
    assert {number for number, _ in held} == {0, 1}
    assert len(set(held)) == 2


def test_the_calling_thread_is_one_of_them():
    both, workers = threading.Barrier(2), set()

    def work(item: int) -> None:
        workers.add(threading.get_ident())
        if item < 2:
            both.wait(120)

    with Crew(2) as crew:
        list(crew.in_order(work, range(20)))
    assert len(workers) == 2
    assert threading.get_ident() in workers


def test_an_interrupt_of_the_caller_is_raised_at_once():
    caller = threading.get_ident()

    def work(_: int) -> None:
        if threading.get_ident() == caller:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with Crew(2) as crew, pytest.raises(KeyboardInterrupt):
        for _ in crew.in_order(work, range(100)):
            pass
