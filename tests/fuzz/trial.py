"""One trial: damage a copy of a log dir, plan it, clean it, read it, and hold what is left against what was there.

What must hold of every partition afterwards:
    no invention    every record that can be read was there before, readable, in the damaged dir: no fresh checksum
                    on bad data;
    no loss         of what an undamaged clean keeps, all that could still be read is there, in a file that counts;
    latest          the last record of every key is there, also where a damage was given a right checksum;
    bystanders      partitions in which nothing was damaged end byte for byte as without the damage;
    silence         a partition that was compacted without an error can be read from end to end.
An error must be one of ``storage.errors``; anything else is a crash.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means
from cleaner.engine.outcome import Outcome
from cleaner.report.topics import TopicsReport
from policies import Request
from policies.config.config_layers import Configured
from policies.plan import Plan
from storage.checkpoints import parse_offset_checkpoint
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.names import HOLDS_FILE, LOG_START_OFFSET_CHECKPOINT, parse_topic_partition
from tests.fuzz.damage import Damage, Kind
from tests.fuzz.sight import Sight, sights
from tests.partition_dirs import NOW_MS, FakeClock

BUDGET_BYTES = 16 << 20
"""``log.cleaner.dedupe.buffer.size`` of every trial."""
OPTIONS = (f"clock.jump.max={(1 << 63) - 1}", f"log.cleaner.dedupe.buffer.size={BUDGET_BYTES}")


class Finding(AssertionError):
    """What must hold did not."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A log dir to be damaged, and what becomes of it undamaged."""

    path: Path
    now_ms: int
    options: tuple[str, ...]
    before: Mapping[str, Sight]
    after: Mapping[str, Sight]

    @classmethod
    def of(cls, path: Path, scratch: Path, now_ms: int = NOW_MS, options: Sequence[str] = ()) -> Self:
        """Clean a copy in ``scratch`` to know how it ends; nothing may fail there."""
        options = (*OPTIONS, *options)
        copy = Path(shutil.copytree(path, scratch / "undamaged"))
        _, outcome = cleaned(copy, now_ms, options)
        assert not any(result.error for result in outcome.results.values()), outcome
        found = cls(path, now_ms, options, sights(path), sights(copy))
        shutil.rmtree(copy)
        return found

    @property
    def files(self) -> list[str]:
        """Every file, relative to the log dir."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file())


def try_damages(subject: Subject, damages: Sequence[Damage], scratch: Path) -> str:
    """Run one trial in ``scratch``, which is left empty; gives how it went in a word. Raises: Finding."""
    copy = Path(shutil.copytree(subject.path, scratch / "damaged"))
    try:
        for damage in damages:
            damage.apply(copy)
        damaged = sights(copy)
        try:
            plan, outcome = cleaned(copy, subject.now_ms, subject.options)
        except LogCleanerError:
            _judge_untouched(damaged, sights(copy))
            return "refused"
        _read_all(copy)
        _judge(_Case(subject, copy, damages, damaged, sights(copy), plan, outcome))
        errors = [*plan.failures, *(error for log_dir in plan.log_dirs for error in log_dir.facts.errors)]
        errors += [result.error for result in outcome.results.values() if result.error]
        return "failed" if errors else "cleaned"
    finally:
        shutil.rmtree(copy)


def cleaned(path: Path, now_ms: int, options: Sequence[str]) -> tuple[Plan, Outcome]:
    """A dry run that reads everything, then the run."""
    loaded = load_layers(Settings(kafka_defaults=True), [path], options)
    cleaner = Cleaner(Configured(loaded.log_dirs, loaded.layers), Means(fs=_WithoutFsync(), clock=FakeClock(now_ms)))
    request = Request(now_ms, confirmed=True)
    planned = cleaner.plan(request)
    TopicsReport(planned).rows()
    cleaner.would_do(planned, exact=True)
    return cleaner.clean(request)


class _WithoutFsync(FileSystem):
    """No power fails here, and directories by the thousand are synced."""

    def fsync_dir(self, path: Path, purpose: object) -> None:
        pass


def _read_all(log_dir: Path) -> None:
    """The other readers: typed errors at the most."""
    for path in log_dir.iterdir():
        if path.is_dir() and parse_topic_partition(path.name):
            with suppress(LogCleanerError):
                log = Log.open(path, LogConfig(), FileSystem())
                for timestamp_ms in (-3, 0, NOW_MS - 1, NOW_MS + 1):
                    with suppress(LogCleanerError):
                        log.lookup_timestamp(timestamp_ms)
                log.close()
                for _ in log.read(log.log_end_offset // 2):
                    pass
                for _ in log.records():
                    pass


@dataclass(frozen=True, slots=True)
class _Case:
    """All that is known of a trial when it is judged."""

    subject: Subject
    path: Path
    damages: Sequence[Damage]
    damaged: Mapping[str, Sight]
    after: Mapping[str, Sight]
    plan: Plan
    outcome: Outcome

    @property
    def damaged_partitions(self) -> set[str]:
        return {damage.file.partition("/")[0] for damage in self.damages if "/" in damage.file}

    @property
    def is_local(self) -> bool:
        """Whether no damage hit a file that speaks of all partitions."""
        return all("/" in damage.file and not damage.file.startswith("__") for damage in self.damages)

    def is_resealed(self, partition: str) -> bool:
        """Whether a damage in the partition was made to look right."""
        return any(d.kind is Kind.RESEAL and d.file.startswith(f"{partition}/") for d in self.damages)

    def compacted_to(self, partition: str) -> int:
        """The end of the range that the run compacted without an error; 0 where it did not."""
        for planned in self.plan.partitions:
            if str(planned.facts.topic_partition) == partition and planned.compaction:
                return 0 if self.outcome.results[planned.key].error else planned.compaction.round.end_offset
        return 0

    def log_start(self, partition: str) -> int:
        """As the checkpoint now says: nothing vouches for a digit in it."""
        return self._stated(LOG_START_OFFSET_CHECKPOINT).get(partition, 0)

    def is_let_go(self, partition: str) -> bool:
        """Whether the list of holds now names another partition in place of it: nothing vouches for a letter in it."""
        holds = self._stated(HOLDS_FILE)
        return partition == "held-0" and bool(holds) and partition not in holds

    def _stated(self, name: str) -> Mapping[str, int]:
        path = self.path / name
        with suppress(LogCleanerError, FileNotFoundError):
            return {str(key): offset for key, offset in parse_offset_checkpoint(path.read_bytes(), path).items()}
        return {}


def _judge_untouched(damaged: Mapping[str, Sight], after: Mapping[str, Sight]) -> None:
    """A run that was refused as a whole changed nothing."""
    if damaged != after:
        raise Finding("refused, and yet something changed")


def _judge(case: _Case) -> None:
    for partition, after in case.after.items():
        if case.is_local and partition not in case.damaged_partitions:
            _judge_bystander(case, partition, after)
            continue
        _judge_invention(case, partition, after)
        _judge_loss(case, partition, after)
        if any(base < case.compacted_to(partition) for base in after.broken):
            raise Finding(f"{partition}: compacted without an error, and not readable")


def _judge_bystander(case: _Case, partition: str, after: Sight) -> None:
    expected = case.subject.after[partition].files
    if dict(after.files) != dict(expected):
        names = {name for name, _ in set(after.files.items()) ^ set(expected.items())}
        raise Finding(f"{partition} was not damaged, and differs in {sorted(names)}")


def _judge_invention(case: _Case, partition: str, after: Sight) -> None:
    invented = after.records - case.damaged[partition].records
    if invented:
        raise Finding(f"{partition}: {len(invented)} records that were not there, as {min(invented, key=_offset)}")


def _judge_loss(case: _Case, partition: str, after: Sight) -> None:
    damaged = case.damaged[partition]
    due = case.subject.after[partition].records & damaged.records
    if case.is_resealed(partition):
        is_plain = not damaged.broken and partition.startswith(("v2", "random", "swapped", "orders", "log"))
        due = frozenset(r for r in damaged.latest.values() if not r.is_tombstone) if is_plain else frozenset()
    if case.is_let_go(partition):
        due = frozenset()
    start = case.log_start(partition)
    lost = {record for record in due - after.records if record.offset >= start}
    if lost:
        raise Finding(f"{partition}: {len(lost)} records lost, as {min(lost, key=_offset)}")


def _offset(record: object) -> int:
    return record.offset  # type: ignore[attr-defined,no-any-return]
