"""The logs that are measured, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

KEY_BYTES: Final = 16
RECORD_OVERHEAD_BYTES: Final = 10
"""Of a record in a 16 KiB batch beside its key and value, its share of the batch's header among it."""
KEYS: Final = 1_000_000
SEGMENT_BYTES: Final = 1 << 30
SEGMENT_BYTES_MIN: Final = 1 << 20
SECOND_ROUND_SEGMENTS: Final = 64
NEW_PART: Final = 0.01
NEWEST_PART: Final = 0.05
MANY_KEYS_VALUE_BYTES: Final = 10
TABLE: Final = (
    ("none", 100), ("none", 1024), ("lz4", 100), ("lz4", 1024), ("zstd", 100), ("zstd", 1024), ("snappy", 100),
    ("gzip", 100),
)  # fmt: skip
COLD: Final = (("none", 100), ("none", 1024), ("lz4", 1024))
LEGACY_CODECS: Final = ("none", "gzip", "snappy", "lz4")
MANY_KEYS: Final = "many-keys"
LARGE_PARTITIONS: Final = 16
SMALL_PARTITION_BYTES: Final = 1 << 20
SMALL_PARTITIONS_A_GIB: Final = 500
SMALL_PARTITION_KEYS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """Records written in one go, of ``keys`` keys: drawn uniformly, or one after the other and round again."""

    records: int
    keys: int
    first_key: int = 0
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A log; values compress about two to one."""

    name: str
    title: str
    parts: tuple[Part, ...]
    value_bytes: int
    codec: str = "none"
    magic: int = 2
    """0 or 1: Kafka 2.8.2 writes and cleans the log, since later ones write version 2."""
    segment_bytes: int = SEGMENT_BYTES
    is_first_part_clean: bool = False
    """The cleaner checkpoint says that the first part was compacted."""
    is_cleaned_by_us: bool = False
    """Our side did that, and may have noted something for its next round; else another cleaner."""
    is_cold: bool = False
    """The log is not in the page cache."""
    partitions: int = 1
    """So many logs, each with all parts."""

    @property
    def records(self) -> int:
        """Of all parts."""
        return sum(part.records for part in self.parts)

    @property
    def first_dirty_offset(self) -> int:
        """Where a cleaner begins."""
        return self.parts[0].records if self.is_first_part_clean else 0

    @property
    def raw_bytes(self) -> int:
        """What the records take uncompressed, about."""
        return self.records * _record_bytes(self.value_bytes)


def workloads(gib: float) -> list[Workload]:
    """All that Kafka and we are compared by, with logs of ``gib`` GiB before compression."""
    newest_first_key = 1 - NEWEST_PART
    return [
        *(_updated(gib, codec, value_bytes) for codec, value_bytes in TABLE),
        *(_updated(gib, codec, 100, magic) for magic in (0, 1) for codec in LEGACY_CODECS),
        *(_cold(gib, codec, value_bytes) for codec, value_bytes in COLD),
        _second_round(gib, "second-round-newest", "1 % new: newest 5 % of segments", newest_first_key),
        _second_round(gib, "second-round-uniform", "1 % new: keys anywhere", 0),
        _second_round(
            gib, "second-round-foreign", "1 % new: newest 5 %, first round Kafka's", newest_first_key, is_foreign=True
        ),
    ]


def many_partitions(gib: float) -> list[Workload]:
    """Log dirs of several partitions: 16 that share ``gib`` GiB and a million keys, and 500 of 1 MiB for each GiB."""
    small = max(2, int(gib * SMALL_PARTITIONS_A_GIB))
    large_part = {
        value_bytes: Part(_records(gib / LARGE_PARTITIONS, value_bytes), KEYS // LARGE_PARTITIONS)
        for value_bytes in (100, 1024)
    }
    small_part = Part(SMALL_PARTITION_BYTES // _record_bytes(100), SMALL_PARTITION_KEYS)
    each = f"{gib * 1024 / LARGE_PARTITIONS:g} MiB"
    return [
        Workload("many-16-100", f"{LARGE_PARTITIONS} of {each}, 100 B", (large_part[100],), 100,
                 partitions=LARGE_PARTITIONS),
        Workload("many-16-1024", f"{LARGE_PARTITIONS} of {each}, 1 KiB", (large_part[1024],), 1024,
                 partitions=LARGE_PARTITIONS),
        Workload("many-2000", f"{small:,} of 1 MiB, 100 B", (small_part,), 100, partitions=small),
    ]  # fmt: skip


def many_keys(keys: int) -> Workload:
    """Each key once, then a quarter as many records of keys drawn from all."""
    title = f"{keys:,} distinct keys"
    parts = (Part(keys, keys, in_order=True), Part(keys // 4, keys))
    return Workload(MANY_KEYS, title, parts, MANY_KEYS_VALUE_BYTES)


def _updated(gib: float, codec: str, value_bytes: int, magic: int = 2) -> Workload:
    size = f"{value_bytes} B" if value_bytes < 1024 else f"{value_bytes // 1024} KiB"
    parts = (Part(_records(gib, value_bytes), KEYS),)
    name, title = f"{codec}-{value_bytes}", f"{codec}, {size}"
    if magic < 2:
        name, title = f"v{magic}-{name}", f"v{magic}, {title}"
    return Workload(name, title, parts, value_bytes, codec, magic)


def _cold(gib: float, codec: str, value_bytes: int) -> Workload:
    warm = _updated(gib, codec, value_bytes)
    return replace(warm, name=f"cold-{warm.name}", is_cold=True)


def _second_round(gib: float, name: str, title: str, first_part: float, *, is_foreign: bool = False) -> Workload:
    """A clean log, each key once in the order of the keys, and new records of the keys behind a part of them."""
    value_bytes = 100
    keys = _records(gib, value_bytes)
    first_key = int(keys * first_part)
    parts = (Part(keys, keys, in_order=True), Part(max(1, int(keys * NEW_PART)), keys - first_key, first_key))
    segment_bytes = max(SEGMENT_BYTES_MIN, int(gib * (1 << 30)) // SECOND_ROUND_SEGMENTS)
    return Workload(
        name, title, parts, value_bytes,
        segment_bytes=segment_bytes, is_first_part_clean=True, is_cleaned_by_us=not is_foreign,
    )  # fmt: skip


def _records(gib: float, value_bytes: int) -> int:
    return max(1, int(gib * (1 << 30)) // _record_bytes(value_bytes))


def _record_bytes(value_bytes: int) -> int:
    return KEY_BYTES + value_bytes + RECORD_OVERHEAD_BYTES
