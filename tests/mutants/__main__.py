"""Change the code in small ways, one at a time, and see whether a test notices.

    python -m tests.mutants --seed 1 --count 150

A seed always draws the same mutants of the same tree. Each runs in a copy of the tree, against the tests that run its
lines: those of its module first, then the others, until one fails. The first thing is one run of all these tests with
coverage, which tells them; --map keeps that for the next time. Survivors that no test can tell from the original are
listed, with the reason, in tests/mutants/equivalents.toml.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.mutants.mutator import Mutant, mutants_of
from tests.mutants.suite import PACKAGES, ROOT, Map, Tree, Verdict, fingerprint

AREAS: Final = {
    "policies": ("policies",),
    "diagnosis": (
        *(f"policies/{name}" for name in ("findings", "preflight")),
        *(f"cleaner/engine/{name}" for name in ("doctor", "verify", "repair", "preflight")),
    ),
    "storage": ("storage",),
    "log": ("storage/log",),
    "reading": ("storage/scan", "storage/records", "storage/codecs"),
    "engine": ("cleaner/engine",),
    "compaction": ("cleaner/engine/compaction",),
    "service": ("cleaner", "cleaner/daemon", "cleaner/config", "cleaner/metrics"),
    "commands": ("cleaner/cli",),
    "reports": ("cleaner/report", "cleaner/pages"),
    "records": tuple(f"cleaner/{name}" for name in ("dump", "export", "importing", "arrow", "spark")),
}
"""Folders by area. A module is of the area that names the nearest folder above it."""
_WORDS: Final = ("killed", "timeout", "survived", "equivalent")


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what became of it."""

    area: str
    mutant: Mutant
    gone: str
    come: str
    verdict: Verdict

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.mutant.path}:{self.mutant.lines[0]}"


def modules(root: Path) -> list[str]:
    """Return the paths of our modules that are no compiled kernels: the coverage leaves those out, too."""
    compiled = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["coverage"]["run"]["omit"]
    paths = (path.relative_to(root) for name in PACKAGES for path in root.glob(f"{name}/**/*.py"))
    return sorted(path.as_posix() for path in paths if not any(path.match(pattern) for pattern in compiled))


def area_of(path: str) -> str:
    """Return the area of a module. Raises: StopIteration if no area names a folder above it."""
    areas = {folder: area for area, folders in AREAS.items() for folder in folders}
    return next(areas[str(folder)] for folder in Path(path).parents if str(folder) in areas)


def all_mutants(root: Path) -> Iterator[tuple[str, Mutant]]:
    """Yield every mutant of our modules, area by area, each with its area."""
    for area, path in sorted((area_of(path), path) for path in modules(root)):
        for mutant in mutants_of(path, (root / path).read_bytes()):
            yield area, mutant


def sample(mutants: Sequence[tuple[str, Mutant]], seed: int, count: int) -> list[tuple[str, Mutant]]:
    """Draw mutants, in the order of the draw: the first ones of a longer sample are a sample."""
    return Random(seed).sample(mutants, min(count, len(mutants)))


def equivalents() -> set[tuple[str, str, str]]:
    """Return the mutants that no test can tell from the original: path, line before, line after."""
    told = tomllib.loads(Path(__file__).with_name("equivalents.toml").read_text())
    return {(one["path"], one["gone"], one["come"]) for one in told["equivalent"]}


def stale(known: set[tuple[str, str, str]], mutants: Sequence[tuple[str, Mutant]]) -> set[tuple[str, str, str]]:
    """Return the listed mutants of code that is gone."""
    paths = {path for path, _, _ in known if (ROOT / path).exists()}
    sources = {path: (ROOT / path).read_bytes() for path in paths}
    return known - {(m.path, *m.diff(sources[m.path])) for _, m in mutants if m.path in paths}


def map_of(tree: Tree, path: Path | None) -> Map:
    """Return the map that a file holds, if it is of this tree; else make one, and keep it there."""
    sources = fingerprint(tree.path)
    if path and path.exists():
        kept = json.loads(path.read_text())
        if kept["fingerprint"] == sources:
            return Map(kept["lines"], kept["seconds"])
    made = tree.mapped()
    if path:
        path.write_text(json.dumps({"fingerprint": sources, **asdict(made)}))
    return made


