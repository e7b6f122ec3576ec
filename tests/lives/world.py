"""The world of a life: a log dir with its configuration, a clock, and who changes it. Each step is one method."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from policies.config.config_keys import LONG_MAX
from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.leader_epochs import read_leader_epochs
from storage.log.writing.validation import Producer
from storage.metadata.metadata_encode import encode_partition
from storage.names import parse_topic_partition
from storage.records import ControlType, Record
from tests.batches import encode_control_batch
from tests.interop.referee import Referee
from tests.interop.verdicts import KafkaRefused
from tests.legacy_logs import FORMATS
from tests.legacy_logs import segment as legacy_segment
from tests.lives.foretold import (
    Later,
    Opened,
    Refused,
    Waiting,
    untrue_of_as_of,
    untrue_of_copy,
    untrue_of_explain,
    untrue_of_move,
    untrue_of_preflight,
)
from tests.lives.life import HOUR_MS, TOPICS, Happening
from tests.lives.promises import tree, untrue_of_dry_run, untrue_of_second_run, untrue_of_source
from tests.lives.resident import Resident
from tests.lives.running import Breaks, LifeClock, Started, Stop, Told, run, start, wait_for
from tests.lives.seen import WATERMARKS, Look, Piece, SeenLog, checkpoint, piece_of, seen_in
from tests.lives.whole_broker import RETENTION_MS, WholeBroker
from tests.metadata_dirs import METADATA_DIR, alter, append_metadata, write_metadata
from tests.partition_dirs import PartitionDir
from tests.tiers.drawn import DrawnSegment, write_local

FS: Final = FileSystem()
TOPIC_IDS: Final = {topic: f"{number:02d}{'A' * 20}" for number, topic in enumerate(TOPICS)}
"""As ``tests.metadata_dirs`` gives them."""
FILE_DELETE_DELAY_MS: Final = 60_000
"""``file.delete.delay.ms``."""
MINUTES_MS: Final = 120_000
"""How long a person takes."""
_WRITING: Final = LogConfig(index_interval_bytes=100)
_BESIDE: Final = {
    "clean": ["clean", "--json", "--yes"],
    "clean at once": ["clean", "--json", "--yes", "--delete-delay", "0"],
    "free": ["free", "--json", "--yes", "--target", "100%"],
    "restore": ["restore", "--all", "--yes"],
    "doctor": ["doctor", "--json"],
    "verify": ["verify"],
    "topics": ["topics"],
    "preflight": ["preflight"],
}
"""What may run beside another command."""
_SIGNALS: Final = {"usr1": signal.SIGUSR1, "hup": signal.SIGHUP, "term": signal.SIGTERM, "kill": signal.SIGKILL}
_RETENTION_CHECK_MS: Final = 300_000
"""``log.retention.check.interval.ms``."""
_OLD_FORMATS: Final = tuple(form for form in FORMATS if form.magic < 2)
_HEADER_BYTES: Final = 20
"""Less than a batch of any format takes."""
_KEYS: Final = tuple(f"k{number}".encode() for number in range(8))


@dataclass(frozen=True, slots=True)
class Stated:
    """What a configuration states of a topic."""

    cleanup: str
    retention_ms: int | None
    retention_bytes: int | None
    delete_retention_ms: int
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    dirty_ratio: float = 0.0

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup

    @classmethod
    def of(cls, keys: Mapping[str, str]) -> Stated:
        """Return what Kafka's keys state; their defaults where they say nothing, but limits have none."""
        by_age, by_size = (int(keys[name]) if name in keys else None for name in ("retention.ms", "retention.bytes"))
        horizon_ms = int(keys.get("delete.retention.ms", 24 * HOUR_MS))
        lag_ms = int(keys.get("min.compaction.lag.ms", 0))
        most_ms = int(keys.get("max.compaction.lag.ms", LONG_MAX))
        ratio = float(keys.get("min.cleanable.dirty.ratio", 0.0))
        return cls(keys.get("cleanup.policy", "delete"), by_age, by_size, horizon_ms, lag_ms, most_ms, ratio)

    def keys(self) -> dict[str, str]:
        """Return Kafka's keys."""
        found = {
            "cleanup.policy": self.cleanup,
            "delete.retention.ms": str(self.delete_retention_ms),
            "min.cleanable.dirty.ratio": str(self.dirty_ratio),
            "min.compaction.lag.ms": str(self.min_compaction_lag_ms),
            "max.compaction.lag.ms": str(self.max_compaction_lag_ms),
            "segment.bytes": "2000",
        }
        found |= {} if self.retention_ms is None else {"retention.ms": str(self.retention_ms)}
        return found | ({} if self.retention_bytes is None else {"retention.bytes": str(self.retention_bytes)})


@dataclass(frozen=True, slots=True)
class May:
    """What an act may do to the records of a log dir."""

    retains: bool = False
    """Delete what retention lets go."""
    compacts: bool = False
    restores: bool = False
    below: Mapping[str, int] = field(default_factory=dict)
    """Records below these offsets were to be deleted."""
    erases: Mapping[str, bytes] = field(default_factory=dict)
    """Records of this key were to be erased, by partition."""
    releases: frozenset[str] = frozenset()
    """Partitions whose holds were to go."""
    unlinks: bool = False
    """Take ``.deleted`` files before their delay is over."""
    is_trusted: bool = False
    """A person, a producer or a broker did it: what they leave is how it is."""

    def and_(self, other: May) -> May:
        """Return what two acts side by side may do."""
        return May(
            self.retains or other.retains,
            self.compacts or other.compacts,
            self.restores or other.restores,
            {**self.below, **other.below},
            {**self.erases, **other.erases},
            self.releases | other.releases,
            self.unlinks or other.unlinks,
            self.is_trusted or other.is_trusted,
        )


@dataclass(frozen=True, slots=True)
class Act:
    """What a step did."""

    may: May
    told: tuple[Told, ...] = ()
    settles: bool = False
    """Another such act at the same moment must find nothing to do."""
    planned: Mapping[str, Any] | None = None
    """The document of the dry run before."""
    looked: str = ""
    """The command that only looked."""
    copy: Path | None = None
    """Where what the act leaves lies, and the log dir is as it was."""
    imported: tuple[str, str] | None = None
    """A partition, and the one that was made of it."""
    is_same: bool = False
    """The copy has all that its source has."""
    started: Mapping[str, Opened | Refused] | None = None
    """What a start of Kafka opened, by partition."""
    untrue: tuple[str, ...] = ()
    """What a command said, and did not come true."""


TRUSTED: Final = Act(May(is_trusted=True))
_UNDOES: Final = frozenset({"bring-back", "put-back", "move-home", "set-dir-aside", "bring-dir-home"})
"""What a person may do that takes back what a command did."""


class Waits(NamedTuple):
    """A file that became ``.deleted`` by a command."""

    until_ms: int
    """Epoch ms."""
    is_due: bool
    """A log that a deletion took, so that a restore brings it back."""


@dataclass(frozen=True, slots=True)
class Done:
    """What commands told as done of a partition, with an exit status of 0."""

    log_start: int = 0
    erased: frozenset[int] = frozenset()
    """Offsets of erased records."""


_OF_TOPICS: Final = frozenset(f"{topic}-0" for topic in TOPICS)


