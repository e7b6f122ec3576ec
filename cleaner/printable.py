"""Text of unknown origin, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape control characters and undecodable bytes, so that no topic name can move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
