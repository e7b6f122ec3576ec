"""Tiers written by tests: segments that are drawn, or those of a log dir, in the layouts of plugins.

The writers share no code with the readers in ``storage.tiers``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from zstandard import ZstdCompressor

from storage.records import Record, encode_batch
from tests.batches import iter_batches
from tests.partition_dirs import NOW_MS

TOPIC_ID: Final = "lZ6vvmajTWKDBUTV6SQAtQ"
AIVEN_INDEXES: Final = {
    "offset": ".index",
    "timestamp": ".timeindex",
    "producerSnapshot": ".snapshot",
    "leaderEpoch": ".leader_epoch_checkpoint",
    "transaction": ".txnindex",
}
COPIED, COPYING, DELETING, DELETED = 1, 0, 2, 3


def an_id(name: str) -> str:
    """An id of 22 characters, always the same for a name."""
    return base64.urlsafe_b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode().rstrip("=")


def a_batch(offset: int, *values: str, epoch: int = 0, timestamp_ms: int | None = None, **batch: object) -> bytes:
    """A batch of records without keys, at consecutive offsets; each a second later than the one before."""
    first_ms = NOW_MS + offset * 1000 if timestamp_ms is None else timestamp_ms
    records = [Record(offset + n, first_ms + n, f"k{offset + n}".encode(), v.encode()) for n, v in enumerate(values)]
    return encode_batch(records, partition_leader_epoch=epoch, **batch)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DrawnSegment:
    """A segment as a broker copies it, with the files that go with it."""

    batches: tuple[bytes, ...]
    start: int
    name: str
    lineage: tuple[tuple[int, int], ...]
    """All epochs of the log up to the end of the segment."""
    topic: str = "orders"
    partition: int = 0
    topic_id: str = TOPIC_ID
    aborted: bytes = b""
    mtime_ms: int = NOW_MS
    snapshot: bytes = struct.pack(">hIi", 1, crc32c(bytes(4)), 0)
    """Without a producer."""

    @property
    def segment_id(self) -> str:
        return an_id(self.name)

    @property
    def log(self) -> bytes:
        return b"".join(self.batches)

    @property
    def headers(self) -> list[tuple[int, int, int]]:
        """(position, last offset, largest timestamp) of each batch."""
        found, position = [], 0
        for batch in iter_batches(self.log, Path("drawn")):
            found.append((position, batch.header.last_offset, batch.header.max_timestamp_ms))
            position += batch.header.size_bytes
        return found

    @property
    def end(self) -> int:
        return self.headers[-1][1]

    @property
    def epochs(self) -> dict[int, int]:
        """The epochs of the records, as the metadata have them."""
        older = [epoch for epoch, offset in self.lineage if offset <= self.start]
        within = {epoch: offset for epoch, offset in self.lineage if self.start < offset <= self.end}
        return ({older[-1]: self.start} if older else {}) | within

    @property
    def max_timestamp_ms(self) -> int:
        return max(newest for _, _, newest in self.headers)

    def files(self) -> dict[str, bytes]:
        """The files by the suffix in a log dir. Each batch but the first has an entry in the indexes."""
        index, times, largest, written = b"", b"", (-1, 0), -1
        for place, (position, last, newest) in enumerate(self.headers):
            largest = max(largest, (newest, last))
            if place:
                index += struct.pack(">ii", last - self.start, position)
            if (place or len(self.headers) == 1) and largest[0] > written:
                times += struct.pack(">qi", largest[0], largest[1] - self.start)
                written = largest[0]
        epochs = "".join(f"{epoch} {offset}\n" for epoch, offset in self.lineage)
        found = {
            ".log": self.log,
            ".index": index,
            ".timeindex": times,
            ".snapshot": self.snapshot,
            ".leader_epoch_checkpoint": f"0\n{len(self.lineage)}\n{epochs}".encode(),
        }
        return found | ({".txnindex": self.aborted} if self.aborted else {})


def segment_of(
    start: int, *batches: bytes, name: str = "", lineage: Sequence[tuple[int, int]] = ((0, 0),), **more: object
) -> DrawnSegment:
    """Draw a segment; by default its name is its start."""
    return DrawnSegment(batches, start, name or f"segment-{start}", tuple(lineage), **more)  # type: ignore[arg-type]


def write_local(directory: Path, segments: Iterable[DrawnSegment], *, is_padded: bool = True) -> Path:
    """Write segments as ``LocalTieredStorage`` does; return the directory that its configuration names."""
    for segment in segments:
        for key, data in local_objects(segment, is_padded=is_padded).items():
            path = directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, ns=(segment.mtime_ms * 1_000_000,) * 2)
    return directory


def local_objects(segment: DrawnSegment, *, is_padded: bool = True) -> dict[str, bytes]:
    """The files of a segment, by their path within the directory of ``LocalTieredStorage``."""
    holder = f"kafka-tiered-storage/{segment.topic}-{segment.partition}-{segment.topic_id}"
    start = f"{segment.start:020d}" if is_padded else str(segment.start)
    return {f"{holder}/{start}-{segment.segment_id}{suffix}": data for suffix, data in segment.files().items()}


@dataclass(frozen=True)
class AivenForm:
    """How Aiven's plugin is configured."""

    prefix: str = ""
    chunk_bytes: int = 100
    is_compressed: bool = False
    key: RSAPrivateKey | None = None
    key_id: str = "key-1"
    is_variable: bool = False
    """Even if all chunks have one size, list their sizes."""


