"""Every numeric configuration key at the ends of its range: a plan, reports, a dry run and a run of a small log dir.

Nothing may be raised, no number in the JSON document may be beyond int64, and what is done is what exact integers would
do: a limit that is greater than everything in the log dir does what any other such limit does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means
from cleaner.engine.outcome import Outcome
from cleaner.report.cleaning import CleaningReport
from cleaner.report.topics import TopicsReport
from policies.config.config_keys import (
    BROKER_KEYS,
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    TOPIC_KEY,
    TOPIC_KEYS,
    ConfigKey,
    ValueKind,
    ValueUnit,
)
from policies.config.config_layers import ConfigLayers, Configured
from policies.config.config_values import parse_value
from policies.plan import Plan
from storage.errors import InvalidConfigs
from storage.records import Record
from tests.cleaner.report.texts import text_of
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    FakeClock,
    PartitionDir,
    committed,
    configured,
    keyed,
    records_in,
    request,
)
from tests.sampled import some

NUMBERS: Final = (ValueKind.INT, ValueKind.LONG, ValueKind.DOUBLE)
LEAST: Final = -(1 << 63)
LARGE: Final = {ValueUnit.MS: 10**15, ValueUnit.BYTES: 1 << 45, ValueUnit.NONE: 1 << 45}
"""More than anything in the log dir; of an int, a quarter of the greatest."""
NOT_ALIKE: Final = ("delete.retention.ms",)
"""Beyond a certain value no horizon is set; ``test_horizons`` has the rest."""
SHARED: Final = {"log.cleaner.dedupe.buffer.size": (0, 1), "log.cleaner.threads": (INT_MAX,)}
"""What leaves a thread less than its share of memory is refused, as Kafka refuses it."""
SECONDS_MAX: Final = 10**5
"""Of waiting for a rate of next to nothing, after which the run is asked to stop."""


class StoppingClock(FakeClock):
    """Asks the run to stop once it has slept for long."""

    cleaner: Cleaner | None = None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.slept_seconds > SECONDS_MAX and self.cleaner:
            self.cleaner.stop()


def ends(key: ConfigKey) -> Iterator[int | float]:
    """The values next to the ends of the range, and around zero."""
    if key.kind is ValueKind.DOUBLE:
        tried: list[int | float] = [-DOUBLE_MAX, -1.0, 0.0, 5e-324, 0.5, 1.0, DOUBLE_MAX, float("inf")]
    else:
        greatest = INT_MAX if key.kind is ValueKind.INT else LONG_MAX
        tried = [-greatest - 1, -2, -1, 0, 1, greatest - NOW_MS, greatest]
        tried += [round(bound) for bound in (key.low, key.high) if bound is not None]
    for value in dict.fromkeys(tried):
        try:
            parse_value(key, str(value), synonym=None, as_broker=True)
        except ValueError:
            continue
        yield value


KEYS: Final = [key for key in (*TOPIC_KEYS, *BROKER_KEYS) if key.kind in NUMBERS]
CASES: Final = [pytest.param(key, value, id=f"{key.name}={value}") for key in KEYS for value in ends(key)]
CASES_TRIED: Final = 60


@pytest.fixture(scope="module")
def by_large(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[ConfigKey], Path]:
    """A log dir as it is left by a number that is greater than everything in it."""

    @cache
    def left(key: ConfigKey) -> Path:
        log_dir = tmp_path_factory.mktemp("large") / "data"
        cleaned(drawn, log_dir, layers_of(key, large_of(key)))
        return log_dir

    return left


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir of each policy, with tombstones, producers, leftovers, and timestamps at the ends of int64."""
    log_dir = tmp_path_factory.mktemp("drawn") / "data"
    made = []
    for topic in ("compacted", "both", "deleted"):
        directory = PartitionDir(log_dir, f"{topic}-0")
        for place, age_days in enumerate((30, 3, 1, 0)):
            base, at_ms = place * 10, NOW_MS - age_days * DAY_MS
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": base}
            batches = keyed(base, "a=1", "b", f"c{place}=1", timestamp_ms=at_ms), keyed(base + 5, "p=1", **producer)
            directory.segment(base, *batches, mtime_ms=at_ms)
        made.append(directory)
    for name, time_ms in (("future", LONG_MAX), ("past", LEAST + 1), ("none", -1)):
        for topic in ("compacted", "both", "deleted"):
            directory = PartitionDir(log_dir, f"{topic}-{('future', 'past', 'none').index(name) + 1}")
            for base in (0, 10, 20):
                directory.segment(base, keyed(base, "a=1", "b", timestamp_ms=time_ms), mtime_ms=NOW_MS - DAY_MS)
            made.append(directory)
    for path in log_dir.glob("deleted-*"):
        left = path / f"{99:020d}.log.deleted"
        left.write_bytes(b"left")
    return committed(log_dir, *made)


def large_of(key: ConfigKey) -> int:
    return INT_MAX // 4 if key.kind is ValueKind.INT else LARGE[key.unit]


