"""What is done to a forgetting disk: whole commands, each with the log dir that it finds and what it must keep.

To add one, add a line to ``ACTS``. The directory ``data`` of a disk is the log dir.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from policies.config.config_keys import LONG_MAX
from storage.checkpoints import format_offset_checkpoint
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log_dir import LogDir
from storage.metadata.metadata_encode import encode_partition, encode_topic
from storage.metadata.metadata_log import TopicCreated
from storage.names import HIGH_WATERMARK_CHECKPOINT, PARTITION_METADATA_FILE
from tests.crash import acts as crash_acts
from tests.crash import scenes
from tests.crash.acts import AT_MS, ERASED, SWEPT, TOPICS
from tests.crash.scenes import Scene, Writing
from tests.disk.process import Ended, told_by
from tests.metadata_dirs import append_metadata, write_metadata

DATA: Final = "data"
COPY: Final = "copy"
METADATA: Final = "metadata"
CACHE: Final = "cache"
"""Beside a disk: the user's."""
UID, GID, FILE_MODE = 1234, 4321, 0o640
"""Of all that a broker wrote."""
IMPORTED: Final = "payments-1"
"""Gets the topic id of the other one."""
NO_JUMP: Final = ("--set", f"clock.jump.max={LONG_MAX}")
"""Files are newer, and records older, than the time of the acts."""
Draw = Callable[[Path], None]
Words = Callable[[Path], list[str]]
DELETABLE: Final = {name: {"cleanup.policy": "delete"} for name in ("clicks", "accounts")}


@dataclass(frozen=True, slots=True)
class Act:
    """A command, and the disk that it finds."""

    words: Words
    """Of the root of the disk: the command line, behind ``logcleaner``."""
    draws: tuple[Draw, ...]
    """Make partitions of the log dir."""
    prepare: Callable[[Path], object] = lambda _: None
    """Done to the root before, uninterrupted."""
    goes_on: Words | None = None
    """The command of who finds what a cut left, if it is another one."""
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: TOPICS)
    statuses: frozenset[int] = frozenset({0})
    """With which it may end."""
    statuses_again: frozenset[int] = frozenset()
    """With which it may end, besides, where an earlier run had come to its end."""
    is_seeded: bool = False
    """Whether a partition is drawn by the seed, besides."""
    mends: bool = False
    grows: bool = False
    erases: bool = False
    is_refused: bool = False
    """As ``tests.crash.scenes.Scene`` says."""

    def draw(self, root: Path, seed: int) -> None:
        """Make the disk, in an absent directory."""
        draws = (*self.draws, scenes.drawn(seed)) if self.is_seeded else self.draws
        root.mkdir(parents=True)
        Scene(crash_acts.clean, draws).draw(root / DATA)
        self.prepare(root)
        give_away(root)

    def run(self, root: Path) -> Ended:
        """Run the command within this process, as the next one does behind a cut."""
        return told_by(self.command(root, self.goes_on or self.words), AT_MS, root.with_name(CACHE))

    def command(self, root: Path, words: Words | None = None) -> list[str]:
        """The words behind ``logcleaner``; the configuration file lies beside the disk."""
        config = root.with_name(f"{root.name}.toml")
        config.write_text(toml_of(self.topics))
        return [*(words or self.words)(root), "--config", str(config)]


def toml_of(topics: Mapping[str, Mapping[str, str]]) -> str:
    tables = (
        f"[topics.{name}]\n" + "".join(f"{key!r} = {json.dumps(value)}\n" for key, value in keys.items())
        for name, keys in topics.items()
    )
    return "\n".join(tables)


def give_away(root: Path) -> None:
    """To the broker's user."""
    for path in (root, *root.rglob("*")):
        shutil.chown(path, UID, GID)
        path.chmod(0o750 if path.is_dir() else FILE_MODE)


def _clean(*more: str) -> Words:
    return lambda root: ["clean", "--log-dir", str(root / DATA), *NO_JUMP, *more]


def _free(root: Path) -> list[str]:
    return [
        "free",
        "--log-dir",
        str(root / DATA),
        "--set",
        f"clock.jump.max={LONG_MAX}",
        "--target",
        "100%",
        "--compact",
    ]


def _restore(root: Path) -> list[str]:
    return ["restore", "--all", "--yes", "--log-dir", str(root / DATA)]


def _delete_records(root: Path) -> list[str]:
    return [
        "delete-records",
        "clicks-0",
        "--before-offset",
        "9",
        "--yes",
        "--log-dir",
        str(root / DATA),
        "--set",
        f"clock.jump.max={LONG_MAX}",
    ]


def _erase(*more: str) -> Words:
    words = ["erase", *ERASED, "--topic", "*", "--tombstones", "--yes", *more, *NO_JUMP]
    return lambda root: [*words, "--log-dir", str(root / DATA)]


def _erase_into_copy(root: Path) -> list[str]:
    return _erase("--output", str(root / COPY))(root)


def _repack(*more: str) -> Words:
    words = ("--repack", *more)
    return lambda root: [*_clean(*words)(root), "--set", f"metadata.log.dir={root / METADATA}"]


def place_alone(root: Path) -> None:
    """Have the cluster metadata, which lies beside the log dir, place each partition on this broker alone."""
    (root / DATA / "meta.properties").write_text("version=1\nnode.id=1\n")
    names = [name for name, _ in LogDir(root / DATA).partitions()]
    write_metadata(root / METADATA)
    for number, name in enumerate(names):
        topic_id = f"{number:02}{scenes.TOPIC_ID[2:]}"
        (root / DATA / str(name) / PARTITION_METADATA_FILE).write_text(f"version: 0\ntopic_id: {topic_id}")
        placed = encode_partition(topic_id, name.partition, 1, "A" * 22, 0)
        append_metadata(root / METADATA, [encode_topic(TopicCreated(name.topic, topic_id)), placed])


