"""Directories whose name Kafka cut, so that it has only the beginning of the topic.

A directory of a deleted partition is ``topic-0.<unique id>-delete``. If that is longer than a file name may be, Kafka
cuts the topic: 213 of 249 characters are left. Source: Kafka LocalLog.logDirNameWithSuffixCappedLength.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from cleaner.engine.inventory import is_named
from storage.names import DirState, PartitionDirName, parse_partition_dir_name

NAME_LENGTH_MAX: Final = 255
"""The length to which Kafka cuts the name of a directory."""
_TOKEN: Final = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
"""A set of characters, or one character, of a glob."""


def may_be_named(directory: str, globs: Sequence[str]) -> bool:
    """Return whether a partition directory may be one of a topic or partition that one of the globs names.

    A name that Kafka may have cut counts if any topic that begins so would be named. Without any glob all are named.
    """
    found = parse_partition_dir_name(directory)
    if found is None or is_named(found.topic_partition, globs):
        return found is not None
    return is_cut(directory, found) and any(matches_beginning(glob, found.topic_partition.topic) for glob in globs)


def is_cut(directory: str, found: PartitionDirName) -> bool:
    """Return whether Kafka may have cut the name of a directory, ``found`` as it was parsed."""
    return found.state is not DirState.LIVE and len(directory) == NAME_LENGTH_MAX


def matches_beginning(glob: str, beginning: str) -> bool:
    """Return whether a glob matches any text that begins so."""
    tokens = _TOKEN.findall(glob)
    places = _with_skipped({0}, tokens)
    for character in beginning:
        stay = {place for place in places if tokens[place : place + 1] == ["*"]}
        taken = {place + 1 for place in places - stay if _takes(tokens, place, character)}
        places = _with_skipped(stay | taken, tokens)
    return bool(places)


def _takes(tokens: Sequence[str], place: int, character: str) -> bool:
    return place < len(tokens) and fnmatchcase(character, tokens[place])


def _with_skipped(places: set[int], tokens: Sequence[str]) -> set[int]:
    """Add the places behind stars, which may stand for nothing."""
    found = set(places)
    for place in sorted(places):
        while place < len(tokens) and tokens[place] == "*":
            place += 1  # noqa: PLW2901 - each of a row of stars
            found.add(place)
    return found