class World:
    """A room with a log dir ``data``."""

    def __init__(
        self,
        room: Path,
        breaks: Breaks | None = None,
        referee: Referee | None = None,
        classpath: str | None = None,
    ) -> None:
        """Make it. With a class path of Kafka, a whole broker makes the log dir, and takes part."""
        self.room, self._breaks, self._referee = room, breaks, referee
        self.log_dir = room / "data"
        self.log_dir.mkdir(parents=True)
        (self.log_dir / ".kafka_cleanshutdown").touch()
        self.clock = LifeClock.from_now()
        self.stated: dict[str, Stated] = {}
        """What the configuration states, by topic."""
        self.others: list[dict[str, Stated]] = []
        """What else it may have stated, in a step in which it was edited."""
        self._half: dict[str, Stated] | None = None
        """What half of it stated, in a step whose command read that; no command acts on what nobody can read."""
        self.held: set[str] = set()
        """Partitions on hold."""
        self.held_before: frozenset[str] = frozenset()
        """Those on hold before the step."""
        self.cluster_retention_ms: int | None = None
        """What the cluster metadata say of all topics, whose policy is ``delete`` there; None without them."""
        self._snapshot_cluster_ms: int | None = None
        self._is_placed = False
        """Whether the cluster metadata have the replicas of the topics."""
        self.by_hand: list[str] = []
        """The ``.deleted`` logs that a person set aside, by path below the log dir."""
        self.touched, self.halted = set[str](), set[str]()
        """The partitions whose files a person changed; and those that were there when a command ended half way."""
        self.evidence: dict[str, Piece] = {}
        """Index files without a ``.log``, and what that log held, by path below the log dir."""
        self._snapshot_evidence: dict[str, Piece] = {}
        self._snapshot_by_hand: list[str] = []
        self._snapshot_held: set[str] = set()
        self.waiting: dict[str, Waits] = {}
        """The files that became ``.deleted`` by a command."""
        self.done: dict[str, Done] = {}
        """What was told as done, by partition, and not taken back since."""
        self.cut: list[str] = []
        """The ``.log`` files that a person cut, by path below the log dir."""
        self._file = "plain"
        self._resident: Resident | None = None
        """The daemon that lives."""
        self._is_bold = False
        """Whether no guard rail holds it back."""
        self._turned_ms = 0
        """When it last did its turns."""
        self._written = self._imported = 0
        self._write_config()
        self._broker_itself = None
        if classpath is not None:
            self._broker_itself = WholeBroker(classpath, self.log_dir)
            self.cluster_retention_ms = RETENTION_MS

    def close(self) -> None:
        """End broker and daemon, whatever happened."""
        if self._resident is not None:
            self._resident.ends(_SIGNALS["kill"])
        if self._broker_itself is not None:
            self._broker_itself.close()

    def do(self, step: Happening) -> Act:
        """Let a step happen."""
        self.held_before, self._half, self.others = frozenset(self.held), None, []
        method: Callable[..., Act] = getattr(self, "_" + step.kind.replace("-", "_"))
        act = method(**step.options)
        if act.may.is_trusted:  # a person, or a start of a broker, may take what tells of missing records
            self.evidence = {name: piece for name, piece in self.evidence.items() if _has_bytes(self.log_dir / name)}
        if any(told.was_stopped for told in act.told) or step.options.get("stop"):
            self.halted |= {path.name for path in self._partitions()}
        if step.kind in _UNDOES:
            self.done.clear(), self.waiting.clear()
        return act

    def acts(self, step: Happening) -> Iterator[Act]:
        """Let a step happen, and what a person does right before or behind it: each act is judged for itself.

        Once a ``.log`` is back, the remedy of ``doctor`` follows: a broker without it forgot its transactions.
        """
        if step.kind in {"start", "broker"}:
            yield self.do(Happening("look", {"command": "preflight", "topic": TOPICS[0], "pick": 0.0}))
        yield self.do(step)
        if step.kind in {"put-back", "move-home"}:
            yield self.do(Happening("repair"))

    def note(self, before: Look, act: Act, after: Look) -> None:
        """Note what the step told as done; a restore may take a log start back, and nothing takes back an erasure."""
        self.waiting = {path: one for path, one in self.waiting.items() if path in after.files}
        if act.may.is_trusted:
            return
        for path in after.files.keys() - before.files.keys():
            if path.endswith(".deleted"):
                old, new = (look.logs.get(path.partition("/")[0]) for look in (before, after))
                end = after.aside[path].end_offset if path in after.aside else None
                is_due = bool(old and new and end is not None and old.log_start < end <= new.log_start)
                self.waiting[path] = Waits(self.clock.now_ms + FILE_DELETE_DELAY_MS, is_due)
        if not (act.may.restores or (act.told and act.told[0].status == 0)):
            return
        for name, log in after.logs.items():
            old, erased = self.done.get(name, Done()), frozenset[int]()
            if name in act.may.erases and name in before.logs:
                gone = before.logs[name].records.keys() - log.records.keys()
                erased = frozenset(one for one in gone if before.logs[name].records[one].value is not None)
            self.done[name] = Done(log.log_start, old.erased | erased)

    def command(self, *words: str, stop: Stop | None = None, has_config: bool = True, copy: Path | None = None) -> Told:
        """Run a command of ours on the log dir; the copy that it makes loses power, too."""
        log_dir = ("--log-dir", str(self.log_dir))
        with self._fed():
            whole = (*words, *log_dir, *(("--config", str(self.config)) if has_config else ()))
            others = (copy,) if copy else ()
            return run(whole, self.clock, self.room, self.log_dir, stop, self._breaks, others)

    def later(self, name: str, now_ms: int, *words: str) -> Later:
        """Run a command on a copy of the log dir, for one partition, at a later time."""
        copy = self.room / "later"
        shutil.rmtree(copy, ignore_errors=True)
        _copy(self.log_dir, copy)
        clock = self.clock.ahead_to(now_ms)
        clock.knows_copy(self.log_dir, copy)
        with self._fed():
            options = ("--topic", name, "--log-dir", str(copy), "--config", str(self.config))
            told = run((*words, *options), clock, self.room, copy, None, self._breaks)
        bases = frozenset(int(path.stem) for path in (copy / name).glob("*.log"))
        found = ((path.name, path.stat()) for path in (copy / name).glob("*.deleted"))
        waiting = frozenset(Waiting(file, status.st_size, status.st_mtime_ns) for file, status in found)
        return Later(told, bases, waiting, seen_in(copy).get(name))

    def all_in_force(self, partition: str) -> tuple[Stated, ...]:
        """Return what is stated of a partition by any configuration that a command may have read."""
        found = (self.in_force(partition), *(self.in_force(partition, other) for other in self.others))
        return tuple(one for one in found if one is not None)

    def in_force(self, partition: str, other: Mapping[str, Stated] | None = None) -> Stated | None:
        """Return what is stated of a partition, maybe by another configuration; None where nobody stated a policy."""
        stated = other if other is not None else self.stated if self._half is None else self._half
        said, by_cluster = stated.get(partition.rpartition("-")[0]), self.cluster_retention_ms
        if said is None:
            return None if by_cluster is None else Stated("delete", by_cluster, None, 24 * HOUR_MS)
        return replace(said, retention_ms=by_cluster) if said.retention_ms is None else said

    # ---- configuration

    def _cluster(self, retention_ms: int) -> Act:
        """The cluster states a limit for all topics, in its metadata."""
        if self._broker_itself is not None:
            return TRUSTED  # the metadata are the broker's
        said = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
        topics = dict.fromkeys(TOPICS, said)
        if self.cluster_retention_ms is None:
            write_metadata(self.log_dir, **topics)
            self._is_placed = False
        else:
            alter(self.log_dir, **topics)  # type: ignore[arg-type]
        self.cluster_retention_ms = retention_ms
        return TRUSTED

    @property
    def config(self) -> Path:
        """The file that commands are told of."""
        return self.room / "logcleaner.toml"

    def _policy(self, topic: str, file: str = "plain", **stated: Any) -> Act:
        said = Stated(**stated)
        self._file = file
        self.stated = {**self.stated, topic: said}
        if file == "half":  # the editor is killed while it writes; then the file is saved again
            whole = self._text(self.stated)
            half = whole[: len(whole) // 2]
            self._half = _read(half)
            self._put(half)
            told = self.command("clean", "--yes", "--json")
            self._file = "plain"
            self._write_config()
            may_run = self._half is not None
            return Act(May(retains=may_run, compacts=may_run), (told,))
        self._write_config()
        return TRUSTED

    def _edited(self, topic: str, delay_ms: int, **stated: Any) -> Act:
        """The configuration is saved while a run reads it, or acts on it; for a moment there is none."""
        if self._file == "fifo":
            return TRUSTED
        words = ("clean", "--json", "--yes", "--log-dir", str(self.log_dir), "--config", str(self.config))
        running = start(words, self.clock, self.room, self.log_dir, None, self._breaks)
        time.sleep(delay_ms / 1000)
        self.others = [self.stated, {}]
        self.stated = {**self.stated, topic: Stated(**stated)}
        self._write_config()
        return Act(May(retains=True, compacts=True), (wait_for(running),))

    def _text(self, stated: Mapping[str, Stated]) -> str:
        tables = (
            f"[topics.{name}]\n" + "".join(f"{key!r} = {json.dumps(value)}\n" for key, value in said.keys().items())
            for name, said in sorted(stated.items())
        )
        bold = '"reload.guard" = false\n[defaults]\n"max.delete.ratio" = 1.0\n"max.unkeyed.ratio" = 1.0\n'
        return f'"clock.jump.max" = {LONG_MAX}\n{bold if self._is_bold else ""}' + "\n".join(tables)

    def _write_config(self) -> None:
        self._put(self._text(self.stated))

    def _put(self, text: str) -> None:
        self._written += 1
        self.config.unlink(missing_ok=True)
        if self._file == "symlink":
            version = self.room / f"version-{self._written}.toml"
            version.write_text(text)
            self.config.symlink_to(version.name)
        elif self._file == "fifo":
            os.mkfifo(self.config)
        else:
            self.config.write_text(text)

    @contextmanager
    def _fed(self) -> Iterator[None]:
        """Write to the FIFO, once, if the configuration is one."""
        if self._file != "fifo":
            yield
            return
        text = self._text(self.stated).encode()

        def feed() -> None:
            descriptor = os.open(self.config, os.O_WRONLY)
            os.write(descriptor, text)
            os.close(descriptor)

        feeding = threading.Thread(target=feed, daemon=True)
        feeding.start()
        try:
            yield
        finally:
            if feeding.is_alive():  # nobody read it
                descriptor = os.open(self.config, os.O_RDONLY | os.O_NONBLOCK)
                feeding.join()
                os.close(descriptor)

    # ---- who writes

    def _directory(self, topic: str) -> Path:
        return self.log_dir / f"{topic}-0"

    @contextmanager
    def _writing(self, topic: str) -> Iterator[Log]:
        """A broker at work on one partition; it stops cleanly."""
        directory = self._directory(topic)
        starts = checkpoint(self.log_dir / "log-start-offset-checkpoint")
        if directory.exists():
            log = Log.open(directory, _WRITING, FS, log_start_offset=starts.get(directory.name, 0))
        else:
            log = Log.create(directory, _WRITING, FS, topic_id=TOPIC_IDS[topic])
        before = {path: path.stat().st_mtime_ns for path in directory.glob("*.log")}
        with log:
            yield log
        for place, path in enumerate(sorted(directory.glob("*.log"))):
            if before.get(path) != path.stat().st_mtime_ns:
                self._written += 1
                at_ns = (self.clock.now_ms * 1000 + self._written * 7 + place) * 1000
                os.utime(path, ns=(at_ns, at_ns))

    def _commit(self, topic: str, offset: int) -> None:
        ends = checkpoint(self.log_dir / WATERMARKS) | {f"{topic}-0": offset}
        named = {parse_topic_partition(name): end for name, end in ends.items()}
        (self.log_dir / WATERMARKS).write_bytes(format_offset_checkpoint(named))  # type: ignore[arg-type]

    def _produce(
        self,
        topic: str,
        dice: int,
        batches: int,
        by: int | None,
        codec: str,
        *,
        transactional: bool,
        roll: bool,
        uncommitted: bool,
    ) -> Act:
        if self._is_cut(topic):
            return TRUSTED
        drawn = Random(dice)
        with self._writing(topic) as log:
            start = log.log_end_offset
            for _ in range(batches):
                if by is not None:
                    self._append(log, drawn, _id_of(by, transactional=transactional), transactional=transactional)
                else:
                    records = _records(drawn, self.clock.now_ms)
                    log.append_records(records, now_ms=self.clock.now_ms, compression=Compression[codec.upper()])
            if roll:
                log.roll(self.clock.now_ms)
            end = log.log_end_offset
        self._commit(topic, start if uncommitted else end)
        return TRUSTED

    def _append(self, log: Log, drawn: Random, producer_id: int, *, transactional: bool) -> None:
        """A producer that connects anew goes on with its sequence, also in a transaction of a workload."""
        entry = log.producer_state(self.clock.now_ms).producers.get(producer_id)
        transactional |= entry is not None and entry.open_txn_first_offset is not None
        last = entry.last_batch if entry else None
        producer = Producer(
            producer_id, entry.epoch if entry else 0, last.last_sequence + 1 if last else 0, transactional
        )
        log.append_records(_records(drawn, self.clock.now_ms), now_ms=self.clock.now_ms, producer=producer)

    def _end(self, topic: str, by: int, *, abort: bool) -> Act:
        if not self._directory(topic).exists() or self._is_cut(topic):
            return TRUSTED
        with self._writing(topic) as log:
            entry = log.producer_state(self.clock.now_ms).producers.get(_id_of(by, transactional=True))
            if entry and entry.open_txn_first_offset is not None:
                marker = encode_control_batch(
                    ControlType.ABORT if abort else ControlType.COMMIT,
                    offset=0,
                    timestamp_ms=self.clock.now_ms,
                    producer_id=_id_of(by, transactional=True),
                    producer_epoch=entry.epoch,
                    coordinator_epoch=0,
                )
                log.append(marker, now_ms=self.clock.now_ms, origin=AppendOrigin.COORDINATOR)
            end = log.log_end_offset
        self._commit(topic, end)
        return TRUSTED

    def _roll(self, topic: str) -> Act:
        if self._directory(topic).exists() and not self._is_cut(topic):
            with self._writing(topic) as log:
                log.roll(self.clock.now_ms)
        return TRUSTED

    def _legacy(self, topic: str, dice: int, form: int, segments: int) -> Act:
        """A log of the formats v0 and v1, as an old broker left it."""
        if self._directory(topic).exists():
            return TRUSTED
        drawn, form_of = Random(dice), _OLD_FORMATS[form % len(_OLD_FORMATS)]
        made = PartitionDir(self.log_dir, f"{topic}-0")
        for _ in range(segments):
            records = _records(drawn, self.clock.now_ms)
            numbered = [replace(one, offset=made.end_offset + place) for place, one in enumerate(records)]
            self._written += 1
            legacy_segment(made, made.end_offset, form_of.encode(numbered), mtime_ms=self.clock.now_ms + self._written)
        made.segment(made.end_offset, mtime_ms=self.clock.now_ms)
        self._commit(topic, made.end_offset)
        return TRUSTED

    # ---- time

    def _wait(self, ms: int) -> Act:
        self.clock.passes(ms)
        return TRUSTED

    def _clock(self, ms: int) -> Act:
        self.clock.is_set(ms)
        back_ms = min(ms, 0)
        self.waiting = {p: one._replace(until_ms=one.until_ms + back_ms) for p, one in self.waiting.items()}
        return TRUSTED

    # ---- our commands

    def _clean(
        self, *, at_once: bool, yes: bool, only: str | None, asked: bool = False, exact: bool = False, **stopped: Any
    ) -> Act:
        words = ["clean", "--json", *(("--yes",) if yes else ()), *(("--only", only) if only else ())]
        words += ["--delete-delay", "0"] if at_once else []
        planned = self.command(*words, "--dry-run", *(("--exact",) if exact else ())).document if asked else None
        told = self.command(*words, stop=_stop_of(stopped))
        may = May(retains=only != "compaction", compacts=only != "retention", unlinks=at_once)
        return Act(may, (told,), settles=not only, planned=planned)

    def _asked(
        self, *words: str, asked: bool, stopped: Mapping[str, Any], has_config: bool = True
    ) -> tuple[Told, tuple[str, ...]]:
        """Run a command; if asked, behind its dry run and before another one, which must find nothing to do."""
        if not asked:
            return self.command(*words, stop=_stop_of(stopped), has_config=has_config), ()
        said = self.command(*words, "--dry-run", has_config=has_config)
        told = self.command(*words, stop=_stop_of(stopped), has_config=has_config)
        untrue = [*untrue_of_dry_run(said, told)]
        if told.status == 0:
            untrue += untrue_of_second_run(self.command(*words, "--dry-run", has_config=has_config))
        return told, tuple(untrue)

    @contextmanager
    def _stays(self, untrue: list[str], *sources: Path) -> Iterator[None]:
        """Note what a command changes in what it only reads."""
        before = [tree(source) for source in sources]
        yield
        for source, was in zip(sources, before, strict=True):
            untrue += untrue_of_source(was, tree(source))

    def _free(self, *, compact: bool, yes: bool, asked: bool = False, **stopped: Any) -> Act:
        words = ["free", "--json", "--target", "100%", *(("--compact",) if compact else ())]
        words += ["--yes"] if yes else []
        planned = self.command(*words, "--dry-run").document if asked else None
        told = self.command(*words, stop=_stop_of(stopped))
        is_settled = asked and yes and not stopped and not compact and not self.by_hand and not self.evidence
        untrue = tuple(untrue_of_second_run(self.command(*words, "--dry-run"))) if is_settled else ()
        return Act(May(retains=True, compacts=compact, unlinks=True), (told,), planned=planned, untrue=untrue)

    def _delete_records(self, topic: str, share: float, asked: bool = False, **stopped: Any) -> Act:
        log = Look.at(self.log_dir).logs.get(f"{topic}-0")
        offset = int(share * (log.high_watermark or 0)) if log else 0
        words = ["delete-records", f"{topic}-0", "--before-offset", str(offset), "--yes", "--json"]
        told, untrue = self._asked(*words, asked=asked, stopped=stopped)
        return Act(May(below={f"{topic}-0": offset}), (told,), untrue=untrue)

    def _erase(self, topic: str, pick: float, *, more: bool, asked: bool = False, **stopped: Any) -> Act:
        """The records of one key, with ``more`` its tombstones, too."""
        key = _KEYS[int(pick * len(_KEYS))]
        words = ("erase", key.decode(), "--topic", topic, "--yes", "--json", *(("--tombstones",) if more else ()))
        told, untrue = self._asked(*words, asked=asked, stopped=stopped)
        return Act(May(erases={f"{topic}-0": key}, unlinks=True), (told,), untrue=untrue)

    def _move(self, topic: str, stop: str | None = None, at: int = 0, dice: int = 0, *, asked: bool = False) -> Act:
        """A partition goes to another log dir and comes back; what ended a move is followed by the same command."""
        name, other, told, untrue = f"{topic}-0", self.room / "other", list[Told](), list[str]()
        if not self._directory(topic).exists():
            return TRUSTED
        shutil.rmtree(other, ignore_errors=True)
        other.mkdir()
        for file in (".kafka_cleanshutdown", "meta.properties"):
            if (self.log_dir / file).exists():
                shutil.copy2(self.log_dir / file, other / file)
        (other / "recovery-point-offset-checkpoint").write_bytes(format_offset_checkpoint({}))
        shutil.copystat(self.log_dir, other)
        os.chown(other, (status := self.log_dir.stat()).st_uid, status.st_gid)
        before, strays = Look.at(self.log_dir).logs[name], set(self.log_dir.glob("*-stray"))
        for source, target in ((self.log_dir, other), (other, self.log_dir)):
            words = ("move", name, "--json", "--to-dir", str(target), "--log-dir", str(source))
            dry = run((*words, "--dry-run"), self.clock, self.room, self.log_dir, None, self._breaks) if asked else None
            for ended in (Stop(stop, at, dice), None) if stop else (None,):
                told.append(run(words, self.clock, self.room, self.log_dir, ended, self._breaks, (other,)))
                untrue += untrue_of_dry_run(dry, told[-1]) if dry and not stop else ()
                is_done = told[-1].status == 0
                untrue += untrue_of_move(before, seen_in(source).get(name), seen_in(target).get(name), is_done=is_done)
            if not is_done:
                break
        if not self._directory(topic).exists():
            untrue.append(f"{name} did not come back: {told[-1].stderr[-500:]}")
        for path in set(self.log_dir.glob("*-stray")) - strays:
            shutil.rmtree(path)
        return Act(May(unlinks=True), tuple(told), untrue=tuple(untrue))

    def _restore(self, topic: str | None, *, asked: bool = False, **stopped: Any) -> Act:
        before = Look.at(self.log_dir).logs
        words = ("restore", f"{topic}-0" if topic else "--all", "--yes", "--json")
        told, untrue = self._asked(*words, asked=asked, stopped=stopped)
        self._hold(before)
        return Act(May(restores=True), (told,), untrue=untrue)

    def _hold(self, before: Mapping[str, SeenLog]) -> None:
        after = Look.at(self.log_dir).logs
        grown = (name for name, log in after.items() if name in before and log.records.keys() - before[name].records)
        self.held |= set(grown)

    def _release(self, topic: str) -> Act:
        told = self.command("restore", f"{topic}-0", "--release", "--yes", "--json")
        self.held -= {f"{topic}-0"} if told.status == 0 else set()
        return Act(May(releases=frozenset({f"{topic}-0"})), (told,))

    def _apply(self, **stopped: Any) -> Act:
        return Act(May(), (self.command("config", "apply", stop=_stop_of(stopped)),))

    def _repair(self, *, asked: bool = False, **stopped: Any) -> Act:
        words = ("verify", "--repair", "derived", "--yes", "--json")
        told, untrue = self._asked(*words, asked=asked, stopped=stopped, has_config=False)
        return Act(May(), (told,), untrue=untrue)

    def _sweep(self, **stopped: Any) -> Act:
        names = sorted(str(path.relative_to(self.log_dir)) for path in self.log_dir.glob("*-0/*.deleted"))
        if not names:
            return TRUSTED
        return Act(
            May(unlinks=True), (self.command("doctor", "--yes", "--json", "--sweep", *names, stop=_stop_of(stopped)),)
        )

    def _look(self, command: str, topic: str, pick: float) -> Act:
        name = f"{topic}-0"
        if not self._directory(topic).exists():
            return TRUSTED
        key = _KEYS[int(pick * len(_KEYS))].decode()
        words = {
            "explain": ["explain", name],
            "dump": ["dump", name],
            "lookup": ["lookup", name, "--offset", str(int(pick * 60))],
            "prove-erased": ["prove-erased", key],
            "digest": ["digest", "--output", str(self.room / "digest")],
            "export": ["export", name, "--to", "jsonl", str(self.room / "exported.jsonl")],
            "free -n": ["free", "-n", "--target", "100%"],
        }.get(command, command.split())
        for left in ("digest", "exported.jsonl"):
            (self.room / left).unlink(missing_ok=True)
        takes_config = command not in {"dump", "verify", "history", "restore", "lookup"}
        return Act(May(), (self.command(*words, has_config=takes_config),), looked=command)

    def _foretold(self, topic: str) -> Act:
        """What ``explain`` says of one partition, and what runs later do."""
        name = f"{topic}-0"
        if not self._directory(topic).exists():
            return TRUSTED
        told = self.command("explain", name, "--json")
        dry = self.command("clean", "--json", "--dry-run", "--topic", name)
        said, planned = told.document, dry.document
        if told.status or dry.status or said is None or planned is None:
            return Act(May(), (told, dry), looked="explain")
        run_later = partial(self.later, name)
        untrue = untrue_of_explain(said["partitions"][0], self.clock.now_ms, run_later, planned["partitions"][0])
        return Act(May(), (told, dry), looked="explain", untrue=tuple(untrue))

    def _daemon_start(self, *, bold: bool) -> Act:
        """The daemon begins to live beside all that follows; a bold one asks about nothing."""
        if self._file == "fifo" or (self._resident and self._resident.is_alive):
            return TRUSTED
        self._is_bold = bold
        self._write_config()
        words = ("run", "--log-dir", str(self.log_dir), "--config", str(self.config))
        self._resident = Resident(words, self.clock, self.room, self.log_dir, self._breaks)
        return Act(May(), (self._resident.told(),))

    def _daemon_turn(self, *, by: str | None, kill: int = 0, beside: str | None = None) -> Act:
        """The daemon does what is due, or everything, or is killed amid it; maybe another command runs beside."""
        living, may = self._resident, May(retains=True, compacts=True)
        if living is None or not living.is_alive or self._file == "fifo":
            return Act(May())
        before, running, rested_ms = Look.at(self.log_dir).logs, list[Started](), self.clock.now_ms - self._turned_ms
        if by:
            living.takes(_SIGNALS[by])
        with living.turns(kill):
            if beside:
                words = _BESIDE[beside]
                may = may.and_(May(restores="restore" in words, unlinks=bool({"--delete-delay", "free"} & {*words})))
                config = ("--config", str(self.config)) if words[0] in {"clean", "free", "restore"} else ()
                whole = (*words, "--log-dir", str(self.log_dir), *config)
                running.append(start(whole, self.clock, self.room, self.log_dir, None, self._breaks))
        others = tuple(wait_for(one) for one in running)
        if may.restores:
            self._hold(before)
        told = living.told(was_killed=bool(kill))
        untrue = [f"the daemon ended: {told.stderr[-1500:]}"] if not living.is_alive and not kill else []
        untrue += [f"a worker died: {told.stderr[-1500:]}"] if "worker_died" in told.stderr and not kill else []
        self._turned_ms = self.clock.now_ms
        is_over = by == "usr1" or (rested_ms > _RETENTION_CHECK_MS and not living.has_failed)
        settles = living.is_alive and not kill and not beside and is_over
        return Act(may, (told, *others), settles=settles, untrue=tuple(untrue))

    def _daemon_end(self, *, by: str) -> Act:
        """The daemon is stopped, or killed between two turns."""
        if self._resident is None or not self._resident.is_alive:
            return Act(May())
        status = self._resident.ends(_SIGNALS[by])
        expected = -_SIGNALS["kill"] if by == "kill" else 0
        told = self._resident.told(was_killed=True)
        return Act(May(), (told,), untrue=() if status == expected else (f"{by} ends the daemon with {status}",))

    def _daemon(self) -> Act:
        told = self.command("run", "--once")
        return Act(May(retains=True, compacts=True), (told,))

    def _copied(self, **stopped: Any) -> Act:
        """``clean --output``."""
        copy = self.room / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        untrue: list[str] = []
        with self._stays(untrue, self.log_dir):
            told = self.command("clean", "--yes", "--output", str(copy), stop=_stop_of(stopped), copy=copy)
        is_there = self._is_made(copy, told, untrue)
        return Act(May(retains=True, compacts=True), (told,), copy=copy if is_there else None, untrue=tuple(untrue))

    def _is_made(self, copy: Path, told: Told, untrue: list[str]) -> bool:
        """Return whether a copy has its manifest, as each has that was told as done; Kafka's classes read it."""
        is_there = (copy / "logcleaner-manifest.json").exists()
        untrue += self._read_by_kafka(copy) if is_there else ()
        if not (told.status or is_there):
            untrue.append(f"{' '.join(told.words[:4])} ends with 0 without a manifest")
        return is_there

    def _read_by_kafka(self, copy: Path) -> tuple[str, ...]:
        """Have Kafka's classes read what a command wrote."""
        if self._referee is None:
            return ()
        made = seen_in(copy)
        started = started_by_kafka(self._referee, copy, self.clock.now_ms, self.in_force)
        return tuple(untrue_of_copy(made, started))

    def _repack(self, *, codec: str | None, at_once: bool, apart: bool, **stopped: Any) -> Act:
        """``clean --repack``, in place or to a copy."""
        copy = self.room / "repacked"
        shutil.rmtree(copy, ignore_errors=True)
        words = ["clean", "--json", "--yes", "--repack", *(("--codec", codec) if codec else ())]
        words += ["--output", str(copy)] if apart else ["--delete-delay", "0"] if at_once else []
        untrue: list[str] = []
        with self._only_replicas(), self._stays(untrue, *((self.log_dir,) if apart else ())):
            told = self.command(*words, stop=_stop_of(stopped), copy=copy if apart else None)
        may = May(retains=True, compacts=True, unlinks=at_once)
        if not apart:
            return Act(may, (told,), settles=True)
        is_there = self._is_made(copy, told, untrue)
        return Act(may, (told,), copy=copy if is_there else None, untrue=tuple(untrue))

    @contextmanager
    def _only_replicas(self) -> Iterator[None]:
        """Have the cluster metadata, if there are any, say that each topic has its one replica here."""
        if self.cluster_retention_ms is None or self._broker_itself is not None:
            yield
            return
        ids = self.log_dir / "meta.properties"
        ids.write_text("version=1\ncluster.id=life\nnode.id=1\n")
        if not self._is_placed:
            append_metadata(self.log_dir, [encode_partition(one, 0, 1, "A" * 22, 0) for one in TOPIC_IDS.values()])
        self._is_placed = True
        yield
        ids.unlink(missing_ok=True)

    def _as_of(self, back_ms: int, *, by_offsets: bool, incomplete: bool, **stopped: Any) -> Act:
        """``clean --until``: a copy of the log dir as it was; in two runs, the first of which writes the cuts."""
        copy, cuts, told = self.room / "as-of", self.room / "cuts.json", list[Told]()
        shutil.rmtree(copy, ignore_errors=True)
        cuts.unlink(missing_ok=True)
        until_ms = self.clock.now_ms - back_ms
        also = ("--incomplete",) if incomplete else ()
        until = ("--until", str(until_ms))
        if by_offsets:
            told.append(self.command("clean", "-n", *until, "--write-offsets", str(cuts), *also))
            until = ("--until-offsets", str(cuts))
            if told[-1].status or not cuts.exists():
                return Act(May(), tuple(told))
        before = Look.at(self.log_dir).logs
        words, untrue = ("clean", "--json", *until, "--output", str(copy), *also), list[str]()
        with self._stays(untrue, self.log_dir):
            told.append(self.command(*words, stop=_stop_of(stopped), copy=copy))
        if self._is_made(copy, told[-1], untrue):
            is_whole = told[-1].status == 0 and not incomplete
            said = (told[-1].document or {}).get("open_transactions", ())
            named = {(f"{one['topic']}-{one['partition']}", one["first_offset"]) for one in said}
            untrue += untrue_of_as_of(before, seen_in(copy), until_ms, named, is_whole=is_whole)
        return Act(May(), tuple(told), untrue=tuple(untrue))

    def _restore_tier(self, topic: str, share: float, **stopped: Any) -> Act:
        """A broker copied the closed segments to a tier, and has few of them here: both make the log dir again."""
        source, tier, target = self.room / "survived", self.room / "tier", self.room / "restored"
        for path in (source, tier, target):
            shutil.rmtree(path, ignore_errors=True)
        directory = self._directory(topic)
        segments = list(_tiered(directory)) if directory.exists() and not self._is_cut(topic) else []
        if not segments:
            return Act(May())
        _copy(self.log_dir, source)
        write_local(tier, segments)
        for segment in segments[: int(share * (len(segments) + 1))]:
            for path in (source / directory.name).glob(f"{segment.start:020d}.*"):
                path.unlink()
        words, told = ("restore-tier", str(tier), "--log-dir", str(source), "--output", str(target)), list[Told]()
        untrue: list[str] = []
        with self._stays(untrue, source, tier):
            for stop in (_stop_of(stopped), None) if stopped else (None,):
                told.append(run(words, self.clock, self.room, target, stop, self._breaks))
        is_done = self._is_made(target, told[-1], untrue) and told[-1].status == 0
        return Act(May(), tuple(told), copy=target if is_done else None, is_same=True, untrue=tuple(untrue))

    def _fetch(self) -> Act:
        """A copy that a person made is fetched: what there is of it arrives."""
        source, target = self.room / "source", self.room / "fetched"
        for path in (source, target):
            shutil.rmtree(path, ignore_errors=True)
        _copy(self.log_dir, source)
        untrue: list[str] = []
        with self._stays(untrue, source):
            told = run(["fetch", str(source), str(target)], self.clock, self.room, self.log_dir, None, self._breaks)
        return Act(May(), (told,), copy=target if told.status == 0 else None, is_same=True, untrue=tuple(untrue))

    def _import(self, topic: str, **stopped: Any) -> Act:
        """What was exported becomes a partition of its own."""
        exported = self.room / "exported.jsonl"
        exported.unlink(missing_ok=True)
        told = self.command("export", f"{topic}-0", "--to", "jsonl", str(exported), "--include-metadata")
        if told.status != 0 or not exported.stat().st_size:
            return Act(May(), (told,))
        self._imported += 1
        name = f"imported{self._imported}-0"
        self.stated[f"imported{self._imported}"] = Stated("delete", -1, None, 24 * HOUR_MS)
        self._write_config()
        ended = self.command("import", str(exported), name, "--to-dir", str(self.log_dir), stop=_stop_of(stopped))
        return Act(May(), (told, ended), imported=(f"{topic}-0", name) if ended.status == 0 else None)

    def _both(self, first: str, second: str) -> Act:
        """Two commands side by side."""
        may, running, before = May(), [], Look.at(self.log_dir).logs
        if self._file == "fifo":
            return TRUSTED  # one of them would get what the other waits for
        for words in (_BESIDE[first], _BESIDE[second]):
            clean, free = "clean" in words, "free" in words
            may = may.and_(May(clean or free, clean, "restore" in words, unlinks=free or "--delete-delay" in words))
            log_dir = ("--log-dir", str(self.log_dir))
            config = ("--config", str(self.config)) if words[0] in {"clean", "free", "restore"} else ()
            running.append(start((*words, *log_dir, *config), self.clock, self.room, self.log_dir, None, self._breaks))
        told = tuple(wait_for(one) for one in running)
        if may.restores:
            self._hold(before)
        return Act(may, told)

    # ---- Kafka

    def _partitions(self) -> list[Path]:
        return partitions_of(self.log_dir)

    def _start(self, *, unclean: bool) -> Act:
        """A start of the broker, and its clean stop."""
        if self._referee is None:
            return TRUSTED
        if unclean:
            (self.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
        told = self.command("preflight", "--json", has_config=False)
        started = started_by_kafka(self._referee, self.log_dir, self.clock.now_ms, self.in_force)
        (self.log_dir / ".kafka_cleanshutdown").touch()
        self._forget_what_is_gone()
        untrue = tuple(untrue_of_preflight(json.loads(told.stdout), started)) if told.stdout else ()
        return Act(May(is_trusted=True), (told,), started=started, untrue=untrue)

    def _broker(self, dice: int, *, kill: bool) -> Act:
        """A whole broker starts, is read from and written to, and stops or is killed."""
        assert self._broker_itself is not None
        told = self.command("preflight", "--json", has_config=False)
        said = json.loads(told.stdout)
        partitions = said["log_dirs"][0]["partitions"]
        fates = {one["directory"]: one["fate"] for one in partitions if one["directory"] in _OF_TOPICS}
        served = [
            name for name, fate in fates.items() if fate == "served" and not self._is_cut(name.rpartition("-")[0])
        ]
        found = self._broker_itself.lives(served, dice, self.clock.now_ms, is_killed=kill)
        ends = {one["directory"]: one["log_end_offset"] for one in partitions}
        for name, one in found.items():
            if (
                isinstance(one, Opened) and one.log_end > ends[name]
            ):  # its coordinator wrote a marker that it still owed
                found[name] = one._replace(log_end=ends[name])
        refused = bool(found) and all(isinstance(one, Refused) for one in found.values())
        self._forget_what_is_gone()
        if refused and not said["starts"]:
            return Act(May(is_trusted=True), (told,))
        return Act(May(is_trusted=True), (told,), started=found, untrue=tuple(untrue_of_preflight(said, found)))

    def _kafka_cleans(self, *, keep: bool) -> Act:
        """Kafka's retention and its cleaner."""
        for directory in self._partitions():
            stated = self.in_force(directory.name)
            if self._referee and stated and not self._is_cut(directory.name.rpartition("-")[0]):
                self._referee.clean(
                    [directory],
                    config=stated.keys(),
                    now_ms=self.clock.now_ms,
                    checkpoints=True,
                    keep_deleted=keep,
                    expires=stated.deletes,
                )
        self._forget_what_is_gone()
        return TRUSTED

    def _workload(self, topic: str, seed: int, steps: int) -> Act:
        """A broker appends records of every kind."""
        directory = self._directory(topic)
        if self._referee and directory.exists() and not self._is_cut(topic):
            now_ms = self.clock.now_ms
            self._referee.workload([directory], seed, now_ms=now_ms, checkpoints=True, steps=steps)
        self._forget_what_is_gone()
        return TRUSTED

    def _forget_what_is_gone(self) -> None:
        """What a broker deletes at its start, it deletes; segments that it wrote have times of their own."""
        self.by_hand = [name for name in self.by_hand if (self.log_dir / name).exists()]

    # ---- people

    def _chown(self, uid: int) -> Act:
        """Everything belongs to another user."""
        if os.geteuid() == 0:
            for path in (self.log_dir, *self.log_dir.rglob("*")):
                os.chown(path, uid, uid)
        return TRUSTED

    def _snapshot(self) -> Act:
        shutil.rmtree(self.room / "snapshot", ignore_errors=True)
        _copy(self.log_dir, self.room / "snapshot")
        self._snapshot_by_hand, self._snapshot_held = list(self.by_hand), set(self.held)
        self._snapshot_evidence, self._snapshot_cluster_ms = dict(self.evidence), self.cluster_retention_ms
        return TRUSTED

    def _bring_back(self, topic: str | None) -> Act:
        """``rsync -a --delete`` of the whole snapshot, or of one partition."""
        self.touched |= {path.name for path in self._partitions()} if topic is None else {f"{topic}-0"}
        snapshot = self.room / "snapshot"
        self.clock.passes(MINUTES_MS)
        if topic is None and snapshot.exists():
            shutil.rmtree(self.log_dir)
            _copy(snapshot, self.log_dir)
            self.by_hand, self.held = list(self._snapshot_by_hand), set(self._snapshot_held)
            self.evidence, self.cluster_retention_ms = dict(self._snapshot_evidence), self._snapshot_cluster_ms
        elif topic is not None and (snapshot / f"{topic}-0").exists():
            name = f"{topic}-0"
            shutil.rmtree(self.log_dir / name, ignore_errors=True)
            _copy(snapshot / name, self.log_dir / name)
            self.by_hand = [path for path in self.by_hand if not path.startswith(f"{name}/")]
            self.by_hand += [path for path in self._snapshot_by_hand if path.startswith(f"{name}/")]
            self.evidence = {path: one for path, one in self.evidence.items() if not path.startswith(f"{name}/")}
            old = self._snapshot_evidence.items()
            self.evidence |= {path: one for path, one in old if path.startswith(f"{name}/")}
            self._commit(topic, Look.at(self.log_dir).logs[name].end_offset)
        return TRUSTED

    def _set_aside(self, topic: str, pick: float, *, more: bool) -> Act:
        """``mv X.log X.log.deleted``; with ``more`` its index files, too."""
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        logs = sorted(self._directory(topic).glob("*.log"))[:-1]
        if logs:
            log = logs[int(pick * len(logs))]
            if not log.with_name(log.name + ".deleted").exists():
                for path in log.parent.glob(f"{log.stem}.*index") if more else ():
                    path.rename(path.with_name(path.name + ".deleted"))
                target = log.rename(log.with_name(log.name + ".deleted"))
                self.by_hand.append(str(target.relative_to(self.log_dir)))
        return TRUSTED

    def _put_back(self) -> Act:
        self.clock.passes(MINUTES_MS)
        for name in self.by_hand:
            path = self.log_dir / name
            if path.exists() and not path.with_suffix("").exists():
                for one in path.parent.glob(f"{path.name.partition('.')[0]}.*.deleted"):
                    one.rename(one.with_suffix(""))
        self.by_hand.clear()
        return TRUSTED

    def _move_away(self, topic: str, pick: float, *, more: bool) -> Act:
        """To another directory, which nobody watches."""
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        logs = sorted(self._directory(topic).glob("*.log"))[:-1]
        if logs:
            log = logs[int(pick * len(logs))]
            away = self.room / "away"
            away.mkdir(exist_ok=True)
            for path in log.parent.glob(f"{log.stem}.*index" if more else ".none"):
                path.rename(away / f"{topic}-0 {path.name}")
            self._note_evidence(log, logs)
            log.rename(away / f"{topic}-0 {log.name}")
        return TRUSTED

    def _move_home(self) -> Act:
        self.clock.passes(MINUTES_MS)
        for path in sorted((self.room / "away").glob("*")):
            partition, _, name = path.name.partition(" ")
            target = self.log_dir / partition / name
            if target.parent.exists() and not target.exists():
                path.rename(target)
                gone = f"{partition}/{target.name.partition('.')[0]}."
                if target.suffix == ".log":
                    self.evidence = {one: p for one, p in self.evidence.items() if not one.startswith(gone)}
        return TRUSTED

    def _remove_log(self, topic: str, pick: float, *, more: bool) -> Act:
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        logs = sorted(self._directory(topic).glob("*.log"))[:-1]
        if logs:
            log = logs[int(pick * len(logs))]
            for path in log.parent.glob(f"{log.stem}.*index" if more else ".none"):
                path.unlink()
            self._note_evidence(log, logs)
            log.unlink()
        return TRUSTED

    def _spoil_log(self, topic: str, pick: float, how: str) -> Act:
        """A closed ``.log`` is emptied, or gets the name of what a round writes."""
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        logs = sorted(self._directory(topic).glob("*.log"))[:-1]
        if logs:
            log = logs[int(pick * len(logs))]
            if how != ".swap":
                self._note_evidence(log, logs)
            if how == "empty":
                os.truncate(log, 0)
            elif not (target := log.with_name(log.name + how)).exists():
                log.rename(target)
        return TRUSTED

    def _cut_log(self, topic: str, pick: float) -> Act:
        """A closed ``.log`` loses its end, within a batch."""
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        logs = [
            path for path in sorted(self._directory(topic).glob("*.log"))[:-1] if path.stat().st_size > _HEADER_BYTES
        ]
        if logs:
            log = logs[int(pick * len(logs))]
            os.truncate(log, log.stat().st_size - 1 - int(pick * _HEADER_BYTES) % _HEADER_BYTES)
            self.cut.append(str(log.relative_to(self.log_dir)))
        return TRUSTED

    def _is_cut(self, topic: str) -> bool:
        """Return whether a log of the partition is cut, so that nobody writes to it before it is mended."""
        return any(self._troubled(path) for path in self.cut if path.startswith(f"{topic}-0/"))

    def _troubled(self, path: str) -> bool:
        whole = self.log_dir / path
        return whole.exists() and bool(piece_of(whole, int(whole.stem)).trouble)

    def troubled(self) -> list[str]:
        """Return the cut logs that are still there."""
        return [path for path in self.cut if self._troubled(path)]

    def _set_dir_aside(self, topic: str, form: str) -> Act:
        """A broker sets a partition aside as ``-stray``, or deletes its topic."""
        self.touched.add(f"{topic}-0")
        directory = self._directory(topic)
        if directory.exists():
            self.clock.passes(MINUTES_MS)
            self._written += 1
            self._rename(directory, f"{directory.name}.{self._written:032x}-{form}")
        return TRUSTED

    def _bring_dir_home(self) -> Act:
        self.clock.passes(MINUTES_MS)
        for path in sorted((*self.log_dir.glob("*-stray"), *self.log_dir.glob("*-delete"))):
            home = self.log_dir / path.name.rpartition(".")[0]
            if not home.exists():
                self._rename(path, home.name)
        return TRUSTED

    def _rename(self, directory: Path, name: str) -> None:
        """Rename a directory of the log dir; what a person did to its files is known by the new name."""
        old, new = f"{directory.name}/", f"{name}/"
        directory.rename(directory.with_name(name))
        self.by_hand = [path.replace(old, new, 1) if path.startswith(old) else path for path in self.by_hand]
        told = self.evidence.items()
        self.evidence = {(path.replace(old, new, 1) if path.startswith(old) else path): piece for path, piece in told}

    def _note_evidence(self, log: Path, logs: list[Path]) -> None:
        """Index files with an entry, between other segments, tell of what is gone."""
        if log != logs[0]:
            piece = piece_of(log, int(log.stem))
            for path in log.parent.glob(f"{log.stem}.*index"):
                if path.stat().st_size and path.suffix != ".txnindex":
                    self.evidence[str(path.relative_to(self.log_dir))] = piece

    def _derived(self, topic: str, pick: float, *, more: bool) -> list[Path]:
        directory = self._directory(topic)
        found = [
            path for pattern in ("*index", "*.snapshot", "leader-epoch-checkpoint") for path in directory.glob(pattern)
        ]
        found.sort()
        return found if more else found[int(pick * len(found)) :][:1]

    def _remove_derived(self, topic: str, pick: float, *, more: bool) -> Act:
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        for path in self._derived(topic, pick, more=more):
            path.unlink()
        return TRUSTED

    def _empty_derived(self, topic: str, pick: float, *, more: bool) -> Act:
        self.touched.add(f"{topic}-0")
        self.clock.passes(MINUTES_MS)
        for path in self._derived(topic, pick, more=more):
            path.write_bytes(b"")
        return TRUSTED


def _tiered(directory: Path) -> Iterator[DrawnSegment]:
    """Yield the closed segments of a partition as a broker copies them, one after another: none behind one that has no
    leader epoch, as those of old formats, or no snapshot behind it.

    Source: Kafka RemoteLogManager.copyLogSegment, RemoteLogSegmentMetadata (its epochs cannot be empty).
    """
    bases = [int(path.stem) for path in sorted(directory.glob("*.log"))]
    try:
        epochs = [(one.epoch, one.start_offset) for one in read_leader_epochs(directory)]
    except LogCleanerError:
        return  # a broker writes them anew before it copies anything
    for base, following in itertools.pairwise(bases):
        log, snapshot = directory / f"{base:020d}.log", directory / f"{following:020d}.snapshot"
        piece, aborted = piece_of(log, base), log.with_suffix(".txnindex")
        if piece.trouble or not snapshot.exists() or not epochs or epochs[0][1] > base or piece.end_offset == base:
            return
        yield DrawnSegment(
            (log.read_bytes(),),
            base,
            f"{directory.name}-{base}",
            tuple(entry for entry in epochs if entry[1] < piece.end_offset),
            directory.name.rpartition("-")[0],
            topic_id=TOPIC_IDS[directory.name.rpartition("-")[0]],
            aborted=aborted.read_bytes() if aborted.exists() else b"",
            mtime_ms=piece.file_ms,
            snapshot=snapshot.read_bytes(),
        )


def _read(text: str) -> dict[str, Stated] | None:
    """Return what a configuration states; None if it is none."""
    try:
        topics = tomllib.loads(text).get("topics", {})
    except tomllib.TOMLDecodeError:
        return None
    return {name: Stated.of(keys) for name, keys in topics.items()}


def _id_of(by: int, *, transactional: bool) -> int:
    """Return the id of a producer; those of the referee's workloads are smaller."""
    return 10_000 + 10 * by + transactional


def _has_bytes(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)


def _stop_of(stopped: Mapping[str, Any]) -> Stop | None:
    return Stop(stopped["stop"], stopped["at"], stopped["dice"]) if stopped else None


def _records(dice: Random, now_ms: int) -> list[Record]:
    records = []
    for _ in range(dice.randrange(1, 4)):
        value = None if dice.random() < 0.2 else dice.randbytes(dice.randrange(1, 60)) + bytes(20)
        records.append(Record(0, now_ms - dice.randrange(2_000), dice.choice(_KEYS), value))
    return records


def partitions_of(log_dir: Path) -> list[Path]:
    """Return the directories of partitions, but that of the cluster metadata."""
    return sorted(path for path in log_dir.glob("*-0") if path.is_dir() and path.name != METADATA_DIR)


def started_by_kafka(
    referee: Referee, log_dir: Path, now_ms: int, in_force: Callable[[str], Stated | None]
) -> dict[str, Opened | Refused]:
    """Have Kafka open and read every partition, as a start does."""
    return {
        directory.name: _started(referee, directory, now_ms, in_force(directory.name))
        for directory in partitions_of(log_dir)
    }


def _started(referee: Referee, directory: Path, now_ms: int, stated: Stated | None) -> Opened | Refused:
    try:
        config = stated.keys() if stated else {}
        (log,) = referee.read([directory], now_ms=now_ms, shutdown="auto", checkpoints=True, config=config)
    except KafkaRefused as refused:
        return Refused(str(refused), _opens(referee, directory))
    records = (record for batch in log.batches() if not batch.control for record in batch.records)
    offsets = frozenset(one.offset for one in records if one.offset >= log.log_start_offset)
    return Opened(log.log_start_offset, log.log_end_offset, offsets)


def _opens(referee: Referee, directory: Path) -> bool:
    """Return whether Kafka opens what it does not read."""
    try:
        referee.lookup(directory, (), (), shutdown="auto")
    except KafkaRefused:
        return False
    return True
