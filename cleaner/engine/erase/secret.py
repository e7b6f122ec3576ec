"""The secret of an erasure request, and the HMACs that stand for its keys in a certificate.

A guessable key stays personal data behind a plain hash, so the certificate has HMAC-SHA256 by a secret in a file of its
own. Whoever has secret and key can find the key in the certificate; whoever lacks the secret cannot.

The file has 64 hexadecimal digits and a line feed. It is made before anything is erased, with mode 0600, and replaces
no file. Erasures of one request on several brokers share it.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.prove_erased.wanted import WantedKey
from cleaner.errors import UnwritableFile, as_unwritable
from storage.errors import ErrorKind, LogCleanerError

SECRET_SUFFIX: Final = ".secret"  # noqa: S105 - a name
_SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(rb"[0-9a-f]{64}\n")
_MODE: Final = 0o600
_REQUEST: Final = b"\0logcleaner erasure request"
"""No key on a command line or in a file of keys begins with a zero byte."""


class UnusableSecret(LogCleanerError):
    """A file that cannot serve as the secret of an erasure request."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; {self.remedy}"


class Secret(NamedTuple):
    """The secret of one erasure request."""

    key: bytes

    @property
    def request(self) -> str:
        """The id of the request: the same on every broker that has the secret."""
        return hmac.new(self.key, _REQUEST, sha256).hexdigest()[:32]

    def hmacs_of(self, keys: tuple[WantedKey, ...]) -> list[str]:
        """Return the HMAC-SHA256 of each key as it was given, in UTF-8; sorted, so that their order tells nothing."""
        given = (key.given.encode("utf-8", "surrogateescape") for key in keys)
        return sorted(hmac.new(self.key, one, sha256).hexdigest() for one in given)


def secret_for(certificate: Path, given: Path | None) -> tuple[Secret, Path | None]:
    """Return the secret for a certificate: of a file that the user names, else of the file beside the certificate.

    If the latter is there, an earlier run ended between secret and certificate. If not, the secret is new; the second
    value is then where ``keep_secret`` keeps it, once the erasure begins.

    Raises: UnusableSecret.
    """
    path = given or certificate.with_name(certificate.name + SECRET_SUFFIX)
    if given is None and not os.path.lexists(path):
        return Secret(secrets.token_bytes(_SECRET_BYTES)), path
    return read_secret(path), None


def read_secret(path: Path) -> Secret:
    """Read a secret that nobody else may read. Raises: UnusableSecret."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            mode, data = os.fstat(descriptor).st_mode, os.read(descriptor, 4 * _SECRET_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        remedy = "name the FILE.secret of this request's first certificate"
        raise UnusableSecret(path, f"cannot be read: {error.strerror}", remedy) from error
    if not stat.S_ISREG(mode) or not _SECRET.fullmatch(data):
        raise UnusableSecret(path, "holds no secret of an erasure request", "name another file, or remove it")
    if stat.S_IMODE(mode) & ~_MODE:
        raise UnusableSecret(path, "other users may read it", f"chmod 600 {path}")
    return Secret(bytes.fromhex(data.decode().strip()))


def keep_secret(secret: Secret, path: Path) -> None:
    """Write a new secret to its file, durably. Raises: UnusableSecret, UnwritableFile."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    except FileExistsError as error:
        raise UnusableSecret(path, "another run made this file meanwhile", "run again once that run ended") from error
    except OSError as error:
        raise UnwritableFile(path, error.strerror or str(error)) from error
    with as_unwritable(path), os.fdopen(descriptor, "wb") as file:
        file.write(b"%s\n" % secret.key.hex().encode())
        file.flush()
        os.fsync(descriptor)
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
