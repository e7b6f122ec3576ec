"""The command ``completion``: it prints the script that teaches a shell to complete ``logcleaner``.

The script knows commands, options and configuration keys. At a topic or a partition it asks logcleaner itself, by
``--offer``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

HELP = "print a shell's completion script"
_SHELLS: Final = ("bash", "zsh", "fish", "tcsh")
_PATHS: Final = {"DIR", "FILE"}
_NAMES: Final = {
    "GLOB": "topics",
    "TOPIC": "topics",
    "TOPIC-PARTITION": "partitions",
    "TOPIC-PARTITION|DIR": "partitions",
}
"""Metavar -> what logcleaner is asked for; as in ``offering``."""
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
"""No space follows the ``=`` of a key, for its value follows; only the outermost function may say so."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``completion``."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that will read the script")
    group = parser.add_argument_group("used by the scripts")
    group.add_argument(
        "--offer",
        choices=("topics", "partitions"),
        help="print the names that the log dirs on the line COMMAND_LINE have, and no script",
    )
    group.add_argument("--word", default="", metavar="TEXT", help="offer only names that begin so")


def run(args: argparse.Namespace) -> int:
    """Print the script; with ``--offer``, the names of which one may stand at the cursor."""
    if args.offer:
        from cleaner.cli.setup.offering import LINE, offer

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
    """Yield every option and operand, also the options and operands of the commands."""
    for action in parser._actions:  # argparse offers no public list
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
