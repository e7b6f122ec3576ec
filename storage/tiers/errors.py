"""The errors of tiers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from storage.errors import Corrupt, ErrorKind, LogCleanerError


class NotATier(LogCleanerError):
    """A place that holds no segment of a layout that can be read."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.cause}; name the directory of kafka-tiered-storage, or the bucket and prefix of "
            f"Aiven's plugin"
        )


class CorruptTier(Corrupt):
    """A file of a tier that does not say what it must."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


class NoKey(LogCleanerError):
    """An encrypted segment, without the private key to its data key."""

    path: Path
    key_id: str

    @property
    def cause(self) -> str:
        """Return what is wrong with all segments of that key."""
        return (
            f"is encrypted with the key {self.key_id!r}, which was not named; name the file of its private key with "
            f"--tier-key {self.key_id}=FILE"
        )

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


class CipherMissing(LogCleanerError):
    """The package that decrypts is not installed."""

    path: Path

    @property
    def cause(self) -> str:
        """Return what is wrong with all encrypted segments."""
        return (
            "is encrypted, and needs the package cryptography; pip install '.[remote]' in the sources of "
            "logcleaner, or 'FILE.whl[remote]'"
        )

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


LOCKED: Final = (NoKey, CipherMissing)
"""The errors that all encrypted segments of a partition have in common."""


class TierLacksOffsets(LogCleanerError):
    """A log of which offsets are in no copy that can be read."""

    partition: str
    first: int
    last: int
    spans: int

    def __str__(self) -> str:
        more = f", and {self.spans - 1} more such ranges" if self.spans > 1 else ""
        return (
            f"{self.partition}: the offsets {self.first} to {self.last}{more} are in no copy that can be read, so "
            f"nothing of it is cleaned; verify --tier says why; name a log dir that has them with --log-dir"
        )
