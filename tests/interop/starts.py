"""Whole starts of real Kafka brokers on log dirs that may be damaged: what the broker says, and what it leaves.

Kafka 4 starts as one KRaft node. Kafka 2.8.2 starts beside a ZooKeeper, which serves all starts of a run.
A start ends when the broker says that it serves, when its process ends, or when it says nothing more for too long.
Then the broker has a moment for what it does with a delay, and is killed: a clean stop would change files again.

The first broker of a kind that stops by itself leaves an archive of its classes (``jvms``).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.interop.broker import CLUSTER_ID
from tests.interop.jvms import QUICK, ClassArchive
from tests.interop.kafka_jars import java
from tests.interop.tally import TALLY
from tests.interop.zookeeper import SESSION_MS, forget, zookeeper
from tests.ports import free_port

START_SECONDS_MAX: Final = 240
POLL_SECONDS: Final = 0.1
DELAYED_SECONDS: Final = 1.0
"""For what a broker deletes with a delay; the delays are set to less."""
DELAYED_SECONDS_MAX: Final = 6.0
"""For the same on a busy machine, if something is not as it was predicted."""
NODE_ID: Final = 1
STARTED: Final = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started")
EXCEPTION: Final = re.compile(r"\b[A-Z]\w*(?:Exception|Error)\b(?:: [^\n]{,120})?")
OFFLINE: Final = re.compile(r"(?:Stopping serving logs in dir|Failed to create or validate data directory) (\S+)")
_NICE: Final = 10
_HOUR_MS: Final = 3_600_000
SETTINGS: Final = {
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": str(24 * _HOUR_MS),
    "log.segment.delete.delay.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}
"""The broker's own cleaner and retention stay out; what waits for a delay does not wait long."""
_LOG4J: Final = """\
<Configuration status="ERROR"><Appenders><Console name="C">
<PatternLayout pattern="%p %m (%c)%n%throwable{4}"/></Console>
</Appenders><Loggers><Logger name="org.apache.kafka.storage.internals.log" level="DEBUG"/>
<Root level="INFO"><AppenderRef ref="C"/></Root></Loggers></Configuration>
"""


class Outcome(StrEnum):
    """How a start ended."""

    STARTED = "started"
    REFUSED = "refused"
    HANGS = "hangs"


@dataclass(frozen=True, slots=True)
class RealStart:
    """What a broker said while it started."""

    outcome: Outcome
    said: str

    @property
    def offline(self) -> list[str]:
        """The log dirs that it took offline."""
        return OFFLINE.findall(self.said)

    @property
    def exceptions(self) -> list[str]:
        """The exceptions that it logged, each once."""
        return list(dict.fromkeys(EXCEPTION.findall(self.said)))


@dataclass(frozen=True, slots=True)
class Kafka4:
    """How to start Kafka 4 as a KRaft node: broker and controller in one process."""

    classpath: str
    scratch: Path
    as_user: tuple[str, ...] = ()
    """A command before that of the JVM, which changes the user."""

    def format(self, log_dirs: Sequence[Path]) -> None:
        """Make log dirs ready for a first start."""
        properties = self._properties(log_dirs, {})
        subprocess.run(
            [*_jvm(self.classpath), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)],
            check=True,
            capture_output=True,
            timeout=START_SECONDS_MAX,
        )

    @contextmanager
    def running(
        self, log_dirs: Sequence[Path], settings: Mapping[str, str]
    ) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
        """Launch a broker; gives the address, the process and its output. Kills it at the end, if it still runs."""
        ports = free_port(), free_port()
        properties = self._properties(log_dirs, settings, ports)
        output, archive = self.scratch / "broker.out", ClassArchive(self.classpath, "kafka.Kafka")
        with output.open("wb") as opened:
            process = subprocess.Popen(
                self._java(archive, "kafka.Kafka", str(properties)), stdout=opened, stderr=subprocess.STDOUT
            )
        TALLY.jvm_starts += 1
        try:
            yield f"127.0.0.1:{ports[0]}", process, output
        finally:
            _end(process, archive)

    def _properties(
        self, log_dirs: Sequence[Path], settings: Mapping[str, str], ports: tuple[int, int] = (9, 10)
    ) -> Path:
        client, controller = ports
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{settings.get('node.id', NODE_ID)}@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(map(str, log_dirs)),
            "log.initial.task.delay.ms": "100",
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            **SETTINGS,
            **settings,
        }
        return _written(self.scratch / "server.properties", properties)

    def _java(self, archive: ClassArchive, *arguments: str) -> list[str]:
        log4j = self.scratch / "log4j2.xml"
        log4j.write_text(_LOG4J)
        shared = () if self.as_user else archive.use_or_leave()
        return [*self.as_user, *_jvm(self.classpath, shared), f"-Dlog4j2.configurationFile={log4j}", *arguments]


