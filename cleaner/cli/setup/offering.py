"""The names that a shell offers while a command is typed: topics and partitions of the log dirs that are on the line.

A shell asks at each TAB. So this module loads little, reads only names and small files, and gives up in silence: after
a second, and whatever goes wrong.
"""

from __future__ import annotations

import os
import shlex
import signal
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.names import TopicPartition

TOPICS: Final = "topics"
PARTITIONS: Final = "partitions"
LINE: Final = "COMMAND_LINE"
"""The variable that holds the command line; tcsh sets it by itself."""
_SECONDS_MAX: Final = 1.0
_LOG_DIR: Final = "--log-dir"
_FILES: Final = ("--config", "--server-properties")
_KEYS: Final = ("log.dirs", "log.dir")


def offer(kind: str, word: str, line: str) -> list[str]:
    """Return the names that may stand in place of a word; none if anything goes wrong.

    Args:
        kind: TOPICS or PARTITIONS.
        word: the word as far as it is typed. Where topics are wanted, and it is the whole name of one, the names of its
            partitions may follow, too.
        line: the command line, which names the log dirs, or the files that name them.
    """
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS_MAX)
    names: list[str] = []
    with suppress(Exception):  # whatever it is, a shell that completes a word is no place to tell it
        names = _names(kind, word, set(_partitions(log_dirs_on(line))))
    signal.setitimer(signal.ITIMER_REAL, 0)
    return names


def log_dirs_on(line: str) -> list[Path]:
    """Return the log dirs that a command line names, else those that its configuration files name."""
    options = dict.fromkeys((_LOG_DIR, *_FILES), ()) | _options(_words(line))
    if options[_LOG_DIR]:
        return list(map(_path, options[_LOG_DIR]))
    config, properties = (_path(values[-1]) if values else None for values in map(options.__getitem__, _FILES))
    found = _dirs_in_config(config) if config else []
    if properties is not None:
        found = found or _dirs_in_properties(properties)
    return [_path(name) for name in found]


def _give_up(_signal: int, _frame: object) -> None:
    os._exit(0)


def _names(kind: str, word: str, found: Iterable[TopicPartition]) -> list[str]:
    partitions = [str(one) for one in sorted(found) if kind == PARTITIONS or word.startswith(one.topic)]
    topics = [one.topic for one in sorted(found)] if kind == TOPICS else []
    return [name for name in dict.fromkeys([*topics, *partitions]) if name.startswith(word)]


def _partitions(log_dirs: Iterable[Path]) -> Iterator[TopicPartition]:
    from storage.log_dir import LogDir

    for path in log_dirs:
        with suppress(Exception):  # another log dir may still be readable
            yield from (found for found, _ in LogDir(path).partitions())


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote that is not closed yet
        return line.replace('"', " ").replace("'", " ").split()


def _options(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return each option with its values: the next word; of the log dirs, all words up to the next option."""
    options: dict[str, tuple[str, ...]] = {}
    option = ""
    for word in words:
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            options[option] = (*options.get(option, ()), *([value] if equals else []))
        elif option:
            options[option] += (word,)
            option = option if option == _LOG_DIR else ""
    return options


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _dirs_in_config(path: Path) -> list[str]:
    from cleaner.config.toml_lines import leaves

    if not path.is_file():  # a completion takes nothing out of a pipe
        return []
    values = {".".join(keys): value for keys, value in leaves(tomllib.loads(path.read_text("utf-8")))}
    stated = next((values[key] for key in _KEYS if key in values), None)
    if isinstance(stated, str):
        return _split(stated)
    if isinstance(stated, list):
        return [name for name in stated if isinstance(name, str)]
    named = values.get("server.properties")
    return _dirs_in_properties(path.parent / named) if isinstance(named, str) else []


def _dirs_in_properties(path: Path) -> list[str]:
    from storage.properties import read_properties

    found = read_properties(path) if path.is_file() else {}
    return _split(next((found[key].value for key in _KEYS if key in found), ""))


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]
