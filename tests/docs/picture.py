"""The terminal picture of the README: what a real dry run on the demo prints, as SVG."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from cleaner.demo import make_demo
from storage.filesystem import FileSystem

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs/pictures/dry-run.svg"
COLUMNS: Final = 80
NOW_MS: Final = 1_795_341_600_000
"""2026-11-22T10:00:00Z: the demo is made for this moment, so that the picture is the same in each run."""
_COMMAND: Final = ("clean", "--dry-run", "--topic", "clicks", "orders-0", "--log-dir", "demo-logs")
_HEADING: Final = re.compile(r"\S*/demo-logs: .*?system", re.DOTALL)
_ANSI: Final = re.compile(r"\x1b\[[\d;]*m")
_FREE: Final = re.compile(r"[\d.]+ [KMGT]iB free")
_FONT_FACES: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def picture() -> str:
    """Return the picture."""
    console = Console(file=StringIO(), record=True, width=COLUMNS, force_terminal=True)
    console.print(Text(f"$ logcleaner {' '.join(_COMMAND)}", style="bold"))
    console.print(Text.from_ansi(shown()), end="")
    svg = console.export_svg(title="logcleaner", theme=MONOKAI, unique_id="logcleaner")
    svg = _FONT_FACES.sub("", svg).replace("Fira Code", "ui-monospace")  # no viewer has to fetch a font
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def shown() -> str:
    """Return what the dry run prints on a terminal; what differs between machines is replaced."""
    with tempfile.TemporaryDirectory() as scratch:
        make_demo(Path(scratch) / "demo-logs", FileSystem(), NOW_MS, 1)
        done = subprocess.run(
            (sys.executable, "-m", "cleaner", *_COMMAND, "--now", str(NOW_MS)),
            check=True, capture_output=True, text=True, cwd=scratch,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "NO_COLOR": "",
                 "TERM": "xterm-256color", "TZ": "UTC"},
        )  # fmt: skip
        return _HEADING.sub(_anywhere, done.stdout)


def _anywhere(heading: re.Match[str]) -> str:
    """Return the line of the log dir without its path, and with a free space that is the same on each machine."""
    words = " ".join(_ANSI.sub(" ", heading[0]).split())
    return f"\x1b[1m{_FREE.sub('100.0 GiB free', 'demo-logs:' + words.partition('demo-logs:')[2])}"
