"""The parsers under atheris, which is guided by coverage; needs the dependency group ``fuzz``.

``python -m tests.fuzz.guided CORPUS_DIR -max_total_time=60``, and whatever else libFuzzer takes. A finding ends the
process and leaves the bytes in a file ``crash-...``. The kernels are compiled: no coverage guides there.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["storage"]):
    from tests.fuzz.parsers import parse


if __name__ == "__main__":
    atheris.Setup(sys.argv, parse)
    atheris.Fuzz()
