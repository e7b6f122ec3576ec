"""A hook of mkdocs: the first page of the site is the README, and the documents beside the README are pages, too.

The schemas that the wheel carries become files of the site, and its pages get the generated parts that only the site
has. A page links to all of them as on disk, by ``../README.md``; here the links are made to fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from cleaner.documents.schemas import as_text, file_name
from tests.docs.parts import built
from tests.schemas import names, schema

ROOT: Final = Path(__file__).parents[2]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the README, and what lies beside it, to the pages of the site."""
    for path in sorted(ROOT.glob("*.md")):
        page = File.generated(config, _page(path.name), content=path.read_text("utf-8").replace("](docs/", "]("))
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    for name in names():
        files.append(File.generated(config, f"schemas/{file_name(name)}", content=as_text(schema(name))))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Add the generated parts; lead links to the README, and to what lies beside it, to the pages made of them."""
    markdown = built(page.file.src_uri, markdown)
    for path in sorted(ROOT.glob("*.md")):
        markdown = markdown.replace(f"](../{path.name}", f"]({_page(path.name)}")
        markdown = markdown.replace(f"]({path.name}", f"]({_page(path.name)}")
    return markdown


def _page(name: str) -> str:
    return "index.md" if name == "README.md" else name
