"""Partitions that a run could not compact for what their files hold: tried again once the files are others.

A run from the command line tries every time, and leaves a line in the journal for ``topics``. Who runs round after
round would read the same damage over and over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, Self

from storage.log.listing import Listing
from storage.names import FileState


class Uncleanable(NamedTuple):
    """A partition as it was when it failed."""

    cause: str
    """The error, as it was reported."""
    fingerprint: str
    """Of names and identities of the segment files and producer snapshots; those that wait as ``.deleted`` left out."""

    @classmethod
    def of(cls, listing: Listing, cause: str) -> Self:
        """Remember a failure, by a listing made under the lock."""
        return cls(cause, _fingerprint(listing))

    def may_retry(self, listing: Listing) -> bool:
        """Return whether a file came, went or is another one: by name, device, inode, size or modification time."""
        return _fingerprint(listing) != self.fingerprint


def uncleanable_in(entries: Iterable[Mapping[str, Any]]) -> dict[str, Uncleanable]:
    """Return the partitions, by name, that failed in the last run that touched them, by a journal's entries."""
    found: dict[str, Uncleanable] = {}
    for entry in entries:
        match entry:
            case {"what": "failed", "partition": str(name), "error": str(cause), "fingerprint": str(fingerprint)}:
                found[name] = Uncleanable(cause, fingerprint)
            case {"what": "compact", "partition": str(name)}:  # a new attempt
                found.pop(name, None)
    return found


def _fingerprint(listing: Listing) -> str:
    files = ((file.file_name, *file.identity) for file in listing.files if file.name.state is not FileState.DELETED)
    return sha256(repr(sorted(files)).encode()).hexdigest()
