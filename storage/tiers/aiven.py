"""The layout of Aiven's plugin, version 1: three objects a segment, the log cut into chunks.

    PREFIX TOPIC-TOPICID/PARTITION/STARTOFFSET-SEGMENTID.{log,indexes,rsm-manifest}

The prefix is joined as it is, so it may end within a name. The custom metadata of a segment may name another prefix or
key. The manifest (JSON) tells how the other two are made: ``.log`` is chunks of the log one behind the other, each
perhaps one zstd frame, then perhaps encrypted; ``.indexes`` is the index files one behind the other, each perhaps
encrypted, never compressed. Whatever is encrypted is 12 bytes of IV, the ciphertext and a tag of 16 bytes: AES-GCM over
the manifest's ``aad``, by a data key that the manifest holds, encrypted with RSA (OAEP, SHA3-512).

Source: Aiven ``ObjectKeyFactory``, ``SegmentManifestV1``, ``ChunkSizesBinaryCodec``, ``SegmentCustomMetadataField``,
``RsaEncryptionProvider``, ``AesEncryptionProvider``.
"""

from __future__ import annotations

import base64
import json
import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha3_512
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.checkpoints import LeaderEpochEntry
from storage.directory import read_whole
from storage.errors import InvalidRecord, LogCleanerError, UnreadableFile, as_unreadable
from storage.schemas.decoding import decode
from storage.schemas.notation import parse_messages
from storage.stores.paths import StoredPath
from storage.tiers.errors import CipherMissing, CorruptTier, NoKey, NotATier
from storage.tiers.objects import listed, read_all, read_range
from storage.tiers.segments import (
    RemoteName,
    RemoteSegment,
    StoredObject,
    StoredSegment,
    TieredPartition,
    TierFile,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LOG: Final = ".log"
INDEXES: Final = ".indexes"
MANIFEST: Final = ".rsm-manifest"
_SUFFIXES: Final = (LOG, INDEXES, MANIFEST)
_TOPIC: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<id>[A-Za-z0-9_-]{22})", re.ASCII)
_PARTITION: Final = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)
_FILE: Final = re.compile(r"(?P<start>\d{20})-(?P<id>[A-Za-z0-9_-]{22})(?P<suffix>\.[a-z-]+)", re.ASCII)
_INDEX_NAMES: Final = {
    "offset": TierFile.INDEX,
    "timestamp": TierFile.TIME_INDEX,
    "producerSnapshot": TierFile.SNAPSHOT,
    "leaderEpoch": TierFile.LEADER_EPOCHS,
    "transaction": TierFile.TXN_INDEX,
}
_IV_BYTES: Final = 12
_TAG_BYTES: Final = 16
_CACHED_BYTES: Final = 64 << 20
_LIST_BYTES_MAX: Final = 64 << 20
_CUSTOM: Final = parse_messages("""
SegmentCustomMetadata - 0 flexible 0+
  prefix string tag 1 null default null
  key string tag 2 null default null
""")["SegmentCustomMetadata"]
"""Where the objects of a segment lie. Tag 0, their size together, is stepped over."""


