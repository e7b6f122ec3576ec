"""Keys of internal topics in the making: ``commit("g", age_ms=DAY_MS)``."""

from __future__ import annotations

from typing import Any

from policies.owners.holdings import Holding, KeyHolding, Latest, Terms
from tests.builders import NOW_MS

DAY_MS = 86_400_000
TERMS = Terms(NOW_MS, 7 * DAY_MS, 7 * DAY_MS)


def holding(records: int = 1, size_bytes: int = 100, latest: Latest = Latest.VALUE, last_ms: int = NOW_MS) -> Holding:
    """The latest record has its share of the bytes."""
    is_live, is_tombstone = latest is Latest.VALUE, latest is Latest.TOMBSTONE
    kept = size_bytes // records if is_live or is_tombstone else 0
    return Holding(size_bytes, size_bytes, kept, records, int(is_live), int(is_tombstone), last_ms - 1000, last_ms)


def key(kind: str, fields: dict[str, Any], value: dict[str, Any] | None, **held: Any) -> KeyHolding:
    latest = held.pop("latest", Latest.VALUE if value is not None else Latest.TOMBSTONE)
    return KeyHolding(kind, fields, latest, value, holding(latest=latest, **held))


def commit(
    group: str, topic: str = "orders", *, age_ms: int = 0, expire_ms: int | None = None, **held: Any
) -> KeyHolding:
    value = {"commitTimestamp": NOW_MS - age_ms, **({} if expire_ms is None else {"expireTimestamp": expire_ms})}
    return key("OffsetCommit", {"group": group, "topic": topic, "partition": 0}, value, **held)


def removed(group: str, topic: str = "orders", **held: Any) -> KeyHolding:
    return key("OffsetCommit", {"group": group, "topic": topic, "partition": 0}, None, **held)


def classic(
    group: str, *members: bytes, protocol_type: str = "consumer", since_ms: int = NOW_MS, **held: Any
) -> KeyHolding:
    value = {
        "protocolType": protocol_type,
        "protocol": "range" if members else None,
        "currentStateTimestamp": since_ms,
        "members": [{"subscription": member} for member in members],
    }
    return key("GroupMetadata", {"group": group}, value, **held)


def modern(group: str, kind: str, value: dict[str, Any] | None = None, **held: Any) -> KeyHolding:
    return key(kind, {"groupId": group}, {} if value is None else value, **held)


def transaction(name: str, status: int, *, age_ms: int = 0, **held: Any) -> KeyHolding:
    value = {"transactionStatus": status, "transactionLastUpdateTimestampMs": NOW_MS - age_ms}
    return key("TransactionLog", {"transactionalId": name}, value, **held)
