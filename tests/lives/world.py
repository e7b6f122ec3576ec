"""The world of a life: a log dir with its configuration, a clock, and who changes it. Each step is one method."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from policies.config.config_keys import LONG_MAX
from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.writing.validation import Producer
from storage.names import parse_topic_partition
from storage.records import ControlType, Record
from tests.batches import encode_control_batch
from tests.lives.life import Happening
from tests.lives.running import Breaks, LifeClock, Stop, Told, run
from tests.lives.seen import WATERMARKS, Look, checkpoint

FS: Final = FileSystem()
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAZQ"
MINUTES_MS: Final = 120_000
"""How long a person takes."""
_WRITING: Final = LogConfig(index_interval_bytes=100)
_KEYS: Final = tuple(f"k{number}".encode() for number in range(8))


@dataclass(frozen=True, slots=True)
class Stated:
    """What a configuration states of a topic."""

    cleanup: str
    retention_ms: int | None
    retention_bytes: int | None
    delete_retention_ms: int

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup

    def keys(self) -> dict[str, str]:
        """Return Kafka's keys."""
        found = {
            "cleanup.policy": self.cleanup,
            "delete.retention.ms": str(self.delete_retention_ms),
            "min.cleanable.dirty.ratio": "0.0",
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
    is_trusted: bool = False
    """A person, a producer or a broker did it: what they leave is how it is."""

    def and_(self, other: May) -> May:
        """Return what two acts side by side may do."""
        return May(
            self.retains or other.retains,
            self.compacts or other.compacts,
            self.restores or other.restores,
            {**self.below, **other.below},
            self.is_trusted or other.is_trusted,
        )


@dataclass(frozen=True, slots=True)
class Act:
    """What a step did."""

    may: May
    told: tuple[Told, ...] = ()
    is_whole: bool = True
    """Nothing ended it early."""
    settles: bool = False
    """Another such act at the same moment must find nothing to do."""
    planned: Mapping[str, Any] | None = None
    """The document of the dry run before."""
    looked: str = ""
    """The command that only looked."""


TRUSTED: Final = Act(May(is_trusted=True))


class World:
    """A room with a log dir ``data``."""

    def __init__(self, room: Path, breaks: Breaks | None = None) -> None:
        self.room, self._breaks = room, breaks
        self.log_dir = room / "data"
        self.log_dir.mkdir(parents=True)
        (self.log_dir / ".kafka_cleanshutdown").touch()
        self.clock = LifeClock.from_now()
        self.stated: dict[str, Stated] = {}
        """What any version of the configuration that may be read states, by topic."""
        self.held: set[str] = set()
        """Partitions on hold."""
        self.watched: dict[str, Look] = {}
        self.elsewhere: list[Path] = []
        self.by_hand: list[str] = []
        """The ``.deleted`` logs that a person set aside, by path below the log dir."""
        self._snapshot_by_hand: list[str] = []
        self._snapshot_held: set[str] = set()
        self._file = "plain"
        self._written = 0
        os.environ["XDG_CACHE_HOME"] = str(room / "cache")
        self._write_config()

    def do(self, step: Happening) -> Act:
        """Let a step happen."""
        method: Callable[..., Act] = getattr(self, "_" + step.kind.replace("-", "_"))
        return method(**step.options)

    def command(self, *words: str, stop: Stop | None = None, has_config: bool = True) -> Told:
        """Run a command of ours on the log dir."""
        log_dir = ("--log-dir", str(self.log_dir))
        config = ("--config", str(self.config))
        whole = (*words, *log_dir, *(config if has_config else ()))
        with self._fed():
            return run(whole, self.clock, self.room, self.log_dir, stop, self._breaks)

    # ---- configuration

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
            self._put(whole[: len(whole) // 2])
            told = self.command("clean", "--yes", "--json")
            self._file = "plain"
            self._write_config()
            return Act(May(retains=True, compacts=True), (told,))
        self._write_config()
        return TRUSTED

    def _text(self, stated: Mapping[str, Stated]) -> str:
        tables = (
            f"[topics.{name}]\n" + "".join(f"{key!r} = {json.dumps(value)}\n" for key, value in said.keys().items())
            for name, said in sorted(stated.items())
        )
        return f'"clock.jump.max" = {LONG_MAX}\n' + "\n".join(tables)

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
            log = Log.create(directory, _WRITING, FS, topic_id=TOPIC_ID)
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
        drawn = Random(dice)
        with self._writing(topic) as log:
            start = log.log_end_offset
            for _ in range(batches):
                if by is not None:
                    self._append(log, drawn, by * 10 + transactional, transactional=transactional)
                else:
                    records = _records(drawn, self.clock.now_ms)
                    log.append_records(records, now_ms=self.clock.now_ms, compression=Compression[codec.upper()])
            if roll:
                log.roll(self.clock.now_ms)
            end = log.log_end_offset
        self._commit(topic, start if uncommitted else end)
        return TRUSTED

    def _append(self, log: Log, drawn: Random, producer_id: int, *, transactional: bool) -> None:
        """A producer that connects anew goes on with its sequence."""
        entry = log.producer_state(self.clock.now_ms).producers.get(producer_id)
        last = entry.last_batch if entry else None
        producer = Producer(
            producer_id, entry.epoch if entry else 0, last.last_sequence + 1 if last else 0, transactional
        )
        log.append_records(_records(drawn, self.clock.now_ms), now_ms=self.clock.now_ms, producer=producer)

    def _end(self, topic: str, by: int, *, abort: bool) -> Act:
        if not self._directory(topic).exists():
            return TRUSTED
        with self._writing(topic) as log:
            entry = log.producer_state(self.clock.now_ms).producers.get(by * 10 + 1)
            if entry and entry.open_txn_first_offset is not None:
                marker = encode_control_batch(
                    ControlType.ABORT if abort else ControlType.COMMIT,
                    offset=0,
                    timestamp_ms=self.clock.now_ms,
                    producer_id=by * 10 + 1,
                    producer_epoch=entry.epoch,
                    coordinator_epoch=0,
                )
                log.append(marker, now_ms=self.clock.now_ms, origin=AppendOrigin.COORDINATOR)
            end = log.log_end_offset
        self._commit(topic, end)
        return TRUSTED

    def _roll(self, topic: str) -> Act:
        if self._directory(topic).exists():
            with self._writing(topic) as log:
                log.roll(self.clock.now_ms)
        return TRUSTED

    # ---- time

    def _wait(self, ms: int) -> Act:
        self.clock.passes(ms)
        return TRUSTED

    def _clock(self, ms: int) -> Act:
        self.clock.is_set(ms)
        return TRUSTED

    # ---- our commands

    def _clean(self, *, at_once: bool, yes: bool, only: str | None, asked: bool = False, **stopped: Any) -> Act:
        words = ["clean", "--json", *(("--yes",) if yes else ()), *(("--only", only) if only else ())]
        words += ["--delete-delay", "0"] if at_once else []
        planned = _document(self.command(*words, "--dry-run")) if asked else None
        told = self.command(*words, stop=_stop_of(stopped))
        may = May(retains=only != "compaction", compacts=only != "retention")
        return Act(may, (told,), not stopped, settles=not only, planned=planned)

    def _free(self, *, compact: bool, yes: bool, **stopped: Any) -> Act:
        words = ["free", "--json", "--target", "100%", *(("--compact",) if compact else ())]
        words += ["--yes"] if yes else []
        return Act(May(retains=True, compacts=compact), (self.command(*words, stop=_stop_of(stopped)),), not stopped)

    def _delete_records(self, topic: str, share: float, **stopped: Any) -> Act:
        log = Look.at(self.log_dir).logs.get(f"{topic}-0")
        offset = int(share * (log.high_watermark or 0)) if log else 0
        words = ["delete-records", f"{topic}-0", "--before-offset", str(offset), "--yes"]
        told = self.command(*words, stop=_stop_of(stopped))
        return Act(May(below={f"{topic}-0": offset}), (told,), not stopped)

    def _restore(self, topic: str | None, **stopped: Any) -> Act:
        before = Look.at(self.log_dir).logs
        told = self.command("restore", f"{topic}-0" if topic else "--all", "--yes", stop=_stop_of(stopped))
        if told.status == 0:
            after = Look.at(self.log_dir).logs
            self.held |= {name for name, log in after.items() if name in before and log.records != before[name].records}
        return Act(May(restores=True), (told,), not stopped)

    def _release(self, topic: str) -> Act:
        told = self.command("restore", f"{topic}-0", "--release", "--yes")
        self.held -= {f"{topic}-0"} if told.status == 0 else set()
        return Act(May(), (told,))

    def _apply(self, **stopped: Any) -> Act:
        return Act(May(), (self.command("config", "apply", stop=_stop_of(stopped)),), not stopped)

    def _repair(self, **stopped: Any) -> Act:
        told = self.command("verify", "--repair", "derived", "--yes", stop=_stop_of(stopped), has_config=False)
        return Act(May(), (told,), not stopped)

    def _sweep(self, **stopped: Any) -> Act:
        names = sorted(str(path.relative_to(self.log_dir)) for path in self.log_dir.glob("*/*.deleted"))
        if not names:
            return TRUSTED
        return Act(May(), (self.command("doctor", "--yes", "--sweep", *names, stop=_stop_of(stopped)),), not stopped)

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

    # ---- people

    def _snapshot(self) -> Act:
        shutil.rmtree(self.room / "snapshot", ignore_errors=True)
        _copy(self.log_dir, self.room / "snapshot")
        self._snapshot_by_hand, self._snapshot_held = list(self.by_hand), set(self.held)
        return TRUSTED

    def _bring_back(self, topic: str | None) -> Act:
        """``rsync -a --delete`` of the whole snapshot, or of one partition."""
        snapshot = self.room / "snapshot"
        self.clock.passes(MINUTES_MS)
        if topic is None and snapshot.exists():
            shutil.rmtree(self.log_dir)
            _copy(snapshot, self.log_dir)
            self.by_hand, self.held = list(self._snapshot_by_hand), set(self._snapshot_held)
        elif topic is not None and (snapshot / f"{topic}-0").exists():
            name = f"{topic}-0"
            shutil.rmtree(self.log_dir / name, ignore_errors=True)
            _copy(snapshot / name, self.log_dir / name)
            self.by_hand = [path for path in self.by_hand if not path.startswith(f"{name}/")]
            self.by_hand += [path for path in self._snapshot_by_hand if path.startswith(f"{name}/")]
            self._commit(topic, Look.at(self.log_dir).logs[name].end_offset)
        return TRUSTED

    def _set_aside(self, topic: str, pick: float, *, more: bool) -> Act:
        """``mv X.log X.log.deleted``; with ``more`` its index files, too."""
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
        self.clock.passes(MINUTES_MS)
        logs = sorted(self._directory(topic).glob("*.log"))[:-1]
        if logs:
            log = logs[int(pick * len(logs))]
            away = self.room / "away"
            away.mkdir(exist_ok=True)
            for path in log.parent.glob(f"{log.stem}.*index" if more else ".none"):
                path.rename(away / f"{topic}-0 {path.name}")
            log.rename(away / f"{topic}-0 {log.name}")
        return TRUSTED

    def _move_home(self) -> Act:
        self.clock.passes(MINUTES_MS)
        for path in sorted((self.room / "away").glob("*")):
            partition, _, name = path.name.partition(" ")
            target = self.log_dir / partition / name
            if target.parent.exists() and not target.exists():
                path.rename(target)
        return TRUSTED

    def _remove_log(self, topic: str, pick: float, *, more: bool) -> Act:
        self.clock.passes(MINUTES_MS)
        logs = sorted(self._directory(topic).glob("*.log"))[:-1]
        if logs:
            log = logs[int(pick * len(logs))]
            for path in log.parent.glob(f"{log.stem}.*index" if more else ".none"):
                path.unlink()
            log.unlink()
        return TRUSTED

    def _derived(self, topic: str, pick: float, *, more: bool) -> list[Path]:
        directory = self._directory(topic)
        found = [
            path for pattern in ("*index", "*.snapshot", "leader-epoch-checkpoint") for path in directory.glob(pattern)
        ]
        found.sort()
        return found if more else found[int(pick * len(found)) :][:1]

    def _remove_derived(self, topic: str, pick: float, *, more: bool) -> Act:
        self.clock.passes(MINUTES_MS)
        for path in self._derived(topic, pick, more=more):
            path.unlink()
        return TRUSTED

    def _empty_derived(self, topic: str, pick: float, *, more: bool) -> Act:
        self.clock.passes(MINUTES_MS)
        for path in self._derived(topic, pick, more=more):
            path.write_bytes(b"")
        return TRUSTED


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)


def _stop_of(stopped: Mapping[str, Any]) -> Stop | None:
    return Stop(stopped["stop"], stopped["at"], stopped["dice"]) if stopped else None


def _document(told: Told) -> Mapping[str, Any] | None:
    try:
        return dict(json.loads(told.stdout))
    except ValueError:
        return None


def _records(dice: Random, now_ms: int) -> list[Record]:
    records = []
    for _ in range(dice.randrange(1, 4)):
        value = None if dice.random() < 0.2 else dice.randbytes(dice.randrange(1, 60)) + bytes(20)
        records.append(Record(0, now_ms - dice.randrange(2_000), dice.choice(_KEYS), value))
    return records
