"""Log dirs of a broker that is not root, each with something in it that root owns: one damage a log dir, many a start.

What one log dir trips over takes that log dir offline alone, so one start tells of all of them.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop.starts import Kafka4

NOBODY: Final = 65_534
METADATA: Final = "__cluster_metadata-0"
_NAMES: Final = "recovery-point-offset", "log-start-offset", "replication-offset"
_CHECKPOINTS: Final = tuple(f"{name}-checkpoint" for name in _NAMES)
_READABLE: Final = 0o644
_SECRET: Final = 0o600


@contextmanager
def room_of_nobody(classpath: str) -> Iterator[tuple[Kafka4, Path]]:
    """Give a Kafka that runs as nobody, and a directory; nobody can read both, and root's caches and scratch not."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        root.chmod(0o755)
        jars = root / "jars"
        jars.mkdir()
        for jar in classpath.split(os.pathsep):
            shutil.copy(jar, jars)
        yield Kafka4(os.pathsep.join(map(str, sorted(jars.iterdir()))), root, ("setpriv", *_AS_NOBODY)), root


_AS_NOBODY: Final = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def dealt(made: list[Path], root: Path) -> list[Path]:
    """Deal the partitions of made log dirs that have records to log dirs of their own; the metadata log's is first."""
    log_dirs = []
    with_records = [path for one in made for path in one.iterdir() if any(path.glob("*1*.log"))]
    for place, partition in enumerate(sorted({made[0] / METADATA, *with_records})):
        log_dir = root / f"dir{place:02}"
        log_dir.mkdir()
        for name in (".lock", ".kafka_cleanshutdown"):
            (log_dir / name).touch()
        for name in _CHECKPOINTS:
            (log_dir / name).write_text("0\n0\n")
        lines = (made[0] / "meta.properties").read_text().splitlines()
        directory_id = base64.urlsafe_b64encode(bytes([place + 1]) * 16).decode().rstrip("=")
        stated = [line for line in lines if not line.startswith("directory.id")]
        (log_dir / "meta.properties").write_text("\n".join([*stated, f"directory.id={directory_id}", ""]))
        subprocess.run(["cp", "-a", "--sparse=always", str(partition), str(log_dir)], check=True)
        log_dirs.append(log_dir)
    for path in [one for log_dir in log_dirs for one in (log_dir, *log_dir.rglob("*"))]:
        os.chown(path, NOBODY, NOBODY)
    return sorted(log_dirs, key=lambda log_dir: not (log_dir / METADATA).exists())


def _given_to_root(name: str, mode: int = _READABLE, place: int = -1) -> Callable[[Path, Path], None]:
    def change(log_dir: Path, partition: Path) -> None:
        where = log_dir if name in _OF_THE_LOG_DIR else partition
        path = sorted(where.glob(name))[place] if "*" in name else where / name
        path.touch()
        os.chown(path, 0, 0)
        path.chmod(mode)

    return change


_OF_THE_LOG_DIR: Final = (
    *(".lock", ".kafka_cleanshutdown", "meta.properties"),
    *_CHECKPOINTS,
)


def _read_only(log_dir: Path, partition: Path) -> None:
    log_dir.chmod(0o555)


OWNED: Final[tuple[tuple[Callable[[Path, Path], None], ...], ...]] = (
    (
        _read_only,
        _given_to_root("*.log", place=0),
        _given_to_root("*.log"),
        _given_to_root("*.timeindex"),
        _given_to_root("*.snapshot"),
        _given_to_root("leader-epoch-checkpoint", _SECRET),
        _given_to_root("meta.properties", _SECRET),
        _given_to_root("recovery-point-offset-checkpoint", _SECRET),
        _given_to_root("notes.txt", _SECRET),
    ),
    (
        _given_to_root(".lock"),
        _given_to_root(".kafka_cleanshutdown", _SECRET),
        _given_to_root("meta.properties"),
        _given_to_root("log-start-offset-checkpoint", _SECRET),
        _given_to_root("recovery-point-offset-checkpoint"),
        _given_to_root("leader-epoch-checkpoint"),
        _given_to_root("partition.metadata"),
        _given_to_root("partition.metadata", _SECRET),
        _given_to_root("*.index"),
        _given_to_root("00000000000000000000.log.deleted", _SECRET),
    ),
)
"""For each start: what is done to the log dirs behind that of the metadata log, one after another."""


def trip(log_dirs: list[Path], changes: tuple[Callable[[Path, Path], None], ...]) -> None:
    """Do one thing to each log dir but the first."""
    for log_dir, change in zip(log_dirs[1:], changes, strict=False):
        change(log_dir, next(path for path in log_dir.iterdir() if path.is_dir()))
