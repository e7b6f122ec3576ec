"""The Debian package, made of the wheel, installed, used and removed in a chroot.

The chroot is an overlay over this machine's own Debian, which needs root. In a fresh Debian that debootstrap fetches,
(some minutes): ``LOGCLEANER_DEBOOTSTRAP=bookworm pytest tests/test_debian_package.py``.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cleaner import __version__
from tests.debian_chroots import FRESH, Chroot, a_debian, needed, run

ROOT = Path(__file__).parent.parent
COMPLETIONS = (
    "usr/share/bash-completion/completions/logcleaner",
    "usr/share/zsh/vendor-completions/_logcleaner",
    "usr/share/fish/vendor_completions.d/logcleaner.fish",
)
MAINTAINER = "A. Packager <packager@example.org>"
pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Installed:
    """The package once it is installed."""

    debian: Chroot
    files: list[Path]
    told: str
    """What the install wrote to stderr."""

    @property
    def venv(self) -> Path:
        return self.debian.root / "opt/logcleaner"

    @property
    def doc(self) -> Path:
        return self.debian.root / "usr/share/doc/logcleaner"


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
    name, _, address = MAINTAINER.rstrip(">").partition(" <")
    named = {**os.environ, "DEBFULLNAME": name, "DEBEMAIL": address}
    made = run(ROOT / "packaging/debian-package", wheel, directory, uv, env=named)
    assert made.returncode == 0, made.stdout + made.stderr
    (deb,) = directory.glob("*.deb")
    return deb


@pytest.fixture(scope="module")
def debian() -> Iterator[Chroot]:
    with a_debian(FRESH) as debian:
        yield debian


@pytest.fixture(scope="module")
def installed(package: Path, debian: Chroot) -> Installed:
    shutil.copy(package, debian.root / "logcleaner.deb")
    done = debian.run("dpkg", "--force-unsafe-io", "--install", "/logcleaner.deb")
    assert done.returncode == 0, done.stderr
    listed = debian.ok("dpkg", "--listfiles", "logcleaner").split()
    files = [path for file in listed if not (path := debian.root / file.lstrip("/")).is_dir() or path.is_symlink()]
    return Installed(debian, files, done.stderr)


def field(package: Path, name: str) -> str:
    return run("dpkg-deb", "--field", package, name).stdout.strip()


def test_it_names_who_made_it_and_its_changes(package: Path, installed: Installed) -> None:
    assert field(package, "Maintainer") == MAINTAINER
    assert field(package, "Version") == f"{__version__}-1"
    changes = gzip.decompress((installed.doc / "changelog.Debian.gz").read_bytes()).decode()
    assert changes.startswith(f"logcleaner ({__version__}-1) ")
    assert f"\n -- {MAINTAINER}  " in changes
    assert gzip.decompress((installed.doc / "changelog.gz").read_bytes()) == (ROOT / "CHANGELOG.md").read_bytes()


def test_the_licence_of_everything_in_it_is_told(installed: Installed) -> None:
    told = (installed.doc / "copyright").read_text()
    found = [path.name for path in installed.venv.glob("lib/python3*/site-packages/*.dist-info")]
    carried = {tuple(name.removesuffix(".dist-info").rsplit("-", 1)) for name in found} - {("logcleaner", __version__)}
    assert len(carried) > 10
    chapters = re.findall(r"^=+\n(\S+) (\S+)\nLicence: (\S.*)$", told, re.MULTILINE)
    assert {(name.lower().replace("-", "_"), version) for name, version, _ in chapters} == {
        (name.lower(), version) for name, version in carried
    }
    pointers = re.findall(r"/usr/share/common-licenses/(\S+)\.\)", told)
    assert {"Apache-2.0", "GPL-3", "LGPL-2.1"} <= set(pointers)
    assert all((Path("/usr/share/common-licenses") / name).exists() for name in pointers)
    assert "END OF TERMS AND CONDITIONS" not in told
    for rightful in ("Copyright (c) 2005-", "NumPy Developers", "Compiled into it:"):
        assert rightful in told


def test_it_holds_no_bytecode_and_the_install_makes_it(package: Path, installed: Installed) -> None:
    contents = run("dpkg-deb", "--contents", package).stdout
    assert "/opt/logcleaner/lib/" in contents
    assert not re.search(r"__pycache__|\.pyc$", contents, re.MULTILINE)
    assert "bytecode" not in installed.told
    modules = [path for path in installed.files if path.suffix == ".py"]
    without = [path for path in modules if not [*path.parent.glob(f"__pycache__/{path.stem}.cpython-3*.pyc")]]
    assert modules
    assert without == []


def test_its_files_are_those_that_were_packed(installed: Installed) -> None:
    assert installed.debian.ok("dpkg", "--verify", "logcleaner") == ""


def test_it_cleans_without_a_network(installed: Installed) -> None:
    debian = installed.debian
    assert debian.ok("logcleaner", "--version") == f"logcleaner {__version__}\n"
    debian.ok("logcleaner", "demo", "/srv/demo")
    config = ("--config", "/etc/logcleaner.toml", "--log-dir", "/srv/demo")
    cleaned = debian.ok("logcleaner", "clean", "--yes", *config)
    assert (debian.root / "var/lib/logcleaner/logcleaner.prom").exists()
    assert re.search(r"^Deleted +\d+ segments", cleaned, re.MULTILINE)
    assert re.search(r"^Compacted +\d+ partitions", cleaned, re.MULTILINE)


def test_all_that_its_libraries_need_is_in_it_or_in_what_it_depends_on(package: Path, installed: Installed) -> None:
    debian = installed.debian
    libraries = ["/" + str(path.relative_to(debian.root)) for path in installed.files if ".so" in path.name]
    assert libraries
    loaded = debian.ok("ldd", *libraries)
    assert "not found" not in loaded
    outside = {line for line in re.findall(r"=> (/\S+) ", loaded) if not line.startswith("/opt/")}
    owners = {debian_owner(debian, path) for path in outside}
    depends = set(re.findall(r"[a-z][a-z0-9+.-]+", re.sub(r"\([^)]*\)", "", field(package, "Depends"))))
    assert owners == depends - {"python3"}


def debian_owner(debian: Chroot, library: str) -> str:
    """Return the package of a library; /lib is a link to /usr/lib, and dpkg knows one of the names."""
    for path in (library, library.removeprefix("/usr"), f"/usr{library}"):
        if found := debian.run("dpkg", "--search", path).stdout:
            return found.partition(":")[0]
    raise AssertionError(library)


def test_units_page_and_completions_are_where_debian_has_them(installed: Installed) -> None:
    root = installed.debian.root
    unit = root / "usr/lib/systemd/system/logcleaner.service"
    assert "ExecStart=/usr/bin/logcleaner run " in unit.read_text()
    wanted = {unit, root / "usr/share/man/man1/logcleaner.1.gz", *(root / c for c in COMPLETIONS)}
    assert wanted <= set(installed.files)
    assert all(path.stat().st_size > 1000 for path in wanted)
    installed.debian.ok("bash", "-n", f"/{COMPLETIONS[0]}")


def test_nothing_in_it_names_where_it_was_made(installed: Installed) -> None:
    venv = installed.venv
    assert (venv / "bin/logcleaner").read_text().startswith("#!/opt/logcleaner/bin/python")
    python = Path("/usr/bin/python3").resolve().name
    assert {path.name for path in (venv / "bin").iterdir()} == {"logcleaner", "python", "python3", python}
    plain = [path for path in installed.files if not path.is_symlink()]
    assert [path for path in plain if path.stat().st_mode & 0o022] == []
    assert [path for path in plain if re.search(rb"/tmp/tmp\.\w{10}\b", path.read_bytes())] == []


@pytest.mark.timeout(1800)  # it looks at each of 5,000 files, which takes minutes on a busy machine
def test_lintian_finds_no_error_and_the_overrides_hold_no_more_than_they_must(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("NOT RUN: there is no lintian here")
    user = [] if os.geteuid() else ["--allow-root"]
    done = run("lintian", *user, "--no-cfg", "--tag-display-limit=0", "--display-info", package)
    assert [line for line in done.stdout.splitlines() if line.startswith("E:")] == []
    assert not re.search(r"(unused|mismatched)-override", done.stdout), done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_goes_without_a_trace(installed: Installed) -> None:
    installed.debian.ok("dpkg", "--force-unsafe-io", "--purge", "logcleaner")
    assert [path for path in installed.files if path.is_symlink() or path.exists()] == []
    for directory in ("opt/logcleaner", "var/lib/logcleaner", "var/cache/logcleaner"):
        assert not (installed.debian.root / directory).exists()
