"""Write sizes and counts as the words of a sentence."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(size_bytes: int) -> str:
    """Return a size for people, such as ``1.2 GiB``."""
    if size_bytes < 1 << 10:
        return counted(size_bytes, "byte")
    scaled = float(size_bytes)
    for unit in _UNITS:
        scaled /= 1 << 10
        if scaled < 1023.95 or unit == _UNITS[-1]:
            return f"{scaled:.1f} {unit}"
    raise AssertionError(size_bytes)


def offsets(start: int, end: int) -> str:
    """Return the offsets from one on and below another, both named that exist: ``offsets 0 to 49``."""
    return f"offsets {start} to {end - 1}" if end > start else f"no offset, {end} is the next"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 segment``, ``1,200 segments``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
