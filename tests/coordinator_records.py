"""Records of ``__consumer_offsets`` and ``__transaction_state``, as a coordinator writes them."""

from __future__ import annotations

import struct

from storage.records import Record
from tests.partition_dirs import NOW_MS


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def offset_key(group: str, topic: str = "orders", partition: int = 0) -> bytes:
    return struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)


def offset_value(commit_ms: int = NOW_MS, *, expire_ms: int | None = None) -> bytes:
    """Version 3; version 1 for an offset with its own time of expiry."""
    if expire_ms is not None:
        return struct.pack(">hq", 1, 42) + text("") + struct.pack(">qq", commit_ms, expire_ms)
    return struct.pack(">hqi", 3, 42, 0) + text("") + struct.pack(">q", commit_ms)


def group_key(group: str) -> bytes:
    return struct.pack(">h", 2) + text(group)


def group_value(
    *members: str, topics: tuple[str, ...] = ("orders",), protocol_type: str = "consumer", since_ms: int = NOW_MS
) -> bytes:
    """Version 3, each member subscribed to the same topics; without members the group is empty."""
    subscription = struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + struct.pack(">i", -1)
    out = struct.pack(">h", 3) + text(protocol_type) + struct.pack(">i", 1)
    out += text("range" if members else None) + text(members[0] if members else None)
    out += struct.pack(">qi", since_ms, len(members))
    for member in members:
        out += text(member) + text(None) + text("client") + text("/127.0.0.1") + struct.pack(">ii", 1, 1)
        out += sized(subscription) + sized(b"")
    return out


def transaction_key(transactional_id: str) -> bytes:
    return struct.pack(">h", 0) + text(transactional_id)


def transaction_value(status: int, update_ms: int = NOW_MS) -> bytes:
    """Version 0, without partitions."""
    return struct.pack(">hqhib", 0, 7, 0, 60_000, status) + struct.pack(">iqq", -1, update_ms, update_ms)


def records(first_offset: int, *pairs: tuple[bytes | None, bytes | None], timestamp_ms: int = NOW_MS) -> list[Record]:
    """Records at consecutive offsets."""
    return [Record(first_offset + place, timestamp_ms, key, value) for place, (key, value) in enumerate(pairs)]
