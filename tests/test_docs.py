"""What the documents say is there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import build_parser
from cleaner.cli.parser import commands_of
from cleaner.events import Event
from policies.config.config_keys import BROKER_KEY, TOPIC_KEY
from policies.erasure import ErasureRefusal, StayReason
from policies.explain.blockers import BlockerCode
from policies.explain.changes import ChangeCode
from policies.findings.repairs import RepairCode, RevertCode
from policies.prove_erased import DepartureCode, Need
from policies.reasons import ReasonCode
from policies.record_deletion import DeletionRefusal
from policies.restore import RestoreCode
from storage.log.search import StepKind
from tests.models.small_logs.limits import RELATIONS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
COMMANDS = PAGES["docs/commands.md"]
REACHED_FROM_OTHERS = {
    "docs/as-of.md", "docs/conventions.md", "docs/delete-records.md", "docs/dependencies.md", "docs/diff.md",
    "docs/erase.md", "docs/events.md", "docs/import.md", "docs/move.md", "docs/new-release.md", "docs/repack.md",
    "docs/testing.md",
}  # fmt: skip
"""Pages that the README leads to by another page, or that are for developers."""
README_WORDS_MAX = 1600
RESULTS = ("clear", "found", "undecoded", "unread", "no_keys")


def test_every_reason_code_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([A-Z_]+)` \|", PAGES["docs/reasons.md"], re.MULTILINE)
    assert sorted(documented) == sorted([*ReasonCode, *RestoreCode])


def test_the_limit_of_each_reason_is_documented_under_its_key() -> None:
    rows = re.findall(r"^\| (`[a-z.]+`.*?) \| (.*?) \|", PAGES["docs/reasons.md"], re.MULTILINE)
    told = {(key, code) for keys, codes in rows for key in re.findall(r"`(\S+)`", keys)
            for code in re.findall(r"`([A-Z_]+)`", codes)}  # fmt: skip
    assert {key for key, _ in told} <= {*TOPIC_KEY, *BROKER_KEY}
    assert {(key, code) for code, (key, _) in RELATIONS.items()} <= told


def test_every_blocker_and_change_of_explain_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([A-Z_]+)` \|", PAGES["docs/explain.md"], re.MULTILINE)
    assert documented == [*ChangeCode, *BlockerCode]


def test_every_refusal_of_delete_records_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([A-Z_]+)` \|", PAGES["docs/delete-records.md"], re.MULTILINE)
    assert sorted(documented) == sorted(DeletionRefusal)


def test_every_reason_of_erase_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([A-Z_]+)` \|", PAGES["docs/erase.md"], re.MULTILINE)
    assert documented == [*StayReason, *ErasureRefusal]


def test_every_verdict_on_a_repair_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([A-Z_]+)` \|", PAGES["docs/repair.md"], re.MULTILINE)
    assert documented == [*RepairCode, *RevertCode]


def test_every_event_is_documented_with_its_level_and_no_other() -> None:
    documented = re.findall(r"^\| (\w+) \| (\w+) \|", PAGES["docs/events.md"].replace("`", ""), re.MULTILINE)
    levels = {event.value: event.level.name.lower() for event in Event}
    assert dict(documented[1:]) == levels | {"Event": "Level"}
    assert len(documented) == len(levels) + 2  # a head for each table


def test_every_way_out_of_a_file_and_every_need_has_its_line() -> None:
    page = PAGES["docs/prove-erased.md"]
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"\w+", cell)}
    assert documented >= {*map(str, DepartureCode), *map(str, Need), *RESULTS}
    assert {name for name in documented if name.isupper()} == {*map(str, DepartureCode), *map(str, Need)}


def test_every_step_of_a_lookup_is_told() -> None:
    page = PAGES["docs/lookup.md"]
    assert [kind for kind in StepKind if f"`{kind.value}`" not in page] == []


def test_a_reader_finishes_the_readme() -> None:
    """Counted as ``wc -w README.md`` does. What does not fit belongs into docs/."""
    assert len(README.split()) <= README_WORDS_MAX


def test_the_readme_keeps_its_order() -> None:
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == [
        "Install", "The demo", "The disk is full", "Look before you clean", "Will the broker start?", "Clean", "Undo",
        "As a service", "Spark", "How it compares", "What it never does", "More",
    ]  # fmt: skip


def test_who_has_a_full_disk_reads_there_how_to_bring_the_tool_to_the_host() -> None:
    in_trouble = README.partition("\n## The disk is full\n")[2].partition("\n## ")[0]
    ways = re.findall(r"^- \*\*(.*?):\*\*", in_trouble.partition("\n### Bring it to the host\n")[2], re.MULTILINE)
    assert len(ways) == 5
    assert "(#the-disk-is-full)" in README.partition("\n## ")[0]


def test_the_first_screen_of_the_readme_says_what_protects() -> None:
    screen = README.partition("\n## ")[0]
    assert [words for words in ("high watermark", "own bytes", "journal", "kernels") if words not in screen] == []


def test_no_page_stops_every_broker_for_the_sake_of_one() -> None:
    """A StatefulSet of no replicas is a cluster that is down; docs/kubernetes.md has the way for one broker."""
    pods = next(line for line in README.split("\n- ") if line.startswith("**A pod"))
    assert "docs/kubernetes.md#a-broker-does-not-start" in pods
    assert [name for name, page in PAGES.items() if "--replicas=0" in page] == ["docs/kubernetes.md"]
    before, scaled, _ = PAGES["docs/kubernetes.md"].partition("--replicas=0")
    assert scaled
    assert "--cascade=orphan" in before  # the way that stops one broker comes first


def test_the_comparison_says_where_kafka_is_the_better_choice() -> None:
    rows = README.partition("\n## How it compares\n")[2].partition("\n## ")[0].splitlines()
    assert any("**better**" in row.split("|")[2] for row in rows if row.startswith("| "))


def test_the_readme_leads_to_every_page_that_is_not_for_developers() -> None:
    assert {page for page in PAGES if page not in README and page not in REACHED_FROM_OTHERS} == set()


@pytest.mark.parametrize(
    "path", sorted({path for text in (README, *PAGES.values()) for path in re.findall(r"`(tests/[\w/.]+)`", text)})
)
def test_every_path_that_a_page_names_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[\w/.-]+)", README))))
def test_every_link_of_the_readme_leads_to_a_file(path: str) -> None:
    """Links between pages are checked by the build of the site (tests/docs/test_site.py)."""
    assert (ROOT / path).exists()


def test_every_command_is_documented() -> None:
    commands = commands_of(build_parser())
    assert commands
    assert [name for name in commands if f"| `logcleaner {name}" not in COMMANDS] == []


def test_every_exit_status_is_documented() -> None:
    documented = {int(n) for line in re.findall(r"^\| ([\d, ]+) \|", COMMANDS, re.MULTILINE) for n in line.split(",")}
    assert documented == {int(status) for status in ExitStatus}


BY_A_NAME_THAT_NO_INDEX_HAS = re.compile(
    r"logcleaner\[\w|(?:pipx?|uv pip|uv tool|uv) (?:install|add) (?:-\S+ )*['\"]?logcleaner\b"
)
EXTRA = re.compile(r"(?:'\.|FILE\.whl)\[(\w+)\]'")


def test_what_installs_an_extra_works_where_no_index_has_logcleaner() -> None:
    """README, help, errors, units and examples name the sources or a wheel."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = {
        name: (ROOT / name).read_text("utf-8")
        for name in listed.split("\0")
        if name.endswith((".md", ".py", ".txt", ".toml", ".service", ".yaml", ".yml")) and (ROOT / name).is_file()
    }
    here = Path(__file__).relative_to(ROOT).as_posix()
    wrong = {name: found[0] for name, text in texts.items() if (found := BY_A_NAME_THAT_NO_INDEX_HAS.search(text))}
    assert wrong.keys() <= {here}, wrong
    extras = tomllib.loads(texts["pyproject.toml"])["project"]["optional-dependencies"].keys()
    named = {extra for name, text in texts.items() if not name.startswith("tests/") for extra in EXTRA.findall(text)}
    assert named == set(extras)
