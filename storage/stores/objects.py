"""Buckets of S3, Google and Azure, by obstore: it retries, with jitter, and goes on with a body that was cut off."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar

from storage.errors import InvalidConfig, LogCleanerError
from storage.stores.asking import answer_to
from storage.stores.errors import (
    ClientMissing,
    ExpiredCredentials,
    ForbiddenStore,
    ImpossibleName,
    NoSuchBucket,
    ObjectChanged,
    StoreFailed,
    StoreFull,
    StoreUnreachable,
    not_there,
)
from storage.stores.store import Piece, StoredEntry, Upload

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta, WritableFile
    from obstore.store import ObjectStore

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_IMPOSSIBLE: Final = {
    "empty path segment": "an empty part",
    'sequence ".."': "the part '..'",
    'sequence "."': "the part '.'",
}
"""What the client says of a name that it takes for none -> what is wrong with the name."""
_BAD_NAME: Final = re.compile(r'Path "([^"]*)"')
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})
_BAD_CREDENTIALS: Final = frozenset({400, 404})
"""May mean that a store does not know the credentials, and says so by a code of its own."""
_FORBIDDING: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
_NO_NAME: Final = frozenset({"", "NoSuchKey"})
"""The codes of a 404 that say that a name is not there. Other codes tell of something else, such as an unknown user."""
_OTHER_VERSION: Final = frozenset({412, 416})
"""No byte is asked for that the listed version does not have."""
_TOO_MANY: Final = 429
_SERVER_ERRORS: Final = 500
_UNKNOWN: Final = 501
_NO_ROOM: Final = 507
_FULL: Final = re.compile("Quota|StorageFull|InsufficientStorage|InsufficientCapacity")
PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 4
_OF_THE_NETWORK: Final = ("HTTP error", "retry_timeout", "after ")
_PROFILE_KEYS: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
_NOT_SENT: Final = "error sending request"
_SERVER: Final = re.compile(r"Error performing \w+ (\w+://[^/\s]+)")
_OF_THE_SYSTEM: Final = re.compile(r'\bOs \{[^}]*message: "([^"]+)"')
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
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

    has_empty_directories: ClassVar = False

    def __init__(self, place: str, config: Mapping[str, Any]) -> None:
        """Prepare to read; nothing is asked of the bucket yet.

        Args:
            place: its URL.
            config: obstore's configuration of such a bucket, over what the environment says.

        Raises: ClientMissing, StoreFailed, InvalidConfig.
        """
        try:
            import obstore  # noqa: PLC0415 - an extra, and for URLs alone
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError as error:
            raise ClientMissing(place, "obstore") from error
        self._obstore, self.place, tries = obstore, place, RETRIES
        self.moves_files = not place.startswith("abfs:")  # Azure may answer before its copy is done
        self._given_up: tuple[float, str] | None = None
        """When a request was given up, and what the store or the network said to it."""
        if place.startswith("s3:"):
            _check_endpoints()
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
            raise StoreFailed(place, _first_line(str(error))) from error

    def list(self, directory: str) -> list[StoredEntry]:
        """Return the names in a directory. Raises: as ``Store``."""
        found = self.asked(directory, lambda: self._obstore.list_with_delimiter(self._store, directory or None))
        below = {prefix.rpartition("/")[2] for prefix in found["common_prefixes"]}
        files = (_entry(meta) for meta in found["objects"] if meta["path"] != directory)
        return [
            *(StoredEntry(name, is_directory=True) for name in sorted(below)),
            *(entry for entry in files if entry.name not in below),
        ]

    def walk(self, directory: str) -> Iterator[tuple[str, StoredEntry]]:
        """Yield every file below a directory, each with the directory that holds it. Raises: as ``Store``."""
        pages = iter(self._obstore.list(self._store, directory or None, chunk_size=1000))
        while (page := self.asked(directory, lambda: next(pages, None))) is not None:
            for meta in page:
                if meta["path"] != directory:
                    yield meta["path"].rpartition("/")[0], _entry(meta)

    def look(self, name: str) -> StoredEntry:
        """Return the entry of a file. Raises: as ``Store``."""
        return _entry(self.asked(name, lambda: self._obstore.head(self._store, name)))

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

        result, data = self.asked(name, read)
        found = _version(result.meta)
        if version and found != version:  # a store that does not know the condition
            raise ObjectChanged(self._url(name))
        return Piece(data, found, result.meta["size"])

    def put(self, name: str, data: bytes | bytearray, *, is_new: bool) -> StoredEntry:
        """Write a whole file. Arguments and errors as of ``Store.put``.

        A request whose answer was lost is sent again, and then finds its own file: so what lies there is compared.
        """
        try:
            return self._put(name, data, "create" if is_new else "overwrite")
        except FileExistsError:
            if bytes(self.whole(name, None).data) != data:
                raise
            return self.written(name, len(data))
        except NotImplementedError:  # a store that knows no condition
            return self._put(name, data, "overwrite")

    def _put(self, name: str, data: bytes | bytearray, mode: Literal["create", "overwrite"]) -> StoredEntry:
        errors = self._obstore.exceptions

        def put() -> Any:
            try:
                return self._obstore.put(self._store, name, data, mode=mode, use_multipart=False)
            except errors.AlreadyExistsError as error:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._url(name)) from error
            except errors.BaseError as error:
                if mode == "create" and (isinstance(error, errors.NotSupportedError) or _status_in(error) == _UNKNOWN):
                    raise NotImplementedError from error
                raise

        if not (version := _quoted(self.asked(name, put, is_writing=True)["e_tag"] or "")):
            return self.written(name, len(data))
        return StoredEntry(name.rpartition("/")[2], len(data), version)

    def upload(self, name: str) -> Upload:
        """Begin a multipart upload. Errors as of ``Store.upload``."""
        return _MultipartUpload(self, name)

    def move(self, name: str, target: str, size_bytes: int) -> StoredEntry:
        """Copy a file within the bucket, and remove the first one. Arguments and errors as of ``Store.move``."""
        self.asked(name, lambda: self._obstore.copy(self._store, name, target), is_writing=True)
        moved = self.written(target, size_bytes)
        self.delete(name)
        return moved

    def delete(self, name: str) -> None:
        """Remove a file. Raises: as ``Store``."""
        with suppress(FileNotFoundError):
            self.asked(name, lambda: self._obstore.delete(self._store, name), is_writing=True)

    def open_writer(self, name: str) -> WritableFile:
        """Return what sends a file in parts, at most ``_PARTS_AT_ONCE`` at the same time, and aborts if one fails."""
        return self._obstore.open_writer(self._store, name, buffer_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    def written(self, name: str, size_bytes: int) -> StoredEntry:
        """Return the entry of a file that was written just now. Raises: StoreFailed if it is not what was written."""
        entry = self.look(name)
        if entry.size_bytes != size_bytes:
            cause = f"{entry.size_bytes} bytes lie there behind the writing of {size_bytes}"
            raise StoreFailed(self._url(name), cause, is_writing=True)
        return entry

    def _url(self, name: str) -> str:
        return f"{self.place}/{name}"

    def asked(self, name: str, ask: Callable[[], _T], *, is_writing: bool = False) -> _T:
        """Return what the bucket answers to one request, as often as it is sent. Raises: as ``Store``."""
        if self._given_up and monotonic() - self._given_up[0] < _GIVEN_UP_SECONDS:
            raise StoreUnreachable(self._url(name), self._given_up[1], is_writing)
        try:
            return answer_to(ask, self.place)
        except FileExistsError:
            raise
        except FileNotFoundError as error:
            raise self._told(name, error, _NOT_FOUND, is_writing=is_writing) from error
        except (self._obstore.exceptions.BaseError, ValueError, OSError) as error:
            found = self._told(name, error, _status_in(error), is_writing=is_writing)
            if isinstance(found, StoreUnreachable):
                self._given_up = monotonic(), found.cause
            raise found from error

    def _told(self, name: str, error: Exception, status: int | None, *, is_writing: bool) -> LogCleanerError | OSError:
        """Return the error of ours for an error of obstore's."""
        url, found = self._url(name), _CODE.search(str(error))
        code = found[1] if found else ""
        if code in _NO_BUCKET:
            return NoSuchBucket(self.place)
        if status == _NOT_FOUND and not is_writing and (code in _NO_NAME or isinstance(error, FileNotFoundError)):
            return not_there(url)
        if status in _OTHER_VERSION:
            return ObjectChanged(url)
        return _failed(url, error, status, code, is_writing=is_writing)


