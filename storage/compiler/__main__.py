"""``python -m storage.compiler``: compile the kernels anew. ``--if-needed``: only if they are not of these sources."""

from __future__ import annotations

import sys

from storage.compiler.build import build, is_built

if __name__ == "__main__" and not ("--if-needed" in sys.argv[1:] and is_built()):
    build()
