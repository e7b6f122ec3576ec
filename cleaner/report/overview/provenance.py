"""The provenance of a report: version, command line, moment, and the files of the configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file that a configuration was read from."""

    path: str
    sha256: str | None
    """The hash of its bytes when the report was made; None of a directory, or if the file can no longer be read."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The version, the command line and the moment of a report, and the files that it goes by."""

    version: str
    command: tuple[str, ...]
    """The command line, word by word."""
    made_ms: int
    """The moment at which the report was made, epoch ms."""
    log_dirs: tuple[str, ...]
    files: tuple[ConfigurationFile, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return the values as JSON."""
        return {
            "version": self.version,
            "command": list(self.command),
            "made_ms": self.made_ms,
            "log_dirs": list(self.log_dirs),
            "configuration_files": [asdict(file) for file in self.files],
        }