def write_aiven(directory: Path, segments: Iterable[DrawnSegment], form: AivenForm = AivenForm()) -> Path:
    """Write segments as Aiven's plugin does, into a directory in the place of a bucket; return the directory."""
    for segment in segments:
        for key, data in aiven_objects(segment, form).items():
            path = directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, ns=(segment.mtime_ms * 1_000_000,) * 2)
    return directory


def aiven_key(segment: DrawnSegment) -> str:
    topic = f"{segment.topic}-{segment.topic_id}"
    return f"{topic}/{segment.partition}/{segment.start:020d}-{segment.segment_id}"


def aiven_objects(segment: DrawnSegment, form: AivenForm) -> dict[str, bytes]:
    """The three objects of a segment, by key."""
    data_key, aad = hashlib.sha256(b"key").digest(), b"0123456789abcdef" * 2

    def sealed(data: bytes) -> bytes:
        if form.key is None:
            return data
        iv = os.urandom(12)
        return iv + AESGCM(data_key).encrypt(iv, data, aad)

    log = segment.log
    plain = [log[at : at + form.chunk_bytes] for at in range(0, len(log), form.chunk_bytes)]
    packed = [ZstdCompressor().compress(chunk) if form.is_compressed else chunk for chunk in plain]
    chunks = [sealed(chunk) for chunk in packed]
    sizes = list(map(len, chunks))
    chunk_index: dict[str, object] = {"originalChunkSize": form.chunk_bytes, "originalFileSize": len(log)}
    if len({*sizes[:-1]}) <= 1 and not form.is_variable:
        chunk_index |= {"type": "fixed", "transformedChunkSize": sizes[0], "finalTransformedChunkSize": sizes[-1]}
    else:
        listed = base64.b64encode(ZstdCompressor().compress(encoded_sizes(sizes))).decode()
        chunk_index |= {"type": "variable", "transformedChunks": listed}
    indexes, places = b"", dict[str, dict[str, int] | None]()
    for name, suffix in AIVEN_INDEXES.items():
        data = segment.files().get(suffix)
        if data is None:
            places[name] = None
            continue
        stored = sealed(data) if data else b""
        places[name] = {"position": len(indexes), "size": len(stored)}
        indexes += stored
    manifest: dict[str, object] = {
        "version": "1",
        "chunkIndex": chunk_index,
        "segmentIndexes": places,
        "compression": form.is_compressed,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": segment.topic_id,
                    "topicPartition": {"topic": segment.topic, "partition": segment.partition},
                },
                "id": segment.segment_id,
            },
            "startOffset": segment.start,
            "endOffset": segment.end,
            "maxTimestampMs": segment.max_timestamp_ms,
            "brokerId": 1,
            "eventTimestampMs": segment.mtime_ms,
            "segmentLeaderEpochs": {str(epoch): offset for epoch, offset in segment.epochs.items()},
        },
    }
    if form.key is not None:
        locked = locked_by(form.key, data_key)
        named = f"{form.key_id}:{base64.b64encode(locked).decode()}"
        manifest["encryption"] = {"dataKey": named, "aad": base64.b64encode(aad).decode()}
    key = f"{form.prefix}{aiven_key(segment)}"
    return {
        f"{key}.log": b"".join(chunks),
        f"{key}.indexes": indexes,
        f"{key}.rsm-manifest": json.dumps(manifest).encode(),
    }


