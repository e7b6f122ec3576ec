"""The tests as a mutant meets them: in a copy of the tree, the likeliest to notice first."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutator import Mutant
from tests.mutants.plugin import CHOSEN, SECONDS

ROOT: Final = Path(__file__).parents[2]
DIRECTORIES: Final = tuple(
    f"tests/{name}" for name in ("policies", "storage", "cleaner", "models", "crash", "behaviours", "spark")
)
_COPIED: Final = ("policies", "storage", "cleaner", "tests", "docs", "systemd", "monitoring", "packaging")
PACKAGES: Final = _COPIED[:3]
_OPTIONS: Final = ("-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.plugin", "--hypothesis-profile=ci")
_NOT_KAFKA: Final = ("-m", "not kafka")
_MEMORY_BYTES_MAX: Final = 6 << 30
_PASSED, _NOTHING_CHOSEN = 0, 5


def fingerprint(root: Path) -> str:
    """Return a hash of all sources of a tree, those of the tests too."""
    whole = hashlib.sha256()
    for path in sorted(path for name in _COPIED[:4] for path in (root / name).rglob("*.py")):
        whole.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


@dataclass(frozen=True, slots=True)
class Map:
    """Which tests run which lines, and how long they take."""

    lines: dict[str, dict[str, list[str]]]
    """Node ids by path and line."""
    seconds: dict[str, float]

    def tests_of(self, mutant: Mutant) -> set[str]:
        """Return the tests that run the lines of a mutant; for a line that only runs on import, those of its file."""
        by_line = self.lines.get(mutant.path, {})
        first, last = mutant.lines
        found = {test for line in range(first, last + 1) for test in by_line.get(str(line), [])}
        return found or {test for tests in by_line.values() for test in tests}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    word: str
    """``killed``, ``timeout`` or ``survived``."""
    noticed_by: str
    """The test that failed first."""


class Tree:
    """A copy of the working tree, in which one file at a time is changed."""

    def __init__(self, directory: Path) -> None:
        """Copy the tree to an empty directory."""
        directory.chmod(0o755)  # tests that are another user come through it
        self.path = directory / "tree"
        self._scratch = directory / "scratch"
        self._cache = directory / "cache"
        ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
        for name in _COPIED:
            shutil.copytree(ROOT / name, self.path / name, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, self.path)

    def run(self, paths: Iterable[str], options: Sequence[str], timeout_seconds: float | None, **env: str) -> int:
        """Run pytest in a process group of its own; gives the exit status, and what it printed goes to ``output``.

        Raises: subprocess.TimeoutExpired.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        own = {"PYTHONPATH": str(self.path), "TMPDIR": str(self._scratch), "XDG_CACHE_HOME": str(self._cache)}
        with (self.path.parent / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *_OPTIONS, *options, *paths],
                cwd=self.path,
                env={**os.environ, **own, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_prepare,  # noqa: PLW1509 - there is one thread
            )
            try:
                return process.wait(timeout_seconds)
            finally:
                _end_group(process)

    @property
    def output(self) -> str:
        """What the last run printed."""
        return (self.path.parent / "output").read_text(errors="replace")

    def mapped(self) -> Map:
        """Run all tests once, with coverage, and see which of them run which lines. Raises: SystemExit if one fails."""
        data, seconds = self.path.parent / "coverage", self.path.parent / "seconds.json"
        options = [
            *_NOT_KAFKA,
            "-n",
            "2",
            "--cov-context=test",
            "--cov-report=",
            "--cov-fail-under=0",  # what the tests against Kafka reach is missing here
            *(f"--cov={name}" for name in PACKAGES),
        ]
        files = {"COVERAGE_FILE": str(data), SECONDS: str(seconds)}
        if self.run(DIRECTORIES, options, None, **files) != _PASSED:
            raise SystemExit(f"The tests must pass before a mutant can fail them.\n{self.output[-4000:]}")
        return Map(_lines_of(data, self.path), json.loads(seconds.read_text()))

    def judge(self, mutant: Mutant, map_: Map, seconds_max: float) -> Verdict:
        """Apply a mutant, run the tests that may notice until one does, and take the mutant back.

        Args:
            mutant: of a file of this tree.
            map_: of this tree.
            seconds_max: what the tests may take on the whole by the map; the rest is left out, dearest first.
        """
        source = (self.path / mutant.path).read_bytes()
        self._write(mutant.path, mutant.applied(source))
        try:
            for tests in self._in_order(mutant, map_, seconds_max):
                verdict = self._try(tests, map_)
                if verdict.word != "survived":
                    return verdict
        finally:
            self._write(mutant.path, source)
        return Verdict("survived", "")

    def _write(self, path: str, content: bytes) -> None:
        """Write a source file, and forget its bytecode: within a second, a file of the same size counts as the same."""
        (self.path / path).write_bytes(content)
        for cached in (self.path / path).parent.glob(f"__pycache__/{Path(path).stem}.*"):
            cached.unlink()

    def _in_order(self, mutant: Mutant, map_: Map, seconds_max: float) -> tuple[list[str], list[str]]:
        """Return the tests of the files named like the module or importing it, then the others; fast ones first."""
        running, near = map_.tests_of(mutant), self._near(mutant.path)
        affordable, spent_seconds = [], 0.0
        for test in sorted(running, key=lambda one: (_file_of(one) not in near, map_.seconds.get(one, 0.0), one)):
            spent_seconds += map_.seconds.get(test, 0.0)
            if spent_seconds <= seconds_max:
                affordable.append(test)
        first = [test for test in affordable if _file_of(test) in near]
        return first, [test for test in affordable if _file_of(test) not in near]

    def _near(self, path: str) -> set[str]:
        """Return the test files of a module."""
        module = path.removesuffix(".py").replace("/", ".")
        package, _, name = module.rpartition(".")
        imports = re.compile(rf"(from|import) {re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
        files = (file for name in DIRECTORIES for file in (self.path / name).rglob("test_*.py"))
        near = (f for f in files if f.stem.startswith(f"test_{name}") or imports.search(f.read_text()))
        return {file.relative_to(self.path).as_posix() for file in near}

    def _try(self, tests: Sequence[str], map_: Map) -> Verdict:
        if not tests:
            return Verdict("survived", "")
        chosen = self.path.parent / "chosen.json"
        chosen.write_text(json.dumps(tests))
        seconds = [map_.seconds.get(test, 0.0) for test in tests]
        options = [*_NOT_KAFKA, "-o", f"timeout={30 + 10 * max(seconds):.0f}"]
        try:
            status = self.run(
                sorted({_file_of(test) for test in tests}),
                options,
                120 + 10 * sum(seconds),
                **{CHOSEN: str(chosen)},
            )
        except subprocess.TimeoutExpired:
            return Verdict("timeout", "the whole run")
        if status in (_PASSED, _NOTHING_CHOSEN):
            return Verdict("survived", "")
        output = self.output
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        word = "timeout" if re.search(r"^E +Failed: Timeout", output, re.MULTILINE) else "killed"
        return Verdict(word, failed[1] if failed else f"exit status {status}")


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _lines_of(data: Path, tree: Path) -> dict[str, dict[str, list[str]]]:
    from coverage import CoverageData

    covered = CoverageData(str(data))
    covered.read()
    found: dict[str, dict[str, list[str]]] = {}
    for path in covered.measured_files():
        by_line = covered.contexts_by_lineno(path).items()
        name = Path(path).relative_to(tree).as_posix()
        found[name] = {str(line): sorted({c.rpartition("|")[0] for c in contexts if c}) for line, contexts in by_line}
    return found


def _prepare() -> None:
    """Limit the memory of a child, and let it hear SIGINT, which a shell has its background jobs ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a run, and the children that a mutant made it leave behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
