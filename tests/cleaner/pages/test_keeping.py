"""The daemon's last plan as a page."""

from __future__ import annotations

import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.means import Silent
from cleaner.pages.keeping import PageKeeper
from policies.plan import Plan
from tests.cleaner.report.html.reports import report_of
from tests.cleaner.report.plans import NOW_MS, a_partition, a_plan

PLAN = a_plan(a_partition("clicks-0", 9, 5, 1))


class Heard(Silent):
    """A listener that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))


def document(plan: Plan) -> dict[str, Any]:
    return report_of(plan).document()


def test_each_plan_replaces_the_page(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    heard = Heard()
    keeper = PageKeeper(page, document, heard)
    keeper.planned(PLAN, NOW_MS)
    keeper.close(60)
    assert "This run would delete 2 segments" in page.read_text("utf-8")
    assert stat.S_IMODE(page.stat().st_mode) == 0o644
    assert heard.events == []
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_a_plan_that_waits_gives_way_to_a_newer_one(tmp_path: Path) -> None:
    begun, go_on, made = threading.Event(), threading.Event(), []

    def slow(plan: Plan) -> dict[str, Any]:
        begun.set()
        assert go_on.wait(60)
        made.append(len(plan.partitions))
        return document(plan)

    keeper = PageKeeper(tmp_path / "plan.html", slow, Silent())
    keeper.planned(PLAN, NOW_MS)
    assert begun.wait(60)
    keeper.planned(a_plan(), NOW_MS)
    keeper.planned(a_plan(a_partition("clicks-0", 1), a_partition("clicks-1", 1)), NOW_MS)
    go_on.set()
    keeper.close(60)
    assert made == [1, 2]


def test_what_fails_is_told_once_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    heard, made = Heard(), threading.Semaphore(0)

    def counted(plan: Plan) -> dict[str, Any]:
        made.release()
        return document(plan)

    page = tmp_path / "gone" / "plan.html"
    keeper = PageKeeper(page, counted, heard)
    for _ in range(3):
        keeper.planned(PLAN, NOW_MS)
        assert made.acquire(timeout=60)
    keeper.close(60)
    error = f"{page}: cannot be written: No such file or directory"
    assert heard.events == [("page_failed", {"path": str(page), "error": error})]


def test_an_end_does_not_wait_for_a_page_that_takes_long(tmp_path: Path) -> None:
    never = threading.Event()

    def endless(plan: Plan) -> dict[str, Any]:
        never.wait(60)
        return document(plan)

    keeper = PageKeeper(tmp_path / "plan.html", endless, Silent())
    keeper.planned(PLAN, NOW_MS)
    keeper.close(0.05)
    assert not (tmp_path / "plan.html").exists()
    never.set()


@pytest.mark.parametrize("options", [("--observe",), ()])
def test_one_round_of_the_daemon_leaves_its_page(demo_copy: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    config = tmp_path / "logcleaner.toml"
    config.write_text(f'log.dirs = ["{demo_copy}"]\n[report]\nhtml = "plan.html"\n')
    assert main(["run", "--once", "--config", str(config), *options]) == 0
    text = (tmp_path / "plan.html").read_text("utf-8")
    assert "What clean would do" in text or "what clean would do" in text
    assert "logcleaner.toml" in text


@pytest.fixture
def demo_copy(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "data"))


def test_the_daemon_does_not_start_without_the_extra(
    demo_copy: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cleaner.report.html.is_drawable", lambda: False)
    config = tmp_path / "logcleaner.toml"
    config.write_text(f'log.dirs = ["{demo_copy}"]\n[report]\nhtml = "plan.html"\n')
    assert main(["run", "--once", "--config", str(config)]) == 2
    assert "report.html = " in capsys.readouterr().err
