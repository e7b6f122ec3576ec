"""Lives many lives and tells the shortest story of each kind of difference.

``python -m tests.interop.lives FIRST LAST``; ``SEED --steps 1,5,9`` lives these steps of one life again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from tests.interop.kafka_jars import judging_version, kafka_classpath
from tests.interop.lives.kafka_side import KafkaLives
from tests.interop.lives.life import Life
from tests.interop.lives.living import Lived, live, shrunk


def main() -> None:
    """Live what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    parser.add_argument("--steps", help="of one life: numbers, with commas")
    parser.add_argument("--shown", type=int, default=30, help="how many kinds of differences to shrink and show")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as room, KafkaLives(kafka_classpath(judging_version())) as jvm:
        if arguments.steps is not None:
            steps = [int(number) for number in arguments.steps.split(",") if number]
            print(live(jvm, arguments.first, Path(room), steps).story(Life(arguments.first)))
            return
        _many(jvm, Path(room), range(arguments.first, (arguments.last or arguments.first) + 1), arguments.shown)


def _many(jvm: KafkaLives, room: Path, seeds: range, shown: int) -> None:
    kinds: dict[str, list[Lived]] = defaultdict(list)
    seen: Counter[str] = Counter()
    started = time.monotonic()
    for seed in seeds:
        lived = live(jvm, seed, room)
        seen += lived.seen
        if not lived.is_equal:
            kinds[lived.headline].append(lived)
    different = sum(map(len, kinds.values()))
    print(f"{len(seeds)} lives in {time.monotonic() - started:.0f} s: {len(seeds) - different} equal, {different} not")
    print("seen:", dict(seen.most_common()))
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    for headline, lives in ordered:
        print(f"{len(lives):4} {headline}  seeds {[lived.seed for lived in lives][:8]}")
    for headline, lives in ordered[:shown]:
        shortest = min(lives, key=lambda lived: len(lived.done))
        print(f"\n=== {len(lives)} x {headline}")
        print(shrunk(jvm, shortest, room).story(Life(shortest.seed)))


if __name__ == "__main__":
    main()