def survivors_of(report: Path, mutants: Sequence[tuple[str, Mutant]]) -> list[tuple[str, Mutant]]:
    """Return the mutants that an earlier run reported as survivors, as far as the tree still has them."""
    wanted = {(one["path"], one["gone"], one["come"]) for one in json.loads(report.read_text()) if one["survived"]}
    paths = {path for path, _, _ in wanted}
    sources = {path: (ROOT / path).read_bytes() for path in paths}
    return [
        one for one in mutants if one[1].path in paths and (one[1].path, *one[1].diff(sources[one[1].path])) in wanted
    ]


def judged(chosen: Sequence[tuple[str, Mutant]], tree: Tree, map_: Map, seconds_max: float) -> Iterator[Judged]:
    """Try each mutant, and tell of it as soon as that is known."""
    known = equivalents()
    for number, (area, mutant) in enumerate(chosen, 1):
        gone, come = mutant.diff((ROOT / mutant.path).read_bytes())
        is_known = (mutant.path, gone, come) in known
        verdict = Verdict("equivalent", "") if is_known else tree.judge(mutant, map_, seconds_max)
        one = Judged(area, mutant, gone, come, verdict)
        print(f"[{number}/{len(chosen)}] {verdict.word:10} {one.place}  {verdict.noticed_by}", flush=True)
        if verdict.word == "survived":
            print(f"    - {gone}\n    + {come}", flush=True)
        yield one


def table(found: Sequence[Judged]) -> str:
    """Return the counts by area; the percentage is of the mutants that are not equivalent."""
    lines = [f"| {'area':10} | mutants | {' | '.join(_WORDS)} | noticed |", "|---" * 7 + "|"]
    for area in (*AREAS, "all"):
        words = [one.verdict.word for one in found if area in (one.area, "all")]
        counts = [words.count(word) for word in _WORDS]
        told = len(words) - words.count("equivalent")
        noticed = f"{100 * (counts[0] + counts[1]) / told:.1f} %" if told else "-"
        lines.append(f"| {area:10} | {len(words)} | {' | '.join(map(str, counts))} | {noticed} |")
    return "\n".join(lines)


def written(found: Sequence[Judged]) -> str:
    """Return the report as JSON."""
    rows = [
        {
            "area": one.area,
            "path": one.mutant.path,
            "line": one.mutant.lines[0],
            "gone": one.gone,
            "come": one.come,
            "survived": one.verdict.word == "survived",
            **asdict(one.verdict),
        }
        for one in found
    ]
    return json.dumps(rows, indent=1)


def main() -> None:
    """Draw, try, and print what came of it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="draws the sample (default: 1)")
    parser.add_argument("--count", type=int, default=150, help="mutants to try (default: 150)")
    parser.add_argument("--seconds", type=float, default=120, help="tests to run for one mutant at most (default: 120)")
    parser.add_argument("--map", type=Path, help="file that keeps which tests run which lines")
    parser.add_argument("--report", type=Path, help="JSON file to write, mutant by mutant")
    parser.add_argument("--again", type=Path, help="a report: try its survivors, and draw none")
    options = parser.parse_args()
    mutants = list(all_mutants(ROOT))
    chosen = survivors_of(options.again, mutants) if options.again else sample(mutants, options.seed, options.count)
    found: list[Judged] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        tree = Tree(Path(directory))
        for one in judged(chosen, tree, map_of(tree, options.map), options.seconds):
            found.append(one)
            if options.report:
                options.report.write_text(written(found))
    print(f"\n{len(found)} of {len(mutants)} mutants tried\n\n{table(found)}")
    for path, gone, _ in sorted(stale(equivalents(), mutants)):
        print(f"\n{path}: listed as equivalent, but the code is gone: {gone}")
    for one in found:
        if one.verdict.word == "survived":
            print(f"\n{one.place}\n    - {one.gone}\n    + {one.come}")


if __name__ == "__main__":
    main()
