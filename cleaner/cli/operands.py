"""Operands that name log dirs, or partitions: by name, or by the path of their directory."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cleaner.cli.parser import nearest

LOG_DIR: Final = "DIR"


class LogDirs(argparse.Action):
    """Takes operands that name log dirs, and adds them to those of ``--log-dir``.

    A word that is no directory is mostly something else: an option without its hyphens, a topic. A path is taken as
    it is, because it may be mounted later.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Add the log dirs. Raises: argparse.ArgumentError for a word that names none."""
        for word in values:
            if os.sep not in word and not os.path.lexists(word):
                raise argparse.ArgumentError(None, f"no such directory: {word}{_meant(parser, word)}")
        _add(namespace, map(Path, values))


class OnePartition(argparse.Action):
    """Takes an operand that names a partition: ``orders-0``, or the path of its directory, whose parent is the log dir.

    With ``nargs="?"``, a log dir may stand instead.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, *, named: Callable[[str], Any], **rest: Any) -> None:
        super().__init__(option_strings, dest, **rest)
        self._named = named
        """Parses the name of a partition. It raises ``ArgumentTypeError``, or returns a text that names no partition.
        """

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Set the partition, or add the log dir. Raises: argparse.ArgumentError for a text that is neither."""
        from storage.names import parse_topic_partition

        if values is None:
            return
        path = Path(values)
        found = parse_topic_partition(path.absolute().name)
        is_named = os.sep not in values and found is not None
        is_to_come = os.sep in values and found is not None and not os.path.lexists(path)  # it may be mounted later
        if is_named or not (path.is_dir() or is_to_come):
            try:
                setattr(namespace, self.dest, self._named(values))
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from error
        elif found is not None and not _is_log_dir(path):
            setattr(namespace, self.dest, found)
            _add(namespace, [path.absolute().parent])
        elif self.nargs == "?":
            _add(namespace, [path])
        else:
            told = f"{values} is a directory, and no partition: say for example orders-3 --log-dir {values}"
            raise argparse.ArgumentError(self, told)


def add_log_dirs_operand(parser: argparse.ArgumentParser) -> None:
    """Have log dirs named without ``--log-dir``, too."""
    parser.add_argument("dirs", nargs="*", action=LogDirs, metavar=LOG_DIR, help="log dirs, as --log-dir names them")


def _add(namespace: argparse.Namespace, paths: Any) -> None:
    known = namespace.log_dir
    namespace.log_dir = [*known, *(path for path in paths if path.absolute() not in {one.absolute() for one in known})]


def _is_log_dir(path: Path) -> bool:
    """Return whether a directory with the name of a partition is a log dir all the same, such as ``demo-1``."""
    from storage.errors import LogCleanerError
    from storage.log_dir import LogDir

    try:
        LogDir.open(path)
    except LogCleanerError:
        return False
    return True


def _meant(parser: argparse.ArgumentParser, word: str) -> str:
    """Return what the user probably meant by a word that names no directory."""
    options = parser._option_string_actions
    if near := nearest(word, (option.lstrip("-") for option in options if option.startswith("--"))):
        return f"; did you mean --{near}?"
    return f"; a topic is named by --topic {word}" if "--topic" in options else ""
