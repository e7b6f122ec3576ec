"""The site is built without a warning and without a dead link."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cleaner.documents.schemas import file_name
from tests.docs.blocks import PAGES, ROOT
from tests.schemas import names


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(site)],
        check=False, capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


def test_the_site_is_built_without_warnings_and_has_every_page(tmp_path: Path) -> None:
    done = build(ROOT / ".mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    made = {path.name for path in (tmp_path / "site").glob("*.html")}
    pages = {path.with_suffix(".html").name for path in (*PAGES, *ROOT.glob("*.md"))}
    assert made - {"404.html"} == pages - {"README.html"} | {"index.html"}
    assert {path.name for path in (tmp_path / "site/schemas").iterdir()} == {*map(file_name, names())}
    assert "<code>--what-if KEY=V1,V2,...</code>" in (tmp_path / "site/commands.html").read_text("utf-8")
    assert "https://fonts" not in (tmp_path / "site/index.html").read_text("utf-8")


@pytest.mark.parametrize("link", ["gone.md", "metrics.md#gone"])
def test_a_dead_link_fails_the_build(tmp_path: Path, link: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for path in PAGES[1:]:
        (docs / path.name).write_text(path.read_text("utf-8"), "utf-8")
    for folder in ("benchmark.svg", "pictures"):
        (docs / folder).symlink_to(ROOT / "docs" / folder)
    (docs / "glossary.md").write_text(f"# Words\n\n[dead]({link})\n", "utf-8")
    config = (ROOT / ".mkdocs.yml").read_text("utf-8")
    hook = f"  - {ROOT / 'tests/docs/site.py'}"
    (tmp_path / "mkdocs.yml").write_text(config.replace("  - tests/docs/site.py", hook), "utf-8")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert link in done.stderr
