"""Paths in stores. A ``StoredPath`` goes where a ``Path`` goes, as far as names are concerned.

Whoever asks such a path for what a store has (``exists``, ``is_dir``, ``stat``, ``read_bytes``) gets it from there.
Whoever hands it to the operating system gets ``NotOnThisMachine``: no call takes it for a local path by mistake.
"""

from __future__ import annotations

import errno
import os
import re
import stat as modes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Final, NoReturn, Self

from storage.stores.errors import ImpossibleName, NotOnThisMachine, WrongUrl

if TYPE_CHECKING:
    from storage.stores.store import StoredEntry

SEPARATOR: Final = "://"
_LOCAL: Final = "file"
_ALIKE: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs"}
SCHEMES: Final = ("s3", "gs", "abfs", "hdfs")
"""Of paths in stores. Other spellings of them are read as these."""
TIER: Final = "tier"
"""Of paths in the view of a tier (``storage.tiers.view``), which commands print."""
PREFIXES: Final = tuple(f"{scheme}{SEPARATOR}" for scheme in (*SCHEMES, TIER))
_URL: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")


class StoredPath(PosixPath):
    """The path of a directory or file in a store. Its text is its URL."""

    __slots__ = ()

    def __str__(self) -> str:
        text = super().__str__()
        scheme, found, rest = text.partition(":/")
        return (
            f"{scheme}{SEPARATOR}{rest}" if found and scheme in (*SCHEMES, TIER) else text
        )  # what is relative has no scheme

    def __fspath__(self) -> NoReturn:
        raise NotOnThisMachine(str(self))

    @property
    def place(self) -> str:
        """The URL of the bucket or HDFS: what a store is opened for."""
        return "//".join(self.parts[:2])

    @property
    def key(self) -> str:
        """The name within the store, without a slash at its ends; empty for the whole store."""
        return "/".join(self.parts[2:])

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002 - no link lies in a store
        """Return the status of the file or directory. Raises: FileNotFoundError, as ``Store.look``."""
        from storage.stores.catalogue import catalogue_of  # noqa: PLC0415 - who reads no URL does without

        with _impossible_name_in(self):
            return catalogue_of(self.place).entry(self.key).stat()

    def exists(self, **_: bool) -> bool:
        """Return whether a file or directory lies there. Raises: as ``Store.look``."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, **_: bool) -> bool:
        """Return whether a directory lies there. Raises: as ``Store.look``."""
        try:
            return modes.S_ISDIR(self.stat().st_mode)
        except FileNotFoundError:
            return False

    def is_file(self, **_: bool) -> bool:
        """Return whether a file lies there. Raises: as ``Store.look``."""
        return self.exists() and not self.is_dir()

    def is_symlink(self) -> bool:
        """Return that a store holds no symlink."""
        return False

    def is_absolute(self) -> bool:
        """Return that a URL needs no working directory."""
        return True

    def absolute(self) -> Self:
        """Return the path itself."""
        return self

    def resolve(self, strict: bool = False) -> Self:  # noqa: ARG002
        """Return the path itself: no link lies in a store."""
        return self

    def entries(self) -> Iterable[StoredEntry]:
        """Return the names in a directory. Raises: as ``Catalogue.entries``."""
        from storage.stores.catalogue import catalogue_of  # noqa: PLC0415

        with _impossible_name_in(self):
            return catalogue_of(self.place).entries(self.key)

    def read_bytes(self) -> bytes:
        """Read the whole file, as it is now. Raises: as ``Catalogue.whole``."""
        from storage.stores.catalogue import catalogue_of  # noqa: PLC0415

        return catalogue_of(self.place).whole(self.key)

    def iterdir(self) -> Iterator[Self]:  # type: ignore[override]
        """Yield the paths in a directory. Raises: as ``entries``."""
        return (self / entry.name for entry in self.entries())


@contextmanager
def _impossible_name_in(path: StoredPath) -> Iterator[None]:
    """Report a directory that cannot be listed as a disk would, since others can be. Raises: OSError."""
    try:
        yield
    except ImpossibleName as error:
        raise OSError(errno.EILSEQ, error.cause, str(path)) from error


def want_whole(paths: Iterable[Path]) -> None:
    """Say that all of log dirs is going to be looked at: what lies in stores is listed in as few requests as can be."""
    for path in paths:
        if isinstance(path, StoredPath):
            from storage.stores.catalogue import catalogue_of  # noqa: PLC0415

            catalogue_of(path.place).want_whole(path.key)


def list_anew(path: Path) -> None:
    """List a directory now, if it lies in a store: it may be empty. Raises: as ``Store``."""
    if isinstance(path, StoredPath):
        from storage.stores.catalogue import catalogue_of  # noqa: PLC0415

        catalogue_of(path.place).list_anew(path.key)


def look_anew(paths: Iterable[Path]) -> None:
    """Have paths that lie in stores listed anew when they are asked for next. Raises: ClientMissing, StoreFailed."""
    for path in paths:
        if isinstance(path, StoredPath):
            from storage.stores.catalogue import catalogue_of  # noqa: PLC0415

            catalogue_of(path.place).forget(path.key)


def names_a_store(text: str) -> bool:
    """Return whether a word of a user is a URL that ``located`` takes for a path in a store."""
    scheme = text.partition(SEPARATOR)[0].lower() if _URL.match(text) else ""
    return _ALIKE.get(scheme, scheme) in SCHEMES


def path_of_text(text: str) -> Path:
    """Return the path whose text is in a plan or a report."""
    return StoredPath(text) if text.startswith(PREFIXES) else Path(text)


def located(text: str) -> Path:
    """Return the path that a user names: a path of this machine, also as ``file://``, or a URL of a store.

    Raises: WrongUrl for a URL that nobody here can read.
    """
    if not _URL.match(text):
        return Path(text)
    scheme, _, rest = text.partition(SEPARATOR)
    scheme = _ALIKE.get(scheme.lower(), scheme.lower())
    if scheme == _LOCAL:
        return _local(text)
    if scheme not in (*SCHEMES, TIER):
        raise WrongUrl(
            text, f"{scheme}:// cannot be read; a path, file://, {', '.join(f'{s}://' for s in SCHEMES)} can"
        )
    place, _, key = rest.partition("/")
    parts = key.removesuffix("/").split("/") if key.removesuffix("/") else []
    if not place:
        raise WrongUrl(text, f"names no {'host' if scheme == 'hdfs' else 'bucket'}; say {scheme}://NAME/DIR")
    if any(part in ("", ".", "..") for part in parts):
        raise WrongUrl(text, "has an empty part, '.' or '..' in it; a log dir below such a name cannot be read")
    return StoredPath(f"{scheme}{SEPARATOR}{place}", *parts)


def _local(url: str) -> Path:
    """Return the path of a ``file://`` URL, in which ``%20`` is a space."""
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - who names no such URL starts sooner

    found = urlsplit(url)
    if found.netloc not in ("", "localhost") or not found.path or found.query or found.fragment:
        raise WrongUrl(url, "names no path of this machine; say file:///DIR, with %23 for # and %3F for ?")
    return Path(unquote(found.path))
