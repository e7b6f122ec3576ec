"""Debian's headless Chromium for the tests: fetched with the libraries that it lacks, and not installed."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PACKAGES: Final = ("chromium-headless-shell", "fonts-dejavu-core", "fontconfig-config")
"""The font is named, so that pictures look alike on each machine."""
DOWNLOAD_SECONDS_MAX: Final = 600
_FONTS: Final = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir>
<alias binding="same"><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
<alias binding="same"><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
<alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


@contextmanager
def a_chromium() -> Iterator[Browser]:
    """Start a headless Chromium, and end it. The test is skipped aloud where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        pytest.skip(f"NOT RUN: {error.name} is not installed")
    root = _unpacked()
    program = root / "usr/lib/chromium/chromium-headless-shell"
    environment: dict[str, str | float | bool] = {
        **os.environ,
        "LD_LIBRARY_PATH": _libraries(root),
        "FONTCONFIG_FILE": str(root / "fonts.conf"),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--no-first-run"], env=environment
        )
        try:
            yield browser
        finally:
            browser.close()


def _libraries(root: Path) -> str:
    return os.pathsep.join(sorted({str(path.parent) for path in (root / "usr/lib").rglob("*.so*")}))


@cache
def _unpacked() -> Path:
    """The files of the packages; fetched once, then from the user's cache."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache_home / "logcleaner-tests" / platform.machine() / "chromium"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name("chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
                _fetch(Path(scratch))
                (Path(scratch) / "files").rename(directory)
            fonts = _FONTS.format(fonts=directory / "usr/share/fonts", cache=directory / "fonts-cache")
            (directory / "fonts.conf").write_text(fonts, "utf-8")
    return directory


def _fetch(scratch: Path) -> None:
    try:
        wanted = _run(scratch, "apt-get", "--simulate", "--no-install-recommends", "--reinstall", "install", *PACKAGES)
        names = dict.fromkeys([*PACKAGES, *re.findall(r"^Inst (\S+)", wanted, re.MULTILINE)])
        _run(scratch, "apt-get", "download", "-q", *names)
        for deb in scratch.glob("*.deb"):
            _run(scratch, "dpkg-deb", "--extract", deb.name, "files")
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        pytest.skip(f"NOT RUN: Debian's {PACKAGES[0]} cannot be fetched: {error} {said[-300:]}")
    if not shutil.which("dpkg-deb"):
        pytest.skip("NOT RUN: there is no dpkg-deb")


def _run(directory: Path, *command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=directory, timeout=DOWNLOAD_SECONDS_MAX,
        env={**os.environ, "LANG": "C.UTF-8"},
    )  # fmt: skip
    return done.stdout
