"""The errors of tiers."""

from __future__ import annotations

from pathlib import Path

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

    def __str__(self) -> str:
        return (
            f"{self.path}: is encrypted with the key {self.key_id!r}, which was not named; name the file of its "
            f"private key with --tier-key {self.key_id}=FILE"
        )


class CipherMissing(LogCleanerError):
    """The package that decrypts is not installed."""

    path: Path

    def __str__(self) -> str:
        return (
            f"{self.path}: is encrypted, and needs the package cryptography; pip install '.[remote]' in the sources of "
            f"logcleaner, or 'FILE.whl[remote]'"
        )


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
