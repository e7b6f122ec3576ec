"""Single bits that flip in the files of real log dirs, and what ``verify`` says of each: seeded, always the same ones.

``python -m tests.docs`` puts the table into docs/verify.md.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from cleaner.engine.means import Means
from cleaner.engine.verify.checked import CheckRequest
from cleaner.engine.verify.checking import check_log_dirs
from policies.findings.findings import Finding
from storage.log_dir import LogDir
from storage.metadata.metadata_log import read_cluster_metadata
from storage.names import TopicPartition, parse_topic_partition
from storage.records.v2 import BatchHeader
from tests.batches import iter_batches
from tests.conftest import Samples, unpacked

SEED: Final = 20_260_823
FLIPS: Final = 40
"""In each kind of place."""
NEW: Final = ("ledger-0", "orders-0", "payments-0")
OLD: Final = ("log-upgraded-0", "log-v0-gzip-0")
V2_CRC_COVERED: Final = 17
LEGACY_CRC_COVERED: Final = 12


class Place(NamedTuple):
    """A byte of a file."""

    path: Path
    position: int


class Flipped(NamedTuple):
    """One bit that was flipped, and what was found then that was not found before."""

    place: Place
    bit: int
    found: tuple[Finding, ...]


class Kind(NamedTuple):
    """A kind of place: its name in the table, and the bytes of a log dir that are of it."""

    name: str
    stage: Path
    """The log dir; it is a copy of one of the samples."""
    places: list[Place]


def is_found(kind: Kind, seed: int, count: int) -> Iterator[Flipped]:
    """Flip bits of a kind one by one, check, and flip them back."""
    random = Random(f"{seed} {kind.name}")
    healthy: dict[TopicPartition | None, set[Finding]] = {}
    for _ in range(count):
        place, bit = random.choice(kind.places), random.randrange(8)
        name = parse_topic_partition(place.path.parent.name)
        if name not in healthy:
            healthy[name] = set(_check(kind.stage, name))
        with flipped(place, bit):
            found = [finding for finding in _check(kind.stage, name) if finding not in healthy[name]]
        yield Flipped(place, bit, tuple(found))


class flipped:  # noqa: N801 - it reads as a verb
    """Flip a bit, and flip it back in the end."""

    def __init__(self, place: Place, bit: int) -> None:
        self._place, self._bit = place, bit

    def __enter__(self) -> None:
        self._flip()

    def __exit__(self, *_raised: object) -> None:
        self._flip()

    def _flip(self) -> None:
        with self._place.path.open("r+b") as file:
            file.seek(self._place.position)
            (byte,) = file.read(1)
            file.seek(self._place.position)
            file.write(bytes([byte ^ 1 << self._bit]))


def _check(stage: Path, name: TopicPartition | None) -> list[Finding]:
    """Check one partition of a log dir; all of it if the flip is in a file of its own."""
    ids = _topic_ids(stage)
    request = CheckRequest(topic_ids=ids)
    if name is not None:
        request = CheckRequest(lambda one: one == name, is_whole=False, topic_ids=ids)
    return list(check_log_dirs([LogDir(stage)], request, Means()).findings)


@cache
def _topic_ids(stage: Path) -> Mapping[str, str] | None:
    directory = stage / "__cluster_metadata-0"
    return read_cluster_metadata(directory).topic_ids if directory.exists() else None


def kinds(new: Path, old: Path) -> Iterator[Kind]:
    """Yield all kinds of places, in the order of the table."""
    v2, legacy = _batch_starts(new, is_legacy=False), _batch_starts(old, is_legacy=True)
    yield Kind("`.log`, v2: base offset", new, _bytes(v2, 0, 8))
    yield Kind("`.log`, v2: length", new, _bytes(v2, 8, 12))
    yield Kind("`.log`, v2: leader epoch", new, _bytes(v2, 12, 16))
    yield Kind("`.log`, v2: magic", new, _bytes(v2, 16, 17))
    yield Kind("`.log`, v2: CRC and all that it covers", new, _bytes(v2, V2_CRC_COVERED, None))
    yield Kind("`.log`, v0 and v1: offset", old, _bytes(legacy, 0, 8))
    yield Kind("`.log`, v0 and v1: length", old, _bytes(legacy, 8, 12))
    yield Kind("`.log`, v0 and v1: CRC and all that it covers", old, _bytes(legacy, LEGACY_CRC_COVERED, None))
    for suffix, width, fields in (
        (".index", 8, {"offset": (0, 4), "position": (4, 8)}),
        (".timeindex", 12, {"timestamp": (0, 8), "offset": (8, 12)}),
        (
            ".txnindex",
            34,
            {"version and producer": (0, 10), "first and last offset": (10, 26), "stable offset": (26, 34)},
        ),
    ):
        for field, (first, behind) in fields.items():
            yield Kind(f"`{suffix}`: {field}", new, _of_entries(new, suffix, width, range(first, behind)))
    for name in ("*.snapshot", "leader-epoch-checkpoint", "partition.metadata"):
        yield Kind(f"`{name}`", new, _whole(new.glob(f"[!_]*-0/{name}")))
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        path = f"{name}-offset-checkpoint"
        yield Kind(f"`{path}`", new, _whole(new.glob(path)))
    yield Kind("`meta.properties`", new, _whole(new.glob("meta.properties")))


def table(flips: int = FLIPS) -> str:
    """Return the table of what is found, for docs/verify.md."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        new = staged(unpacked("kafka-4.3.1", root / "new"), root / "a", "after", NEW)
        old = staged(unpacked("kafka-2.8.2", root / "old"), root / "b", "before", OLD)
        rows = ["| Flipped in | Found | As |", "|---|---|---|"]
        for kind in kinds(new, old):
            tried = list(is_found(kind, SEED, flips))
            codes = Counter(code for one in tried for code in {finding.code for finding in one.found})
            said = ", ".join(
                f"`{code}` {count}" for code, count in sorted(codes.items(), key=lambda one: (-one[1], one[0]))
            )
            rows.append(f"| {kind.name} | {sum(bool(one.found) for one in tried)} of {len(tried)} | {said} |")
    return "\n".join(rows)


