"""The heavy form of the crash tests: every step of every scene, each way of stopping, real Kafka on all that was left.

    python -m tests.crash --rounds 3

A round stops each of its scenes before every step by an error and by SIGKILL, and lays down what a power loss may leave
at each step, by dice of its own. The first round takes the scenes of the tests; every round adds compacted logs that
its dice draw. The first broken promise ends it with a traceback. Needs a JDK 17+.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.crash.acts import clean, clean_at_once, free
from tests.crash.conftest import MEMORY
from tests.crash.promises import Expected
from tests.crash.scenes import SCENES, Scene, drawn
from tests.crash.stops import by_error, by_kill, steps_of
from tests.crash.tally import TALLY
from tests.crash.trials import Thoroughness, try_power_losses, try_stops, try_with_kafka
from tests.interop.kafka_jars import judging_version, kafka_classpath
from tests.interop.referee import Referee


def scenes_of(number: int) -> Iterator[tuple[str, Scene]]:
    """With their names."""
    yield from SCENES.items()
    for place, act in enumerate((clean, clean_at_once, free)):
        yield f"drawn {number}.{place}", Scene(act, (drawn(3 * number + place),))


def try_scene(referee: Referee, scene: Scene, directory: Path, thoroughness: Thoroughness) -> None:
    """All of one scene, in an absent directory."""
    expected = Expected.of(scene, directory / "scene")
    TALLY.steps += steps_of(expected, directory / "counted")
    for stop in (by_error, by_kill):
        try_stops(expected, directory / stop.__name__, stop, thoroughness)
    try_power_losses(expected, directory / "powerless", thoroughness)
    try_with_kafka(referee, expected, directory / "kafka", thoroughness)


def main() -> None:
    """Run it and print the counts, scene by scene."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="each with other dice (default: 1)")
    parser.add_argument("--states", type=int, default=12, help="of a power loss at each step (default: 12)")
    options = parser.parse_args()
    start_seconds = time.monotonic()
    with Referee(kafka_classpath(judging_version())) as referee:
        for number in range(options.rounds):
            for name, scene in scenes_of(number):
                with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as directory:
                    thoroughness = Thoroughness(states_at_a_step=options.states, seed=number)
                    try_scene(referee, scene, Path(directory, "trial"), thoroughness)
                print(f"{time.monotonic() - start_seconds:.0f} s, {name}: {TALLY}", flush=True)


if __name__ == "__main__":
    main()