def _import(root: Path) -> list[str]:
    return [
        "import",
        str(root.with_name(f"{root.name}.jsonl")),
        IMPORTED,
        "--to-dir",
        str(root / DATA),
        "--log-dir",
        str(root / DATA),
    ]


def _repair(kind: str) -> Words:
    return lambda root: ["verify", "--repair", kind, "--yes", "--log-dir", str(root / DATA)]


def _sweep(root: Path) -> list[str]:
    there = [name for name in SWEPT if _may_be_there(root / DATA / name)]
    return ["doctor", "--log-dir", str(root / DATA), *NO_JUMP, *(("--yes", "--sweep", *there) if there else ())]


def _may_be_there(path: Path) -> bool:
    """Return True also if a dying disk does not say: the command must meet that disk, not the test."""
    try:
        return path.exists()
    except OSError:
        return True


def _copy(root: Path) -> list[str]:
    return _clean("--yes", "--output", str(root / COPY))(root)


def _daemon(root: Path) -> list[str]:
    return ["run", "--once", "--log-dir", str(root / DATA), *NO_JUMP]


def of_crash(prepare: crash_acts.Act) -> Callable[[Path], object]:
    """One that the crash tests have."""
    return lambda root: prepare(root / DATA, FileSystem())


def grow(root: Path) -> None:
    """A first round, then more records of the same keys: what is to do now is a second round."""
    crash_acts.clean_at_once(root / DATA, FileSystem())
    ends = LogDir(root / DATA).offsets(HIGH_WATERMARK_CHECKPOINT)
    for tp, directory in LogDir(root / DATA).partitions():
        with Log.open(directory, LogConfig(index_interval_bytes=0), FileSystem()) as log:
            writing = Writing(log)
            writing.epoch = 99
            for number in range(3):
                writing.put(f"a={number}9", f"b={number}9", at_ms=AT_MS)
                writing.roll()
            writing.put("last=2")
            ends[tp] = log.log_end_offset
    (root / DATA / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))


def exported(root: Path) -> None:
    """What is imported then: the records of a partition with transactions."""
    export = [
        "export",
        "payments-0",
        "--to",
        "jsonl",
        str(root.with_name(f"{root.name}.jsonl")),
        "--include-metadata",
        "--log-dir",
        str(root / DATA),
    ]
    ended = told_by(export, AT_MS, root.with_name(CACHE))
    assert ended.status == 0, ended


RETENTION: Final = (scenes.clicks, scenes.gone, scenes.accounts)
COMPACTION: Final = (scenes.orders, scenes.prices, scenes.payments)
ACTS: Final = {
    "clean": Act(_clean(), (scenes.accounts, scenes.clicks, scenes.payments), is_seeded=True),
    "clean-at-once": Act(_clean("--delete-delay", "0"), (scenes.gone, scenes.orders, scenes.prices), is_seeded=True),
    "second-round": Act(_clean("--delete-delay", "0"), (scenes.payments, scenes.orders), prepare=grow, is_seeded=True),
    "free": Act(_free, (scenes.accounts, scenes.clicks), statuses=frozenset({1}), is_seeded=True),
    "restore": Act(_restore, (scenes.clicks, scenes.gone), prepare=of_crash(crash_acts.clean), grows=True),
    "delete-records": Act(_delete_records, (scenes.clicks, scenes.accounts), topics=DELETABLE),
    "erase": Act(_erase(), (scenes.accounts, scenes.orders, scenes.payments), erases=True),
    "erase-at-once": Act(_erase("--delete-delay", "0"), (scenes.clicks, scenes.prices), erases=True),
    "erase-into-copy": Act(_erase_into_copy, (scenes.accounts, scenes.orders, scenes.payments)),
    "repack": Act(
        _repack("--only", "retention"), (scenes.accounts, scenes.small_batches, scenes.wallets), prepare=place_alone
    ),
    "repack-at-once": Act(
        _repack("--codec", "zstd", "--delete-delay", "0"), (scenes.clicks, scenes.small_batches), prepare=place_alone
    ),
    "repack-behind-a-round": Act(
        _repack(), (scenes.clicks, scenes.orders, scenes.wallets), prepare=place_alone, is_seeded=True
    ),
    "import": Act(
        _import,
        (scenes.payments,),
        prepare=exported,
        topics={**TOPICS, "payments": {"segment.bytes": "2000"}},
        statuses_again=frozenset({2}),
    ),
    "repair": Act(
        _repair("derived"), (scenes.clicks, scenes.payments), prepare=of_crash(crash_acts.damage), mends=True
    ),
    "repair-zeros": Act(
        _repair("zero-tail"),
        (scenes.clicks, scenes.orders, scenes.accounts),
        prepare=of_crash(crash_acts.leave_zeros),
        mends=True,
        is_refused=True,
    ),
    "repair-ends": Act(
        _repair("log-end"),
        (scenes.clicks, scenes.payments),
        goes_on=_repair("log-end,zero-tail"),  # if the new size did not last, there may be zeros: verify says so
        prepare=of_crash(crash_acts.tear_ends),
        mends=True,
        is_refused=True,
    ),
    "sweep": Act(
        _sweep, (scenes.clicks, scenes.gone), prepare=of_crash(scenes.leave_directories), statuses=frozenset({0, 4})
    ),
    "copy": Act(_copy, (scenes.accounts, scenes.clicks, scenes.orders)),
    "daemon": Act(_daemon, goes_on=_clean(), draws=(scenes.accounts, scenes.clicks, scenes.payments), is_seeded=True),
}
