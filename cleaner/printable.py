"""Text of unknown origin, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters and undecodable bytes escaped: no topic's name moves the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
