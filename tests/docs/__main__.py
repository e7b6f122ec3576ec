"""Write the generated parts of the documents and the picture of the README: ``python -m tests.docs``."""

from __future__ import annotations

import subprocess
import sys

from tests.docs import picture
from tests.docs.parts import DOCS, pages, with_parts


def main() -> None:
    """Write them all."""
    for name in pages():
        (DOCS / name).write_text(with_parts(name), "utf-8")
    try:
        made = picture.picture()
    except subprocess.CalledProcessError as failed:  # stale kernels, for one: the command says what to do
        sys.exit(f"{picture.PICTURE.name} was not made: {failed.stderr.strip()}")
    picture.PICTURE.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
