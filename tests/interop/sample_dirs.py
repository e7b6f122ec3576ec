"""Log dirs of one broker, made of the partitions of both sample archives: one partition a log dir."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Final

from tests.conftest import Samples

METADATA: Final = "__cluster_metadata-0"
OLD_COPIES: Final = 3
"""So often is each partition of the old archive there, under other partition numbers."""
_CHECKPOINTS: Final = ("recovery-point-offset", "log-start-offset", "replication-offset")


def deal(samples: Samples, old_samples: Samples, made: Path, *, with_metadata: bool) -> None:
    """Deal the partitions of the log dirs ``before`` of both archives to log dirs in ``made``.

    Args:
        samples: of Kafka 4.
        old_samples: of Kafka 2.8, in v0 and v1.
        made: where the log dirs go.
        with_metadata: whether the first one gets the metadata log of Kafka 4, and all of them its ids.
    """
    before, old = samples.root / "before", old_samples.root / "before"
    named = [(path, path.name) for path in _partitions(before)]
    named += [(path, f"{path.name[:-1]}{number}") for path in _partitions(old) for number in range(OLD_COPIES)]
    for place, (path, name) in enumerate(named):
        log_dir = made / f"dir{place:02}"
        shutil.copytree(path, log_dir / name)
        (log_dir / ".kafka_cleanshutdown").touch()
        for checkpoint in _CHECKPOINTS:
            _copy_line(path, name, log_dir, f"{checkpoint}-checkpoint")
        if with_metadata:
            _copy_ids(before, log_dir, place)
    if with_metadata:
        shutil.copytree(before / METADATA, made / "dir00" / METADATA)


def _partitions(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.iterdir() if path.is_dir() and not path.name.startswith("__"))


def _copy_line(partition: Path, name: str, log_dir: Path, checkpoint: str) -> None:
    """Write a checkpoint with the line that a partition has, under another name of it."""
    topic, _, number = partition.name.rpartition("-")
    found = [line.split() for line in (partition.parent / checkpoint).read_text().splitlines()[2:]]
    lines = [f"{topic} {name.rpartition('-')[2]} {offset}" for *of, offset in found if of == [topic, number]]
    (log_dir / checkpoint).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def _copy_ids(source: Path, log_dir: Path, place: int) -> None:
    """Write the ``meta.properties`` of another log dir, for all but the first with a ``directory.id`` of its own."""
    lines = (source / "meta.properties").read_text().splitlines()
    if place:
        own = base64.urlsafe_b64encode(bytes([place]) * 16).decode().rstrip("=")
        lines = [f"directory.id={own}" if line.startswith("directory.id=") else line for line in lines]
    (log_dir / "meta.properties").write_text("\n".join([*lines, ""]))
