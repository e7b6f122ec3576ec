"""``docs/formats.md`` names every file that the code knows, modules that exist, and bytes that a broker wrote."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from storage import names
from storage.names import DirState, FileKind, FileState
from tests.conftest import Samples

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/formats.md").read_text()


def file_names() -> list[str]:
    """Names of files and directories, and suffixes: all constants and members of enums in ``storage.names``."""
    constants = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    members = [str(member.value) for enum in (DirState, FileKind, FileState) for member in enum]
    return [name for name in (*constants, *members) if name]


def test_a_name_of_each_kind_is_among_those_that_are_looked_for() -> None:
    assert {".lock", ".logcleaner-holds", "meta.properties", "__cluster_metadata", "-stray", ".timeindex", ".swap"} <= {
        *file_names()
    }
    assert issubclass(FileKind, StrEnum)


@pytest.mark.parametrize("name", file_names())
def test_the_page_names_every_file_and_suffix(name: str) -> None:
    said = re.findall(r"^#+ .+$|`[^`\n]+`", PAGE, re.MULTILINE)
    assert any(name in one for one in said), f"docs/formats.md says nothing of {name}"


def suffixes_elsewhere() -> set[str]:
    """Suffixes that other modules keep to themselves, as constants."""
    found: set[str] = set()
    for package in ("cleaner", "storage"):
        for path in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r'^_?[A-Z_]*SUFFIX: Final = "([^"]+)"', path.read_text(), re.MULTILINE))
    return found


def test_the_page_names_the_suffixes_that_single_modules_keep() -> None:
    assert {".keys", ".unfinished", ".checkpoint"} <= suffixes_elsewhere()
    assert {suffix for suffix in suffixes_elsewhere() if suffix not in PAGE} == set()


def test_the_modules_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:storage|policies|cleaner|tests)/[\w/.]+)`", PAGE))
    assert len(named) > 30
    assert {path for path in named if not (ROOT / path).exists()} == set()


EXAMPLES = re.findall(r"<!-- bytes: (\S+) (\S+) (\d+) -->\n```\n(.*?)\n```", PAGE, re.DOTALL)


def test_each_example_says_where_its_bytes_are() -> None:
    assert len(re.findall(r"^[0-9a-f]{8}  ", PAGE, re.MULTILINE)) == sum(len(e[3].splitlines()) for e in EXAMPLES)


@pytest.mark.parametrize(("version", "path", "position", "dump"), EXAMPLES, ids=[e[1] for e in EXAMPLES])
def test_the_bytes_of_an_example_are_a_brokers(
    version: str, path: str, position: str, dump: str, samples: Samples, old_samples: Samples
) -> None:
    root = {"4.3.1": samples, "2.8.2": old_samples}[version].root
    at = int(position)
    for line in dump.splitlines():
        address, _, shown = line.partition("  ")
        expected = bytes.fromhex(shown)
        assert int(address, 16) == at
        assert (root / path).read_bytes()[at : at + len(expected)] == expected
        at += len(expected)


def test_the_links_within_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= anchors
