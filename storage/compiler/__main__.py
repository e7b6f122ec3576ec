"""``python -m storage.compiler``: compile the kernels anew. ``--if-needed``: only if they are not of these sources."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError

from storage.compiler.build import build, is_built, levels
from storage.errors import LogCleanerError

if __name__ == "__main__":
    if_needed = "--if-needed" in sys.argv[1:]
    try:
        if not (if_needed and is_built()):
            what = f"compiling the kernels for {', '.join(levels())}: 30 seconds of CPU"
            print(f"storage.compiler: {what}", file=sys.stderr, flush=True)  # noqa: T201
        build(if_needed=if_needed)
    except PackageNotFoundError as missing:
        sys.exit(f"storage.compiler: {missing.name} is not installed; run: uv sync --group compiler")
    except LogCleanerError as refused:
        sys.exit(f"storage.compiler: {refused}")
