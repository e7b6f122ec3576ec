"""Log dirs to compact by either engine, and what has to be equal afterwards."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.compactor import Compactor
from cleaner.engine.means import Means
from policies import Request
from policies.config.config_layers import ConfigLayers, Configured
from storage.records import Record, encode_batch
from tests.partition_dirs import NOW_MS, FakeClock, PartitionDir, committed, configured, keyed, request

SKEWED_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.bytes": str(4 << 20)}


def cleaned(log_dir: Path, layers: ConfigLayers, compactor: Compactor | None = None, **asked: Any) -> Any:
    """Clean in place by an engine; gives the outcome."""
    cleaner = Cleaner(Configured((log_dir,), layers), Means(clock=FakeClock()), compactor=compactor)
    return cleaner.clean(request(**asked, delete_delay_ms=0))[1]


def contents(log_dir: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes of every file, lines sorted in the cleaner's checkpoint, and the times of segment files."""
    found = {"cleaner": (b"\n".join(sorted(_lines(log_dir / "cleaner-offset-checkpoint"))), 0)}
    for path in sorted(log_dir.rglob("*")):
        if path.is_file() and not path.name.startswith((".lock", ".logcleaner", "cleaner-offset")):
            time_ns = path.stat().st_mtime_ns if path.name[0].isdigit() else 0
            found[path.relative_to(log_dir).as_posix()] = path.read_bytes(), time_ns
    return found


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def assert_same_by(compactor: Compactor, log_dir: Path, layers: ConfigLayers, **asked: Any) -> None:
    """Compact one copy by this process and one by a compactor: the same bytes, times, names, figures and guards."""
    here, there = log_dir.with_name("here"), log_dir.with_name("there")
    for copy in (here, there):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(log_dir, copy)
    expected, found = cleaned(here, layers, **asked), cleaned(there, layers, compactor, **asked)
    assert contents(there) == contents(here)
    figures = [
        {
            key[1]: (r.compacted_to_bytes, r.records_read, r.records_kept, r.records_unkeyed, r.freed_bytes)
            for key, r in o.results.items()
        }
        for o in (found, expected)
    ]
    assert figures[0] == figures[1]
    guards = [{key[1]: guard for key, guard in outcome.guards.items()} for outcome in (found, expected)]
    assert guards[0] == guards[1]
    assert not list(there.rglob("*.logcleaner"))


def sample_layers(log_dir: Path, moment_ms: int) -> tuple[ConfigLayers, Request]:
    """What the metadata log of a sample says, and the run that Kafka's own was."""
    return load_layers(Settings(), [log_dir], []).layers, Request(moment_ms, confirmed=True)


def write_config(path: Path, more: Mapping[str, str] | None = None) -> None:
    """Write the configuration of ``skewed`` as a file."""
    lines = (f'"{key}" = "{value}"\n' for key, value in (SKEWED_CONFIG | dict(more or {})).items())
    path.write_text("".join(["[topics.skewed]\n", *lines]))


def skewed(log_dir: Path, partitions: int, segments: int, *, value_bytes: int = 1000, seed: int = 1) -> ConfigLayers:
    """Partitions with segments of 1 MiB; one key has 20 % of the records. Gives the configuration."""
    random_ = random.Random(seed)
    value = random_.randbytes(value_bytes)
    drawn = []
    for number in range(partitions):
        partition, offset = PartitionDir(log_dir, f"skewed-{number}"), 0
        for _ in range(segments):
            batches, base = [], offset
            for _ in range((1 << 20) // (16 * value_bytes)):
                names = ["hot" if random_.random() < 0.2 else f"k{random_.randrange(3000)}" for _ in range(16)]
                records = [Record(offset + at, NOW_MS, name.encode(), value) for at, name in enumerate(names)]
                batches.append(encode_batch(records))
                offset += len(records)
            partition.segment(base, *batches)
        drawn.append(partition.segment(offset, keyed(offset, "end=1")))
    committed(log_dir, *drawn)
    return configured(skewed=SKEWED_CONFIG)
