"""The tables of docs/benchmarks.md, and the plot, of a file that ``python -m tests.benchmarks`` wrote.

python -m tests.benchmarks.table FILE.json [--page docs/benchmarks.md] [--svg docs/benchmark.svg]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tests.benchmarks.processes import Cost
from tests.benchmarks.results import (
    BUDGET_BYTES,
    Cold,
    Comparison,
    Many,
    ManyKeys,
    Report,
    load,
    median_seconds,
    peak_anonymous_bytes,
)

ROOT: Final = Path(__file__).parent.parent.parent
MARKERS: Final = ("<!-- benchmark table -->", "<!-- end of benchmark table -->")

PLOT: Final = "![Seconds to compact 1 GiB: Kafka's cleaner and logcleaner](benchmark.svg)"
LEGEND: Final = """\
Ratio: Kafka's seconds to those of our whole process with one thread; at work: its start-up taken off. MB/s (of the
log as it lies on disk) and records/s: Kafka's, then ours with one thread. Memory: RssAnon at its peak, Kafka's, then
ours of two threads. v0 and v1: beside Kafka 2.8.2, the last that keeps them. Of the codec: the time that the codec
alone takes to decompress the log once and to compress what stays, as a part of ours. Of the least: the time that one
thread takes to do each work once and nothing else (check the log, decompress it, walk over it and touch a slot a key,
compress what stays, write it), as a part of ours at work."""


class NoMarkers(Exception):
    """The document has no place for the table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both; 1 where the page has no markers."""
    options = _parser().parse_args(arguments)
    report = load(options.file)
    try:
        text = with_table(options.page.read_text(encoding="utf-8"), f"{markdown(report)}\n\n{PLOT}")
    except NoMarkers as reason:
        print(f"{options.page}: {reason}", file=sys.stderr)
        return 1
    options.page.write_text(text, encoding="utf-8")
    options.svg.write_text(svg(report), encoding="utf-8")
    return 0


def with_table(document: str, table: str) -> str:
    """The document with the table between its markers. Raises: NoMarkers."""
    start, end = map(re.escape, MARKERS)
    replaced, places = re.subn(f"{start}\n.*?{end}", lambda _: "\n".join((MARKERS[0], table, MARKERS[1])), document,
                               flags=re.DOTALL)  # fmt: skip
    if places != 1:
        raise NoMarkers(f"{places} places between {MARKERS[0]} and {MARKERS[1]}, one is wanted")
    return replaced


def markdown(report: Report) -> str:
    """Tables of all that was measured."""
    of_clean = {name: one for name, one in report.comparisons.items() if name.startswith("second-round")}
    of_dirty = {name: one for name, one in report.comparisons.items() if name not in of_clean}
    parts = [_updates(report, list(of_dirty.values()))] if of_dirty else []
    parts += [_cold(list(report.cold.values()))] if report.cold else []
    parts += [_second_rounds(list(of_clean.values()))] if of_clean else []
    parts += [_many(list(report.many.values()))] if report.many else []
    parts += [_many_keys(report.many_keys)] if report.many_keys else []
    return "\n\n".join(parts)


def svg(report: Report) -> str:
    """Bars of seconds for each GiB of raw records."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    groups = [(one.title, _seconds_per_gib(one)) for one in report.comparisons.values()]
    longest = max((max(seconds) for _, seconds in groups), default=1.0)
    template = environment.get_template("plot.svg.jinja")
    return template.render(groups=groups, longest=longest, kafka_version=report.kafka_version) + "\n"


def _seconds_per_gib(one: Comparison) -> tuple[float, ...]:
    gib = one.raw_bytes / (1 << 30)
    return tuple(median_seconds(costs) / gib for costs in (one.kafka, one.ours[1], one.ours[2]))


def _updates(report: Report, measured: Sequence[Comparison]) -> str:
    settings, machine = report.settings, measured[0].machine
    startup = measured[0].startup
    return "\n".join([
        f"{settings.gib:g} GiB of records before compression, keys drawn from a million, 16 KiB batches; medians\nof "
        f"{settings.rounds} rounds; {report.cpus} CPUs, {report.kernel}; Kafka {report.kafka_version}.",
        "",
        _row("data", "Kafka", "1 thread", "2 threads", "ratio", "at work", "2 : 1", "MB/s", "records/s", "memory",
             "of the codec", "of the least"),
        _row(*["---"] * 12),
        *(_update(one) for one in measured),
        _row("start-up", "", _seconds(startup.seconds), "", "", "", "", "", "", _mb(startup.empty_run), "", ""),
        _row("of it `--version`", "", _seconds(median_seconds(startup.version)), *[""] * 6, _mb(startup.version),
             "", ""),
        "",
        LEGEND,
        "",
        f"The machine copies {machine.memcpy_bytes_per_second / 1e9:.1f} GB/s and checks (CRC-32C) "
        f"{machine.crc32c_bytes_per_second / 1e9:.1f} GB/s in one thread.",
    ])  # fmt: skip


