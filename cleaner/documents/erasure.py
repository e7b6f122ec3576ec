"""``logcleaner.erasure/1``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from cleaner.documents.parts import Count
from cleaner.engine.prove_erased.places import FileContent, FileHome
from cleaner.engine.prove_erased.wanted import KeyEncoding
from policies.prove_erased.departures import DepartureCode, Need


class ErasureKey(TypedDict):
    """A key."""

    given: str
    """As it was given."""
    forms: list[str]
    """The bytes that were searched for, as hexadecimal digits."""
    payloads: list[str]
    """The bytes that were searched for behind any schema id, as hexadecimal digits."""
    files: Count
    """The files that hold it."""
    values: Count
    """Its records with a value."""
    tombstones: Count
    """Its records without a value."""
    gone_by_ms: int | None
    """When no file holds it any more, epoch ms; null if no moment is known, or none holds it."""


class ErasureRecord(TypedDict):
    """A record."""

    offset: int
    """Its offset."""
    timestamp_ms: int
    """Its timestamp, epoch ms; -1 if it has none."""
    value_bytes: int | None
    """The size of its value; null for a tombstone."""
    horizon_ms: int | None
    """The delete horizon of its batch, epoch ms: a tombstone goes in the first round from then on. Null if no
    compaction has set one.
    """
    is_aborted: bool
    """True if it belongs to an aborted transaction."""


class ErasureFound(TypedDict):
    """The records of one key in the file."""

    key: Count
    """The place of the key in `keys`, from 0."""
    values: Count
    """Records with a value."""
    tombstones: Count
    """Records without a value."""
    records: list[ErasureRecord]
    """The first 100 records."""
    gone_by_ms: int | None
    """When the file is gone, or no longer holds the key, epoch ms: the earliest moment if `needs` has anything.
    Null if no moment is known.
    """
    code: DepartureCode
    """How the file loses the key (docs/prove-erased.md)."""
    needs: list[Need]
    """What has to happen for that beside the passing of time."""
    text: str
    """A sentence for people."""


class ErasureUndecoded(TypedDict):
    """A part of the file that could not be decoded."""

    position: int | None
    """The byte at which it begins; null for the whole file."""
    cause: str
    """Why."""


class ErasureFile(TypedDict):
    """A file."""

    topic: str | None
    """The topic, as the name of the directory says; null in no partition directory."""
    partition: int | None
    """The number of the partition; null in no partition directory."""
    path: str
    """Its path."""
    log_dir: str
    """The log dir in which it lies."""
    directory: FileHome
    """The kind of directory in which it lies."""
    content: FileContent
    """What it holds, by its name: batches of records, no keys (an index, a checkpoint), or nobody knows."""
    result: Literal["clear", "found", "undecoded", "unread", "no_keys"]
    """The result: searched without a key, with a key, not decoded in full, not read, or without keys by its kind."""
    bytes: Count
    """Its size when it was searched."""
    sha256: str | None
    """The SHA-256 of these bytes; null if they were not read."""
    ranges: list[Annotated[list[int], Field(min_length=2, max_length=2)]]
    """The bytes that were read."""
    records: Count
    """The records that were compared."""
    found: list[ErasureFound]
    """The keys that were found."""
    undecoded: list[ErasureUndecoded]
    """What could not be decoded."""
    error: str | None
    """Why the file could not be read."""


class ErasureTotals(TypedDict):
    """Totals."""

    files: Count
    """All files."""
    searched: Count
    """The files that were read."""
    found: Count
    """The files that hold a key."""
    undecoded: Count
    """The files of which a part could not be decoded."""
    unread: Count
    """The files that could not be read."""
    records: Count
    """The records that were compared."""
    bytes: Count
    """The bytes that were read."""


class ErasureDocument(TypedDict):
    """The document that `prove-erased --json` prints."""

    schema: Literal["logcleaner.erasure/1"]
    """The name of this schema."""
    version: str
    """The version of logcleaner that searched."""
    now: int
    """The moment for which dates are told, epoch ms."""
    is_erased: bool
    """True if no file holds a key."""
    is_complete: bool
    """True if every file was read and decoded."""
    gone_by_ms: int | None
    """When no file holds a key any more, epoch ms: the earliest moment if `needs` has anything. Null if no moment
    is known, or none holds one.
    """
    needs: list[Need]
    """What has to happen for that beside the passing of time."""
    encoding: KeyEncoding
    """How the keys were given."""
    log_dirs: list[str]
    """The log dirs that were searched."""
    topics: list[str]
    """The globs of --topic; empty if every file was searched."""
    keys: list[ErasureKey]
    """The keys."""
    files: list[ErasureFile]
    """Every file, ascending by path."""
    limits: list[str]
    """What this does not cover."""
    totals: ErasureTotals
    """Totals."""
