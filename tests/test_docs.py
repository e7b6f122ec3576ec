"""What the documents say is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import build_parser
from policies.reasons import ReasonCode
from policies.restoring import RestoreCode

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_reason_code_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/reasons.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted([*ReasonCode, *RestoreCode])


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/.]+)`|\]\((docs/[\w.]+)\)", README))))
def test_every_path_that_the_readme_names_exists(path: tuple[str, str]) -> None:
    assert (ROOT / (path[0] or path[1])).exists()


def test_every_command_is_in_the_readme() -> None:
    (commands,) = (action.choices for action in build_parser()._actions if action.dest == "command")
    assert commands is not None
    assert [name for name in commands if f"`logcleaner {name}" not in README] == []


def test_every_exit_status_is_in_the_readme() -> None:
    documented = {int(n) for line in re.findall(r"^\| ([\d, ]+) \|", README, re.MULTILINE) for n in line.split(",")}
    assert documented == {int(status) for status in ExitStatus}
