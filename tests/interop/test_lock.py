"""Our lock against Kafka's own FileLock, at the moments where one lets go and the other takes it."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from storage.filesystem import FileSystem
from storage.lock import LockLost, LogDirLock, LogDirLocked
from tests.interop.kafka_jars import java

pytestmark = pytest.mark.kafka
SECONDS_MAX = 120


class KafkaLock:
    """A JVM that has opened ``.lock`` with Kafka's FileLock."""

    def __init__(self, classpath: str, log_dir: Path) -> None:
        source = Path(__file__).with_name("HoldLock.java")
        command = [str(java()), "-XX:TieredStopAtLevel=1", "-cp", classpath, str(source), str(log_dir / ".lock")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._watchdog = threading.Timer(SECONDS_MAX, self._process.kill)
        self._watchdog.start()
        assert self.answer() == "opened"

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def ask(self, line: str) -> str:
        self.send(line)
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.lock.SETTLE_SECONDS", 0.2)


def test_a_broker_that_opened_the_file_before_our_release_and_locks_it_after_keeps_us_out(
    kafka: str, tmp_path: Path
) -> None:
    ours = LogDirLock.acquire(tmp_path, FileSystem())
    with KafkaLock(kafka, tmp_path) as broker:
        assert broker.ask("lock") == "refused"
        ours.release()
        assert broker.ask("lock") == "locked"
        with pytest.raises(LogDirLocked):
            LogDirLock.acquire(tmp_path, FileSystem())


def test_who_locks_while_a_broker_destroys_its_lock_changes_nothing(kafka: str, tmp_path: Path, settling: None) -> None:
    with KafkaLock(kafka, tmp_path) as broker:
        assert broker.ask("lock") == "locked"
        assert broker.ask("destroy") == "let go"
        with LogDirLock.acquire(tmp_path, FileSystem()) as ours:
            assert broker.ask("go on") == "destroyed"
            with pytest.raises(LockLost):
                ours.ensure_named()


def test_who_locks_behind_a_broker_that_ended_waits_for_it_and_holds_on(
    kafka: str, tmp_path: Path, settling: None
) -> None:
    with KafkaLock(kafka, tmp_path) as broker:
        assert broker.ask("lock") == "locked"
        assert broker.ask("destroy") == "let go"
        assert broker.ask("go on") == "destroyed"
        with LogDirLock.acquire(tmp_path, FileSystem()) as ours, KafkaLock(kafka, tmp_path) as next_one:
            ours.ensure_named()
            assert next_one.ask("lock") == "refused"