class ChunkSizes(NamedTuple):
    """The chunks that a log was cut into."""

    chunk_bytes: int
    """The original size of each chunk but the last."""
    file_bytes: int
    """The original size of the log."""
    positions: Sequence[int]
    """Where each chunk begins in the object, and behind them where the last one ends."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """The keys of an encrypted segment. The data key is encrypted itself."""

    key_id: str
    data_key: bytes = field(repr=False)
    aad: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """The manifest of a segment."""

    chunks: ChunkSizes
    indexes: Mapping[TierFile, tuple[int, int]]
    """Position and size of each index in the object of indexes, as it lies there."""
    is_compressed: bool
    encryption: Encryption | None
    metadata: Mapping[str, Any]
    """What the broker told of the segment when it was copied; empty in manifests of early versions."""


def parse_manifest(data: bytes, path: Path) -> SegmentManifest:
    """Parse a manifest. Raises: CorruptTier."""
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise CorruptTier(path, "is no manifest")
        if any(value == "iceberg" for value in found.values() if isinstance(value, str)):
            raise CorruptTier(path, "is of the Iceberg mode, in which the records lie in tables; it is not read")
        if found["version"] != "1":
            raise CorruptTier(path, f"a manifest of version {found['version']!r}; version 1 is read")
        indexes = {
            _INDEX_NAMES[name]: (int(place["position"]), int(place["size"]))
            for name, place in found["segmentIndexes"].items()
            if place is not None and name in _INDEX_NAMES
        }
        chunks = _chunk_sizes(found["chunkIndex"])
        encryption = _encryption(found["encryption"]) if found.get("encryption") else None
        metadata = found.get("remoteLogSegmentMetadata") or {}
        return SegmentManifest(chunks, indexes, bool(found["compression"]), encryption, metadata)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # also JSON and base64 that do not parse
        raise CorruptTier(path, f"the manifest does not parse: {type(error).__name__} {error}") from error


def _chunk_sizes(index: Mapping[str, Any]) -> ChunkSizes:
    chunk_bytes, file_bytes = int(index["originalChunkSize"]), int(index["originalFileSize"])
    if chunk_bytes <= 0 or file_bytes < 0:
        raise ValueError(f"chunks of {chunk_bytes} bytes of {file_bytes}")
    count = -(-file_bytes // chunk_bytes)
    if index["type"] == "fixed":
        sizes = [int(index["transformedChunkSize"])] * (count - 1) + [int(index["finalTransformedChunkSize"])]
    elif index["type"] == "variable":
        sizes = decode_sizes(_unpacked(base64.b64decode(index["transformedChunks"], validate=True), _LIST_BYTES_MAX))
    else:
        raise ValueError(f"a chunk index of type {index['type']!r}")
    if len(sizes) != count and (count or any(sizes)):
        raise ValueError(f"{len(sizes)} chunks are stated, and {file_bytes} bytes make {count}")
    return ChunkSizes(chunk_bytes, file_bytes, list(accumulate(sizes[:count], initial=0)))


def decode_sizes(data: bytes) -> list[int]:
    """Decode the sizes of chunks. Raises: ValueError."""
    count = int.from_bytes(data[:4], "big")
    if count == 0:
        return []
    if count == 1:
        return [_number(data, 4, 4)]
    base, width = _number(data, 4, 4), _number(data, 8, 1)
    if width > 4 or len(data) != 13 + (count - 1) * width:
        raise ValueError(f"{len(data)} bytes for {count} sizes of {width} bytes")
    sizes = [base + _number(data, 9 + place * width, width) for place in range(count - 1)]
    return [*sizes, _number(data, len(data) - 4, 4)]


def _number(data: bytes, at: int, size_bytes: int) -> int:
    if at + size_bytes > len(data):
        raise ValueError("the sizes of chunks are cut short")
    return int.from_bytes(data[at : at + size_bytes], "big")


def _encryption(found: Mapping[str, Any]) -> Encryption:
    key_id, colon, key = str(found["dataKey"]).rpartition(":")
    if not colon:
        raise ValueError("the data key names no key")
    return Encryption(key_id, base64.b64decode(key, validate=True), base64.b64decode(found["aad"], validate=True))


def _unpacked(data: bytes | memoryview, size_max: int, exactly: int | None = None) -> bytes:
    """Decompress one zstd frame. Raises: ValueError if it is damaged, or larger than it may be."""
    from zstandard import ZstdDecompressor, ZstdError, get_frame_parameters  # noqa: PLC0415 - of compressed tiers alone

    try:
        stated = get_frame_parameters(bytes(data[:18])).content_size
        limit = size_max if exactly is None else exactly
        if 0 <= stated <= limit or stated > 1 << 62:  # not stated: the greatest number
            unpacked: bytes = ZstdDecompressor().decompress(data, max_output_size=max(1, limit))
            return unpacked
    except ZstdError as error:
        raise ValueError(f"zstd: {error}") from error
    raise ValueError(f"a zstd frame of {stated} bytes, where {limit} are due")


class PrivateKeys:
    """Private keys of RSA, read when they are first needed."""

    def __init__(self, named: Sequence[str]) -> None:
        """Take the files of keys, each as ``ID=FILE`` or ``FILE``, which then is the key of every id."""
        self._files = dict(map(_named_key, named))

    def file_for(self, encryption: Encryption, path: Path) -> Path:
        """Return the file of the private key for a segment. Raises: NoKey."""
        file = self._files.get(encryption.key_id, self._files.get(""))
        if file is None:
            raise NoKey(path, encryption.key_id)
        return Path(file)

    def data_key(self, encryption: Encryption, path: Path) -> bytes:
        """Return the data key of a segment. Raises: NoKey, CorruptTier, CipherMissing, UnreadableFile."""
        file = self.file_for(encryption, path)
        try:
            numbers = _numbers_of(file)
        except ImportError as error:
            raise CipherMissing(path) from error
        try:
            return _unlocked(encryption.data_key, numbers)
        except ValueError as error:
            cause = f"the key {encryption.key_id!r} in {file} does not decrypt its data key"
            raise CorruptTier(path, cause) from error


def _named_key(text: str) -> tuple[str, str]:
    """Return the id of a key and its file; an empty id for the key of every id."""
    first, sign, rest = text.partition("=")
    return (first, rest) if sign else ("", first)


def check_key(text: str) -> None:
    """Refuse what names no private key, as far as the packages that are installed tell. Raises: UnreadableFile."""
    _, file = _named_key(text)
    try:
        _numbers_of(Path(file))
    except ImportError:
        with as_unreadable(Path(file)):
            read_whole(Path(file))


@cache
def _numbers_of(file: Path) -> RSAPrivateNumbers:
    """Return the numbers of a private key. Raises: UnreadableFile, ImportError."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415 - of encrypted tiers alone
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(read_whole(file), None)
    except OSError as error:
        raise UnreadableFile(file, error.strerror or str(error)) from error
    except (ValueError, TypeError) as error:
        raise UnreadableFile(file, "it is no private key in PEM without a password") from error
    if not isinstance(key, RSAPrivateKey):
        raise UnreadableFile(file, "it is no RSA key")
    return key.private_numbers()


