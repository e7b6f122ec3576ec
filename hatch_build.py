"""What a wheel holds besides the packages: the manual page, made of the command line itself, and the service's files.

Not an editable install, which finds the latter in the working copy.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Extras(BuildHookInterface[Any]):
    """Run by hatchling before it builds a wheel; the command line is parsed with the standard library alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the page, and have the wheel carry all of it."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from cleaner.cli.main import build_parser  # noqa: PLC0415 - found through the path above
        from cleaner.cli.man import man_page  # noqa: PLC0415 - the same

        self._scratch = tempfile.TemporaryDirectory()
        page = Path(self._scratch.name) / "logcleaner.1"
        page.write_text(man_page(build_parser()), "utf-8")
        build_data["shared_data"][str(page)] = "share/man/man1/logcleaner.1"
        for folder in ("systemd", "monitoring"):
            build_data["force_include"][str(Path(self.root) / folder)] = f"cleaner/share/{folder}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        del build_data, artifact_path
        if version != "editable":
            self._scratch.cleanup()
