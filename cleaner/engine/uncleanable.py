"""Partitions that a run could not compact for what their files hold: tried again once the files are others.

A run from the command line tries every time. Who runs round after round would read the same damage over and over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from storage.log.listing import Listing
from storage.names import FileIdentity


@dataclass(frozen=True, slots=True)
class Uncleanable:
    """A partition as it was when it failed."""

    cause: str
    """The error, as it was reported."""
    files: frozenset[tuple[str, FileIdentity]]
    """Names and identities of the segment files and producer snapshots."""

    @classmethod
    def of(cls, listing: Listing, cause: str) -> Self:
        """Remember a failure, by the listing made before the files were read."""
        return cls(cause, _files(listing))

    def may_retry(self, listing: Listing) -> bool:
        """Whether a file came, went or is another one: by name, device, inode, size or modification time."""
        return _files(listing) != self.files


def _files(listing: Listing) -> frozenset[tuple[str, FileIdentity]]:
    return frozenset((file.file_name, file.identity) for file in listing.files)
