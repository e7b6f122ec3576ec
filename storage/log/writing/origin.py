"""The origin of an append."""

from __future__ import annotations

from enum import Enum, auto


class AppendOrigin(Enum):
    """The origin of batches, which decides what they are checked for. Source: Kafka AppendOrigin."""

    REPLICATION = auto()
    """A leader; its follower takes offsets and epochs as they are, and refuses no producer."""
    COORDINATOR = auto()
    """A coordinator of the broker: it may write markers, and its batches have no sequence numbers to check."""
    CLIENT = auto()
    """A producer: everything is checked."""
    RAFT_LEADER = auto()
    """The leader of a metadata quorum, whose batches have their offsets already."""
