"""What a wheel holds besides the packages: compiled kernels, JSON Schemas, the manual page and the service's files.

The schemas are made of the types of the documents, the manual page of the command line itself. An editable install
needs the kernels and the schemas: they are put into the working copy, where it also finds the service's files.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Extras(BuildHookInterface[Any]):
    """Run by hatchling before it builds a wheel; the command line is parsed with the standard library alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, make schemas and page, and have the wheel carry all of it."""
        # in a process of its own: the kernels are compiled by processes that it starts anyway
        subprocess.run([sys.executable, "-m", "storage.compiler", "--if-needed"], cwd=self.root, check=True)
        subprocess.run([sys.executable, "-m", "cleaner.documents.schemas"], cwd=self.root, check=True)
        if version == "editable":
            return
        # the libraries are called by ctypes, and need no Python of one version and no C library of one kind
        machine = platform.machine()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
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
