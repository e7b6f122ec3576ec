"""The mutation check itself, on a source of a few lines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import (
    AREAS,
    Judged,
    all_mutants,
    area_of,
    equivalents,
    modules,
    sample,
    stale,
    table,
)
from tests.mutants.mutator import Mutant, mutants_of
from tests.mutants.suite import PACKAGES, ROOT, Map, Tree, Verdict

SOURCE = b'''\
"""Not 1 < 2."""

from pathlib import Path

if TYPE_CHECKING:
    import sizes

SIZE_MAX = 7


def chosen(log: Path, sizes: list[int], *, is_due: bool = False) -> int | None:
    """Return not 3."""
    assert sizes, "0 < 1"
    if is_due and sizes[0] >= 4:
        log.unlink()
        raise ValueError(f"{sizes[0] + 1} \xc3\xa4")
    for size in sizes:
        if not size:
            continue
        break
    return min(size - 1 for size in sizes if is_due)
'''
CHANGES = [
    ("is_due: bool = False", "is_due: bool = True"),
    ("if is_due and sizes[0] >= 4:", "if (not (is_due and sizes[0] >= 4)):"),
    ("if is_due and sizes[0] >= 4:", "if (is_due or sizes[0] >= 4):"),
    ("sizes[0] >= 4", "(sizes[0] > 4)"),
    ("sizes[0] >= 4", "sizes[1] >= 4"),
    ("sizes[0] >= 4", "sizes[0] >= 5"),
    ("log.unlink()", "pass"),
    ('raise ValueError(f"{sizes[0] + 1} ä")', "pass"),
    ("if not size:", "if (size):"),
    ("continue", "break"),
    ("break", "continue"),
    ("min(", "max("),
    ("size - 1", "(size + 1)"),
    ("size - 1", "size - 2"),
    ("if is_due)", "if (not is_due))"),
]


def changed_line(mutant: Mutant) -> tuple[str, str]:
    return mutant.diff(SOURCE)


def test_every_decision_of_a_source_is_changed_once_and_texts_bounds_and_annotations_are_not():
    found = [changed_line(mutant) for mutant in mutants_of("sample.py", SOURCE)]
    assert len(found) == len(CHANGES)
    for (gone, come), (before, after) in zip(sorted(found), sorted(expected()), strict=True):
        assert (gone, come) == (before, after)


def expected():
    """Each change within its line."""
    lines = SOURCE.decode().splitlines()
    for before, after in CHANGES:
        line = next(line.strip() for line in lines if before in line and '"0 < 1"' not in line)
        yield line, line.replace(before, after)


@pytest.fixture(scope="module")
def ours() -> list[tuple[str, Mutant]]:
    return list(all_mutants(ROOT))


def test_mutants_of_our_own_code_parse_and_differ_from_it(ours):
    for _, mutant in sample(ours, 3, 60):
        source = (ROOT / mutant.path).read_bytes()
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source)), mutant


def test_equal_seeds_draw_equal_mutants_and_other_seeds_others(ours):
    again = list(all_mutants(ROOT))
    assert ours == again
    assert sample(ours, 1, 20) == sample(again, 1, 20)
    assert sample(ours, 1, 20) != sample(ours, 2, 20)
    assert len(set(sample(ours, 1, 50))) == 50


def test_the_first_of_a_longer_sample_are_the_shorter_sample(ours):
    assert sample(ours, 1, 50)[:20] == sample(ours, 1, 20)


def test_every_area_has_mutants(ours):
    assert {area for area, _ in ours} == set(AREAS)


def test_every_module_is_of_one_area_and_only_compiled_kernels_are_of_none():
    folders = [folder for area in AREAS.values() for folder in area]
    assert len(folders) == len({*folders})
    assert all((ROOT / folder).is_dir() for folder in folders)
    known = modules(ROOT)
    assert [path for path in known if area_of(path) not in AREAS] == []
    left_out = {path.relative_to(ROOT).as_posix() for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    left_out -= {*known}
    kernels = {path for path in {*known} | left_out if "\n@kernel(" in (ROOT / path).read_text()}
    assert kernels & {*known} == set()
    assert {str(Path(path).parent) for path in left_out} == {
        f"storage/{name}" for name in ("compiler", "kernels", "printing", "codecs")
    }


@pytest.mark.parametrize(("path", "gone", "come"), sorted(equivalents()))
def test_a_listed_mutant_is_of_code_that_is_still_there(path: str, gone: str, come: str):
    assert gone in (ROOT / path).read_text(), come


def test_listed_mutants_of_code_that_is_gone_are_told(ours):
    gone = {("cleaner/no_such.py", "a", "b"), ("policies/planning.py", "no such line", "none")}
    assert stale(equivalents() | gone, ours) >= gone
    assert not stale(equivalents(), ours) & {
        one for one in equivalents() if one[0] == "policies/config/config_sources.py"
    }


def test_tests_of_a_mutant_are_those_that_run_its_lines_and_of_its_file_if_none_does():
    map_ = Map({"a.py": {"1": ["t::x"], "2": ["t::y"]}}, {})
    assert map_.tests_of(Mutant("a.py", 0, 1, "", (2, 3))) == {"t::y"}
    assert map_.tests_of(Mutant("a.py", 0, 1, "", (9, 9))) == {"t::x", "t::y"}
    assert map_.tests_of(Mutant("b.py", 0, 1, "", (1, 1))) == set()


def test_table_counts_by_area_and_leaves_equivalent_mutants_out_of_the_percentage():
    mutant = Mutant("a.py", 0, 1, "", (1, 1))
    words = ["killed", "killed", "timeout", "survived", "equivalent"]
    found = [Judged("engine", mutant, "", "", Verdict(word, "")) for word in words]
    (line,) = [line for line in table(found).splitlines() if line.startswith("| engine")]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["engine", "5", "2", "1", "1", "1", "75.0 %"]


TEST = "tests/policies/test_steps.py::test_smallest_deletion_comes_first"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_mutant_is_tried_in_a_copy_and_taken_back(tree: Tree, is_noticed: bool):
    path = "policies/planning.py"
    source = (ROOT / path).read_bytes()
    mutant = Mutant(path, 0, 0, "raise ValueError\n" if is_noticed else "# nothing\n", (1, 1))
    verdict = tree.judge(mutant, Map({path: {"1": [TEST]}}, {}), 60)
    assert verdict.word == ("killed" if is_noticed else "survived")
    assert ("1 passed" in tree.output) is not is_noticed
    assert (tree.path / path).read_bytes() == source == (ROOT / path).read_bytes()
