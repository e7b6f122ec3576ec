"""Log dirs that a real broker made, for the starts: partitions of all shapes, small, with many segments."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from tests.interop.clients import Writer, create_topics
from tests.interop.starts import Kafka2, Kafka4, wait_until_started

_SHAPES: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "sparse": {"index.interval.bytes": "4096"},
    "txn": {},
    "compact": {"cleanup.policy": "compact"},
    "lz4": {},
    "idem": {},
    "tiny": {},
    "empty": {},
}
_COMMON: Final = {"segment.ms": "5000", "index.interval.bytes": "200"}
_KAFKAS_INTERVAL_BYTES: Final = 4096
_STOP_SECONDS: Final = 180
"""A broker that stops may write its archive of classes; on a busy machine that takes long."""


def topics(count: int) -> list[str]:
    """Names of topics, each beginning with its shape."""
    shapes = list(_SHAPES)
    return [f"{shapes[place % len(shapes)]}{place:02}" for place in range(count)]


def interval_bytes(topic: str) -> int:
    """Return the ``index.interval.bytes`` of a topic."""
    shape = _SHAPES.get(topic[:-2])
    return _KAFKAS_INTERVAL_BYTES if shape is None else int((_COMMON | shape)["index.interval.bytes"])


def make(kafka: Kafka4 | Kafka2, log_dirs: list[Path], count: int, seed: int) -> None:
    """Have a broker make topics and records in two leader epochs, and stop it cleanly."""
    names = topics(count)
    writer: Writer | None = None
    for epoch in range(2):
        with kafka.running(log_dirs, {}) as (address, process, output):
            wait_until_started(process, output)
            if epoch == 0:
                create_topics(address, {name: _COMMON | _SHAPES[name[:-2]] for name in names})
            writer = writer or Writer(address, random.Random(seed))
            writer.bootstrap = address
            for name in names:
                _write(writer, name, epoch)
            process.terminate()
            process.wait(_STOP_SECONDS)


def _write(writer: Writer, name: str, epoch: int) -> None:
    shape = name[:-2]
    if shape == "empty":
        return
    if shape == "tiny":
        writer.send(writer.producer(), name, 3)
    elif shape == "txn":
        writer.transactions(name, f"{name}-{epoch}", [True, False, True, False], 12)
    elif shape == "idem":
        writer.send(writer.producer(enable_idempotence=True), name, 70)
    elif shape == "lz4":
        writer.send(writer.producer(compression_type="lz4"), name, 70)
    else:
        writer.send(writer.producer(), name, 70)
