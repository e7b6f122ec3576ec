"""Partitions that real brokers wrote (``tests/data``), to be damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.conftest import Samples, unpacked
from tests.fuzz.trial import Subject

LEGACY: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.bytes=262144")
PARTITIONS: Final = {
    "kafka-4.3.1": (("ledger-0", "payments-0", "orders-0"), ()),
    "kafka-2.8.2": (("log-v0-gzip-0", "log-upgraded-0"), LEGACY),
}


def subjects(scratch: Path) -> Iterator[Subject]:
    """Each shipped partition that compaction reads, alone in a log dir."""
    for archive, (partitions, options) in PARTITIONS.items():
        samples = unpacked(archive, scratch / archive)
        for partition in partitions:
            yield a_subject(samples, scratch, partition, *options)


def a_subject(samples: Samples, scratch: Path, partition: str, *options: str) -> Subject:
    """One partition of a real broker, and what its undamaged clean leaves."""
    path = samples.copy("before", scratch / partition, [partition])
    return Subject.of(path, scratch, samples.cleaned_at_ms("after"), options)
