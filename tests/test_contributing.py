"""The contributor's door: what it names is there, and the hooks check what ``.ci/run`` checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CI = (ROOT / ".ci/run").read_text()
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text()
README = (ROOT / "README.md").read_text()
RUNNER = ".venv/bin/uv run --locked "
SUFFIXES = (".py", ".md", ".toml", ".lock", ".yaml", ".yml", ".json")
DOOR = {"CONTRIBUTING.md", "SECURITY.md"}


def commands_of_ci() -> list[str]:
    """The test command that ``.ci/run`` takes from the README, then its own ones; without the making of ``.venv``."""
    block = README.split("<!-- test command -->\n```sh\n")[1].split("\n```")[0]
    tests = next(part for part in block.split(" && ") if part.startswith(RUNNER))
    return [tests, *(line for line in CI.splitlines() if line.startswith(RUNNER))]


def settings_of_ci() -> dict[str, str]:
    return dict(re.findall(r"^export (\w+)=(\w+)$", CI, re.MULTILINE))


def hooks() -> dict[str, tuple[dict[str, str], str]]:
    """By id: the environment that a hook sets, and its command."""
    found = {}
    for id_, entry in re.findall(r"- id: (\w+)\n(?:        .+\n)*?        entry: (.+)\n", HOOKS):
        words = entry.split()
        assigned = [word for word in words[1:] if "=" in word and not word.startswith("-")] if words[0] == "env" else []
        command = " ".join(words[1 + len(assigned) :]) if assigned else entry
        found[id_] = (dict(word.split("=", 1) for word in assigned), command)
    return found


def test_hooks_and_ci_run_the_same_commands() -> None:
    assert len(commands_of_ci()) >= 4
    assert sorted(command for _, command in hooks().values()) == sorted(commands_of_ci())


def test_the_hook_of_the_tests_sets_what_ci_sets() -> None:
    assert hooks()["tests"][0] == settings_of_ci() != {}


def test_hooks_need_nothing_that_the_lock_file_does_not_pin() -> None:
    assert re.findall(r"- repo: (\S+)", HOOKS) == ["local"]
    assert set(re.findall(r"language: (\S+)", HOOKS)) == {"system"}
    assert "additional_dependencies" not in HOOKS


def quoted(page: str) -> set[str]:
    """What stands in backticks, commands left out."""
    return {text for text in re.findall(r"`([^`\n]+)`", (DOCS / page).read_text()) if " " not in text}


def paths_in(page: str) -> set[str]:
    """Return the paths of ours that a page names, and its links to other pages. ``.lock`` is a file of a log dir."""
    links = {f"docs/{target}" for target in re.findall(r"\]\(([\w./-]+)\)", (DOCS / page).read_text())}
    tops = tuple(f"{path.name}/" for path in ROOT.iterdir() if path.is_dir())
    return links | {
        text for text in quoted(page) if text.startswith(tops) or (text.endswith(SUFFIXES) and text != ".lock")
    }


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "architecture.md"])
def test_every_path_that_the_page_names_exists(page: str) -> None:
    assert len(paths_in(page)) >= 5
    assert {path for path in paths_in(page) if not (ROOT / path).exists()} == set()


def test_every_name_of_the_code_that_contributing_names_is_in_the_code() -> None:
    names = {
        text.split(".")[-1] for text in quoted("CONTRIBUTING.md") if re.fullmatch(r"[A-Z]\w*(\.\w+)?|\w*_\w+", text)
    }
    code = "".join(
        p.read_text() for top in ("cleaner", "policies", "storage", "tests") for p in (ROOT / top).rglob("*.py")
    )
    assert {"_DELETING", "Writer", "ReasonCode"} <= names
    assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set()


def test_no_other_page_of_that_name_hides_these() -> None:
    """GitHub looks into ``.github``, then the top level, then ``docs``."""
    assert [str(p) for d in (ROOT / ".github", ROOT) for p in d.glob("*.md") if p.name in DOOR] == []
