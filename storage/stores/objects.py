"""Buckets of S3, Google and Azure, by obstore: it retries, with jitter, and goes on with a body that was cut off."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from storage.errors import LogCleanerError
from storage.stores.errors import (
    ClientMissing,
    ExpiredCredentials,
    ForbiddenStore,
    NoSuchBucket,
    ObjectChanged,
    StoreFailed,
    StoreUnreachable,
    not_there,
)
from storage.stores.store import Piece, StoredEntry

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_BAD_NAME: Final = re.compile(r'Path "([^"]*)"')
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})
_BAD_REQUEST: Final = 400
_FORBIDDING: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
_OTHER_VERSION: Final = frozenset({412, 416})
"""No byte is asked for that the listed version does not have."""
_TOO_MANY: Final = 429
_SERVER_ERRORS: Final = 500
_OF_THE_NETWORK: Final = ("HTTP error", "retry_timeout", "after ")
_PROFILE_KEYS: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
_T = TypeVar("_T")


class Retries(NamedTuple):
    """The patience with one request: how often it is tried, and how long."""

    again_max: int = 6
    within: timedelta = timedelta(seconds=60)
    first_pause: timedelta = timedelta(milliseconds=200)
    pause_max: timedelta = timedelta(seconds=10)
    connect_timeout: timedelta = timedelta(seconds=5)
    read_timeout: timedelta = timedelta(seconds=20)


RETRIES: Final = Retries()
_GIVEN_UP_SECONDS: Final = 30
"""For so long nothing is asked of a store that did not answer: a thousand partitions do not wait for it one by one."""


class Bucket:
    """A bucket, as a ``Store``."""

    def __init__(self, place: str, config: Mapping[str, Any]) -> None:
        """Prepare to read; nothing is asked of the bucket yet.

        Args:
            place: its URL.
            config: obstore's configuration of such a bucket, over what the environment says.

        Raises: ClientMissing, StoreFailed.
        """
        try:
            import obstore  # noqa: PLC0415 - an extra, and for URLs alone
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError as error:
            raise ClientMissing(place, "obstore") from error
        self._obstore, self._place, tries = obstore, place, RETRIES
        self._given_up: tuple[float, str] | None = None
        """When a request was given up, and what the store or the network said to it."""
        given = {**(profile() if place.startswith("s3:") else {}), **config}
        try:
            self._store: ObjectStore = from_url(  # type: ignore[call-overload] # one for each kind of store
                place,
                config=given,
                client_options={
                    "allow_http": True,  # whether it is used, the endpoint says
                    "connect_timeout": tries.connect_timeout,
                    "read_timeout": tries.read_timeout,
                    "timeout": timedelta(minutes=5),
                },
                retry_config={
                    "max_retries": tries.again_max,
                    "retry_timeout": tries.within,
                    "backoff": {"init_backoff": tries.first_pause, "max_backoff": tries.pause_max, "base": 2},
                },
            )
        except Exception as error:  # it has no root of its own for what is wrong with a configuration
            raise StoreFailed(place, _first_line(error)) from error

    def list(self, directory: str) -> list[StoredEntry]:
        """Return the names in a directory. Raises: as ``Store``."""
        found = self._asked(directory, lambda: self._obstore.list_with_delimiter(self._store, directory or None))
        below = {prefix.rpartition("/")[2] for prefix in found["common_prefixes"]}
        files = (_entry(meta) for meta in found["objects"] if meta["path"] != directory)
        return [
            *(StoredEntry(name, is_directory=True) for name in sorted(below)),
            *(entry for entry in files if entry.name not in below),
        ]

    def walk(self, directory: str) -> Iterator[tuple[str, StoredEntry]]:
        """Yield every file below a directory, each with the directory that holds it. Raises: as ``Store``."""
        pages = iter(self._obstore.list(self._store, directory or None, chunk_size=1000))
        while (page := self._asked(directory, lambda: next(pages, None))) is not None:
            for meta in page:
                if meta["path"] != directory:
                    yield meta["path"].rpartition("/")[0], _entry(meta)

    def look(self, name: str) -> StoredEntry:
        """Return the entry of a file. Raises: as ``Store``."""
        return _entry(self._asked(name, lambda: self._obstore.head(self._store, name)))

    def range(self, name: str, start: int, end: int, version: str | None) -> Piece:
        """Read ``[start, end)`` of a file. Arguments and errors as of ``Store.range``."""
        piece = self._read(name, {"range": (start, end)}, version)
        if len(piece.data) != min(end, piece.file_bytes) - start:
            raise StoreFailed(self._url(name), f"{len(piece.data)} bytes came instead of {end - start}")
        return piece

    def whole(self, name: str, version: str | None) -> Piece:
        """Read a whole file. Arguments and errors as of ``range``."""
        piece = self._read(name, {}, version)
        if len(piece.data) != piece.file_bytes:
            raise StoreFailed(self._url(name), f"{len(piece.data)} bytes came instead of {piece.file_bytes}")
        return piece

    def _read(self, name: str, options: GetOptions, version: str | None) -> Piece:
        if version:
            options["if_match"] = version

        def read() -> tuple[GetResult, memoryview]:
            result = self._obstore.get(self._store, name, options=options)
            return result, memoryview(result.bytes())

        result, data = self._asked(name, read)
        found = _version(result.meta)
        if version and found != version:  # a store that does not know the condition
            raise ObjectChanged(self._url(name))
        return Piece(data, found, result.meta["size"])

    def _url(self, name: str) -> str:
        return f"{self._place}/{name}"

    def _asked(self, name: str, ask: Callable[[], _T]) -> _T:
        if self._given_up and monotonic() - self._given_up[0] < _GIVEN_UP_SECONDS:
            raise StoreUnreachable(self._url(name), self._given_up[1])
        try:
            return ask()
        except FileNotFoundError as error:
            raise self._told(name, error, _NOT_FOUND) from error
        except (self._obstore.exceptions.BaseError, ValueError, OSError) as error:
            found = self._told(name, error, _status_in(error))
            if isinstance(found, StoreUnreachable):
                self._given_up = monotonic(), found.cause
            raise found from error

    def _told(self, name: str, error: Exception, status: int | None) -> LogCleanerError | OSError:
        """Return the error of ours for an error of obstore's."""
        url, found = self._url(name), _CODE.search(str(error))
        code = found[1] if found else ""
        if code in _EXPIRED:
            return ExpiredCredentials(url, code)
        if code in _NO_BUCKET:
            return NoSuchBucket(self._place)
        if status == _NOT_FOUND:
            return not_there(url)
        if status in _OTHER_VERSION:
            return ObjectChanged(url)
        if status in _FORBIDDING:
            return ForbiddenStore(url, f"{status} {code}".strip())
        return _failed(url, error, status, code)


