"""Asserts that a bundle stands alone. The bundle's own Python runs this text by -c; an error ends it."""

import ctypes
import subprocess
import sys
import zlib
from importlib.util import cache_from_source
from pathlib import Path

import numpy as np

from storage.codecs.symbols import ISAL_CRC32, CodecCalls, find_libraries

ROOT = Path(sys.prefix)
UNCHECKED = (1).to_bytes(4, "little")
"""The flags of bytecode that Python believes without a look at the source."""
PACKAGES = Path(np.__file__).parents[1]


def check_paths() -> None:
    """See that Python looks for modules, and maps files, in the bundle alone."""
    assert sys.flags.isolated
    assert sys.dont_write_bytecode
    assert all(Path(path).is_relative_to(ROOT) for path in sys.path), sys.path
    for library in sorted(ROOT.rglob("*.so")) + sorted(ROOT.glob("lib/*.so.*")):
        ctypes.CDLL(str(library))
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # not mounted in a bare chroot
        return
    mapped = {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) > 5 and fields[5].startswith("/")}
    assert mapped
    of_host = [path for path in mapped if not Path(path).is_relative_to(ROOT.resolve())]
    assert not of_host, of_host


def check_child() -> None:
    """See that ``sys.executable`` starts the bundle's Python again, as the daemon does."""
    assert Path(sys.executable) == ROOT / "bin/python3", sys.executable
    command = [sys.executable, "-c", "import sys; print(sys.prefix, sys.executable)"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env={}).stdout
    assert told == f"{sys.prefix} {sys.executable}\n", told


def check_codecs() -> None:
    """See that the fast codecs find their libraries. Without them all would work, but slowly."""
    libraries = find_libraries()
    assert libraries.lz4, "the wheel of lz4 exports no functions"
    assert libraries.zstd, "the wheel of zstandard exports no functions"
    assert libraries.isal, "the wheel of isal exports no functions"
    assert libraries.zlib_ng, "the wheel of zlib-ng exports no functions"
    assert libraries.zlib, f"{zlib} exports no functions"
    words = CodecCalls(libraries).words
    assert all(words[: ISAL_CRC32 + 1]), words


def check_bytecode() -> None:
    """See that no module has to be compiled at run time."""
    sources = [*ROOT.glob("lib*/python3*/**/*.py")]
    bytecode = [Path(cache_from_source(str(path))) for path in sources]
    stale = [str(path) for path in bytecode if not path.exists() or path.read_bytes()[4:8] != UNCHECKED]
    assert not stale, stale
    assert len([*ROOT.glob("lib*/python3*/**/*.pyc")]) > 1000


check_paths()
check_child()
check_codecs()
check_bytecode()
print(
    f"logcleaner of {ROOT}: Python {sys.version.split()[0]}, all codecs,",
    f"{len(list(PACKAGES.glob('*.dist-info')))} packages",
)
