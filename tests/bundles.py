"""The bundle for the tests: made of this working copy once a session, unpacked, and tried in bare userlands.

Python and the dependencies are kept in the user's cache, by a hash of all that they are made of.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parent.parent
USER: Final = 1001
"""Of no passwd entry."""
BUILD_SECONDS_MAX: Final = 400
TRIAL_SECONDS_MAX: Final = 200
INSTALLED: Final = "opt/logcleaner"


def make_bundle(scratch: Path) -> Path:
    """Build the wheel and the bundle of it, unpack that, and return its directory; skip aloud if that cannot be."""
    library, _ = platform.libc_ver()
    if library != "glibc" or not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("NOT RUN: the bundle is made with glibc and a C compiler")
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    _run(uv, "build", "--quiet", "--wheel", "--out-dir", scratch, ROOT)
    (wheel,) = scratch.glob("*.whl")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logcleaner-tests/bundle"
    _run(sys.executable, ROOT / "packaging/bundle", wheel, scratch, "--uv", uv, "--base", cache, "--level", "1")
    (archive,) = scratch.glob("*.tar.zst")
    _run("tar", f"--use-compress-program={sys.executable} -c '{_UNPACK}'", "-xf", archive, "-C", scratch)
    return scratch / "logcleaner"


_UNPACK: Final = (
    "import sys, zstandard; "
    "zstandard.ZstdDecompressor(max_window_size=2**27).copy_stream(sys.stdin.buffer, sys.stdout.buffer)"
)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Userland:
    """A directory that commands take for the root of the system; they run as a user without name and home."""

    root: Path

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the bundle's command."""
        return self.run(f"/{INSTALLED}/logcleaner", *arguments, **environment)

    def ok(self, *arguments: str) -> str:
        """Run the bundle's command and return what it printed; see that it succeeds."""
        done = self(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TRIAL_SECONDS_MAX, **self.how(environment)
        )

    def start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the bundle's command; its stderr goes to a file."""
        with log.open("wb") as stderr:
            return subprocess.Popen((f"/{INSTALLED}/logcleaner", *arguments), stderr=stderr, **self.how({}))

    def how(self, environment: Mapping[str, str]) -> dict[str, Any]:
        return {"env": environment, "preexec_fn": self._enter}

    def _enter(self) -> None:
        os.chroot(self.root)
        os.chdir("/")
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)

    def own(self, name: str) -> Path:
        """Make a directory, if need be, and give it with all in it to the user."""
        directory = self.root / name
        directory.mkdir(parents=True, exist_ok=True)
        for path in (directory, *directory.rglob("*")):
            os.chown(path, USER, USER)
        return directory


def empty_userland(root: Path, bundle: Path) -> Userland:
    """Make a system of nothing but the bundle: no shell, no library, no /proc, no /dev."""
    if os.geteuid() != 0:
        pytest.skip("NOT RUN: chroot needs root")
    root.chmod(0o755)
    shutil.copytree(bundle, root / INSTALLED, symlinks=True, copy_function=os.link)
    userland = Userland(root)
    userland.own("srv")
    return userland
