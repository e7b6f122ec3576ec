"""How fast a ``Log`` appends and looks up, beside Kafka's ``UnifiedLog``: in pairs, in one run, on one thread each.

    python -m tests.benchmarks.log_rates DIR [--pairs 9] [--mib 1100] [--value-bytes 1000] [--without-kafka]

Each side appends batches of 16 KiB, one a call, fully validated, into a new log in ``DIR``: its files stay in the page
cache, and nothing is fsynced. Then each looks up drawn offsets (the batch that a read begins with) and
drawn timestamps (the record itself). Every answer is checked. The sides take turns in going first. Told are medians,
and the median of the pairs' ratios with an interval that holds it with a chance of 95 % or more. ``DIR`` gets both logs
of a pair and loses them again. The second line of each rate goes by the processor time of the thread that works: on a
machine that has other work, too, it is the speed of a core.
"""

from __future__ import annotations

import argparse
import os
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import comb
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self

from crc32c import crc32c

from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.records import Record, encode_batch
from tests.interop.kafka_jars import judging_version, kafka_classpath
from tests.interop.referee import BROKER_JVM_OPTIONS, Referee

BATCH_BYTES: Final = 16 << 10
_FIRST_MS: Final = 1_700_000_000_000
_BATCHES_AT_ONCE: Final = 256
_RECORD_OVERHEAD_BYTES: Final = 18
_NAMES: Final = ("append, MB/s", "by offset, lookups/s", "by timestamp, lookups/s")
_CLOCKS: Final = ("by the clock", "by the processor")
_CHANCE: Final = 0.95


class Rate(NamedTuple):
    """Bytes or lookups a second, by the clock and by the processor time of the one thread."""

    by_clock: float
    by_processor: float


class Rates(NamedTuple):
    """What one side does in a second."""

    append: Rate
    by_offset: Rate
    by_timestamp: Rate


class Watch:
    """Two clocks that run within ``with``, as often as that is."""

    def __init__(self) -> None:
        self._seconds, self._processor_seconds = 0.0, 0.0

    def __enter__(self) -> Self:
        self._seconds -= time.perf_counter()
        self._processor_seconds -= time.thread_time()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._seconds += time.perf_counter()
        self._processor_seconds += time.thread_time()

    def rate(self, done: int) -> Rate:
        """What was done in a second."""
        return Rate(done / self._seconds, done / self._processor_seconds)


class Shape(NamedTuple):
    """The log: so many batches of so many records."""

    batches: int
    records: int
    value_bytes: int
    segment_bytes: int
    lookups: int


