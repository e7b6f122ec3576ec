"""Put generated text between the markers of a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests import flips
from tests.docs import configuration, documents, manifests, metrics, options

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PARTS: Final[dict[tuple[str, str], Callable[[], str]]] = {
    ("configuration.md", "layers"): configuration.layers,
    ("configuration.md", "keys"): configuration.keys,
    ("verify.md", "flips"): flips.table,
}
"""Document and name of the part -> what makes the part. ``python -m tests.docs`` writes these into the documents."""
AT_BUILD: Final[dict[tuple[str, str], Callable[[], str]]] = {
    ("commands.md", "options"): options.options,
    ("json.md", "documents"): documents.documents,
    ("metrics.md", "metrics"): metrics.families,
    **{("kubernetes.md", name): partial(manifests.shown, name) for name in manifests.NAMES},
}
"""The parts that only the site has: the build puts them in place of their marker."""


def with_parts(name: str) -> str:
    """Return the text of a document in ``docs`` with all its parts made anew."""
    text = (DOCS / name).read_text("utf-8")
    for (document, part), make in PARTS.items():
        if document == name:
            text = _with_part(text, part, make())
    return text


def built(name: str, text: str) -> str:
    """Return the text of a page of the site: in place of each marker stands the part that only the site has."""
    for (document, part), make in AT_BUILD.items():
        if document == name:
            marker = f"<!-- generated at build: {part} -->"
            assert text.count(marker) == 1, f"{text.count(marker)} markers of the part {part}"
            text = text.replace(marker, make())
    return text


def pages() -> Sequence[str]:
    """Return the names of the documents that have generated parts."""
    return sorted({name for name, _ in PARTS})


def _with_part(text: str, part: str, made: str) -> str:
    start, end = f"<!-- generated: {part} -->", "<!-- end of generated -->"
    replaced, places = re.subn(
        f"{re.escape(start)}\n.*?{re.escape(end)}", lambda _: f"{start}\n\n{made}\n\n{end}", text, flags=re.DOTALL
    )
    assert places == 1, f"{places} places for the part {part}"
    return replaced
