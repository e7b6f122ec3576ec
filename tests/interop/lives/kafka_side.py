"""Kafka's side of a life: ``UnifiedLog``, in a JVM that is kept for many lives."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from tests.interop.lives.life import Life
from tests.interop.lives.steps import Answer, State, Step
from tests.interop.referee import Referee

KAFKA_LIFE: Final = "LogLife"
JVM_OPTIONS: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC")


class KafkaLives(Referee):
    """A JVM with ``LogLife.java``."""

    def __init__(self, classpath: str) -> None:
        super().__init__(classpath, JVM_OPTIONS, KAFKA_LIFE)

    def ask(self, words: list[str], partition_dir: Path) -> Answer:
        """Do one step."""
        ((_, line),) = self._ask(words[0], [partition_dir], *words[1:])
        return Answer(line["result"], line["error"], line["message"] or "", line["state"] or {})


class KafkaSide:
    """One life as Kafka lives it."""

    def __init__(self, jvm: KafkaLives, life: Life, directory: Path) -> None:
        self._jvm, self._life, self.directory = jvm, life, directory
        self.state = State()

    def do(self, step: Step, now_ms: int) -> Answer:
        """Do one step at one moment."""
        options = dict(step.options)
        if step.kind == "open":
            options["expiration"] = self._life.expiration_ms
        words = [step.kind, "--now", str(now_ms)]
        for name, value in options.items():
            words += [f"--{name}", base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)]
        if step.kind == "open":
            words += [word for key, value in self._life.config.items() for word in ("--config", f"{key}={value}")]
        answer = self._jvm.ask(words, self.directory)
        if answer.state:
            self.state = State.of(answer.state)
        return answer
