"""The command ``completion``: it prints the script that teaches a shell to complete ``logcleaner``.

The script knows commands, options and configuration keys. At a topic or a partition it asks logcleaner itself, by
``--offer``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from storage.names import TopicPartition

HELP = "print a shell's completion script"
_SHELLS: Final = ("bash", "zsh", "fish", "tcsh")
_PATHS: Final = {"DIR", "FILE"}
_NAMES: Final = {
    "GLOB": "topics",
    "TOPIC": "topics",
    "TOPIC-PARTITION": "partitions",
    "TOPIC-PARTITION|DIR": "partitions",
}
"""Metavar -> the kind of names that ``--offer`` asks for."""
_KEY: Final = "KEY"
_SETTING: Final = "KEY="
_FUNCTIONS: Final = {
    "bash": """
_logcleaner_offer() {
  local program="${COMP_WORDS[0]/#\\~/$HOME}"
  compgen -W "$(COMMAND_LINE="$COMP_LINE" "$program" completion bash --offer "$1" --word="$2" 2>/dev/null)" -- "$2"
}
_logcleaner_topics() { _logcleaner_offer topics "$1"; }
_logcleaner_partitions() { _logcleaner_offer partitions "$1"; }
_logcleaner_keys() { compgen -W "KEYS" -- "$1"; }
_logcleaner_settings() { compgen -S = -W "KEYS" -- "$1"; }
""",
    "zsh": """
_logcleaner_offer() {
  local kind=$1 program=${(Q)${BUFFER%% *}/#\\~/$HOME}
  local -a offered
  offered=(${(f)"$(COMMAND_LINE=$BUFFER $program completion zsh --offer $kind --word=$PREFIX 2>/dev/null)"})
  shift
  compadd "$@" -a offered
}
_logcleaner_topics() { _logcleaner_offer topics "$@" }
_logcleaner_partitions() { _logcleaner_offer partitions "$@" }
_logcleaner_keys() { compadd "$@" -- KEYS }
_logcleaner_settings() { compadd "$@" -S = -- KEYS }
""",
    "fish": """
function _logcleaner_offer
  set -lx COMMAND_LINE (commandline -p)
  logcleaner completion fish --offer $argv[1] --word=(commandline -ct) 2>/dev/null
end
""",
    "tcsh": "",
}
_NO_SPACE: Final = """
_logcleaner() {
  _shtab_logcleaner "$@"
  [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -F _logcleaner logcleaner
"""
"""A wrapper that suppresses the space behind the ``=`` of a key. Only the outermost function can do that."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``completion``."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that will read the script")
    group = parser.add_argument_group("used by the scripts")
    group.add_argument(
        "--offer",
        choices=("topics", "partitions"),
        help="print the names that the log dirs on the line COMMAND_LINE have, and no script",
    )
    group.add_argument("--word", default="", metavar="TEXT", help="offer only names that begin with TEXT")


def run(args: argparse.Namespace) -> int:
    """Print the script; with ``--offer``, the names that may stand at the cursor."""
    if args.offer:
        names = offer(args.offer, args.word, os.environ.get(LINE, ""))
        sys.stdout.write("".join(f"{name}\n" for name in names))
        return 0
    import shtab

    keys = _keys()
    for action in _actions(args.parser):
        if completer := _completer(action, keys):
            action.complete = completer  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(args.parser, args.shell) + "\n")
    if args.shell == "bash":
        sys.stdout.write(_NO_SPACE)
    return 0


def _completer(action: argparse.Action, keys: list[str]) -> Any:
    """Return shtab's description of an option's values, by the option's metavar; None if there is no description."""
    import shtab

    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar in _PATHS:
        return shtab.DIRECTORY if metavar == "DIR" else shtab.FILE
    if metavar in _NAMES:
        return _asking(_NAMES[metavar], keys)
    if metavar == _KEY or metavar.startswith(_SETTING):
        return _listing(keys, with_value=metavar != _KEY)
    return None


def _asking(kind: str, keys: list[str]) -> dict[str, Any]:
    return {
        "bash": f"_logcleaner_{kind}",
        "zsh": f"_logcleaner_{kind}",
        "fish": f"(_logcleaner_offer {kind})",
        "tcsh": f"`logcleaner completion tcsh --offer {kind}`",
        "preamble": _functions(keys),
    }


def _listing(keys: list[str], *, with_value: bool) -> dict[str, Any]:
    function = "_logcleaner_settings" if with_value else "_logcleaner_keys"
    words = " ".join(f"{key}=" if with_value else key for key in keys)
    return {"bash": function, "zsh": function, "fish": words, "tcsh": f"({words})", "preamble": _functions(keys)}


def _functions(keys: list[str]) -> dict[str, str]:
    return {shell: text.replace("KEYS", " ".join(keys)) for shell, text in _FUNCTIONS.items()}


def _keys() -> list[str]:
    """Return the configuration keys, by every name that ``--set`` takes."""
    from policies.config.config_sources import names_of
    from policies.config.policy import Layer

    return sorted(names_of(Layer.SET))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield every option and operand, those of the commands included."""
    from cleaner.cli.parser import actions_of, commands_of

    yield from actions_of(parser)
    for command in commands_of(parser).values():
        yield from _actions(command)


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
        word: the word as far as it is typed. If topics are wanted and the word is the whole name of a topic, the names
            of its partitions are offered, too.
        line: the command line, which names the log dirs, or the files that name them.
    """
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS_MAX)
    names: list[str] = []
    with suppress(Exception):  # a shell that completes a word is no place for an error message
        names = _names(kind, word, set(_partitions(log_dirs_on(line))))
    signal.setitimer(signal.ITIMER_REAL, 0)
    return names


def log_dirs_on(line: str) -> list[Path]:
    """Return the log dirs that a command line names.

    If it names none, return the log dirs of its configuration files.
    """
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
    from cleaner.config.settings import leaves

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
