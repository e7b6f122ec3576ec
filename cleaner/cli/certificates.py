"""The certificate of an erasure on the command line: written, held against files, laid beside others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.cli.record_keys import OPERAND
from cleaner.cli.showing import show
from cleaner.journald import Level
from storage.errors import InvalidConfig, LogCleanerError

if TYPE_CHECKING:
    from cleaner.documents.erasing import ErasureCertificateDocument
    from cleaner.engine.erase.secret import Secret

_OF_A_DEED: Final = ("certificate", "secret", "sign", "topic", "key", "keys", "tombstones", "dry_run", "output")


def add_certificate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options about certificates."""
    group = parser.add_argument_group("certificate")
    group.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="write a certificate: JSON, schema logcleaner.erasure_certificate/1; its secret goes to FILE.secret",
    )
    group.add_argument(
        "--secret", type=Path, metavar="FILE", help="take the secret of this request's first certificate"
    )
    group.add_argument(
        "--sign", type=Path, metavar="KEYFILE", help="sign the certificate with ssh-keygen -Y sign, into FILE.sig"
    )
    group.add_argument(
        "--check", type=Path, metavar="CERTIFICATE", help="hold the files against a certificate, and change nothing"
    )
    group.add_argument(
        "--pending",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="CERTIFICATE",
        help="lay the certificates of all brokers side by side: which replicas are still owed",
    )
    group.add_argument(
        "--allowed-signers",
        type=Path,
        metavar="FILE",
        help="with --check and --pending: refuse certificates that none of these signed (ssh-keygen(1))",
    )


def check_certificate_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not fit. Raises: InvalidConfig."""
    if args.check or args.pending:
        option = "--check" if args.check else "--pending"
        if args.check and args.pending:
            raise InvalidConfig("--check", str(args.check), "does not go with --pending")
        for name in _OF_A_DEED:
            if getattr(args, name):
                given = OPERAND if name == "key" else f"--{name.replace('_', '-')}"
                raise InvalidConfig(option, None, f"erases nothing, so it does not go with {given}")
        return
    for option, given in (("--secret", args.secret), ("--sign", args.sign)):
        if given and not args.certificate:
            raise InvalidConfig(option, str(given), "needs --certificate FILE")
    if args.allowed_signers:
        raise InvalidConfig("--allowed-signers", str(args.allowed_signers), "needs --check or --pending")
    if args.certificate and args.dry_run:
        raise InvalidConfig("--certificate", str(args.certificate), "does not go with --dry-run: nothing is erased")


class Prepared(NamedTuple):
    """A certificate that can be written once the erasure is done."""

    path: Path
    secret: Secret
    secret_path: Path | None
    """Where a new secret is to be kept; None if it has its file."""
    key: Path | None
    """Signs it."""
    log_dirs: tuple[Path, ...]
    """No file is written in these."""

    @classmethod
    def of(cls, args: argparse.Namespace, log_dirs: tuple[Path, ...]) -> Prepared | None:
        """Check that the certificate can be written and signed, and read or draw its secret. No file is made.

        Returns: None if nobody asked for one. Raises: UnusableOutput, UnusableSecret, NoSigner.
        """
        if args.certificate is None:
            return None
        from cleaner.engine.erase.secret import secret_for
        from cleaner.engine.erase.signing import check_signer
        from cleaner.export.transfer import check_new_file

        for log_dir in log_dirs:
            check_new_file(args.certificate, log_dir)
        if args.sign:
            check_signer(args.sign)
        return cls(args.certificate, *secret_for(args.certificate, args.secret), args.sign, log_dirs)

    def keep_secret(self) -> None:
        """Keep a new secret in its file, before anything is erased. Raises: UnusableSecret, UnwritableFile."""
        from cleaner.engine.erase.secret import keep_secret

        if self.secret_path is not None:
            keep_secret(self.secret, self.secret_path)

    def write(self, certificate: ErasureCertificateDocument) -> int:
        """Write the certificate whole, its signature before it. Return the exit status: 1 if it could not be signed.

        Raises: UnusableOutput, UnwritableFile.
        """
        from cleaner.engine.erase.certificate import encoded
        from cleaner.engine.erase.signing import SIGNATURE_SUFFIX, NotSigned, sign
        from cleaner.errors import as_unwritable
        from cleaner.export.transfer import new_file
        from cleaner.replacing import replace_file

        data, status = encoded(certificate), ExitStatus.DONE
        if self.key is not None:
            beside = self.path.with_name(self.path.name + SIGNATURE_SUFFIX)
            try:
                signature = sign(data, self.path, self.key)
                with as_unwritable(beside):
                    replace_file(beside, signature)
            except NotSigned as error:
                complain(str(error), Level.ERROR)
                status = ExitStatus.FAILED
        with new_file(self.path, self.log_dirs[0]) as file:
            file.write(data)
        return status


def check_certificate(args: argparse.Namespace) -> int:
    """Hold the files against a certificate, and show what became of them."""
    from storage.kernels import check_usable

    check_usable()
    from cleaner.engine.erase.checking import check
    from cleaner.engine.erase.signing import WrongSignature, signer_of
    from cleaner.report.certificates import CheckReport

    try:
        signed_by = signer_of(args.check, args.allowed_signers)
    except WrongSignature as error:
        complain(str(error), Level.ERROR)
        return ExitStatus.DAMAGED
    checked = check(args.check, args.log_dir)
    show(CheckReport(checked, signed_by), as_json=args.json, every_segment=args.verbose > 0)
    return ExitStatus.DAMAGED if checked.is_wrong else ExitStatus.DONE


def show_pending(args: argparse.Namespace) -> int:
    """Lay certificates side by side, and show which replicas are owed."""
    from cleaner.engine.erase.checking import pending
    from cleaner.engine.erase.signing import WrongSignature, signer_of
    from cleaner.report.certificates import PendingReport

    wrong: list[LogCleanerError] = []
    for path in args.pending:
        try:
            signer_of(path, args.allowed_signers)
        except WrongSignature as error:
            wrong.append(error)
    for one in wrong:
        complain(str(one), Level.ERROR)
    if wrong:
        return ExitStatus.DAMAGED
    found = pending(args.pending)
    show(PendingReport(found), as_json=args.json)
    return ExitStatus.WORK_TO_DO if found.is_pending else ExitStatus.DONE
