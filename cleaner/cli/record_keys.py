"""The keys of records that a user names: on the command line, or one a line in a file."""

from __future__ import annotations

import argparse
import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cleaner.cli.exit_status import complain
from storage.errors import InvalidConfig, UnreadableFile

OPERAND: Final = "RECORD-KEY"
_ENCODINGS: Final = ("text", "hex", "base64", "json", "avro-wire", "long")


def add_key_arguments(parser: argparse.ArgumentParser, act: str) -> None:
    """Add the options that name keys. ``act``: the verb for what is done with them."""
    parser.add_argument("key", nargs="*", metavar=OPERAND, help=f"a key to {act}; -- before one that begins with -")
    parser.add_argument(
        "--keys",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help=f"{act} the keys in this file, too, one a line; - is stdin; may be repeated",
    )
    parser.add_argument(
        "--encoding", choices=_ENCODINGS, default=_ENCODINGS[0], help="how the keys are written; by default as text"
    )


def given_keys(args: argparse.Namespace) -> Sequence[str]:
    """Return the keys as they were written. Raises: InvalidConfig if there is none, or the file cannot be read."""
    given = list(args.key)
    for path in args.keys:
        try:
            data = args.inputs.read(path, "--keys")
        except UnreadableFile as error:
            raise InvalidConfig("--keys", str(path), f"cannot be read: {error.cause}") from error
        lines = _utf8(data, path).decode("utf-8", "surrogateescape").split("\n")
        given += [line for one in lines if (line := one.removesuffix("\r"))]
    if not given:
        raise InvalidConfig(OPERAND, None, "no key is named; name one, or a file of keys with --keys FILE")
    for key in given:
        if key != key.strip():
            complain(f"the key {key!r} has blanks at an end: it is taken with them")
    return given


def _utf8(data: bytes, path: Path) -> bytes:
    """Return the bytes of a text without the mark at its beginning that some editors write. Raises: InvalidConfig."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data:
        reason = "is UTF-16, or no text: none of its keys would be found; write it as UTF-8"
        raise InvalidConfig("--keys", str(path), f"{reason}, and keys with zero bytes by --encoding hex")
    return data.removeprefix(codecs.BOM_UTF8)
