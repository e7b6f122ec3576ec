"""The Debian package, made of the wheel, installed, used and removed in a chroot.

The chroot is an overlay over this machine's own Debian, which needs root. In a fresh Debian that debootstrap fetches,
with bytecode and a compaction (some minutes): ``LOGCLEANER_DEBOOTSTRAP=bookworm pytest tests/test_debian_package.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cleaner import __version__
from tests.debian_packages import program

ROOT = Path(__file__).parent.parent
FRESH = os.environ.get("LOGCLEANER_DEBOOTSTRAP")
MIRROR = "http://deb.debian.org/debian"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
COMPLETIONS = (
    "usr/share/bash-completion/completions/logcleaner",
    "usr/share/zsh/vendor-completions/_logcleaner",
    "usr/share/fish/vendor_completions.d/logcleaner.fish",
)


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def needed(*command: str | Path) -> None:
    """What the test cannot do without; skipped aloud where it does not work."""
    try:
        done = run(*command)
    except FileNotFoundError as error:
        pytest.skip(f"NOT RUN: there is no {error.filename} here")
    if done.returncode:
        pytest.skip(f"NOT RUN: {command[0]} does not work here (it needs root): {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Chroot:
    """A Debian to try things in."""

    root: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run("chroot", self.root, *command, env=ENVIRONMENT | environment)

    def ok(self, *command: str, **environment: str) -> str:
        done = self.run(*command, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if run("/usr/bin/python3", "-c", "import venv, sys; sys.exit(sys.version_info < (3, 11))").returncode:
        pytest.skip("NOT RUN: /usr/bin/python3 is not there, is older than 3.11, or has no venv")
    needed("dpkg-deb", "--version")
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    directory = tmp_path_factory.mktemp("package")
    built = run(uv, "build", "--quiet", "--wheel", "--out-dir", directory, ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = directory.glob("*.whl")
    made = run(ROOT / "packaging/debian-package", wheel, directory, uv)
    assert made.returncode == 0, made.stdout + made.stderr
    (deb,) = directory.glob("*.deb")
    return deb


@pytest.fixture(scope="module")
def debian() -> Iterator[Chroot]:
    """An overlay, so that nothing of what it lies over changes."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        base = fresh_debian(scratch) if FRESH else Path("/")
        disk, root = scratch / "disk", scratch / "root"
        for directory in (disk, root):
            directory.mkdir()
        mount(stack, disk, "-t", "tmpfs", "tmpfs")
        for directory in (disk / "upper", disk / "work"):
            directory.mkdir()
        layers = f"lowerdir={base},upperdir={disk / 'upper'},workdir={disk / 'work'}"
        mount(stack, root, "-t", "overlay", "-o", layers, "overlay")
        for of_kernel in ("dev", "proc"):
            mount(stack, root / of_kernel, "--bind", f"/{of_kernel}")
        yield Chroot(root)


def mount(stack: ExitStack, place: Path, *how: str) -> None:
    needed("mount", *how, place)
    stack.callback(run, "umount", "--lazy", place)


def fresh_debian(scratch: Path) -> Path:
    debootstrap = program("debootstrap", "debootstrap", below="usr/sbin")
    root, scripts = scratch / "fresh", debootstrap.parents[1] / "share/debootstrap"
    options = ("--variant=minbase", "--include=python3,libstdc++6")
    done = run(debootstrap, *options, FRESH or "", root, MIRROR, env=ENVIRONMENT | {"DEBOOTSTRAP_DIR": str(scripts)})
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture(scope="module")
def files(package: Path, debian: Chroot) -> list[Path]:
    """Of the package, once it is installed."""
    shutil.copy(package, debian.root / "logcleaner.deb")
    quick = {} if FRESH else {"LOGCLEANER_NO_BYTECODE": "1"}
    debian.ok("dpkg", "--force-unsafe-io", "--install", "/logcleaner.deb", **quick)
    listed = debian.ok("dpkg", "--listfiles", "logcleaner").split()
    return [path for file in listed if not (path := debian.root / file.lstrip("/")).is_dir() or path.is_symlink()]


def test_it_cleans(files: list[Path], debian: Chroot) -> None:
    assert debian.ok("logcleaner", "--version") == f"logcleaner {__version__}\n"
    debian.ok("logcleaner", "demo", "/srv/demo")
    only = () if FRESH else ("--only", "retention")
    config = ("--config", "/etc/logcleaner.toml", "--log-dir", "/srv/demo")
    cleaned = debian.ok("logcleaner", "clean", "--yes", *only, *config)
    assert (debian.root / "var/lib/logcleaner/logcleaner.prom").exists()
    assert re.search(r"^Deleted +\d+ segments", cleaned, re.MULTILINE)
    assert FRESH is None or re.search(r"^Compacted +\d+ partitions", cleaned, re.MULTILINE)


def test_units_page_and_completions_are_where_debian_has_them(files: list[Path], debian: Chroot) -> None:
    unit = debian.root / "usr/lib/systemd/system/logcleaner.service"
    assert "ExecStart=/usr/bin/logcleaner run " in unit.read_text()
    wanted = {unit, debian.root / "usr/share/man/man1/logcleaner.1.gz", *(debian.root / c for c in COMPLETIONS)}
    assert wanted <= set(files)
    assert all(path.stat().st_size > 1000 for path in wanted)
    debian.ok("bash", "-n", f"/{COMPLETIONS[0]}")


def test_nothing_in_it_names_where_it_was_made(files: list[Path], debian: Chroot) -> None:
    venv = debian.root / "opt/logcleaner"
    assert "/tmp/" not in (venv / "pyvenv.cfg").read_text()
    assert (venv / "bin/logcleaner").read_text().startswith("#!/opt/logcleaner/bin/python")
    python = Path("/usr/bin/python3").resolve().name
    assert {path.name for path in (venv / "bin").iterdir()} == {"logcleaner", "python", "python3", python}
    assert [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o022] == []


def test_it_goes_without_a_trace(files: list[Path], debian: Chroot) -> None:
    debian.ok("dpkg", "--force-unsafe-io", "--purge", "logcleaner")
    assert [path for path in files if path.is_symlink() or path.exists()] == []
    for directory in ("opt/logcleaner", "var/lib/logcleaner", "var/cache/logcleaner"):
        assert not (debian.root / directory).exists()
