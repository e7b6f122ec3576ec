"""Runs an image as a container runtime does: read-only root, another user than root, no capability, no HOME.

Root can do so by ``unshare`` and ``chroot``. seccomp is left out, which no program of Debian's base system sets up.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.packaging.oci import Archive

ENTER: Final = Path(__file__).with_name("enter.py")
SECONDS_MAX: Final = 120
UNSHARE: Final = ("unshare", "--mount", "--propagation", "private", "--pid", "--net", "--fork", "--kill-child")


class Volume(NamedTuple):
    """A directory of this machine that the container has at another place."""

    source: Path
    target: str
    is_read_only: bool = False


@dataclass(frozen=True)
class Container:
    """What a container of the image is started with."""

    root: Path
    config: Mapping[str, Any]
    """``config`` of the image's configuration."""
    volumes: tuple[Volume, ...] = ()
    uid: int = 1001
    gid: int = 0
    groups: tuple[int, ...] = ()
    environment: tuple[str, ...] = ()
    """In addition to that of the image."""

    @classmethod
    def of(cls, archive: Archive, root: Path) -> Container:
        """Unpack an image. Its root gets the directories that a runtime makes in it."""
        needed()
        with tarfile.open(fileobj=io.BytesIO(archive.layer)) as layer:
            layer.extractall(root, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
        for name in ("proc", "dev"):
            (root / name).mkdir()
        root.chmod(0o755)
        uid, gid = map(int, archive.config["config"]["User"].split(":"))
        return cls(root, archive.config["config"], uid=uid, gid=gid)

    def having(self, *volumes: Volume) -> Container:
        """Return a container that has these volumes, too."""
        for volume in volumes:
            (self.root / volume.target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return replace(self, volumes=(*self.volumes, *volumes))

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point with arguments to its end."""
        return self.run(*self.config["Entrypoint"], *arguments)

    def run(self, *command: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._entering(command), check=False, text=True, timeout=SECONDS_MAX,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip

    def ok(self, *arguments: str) -> str:
        """Run the entry point and return what it printed; see that it succeeds."""
        done = self(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def started(self, log: Path, *arguments: str) -> Iterator[Started]:
        """Start the entry point; its stderr goes to a file. Kill it at the end, if it still runs."""
        command = self._entering((*self.config["Entrypoint"], *arguments))
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
        try:
            yield Started(process)
        finally:
            process.kill()
            process.wait()

    def _entering(self, command: Sequence[str]) -> list[str]:
        environment = [*self.config["Env"], *self.environment]
        specification = {
            "root": str(self.root),
            "mounts": [(str(volume.source), volume.target, volume.is_read_only) for volume in self.volumes],
            "directory": self.config["WorkingDir"],
            "uid": self.uid,
            "gid": self.gid,
            "groups": self.groups,
            "environment": dict(text.split("=", 1) for text in environment),
            "command": command,
        }
        return [*UNSHARE, sys.executable, "-I", str(ENTER), json.dumps(specification)]


@dataclass(frozen=True)
class Started:
    """A container that runs."""

    process: subprocess.Popen[bytes]
    """``unshare``; its child is process 1 of the container."""

    @property
    def pid(self) -> int:
        """The number that process 1 of the container has outside."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := children.read_text().split()):
            assert self.process.poll() is None, "the container has ended"
            time.sleep(0.01)
        return int(found[0])

    def get(self, url: str) -> tuple[int, str]:
        """Return status and body of a page that the container serves."""
        program = (
            "import sys, urllib.request, urllib.error\n"
            "try: answer = urllib.request.urlopen(sys.argv[1], timeout=60)\n"
            "except urllib.error.HTTPError as error: answer = error\n"
            "except OSError: sys.exit('0 ')\n"
            "print(answer.status, answer.read().decode())"
        )
        command = ["nsenter", f"--net=/proc/{self.pid}/ns/net", sys.executable, "-I", "-c", program, url]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
        status, _, body = done.stdout.partition(" ")
        return int(status or 0), body


def needed() -> None:
    """Skip the test aloud where no container can be made."""
    if os.geteuid() != 0:
        pytest.skip("NOT RUN: the image is run by unshare and chroot, which need root here")
    for program in ("unshare", "nsenter", "mount"):
        if not shutil.which(program):
            pytest.skip(f"NOT RUN: there is no {program} here, with which the image is run")
    done = subprocess.run([*UNSHARE, "true"], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT RUN: no namespace can be made here, in which the image would run: {done.stderr.strip()}")
