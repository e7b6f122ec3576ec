"""The isolation of a fetch: it decides how far the fetch may read."""

from __future__ import annotations

from enum import Enum


class Isolation(Enum):
    """The offset below which a fetch reads. Source: Kafka FetchIsolation."""

    LOG_END = "log_end"
    """A follower's: all that was appended."""
    HIGH_WATERMARK = "high_watermark"
    """A consumer's that reads uncommitted records."""
    TXN_COMMITTED = "txn_committed"
    """A consumer's that reads committed records: up to the last stable offset, with a list of what was aborted."""