def staged(samples: Samples, to: Path, stage: str, partitions: tuple[str, ...]) -> Path:
    """Return a copy of some partitions of a sample, whose checkpoints speak of these alone."""
    made = samples.copy(stage, to, partitions)
    for path in made.glob("*-offset-checkpoint"):
        lines = [line for line in path.read_text().splitlines()[2:] if _partition_of(line) in partitions]
        path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    return made


def _partition_of(line: str) -> str:
    topic, partition, _ = line.split()
    return f"{topic}-{partition}"


def _batch_starts(stage: Path, *, is_legacy: bool) -> list[tuple[Place, int]]:
    """Return where each batch of the older or newer versions begins, and its size."""
    found = []
    for path in sorted(stage.glob("[!_]*/*.log")):
        position = 0
        for batch in iter_batches(path.read_bytes(), path):
            size = batch.header.size_bytes
            if isinstance(batch.header, BatchHeader) is not is_legacy:
                found.append((Place(path, position), size))
            position += size
    return found


def covered(stage: Path, first: int, *, is_legacy: bool) -> list[Place]:
    """Return the bytes of all batches from one byte of each on: those that its checksum covers, and the checksum."""
    return _bytes(_batch_starts(stage, is_legacy=is_legacy), first, None)


def _bytes(starts: list[tuple[Place, int]], first: int, behind: int | None) -> list[Place]:
    return [
        Place(path, position + at)
        for (path, position), size in starts
        for at in range(first, size if behind is None else behind)
    ]


def _of_entries(stage: Path, suffix: str, width: int, wanted: range) -> list[Place]:
    return [place for place in _whole(stage.glob(f"[!_]*-0/*{suffix}")) if place.position % width in wanted]


def _whole(paths: Iterator[Path]) -> list[Place]:
    return [Place(path, at) for path in sorted(paths) for at in range(path.stat().st_size)]
