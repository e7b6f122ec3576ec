"""The search for log dirs that cannot be served now. A disk that died, or is not mounted, must not stop the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from storage.errors import InvalidConfig, UnreadableFile
from storage.names import parse_segment_file_name, parse_topic_partition

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers
    from storage.log_dir import LogDirNotThere

Missing: TypeAlias = "LogDirNotThere | UnreadableFile"


def find_missing(loaded: LoadedLayers, named: Sequence[Path]) -> list[Missing]:
    """Return an error for each configured log dir that is missing now and that a later try may find.

    Args:
        loaded: the configuration.
        named: log dirs that the command line names; each of them must be there, because a missing one may be a typo.

    Raises:
        NotALogDir: a path can never be a log dir.
        LogDirNotThere, UnreadableFile: the first missing log dir, if it is named, or if none can be served.
        InvalidConfig: ``--log-dir`` took what was meant as an operand.
    """
    from storage.log_dir import LogDir, LogDirNotThere

    missing: list[Missing] = []
    for path in loaded.log_dirs:
        try:
            LogDir.open(path)
        except (LogDirNotThere, UnreadableFile) as error:
            missing.append(error)
    for one in missing:
        if one.path in named and isinstance(one, LogDirNotThere) and _is_operand(one.path):
            reason = "is read as a directory; a TOPIC-PARTITION or a SEGMENT goes before the options"
            raise InvalidConfig("--log-dir", str(one.path), reason) from one
    if missing and (named or len(missing) == len(loaded.log_dirs)):
        raise _all_named(missing)
    return missing


def _is_operand(path: Path) -> bool:
    """Return whether a path that is not there is the name of a partition or of a segment."""
    text = str(path)
    names_one = parse_topic_partition(text) or parse_segment_file_name(text) or (text.isascii() and text.isdigit())
    return bool(names_one) and not path.exists()


def _all_named(missing: Sequence[Missing]) -> Missing:
    """Return what is wrong with the first one, with the others beside it."""
    from storage.log_dir import LogDirNotThere

    first, *others = missing
    if not others or type(first) is not LogDirNotThere:
        return first
    return LogDirNotThere(first.path, f"{first.cause}, nor can {', '.join(str(e.path) for e in others)} be served")


def check_metadata(loaded: LoadedLayers, missing: Iterable[Missing], without: Iterable[Path] = ()) -> None:
    """Refuse to go on if a missing log dir may hold the cluster metadata, which state what the topics keep.

    Args:
        loaded: the configuration, as far as it could be read.
        missing: the result of ``find_missing``.
        without: log dirs that held no cluster metadata when they were last there.

    Raises: LogDirNotThere.
    """
    from storage.log_dir import LogDirNotThere

    if loaded.cluster or not loaded.settings.cluster_metadata:
        return
    known = {path.absolute() for path in without}
    for error in missing:
        if error.path.absolute() not in known:
            cause = f"{error.cause}, and the cluster metadata may lie in it (if not, say cluster.metadata = false)"
            raise LogDirNotThere(error.path, cause) from error


def without_missing(loaded: LoadedLayers, named: Sequence[Path]) -> tuple[LoadedLayers, list[Missing]]:
    """Return the configuration for the log dirs that are there, and an error for each other log dir.

    Arguments: as for ``find_missing``. Raises: as ``find_missing`` and ``check_metadata``.
    """
    missing = find_missing(loaded, named)
    check_metadata(loaded, missing)
    gone = {error.path for error in missing}
    return loaded._replace(log_dirs=tuple(path for path in loaded.log_dirs if path not in gone)), missing