class _MultipartUpload:
    """A file that goes to a bucket in parts."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        """Send nothing yet."""
        self._bucket, self._name, self._size_bytes = bucket, name, 0
        self._writer: WritableFile | None = bucket.open_writer(name)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send a part once it is full. Raises: as ``Upload``."""
        writer = self._writer
        assert writer is not None, "written to behind its end"
        part = bytes(data)  # what is handed over is sent later, and the caller may write over its buffer
        self._bucket.asked(self._name, lambda: writer.write(part), is_writing=True)
        self._size_bytes += len(data)

    def finish(self) -> StoredEntry:
        """Complete the upload. Raises: as ``Upload``."""
        assert self._writer is not None, "finished twice"
        self._bucket.asked(self._name, self._writer.close, is_writing=True)
        self._writer = None
        return self._bucket.written(self._name, self._size_bytes)

    def abort(self) -> None:
        """Take away what was sent. Calling it again does nothing."""
        if (writer := self._writer) is not None:
            with suppress(Exception):  # it was aborted when a part failed, or nobody can be reached
                answer_to(lambda: writer.__exit__(InterruptedError, InterruptedError(), None), self._bucket.place)
            self._writer = None


def _failed(url: str, error: Exception, status: int | None, code: str, *, is_writing: bool) -> LogCleanerError:
    text, answer = str(error), f"{status or ''} {code}".strip()
    if code in _EXPIRED:
        return ExpiredCredentials(url, code, is_writing)
    if status in _FORBIDDING:
        return ForbiddenStore(url, answer, is_writing)
    if status == _NO_ROOM or _FULL.search(code):
        return StoreFull(url, answer, is_writing)
    return _failed_otherwise(url, text, status, answer, is_writing=is_writing)


