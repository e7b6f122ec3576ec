"""Debian's headless Chromium for the tests: fetched with all that it needs, and not installed.

Packages that are installed on the machine are fetched, too: the shell finds its data only beside itself, and an
installed package may be gone tomorrow. Only the C library is the machine's own.
"""

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

SHELL: Final = "chromium-headless-shell"
PACKAGES: Final = (SHELL, "chromium-common", "fonts-dejavu-core", "fontconfig-config")
"""The program, its data, and a font, so that pictures look alike on each machine."""
PROGRAM: Final = "usr/lib/chromium/chromium-headless-shell"
_OF_THE_MACHINE: Final = frozenset(("libc6", "libgcc-s1"))
"""A C library works with the loader of its own version alone."""
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
    """Start a headless Chromium, and end it. Without one the test is skipped aloud."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        pytest.skip(f"NOT RUN: {error.name} is not installed")
    root = unpacked()
    program = root / PROGRAM
    environment: dict[str, str | float | bool] = {
        **os.environ,
        "LD_LIBRARY_PATH": libraries(root),
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


def libraries(root: Path) -> str:
    """Return the directories in which the unpacked program finds its libraries."""
    found = [path.parent for top in ("lib", "usr/lib") for path in (root / top).rglob("*.so*")]
    return os.pathsep.join(sorted({str(directory) for directory in found}))


@cache
def unpacked() -> Path:
    """The files of the packages; fetched once, then from the user's cache."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache_home / "logcleaner-tests" / platform.machine() / "chromium-whole"
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
        _run(scratch, "apt-get", "download", "-q", *PACKAGES, *_libraries_wanted(scratch))
        for deb in scratch.glob("*.deb"):
            _run(scratch, "dpkg-deb", "--extract", deb.name, "files")
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        pytest.skip(f"NOT RUN: Debian's {SHELL} cannot be fetched: {error} {said[-300:]}")
    if not shutil.which("dpkg-deb"):
        pytest.skip("NOT RUN: there is no dpkg-deb")


def _libraries_wanted(directory: Path) -> list[str]:
    """Return what the program needs where nothing is installed. chromium-common would draw in a desktop as well."""
    said = _run(directory, "apt-cache", "depends", SHELL)
    direct = set(re.findall(r"^ +Depends: ([\w.+-]+)$", said, re.MULTILINE)) - {*PACKAGES}
    nothing_installed = ("-o", "Dir::State::status=/dev/null")
    said = _run(
        directory, "apt-get", *nothing_installed, "--simulate", "--no-install-recommends", "install", *sorted(direct)
    )
    return sorted({*re.findall(r"^Inst (\S+)", said, re.MULTILINE)} - {*PACKAGES, *_OF_THE_MACHINE})


def _run(directory: Path, *command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=directory, timeout=DOWNLOAD_SECONDS_MAX,
        env={**os.environ, "LANG": "C.UTF-8"},
    )  # fmt: skip
    return done.stdout
