"""One JVM with Kafka's storage classes, asked from Python.

``Referee`` starts ``Referee.java`` or ``OldReferee.java`` (compiled once per source) at the first question and keeps
it; a question may name many partition directories. Kafka changes what it opens, as a starting broker does: hand in
copies.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self

from tests.interop.kafka_jars import KafkaUnavailable, cache_dir, java
from tests.interop.tally import TALLY
from tests.interop.verdicts import (
    CleanedAll,
    Digest,
    Expired,
    Generated,
    Line,
    Log,
    LookedUp,
    RefereeError,
    Round,
    logs_from,
)

SOURCES: Final = Path(__file__).parent
KAFKA_4: Final = "Referee"
KAFKA_2: Final = "OldReferee"
"""Answers ``read``, ``digest``, ``clean``, ``bench``, ``generate``, ``workload``, about logs without producer ids."""
KAFKA_MESSAGES: Final = "Messages"
"""Answers ``encode`` alone."""
SHARED_SOURCES: Final = (
    "Closing", "Conversation", "DeferredTasks", "Digests", "GeneratedRecords", "RandomRecords", "SetTime", "WarmUps",
)  # fmt: skip
# What kafka-server-start.sh and kafka-run-class.sh give a broker.
BROKER_JVM_OPTIONS: Final = (
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# For small logs, and without Kafka's own log lines.
OLD_JVM_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
STDERR_BYTES_SHOWN: Final = 4000
# For logs of a few megabytes: the broker's default map would cost more to clear than the logs to clean.
SMALL_MAP_BYTES: Final = 1 << 20

Shutdown = Literal["clean", "unclean", "auto"]
Config = Mapping[str, str | int | float]


class Referee:
    """A JVM with Kafka's storage classes; started by the first question, ended by ``close``.

    Args:
        classpath: from ``kafka_jars.kafka_classpath``.
        jvm_options: heap and collector; a broker's by default.
        main: ``KAFKA_4`` with the classes of Kafka 4.3 or later, ``KAFKA_2`` with those of 2.8.
    """

    def __init__(self, classpath: str, jvm_options: Sequence[str] = BROKER_JVM_OPTIONS, main: str = KAFKA_4) -> None:
        self._classpath, self._jvm_options, self._main = classpath, tuple(jvm_options), main
        self._jvm: subprocess.Popen[str] | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; the next question would start another."""
        if self._jvm is not None:
            self._jvm.communicate()  # closes its standard input, at which it ends
            self._jvm = None
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    @property
    def pid(self) -> int | None:
        """Process id of the running JVM."""
        return self._jvm.pid if self._jvm else None

    def read(
        self,
        partition_dirs: Sequence[Path],
        *,
        now_ms: int | None = None,
        shutdown: Shutdown = "clean",
        checkpoints: bool = False,
        batches_only: bool = False,
        config: Config | None = None,
    ) -> list[Log]:
        """Open each log and read everything in it, checking every CRC.

        Args:
            partition_dirs: copies; they are changed as by a starting broker.
            now_ms: the broker's clock, epoch ms; decides which producers have expired.
            shutdown: ``clean`` trusts the indexes, ``unclean`` recovers, ``auto`` looks for
                ``.kafka_cleanshutdown``.
            checkpoints: take log start, recovery point and high watermark from the log dir's checkpoint
                files, else they are 0, 0 and the log end.
            batches_only: leave ``Batch.records`` empty.
            config: topic configuration.

        Raises:
            KafkaRefused: for the first log that Kafka does not open or read.
        """
        flags = ["--shutdown", shutdown, *(["--checkpoints"] if checkpoints else [])]
        flags += ["--batches-only"] if batches_only else []
        logs = logs_from(self._ask("read", partition_dirs, *flags, *_clock(now_ms), *_settings(config)))
        TALLY.logs += len(logs)
        TALLY.records += sum(1 for log in logs for _ in log.records())
        return logs

    def digest(self, partition_dirs: Sequence[Path]) -> list[Digest]:
        """One hash a log, for logs too large to be read into Python."""
        digests = [Digest(**line) for _, line in self._ask("digest", partition_dirs)]
        TALLY.logs += len(digests)
        TALLY.records += sum(digest.records for digest in digests)
        return digests

    def clean(
        self,
        partition_dirs: Sequence[Path],
        *,
        config: Config | None = None,
        now_ms: int | None = None,
        checkpoints: bool = False,
        first_dirty_offset: int | None = None,
        rounds: int = 1,
        map_bytes: int = SMALL_MAP_BYTES,
        keep_deleted: bool = False,
        expires: bool = False,
    ) -> list[Round]:
        """Rounds of Kafka's cleaner, in the order of the directories.

        The real LogCleanerManager selects and moves ``cleaner-offset-checkpoint`` in each log dir.
        ``cleanup.policy=compact`` and a minimal dirty ratio of 0 unless ``config`` says otherwise.

        Args:
            partition_dirs: each in a log dir whose checkpoint may be read and written.
            config: topic configuration.
            now_ms: the broker's clock, epoch ms; delete horizons are counted from it.
            checkpoints: as for ``read``.
            first_dirty_offset: written into the checkpoint first.
            rounds: for each log.
            map_bytes: size of the offset map, 24 bytes a key at a load of 0.9.
            keep_deleted: leave the ``.deleted`` files.
            expires: retention once, before the first round.
        """
        flags = ["--rounds", str(rounds), "--map-bytes", str(map_bytes)]
        flags += [*(["--checkpoints"] if checkpoints else []), *(["--keep-deleted"] if keep_deleted else [])]
        flags += ["--expire"] if expires else []
        if first_dirty_offset is not None:
            flags += ["--first-dirty", str(first_dirty_offset)]
        answer = self._ask("clean", partition_dirs, *flags, *_clock(now_ms), *_settings(config))
        return [Round(**line) for _, line in answer]

    def bench(self, partition_dir: Path, *, warmups: int = 2, config: Config | None = None) -> Round:
        """Rounds on copies, which are removed, then one on the log: 256 MiB map, 1 MiB buffers."""
        answer = self._ask("bench", [partition_dir], "--warmups", str(warmups), *_settings(config))
        return Round(**answer[0][1])

    def clean_all(
        self, partition_dirs: Sequence[Path], *, threads: int, warmups: int, config: Config | None = None
    ) -> CleanedAll:
        """What a broker's log cleaner takes for logs of one log dir, none of them cleaned before.

        From the start of its threads to the last checkpoint; the logs are open by then. The map, of all threads
        together, is a broker's default.

        Args:
            partition_dirs: of the logs.
            threads: ``log.cleaner.threads``.
            warmups: so many of the logs are first cleaned on copies.
            config: topic configuration.
        """
        options = ("--threads", str(threads), "--warmups", str(warmups), *_settings(config))
        return CleanedAll(**self._ask("clean-all", partition_dirs, *options)[0][1])

    def expire(
        self,
        partition_dirs: Sequence[Path],
        config: Config,
        *,
        now_ms: int | None = None,
        checkpoints: bool = False,
    ) -> list[Expired]:
        """Kafka's retention (log start offset, size, time) once over each log; arguments as for ``read``."""
        flags = ["--checkpoints"] if checkpoints else []
        answer = self._ask("expire", partition_dirs, *flags, *_clock(now_ms), *_settings(config))
        return [Expired(**line) for _, line in answer]

    def lookup(
        self,
        partition_dir: Path,
        offsets: Iterable[int],
        times_ms: Iterable[int],
        *,
        shutdown: Shutdown = "clean",
        config: Config | None = None,
    ) -> list[LookedUp]:
        """Look up offsets, then times, in one log; its log dir's checkpoints count. Arguments as for ``read``."""
        words = [word for offset in offsets for word in ("--offset", str(offset))]
        words += [word for time_ms in times_ms for word in ("--time", str(time_ms))]
        answer = self._ask(
            "lookup", [partition_dir], "--checkpoints", "--shutdown", shutdown, *words, *_settings(config)
        )
        return [LookedUp(**line) for _, line in answer]

    def generate(
        self,
        partition_dir: Path,
        *,
        records: int | None = None,
        size_bytes: int | None = None,
        keys: int,
        first_key: int = 0,
        in_order: bool = False,
        value_bytes: int,
        codec: str = "none",
        batch_bytes: int = 16_384,
        segment_bytes: int = 1 << 30,
        seed: int = 0,
        config: Config | None = None,
    ) -> Generated:
        """Append keyed records through Kafka's log, all cleanable; it is then as a cleanly stopped broker leaves it.

        It ends after ``records`` or when the log holds ``size_bytes``, whichever comes first. The keys are ``keys``
        numbers from ``first_key`` on: drawn uniformly, or one after the other and round again.
        """
        options = {"keys": keys, "first-key": first_key, "value-bytes": value_bytes, "codec": codec}
        options |= {"batch-bytes": batch_bytes, "segment-bytes": segment_bytes, "seed": seed}
        bounds = {"records": records, "bytes": size_bytes}
        options |= {name: bound for name, bound in bounds.items() if bound is not None}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        words += ["--in-order"] if in_order else []
        return Generated(**self._ask("generate", [partition_dir], *words, *_settings(config))[0][1])

    def workload(
        self,
        partition_dirs: Sequence[Path],
        seed: int,
        *,
        config: Config | None = None,
        now_ms: int | None = None,
        checkpoints: bool = False,
        steps: int | None = None,
        codecs: Sequence[str] = (),
        unkeyed: bool = False,
        tombstones: bool = True,
        transactions: bool = True,
        first_key: int | None = None,
    ) -> list[Generated]:
        """Append seeded random records of every kind to each log, in at least four segments.

        Seed, directory name and what the log already holds decide all; producers that it knows go on.

        Args:
            partition_dirs: logs, new or written before.
            seed: of the random source.
            config: topic configuration; random sizes of segments and index intervals unless it names them.
            now_ms: where the clock starts, epoch ms; else November 2023, and never before what the log holds.
            checkpoints: as for ``read``.
            steps: batches, markers, rolls and changes of epoch; a random number by default.
            codecs: those used; all by default, but to be named for ``KAFKA_2``.
            unkeyed: some records have no key.
            tombstones: some have no value; without them only for ``KAFKA_2``.
            transactions: some records are in one; without them only for ``KAFKA_4``.
            first_key: draw from a few keys from this number on, those of other segments left out; only for ``KAFKA_4``.
        """
        flags = ["--seed", str(seed), *(["--unkeyed"] if unkeyed else [])]
        flags += [] if tombstones else ["--no-tombstones"]
        flags += [] if transactions else ["--no-transactions"]
        flags += [] if first_key is None else ["--first-key", str(first_key)]
        flags += [*(["--checkpoints"] if checkpoints else []), *_clock(now_ms), *_settings(config)]
        flags += [word for codec in codecs for word in ("--codec", codec)]
        flags += [] if steps is None else ["--steps", str(steps)]
        return [Generated(**line) for _, line in self._ask("workload", partition_dirs, *flags)]

    def encode(self, message_class: str, version: int, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Messages in Kafka's JSON, encoded by its own class: ``bytes`` in hexadecimal, and ``json`` as Kafka shows it.

        Only for ``KAFKA_MESSAGES``.
        """
        words = [word for text in texts for word in ("--json", text)]
        return [
            line for _, line in self._ask("encode", [], "--class", message_class, "--version", str(version), *words)
        ]

    def _ask(self, command: str, partition_dirs: Sequence[Path], *options: str) -> list[Line]:
        """The answer's lines, each as its kind and its fields."""
        jvm = self._started()
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        jvm.stdin.write(json.dumps([command, *map(str, partition_dirs), *options]) + "\n")
        jvm.stdin.flush()
        lines: list[Line] = []
        for text in jvm.stdout:
            line = json.loads(text)
            kind = line.pop("kind")
            if kind != "done":
                lines.append((kind, line))
            elif line["error"] is None:
                return lines
            else:
                raise RefereeError(f"{command}: {line['error']}\n{self._last_words()}")
        raise RefereeError(f"{command}: the JVM ended\n{self._last_words()}")

    def _started(self) -> subprocess.Popen[str]:
        if self._jvm is None:
            classpath = f"{compiled(self._main, self._classpath)}:{self._classpath}"
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the JVM)
            self._jvm = subprocess.Popen(
                [str(java()), *self._jvm_options, "-cp", classpath, self._main],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
            )
            TALLY.jvm_starts += 1
        return self._jvm

    def _last_words(self) -> str:
        if self._stderr is None:
            return ""
        self._stderr.seek(0)
        return self._stderr.read()[-STDERR_BYTES_SHOWN:].decode(errors="replace")


def compiled(main: str, classpath: str) -> Path:
    """A directory with the classes of a referee; compiled once per sources and class path.

    Raises:
        KafkaUnavailable: java is there, but no javac beside it.
    """
    sources = [SOURCES / f"{name}.java" for name in (main, *SHARED_SOURCES)]
    key = hashlib.sha256(b"".join(map(Path.read_bytes, sources)) + classpath.encode()).hexdigest()[:16]
    directory = cache_dir() / f"referee-{key}"
    if directory.is_dir():
        return directory
    javac = java().resolve().with_name("javac")
    if not javac.is_file():
        raise KafkaUnavailable(f"no {javac}: a JDK is needed, not a runtime alone")
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="compiling-") as scratch:
        classes = Path(scratch, "classes")
        command = [str(javac), "-nowarn", "-cp", classpath, "-d", str(classes), *map(str, sources)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RefereeError(ran.stderr)
        try:
            classes.rename(directory)
        except OSError:  # another test process was first
            assert directory.is_dir()
    return directory


def _clock(now_ms: int | None) -> list[str]:
    return [] if now_ms is None else ["--now", str(now_ms)]


def _settings(config: Config | None) -> list[str]:
    return [word for key, value in (config or {}).items() for word in ("--config", f"{key}={value}")]