def _failed(url: str, error: Exception, status: int | None, code: str) -> LogCleanerError:
    text, answer = str(error), f"{status} {code}".strip()
    if status == _TOO_MANY or (status or 0) >= _SERVER_ERRORS:
        return StoreUnreachable(url, f"the store answers {answer}")
    if status is None and any(sign in text for sign in _OF_THE_NETWORK):
        return StoreUnreachable(url, _cause_in(text))
    if bad := _BAD_NAME.search(text):
        return StoreFailed(url, f"the name {bad[1]!r} below it has an empty part, '.' or '..'; move it elsewhere")
    if status == _BAD_REQUEST:
        return StoreFailed(url, f"the store answers {answer}; perhaps the credentials are wrong or have expired")
    return StoreFailed(url, f"the store answers {answer}" if status else _first_line(error))


def _entry(meta: ObjectMeta) -> StoredEntry:
    changed = meta["last_modified"]
    mtime_ns = int(changed.timestamp()) * 1_000_000_000 + changed.microsecond * 1000
    return StoredEntry(meta["path"].rpartition("/")[2], meta["size"], _version(meta), mtime_ns)


def _version(meta: ObjectMeta) -> str:
    """Return the ETag. Where a store has none, the time and the size of a version have to tell it from others."""
    return meta["e_tag"] or f"{meta['last_modified'].isoformat()} {meta['size']}"


def _status_in(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removesuffix(".")


def _cause_in(text: str) -> str:
    """Return what obstore says of the network, without the request that it repeats."""
    return text.strip().splitlines()[0].rpartition(" - ")[2].removesuffix(".").removeprefix("HTTP error: ")


def profile() -> dict[str, str]:
    """Return the credentials of a profile, if the environment has none: obstore reads no such file.

    Source: the files ``credentials`` and ``config`` of the AWS tools.
    """
    if "AWS_ACCESS_KEY_ID" in os.environ or "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ:
        return {}
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path("~/.aws")
    found: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", home / "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", home / "credentials", name),
    ):
        parser = ConfigParser(interpolation=None)
        parser.read(Path(os.environ.get(variable) or file).expanduser())
        if parser.has_section(section):
            found |= {
                ours: parser[section][theirs] for theirs, ours in _PROFILE_KEYS.items() if theirs in parser[section]
            }
    return found