def locked_by(key: RSAPrivateKey, data: bytes) -> bytes:
    """Encrypt with RSA, OAEP, SHA3-512 and its MGF1, step by step as RFC 8017 7.1.1 numbers them."""
    numbers = key.public_key().public_numbers()
    k, h_len = key.key_size // 8, 64
    ps = bytes(k - len(data) - 2 * h_len - 2)
    db = hashlib.sha3_512(b"").digest() + ps + b"\x01" + data
    seed = os.urandom(h_len)
    masked_db = bytes(x ^ y for x, y in zip(db, _mgf1(seed, k - h_len - 1), strict=True))
    masked_seed = bytes(x ^ y for x, y in zip(seed, _mgf1(masked_db, h_len), strict=True))
    em = b"\x00" + masked_seed + masked_db
    return pow(int.from_bytes(em, "big"), numbers.e, numbers.n).to_bytes(k, "big")


def _mgf1(seed: bytes, length: int) -> bytes:
    blocks = (hashlib.sha3_512(seed + struct.pack(">I", counter)).digest() for counter in range(-(-length // 64)))
    return b"".join(blocks)[:length]


def encoded_sizes(sizes: Sequence[int]) -> bytes:
    if len(sizes) == 1:
        return struct.pack(">ii", 1, sizes[0])
    base = min(sizes[:-1])
    width = max(1, -(-max(size - base for size in sizes[:-1]).bit_length() // 8))
    between = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return struct.pack(">iiB", len(sizes), base, width) + between + struct.pack(">i", sizes[-1])


def custom_metadata(prefix: str | None = None, key: str | None = None) -> bytes:
    """The custom metadata of Aiven's plugin: where a segment lies."""
    fields = {tag: text.encode() for tag, text in ((1, prefix), (2, key)) if text is not None}
    body = b""
    for tag, text in fields.items():
        value = _uvarint(len(text) + 1) + text
        body += _uvarint(tag) + _uvarint(len(value)) + value
    return _uvarint(len(fields)) + body


class MetadataWriter:
    """Writes records of ``__remote_log_metadata``, byte by byte."""

    def __init__(self) -> None:
        self.values: list[tuple[int, bytes]] = []

    def copied(
        self, segment: DrawnSegment, state: int = COPIED, time_ms: int = NOW_MS, custom: bytes | None = None
    ) -> None:
        """Write what a broker writes when it begins to copy, and each state up to ``state``."""
        self.begun(segment, time_ms, custom)
        for later in range(1, state + 1):
            self.updated(segment, later, time_ms + later, custom)

    def begun(self, segment: DrawnSegment, time_ms: int = NOW_MS, custom: bytes | None = None) -> None:
        epochs = b"".join(struct.pack(">iqB", epoch, offset, 0) for epoch, offset in segment.epochs.items())
        value = b"\x01\x00\x00" + _segment_id(segment)
        value += struct.pack(">qqiqq", segment.start, segment.end, 1, segment.max_timestamp_ms, time_ms)
        value += _uvarint(len(segment.epochs) + 1) + epochs + struct.pack(">i", len(segment.log))
        self.values.append((time_ms, value + _bytes(custom) + struct.pack(">b", 0) + b"\x00"))

    def updated(self, segment: DrawnSegment, state: int, time_ms: int, custom: bytes | None = None) -> None:
        value = b"\x01\x01\x00" + _segment_id(segment) + struct.pack(">iq", 1, time_ms) + _bytes(custom)
        self.values.append((time_ms, value + struct.pack(">b", state) + b"\x00"))

    def partition_deleted(self, segment: DrawnSegment, state: int, time_ms: int) -> None:
        value = b"\x01\x02\x00" + _topic_id_partition(segment) + struct.pack(">iqb", 1, time_ms, state) + b"\x00"
        self.values.append((time_ms, value))

    def write(self, log_dir: Path, partition: int) -> Path:
        """Write the records as a partition of the metadata topic; return the log dir."""
        directory = log_dir / f"__remote_log_metadata-{partition}"
        directory.mkdir(parents=True)
        batches = [encode_batch([Record(n, time_ms, None, value)]) for n, (time_ms, value) in enumerate(self.values)]
        (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
        (directory / f"{0:020d}.index").touch()
        (directory / f"{0:020d}.timeindex").touch()
        return log_dir


def _segment_id(segment: DrawnSegment) -> bytes:
    return _topic_id_partition(segment) + _uuid(segment.segment_id) + b"\x00"


def _topic_id_partition(segment: DrawnSegment) -> bytes:
    name = segment.topic.encode()
    return _uvarint(len(name) + 1) + name + _uuid(segment.topic_id) + struct.pack(">i", segment.partition) + b"\x00"


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def _bytes(data: bytes | None) -> bytes:
    return b"\x00" if data is None else _uvarint(len(data) + 1) + data


def _uvarint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])
