"""Write the generated parts of the documents and the picture of the README: ``python -m tests.docs``."""

from __future__ import annotations

from tests.docs import picture
from tests.docs.parts import DOCS, pages, with_parts


def main() -> None:
    """Write them all."""
    for name in pages():
        (DOCS / name).write_text(with_parts(name), "utf-8")
    picture.PICTURE.write_text(picture.picture(), "utf-8")


if __name__ == "__main__":
    main()
