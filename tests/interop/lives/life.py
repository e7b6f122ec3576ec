"""A life: the configuration of a log, its clock, and who writes it, all drawn from one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Final

START_MS: Final = 1_750_000_000_000
STEPS: Final = 60
DAY_MS: Final = 86_400_000
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Life:
    """Everything of a life that does not depend on what the log answers.

    Each step has random numbers of its own: a life without some of its steps draws the same for the others.
    """

    seed: int
    settings: Mapping[str, str] | None = None
    """Instead of a drawn configuration."""

    def dice(self, purpose: object) -> Random:
        """Return a source of random numbers that no other purpose disturbs."""
        return Random(f"{self.seed}/{purpose}")

    @cached_property
    def recompresses(self) -> bool:
        """Whether the log compresses itself: then bytes of compressed records are not compared."""
        return self.settings is None and self.dice("recompresses").random() < 0.2

    @cached_property
    def role(self) -> str:
        """Who writes: ``leader``, ``follower``, or ``both`` in turns."""
        return self.dice("role").choice(("leader", "leader", "follower", "both"))

    @cached_property
    def expiration_ms(self) -> int:
        """After how long a silent producer is forgotten."""
        return self.dice("expiration").choice((DAY_MS, DAY_MS, 60_000))

    @cached_property
    def has_legacy_input(self) -> bool:
        """Whether clients send messages of versions 0 and 1."""
        return self.dice("legacy").random() < 0.3

    @cached_property
    def times_ms(self) -> tuple[int, ...]:
        """The clock at each step."""
        dice, now_ms, times = self.dice("clock"), START_MS, []
        for _ in range(STEPS + 1):
            now_ms += dice.choice((0, 1, dice.randrange(5_000), dice.randrange(5_000), dice.randrange(40_000)))
            times.append(now_ms)
        return tuple(times)

    @cached_property
    def config(self) -> dict[str, str]:
        """The topic configuration, by Kafka's names."""
        if self.settings is not None:
            return dict(self.settings)
        dice = self.dice("config")
        config = {
            "internal.segment.bytes": dice.choice(("1200", "3000", "3000", "10000", "100000")),
            "index.interval.bytes": dice.choice(("0", "1", "200", "1000", "4096")),
            "segment.index.bytes": dice.choice(("60", "120", "200", "1000", "20000")),
            "message.timestamp.type": dice.choice(("CreateTime", "CreateTime", "LogAppendTime")),
            "cleanup.policy": dice.choice(("delete", "delete", "delete", "compact", "compact,delete")),
            "compression.type": dice.choice(("producer", "producer", "producer", "uncompressed")),
        }
        sometimes = {
            "segment.ms": ("20000", "60000"),
            "preallocate": ("true",),
            "message.timestamp.before.max.ms": ("20000", "100000"),
            "message.timestamp.after.max.ms": ("10000",),
            "flush.messages": ("1", "5", "50"),
            "max.message.bytes": ("700", "2500"),
        }
        config |= {name: dice.choice(values) for name, values in sometimes.items() if dice.random() < 0.3}
        if self.recompresses:  # sizes are the compressor's: nothing may hang on them
            config |= {"internal.segment.bytes": "1000000", "index.interval.bytes": "0", "segment.index.bytes": "20000"}
            config |= {"compression.type": dice.choice((*_CODECS, "producer"))}
            config.pop("max.message.bytes", None)
            config.pop("preallocate", None)
        return config