def _unlocked(data: bytes, numbers: RSAPrivateNumbers) -> bytes:
    """Return what RSA and OAEP of SHA3-512 encrypted. The package cryptography does not offer that hash there.

    The time that this takes tells of the key. That helps nobody, because whoever runs it has the key.

    Source: RFC 8017, 7.1.2. Raises: ValueError.
    """
    modulus, digest_bytes = numbers.public_numbers.n, sha3_512().digest_size
    size_bytes, locked = -(-modulus.bit_length() // 8), int.from_bytes(data, "big")
    if len(data) != size_bytes or locked >= modulus:
        raise ValueError(f"{len(data)} bytes for a key of {size_bytes}")
    by_q = pow(locked, numbers.dmq1, numbers.q)
    by_p = pow(locked, numbers.dmp1, numbers.p)
    message = (by_q + (by_p - by_q) * numbers.iqmp % numbers.p * numbers.q).to_bytes(size_bytes, "big")
    first, seed, block = message[0], message[1 : 1 + digest_bytes], message[1 + digest_bytes :]
    seed = _masked(seed, block)
    block = _masked(block, seed)
    if first or block[:digest_bytes] != sha3_512().digest():
        raise ValueError("the padding is wrong")
    nothing, one, key = block[digest_bytes:].partition(b"\x01")
    if any(nothing) or not one:
        raise ValueError("the padding is wrong")
    return key


def _masked(data: bytes, seed: bytes) -> bytes:
    """Return bytes that a mask is put over, or taken off. Source: RFC 8017, B.2.1 (MGF1)."""
    mask = b""
    while len(mask) < len(data):
        mask += sha3_512(seed + (len(mask) // sha3_512().digest_size).to_bytes(4, "big")).digest()
    return bytes(a ^ b for a, b in zip(data, mask, strict=False))


class _Cipher:
    """Decrypts the parts of one segment. Its data key is decrypted when it is first needed, which takes a while."""

    def __init__(self, keys: PrivateKeys, encryption: Encryption, path: Path) -> None:
        keys.file_for(encryption, path)
        self._keys, self._encryption, self._path = keys, encryption, path

    @cached_property
    def _aes(self) -> AESGCM:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as _numbers_of
        except ImportError as error:
            raise CipherMissing(self._path) from error
        return AESGCM(self._keys.data_key(self._encryption, self._path))

    def decrypted(self, data: bytes | memoryview, path: Path) -> bytes:
        """Return a part of an object, decrypted. Raises: CorruptTier, as ``PrivateKeys.data_key``."""
        aes = self._aes
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            return aes.decrypt(bytes(data[:_IV_BYTES]), bytes(data[_IV_BYTES:]), self._encryption.aad)
        except (InvalidTag, ValueError) as error:
            raise CorruptTier(path, "a part does not decrypt: its bytes or its key changed") from error


class _ChunkCache:
    """Chunks that were read last, decoded. A chunk that another thread reads now is waited for, not read again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, str, int], Future[bytes]] = OrderedDict()

    def claim(self, log: tuple[str, str], numbers: range) -> tuple[dict[int, Future[bytes]], list[int]]:
        """Return the chunks of a log, and the numbers of those that the caller must read."""
        with self._lock:
            claimed = [number for number in numbers if (*log, number) not in self._known]
            for number in claimed:
                self._known[*log, number] = Future()
            for number in numbers:
                self._known.move_to_end((*log, number))
            found = {number: self._known[*log, number] for number in numbers}
            self._make_room()
            return found, claimed

    def _make_room(self) -> None:
        held_bytes = 0
        for key in reversed(list(self._known)):
            chunk = self._known[key]
            if chunk.done() and chunk.exception() is None:
                held_bytes += len(chunk.result())
                if held_bytes > _CACHED_BYTES:
                    del self._known[key]

    def forget(self, log: tuple[str, str], numbers: Sequence[int]) -> None:
        """Forget chunks that could not be read."""
        with self._lock:
            for number in numbers:
                self._known.pop((*log, number), None)


@dataclass(frozen=True, slots=True)
class ChunkedLog:
    """The log of a segment, put together from its chunks."""

    found: StoredObject
    manifest: SegmentManifest
    cipher: _Cipher | None
    cache: _ChunkCache

    @property
    def size_bytes(self) -> int:
        """Return the original size."""
        return self.manifest.chunks.file_bytes

    @property
    def version(self) -> str:
        """Return the version of the object."""
        return self.found.version

    def read(self, start: int, end: int) -> memoryview:
        """Read a range of the original log. Raises: as ``OriginalFile``."""
        end = min(end, self.size_bytes)
        if end <= start:
            return memoryview(b"")
        if self.cipher is None and not self.manifest.is_compressed:
            return self._part(start, end)
        size_bytes = self.manifest.chunks.chunk_bytes
        numbers = range(start // size_bytes, -(-end // size_bytes))
        chunks = self._chunks(numbers)
        if len(chunks) == 1:
            (only,) = chunks
            return memoryview(only)[start - numbers.start * size_bytes : end - numbers.start * size_bytes]
        joined = b"".join(chunks)
        return memoryview(joined)[start - numbers.start * size_bytes : end - numbers.start * size_bytes]

    def _part(self, start: int, end: int) -> memoryview:
        """Read a range of the object, which ends no sooner than the manifest says. Raises: CorruptTier."""
        data = read_range(self.found, start, end)
        if len(data) != end - start:
            raise CorruptTier(self.found.path, f"ends at byte {self.found.size_bytes}, before {end}")
        return data

    def _chunks(self, numbers: range) -> list[bytes]:
        log = str(self.found.path), self.found.version
        chunks, claimed = self.cache.claim(log, numbers)
        try:
            for run in _runs(claimed):
                for number, chunk in self._read(run):
                    chunks[number].set_result(chunk)
        except BaseException as error:
            failed = [number for number in claimed if not chunks[number].done()]
            self.cache.forget(log, failed)
            for number in failed:
                chunks[number].set_exception(error)
            raise
        return [chunks[number].result() for number in numbers]

    def _read(self, numbers: range) -> Iterator[tuple[int, bytes]]:
        """Read chunks that follow each other, by one request."""
        positions, start = self.manifest.chunks.positions, self.manifest.chunks.positions[numbers.start]
        data = self._part(start, positions[numbers.stop])
        for number in numbers:
            yield number, self._decoded(number, data[positions[number] - start : positions[number + 1] - start])

    def _decoded(self, number: int, data: memoryview) -> bytes:
        chunks = self.manifest.chunks
        due_bytes = min(chunks.chunk_bytes, chunks.file_bytes - number * chunks.chunk_bytes)
        plain: bytes | memoryview = self.cipher.decrypted(data, self.found.path) if self.cipher else data
        try:
            chunk = _unpacked(plain, due_bytes, due_bytes) if self.manifest.is_compressed else bytes(plain)
        except ValueError as error:
            raise CorruptTier(self.found.path, f"chunk {number}: {error}") from error
        if len(chunk) != due_bytes:
            raise CorruptTier(
                self.found.path, f"chunk {number} has {len(chunk)} bytes, and the manifest says {due_bytes}"
            )
        return chunk


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Yield numbers that follow each other, together."""
    start = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield range(numbers[start], numbers[place - 1] + 1)
            start = place


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """One index of a segment, within the object of indexes."""

    found: StoredObject
    position: int
    stored_bytes: int
    cipher: _Cipher | None
    is_encrypted: bool

    @property
    def size_bytes(self) -> int:
        """Return the original size."""
        return max(0, self.stored_bytes - _IV_BYTES - _TAG_BYTES) if self.is_encrypted else self.stored_bytes

    @property
    def version(self) -> str:
        """Return the version of the object."""
        return self.found.version

    def read(self, start: int, end: int) -> memoryview:
        """Read a range of the original file. Raises: as ``OriginalFile``."""
        if not self.stored_bytes:
            return memoryview(b"")
        if self.cipher is None:
            end = min(end, self.size_bytes)
            return self._part(self.position + start, self.position + max(start, end))
        stored = self._part(self.position, self.position + self.stored_bytes)
        whole = self.cipher.decrypted(stored, self.found.path)
        return memoryview(whole)[start:end]

    def _part(self, start: int, end: int) -> memoryview:
        data = read_range(self.found, start, end)
        if len(data) != end - start:
            raise CorruptTier(self.found.path, f"ends at byte {self.found.size_bytes}, before {end}")
        return data


class AivenLayout:
    """A bucket or directory of Aiven's plugin, as a ``Layout``."""

    def __init__(self, root: Path, prefix: str = "", keys: Sequence[str] = ()) -> None:
        """Prepare to read.

        Args:
            root: holds the directories of topics.
            prefix: with which the names of these directories begin.
            keys: as of ``PrivateKeys``.
        """
        self.root, self._prefix, self._keys = root, prefix, PrivateKeys(keys)
        self._manifests: dict[Path, SegmentManifest] = {}
        self._cache = _ChunkCache()

    @property
    def name(self) -> str:
        """Return the name of the layout, for people."""
        return "Aiven"

    def partitions(self) -> list[TieredPartition]:
        """Return the partitions that have a directory. Raises: as ``Layout``."""
        found = []
        for name, is_file in listed(self.root):
            parsed = parse_topic(name, self._prefix) if is_file is None else None
            if parsed is not None:
                topic, topic_id = parsed
                numbers = (number for number, inner in listed(self.root / name) if inner is None)
                found += [TieredPartition(topic, int(n), topic_id) for n in numbers if _PARTITION.fullmatch(n)]
        return sorted(found)

    def stored(self, partition: TieredPartition) -> list[StoredSegment]:
        """Return the segments of which objects lie there. Raises: as ``Layout``."""
        objects: defaultdict[RemoteName, dict[str, StoredObject]] = defaultdict(dict)
        for name, found in listed(self._directory(partition)):
            parsed = _FILE.fullmatch(name)
            if parsed and found is not None and parsed["suffix"] in _SUFFIXES:
                objects[RemoteName(partition, int(parsed["start"]), parsed["id"])][parsed["suffix"]] = found
        return [StoredSegment(name, objects[name]) for name in sorted(objects, key=lambda name: name.start_offset)]

    def _directory(self, partition: TieredPartition) -> Path:
        return self.root / f"{self._prefix}{partition.topic}-{partition.topic_id}" / str(partition.partition)

    def located(self, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment with its objects, if they lie where its custom metadata say, and not where they would else.

        A tier that was copied to another place has custom metadata of its first one.
        """
        if not segment.custom_metadata or segment.stored is not None:
            return segment
        try:
            fields = decode(_CUSTOM, 0, segment.custom_metadata)
        except InvalidRecord as error:
            return replace(segment, problem=f"its custom metadata do not parse: {error.cause}")
        if fields["prefix"] is None and fields["key"] is None:
            return segment
        own = self._directory(segment.partition) / f"{segment.start_offset:020d}-{segment.segment_id}"
        place = self._place(fields["prefix"], fields["key"], segment)
        if place is None or place == own:
            return segment
        objects = {}
        try:
            for name, found in listed(place.parent):
                if found is not None and name.removeprefix(place.name) in _SUFFIXES and name.startswith(place.name):
                    objects[name.removeprefix(place.name)] = found
        except (FileNotFoundError, NotADirectoryError):
            pass
        own_name = RemoteName(segment.partition, segment.start_offset, segment.segment_id)
        return replace(segment, stored=StoredSegment(own_name, objects) if objects else None)

    def _place(self, prefix: str | None, key: str | None, segment: RemoteSegment) -> Path | None:
        """Return where the objects of a segment lie, without their suffix; None for a key that no path can have."""
        main = f"{segment.partition.topic}-{segment.partition.topic_id}/{segment.partition.partition}/"
        main = key if key is not None else f"{main}{segment.start_offset:020d}-{segment.segment_id}"
        if prefix is None:
            text, base = f"{self._prefix}{main}", self.root
        else:
            text, base = f"{prefix}{main}", self._base_of(prefix)
        parts = text.strip("/").split("/")
        if any(part in ("", ".", "..") for part in parts):
            return None
        return base.joinpath(*parts)

    def _base_of(self, prefix: str) -> Path:
        """Return the directory at which keys with a prefix begin: the bucket, or the directory of the plugin."""
        parts = prefix.split("/")[:-1]
        if isinstance(self.root, StoredPath) and (not parts or list(self.root.parts[-len(parts) :]) != parts):
            return StoredPath(self.root.place)
        return (
            self.root.parents[len(parts) - 1] if parts and list(self.root.parts[-len(parts) :]) == parts else self.root
        )

    def described(self, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment with what its manifest tells. Errors are its problem.

        Raises: NotATier if the directories of topics have a prefix that was not named.
        """
        if segment.stored is None or MANIFEST not in segment.stored.objects:
            return replace(segment, problem="its manifest is not there: the copy was not finished, or is damaged")
        try:
            found = self.manifest(segment.stored)
        except (LogCleanerError, FileNotFoundError) as error:
            return replace(segment, problem=str(error))
        metadata = found.metadata
        self._check_prefix(segment.partition.topic, _topic_in(metadata))
        if not metadata:
            return replace(
                segment, size_bytes=found.chunks.file_bytes, problem="its manifest does not tell its offsets"
            )
        try:
            end, epochs = _end_and_epochs(metadata, segment.start_offset)
            return replace(
                segment,
                end_offset=end,
                epochs=epochs,
                max_timestamp_ms=int(metadata["maxTimestampMs"]),
                event_ms=int(metadata["eventTimestampMs"]),
                broker_id=int(metadata["brokerId"]),
                size_bytes=found.chunks.file_bytes,
                problem="" if LOG in segment.stored.objects else "its .log is not there",
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return replace(segment, problem=f"its manifest does not tell its offsets: {error}")

    def _check_prefix(self, named: str, topic: str) -> None:
        """Refuse a topic that is the one of its manifests behind a prefix. Raises: NotATier."""
        if topic and named != topic and named.endswith(topic):
            prefix = f"{self._prefix}{named.removesuffix(topic)}"
            raise NotATier(self.root, f"the prefix is {prefix!r} by the manifests, so say {self.root / prefix}")

    def manifest(self, stored: StoredSegment) -> SegmentManifest:
        """Return the manifest of a segment. Raises: CorruptTier, OSError, as a store."""
        found = stored.objects.get(MANIFEST)
        if found is None:
            raise CorruptTier(self._directory(stored.name.partition), f"{stored.name.segment_id} has no manifest")
        if found.path not in self._manifests:
            parsed = parse_manifest(read_all(found), found.path)
            if (named := _id_in(parsed.metadata)) not in (None, stored.name.segment_id):
                raise CorruptTier(found.path, f"is the manifest of segment {named}")
            self._manifests[found.path] = parsed
        return self._manifests[found.path]

    def missing(self, stored: StoredSegment) -> list[str]:
        """Return the suffixes of objects that are missing."""
        return [suffix for suffix in _SUFFIXES if suffix not in stored.objects]

    def sizes(self, segment: RemoteSegment) -> Mapping[str, int]:
        """Return the sizes that the objects must have, by suffix. Raises: as ``files``."""
        assert segment.stored is not None
        found = self.manifest(segment.stored)
        indexes_bytes = max((position + size for position, size in found.indexes.values()), default=0)
        return {LOG: found.chunks.positions[-1], INDEXES: indexes_bytes}

    def files(self, segment: RemoteSegment) -> Mapping[TierFile, ChunkedLog | PackedIndex]:
        """Return the files of a segment. Raises: CorruptTier, NoKey, CipherMissing, OSError, as a store."""
        if segment.stored is None:
            raise CorruptTier(self._directory(segment.partition), f"no object of {segment} is there")
        manifest, objects = self.manifest(segment.stored), segment.stored.objects
        cipher = None
        if manifest.encryption is not None:
            path = objects[MANIFEST].path
            cipher = _Cipher(self._keys, manifest.encryption, path)
        files: dict[TierFile, ChunkedLog | PackedIndex] = {}
        if LOG in objects:
            files[TierFile.LOG] = ChunkedLog(objects[LOG], manifest, cipher, self._cache)
        if INDEXES in objects:
            for kind, (position, size) in manifest.indexes.items():
                files[kind] = PackedIndex(objects[INDEXES], position, size, cipher, manifest.encryption is not None)
        return files


def _topic_in(metadata: Mapping[str, Any]) -> str:
    """Return the topic that a manifest names; an empty text if it names none."""
    found: Any = metadata
    for key in ("remoteLogSegmentId", "topicIdPartition", "topicPartition", "topic"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def _end_and_epochs(metadata: Mapping[str, Any], start_offset: int) -> tuple[int, tuple[LeaderEpochEntry, ...]]:
    """Return the last offset and the leader epochs of a segment. Raises: ValueError, KeyError, TypeError."""
    end = int(metadata["endOffset"])
    epochs = sorted((int(epoch), int(offset)) for epoch, offset in metadata["segmentLeaderEpochs"].items())
    if end < start_offset or any(epoch < 0 for epoch, _ in epochs):
        raise ValueError(f"an end of {end}, leader epochs {epochs}")
    return end, tuple(LeaderEpochEntry(*entry) for entry in epochs)


def _id_in(metadata: Mapping[str, Any]) -> object:
    """Return the id of the segment that a manifest names; None if it names none."""
    found = metadata.get("remoteLogSegmentId") if isinstance(metadata, Mapping) else None
    return found.get("id") if isinstance(found, Mapping) else None


def parse_topic(name: str, prefix: str = "") -> tuple[str, str] | None:
    """Return topic and topic id of a directory, by its name; None for any other name."""
    found = _TOPIC.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return (found["topic"], found["id"]) if found else None