class KafkaRates(Referee):
    """A JVM with ``LogRates.java``, as a broker is given one."""

    def __init__(self, classpath: str) -> None:
        super().__init__(classpath, BROKER_JVM_OPTIONS, "LogRates")

    def rates(self, directory: Path, shape: Shape, seed: int) -> Rates:
        """Measure Kafka on a new log."""
        words = ["--batches", shape.batches, "--records", shape.records, "--value-bytes", shape.value_bytes]
        config = ["--config", f"internal.segment.bytes={shape.segment_bytes}"]
        lookups = ["--lookups", shape.lookups, "--seed", seed]
        told = Rates(
            self._rate("append", directory, *words, *config),
            self._rate("offsets", directory, *lookups, "--records", shape.records),
            self._rate("times", directory, *lookups),
        )
        self._ask("close", [directory])
        return told

    def _rate(self, command: str, directory: Path, *words: object) -> Rate:
        ((_, line),) = self._ask(command, [directory], *map(str, words))
        return Rate(line["done"] / line["seconds"], line["done"] / line["processor_seconds"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--mib", type=int, default=1100, help="size of each log")
    parser.add_argument("--segment-mib", type=int, default=512)
    parser.add_argument("--value-bytes", type=int, default=1000, help="of a record")
    parser.add_argument("--lookups", type=int, default=20_000, help="of each kind, in each pair")
    parser.add_argument("--without-kafka", action="store_true", help="ours alone")
    options = parser.parse_args(arguments)
    records = max((BATCH_BYTES - 61) // (options.value_bytes + _RECORD_OVERHEAD_BYTES), 1)
    batches = (options.mib << 20) // BATCH_BYTES
    shape = Shape(batches, records, options.value_bytes, options.segment_mib << 20, options.lookups)
    kafka = nullcontext() if options.without_kafka else KafkaRates(kafka_classpath(judging_version()))
    with kafka as jvm:
        if jvm is not None:
            in_turn(jvm, options.directory, shape._replace(batches=max(batches // 4, 1)), 0)  # the JVM warms up
        pairs = [in_turn(jvm, options.directory, shape, number + 1) for number in range(options.pairs)]
    for place, name in enumerate(_NAMES):
        for clock, words in enumerate(_CLOCKS):
            rates = [(ours[place][clock], theirs[place][clock] if theirs else None) for ours, theirs in pairs]
            print(told(f"{name}, {words}", rates))
    return 0


def in_turn(jvm: KafkaRates | None, directory: Path, shape: Shape, seed: int) -> tuple[Rates, Rates | None]:
    """Measure both sides, each on a log of its own; the first one is another one each time."""
    sides: list[tuple[str, Callable[[Path, Shape, int], Rates]]] = [("ours-0", our_rates)]
    if jvm is not None:
        sides.append(("kafka-0", jvm.rates))
    measured = {}
    directory.mkdir(parents=True, exist_ok=True)
    for name, rates in sides[:: 1 if seed % 2 else -1]:
        with TemporaryDirectory(dir=directory) as log_dir:
            (Path(log_dir) / name).mkdir()
            measured[name] = rates(Path(log_dir) / name, shape, seed)
    return measured["ours-0"], measured.get("kafka-0")


def our_rates(directory: Path, shape: Shape, seed: int) -> Rates:
    """Measure ours on a new log. Only the appends are timed, not the making of the batches."""
    random, template = Random(seed), batch_template(shape)
    with Log.open(directory, LogConfig(segment_bytes=shape.segment_bytes), FileSystem()) as log:
        watch, now_ms = Watch(), int(time.time() * 1000)
        for first in range(0, shape.batches, _BATCHES_AT_ONCE):
            numbers = range(first, min(first + _BATCHES_AT_ONCE, shape.batches))
            batches = [dated(template, shape.records, number) for number in numbers]
            with watch:
                for batch in batches:
                    log.append(batch, now_ms=now_ms)
        offsets = [random.randrange(log.log_end_offset) for _ in range(shape.lookups)]
        by_offset = _by_offset(log, offsets, shape.records)
        return Rates(watch.rate(len(template) * shape.batches), by_offset, _by_timestamp(log, offsets))


def _by_offset(log: Log, offsets: Sequence[int], records: int) -> Rate:
    with Watch() as watch:
        for offset in offsets:
            found = next(log.read(offset))
            assert found.base_offset == offset - offset % records
    return watch.rate(len(offsets))


def _by_timestamp(log: Log, offsets: Sequence[int]) -> Rate:
    with Watch() as watch:
        for offset in offsets:
            found = log.lookup_timestamp(_FIRST_MS + offset)
            assert found is not None
            assert found.offset == offset
    return watch.rate(len(offsets))


def batch_template(shape: Shape) -> bytearray:
    """Make a batch whose records are a millisecond apart."""
    value = os.urandom(shape.value_bytes)
    records = [Record(place, _FIRST_MS + place, struct.pack(">q", place), value) for place in range(shape.records)]
    return bytearray(encode_batch(records))


def dated(template: bytearray, records: int, number: int) -> bytes:
    """The batch with the timestamps of its place in the log."""
    first_ms = _FIRST_MS + number * records
    struct.pack_into(">qq", template, 27, first_ms, first_ms + records - 1)
    struct.pack_into(">I", template, 17, crc32c(memoryview(template)[21:]))
    return bytes(template)


def told(name: str, pairs: Sequence[tuple[float, float | None]]) -> str:
    """One line: both medians, and the ratio with its interval."""
    unit = 1e6 if name.startswith("append") else 1.0
    ours = f"{name}: ours {median(one for one, _ in pairs) / unit:,.0f}"
    beside = [(one, other) for one, other in pairs if other is not None]
    if not beside:
        return ours
    ratios = [one / other for one, other in beside]
    low, high = interval(ratios)
    theirs = median(other for _, other in beside) / unit
    return f"{ours}, Kafka {theirs:,.0f}, ours/Kafka {median(ratios):.2f} ({low:.2f} to {high:.2f}, {len(pairs)} pairs)"


def interval(drawn: Sequence[float]) -> tuple[float, float]:
    """Return two of the values between which the median lies with a chance of 95 %: of few values the least and most.

    Each value is above the median with a chance of one half, whatever their distribution is.
    """
    ordered, count = sorted(drawn), len(drawn)
    left_out, chance = 0, 1.0
    while left_out < (count - 1) // 2:
        chance -= 2 * comb(count, left_out) / 2**count
        if chance - 2 * comb(count, left_out + 1) / 2**count < _CHANCE:
            break
        left_out += 1
    return ordered[left_out], ordered[count - 1 - left_out]


if __name__ == "__main__":
    raise SystemExit(main())
