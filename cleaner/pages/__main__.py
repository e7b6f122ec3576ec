"""Write the page of a document that comes on stdin to a file: ``python -m cleaner.pages FILE``.

The daemon uses this process, so that a page takes none of the daemon's memory and time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cleaner.errors import UnwritableFile
from cleaner.pages.writing import write_page


def main() -> int:
    """Write the page. If this fails, print a line on stderr, and return 1."""
    try:
        write_page(Path(sys.argv[1]), json.load(sys.stdin))
    except UnwritableFile as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
