"""The samples of tiers: what brokers left, and what a consumer had read of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.interop.verdicts import Record

AIVEN: Final = ("aiven", "aiven-zstd", "aiven-encrypted", "aiven-zstd-encrypted")
SAMPLES: Final = ("local", "divided", *AIVEN)


@dataclass(frozen=True, slots=True)
class TierSample:
    """What a killed broker left, never to be changed in place."""

    root: Path

    @property
    def log_dir(self) -> Path:
        """Return the log dir: the ends of the logs, and ``__remote_log_metadata``."""
        return self.root / "log"

    @property
    def tier(self) -> Path:
        """Return what the plugin was told as its directory."""
        return self.root / "tier"

    def read(self) -> dict[tuple[str, str], list[Record]]:
        """Return what a consumer read before the kill, by partition and isolation level."""
        told = json.loads((self.root / "read.json").read_text())
        return {
            (name, isolation): [_record(fields) for fields in records]
            for name, by_isolation in told.items()
            for isolation, records in by_isolation.items()
        }


@dataclass(frozen=True, slots=True)
class TierSamples:
    """All samples of tiers."""

    root: Path

    def __getitem__(self, name: str) -> TierSample:
        return TierSample(self.root / name)

    @property
    def private_key(self) -> Path:
        """Return the key of those that are encrypted."""
        return self.root / "private.pem"


def _record(fields: list[Any]) -> Record:
    offset, time_ms, sequence, key, value, value_bytes, headers = fields
    return Record(offset, time_ms, sequence, key, value, value_bytes, tuple((name, held) for name, held in headers))
