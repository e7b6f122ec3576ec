"""A hook of mkdocs: the first page of the site is the README, whose links are made to fit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
CONFIG: Final = ROOT / ".mkdocs.yml"
_BESIDE: Final = ("CHANGELOG.md",)
"""Documents beside the README that it links to; the site carries them, too."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the README, and what lies beside it, to the pages of the site."""
    readme = (ROOT / "README.md").read_text("utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=readme))
    for name in _BESIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text("utf-8")))
    return files
