"""What tests of several packages ask for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def pipe() -> Iterator[Callable[[str | bytes], Path]]:
    """Makes the path of a pipe that holds a text, as ``<(...)`` of a shell does."""
    ends: list[int] = []

    def write(end: int, data: bytes) -> None:
        with os.fdopen(end, "wb") as file:
            file.write(data)

    def holding(text: str | bytes) -> Path:
        reading, writing = os.pipe()
        ends.append(reading)
        data = text.encode() if isinstance(text, str) else text
        threading.Thread(target=write, args=(writing, data), daemon=True).start()  # a pipe takes 64 KiB at a time
        return Path(f"/dev/fd/{reading}")

    yield holding
    for end in ends:
        os.close(end)
