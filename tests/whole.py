"""Try whole what a plain run of the tests samples, part by part; begun again, it goes on where it ended.

    python -m tests.whole [--list] [--only NAME ...] [--notes FILE]

A part that passed is noted, and not tried again as long as the sources stay as they are. The first part that fails is
told, the others are tried all the same, and the exit status is 1. All parts take some hours on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.interop.kafka_jars import cache_dir
from tests.mutants.suite import ROOT, fingerprint
from tests.sampled import WHOLE


@dataclass(frozen=True, slots=True)
class Part:
    """A command, and what its environment has beside ``LOGCLEANER_WHOLE=1``."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def _tests(*paths: str, **environment: str) -> Part:
    return Part(("pytest", "-q", "-p", "no:cacheprovider", *(f"tests/{path}" for path in paths)), environment)


PARTS: Final[Mapping[str, Part]] = {
    "what-if": _tests("cleaner/engine/rehearsal/test_what_if.py"),
    "unkeyed": _tests("cleaner/engine/compaction/test_unkeyed_counts.py"),
    "legacy-damage": _tests("cleaner/engine/compaction/test_legacy_damage.py"),
    "bad-days": _tests("storage/stores/test_copies.py"),
    "pages": _tests("cleaner/report/html/test_in_browser.py"),
    "indexes": _tests("storage/log/test_damaged_indexes.py"),
    "shapes": _tests("spark/test_query_shapes.py"),
    "streams": _tests("spark/test_append_batch.py", "spark/test_stream_sink.py", "interop/test_spark.py"),
    "levels": _tests("storage/machine/test_levels.py"),
    "ends": _tests("cleaner/test_ends_of_numbers.py"),
    "twins": _tests("crash/test_twins.py"),
    "moves": _tests("interop/test_move.py", "disk/test_move.py", LOGCLEANER_MOVES="30"),
    "moments-of-kafka": _tests("interop/test_as_of.py", LOGCLEANER_MOMENTS="20"),
    "erasures": _tests("interop/test_erase.py", LOGCLEANER_RANDOM_LOGS="500"),
    "repackings": _tests("interop/test_repack.py", LOGCLEANER_RANDOM_LOGS="200"),
    "tiers": _tests("storage/stores/test_tiers.py", LOGCLEANER_TIER_SEGMENT="1073741824"),
    "verified-tiers": _tests("storage/stores/test_verified_tiers.py"),
    "moments": _tests("policies/explain/test_moments.py"),
    "copies": _tests("cleaner/engine/copy/test_copying_beside_a_writer.py"),
    "lookups": _tests("cleaner/cli/test_lookup.py", "interop/test_lookups.py"),
    "models": Part(("tests.models",)),
    "crash": Part(("tests.crash", "--rounds", "1")),
    "disk-cuts": Part(("tests.disk", "--cuts", "10000")),
    "disk-kills": Part(("tests.disk", "--kills", "300")),
    "disk-faults": Part(("tests.disk", "--faults", "500")),
    "disks": _tests("disk/test_cuts.py", "disk/test_dying.py", "disk/test_real.py", "disk/test_seam.py"),
    "waves": Part(("tests.spark.wave_kills", "--kills", "30")),
    "crash-leftovers": Part(("tests.interop.crash_leftovers", "--seeds", "40")),
    "random-logs": _tests("interop/test_random_logs.py", LOGCLEANER_RANDOM_LOGS="500"),
    "old-logs": _tests("interop/test_old_kafka.py", LOGCLEANER_RANDOM_LOGS="200"),
    "filtered-logs": _tests("interop/test_filtered_logs.py", LOGCLEANER_FILTERED_LOGS="300"),
    "filters": _tests("cleaner/engine/compaction/test_filters.py", LOGCLEANER_FILTERED_LOGS="300"),
    "rounds": _tests("interop/test_rounds.py"),
    "lives": _tests("interop/test_log_lives.py", LOGCLEANER_LIVES="500"),
    "whole-lives": Part(("tests.lives", "--lives", "1000")),
    "whole-lives-kafka": Part(("tests.lives", "--lives", "100", "--kafka")),
    "whole-lives-broker": Part(("tests.lives", "--lives", "30", "--broker")),
    "starts": _tests("interop/test_preflight.py", LOGCLEANER_STARTS="12"),
    "verified-broker": _tests("interop/test_verified_broker.py"),
    "dumps": _tests("interop/test_dump.py", LOGCLEANER_DUMPS="all"),
    "fuzz": Part(("tests.fuzz", "--minutes", "10")),
    "fuzz-dump": Part(("tests.fuzz", "--target", "dump", "--executions", "10000")),
    "soak": Part(("tests.soak", "--minutes", "10")),
}


def tried(parts: Mapping[str, Part], notes: Path, sources: str) -> Iterator[tuple[str, bool]]:
    """Run every part that did not pass yet on these sources. Note the parts that pass, and yield the result of each."""
    passed = _passed(notes, sources)
    for name, part in parts.items():
        if name not in passed:
            started_seconds = time.monotonic()
            print(f"{name}: {' '.join(part.command)}", flush=True)
            is_right = _succeeds(part)
            if is_right:
                passed[name] = round(time.monotonic() - started_seconds)
                notes.parent.mkdir(parents=True, exist_ok=True)
                notes.write_text(json.dumps({"sources": sources, "passed": passed}, indent=1))
            yield name, is_right


def _passed(notes: Path, sources: str) -> dict[str, int]:
    """Return the parts that passed on these sources, with the seconds that each took."""
    noted = json.loads(notes.read_text()) if notes.exists() else {}
    return dict(noted["passed"]) if noted.get("sources") == sources else {}


def _succeeds(part: Part) -> bool:
    environment = {**os.environ, WHOLE: "1", **part.environment}
    return not subprocess.run([sys.executable, "-m", *part.command], cwd=ROOT, env=environment, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the parts, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.whole", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name the parts, and which have passed; try none")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME", help="these parts")
    parser.add_argument(
        "--notes", type=Path, default=cache_dir() / "whole.json", help="what has passed (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    parts, sources = {name: PARTS[name] for name in options.only}, fingerprint(ROOT)
    if not options.list:
        failed = [name for name, is_right in tried(parts, options.notes, sources) if not is_right]
        print(*(f"{name}: FAILED" for name in failed), sep="\n")
    passed = _passed(options.notes, sources)
    print(*(f"{name:16} {f'passed, {passed[name]} s' if name in passed else '-'}" for name in parts), sep="\n")
    return int(not options.list and not parts.keys() <= passed.keys())


if __name__ == "__main__":
    sys.exit(main())
