"""The manifests that docs/kubernetes.md shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "docs/kubernetes"
NAMES: Final = tuple(sorted(path.name for path in FOLDER.glob("*.yaml")))


def shown(name: str) -> str:
    """Return a manifest as a block of code."""
    return f"```yaml\n{(FOLDER / name).read_text('utf-8')}```"
