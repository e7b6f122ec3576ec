"""The names of a store as they were listed. Each name is asked for once: a listing serves all who look into it.

A directory that is said to be wanted whole (``want_whole``) has all below it listed at once, a page for a thousand
names: a log dir of a thousand partitions takes as many requests as it has thousands of files. Nobody has to say so: the
third directory that is asked for below one parent has the whole parent listed, too.

What was listed counts until somebody wants to look anew (``forget``): the files of one command are those of one
listing. A file that has another version by then is ``ObjectChanged``, and its directory is forgotten.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Final

from storage.stores.errors import ImpossibleName, not_there
from storage.stores.opening import store_of
from storage.stores.store import Piece, Store, StoredEntry

if TYPE_CHECKING:
    from concurrent.futures import Future

_SIBLINGS_MAX: Final = 2
"""So many directories of one parent are listed one by one."""


class Catalogue:
    """The names of one store, as far as they are known. Several threads may ask."""

    def __init__(self, place: str) -> None:
        """Know nothing yet."""
        self._place = place
        self._listed: dict[str, dict[str, StoredEntry]] = {}
        self._siblings: Counter[str] = Counter()
        self._spoilt: dict[str, ImpossibleName] = {}
        """The directories that cannot be listed because of a name in them."""
        self._wanted: set[str] = set()
        """The directories of which all that lies below is wanted."""
        self._lock = RLock()
        self.under_way: dict[str, Future[None]] = {}
        """The files that this process sends now. Who looks at one waits for it."""

    @property
    def store(self) -> Store:
        """The store, opened. Raises: ClientMissing, StoreFailed."""
        return store_of(self._place)

    def entries(self, directory: str) -> Iterable[StoredEntry]:
        """Return the names in a directory. Raises: FileNotFoundError if there is none, as ``Store``."""
        return tuple(self._directory(directory).values())  # whoever goes over them may remove some

    def entry(self, key: str) -> StoredEntry:
        """Return the entry of a file or directory. Raises: FileNotFoundError, as ``Store``."""
        self._wait_for(key)
        parent, _, name = key.rpartition("/")
        with self._lock:
            self._list_wanted(key)
            if key in self._listed or not name:
                return self._told_apart(key, StoredEntry(name, is_directory=True))
            if parent in self._listed:
                return self._told_apart(key, self._known(parent, name))
            with suppress(FileNotFoundError):  # a directory is what is mostly asked for so; its names are wanted next
                self._directory(key)
                return self._told_apart(key, StoredEntry(name, is_directory=True))
        return self.store.look(key)

    def _told_apart(self, key: str, entry: StoredEntry) -> StoredEntry:
        """Return the entry; that of a directory with a version of its own, which stands for its inode."""
        return entry._replace(version=f"{self._place}/{key}") if entry.is_directory else entry

    def _known(self, parent: str, name: str) -> StoredEntry:
        found = self._listed[parent].get(name)
        if found is None:
            raise not_there(f"{self._place}/{parent}/{name}")
        return found

    def whole(self, key: str) -> bytes:
        """Read a whole file as it is now. Raises: FileNotFoundError, as ``Store``."""
        parent, _, name = key.rpartition("/")
        with self._lock:
            if parent in self._listed:
                self._known(parent, name)
        self._wait_for(key)
        return bytes(self.store.whole(key, None).data)

    def range(self, key: str, start: int, end: int, version: str | None) -> Piece:
        """Read ``[start, end)`` of a version of a file. Raises: as ``Store.range``."""
        self._wait_for(key)
        try:
            return self.store.range(key, start, end, version)
        except FileNotFoundError:
            self.forget(key.rpartition("/")[0])
            raise

    def _wait_for(self, key: str) -> None:
        if (sent := self.under_way.get(key)) is not None:
            sent.result()

    def forget(self, key: str) -> None:
        """Have a directory, its name, and all below it, listed anew when it is asked for next."""
        with self._lock:
            for listed in [name for name in self._listed if not key or name == key or name.startswith(f"{key}/")]:
                del self._listed[listed]
            self._listed.pop(key.rpartition("/")[0], None)
            self._spoilt = {}
            self._siblings.clear()
            self.under_way = {name: sent for name, sent in self.under_way.items() if not sent.done()}
        if (forget := getattr(self.store, "forget", None)) is not None:  # a view keeps what it listed, too
            forget()

    def want_whole(self, directory: str) -> None:
        """Have all below a directory listed at once, as soon as something of it is asked for."""
        with self._lock:
            self._wanted.add(directory)

    def list_anew(self, directory: str) -> None:
        """List a directory now, which may have nothing in it. Raises: as ``Store``."""
        with self._lock:
            self._listed[directory] = {entry.name: entry for entry in self.store.list(directory)}

    def note(self, key: str, entry: StoredEntry) -> None:
        """Know of a file, or of a directory that is empty, that this process made: nothing is asked for that."""
        parent, _, name = key.rpartition("/")
        with self._lock:
            if entry.is_directory:
                self._listed[key] = {}
            if parent in self._listed:
                self._listed[parent][name] = entry

    def note_removed(self, key: str) -> None:
        """Know that this process removed a file."""
        parent, _, name = key.rpartition("/")
        with self._lock:
            self._listed.get(parent, {}).pop(name, None)

    def known_below(self, directory: str) -> dict[str, StoredEntry]:
        """Return the files below a directory that were listed or noted, by key."""
        below = f"{directory}/" if directory else ""
        with self._lock:
            return {
                f"{holder}/{name}": entry
                for holder, names in self._listed.items()
                if holder == directory or holder.startswith(below)
                for name, entry in names.items()
                if not entry.is_directory
            }

    def _directory(self, key: str) -> dict[str, StoredEntry]:
        with self._lock:
            self._list_wanted(key)
            if key in self._listed:
                return self._listed[key]
            if key in self._spoilt:
                raise self._spoilt[key]
            parent = key.rpartition("/")[0]
            if parent in self._listed:
                self._siblings[parent] += 1
                if self._siblings[parent] > _SIBLINGS_MAX:
                    self._walk(parent)
            if key not in self._listed:
                try:
                    self._listed[key] = {entry.name: entry for entry in self.store.list(key)}
                except ImpossibleName as error:
                    self._spoilt[key] = error
                    raise
            found = self._listed[key]
            if not found:
                del self._listed[key]
                raise not_there(f"{self._place}/{key}")
            return found

    def _list_wanted(self, key: str) -> None:
        """List all of the directory that was wanted whole and has a key in it, if there is one."""
        for directory in self._wanted:
            if (key == directory or key.startswith(f"{directory}/")) and directory not in self._listed:
                if self.store.has_empty_directories:
                    self._listed[directory] = {entry.name: entry for entry in self.store.list(directory)}
                self._walk(directory)

    def _walk(self, parent: str) -> None:
        """List all below a directory; where a directory can be empty, the names in this one are known already."""
        below: defaultdict[str, dict[str, StoredEntry]] = defaultdict(dict)
        try:
            for holder, entry in self.store.walk(parent):
                below[holder][entry.name] = entry
                above = holder
                while above != parent:
                    above, _, name = above.rpartition("/")
                    below[above].setdefault(name, StoredEntry(name, is_directory=True))
        except ImpossibleName:
            below = self._one_by_one(parent)
        for directory, entries in below.items():
            self._listed.setdefault(directory, entries)

    def _one_by_one(self, parent: str) -> defaultdict[str, dict[str, StoredEntry]]:
        """List a directory and those below it each by itself, and note those that an impossible name spoils."""
        found: defaultdict[str, dict[str, StoredEntry]] = defaultdict(dict)
        waiting = [parent]
        while waiting:
            directory = waiting.pop()
            try:
                found[directory] = {entry.name: entry for entry in self.store.list(directory)}
            except ImpossibleName as error:
                self._spoilt[directory] = error
                continue
            above = f"{directory}/" if directory else ""
            waiting += [f"{above}{entry.name}" for entry in found[directory].values() if entry.is_directory]
        return found


@cache
def catalogue_of(place: str) -> Catalogue:
    """Return the catalogue of a store, by the URL of the store."""
    return Catalogue(place)
