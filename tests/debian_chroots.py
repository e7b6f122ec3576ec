"""A Debian to try packages in: a chroot without network, an overlay over this machine's own Debian. That needs root."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.debian_packages import program

FRESH: Final = os.environ.get("LOGCLEANER_DEBOOTSTRAP")
"""The release that debootstrap fetches, in place of this machine's own Debian."""
MIRROR: Final = "http://deb.debian.org/debian"
ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command, and return what it wrote and its status."""
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def needed(*command: str | Path) -> None:
    """Run what the test cannot do without. If that does not work, skip the test aloud."""
    try:
        done = run(*command)
    except FileNotFoundError as error:
        pytest.skip(f"NOT RUN: there is no {error.filename} here")
    if done.returncode:
        pytest.skip(f"NOT RUN: {command[0]} does not work here (it needs root): {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Chroot:
    """A Debian that lasts as long as the test."""

    root: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the chroot, without network."""
        return run("unshare", "--net", "chroot", self.root, *command, env=ENVIRONMENT | environment)

    def ok(self, *command: str, **environment: str) -> str:
        """Run a command in the chroot that has to succeed, and return what it wrote to stdout."""
        done = self.run(*command, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def a_debian(release: str | None = None) -> Iterator[Chroot]:
    """Make a Debian, an overlay, so that nothing of what it lies over changes.

    Args:
        release: one that debootstrap fetches; None is this machine's own Debian.
    """
    needed("unshare", "--net", "true")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        base = _fetched(release, scratch) if release else Path("/")
        disk, root = scratch / "disk", scratch / "root"
        for directory in (disk, root):
            directory.mkdir()
        _mount(stack, disk, "-t", "tmpfs", "tmpfs")
        for directory in (disk / "upper", disk / "work"):
            directory.mkdir()
        layers = f"lowerdir={base},upperdir={disk / 'upper'},workdir={disk / 'work'}"
        _mount(stack, root, "-t", "overlay", "-o", layers, "overlay")
        for of_kernel in ("dev", "proc"):
            _mount(stack, root / of_kernel, "--bind", f"/{of_kernel}")
        yield Chroot(root)


def _mount(stack: ExitStack, place: Path, *how: str) -> None:
    needed("mount", *how, place)
    stack.callback(run, "umount", "--lazy", place)


def _fetched(release: str, scratch: Path) -> Path:
    debootstrap = program("debootstrap", "debootstrap", below="usr/sbin")
    root, scripts = scratch / "fresh", debootstrap.parents[1] / "share/debootstrap"
    options = ("--variant=minbase", "--include=python3,libstdc++6")
    done = run(debootstrap, *options, release, root, MIRROR, env=ENVIRONMENT | {"DEBOOTSTRAP_DIR": str(scripts)})
    assert done.returncode == 0, done.stdout + done.stderr
    return root
