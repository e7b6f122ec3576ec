"""A whole broker in a life: a start on its log dir, all that a client reads there, new records, a stop or a SIGKILL."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from policies.config.config_keys import LONG_MAX
from tests.interop.broker import QUIET, Broker, BrokerEnded
from tests.interop.clients import Writer, consumed, create_topics, watermarks
from tests.lives.foretold import Opened, Refused
from tests.lives.life import TOPICS

_KEEPS_ALL: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "1048576",
    "message.timestamp.after.max.ms": str(LONG_MAX),
}
"""Of a topic: the policies of a life stand in the configuration alone, and its clock is ahead of the broker's."""
RETENTION_MS: Final = -1
"""What the cluster metadata then say of every topic."""


class WholeBroker:
    """A KRaft node whose log dir is that of a life."""

    def __init__(self, classpath: str, log_dir: Path) -> None:
        """Format the log dir, and make the topics."""
        self._broker = Broker(classpath, log_dir, QUIET)
        with self._broker:
            create_topics(self._broker.bootstrap, dict.fromkeys(TOPICS, _KEEPS_ALL))

    def lives(self, served: Iterable[str], dice: int, now_ms: int, *, is_killed: bool) -> dict[str, Opened | Refused]:
        """Start, read the topics that are served, write, and end. Return what a client read before it wrote.

        Args:
            served: the partitions that ``preflight`` says are served.
            dice: draws what is written.
            now_ms: the time of new records, epoch ms.
            is_killed: end by SIGKILL, not by a stop.
        """
        names = sorted(served)
        self._broker.launch()
        try:
            self._broker.wait_until_it_serves()
        except BrokerEnded as ended:
            self._broker.kill()
            return dict.fromkeys(names, Refused(str(ended), is_opened=False))
        try:
            found: dict[str, Opened | Refused] = {name: self._read(name.rpartition("-")[0]) for name in names}
            self._write([name.rpartition("-")[0] for name in names], Random(dice), now_ms)
        except BaseException:
            self._broker.kill()
            raise
        self._broker.kill() if is_killed else self._broker.stop()
        return found

    def close(self) -> None:
        """End the process if it runs."""
        with suppress(BrokerEnded):
            self._broker.kill()

    def _read(self, topic: str) -> Opened:
        log_start, log_end = watermarks(self._broker.bootstrap, topic)
        offsets = frozenset(record.offset for record in consumed(self._broker.bootstrap, topic, 0, "read_uncommitted"))
        return Opened(log_start, log_end, offsets)

    def _write(self, topics: list[str], drawn: Random, now_ms: int) -> None:
        writer = Writer(self._broker.bootstrap, drawn, now_ms)
        for topic in topics:
            codec = drawn.choice(("none", "gzip", "snappy", "lz4", "zstd"))
            producer = writer.producer(enable_idempotence=True, compression_type=codec)
            writer.send(producer, topic, drawn.randrange(1, 12), 40)
            if drawn.random() < 0.5:
                writer.transactions(topic, f"payer of {topic}", [drawn.random() < 0.6], drawn.randrange(1, 5))
