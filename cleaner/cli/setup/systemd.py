"""The command ``systemd``: it prints the units that the wheel carries, or installs them."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

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

    if name is not None and name not in BY_NAME:
        raise InvalidConfig(name, None, f"is none of {', '.join(BY_NAME)}{did_you_mean(name, BY_NAME)}")
    for file in (BY_NAME[name],) if name else BY_NAME.values():
        heading = "" if name else f"# ==== {file.name}\n"
        sys.stdout.write(heading + file.text() + ("" if name else "\n"))
    return ExitStatus.DONE


def _install(args: argparse.Namespace) -> int:

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
    """Return the command with which the units call this program: that of ``--command``, else one of absolute paths."""
    if said is None and shutil.which("logcleaner") is None and Path(sys.argv[0]).name == "__main__.py":
        return f"{sys.executable} -m cleaner"
    command = said or PurePath(shutil.which("logcleaner") or Path(sys.argv[0]).absolute())
    if not command.is_absolute():
        raise InvalidConfig("--command", str(command), "must begin with /")
    if any(command.is_relative_to(hidden) for hidden in _HIDDEN_BY_PROTECT_HOME):
        complain(f"{command}: the units cannot see home directories (ProtectHome=yes); install it elsewhere")
    return str(command)


PACKAGED: Final = Path(__file__).parents[2] / "share"
"""The folder of the files in an installed wheel."""
CHECKOUT: Final = Path(__file__).parents[3]
"""The folder of the files in a working copy."""
COMMAND: Final = "/usr/bin/logcleaner"
"""The command that the files call until they are installed."""
_UNITS: Final = ("logcleaner.service", "logcleaner-clean.service", "logcleaner-clean.timer")
_SPARK_UNITS: Final = ("logcleaner-analyze.service", "logcleaner-analyze.timer")
_DROP_INS: Final = ("logcleaner.service.d", "logcleaner-clean.service.d")
_FOR_KAFKA: Final = ("kafka-user.conf", "10-make-way-for-kafka.conf", "20-free-before-kafka.conf")
_EXAMPLES: Final = "share/doc/logcleaner/examples"


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One file of the service or its monitoring."""

    name: str
    """The name that ``systemd print`` takes."""
    places: tuple[str, ...]
    """Path below the prefix; below the root if a person edits the file."""
    is_edited: bool = False
    folder: str = "systemd"
    needs_spark: bool = False
    """Whether the file needs the extra ``spark``."""

    def text(self) -> str:
        """Return the file's content."""
        root = PACKAGED if PACKAGED.is_dir() else CHECKOUT
        return (root / self.folder / self.name).read_text("utf-8")


FILES: Final = (
    *(UnitFile(name, (f"lib/systemd/system/{name}",)) for name in _UNITS),
    *(UnitFile(name, (f"lib/systemd/system/{name}",), needs_spark=True) for name in _SPARK_UNITS),
    UnitFile("logcleaner.sysusers.conf", ("lib/sysusers.d/logcleaner.conf",)),
    UnitFile("logcleaner.tmpfiles.conf", ("lib/tmpfiles.d/logcleaner.conf",)),
    UnitFile("logcleaner.toml", ("etc/logcleaner.toml",), is_edited=True),
    UnitFile("log-dirs.conf", tuple(f"etc/systemd/system/{d}/log-dirs.conf" for d in _DROP_INS), is_edited=True),
    *(UnitFile(name, (f"{_EXAMPLES}/{name}",)) for name in _FOR_KAFKA),
    *(
        UnitFile(name, (f"{_EXAMPLES}/{name}",), folder="monitoring")
        for name in ("alerts.yml", "alerts_test.yml", "dashboard.json")
    ),
)
BY_NAME: Final = {file.name: file for file in FILES}


def has_spark() -> bool:
    """Return whether the extra ``spark`` is installed."""
    return importlib.util.find_spec("pyspark") is not None


def placed(root: Path, prefix: PurePath) -> Iterator[tuple[Path, UnitFile]]:
    """Yield every file with its path on the machine.

    A file that needs an extra is left out if the extra is not installed.

    Args:
        root: root of the file system.
        prefix: prefix of the vendor files, absolute.
    """
    vendor = root / prefix.relative_to("/")
    for file in FILES:
        if file.needs_spark and not has_spark():
            continue
        for place in file.places:
            yield (root if file.is_edited else vendor) / place, file
