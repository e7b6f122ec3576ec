"""``logcleaner.owners/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count
from policies.owners.holdings import OwnerState


class OwnersHeld(TypedDict):
    """The sums of `owners`."""

    bytes: NotRequired[Count]
    """The bytes in `.log` files; the bytes of a batch are shared out among its records."""
    dirty_bytes: NotRequired[Count]
    """Those at and above the first dirty offset, at which no cleaner has looked."""
    superseded_bytes: NotRequired[Count]
    """Those that compaction drops: of all records but the latest of each key."""
    records: NotRequired[Count]
    """The number of records, tombstones included."""
    superseded_records: NotRequired[Count]
    """The records that are not the latest of their key, or of an aborted transaction."""
    live_keys: NotRequired[Count]
    """The keys whose latest record has a value."""
    tombstones: NotRequired[Count]
    """The keys whose latest record is a tombstone."""
    first_record_ms: NotRequired[int | None]
    """The least timestamp of the records, epoch ms; null without a record."""
    last_record_ms: NotRequired[int | None]
    """The greatest timestamp of the records, epoch ms; null without a record."""


class OwnersHeldTopic(TypedDict):
    """The holdings of a group of one topic."""

    topic: NotRequired[str | None]
    """The topic of the offsets; null for the records of the group itself."""
    expired: NotRequired[Count]
    """The offsets that a broker removes at its next check."""
    bytes: NotRequired[Count]
    """The bytes in `.log` files; the bytes of a batch are shared out among its records."""
    dirty_bytes: NotRequired[Count]
    """Those at and above the first dirty offset, at which no cleaner has looked."""
    superseded_bytes: NotRequired[Count]
    """Those that compaction drops: of all records but the latest of each key."""
    records: NotRequired[Count]
    """The number of records, tombstones included."""
    superseded_records: NotRequired[Count]
    """The records that are not the latest of their key, or of an aborted transaction."""
    live_keys: NotRequired[Count]
    """The keys whose latest record has a value."""
    tombstones: NotRequired[Count]
    """The keys whose latest record is a tombstone."""
    first_record_ms: NotRequired[int | None]
    """The least timestamp of the records, epoch ms; null without a record."""
    last_record_ms: NotRequired[int | None]
    """The greatest timestamp of the records, epoch ms; null without a record."""


class OwnersOwner(TypedDict):
    """A group or a transactional id."""

    name: NotRequired[str]
    """The group id or the transactional id."""
    state: NotRequired[OwnerState]
    """What its records say. Of a group: `active`, `empty` (no members), `no group` (offsets alone), `dead`
    (nothing but tombstones and what they superseded). Of a transactional id: its last transaction, or `unused`,
    `dead`. `unknown` if that cannot be decoded.
    """
    protocol: NotRequired[str]
    """`consumer`, `share`, `streams`; of a classic group its protocol type; empty if nothing says so."""
    members: NotRequired[Count | None]
    """The number of members of a group; null if nothing says so."""
    last_ms: NotRequired[int | None]
    """The time of the last commit of a group, of the last update of a transactional id, epoch ms; null if unknown."""
    expired: NotRequired[Count]
    """The offsets that a broker removes at its next check; 1 for a transactional id that it removes."""
    bytes: NotRequired[Count]
    """The bytes in `.log` files; the bytes of a batch are shared out among its records."""
    dirty_bytes: NotRequired[Count]
    """Those at and above the first dirty offset, at which no cleaner has looked."""
    superseded_bytes: NotRequired[Count]
    """Those that compaction drops: of all records but the latest of each key."""
    records: NotRequired[Count]
    """The number of records, tombstones included."""
    superseded_records: NotRequired[Count]
    """The records that are not the latest of their key, or of an aborted transaction."""
    live_keys: NotRequired[Count]
    """The keys whose latest record has a value."""
    tombstones: NotRequired[Count]
    """The keys whose latest record is a tombstone."""
    first_record_ms: NotRequired[int | None]
    """The least timestamp of the records, epoch ms; null without a record."""
    last_record_ms: NotRequired[int | None]
    """The greatest timestamp of the records, epoch ms; null without a record."""
    topics: NotRequired[list[OwnersHeldTopic]]
    """The parts of a group, the largest first; empty for a transactional id."""


class OwnersOther(TypedDict):
    """One kind of it."""

    what: NotRequired[str]
    """The kind, in words."""
    records: NotRequired[Count]
    """The number of records."""
    bytes: NotRequired[int]
    """Their bytes in the `.log` files."""


class OwnersPartition(TypedDict):
    """A partition."""

    topic: NotRequired[str]
    """The topic's name."""
    partition: NotRequired[Count]
    """The number of the partition."""
    log_dir: NotRequired[str]
    """The path of the log dir that holds the partition."""
    error: NotRequired[str | None]
    """Why the partition could not be read; null if it was."""
    bytes: NotRequired[Count]
    """The size of its `.log` files. The bytes of `owners` and `others` add up to it."""
    log_start_offset: NotRequired[int]
    """The first offset that consumers can read."""
    log_end_offset: NotRequired[int]
    """The offset that the next record gets."""
    first_dirty_offset: NotRequired[int]
    """Where the part begins at which no cleaner has looked."""
    held: NotRequired[OwnersHeld]
    """The sums of `owners`."""
    owners: NotRequired[list[OwnersOwner]]
    """The groups or transactional ids, the largest first."""
    others: NotRequired[list[OwnersOther]]
    """What belongs to no owner: transaction markers, records without a key, keys that cannot be decoded, bytes
    outside of records.
    """
    problems: NotRequired[list[str]]
    """What could not be read or decoded, one sentence each."""


class OwnersCause(TypedDict):
    """A cause."""

    code: NotRequired[str]
    """A blocker of `explain`, or one of docs/owners.md."""
    partition: NotRequired[int | None]
    """The number of the partition that the text tells of; null for all."""
    text: NotRequired[str]
    """The cause in a sentence or two."""
    remedy: NotRequired[str]
    """What would help."""
    bytes: NotRequired[Count]
    """The bytes that it keeps here, or brought here."""


class OwnersSum(TypedDict):
    """A topic."""

    topic: NotRequired[str]
    """The topic's name."""
    partitions: NotRequired[Count]
    """The number of its partitions that were read."""
    bytes: NotRequired[Count]
    """The size of their `.log` files."""
    superseded_bytes: NotRequired[Count]
    """What a compaction of all of it would drop."""
    causes: NotRequired[list[OwnersCause]]
    """Why it is as large as it is; what keeps most bytes first."""


class OwnersDocument(TypedDict):
    """The document that `owners --json` prints."""

    schema: NotRequired[Literal["logcleaner.owners/1"]]
    """The name of this schema."""
    now: NotRequired[int]
    """The moment that the report was made for, epoch ms."""
    offsets_retention_minutes: NotRequired[int]
    """`offsets.retention.minutes` in force."""
    transactional_id_expiration_ms: NotRequired[int]
    """`transactional.id.expiration.ms` in force."""
    partitions: NotRequired[list[OwnersPartition]]
    """The partitions of `__consumer_offsets` and `__transaction_state`; of one that could not be read only its
    name and the error.
    """
    topics: NotRequired[list[OwnersSum]]
    """The topics with the causes of their sizes."""
