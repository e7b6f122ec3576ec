"""The blockers: each keeps something here that could go. It has an owner, a sentence, and a sentence of remedy."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class BlockerCode(StrEnum):
    """The closed list of blockers (docs/explain.md). A code that is also a reason code means the same."""

    HELD = "HELD"
    CONFIG_UNKNOWN = "CONFIG_UNKNOWN"
    REMOTE_STORAGE = "REMOTE_STORAGE"
    CLEANER_DISABLED = "CLEANER_DISABLED"
    CLOCK_JUMPED = "CLOCK_JUMPED"
    FOREIGN_CONFIG = "FOREIGN_CONFIG"
    MAX_DELETE_RATIO = "MAX_DELETE_RATIO"
    MAX_UNKEYED_RATIO = "MAX_UNKEYED_RATIO"
    RELOAD_GUARD = "RELOAD_GUARD"
    FAILED_ATTEMPT = "FAILED_ATTEMPT"
    NO_HIGH_WATERMARK = "NO_HIGH_WATERMARK"
    ABOVE_HIGH_WATERMARK = "ABOVE_HIGH_WATERMARK"
    CHECKPOINT_OUTSIDE_LOG = "CHECKPOINT_OUTSIDE_LOG"
    TORN_TAIL = "TORN_TAIL"

    FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"
    FILE_TIMES_RESET = "FILE_TIMES_RESET"
    WITHIN_SIZE = "WITHIN_SIZE"
    NO_LIMIT = "NO_LIMIT"
    POLICY_EMPTY = "POLICY_EMPTY"

    ACTIVE_SEGMENT = "ACTIVE_SEGMENT"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    MIN_COMPACTION_LAG = "MIN_COMPACTION_LAG"
    DIRTY_RATIO_LOW = "DIRTY_RATIO_LOW"
    CLEANER_BEHIND = "CLEANER_BEHIND"
    TOMBSTONES_WAIT = "TOMBSTONES_WAIT"

    DELETED_FILES = "DELETED_FILES"


class Blocker(NamedTuple):
    """One thing that keeps bytes here, with its owner and what to do about it."""

    code: BlockerCode
    owner: str
    """Who can change it: a file, a producer, a broker, a key of the configuration."""
    text: str
    remedy: str
    since_ms: int | None = None
    """Since when it holds, epoch ms, if that is known."""
    until_ms: int | None = None
    """The moment from which on the blocker may no longer hold, epoch ms; None if no passing of time ends it."""
    first_base_offset: int | None = None
    """The first segment that it keeps; None if it is about the whole partition, or about no segment."""
    last_base_offset: int | None = None
    size_bytes: int | None = None
    """The bytes that it keeps here."""