def layers_of(key: ConfigKey, value: int | float) -> ConfigLayers:
    both = {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": str(2 * DAY_MS)}
    deleted = {"cleanup.policy": "delete", "retention.ms": str(2 * DAY_MS), "retention.bytes": "300"}
    return configured(f"{key.name}={value}", compacted=COMPACT, both=both, deleted=deleted)


def a_cleaner(log_dir: Path, layers: ConfigLayers) -> Cleaner:
    clock = StoppingClock()
    clock.cleaner = Cleaner(Configured((log_dir,), layers), Means(clock=clock, threads=2))
    return clock.cleaner


def integers(value: Any) -> Iterator[int]:
    """Every integer in a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from integers(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def told(plan: Plan, outcome: Outcome) -> None:
    for every_segment in (False, True):
        assert text_of(CleaningReport(plan, outcome), every_segment=every_segment)
    for found in (CleaningReport(plan, outcome).document(), TopicsReport(plan).document()):
        assert all(LEAST <= number <= LONG_MAX for number in integers(json.loads(json.dumps(found))))


def contents(log_dir: Path) -> dict[str, bytes]:
    """Every file; lines of a checkpoint are sorted, since partitions are compacted side by side."""
    found = {path: path.read_bytes() for path in sorted(log_dir.rglob("*")) if path.is_file()}
    return {
        str(path.relative_to(log_dir)): b"".join(sorted(data.splitlines())) if path.parent == log_dir else data
        for path, data in found.items()
        if not path.name.startswith(".logcleaner")
    }


def cleaned(drawn: Path, log_dir: Path, layers: ConfigLayers) -> tuple[dict[str, bytes], bool]:
    """Look, tell, run, twice; gives what is left, and whether the run went to its end."""
    shutil.copytree(drawn, log_dir)
    for now_ms in (NOW_MS, NOW_MS + DAY_MS):
        cleaner = a_cleaner(log_dir, layers)
        plan = cleaner.plan(request(now_ms, confirmed=True))
        told(plan, cleaner.would_do(plan))
        before = contents(log_dir)
        rehearsed = cleaner.would_do(plan, exact=True) if not is_endless(layers) else None
        assert contents(log_dir) == before
        done_plan, outcome = cleaner.clean(request(now_ms, confirmed=True))
        told(done_plan, outcome)
        assert not outcome.errors
        assert not [result.error for result in outcome.results.values() if result.error]
        if rehearsed and not outcome.interrupted:
            sizes = [{key: r.compacted_to_bytes for key, r in o.results.items()} for o in (rehearsed, outcome)]
            assert sizes[0] == sizes[1]
        if outcome.interrupted:
            return contents(log_dir), False
    return contents(log_dir), True


def is_endless(layers: ConfigLayers) -> bool:
    """Whether the rate lets nothing be read."""
    return 0 <= layers.broker_policy().log_cleaner_io_max_bytes_per_second < 1


@pytest.mark.parametrize(("key", "value"), some(CASES, CASES_TRIED))
def test_a_number_at_the_end_of_its_range_does_what_exact_integers_do(
    drawn: Path, by_large: Callable[[ConfigKey], Path], tmp_path: Path, key: ConfigKey, value: int | float
) -> None:
    if key.name in SHARED and value in SHARED[key.name]:
        with pytest.raises(InvalidConfigs, match="must be more than 1MiB for each"):
            layers_of(key, value)
        return
    left, is_whole = cleaned(drawn, tmp_path / "data", layers_of(key, value))
    assert is_whole or is_endless(layers_of(key, value))
    if isinstance(value, int) and value > large_of(key):
        if key.name in NOT_ALIKE:
            assert records_of(tmp_path / "data") == records_of(by_large(key))
        else:
            assert left == contents(by_large(key))


def test_as_many_threads_as_an_int_can_say_do_what_one_does(drawn: Path, tmp_path: Path) -> None:
    """The daemon takes ``log.cleaner.threads``, whose only bound is the memory that is said to be there."""
    key, left = TOPIC_KEY["segment.ms"], []
    for threads in (1, INT_MAX):
        log_dir = tmp_path / str(threads)
        shutil.copytree(drawn, log_dir)
        layers = layers_of(key, 1)
        for chosen in (["compacted-0"], []):  # one by all threads, then the others side by side
            cleaner = Cleaner(Configured((log_dir,), layers), Means(clock=FakeClock(), threads=threads))
            _, outcome = cleaner.clean(request(confirmed=True, topics=tuple(chosen)))
            assert not outcome.errors
        left.append(contents(log_dir))
    assert left[0] == left[1]


@pytest.mark.parametrize("now_ms", [LEAST, LEAST + 1, -1, 0, NOW_MS, LONG_MAX - 1, LONG_MAX])
def test_a_run_at_the_end_of_time_raises_nothing(drawn: Path, tmp_path: Path, now_ms: int) -> None:
    log_dir = tmp_path / "data"
    shutil.copytree(drawn, log_dir)
    for key in (TOPIC_KEY[name] for name in ("retention.ms", "delete.retention.ms", "min.compaction.lag.ms")):
        for value in (0, LONG_MAX):
            cleaner = a_cleaner(log_dir, layers_of(key, value))
            plan = cleaner.plan(request(now_ms))
            told(plan, cleaner.would_do(plan, exact=True))
            plan, outcome = cleaner.clean(request(now_ms))
            told(plan, outcome)
            assert not outcome.errors
            assert not [result.error for result in outcome.results.values() if result.error]


def records_of(log_dir: Path) -> dict[str, list[Record]]:
    return {path.name: records_in(path) for path in sorted(log_dir.iterdir()) if path.is_dir()}
