"""Measure the size of the code and the way of a run: ``python -m tests.figures [REV ...]``.

Prints a Markdown table with a column for each revision and one for the working tree. A revision is laid out in a
directory of its own, and its commands run there with the packages of this environment.

- A *code line* carries a token that is neither a comment nor part of a docstring.
- The share of imports counts lines of ``import`` statements among the code lines of our packages.
- Words of docs are those of ``docs`` and the README; generated pages and the changelog are left out.
- A run opens a *file* if it calls a function of it. It *switches* file with each call from one file of ours to another.
  Each run has a demo log dir of its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("cleaner", "policies", "storage")
GENERATED_DOCS: Final = ("commands.md",)
RUNS: Final = {
    "clean --dry-run": ("clean", "--dry-run"),
    "clean": ("clean",),
    "doctor": ("doctor",),
}
_NOT_CODE: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_COUNTER: Final = """
import json, sys
here, out, *arguments = sys.argv[1:]
ours = tuple(f"{here}/{package}/" for package in ("cleaner", "policies", "storage"))
files, switches = set(), 0
def watch(frame, event, _):
    global switches
    if event != "call":
        return
    file = frame.f_code.co_filename
    if frame.f_code.co_name == "<module>" or not file.startswith(ours):
        return
    files.add(file)
    caller = frame.f_back
    if caller is not None and caller.f_code.co_filename.startswith(ours) and caller.f_code.co_filename != file:
        switches += 1
sys.path.insert(0, here)
from cleaner.__main__ import run
sys.argv = ["logcleaner", *arguments]
sys.setprofile(watch)
try:
    run()
except SystemExit as ended:
    status = ended.code
else:
    status = 0
finally:
    sys.setprofile(None)
with open(out, "w") as told:
    json.dump([len(files), switches, status], told)
"""


def figures_of(tree: Path) -> dict[str, str]:
    """Return the rows of the table for one tree, by the name of each row."""
    ours = [path for package in PACKAGES for path in sorted((tree / package).rglob("*.py"))]
    tests = sorted((tree / "tests").rglob("*.py"))
    lines = [code_lines(path) for path in ours]
    count = sum(len(code) for code, _ in lines)
    imports = sum(len(imported) for _, imported in lines)
    docs = [tree / "README.md", *(path for path in (tree / "docs").glob("*.md") if path.name not in GENERATED_DOCS)]
    rows = {
        "code lines": f"{count:,}",
        "files": f"{len(ours):,}",
        "code lines a file": f"{count / len(ours):.0f}",
        "share of imports": f"{imports / count:.1%}",
        "code lines of tests": f"{sum(len(code_lines(path)[0]) for path in tests):,}",
        "cases": f"{cases(tree):,}",
        "words of docs": f"{sum(len(path.read_text().split()) for path in docs):,}",
    }
    for name, (files, switches) in ways(tree).items():
        rows[f"files of `{name}`"] = f"{files:,}"
        rows[f"switches of `{name}`"] = f"{switches:,}"
    return rows


def code_lines(path: Path) -> tuple[set[int], set[int]]:
    """Return the numbers of a file's code lines, and of those that belong to imports."""
    text = path.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = {line for node in nodes if (line_range := _string_alone(node)) for line in line_range}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    imports = {
        line
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return code - docstrings, imports


def _string_alone(node: ast.AST) -> range | None:
    """Return the lines of a string that is a statement: a docstring of a module, class, function or attribute."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return None


def cases(tree: Path) -> int:
    """Return how many cases pytest collects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    told = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    return sum(int(count) for line in told.splitlines() if (count := line.rpartition(": ")[2]).isdigit())


def ways(tree: Path) -> dict[str, tuple[int, int]]:
    """Run each command on a demo log dir, and return how many files it opens and how often it switches."""
    found: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([*_logcleaner(), "demo", f"{scratch}/demo"], cwd=tree, capture_output=True, check=True)
        for name, (command, *options) in RUNS.items():
            shutil.copytree(f"{scratch}/demo", f"{scratch}/log-dir", symlinks=True)
            out = Path(scratch, "out.json")
            counted = [
                sys.executable,
                "-P",
                "-c",
                _COUNTER,
                str(tree),
                str(out),
                command,
                *options,
                f"{scratch}/log-dir",
            ]
            subprocess.run(counted, cwd=tree, capture_output=True, check=True)
            files, switches, status = json.loads(out.read_text())
            assert status in {None, 0, 3, 10}, f"{name} ended with {status}"
            found[name] = (files, switches)
            shutil.rmtree(f"{scratch}/log-dir")
    return found


def _logcleaner() -> list[str]:
    return [sys.executable, "-m", "cleaner"]


def laid_out(revisions: list[str], scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the directory of each revision, with kernels compiled, and then of the working tree."""
    for revision in revisions:
        tree = scratch / revision.replace("/", "_")
        tree.mkdir()
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
        subprocess.run([sys.executable, "-m", "storage.compiler"], cwd=tree, capture_output=True, check=True)
        yield revision, tree
    yield "this tree", ROOT


def table(columns: dict[str, dict[str, str]]) -> str:
    """Return a Markdown table: a column for each tree, a row for each figure."""
    rows = next(iter(columns.values()))
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    return "\n".join([*lines, *(f"| {row} | {' | '.join(c[row] for c in columns.values())} |" for row in rows)])


def main() -> None:
    """Measure the trees that the command line names, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="*", metavar="REV", help="a revision to compare this tree with")
    revisions = parser.parse_args().revision
    with tempfile.TemporaryDirectory() as scratch:
        print(table({name: figures_of(tree) for name, tree in laid_out(revisions, Path(scratch))}))


if __name__ == "__main__":
    main()
