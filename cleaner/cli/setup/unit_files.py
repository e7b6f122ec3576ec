"""The files that the wheel carries for a service and its monitoring, and the place of each on a machine.

Vendor files go below a prefix (``/usr/local``; ``/usr`` for a distribution's package). Files that a person edits go to
``/etc`` and are never overwritten.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

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
    """Paths below the prefix; below the root if a person edits the file."""
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
    """Yield every file, and its path on the machine, without those that need an extra that is not installed.

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
