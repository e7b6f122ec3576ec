"""The errors of stores: each in one line, with what a caller can do about it."""

from __future__ import annotations

import errno
import os

from storage.errors import ErrorKind, LogCleanerError


class NotOnThisMachine(LogCleanerError):
    """A path in a store, where a file or directory of this machine is needed: for a lock, an inode or a mapping."""

    kind = ErrorKind.USAGE

    url: str

    def __str__(self) -> str:
        return f"{self.url}: lies in a store, and this needs a directory of this machine; name a local copy"


class WrongUrl(LogCleanerError):
    """A URL that names no place in a store that can be read."""

    kind = ErrorKind.USAGE

    url: str
    cause: str

    def __str__(self) -> str:
        return f"{self.url}: {self.cause}"


class ClientMissing(LogCleanerError):
    """A package that reads a store is not installed."""

    url: str
    package: str

    def __str__(self) -> str:
        return (
            f"{self.url}: a URL needs {self.package}, which is not installed; pip install '.[remote]' in the "
            f"sources of logcleaner, or 'FILE.whl[remote]'"
        )


class NoSuchBucket(LogCleanerError):
    """A bucket, container or host that does not exist."""

    kind = ErrorKind.USAGE

    url: str

    def __str__(self) -> str:
        return f"{self.url}: no such bucket; check its name, and the endpoint"


class StoreError(LogCleanerError):
    """The answer of a store to a request, or that there was none."""

    url: str
    cause: str
    is_writing: bool = False
    """Whether something was to be written or removed."""

    @property
    def _undone(self) -> str:
        """Return what was to be done."""
        return "written" if self.is_writing else "read"


class ForbiddenStore(StoreError):
    """A store that refuses the request of this user."""

    def __str__(self) -> str:
        rights = "write" if self.is_writing else "read"
        return f"{self.url}: the store forbids it: {self.cause}; check the credentials, and what they may {rights}"


class ExpiredCredentials(StoreError):
    """Credentials that were good for a time, which has passed."""

    def __str__(self) -> str:
        return f"{self.url}: the credentials have expired ({self.cause}); get new ones, and run again"


class StoreUnreachable(StoreError):
    """A store that did not answer, or answered that it cannot now, at each of several attempts."""

    kind = ErrorKind.NOT_YET

    def __str__(self) -> str:
        return f"{self.url}: cannot be {self._undone} now: {self.cause}; try again later"


class StoreFull(StoreError):
    """A store that takes no more: a quota is used up, or its disks are full."""

    def __str__(self) -> str:
        return f"{self.url}: the store has no room for it: {self.cause}; raise its quota, or remove something there"


class StoreFailed(StoreError):
    """A request that a store refused, or an answer that makes no sense."""

    def __str__(self) -> str:
        return f"{self.url}: cannot be {self._undone}: {self.cause}"


class ImpossibleName(StoreFailed):
    """A name in a bucket that no path can have, and over which the client gives up each page that lists it."""


class ObjectChanged(FileNotFoundError):
    """The version of a file that was listed is gone: another one lies there, or none.

    An error of the operating system's kind, so that whoever reads beside a live writer treats both alike.
    """

    def __init__(self, url: str) -> None:
        super().__init__(errno.ENOENT, "it was replaced by another version since it was listed", url)

    def __reduce__(self) -> tuple[type[ObjectChanged], tuple[object]]:
        return type(self), (self.filename,)


def not_there(url: str) -> FileNotFoundError:
    """Return the error for a name that is not in a store."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
