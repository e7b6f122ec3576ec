"""The questions that every layout of a tier answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from storage.tiers.segments import RemoteSegment, StoredObject, StoredSegment, TieredPartition, TierFile


class OriginalFile(Protocol):
    """A file as it was in the log dir, whatever the tier made of it. Several threads may read it."""

    @property
    def size_bytes(self) -> int:
        """Return the original size."""
        ...

    @property
    def version(self) -> str:
        """Return a text that tells the version of the file in the tier from another."""
        ...

    def read(self, start: int, end: int) -> memoryview:
        """Read ``[start, end)``; fewer bytes if the file ends before.

        Raises: CorruptTier, NoKey, OSError, as a store.
        """
        ...


class FileOfTier(OriginalFile, Protocol):
    """A file that is read from the tier."""

    @property
    def found(self) -> StoredObject:
        """Return the file of the tier that holds it."""
        ...


class Layout(Protocol):
    """The names and forms of the files of one plugin. Nothing is written."""

    @property
    def name(self) -> str:
        """Return the name of the layout, for people."""
        ...

    def partitions(self) -> list[TieredPartition]:
        """Return the partitions that have files. Raises: OSError, as a store."""
        ...

    def stored(self, partition: TieredPartition) -> list[StoredSegment]:
        """Return the segments of which files lie there, by start offset. Raises: OSError, as a store."""
        ...

    def located(self, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment with its files, if its metadata name another place than its name does."""
        ...

    def described(self, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment with what its files alone tell of it, where the metadata did not. Errors are its problem.

        Raises: NotATier if it is no segment of a topic of that name.
        """
        ...

    def missing(self, stored: StoredSegment) -> list[str]:
        """Return the suffixes of the files that a whole copy has and that are not there."""
        ...

    def sizes(self, segment: RemoteSegment) -> Mapping[str, int]:
        """Return the sizes that objects of a segment must have, by suffix, as far as it is known.

        Raises: CorruptTier, OSError, as a store.
        """
        ...

    def files(self, segment: RemoteSegment) -> Mapping[TierFile, FileOfTier]:
        """Return the files of a segment. Raises: CorruptTier, NoKey, OSError, as a store."""
        ...
