"""A real broker on a log dir of ours: one KRaft node on the loopback, started as a process and always ended."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.interop.jvms import QUICK, ClassArchive
from tests.interop.kafka_jars import java
from tests.interop.tally import TALLY
from tests.ports import free_port

START_SECONDS_MAX: Final = 240
STOP_SECONDS_MAX: Final = 120
POLL_SECONDS: Final = 0.2
WORDS_SHOWN: Final = 3_000
CLUSTER_ID: Final = base64.urlsafe_b64encode(b"logcleaner tests").decode().rstrip("=")

# Its own cleaner and retention stay out, and segments roll by the records' time.
QUIET: Final = {
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "86400000",
    "log.initial.task.delay.ms": "86400000",
    "log.roll.ms": "500",
}
# Its own cleaner at once and all the time.
BUSY: Final = {
    "log.cleaner.backoff.ms": "300",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "1000",
    "log.roll.ms": "500",
}


class BrokerEnded(Exception):
    """The process ended, or did not answer in time; the message holds its last words."""


@dataclass(slots=True)
class Broker:
    """A node with one log dir, which a later broker can take over; ``with`` starts it and ends it whatever happens.

    Args:
        classpath: from ``kafka_jars.kafka_classpath``.
        log_dir: formatted if it is new.
        settings: of ``server.properties``, over what a single node needs.
    """

    classpath: str
    log_dir: Path
    settings: Mapping[str, str]
    ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    _process: subprocess.Popen[bytes] | None = None
    _archive: ClassArchive = field(init=False)

    def __post_init__(self) -> None:
        self._archive = ClassArchive(self.classpath, "kafka.Kafka")

    @property
    def bootstrap(self) -> str:
        """What a client connects to."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.launch()
        try:
            self.wait_until_it_serves()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def launch(self) -> None:
        """Format the log dir where it is new, and start the process."""
        properties = self._write_properties()
        if not (self.log_dir / "meta.properties").exists():
            command = self._java(
                self._archive.use(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)
            )
            subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS_MAX)
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                self._java(self._archive.use_or_leave(), "kafka.Kafka", str(properties)),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        TALLY.jvm_starts += 1

    def stop(self) -> None:
        """Stop it cleanly; does nothing where it was stopped before."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerEnded(f"did not stop within {STOP_SECONDS_MAX} s\n{self.last_words()}") from None
        self._archive.keep()
        self._process = None

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._archive.drop()
            self._process = None

    def wait_for_refusal(self) -> str:
        """Wait until a launched broker has ended by itself; gives what it said. Raises: BrokerEnded if it has not."""
        assert self._process is not None
        try:
            self._process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise BrokerEnded(f"still runs\n{self.last_words()}") from None
        finally:
            self.kill()
        return self.output.read_text(errors="replace")

    def errors(self) -> list[str]:
        """The lines of the last words that tell of an error.

        But for one: a combined node may register its controller with itself before it knows that it leads, is refused
        (NotControllerException), and tries again. That concerns no log dir.
        """
        lines = [line for line in self.last_words().splitlines() if "ERROR" in line]
        return [line for line in lines if "apiKey=CONTROLLER_REGISTRATION" not in line]

    def last_words(self) -> str:
        """The end of what the process printed."""
        return self.output.read_text(errors="replace")[-WORDS_SHOWN:]

    @property
    def output(self) -> Path:
        return self.log_dir.with_name(f"{self.log_dir.name}.out")

    def _java(self, options: Sequence[str], *arguments: str) -> list[str]:
        return [str(java()), *QUICK, *options, "-Xmx512m", "-cp", self.classpath, *arguments]

    def _write_properties(self) -> Path:
        client, controller = self.ports
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            **self.settings,
        }
        path = self.log_dir.with_name(f"{self.log_dir.name}.properties")
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def wait_until_it_serves(self) -> None:
        assert self._process is not None
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise BrokerEnded(f"exit status {self._process.returncode}\n{self.last_words()}")
            try:
                if client.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                time.sleep(POLL_SECONDS)
        raise BrokerEnded(f"does not answer after {START_SECONDS_MAX} s\n{self.last_words()}")