def _update(one: Comparison) -> str:
    seconds = [median_seconds(costs) for costs in (one.kafka, one.ours[1], one.ours[2])]
    return _row(
        one.title,
        *map(_seconds, seconds),
        f"**{one.ratio:.1f}x**",
        f"{one.ratio_at_work:.1f}x",
        f"{one.threads_ratio:.2f}x",
        ", ".join(f"{one.log_bytes / 1e6 / each:,.0f}" for each in seconds[:2]),
        ", ".join(f"{one.records / 1e6 / each:.1f} M" for each in seconds[:2]),
        f"{_mb(one.kafka)}, {_mb(one.ours[2])}",
        _percent(one.codec_percent),
        _percent(one.least_percent),
    )


def _cold(measured: Sequence[Cold]) -> str:
    return "\n".join([
        "Cold: the same logs, not in the page cache, by one thread. Direct: the same bytes read and written past the",
        "page cache, with eight requests in flight. By the larger: ours by the larger of warm and direct; 1 is best.",
        "",
        _row("data", "Kafka", "ours", "ratio", "warm", "direct", "by the larger"),
        _row(*["---"] * 7),
        *(
            _row(
                one.title,
                *map(_seconds, (median_seconds(one.kafka), median_seconds(one.ours))),
                f"**{median_seconds(one.kafka) / median_seconds(one.ours):.1f}x**",
                _seconds(median_seconds(one.ours_warm)),
                _seconds(median(one.direct_seconds)) if one.direct_seconds else "",
                f"{one.times_the_least:.2f}",
            )
            for one in measured
        ),
    ])  # fmt: skip


def _second_rounds(measured: Sequence[Comparison]) -> str:
    gib = measured[0].raw_bytes / (1 << 30)
    return "\n".join([
        f"A second round, on {gib:.2g} GiB that were compacted before, uncompressed 100-byte values:",
        "",
        _row("new records", "Kafka (rewrites all)", "1 thread", "2 threads", "ratio", "at work", "memory"),
        _row(*["---"] * 7),
        *(
            _row(
                one.title,
                *(_seconds(median_seconds(costs)) for costs in (one.kafka, one.ours[1], one.ours[2])),
                f"**{one.ratio:.1f}x**",
                f"{one.ratio_at_work:.1f}x",
                f"{_mb(one.kafka)}, {_mb(one.ours[2])}",
            )
            for one in measured
        ),
    ])  # fmt: skip


def _many(measured: Sequence[Many]) -> str:
    return "\n".join([
        "Many partitions, uncompressed, both sides with two threads: Kafka's log cleaner with a broker's defaults, its",
        "logs open; ours as a whole process. CPU: seconds of the processor. Bus: what a loop that reads memory on the",
        "other core loses to one thread of ours, and to another such loop.",
        "",
        _row("partitions", "Kafka", "1 thread", "2 threads", "ratio", "2 : 1", "MB/s", "a partition", "CPU", "memory",
             "bus"),
        _row(*["---"] * 11),
        *(
            _row(
                one.title,
                *map(_seconds, seconds := [median_seconds(costs) for costs in (one.kafka, one.ours[1], one.ours[2])]),
                f"**{one.ratio:.1f}x**",
                f"{one.threads_ratio:.2f}x",
                ", ".join(f"{one.log_bytes / 1e6 / each:,.0f}" for each in seconds[::2]),
                ", ".join(f"{1e3 * each / one.partitions:,.1f} ms" for each in seconds[::2]),
                ", ".join(_seconds(median(cost.cpu_seconds for cost in costs)) for costs in (one.kafka, one.ours[2])),
                f"{_mb(one.kafka)}, {_mb(one.ours[2])}",
                ", ".join(f"{loss:.0f}" for loss in one.bus.losses_percent) + " %",
            )
            for one in measured
        ),
    ])  # fmt: skip


def _many_keys(one: ManyKeys) -> str:
    measured = (
        f" (measured: {len(one.kafka)}, {_seconds(sum(cost.seconds for cost in one.kafka))})" if one.kafka else ""
    )
    within = "within" if one.is_within_budget else "beyond"
    return (
        f"{one.keys:,} distinct keys in {one.records:,} records, a map of {one.map_bytes >> 20} MiB: "
        f"{_seconds(one.ours.seconds)} in one rewrite, memory {_mb([one.ours])}, {within} the map's and "
        f"{BUDGET_BYTES >> 20} MiB. Kafka's map of that size takes at least {one.kafka_rounds_min} rounds{measured}."
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def _percent(percent: float | None) -> str:
    return f"{percent:.0f} %" if percent else ""


def _mb(costs: Sequence[Cost]) -> str:
    return f"{peak_anonymous_bytes(costs) / 1e6:,.0f} MB"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.table", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path, metavar="FILE.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/benchmarks.md")
    parser.add_argument("--svg", type=Path, default=ROOT / "docs/benchmark.svg")
    return parser


if __name__ == "__main__":
    sys.exit(main())