@dataclass(frozen=True, slots=True)
class Kafka2:
    """How to start Kafka 2.8 as a broker of the ZooKeeper at ``zookeeper``."""

    classpath: str
    scratch: Path
    zookeeper: str

    @contextmanager
    def running(
        self, log_dirs: Sequence[Path], settings: Mapping[str, str]
    ) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
        """As ``Kafka4.running``."""
        port = free_port()
        properties = {
            "broker.id": str(NODE_ID),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.connection.timeout.ms": str(1000 * START_SECONDS_MAX),
            "log.dirs": ",".join(map(str, log_dirs)),
            **SETTINGS,
            **settings,
        }
        path = _written(self.scratch / "server-2.properties", properties)
        output, archive = self.scratch / "broker-2.out", ClassArchive(self.classpath, "kafka.Kafka")
        with output.open("wb") as opened:
            process = subprocess.Popen(
                [*_jvm(self.classpath, archive.use_or_leave()), *_SIMPLE_LOGGER, "kafka.Kafka", str(path)],
                stdout=opened,
                stderr=subprocess.STDOUT,
            )
        TALLY.jvm_starts += 1
        try:
            yield f"127.0.0.1:{port}", process, output
        finally:
            _end(process, archive)
            forget(self.zookeeper, f"/brokers/ids/{NODE_ID}", "/controller")


_SIMPLE_LOGGER: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
)


@contextmanager
def old_kafka_beside(classpath: str, scratch: Path) -> Iterator[Kafka2]:
    """Run a ZooKeeper; gives the Kafka 2.8 that starts beside it."""
    with zookeeper(_jvm(classpath), scratch) as address:
        yield Kafka2(classpath, scratch, address)


def start(
    kafka: Kafka4 | Kafka2,
    log_dirs: Sequence[Path],
    settings: Mapping[str, str] | None = None,
    is_done: Callable[[RealStart], bool] = lambda _: True,
    delayed_seconds: float = DELAYED_SECONDS,
) -> RealStart:
    """Start a broker, wait for what comes of it, and kill it.

    Args:
        kafka: which one.
        log_dirs: of the broker.
        settings: of its configuration, over the usual ones.
        is_done: whether all has come that is waited for; where it has not, the broker gets more time.
        delayed_seconds: what the broker gets in any case for what it does with a delay.
    """
    with kafka.running(log_dirs, settings or {}) as (_, process, output):
        outcome = _awaited(process, output)
        if outcome is Outcome.STARTED:
            end = time.monotonic() + DELAYED_SECONDS_MAX
            time.sleep(delayed_seconds)
            while not _is(is_done, RealStart(outcome, output.read_text(errors="replace"))) and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            if process.poll() is not None:
                outcome = Outcome.REFUSED
    return RealStart(outcome, output.read_text(errors="replace"))


def _is(is_done: Callable[[RealStart], bool], real: RealStart) -> bool:
    try:
        return is_done(real)
    except FileNotFoundError:  # the broker has just deleted or renamed it
        return False


def wait_until_started(process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until a broker serves."""
    found = _awaited(process, output)
    assert found is Outcome.STARTED, output.read_text(errors="replace")[-3000:]


def _awaited(process: subprocess.Popen[bytes], output: Path) -> Outcome:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        if STARTED.search(output.read_text(errors="replace")):
            return Outcome.STARTED
        if ended:
            return Outcome.REFUSED
        time.sleep(POLL_SECONDS)
    return Outcome.HANGS


def _end(process: subprocess.Popen[bytes], archive: ClassArchive) -> None:
    """Kill a broker, if it still runs."""
    stopped = process.poll() in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    process.kill()
    process.wait()
    if stopped:
        archive.keep()
    else:
        archive.drop()


def _jvm(classpath: str, options: Sequence[str] = ()) -> list[str]:
    """The command of a JVM that starts quickly, and lets others work."""
    more_nice = max(_NICE - os.nice(0), 0)
    return ["nice", "-n", str(more_nice), str(java()), *QUICK, *options, "-Xmx400m", "-cp", classpath]


def _written(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def copied(source: Path, target: Path) -> Path:
    """Copy a log dir, times and holes and all."""
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)
    return target


def removed(path: Path) -> None:
    """Remove a copy."""
    shutil.rmtree(path, ignore_errors=True)
    assert not os.path.lexists(path)
