"""The pictures of the README and of docs/report.md: the demo on a terminal, and its page in a browser.

``python -m tests.docs.screenshots`` makes all of them.

Those of the page are not compared in a test, since browsers and fonts differ; ``tests/cleaner/report/html`` looks at
the pages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.demo import make_demo
from storage.filesystem import FileSystem
from tests.browsers import a_chromium
from tests.docs.picture import NOW_MS, PICTURE, ROOT, picture

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES: Final = ROOT / "docs/pictures"


class Shot(NamedTuple):
    """One picture of a page."""

    name: str
    width: int
    height: int
    scheme: str
    opened: str = ""
    """The partition whose segments are shown."""


_CLEAN: Final = (
    "clean",
    "--dry-run",
    "--what-if",
    "retention.ms=1d,5d",
    "--now",
    str(NOW_MS),
    "--log-dir",
    "demo-logs",
)
SHOTS: Final = (
    Shot("report", 1400, 1180, "light"),
    Shot("report-dark", 1000, 760, "dark", "clicks-0"),
    Shot("report-narrow", 360, 900, "light"),
)


def main() -> None:
    """Make them all."""
    PICTURE.write_text(picture(), "utf-8")
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as scratch, a_chromium() as browser:
        make_demo(Path(scratch) / "demo-logs", FileSystem(), NOW_MS, 1)
        page = Path(scratch) / "report.html"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC"}
        command = (sys.executable, "-m", "cleaner", *_CLEAN, "--html", page.name)
        subprocess.run(command, check=True, cwd=scratch, env=environment, stdout=subprocess.DEVNULL)
        for shot in SHOTS:
            _take(browser, page, shot)


def _take(browser: Browser, path: Path, shot: Shot) -> None:
    viewport = {"width": shot.width, "height": shot.height}
    context = browser.new_context(viewport=viewport, color_scheme=shot.scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    if shot.opened:
        page.get_by_role("button", name=shot.opened, exact=True).click()
        page.locator("#partitions td.inside button.opens").first.click()
        page.evaluate("document.getElementById('partitions').scrollIntoView()")
    page.screenshot(path=PICTURES / f"{shot.name}.png")
    context.close()


if __name__ == "__main__":
    main()