def _failed_otherwise(url: str, text: str, status: int | None, answer: str, *, is_writing: bool) -> LogCleanerError:
    if status == _TOO_MANY or (status or 0) >= _SERVER_ERRORS:
        return StoreUnreachable(url, f"the store answers {answer}", is_writing)
    if status is None and any(sign in text for sign in _OF_THE_NETWORK):
        return StoreUnreachable(url, _cause_in(text), is_writing)
    if bad := _BAD_NAME.search(text):
        what = next((what for sign, what in _IMPOSSIBLE.items() if sign in text), "a character that no file has")
        return ImpossibleName(url, f"the name {bad[1]!r} below it has {what}; move it elsewhere", is_writing)
    if status in _BAD_CREDENTIALS:
        cause = f"the store answers {answer}; perhaps the credentials are wrong or have expired"
        return StoreFailed(url, cause, is_writing)
    return StoreFailed(url, f"the store answers {answer}" if status else _first_line(text), is_writing)


def _entry(meta: ObjectMeta) -> StoredEntry:
    changed = meta["last_modified"]
    mtime_ns = int(changed.timestamp()) * 1_000_000_000 + changed.microsecond * 1000
    return StoredEntry(meta["path"].rpartition("/")[2], meta["size"], _version(meta), mtime_ns)


def _version(meta: ObjectMeta) -> str:
    """Return the ETag. Where a store has none, the time and the size of a version have to tell it from others."""
    return _quoted(meta["e_tag"] or "") or f"{meta['last_modified'].isoformat()} {meta['size']}"


def _quoted(e_tag: str) -> str:
    """Return an ETag as a condition names it. Azure lists it without quotes, and has them in every other answer."""
    return e_tag if not e_tag or e_tag.endswith('"') else f'"{e_tag}"'


def _status_in(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["it does not say why"])[0].removesuffix(".")


def _cause_in(text: str) -> str:
    """Return what obstore says of the network: the server, and the error of the system in its debug text."""
    said = text.strip().splitlines()[0].rpartition(" - ")[2].removesuffix(".").removeprefix("HTTP error: ")
    server, system = _SERVER.search(text), _OF_THE_SYSTEM.search(text)
    cause = "its name has no address" if "dns error" in text else system[1] if system else ""
    return f"{said} to {server[1]}{cause and f': {cause}'}" if server and said == _NOT_SENT else said


def _check_endpoints() -> None:
    """Refuse an address that is no URL, over which obstore panics. Raises: InvalidConfig."""
    for name in _ENDPOINTS:
        if (address := os.environ.get(name)) and not address.startswith(("http://", "https://")):
            raise InvalidConfig(name, address, "needs http:// or https:// before it")


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
