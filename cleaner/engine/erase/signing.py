"""Signatures of certificates, by ``ssh-keygen -Y``: no cryptography of our own.

The signature of FILE lies in FILE.sig, in OpenSSH's format, for the namespace ``logcleaner-erasure``.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cleaner.engine.erase.certificate import NoCertificate
from storage.errors import ErrorKind, LogCleanerError

NAMESPACE: Final = "logcleaner-erasure"
SIGNATURE_SUFFIX: Final = ".sig"
_PROGRAM: Final = "ssh-keygen"
_SECONDS_MAX: Final = 120
"""The longest that a person may take to type a passphrase, or to touch a security key."""


class NoSigner(LogCleanerError):
    """``ssh-keygen`` is missing, or the key cannot be read: nothing was done."""

    kind = ErrorKind.USAGE

    what: str
    cause: str

    def __str__(self) -> str:
        return f"{self.what}: {self.cause}"


class NotSigned(LogCleanerError):
    """``ssh-keygen`` did not sign."""

    path: Path
    key: Path
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path}: is not signed ({self.cause}); sign it with ssh-keygen -Y sign -n {NAMESPACE} -f {self.key} "
            f"{self.path}"
        )


class WrongSignature(LogCleanerError):
    """A certificate whose signature does not hold, or that has none."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; trust nothing that the certificate says"


def check_signer(key: Path | None) -> None:
    """Refuse a key that cannot sign, before anything is done. None: only the program is needed. Raises: NoSigner."""
    if shutil.which(_PROGRAM) is None:
        raise NoSigner(_PROGRAM, "is not installed; it comes with OpenSSH 8.1 or later")
    if key is not None:
        try:
            key.open("rb").close()
        except OSError as error:
            raise NoSigner(str(key), f"cannot be read: {error.strerror}") from error


def sign(data: bytes, path: Path, key: Path) -> bytes:
    """Return the signature of a certificate.

    Args:
        data: of the certificate.
        path: where it lies, or will lie.
        key: a private key, or a public one whose private key an agent has.

    Raises: NotSigned.
    """
    status, out, said = _run(["sign", "-n", NAMESPACE, "-f", str(key)], data)
    if status:
        raise NotSigned(path, key, said)
    return out


def signer_of(path: Path, allowed_signers: Path | None) -> str | None:
    """Check the signature beside a certificate, and return who signed it.

    Args:
        path: of the certificate.
        allowed_signers: who may sign, as ``ssh-keygen(1)`` describes that file. With it, a signature must be there.

    Returns: None if nothing says who signed it. Raises: NoCertificate, WrongSignature, NoSigner.
    """
    if not path.exists():
        raise NoCertificate(path)
    signature = path.with_name(path.name + SIGNATURE_SUFFIX)
    if not signature.exists():
        if allowed_signers is not None:
            raise WrongSignature(path, f"has no signature {signature.name} beside it")
        return None
    check_signer(allowed_signers)
    named = ["-s", str(signature)]
    if allowed_signers is None:
        _verified(path, ["check-novalidate", "-n", NAMESPACE, *named])
        return None
    allowed = ["-f", str(allowed_signers)]
    status, out, said = _run(["find-principals", *named, *allowed], b"")
    signers = out.decode(errors="replace").splitlines()
    if status or not signers:
        raise WrongSignature(path, f"is signed by nobody whom {allowed_signers} allows ({said})")
    _verified(path, ["verify", "-n", NAMESPACE, "-I", signers[0], *named, *allowed])
    return signers[0]


def _verified(path: Path, words: Sequence[str]) -> None:
    status, _, said = _run(words, path.read_bytes())
    if status:
        raise WrongSignature(path, f"has a wrong signature ({said})")


def _run(words: Sequence[str], data: bytes) -> tuple[int, bytes, str]:
    """Run ``ssh-keygen -Y``. Return its status, what it wrote, and the last line that it said."""
    try:
        done = subprocess.run(  # noqa: S603 - OpenSSH, as the user has it
            [_PROGRAM, "-Y", *words], input=data, capture_output=True, timeout=_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return 1, b"", str(error)
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return done.returncode, done.stdout, said[-1] if said else f"status {done.returncode}"
