"""A release is all of its files, the commit and the tag, or nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cleaner import __version__

ROOT = Path(__file__).parents[2]
CHANGES = "# Changelog\n\n## Unreleased\n\n### Added\n- A thing.\n\n## 0.0.9 - 2026-01-01\n\n- Old.\n"
BILL = (
    '{"bomFormat": "CycloneDX", "serialNumber": "random", "components": [], '
    '"metadata": {"timestamp": "now", "component": {"type": "library", "name": "logcleaner"}}}'
)
UV = f"""case $1 in
build) version=$(sed -n 's/^__version__ = "\\(.*\\)"/\\1/p' "$6/cleaner/__init__.py")
  echo wheel > "$5/logcleaner-$version-py3-none-any.whl";;
export) echo '{BILL}';;
esac"""
TOOLS = {
    "bin/uv": UV,
    "bin/dpkg-deb": "",
    "packaging/debian-package": 'echo deb > "$2/logcleaner_0.2.0-1_amd64.deb"',
}
MAKER = "import sys, pathlib\npathlib.Path(sys.argv[2], 'logcleaner-0.2.0{0}').write_text('{0}')\n"
FILES = {
    "SHA256SUMS", "logcleaner-0.2.0-linux.tar.zst", "logcleaner-0.2.0-oci.tar", "logcleaner-0.2.0-py3-none-any.whl",
    "logcleaner-0.2.0.cdx.json", "logcleaner_0.2.0-1_amd64.deb",
}  # fmt: skip


def git(project: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True).stdout.strip()


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nset -e\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository whose tools make files of a few bytes."""
    made = tmp_path / "project"
    (made / "cleaner").mkdir(parents=True)
    (made / "docs").mkdir()
    (made / "cleaner/__init__.py").write_text('__version__ = "0.1.0"\n')
    (made / "docs/image.md").write_text("logcleaner-0.1.0-oci.tar, logcleaner:0.1.0, and Kafka 0.1.0\n")
    (made / "CHANGELOG.md").write_text(CHANGES)
    for name, body in TOOLS.items():
        script(made / name, body)
    (made / "packaging/bundle").write_text(MAKER.format("-linux.tar.zst"))
    (made / "packaging/image").write_text(MAKER.format("-oci.tar"))
    shutil.copy(ROOT / "packaging/release", made / "packaging/release")
    git(made, "init", "--quiet")
    for name in ("user.name", "user.email"):
        git(made, "config", name, "somebody@example.com")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "All")
    return made


def release(project: Path, version: str = "0.2.0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{project / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, project / "packaging/release", version, project.parent / "out" / version]
    return subprocess.run(command, cwd=project, env=environment, check=False, capture_output=True, text=True)


def test_a_release_is_a_commit_a_tag_and_all_files_with_their_hashes(project: Path) -> None:
    done = release(project)
    assert done.returncode == 0, done.stderr
    out = project.parent / "out/0.2.0"
    assert {path.name for path in out.iterdir()} == FILES
    assert [path.name for path in out.parent.iterdir()] == ["0.2.0"]
    sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in FILES - {"SHA256SUMS"}}
    assert git(project, "rev-parse", "v0.2.0^{commit}") == git(project, "rev-parse", "HEAD")
    assert git(project, "log", "-1", "--format=%s") == "Release 0.2.0"
    assert git(project, "status", "--porcelain") == ""
    day = git(project, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d")
    wanted = CHANGES.replace("## Unreleased\n", f"## Unreleased\n\n## 0.2.0 - {day}\n")
    assert (project / "CHANGELOG.md").read_text() == wanted
    assert (project / "cleaner/__init__.py").read_text() == '__version__ = "0.2.0"\n'
    assert (project / "docs/image.md").read_text() == "logcleaner-0.2.0-oci.tar, logcleaner:0.2.0, and Kafka 0.1.0\n"
    bill = json.loads((out / "logcleaner-0.2.0.cdx.json").read_text())
    assert bill["metadata"]["component"] == {"type": "application", "name": "logcleaner", "version": "0.2.0"}
    assert bill["serialNumber"].startswith("urn:uuid:")


def left_dirty(project: Path) -> None:
    (project / "new").write_text("")


def tagged(project: Path) -> None:
    git(project, "tag", "v0.2.0")


def without_news(project: Path) -> None:
    (project / "CHANGELOG.md").write_text(CHANGES.replace("- A thing.", ""))
    git(project, "commit", "--quiet", "--all", "--message", "No news")


def named_already(project: Path) -> None:
    (project.parent / "out/0.2.0").mkdir(parents=True)


def image_fails(project: Path) -> None:
    (project / "packaging/image").write_text("import sys\nsys.exit('no space left')\n")
    git(project, "commit", "--quiet", "--all", "--message", "Broken")


def tag_fails(project: Path) -> None:
    """The name of a directory of tags cannot be that of a tag."""
    git(project, "tag", "v0.2.0/other")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (left_dirty, "the working copy has changes; commit them first"),
        (tagged, "the tag v0.2.0 is there already"),
        (without_news, "there is nothing under Unreleased"),
        (named_already, "is there already"),
        (image_fails, "no space left"),
        (tag_fails, "cannot lock ref"),
    ],
)
def test_what_is_refused_or_fails_leaves_nothing(project: Path, happens: Callable[[Path], None], said: str) -> None:
    happens(project)
    before = state(project)
    done = release(project)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert state(project) == before


def state(project: Path) -> tuple[str, str, str, list[str]]:
    out = project.parent / "out"
    left = sorted(path.relative_to(out).as_posix() for path in out.rglob("*")) if out.exists() else []
    return git(project, "rev-parse", "HEAD"), git(project, "tag"), git(project, "status", "--porcelain"), left


def test_the_version_that_stands_is_found_where_a_release_writes_it() -> None:
    assert f'\n__version__ = "{__version__}"\n' in (ROOT / "cleaner/__init__.py").read_text()
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text()
