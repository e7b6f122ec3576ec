"""The command ``systemd``: it prints the units that the wheel carries, or installs them."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path, PurePath

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.parser import did_you_mean
from cleaner.errors import as_unwritable
from storage.errors import InvalidConfig

HELP = "print or install units, sample files, alerts, a dashboard"
_HIDDEN_BY_PROTECT_HOME = ("/home", "/root", "/run/user")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``systemd``."""
    parser.epilog = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    printing = actions.add_parser("print", help="print one file, or all files")
    printing.add_argument(
        "name", nargs="?", metavar="NAME", help="file to print, e.g. logcleaner.service (default: all)"
    )
    installing = actions.add_parser("install", help="write the files; those that /etc already has stay as they are")
    installing.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="root of the file system, to prepare an image or a package",
    )
    installing.add_argument(
        "--prefix",
        type=PurePath,
        default=PurePath("/usr/local"),
        metavar="DIR",
        help="prefix of the units (default: %(default)s)",
    )
    installing.add_argument(
        "--command", type=PurePath, metavar="FILE", help="command that the units call (default: this program)"
    )


def run(args: argparse.Namespace) -> int:
    """Print or install the files."""
    return _print(args.name) if args.action == "print" else _install(args)


def _print(name: str | None) -> int:
    from cleaner.cli.setup.unit_files import BY_NAME

    if name is not None and name not in BY_NAME:
        raise InvalidConfig(name, None, f"is none of {', '.join(BY_NAME)}{did_you_mean(name, BY_NAME)}")
    for file in (BY_NAME[name],) if name else BY_NAME.values():
        heading = "" if name else f"# ==== {file.name}\n"
        sys.stdout.write(heading + file.text() + ("" if name else "\n"))
    return ExitStatus.DONE


def _install(args: argparse.Namespace) -> int:
    from cleaner.cli.setup.unit_files import COMMAND, placed

    command = _command(args.command)
    if not args.prefix.is_absolute():
        raise InvalidConfig("--prefix", str(args.prefix), "must begin with /")
    for path, file in placed(args.root, args.prefix):
        is_kept = file.is_edited and path.exists()
        if not is_kept:
            with as_unwritable(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file.text().replace(COMMAND, command), "utf-8")
        sys.stdout.write(f"{path}{': exists, left as it is' if is_kept else ''}\n")
    if args.root == Path("/"):
        complain(
            "now edit /etc/logcleaner.toml and log-dirs.conf; then run systemd-sysusers and systemctl daemon-reload"
        )
    return ExitStatus.DONE


def _command(said: PurePath | None) -> str:
    """Return how the units call this program: by ``--command``, else by absolute paths."""
    if said is None and shutil.which("logcleaner") is None and Path(sys.argv[0]).name == "__main__.py":
        return f"{sys.executable} -m cleaner"
    command = said or PurePath(shutil.which("logcleaner") or Path(sys.argv[0]).absolute())
    if not command.is_absolute():
        raise InvalidConfig("--command", str(command), "must begin with /")
    if any(command.is_relative_to(hidden) for hidden in _HIDDEN_BY_PROTECT_HOME):
        complain(f"{command}: the units cannot see home directories (ProtectHome=yes); install it elsewhere")
    return str(command)
